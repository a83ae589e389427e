//! The service SimpleSwitch.

use bmv2_thrift::wire::read::Value;
use control::{ClientData, Operation, Update};
use dataplane::{CloneSession, MulticastGroup, PortId, Replica};

use crate::client::{Arg, Client, Refused, args, entry};
use crate::harness::{Harness, NOWHERE, frame};

const SESSION_NOT_FOUND: Refused = Refused::Code(1);

async fn client(harness: &Harness) -> Client {
    let mut client = harness.client().await;
    client.service = "simple_switch";
    client
}

/// Adds an entry that sends frames for host 1 to port 1, and clones them with session 5.
async fn mirrored(client: &mut Client) {
    client
        .call("standard:bm_mt_add_entry", entry("mirror", 1, &[]))
        .await;
}

fn session(id: i32, config: &[(i16, i32)]) -> Vec<Arg> {
    let fields = config
        .iter()
        .map(|(field, value)| (*field, Arg::I32(*value)));
    args![id, Arg::Struct(fields.collect())]
}

fn sorted(mut ports: Vec<u16>) -> Vec<u16> {
    ports.sort_unstable();
    ports
}

fn group(ports: &[u16]) -> MulticastGroup {
    let replica = |port: &u16| Replica {
        port: PortId(*port),
        instance: 3,
    };
    MulticastGroup {
        id: 7,
        replicas: ports.iter().map(replica).collect(),
        backups: Vec::new(),
    }
}

#[tokio::test]
async fn a_clone_goes_to_a_session_s_port_and_to_its_group_as_that_is() {
    let harness = Harness::start().await;
    let mut client = client(&harness).await;
    mirrored(&mut client).await;
    assert_eq!(harness.ports_of(&frame(1)), [1]);
    client
        .call("mirroring_session_add", session(5, &[(1, 4)]))
        .await;
    assert_eq!(sorted(harness.ports_of(&frame(1))), [1, 4]);
    client
        .call("mirroring_session_add", session(5, &[(2, 7)]))
        .await;
    assert_eq!(harness.ports_of(&frame(1)), [1]);
    harness
        .write_group(Update::Insert(group(&[2, 3])), ClientData::default())
        .await;
    assert_eq!(sorted(harness.ports_of(&frame(1))), [1, 2, 3]);
    harness
        .write_group(Update::Modify(group(&[6])), ClientData::default())
        .await;
    assert_eq!(sorted(harness.ports_of(&frame(1))), [1, 6]);
    client
        .call("mirroring_session_add", session(5, &[(1, 2), (2, 7)]))
        .await;
    assert_eq!(sorted(harness.ports_of(&frame(1))), [1, 2, 6]);
    let found = client.fields("mirroring_session_get", args![5]).await;
    assert_eq!(
        (found.get(1), found.get(2)),
        (Some(&Value::I32(2)), Some(&Value::I32(7)))
    );
    // P4Runtime reads the group's replicas as part of the session.
    let reading = harness.device.reading().await.unwrap();
    let sessions = reading.clone_sessions(0).await.unwrap();
    drop(reading);
    let ports = sessions[0].replicas.iter().map(|replica| replica.port.0);
    assert_eq!(ports.collect::<Vec<_>>(), [2, 6]);
    client.call("mirroring_session_delete", args![5]).await;
    assert_eq!(harness.ports_of(&frame(1)), [1]);
}

#[tokio::test]
async fn a_session_of_another_protocol_is_seen_and_replaced() {
    let harness = Harness::start().await;
    let mut client = client(&harness).await;
    mirrored(&mut client).await;
    let theirs = CloneSession {
        id: 5,
        replicas: group(&[3, 4]).replicas,
        truncate_bytes: None,
        class_of_service: 0,
    };
    harness
        .write(Operation::CloneSession(
            Update::Insert(theirs),
            ClientData::default(),
        ))
        .await;
    let port = client
        .number("mirroring_mapping_get_egress_port", args![5])
        .await;
    assert_eq!(port, 3);
    let added = client.number("mirroring_mapping_add", args![5, 2]).await;
    assert_eq!(added, 1);
    assert_eq!(sorted(harness.ports_of(&frame(1))), [1, 2]);
}

