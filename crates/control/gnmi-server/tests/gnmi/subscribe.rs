//! gNMI specification 3.5: what a subscription sends, and when.

use std::time::Duration;

use dataplane::PortId;
use gnmi_proto::gnmi::subscribe_request::Request;
use gnmi_proto::gnmi::subscribe_response::Response;
use gnmi_proto::gnmi::subscription_list::Mode;
use gnmi_proto::gnmi::typed_value::Value;
use gnmi_proto::gnmi::{Encoding, Path, Subscription, SubscriptionList, SubscriptionMode};
use tokio::time::Instant;
use tonic::Code;

use crate::harness::*;

const MS: u64 = 1_000_000;

fn statuses() -> String {
    "/interfaces/interface[name=*]/state/oper-status".to_owned()
}

fn sample(text: &str, every_ms: u64) -> Subscription {
    Subscription {
        sample_interval: every_ms * MS,
        ..to(text, SubscriptionMode::Sample)
    }
}

#[tokio::test]
async fn once_reports_each_value_then_that_it_was_all_and_ends() {
    let harness = Harness::start().await;
    let mut subscriber = harness
        .follow(Mode::Once, &statuses(), SubscriptionMode::TargetDefined)
        .await;
    let ports = (0..4).map(|id| (of(&format!("veth{id}"), "state/oper-status"), string("UP")));
    assert_eq!(subscriber.until_sync().await, ports.collect::<Vec<_>>());
    assert!(subscriber.next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_poll_reports_the_values_of_its_moment() {
    let harness = Harness::start().await;
    let path = of("veth0", "state/counters/in-pkts");
    let mut subscriber = harness
        .follow(Mode::Poll, &path, SubscriptionMode::TargetDefined)
        .await;
    let found = subscriber.until_sync().await;
    assert_eq!(found, [(path.clone(), Value::UintVal(0))]);
    for n_frames in 1..4 {
        harness.ports_of(0);
        subscriber.poll();
        let found = subscriber.until_sync().await;
        assert_eq!(found, [(path.clone(), Value::UintVal(n_frames))]);
    }
    subscriber.send(Request::Subscribe(SubscriptionList::default()));
    assert_eq!(subscriber.refused().await.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_change_is_reported_with_what_changed_beside_it_and_nothing_else() {
    let harness = Harness::start().await;
    let state = of("veth1", "state");
    let mut subscriber = harness
        .follow(Mode::Stream, &state, SubscriptionMode::OnChange)
        .await;
    let first = subscriber.until_sync().await;
    assert!(
        first.contains(&(of("veth1", "state/oper-status"), string("UP"))),
        "{first:?}"
    );
    harness.switch.set_port_up(PortId(2), false);
    harness.enable("veth1", false).await;
    let notification = subscriber.notification().await;
    let updates = updates(&notification);
    let paths: Vec<_> = updates
        .iter()
        .map(|(path, _)| path.rsplit('/').next().unwrap())
        .collect();
    let expected = ["enabled", "admin-status", "oper-status", "last-change"];
    assert_eq!(paths, expected);
    assert_eq!(updates[2].1, string("DOWN"));
    assert_eq!(
        updates[3].1,
        Value::UintVal(notification.timestamp.unsigned_abs())
    );
    harness.switch.set_port_up(PortId(1), false);
    // The server has already reported the disabled port as down, so only the count of its carrier transitions changes.
    let notification = subscriber.notification().await;
    let (path, value) = &self::updates(&notification)[0];
    assert_eq!(
        (path, value),
        (
            &of("veth1", "state/counters/carrier-transitions"),
            &Value::UintVal(1)
        )
    );
}

#[tokio::test]
async fn updates_only_begins_with_the_first_change() {
    let harness = Harness::start().await;
    let paths = (0..4).map(|id| {
        to(
            &of(&format!("veth{id}"), "state"),
            SubscriptionMode::OnChange,
        )
    });
    let asked = SubscriptionList {
        updates_only: true,
        ..list(Mode::Stream, paths.collect())
    };
    let mut subscriber = harness.subscribe(asked).await;
    assert_eq!(subscriber.until_sync().await, []);
    harness.switch.set_port_up(PortId(3), false);
    let updates = subscriber.updates().await;
    assert!(
        updates.contains(&(of("veth3", "state/oper-status"), string("DOWN"))),
        "{updates:?}"
    );
}

#[tokio::test]
async fn counters_that_change_are_reported_once_in_a_while() {
    let harness = Harness::start().await;
    let path = of("veth0", "state/counters/in-pkts");
    let mut subscriber = harness
        .follow(Mode::Stream, &path, SubscriptionMode::OnChange)
        .await;
    let found = subscriber.until_sync().await;
    assert_eq!(found, [(path.clone(), Value::UintVal(0))]);
    for _ in 0..50 {
        harness.ports_of(0);
    }
    assert_eq!(subscriber.updates().await, [(path, Value::UintVal(50))]);
}

#[tokio::test]
async fn samples_come_as_often_as_asked_and_redundant_ones_are_left_out() {
    let harness = Harness::start().await;
    let octets = of("veth0", "state/counters/in-octets");
    let began = Instant::now();
    let mut subscriber = harness
        .subscribe(list(Mode::Stream, vec![sample(&octets, 150)]))
        .await;
    subscriber.until_sync().await;
    for _ in 0..4 {
        let found = subscriber.updates().await;
        assert_eq!(found, [(octets.clone(), Value::UintVal(0))]);
    }
    assert!(
        began.elapsed() >= Duration::from_millis(600),
        "{:?}",
        began.elapsed()
    );

    let quiet = Subscription {
        suppress_redundant: true,
        ..sample(&octets, 100)
    };
    let beating = Subscription {
        suppress_redundant: true,
        heartbeat_interval: 200 * MS,
        ..sample(&of("veth1", "state/name"), 100)
    };
    let mut subscriber = harness
        .subscribe(list(Mode::Stream, vec![quiet, beating]))
        .await;
    subscriber.until_sync().await;
    for _ in 0..2 {
        // Nothing has changed: these are heartbeats.
        assert_eq!(subscriber.updates().await[0].1, string("veth1"));
    }
    harness.ports_of(0);
    loop {
        let (path, value) = subscriber.updates().await.remove(0);
        if path == octets {
            assert_eq!(value, Value::UintVal(60));
            break;
        }
    }
}

#[tokio::test]
async fn the_switch_chooses_changes_for_states_and_samples_for_counters() {
    let harness = Harness::start().await;
    let asked = list(
        Mode::Stream,
        vec![to(&of("veth1", "state"), SubscriptionMode::TargetDefined)],
    );
    let mut subscriber = harness.subscribe(asked).await;
    let n_leaves = subscriber.until_sync().await.len();
    assert!(n_leaves > 12, "{n_leaves}");
    harness.switch.set_port_up(PortId(1), false);
    let updates = subscriber.updates().await;
    assert_eq!(
        updates[0],
        (of("veth1", "state/oper-status"), string("DOWN"))
    );
    let refused = Subscription {
        sample_interval: 1_000 * MS,
        ..to(&of("veth1", "state"), SubscriptionMode::TargetDefined)
    };
    let mut subscriber = harness.subscribe(list(Mode::Stream, vec![refused])).await;
    assert_eq!(subscriber.refused().await.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn values_are_scalars_unless_json_ietf_is_asked_for() {
    let harness = Harness::start().await;
    let path = of("veth1", "state/counters/in-pkts");
    for (encoding, expected) in [
        (Encoding::Json, Value::UintVal(0)),
        (Encoding::Proto, Value::UintVal(0)),
        (Encoding::JsonIetf, Value::JsonIetfVal(b"\"0\"".to_vec())),
    ] {
        let asked = SubscriptionList {
            encoding: encoding.into(),
            prefix: Some(Path {
                target: "s1".into(),
                ..Path::default()
            }),
            ..list(Mode::Once, vec![to(&path, SubscriptionMode::TargetDefined)])
        };
        let mut subscriber = harness.subscribe(asked).await;
        let notification = subscriber.notification().await;
        assert_eq!(notification.prefix.as_ref().unwrap().target, "s1");
        assert_eq!(updates(&notification), [(path.clone(), expected)]);
    }
    let asked = SubscriptionList {
        encoding: Encoding::Ascii.into(),
        ..list(Mode::Once, vec![to(&path, SubscriptionMode::TargetDefined)])
    };
    let found = harness.subscribe(asked).await.refused().await.code();
    assert_eq!(found, Code::Unimplemented);
}

#[tokio::test]
async fn what_is_not_there_is_waited_for_and_what_no_schema_has_is_refused() {
    let harness = Harness::start().await;
    let asked = list(
        Mode::Stream,
        vec![
            to(&of("veth9", "state"), SubscriptionMode::OnChange),
            to(&of("veth1", "state/mtu"), SubscriptionMode::OnChange),
            to(
                &of("veth1", "state/oper-status"),
                SubscriptionMode::OnChange,
            ),
        ],
    );
    let mut subscriber = harness.subscribe(asked).await;
    assert_eq!(subscriber.until_sync().await.len(), 1);
    harness.switch.set_port_up(PortId(1), false);
    assert_eq!(subscriber.updates().await[0].1, string("DOWN"));
    for (text, code) in [
        ("/lldp", Code::InvalidArgument),
        ("/interfaces/interface/subinterfaces", Code::Unimplemented),
    ] {
        let mut subscriber = harness
            .follow(Mode::Once, text, SubscriptionMode::Sample)
            .await;
        let refused = subscriber.refused().await;
        assert_eq!(refused.code(), code);
        assert!(refused.message().contains(text), "{refused:?}");
    }
}

#[tokio::test]
async fn a_stream_that_begins_otherwise_is_refused() {
    let harness = Harness::start().await;
    let mut subscriber = harness.subscribe(SubscriptionList::default()).await;
    assert_eq!(subscriber.refused().await.code(), Code::InvalidArgument);
    let mut subscriber = harness
        .follow(Mode::Stream, &statuses(), SubscriptionMode::OnChange)
        .await;
    subscriber.until_sync().await;
    subscriber.poll();
    assert_eq!(subscriber.refused().await.code(), Code::InvalidArgument);
    let short = sample(&statuses(), 1);
    let mut subscriber = harness.subscribe(list(Mode::Stream, vec![short])).await;
    let refused = subscriber.refused().await;
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("100 ms"), "{refused:?}");
}

#[tokio::test]
async fn a_client_that_has_said_all_still_receives_changes() {
    let harness = Harness::start().await;
    let Subscriber { requests, answers } = harness
        .follow(Mode::Stream, &statuses(), SubscriptionMode::OnChange)
        .await;
    drop(requests);
    let (requests, _) = tokio::sync::mpsc::unbounded_channel();
    let mut subscriber = Subscriber { requests, answers };
    subscriber.until_sync().await;
    harness.switch.set_port_up(PortId(0), false);
    let found = subscriber.updates().await;
    assert_eq!(found, [(of("veth0", "state/oper-status"), string("DOWN"))]);
}

#[tokio::test]
async fn streams_end_with_the_server() {
    let harness = Harness::start().await;
    let mut subscriber = harness
        .follow(Mode::Stream, &statuses(), SubscriptionMode::OnChange)
        .await;
    subscriber.until_sync().await;
    harness.gnmi.end();
    assert_eq!(subscriber.refused().await.code(), Code::Unavailable);
    assert!(
        matches!(harness.subscribe(SubscriptionList::default()).await.next().await, Err(status) if status.code() == Code::Unavailable)
    );
}

#[tokio::test]
async fn a_notification_is_sent_for_each_interface() {
    let harness = Harness::start().await;
    let mut subscriber = harness
        .follow(Mode::Once, "/", SubscriptionMode::Sample)
        .await;
    let mut n_notifications = 0;
    while let Some(Response::Update(notification)) = subscriber.next().await.unwrap() {
        let names: std::collections::BTreeSet<_> = notification
            .update
            .iter()
            .map(|update| update.path.as_ref().unwrap().elem[1].key["name"].clone())
            .collect();
        assert_eq!(names.len(), 1);
        n_notifications += 1;
    }
    assert_eq!(n_notifications, 4);
}
