//! Limits: a client cannot request too much, block other clients, or make the server keep data that the client does not
//! read.

use dataplane::PortId;
use gnmi_proto::gnmi::subscribe_response::Response;
use gnmi_proto::gnmi::subscription_list::Mode;
use gnmi_proto::gnmi::typed_value::Value;
use gnmi_proto::gnmi::{Encoding, GetRequest, Path, Subscription, SubscriptionMode};
use gnmi_proto::gnmi_ext::{Depth, Extension, RegisteredExtension, extension::Ext};
use gnmi_server::limits::{PATHS_MAX, SUBSCRIPTIONS_MAX};
use testkit::text::assert_has;
use tonic::Code;

use crate::harness::*;

fn everything() -> Subscription {
    Subscription {
        sample_interval: 100_000_000,
        ..to("/", SubscriptionMode::Sample)
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_nobody_up_and_goes_on_with_new_values() {
    let harness = Harness::with_ports(64).await;
    harness.set_pipeline().await;
    let on_change = to(
        "/interfaces/interface[name=veth1]/state/oper-status",
        SubscriptionMode::OnChange,
    );
    let all = vec![everything(); 20];
    let mut slow = harness.subscribe(list(Mode::Stream, all)).await;
    let mut quick = harness.subscribe(list(Mode::Stream, vec![on_change])).await;
    quick.until_sync().await;
    let name = Subscription {
        sample_interval: 100_000_000,
        ..to(
            "/interfaces/interface[name=veth1]/state/name",
            SubscriptionMode::Sample,
        )
    };
    let mut clock = harness.subscribe(list(Mode::Stream, vec![name])).await;
    clock.until_sync().await;
    // In each round the server has to send all values to the client that reads nothing. All rounds together amount to
    // some megabytes.
    for is_up in [false, true].repeat(4) {
        harness.switch.set_port_up(PortId(1), is_up);
        let status = if is_up { "UP" } else { "DOWN" };
        assert_eq!(updates(&quick.notification().await)[0].1, string(status));
        assert_eq!(updates(&clock.notification().await)[0].1, string("veth1"));
    }
    harness.ports_of(0);
    // The slow client first reads old messages, then current values.
    loop {
        let answer = slow.next().await.unwrap();
        let Some(Response::Update(notification)) = answer else {
            continue;
        };
        let updates = updates(&notification);
        if updates.contains(&(of("veth0", "state/counters/in-pkts"), Value::UintVal(1))) {
            break;
        }
    }
}

#[tokio::test]
async fn requests_that_ask_for_too_much_are_refused() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let many = GetRequest {
        path: vec![path("/interfaces"); PATHS_MAX + 1],
        ..GetRequest::default()
    };
    assert_eq!(
        client.get(many).await.unwrap_err().code(),
        Code::ResourceExhausted
    );
    let large = GetRequest {
        path: vec![path("/interfaces"); PATHS_MAX],
        encoding: Encoding::Proto.into(),
        ..GetRequest::default()
    };
    let refused = client.get(large).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("ONCE"), "{refused:?}");
    let long = Path {
        target: "x".repeat(300 * 1024),
        ..Path::default()
    };
    let long = GetRequest {
        prefix: Some(long),
        ..GetRequest::default()
    };
    assert_eq!(client.get(long).await.unwrap_err().code(), Code::OutOfRange);
    let mut subscriber = harness
        .subscribe(list(Mode::Stream, vec![everything(); 1_000]))
        .await;
    let refused = subscriber.refused().await;
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_has(refused.message(), "longer intervals");
}

#[tokio::test]
async fn there_is_room_for_so_many_subscriptions_and_again_when_one_has_ended() {
    let harness = Harness::start().await;
    let asked = || {
        list(
            Mode::Stream,
            vec![to(
                "/interfaces/interface/state/oper-status",
                SubscriptionMode::OnChange,
            )],
        )
    };
    let mut subscribers = Vec::new();
    for _ in 0..SUBSCRIPTIONS_MAX {
        let mut subscriber = harness.subscribe(asked()).await;
        subscriber.until_sync().await;
        subscribers.push(subscriber);
    }
    let one_more = harness
        .client()
        .await
        .subscribe(tokio_stream::empty())
        .await;
    assert_eq!(one_more.unwrap_err().code(), Code::ResourceExhausted);
    subscribers.pop();
    // The server notices a little later that the subscription has ended.
    let again = async {
        while harness
            .client()
            .await
            .subscribe(tokio_stream::pending())
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
    };
    in_time(again).await;
}

#[tokio::test]
async fn extensions_that_would_change_a_request_are_refused_and_others_ignored() {
    let harness = Harness::start().await;
    let client = harness.client().await;
    let asked = |ext| {
        let request = GetRequest {
            path: vec![path("/interfaces")],
            extension: vec![Extension { ext: Some(ext) }],
            ..GetRequest::default()
        };
        let mut client = client.clone();
        async move { client.get(request).await }
    };
    let refused = asked(Ext::Depth(Depth { level: 1 })).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("depth"), "{refused:?}");
    let registered = RegisteredExtension {
        id: 999,
        msg: vec![1],
    };
    assert!(asked(Ext::RegisteredExt(registered)).await.is_ok());
}
