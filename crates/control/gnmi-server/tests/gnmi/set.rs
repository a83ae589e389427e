//! gNMI specification 3.4: a request enables or disables all of its ports, or none of them.

use dataplane::DropReason;
use gnmi_proto::gnmi::typed_value::Value;
use gnmi_proto::gnmi::update_result::Operation;
use gnmi_proto::gnmi::{Path, SetRequest, Update};
use testkit::text::assert_has;
use tonic::Code::{self, InvalidArgument, NotFound, Unavailable, Unimplemented};
use tonic::Status;

use crate::harness::*;

async fn set(harness: &Harness, request: SetRequest) -> Result<Vec<Operation>, Status> {
    let response = in_time(harness.client().await.set(request))
        .await?
        .into_inner();
    assert!(response.timestamp > 1_500_000_000_000_000_000);
    let operations = response.response.iter();
    Ok(operations.map(|result| result.op()).collect())
}

fn updates(updates: Vec<Update>) -> SetRequest {
    SetRequest {
        update: updates,
        ..SetRequest::default()
    }
}

async fn is_enabled(harness: &Harness, name: &str) -> bool {
    let leaves = ["config/enabled", "state/enabled", "state/admin-status"];
    let mut found = Vec::new();
    for leaf in leaves {
        found.push(harness.leaf(&of(name, leaf)).await);
    }
    match &found[..] {
        [
            Value::BoolVal(true),
            Value::BoolVal(true),
            Value::StringVal(status),
        ] if status == "UP" => true,
        [
            Value::BoolVal(false),
            Value::BoolVal(false),
            Value::StringVal(status),
        ] if status == "DOWN" => false,
        other => panic!("expected one state of {name}, found {other:?}"),
    }
}

fn json(text: &str) -> Value {
    Value::JsonVal(text.as_bytes().to_vec())
}

fn ietf(text: &str) -> Value {
    Value::JsonIetfVal(text.as_bytes().to_vec())
}

#[tokio::test]
async fn a_disabled_port_takes_nothing_in_and_gives_nothing_out() {
    let harness = Harness::with_workers(2).await;
    assert_eq!(harness.ports_of(0), [1]);
    assert_eq!(harness.ports_of(2), [0, 1]);
    harness.enable("veth1", false).await;
    assert!(!is_enabled(&harness, "veth1").await && is_enabled(&harness, "veth0").await);
    let found = harness.leaf(&of("veth1", "state/oper-status")).await;
    assert_eq!(found, string("DOWN"));
    let changed = harness.leaf(&of("veth1", "state/last-change")).await;
    assert!(
        matches!(changed, Value::UintVal(ns) if ns > 1_500_000_000_000_000_000),
        "{changed:?}"
    );
    assert_eq!(harness.ports_of(0), [0; 0]);
    assert_eq!(harness.ports_of(1), [0; 0]);
    assert_eq!(harness.ports_of(2), [0], "the other copies leave");
    for worker in 0..2 {
        harness.switch.in_switch(worker, |switch| {
            assert!(!switch.is_port_enabled(dataplane::PortId(1)));
        });
    }
    let dropped = harness.switch.in_switch(0, |switch| {
        switch.counters().dropped(DropReason::PortDisabled)
    });
    assert_eq!(dropped, 3);
    let counter = async |leaf| {
        harness
            .leaf(&of("veth1", &format!("state/counters/{leaf}")))
            .await
    };
    assert_eq!(counter("in-discards").await, Value::UintVal(1));
    // Two copies of packets were sent to the disabled port, and each of the two workers of the test's switch reports
    // one lost frame.
    assert_eq!(counter("out-discards").await, Value::UintVal(2 + 2));
    assert_eq!(counter("in-pkts").await, Value::UintVal(0));
    assert_eq!(counter("out-pkts").await, Value::UintVal(2));
    harness.enable("veth1", true).await;
    assert_eq!(harness.ports_of(0), [1]);
    assert_eq!(harness.ports_of(1), [0]);
}

#[tokio::test]
async fn a_port_stays_disabled_whatever_the_pipeline() {
    let harness = Harness::without_pipeline(1).await;
    harness.enable("veth1", false).await;
    harness.set_pipeline().await;
    assert_eq!(harness.ports_of(0), [0; 0]);
    harness.set_pipeline().await;
    assert_eq!(harness.ports_of(0), [0; 0]);
    harness.enable("veth1", true).await;
    assert_eq!(harness.ports_of(0), [1]);
}