#[tokio::test]
async fn sessions_that_are_none_are_reported() {
    let harness = Harness::start().await;
    let mut client = client(&harness).await;
    for call in ["mirroring_session_get", "mirroring_session_delete"] {
        let refused = client.refused(call, args![5]).await;
        assert_eq!(refused, SESSION_NOT_FOUND, "{call}");
    }
    for (id, config) in [(-1, (1, 2)), (40_000, (1, 2)), (5, (1, 511)), (5, (2, -1))] {
        let add = session(id, &[config]);
        let refused = client.refused("mirroring_session_add", add).await;
        assert_eq!(refused, SESSION_NOT_FOUND, "{id} {config:?}");
    }
    let name = |call: &str| format!("mirroring_mapping_{call}");
    assert_eq!(client.number(&name("get_egress_port"), args![5]).await, -1);
    assert_eq!(client.number(&name("delete"), args![5]).await, 0);
    // 0 is a valid session in programs for BMv2.
    assert_eq!(client.number(&name("add"), args![0, 2]).await, 1);
    assert_eq!(client.number(&name("get_egress_port"), args![0]).await, 2);
    assert_eq!(client.number(&name("delete"), args![0]).await, 1);
}

#[tokio::test]
async fn a_queue_has_a_rate_and_a_depth() {
    let harness = Harness::start().await;
    let mut client = client(&harness).await;
    mirrored(&mut client).await;
    let rate = args![1, Arg::I64(1_000)];
    let number = client.number("set_egress_queue_rate", rate).await;
    assert_eq!(number, 0);
    let depth = args![1, 3];
    let number = client.number("set_egress_queue_depth", depth).await;
    assert_eq!(number, 0);
    // One frame leaves at once, three frames wait, and the rest is dropped.
    let sent: Vec<_> = (0..6).map(|_| harness.ports_of(&frame(1)).len()).collect();
    assert_eq!(sent, [1, 0, 0, 0, 0, 0]);
    harness.switch.transmitted();
    harness.switch.advance(10_000_000);
    assert_eq!(harness.switch.transmitted().len(), 3);
    // A rate of 0 means no limit.
    let none = vec![Arg::I64(0)];
    client.number("set_all_egress_queue_rates", none).await;
    let sent: Vec<_> = (0..6).map(|_| harness.ports_of(&frame(1)).len()).collect();
    assert_eq!(sent, [1; 6]);
    let none = args![1, 0, 0];
    client.number("set_egress_priority_queue_depth", none).await;
    assert_eq!(harness.ports_of(&frame(1)), NOWHERE);
    let all = args![100];
    client.number("set_all_egress_queue_depths", all).await;
    assert_eq!(harness.ports_of(&frame(1)), [1]);
    let beyond = args![1, 8, Arg::I64(5)];
    let refused = client
        .refused("set_egress_priority_queue_rate", beyond)
        .await;
    assert_eq!(refused, Refused::Failure(6));
}

#[tokio::test]
async fn several_workers_have_depths_and_no_rates() {
    let harness = Harness::with_workers(2).await;
    let mut client = client(&harness).await;
    client.number("set_all_egress_queue_depths", args![9]).await;
    let rate = vec![Arg::I64(5)];
    let refused = client.refused("set_all_egress_queue_rates", rate).await;
    assert_eq!(refused, Refused::Failure(6));
}

#[tokio::test]
async fn clocks_go_on() {
    let harness = Harness::start().await;
    let mut client = client(&harness).await;
    let before = client.number("get_time_elapsed_us", vec![]).await;
    harness.switch.advance(5_000_000);
    let after = client.number("get_time_elapsed_us", vec![]).await;
    assert_eq!(after - before, 5_000);
    // The clock is later than September 2020.
    let epoch = client.number("get_time_since_epoch_us", vec![]).await;
    assert!(epoch > 1_600_000_000_000_000);
}