#[tokio::test]
async fn a_port_is_set_by_its_leaf_its_container_or_itself_in_every_encoding() {
    let harness = Harness::start().await;
    let leaf = of("veth0", "config/enabled");
    let config = of("veth0", "config");
    let interface = of("veth0", "");
    let ways = [
        (&leaf, json("false")),
        (&leaf, ietf("false")),
        (
            &config,
            json(r#"{"enabled": false, "name": "veth0", "id": 0}"#),
        ),
        (
            &config,
            ietf(r#"{"openconfig-interfaces:enabled": false, "openconfig-p4rt:id": 0}"#),
        ),
        (
            &interface,
            json(
                r#"{"name": "veth0", "config": {"enabled": false, "type": "iana-if-type:ethernetCsmacd"}}"#,
            ),
        ),
    ];
    for (path, value) in ways {
        assert_eq!(
            set(&harness, updates(vec![update(path, value)]))
                .await
                .unwrap(),
            [Operation::Update]
        );
        assert!(!is_enabled(&harness, "veth0").await);
        harness.enable("veth0", true).await;
    }
    // `replace` resets missing members to the model's defaults.
    harness.enable("veth0", false).await;
    let replace = SetRequest {
        replace: vec![update(&config, json(r#"{"name": "veth0"}"#))],
        ..SetRequest::default()
    };
    assert_eq!(set(&harness, replace).await.unwrap(), [Operation::Replace]);
    assert!(is_enabled(&harness, "veth0").await);
    harness.enable("veth0", false).await;
    let untouched = updates(vec![update(&config, json(r#"{"name": "veth0"}"#))]);
    set(&harness, untouched).await.unwrap();
    assert!(!is_enabled(&harness, "veth0").await);
}

#[tokio::test]
async fn deletions_come_first_and_the_last_word_counts() {
    let harness = Harness::start().await;
    for name in ["veth0", "veth1", "veth2"] {
        harness.enable(name, false).await;
    }
    let request = SetRequest {
        prefix: Some(path("/interfaces")),
        update: vec![Update {
            path: Some(path("/interface[name=veth2]/config/enabled")),
            ..enabled("", true)
        }],
        replace: vec![
            Update {
                path: Some(path("/interface[name=veth1]/config/enabled")),
                ..enabled("", false)
            },
            Update {
                path: Some(path("/interface[name=veth2]/config/enabled")),
                ..enabled("", false)
            },
        ],
        delete: vec![path("/interface[name=*]/config/enabled")],
        ..SetRequest::default()
    };
    use Operation::{Delete, Replace, Update as Updated};
    let found = set(&harness, request).await.unwrap();
    assert_eq!(found, [Delete, Replace, Replace, Updated]);
    let mut all = Vec::new();
    for name in ["veth0", "veth1", "veth2", "veth3"] {
        all.push(is_enabled(&harness, name).await);
    }
    assert_eq!(all, [true, false, true, true]);
    assert_eq!(set(&harness, SetRequest::default()).await.unwrap(), []);
}

#[tokio::test]
async fn one_mistake_leaves_everything_as_it_was() {
    let harness = Harness::start().await;
    let veth1 = |leaf: &str, value| update(&of("veth1", leaf), value);
    let wrong: Vec<(Update, Code, &str)> = vec![
        (enabled("veth9", false), NotFound, "veth9"),
        (enabled("*", false), InvalidArgument, "name of an interface"),
        (
            veth1("config/enabled", string("false")),
            InvalidArgument,
            "true or false",
        ),
        (
            veth1("config/enabled", json("0")),
            InvalidArgument,
            "true or false",
        ),
        (veth1("config/enabled", json("{")), InvalidArgument, "JSON"),
        (
            veth1("config/enabled", Value::BytesVal(vec![0])),
            Unimplemented,
            "bytes_val",
        ),
        (
            Update {
                val: None,
                ..enabled("veth1", false)
            },
            InvalidArgument,
            "no val",
        ),
        (
            veth1("state/enabled", Value::BoolVal(false)),
            InvalidArgument,
            "read only",
        ),
        (veth1("state", json("{}")), InvalidArgument, "read only"),
        (
            veth1("config/id", Value::UintVal(7)),
            InvalidArgument,
            "expected 1, found 7",
        ),
        (
            veth1("config", json(r#"{"name": "veth2"}"#)),
            InvalidArgument,
            "veth2",
        ),
        (
            veth1("config", json(r#"{"mtu": 9000}"#)),
            Unimplemented,
            "mtu",
        ),
        (
            veth1("config", Value::BoolVal(false)),
            InvalidArgument,
            "JSON object",
        ),
        (
            veth1("config/mtu", Value::UintVal(9000)),
            Unimplemented,
            "mtu",
        ),
        (veth1("config/colour", json("1")), NotFound, "colour"),
        (veth1("*", json("{}")), InvalidArgument, "wildcards"),
        (
            update("/interfaces", json("{}")),
            Unimplemented,
            "one interface at a time",
        ),
    ];
    for (second, code, word) in wrong {
        let request = updates(vec![enabled("veth0", false), second]);
        let refused = set(&harness, request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused:?}");
        assert_has(refused.message(), word);
        assert_has(refused.message(), "update 2");
        assert!(is_enabled(&harness, "veth0").await);
    }
    let refused = set(
        &harness,
        SetRequest {
            delete: vec![path(&of("veth0", "state"))],
            ..SetRequest::default()
        },
    )
    .await;
    assert_eq!(refused.unwrap_err().code(), InvalidArgument);
    let union = SetRequest {
        union_replace: vec![enabled("veth0", false)],
        ..SetRequest::default()
    };
    let found = set(&harness, union).await.unwrap_err().code();
    assert_eq!(found, Unimplemented);
    let empty = SetRequest {
        replace: vec![update(&of("veth0", ""), json("{}"))],
        ..SetRequest::default()
    };
    let found = set(&harness, empty).await.unwrap_err().code();
    assert_eq!(found, InvalidArgument);
}

#[tokio::test]
async fn a_call_that_is_given_up_while_it_waits_changes_nothing_and_one_that_has_exclusive_access_ends()
 {
    let harness = Harness::start().await;
    harness.switch.hold();
    // The first call has exclusive access, and its work waits.
    let device = harness.device.clone();
    let first = tokio::spawn(async move {
        device
            .set_ports_enabled(vec![(dataplane::PortId(0), false)], || 1)
            .await
    });
    while harness.switch.n_held() == 0 {
        tokio::task::yield_now().await;
    }
    let device = harness.device.clone();
    let second = tokio::spawn(async move {
        device
            .set_ports_enabled(vec![(dataplane::PortId(1), false)], || 1)
            .await
    });
    tokio::task::yield_now().await;
    first.abort();
    second.abort();
    assert!(first.await.is_err() && second.await.is_err());
    harness.switch.release();
    // The third call follows the first, although the first caller has given up.
    harness.enable("veth2", false).await;
    let mut all = Vec::new();
    for name in ["veth0", "veth1", "veth2"] {
        all.push(is_enabled(&harness, name).await);
    }
    assert_eq!(all, [false, true, false]);
}

#[tokio::test]
async fn clients_that_write_at_once_leave_every_worker_the_same() {
    let harness = Harness::with_workers(3).await;
    let mut clients = Vec::new();
    for number in 0..8 {
        let mut client = harness.client().await;
        clients.push(tokio::spawn(async move {
            for round in 0..20 {
                let is_enabled = (number + round) % 2 == 0;
                client
                    .set(updates(vec![
                        enabled("veth1", is_enabled),
                        enabled("veth2", !is_enabled),
                    ]))
                    .await
                    .unwrap();
            }
        }));
    }
    for client in clients {
        in_time(client).await.unwrap();
    }
    let ports = [1, 2].map(dataplane::PortId);
    let states = (0..3).map(|worker| {
        harness.switch.in_switch(worker, |switch| {
            ports.map(|port| switch.is_port_enabled(port))
        })
    });
    let states: Vec<_> = states.collect();
    assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
    assert_ne!(states[0][0], states[0][1], "a request is carried out whole");
    assert_eq!(is_enabled(&harness, "veth1").await, states[0][0]);
}

#[tokio::test]
async fn a_switch_that_has_stopped_says_so() {
    let harness = Harness::start().await;
    harness.switch.stop();
    let refused = set(&harness, updates(vec![enabled("veth0", false)]))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Unavailable);
    let refused = harness.get("/interfaces").await.unwrap_err();
    assert_eq!(refused.code(), Unavailable);
}

#[tokio::test]
async fn a_target_in_the_prefix_comes_back() {
    let harness = Harness::start().await;
    let request = SetRequest {
        prefix: Some(Path {
            target: "s1".into(),
            ..Path::default()
        }),
        ..updates(vec![enabled("veth0", false)])
    };
    let response = harness
        .client()
        .await
        .set(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(response.prefix.unwrap().target, "s1");
}
