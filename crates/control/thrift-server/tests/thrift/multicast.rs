//! Multicast groups made of nodes.

use control::{ClientData, Update};
use dataplane::{MulticastGroup, PortId, Replica};
use serde_json::{Value, json};

use crate::client::{Arg, Client, Refused, args, entry};
use crate::harness::{Harness, NOWHERE, frame};

const INVALID_GROUP: Refused = Refused::Code(2);
const INVALID_GROUP_HANDLE: Refused = Refused::Code(3);
const INVALID_NODE_HANDLE: Refused = Refused::Code(4);
const ERROR: Refused = Refused::Code(5);

fn ids(ids: &[i32]) -> Vec<Arg> {
    [0].iter().chain(ids).map(|id| Arg::I32(*id)).collect()
}

fn node(id: i32, ports: &str, lags: &str) -> Vec<Arg> {
    args![0, id, ports, lags]
}

/// Adds an entry that sends frames for host 1 to group 7.
async fn to_group_7(client: &mut Client) {
    let args = entry("multicast", 1, &[&[0, 7]]);
    client.call("bm_mt_add_entry", args).await;
}

async fn call(client: &mut Client, name: &str, args: Vec<Arg>) {
    client.call(&format!("simple_pre_lag:{name}"), args).await;
}

async fn refused(client: &mut Client, name: &str, args: Vec<Arg>) -> Refused {
    client
        .refused(&format!("simple_pre_lag:{name}"), args)
        .await
}

async fn entries(client: &mut Client) -> Value {
    let text = client
        .bytes("simple_pre_lag:bm_mc_get_entries", ids(&[]))
        .await;
    serde_json::from_slice(&text).unwrap()
}

async fn create(client: &mut Client, rid: i32, ports: &str, lags: &str) -> i64 {
    client
        .number("simple_pre_lag:bm_mc_node_create", node(rid, ports, lags))
        .await
}

#[tokio::test]
async fn a_packet_goes_to_the_ports_of_a_group_s_nodes_in_their_order() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    to_group_7(&mut client).await;
    let group = client
        .number("simple_pre_lag:bm_mc_mgrp_create", ids(&[7]))
        .await;
    assert_eq!(group, 7);
    assert_eq!(create(&mut client, 1, "10100", "").await, 0);
    assert_eq!(create(&mut client, 2, "10", "").await, 1);
    assert_eq!(harness.ports_of(&frame(1)), NOWHERE);
    for node in [1, 0] {
        call(&mut client, "bm_mc_node_associate", ids(&[7, node])).await;
    }
    assert_eq!(harness.ports_of(&frame(1)), [1, 2, 4]);
    call(&mut client, "bm_mc_node_update", node(0, "1000000", "")).await;
    assert_eq!(harness.ports_of(&frame(1)), [1, 6]);
    assert_eq!(
        entries(&mut client).await,
        json!({
            "mgrps": [{"id": 7, "l1_handles": [1, 0]}],
            "l1_handles": [
                {"handle": 0, "rid": 1, "l2_handle": 0},
                {"handle": 1, "rid": 2, "l2_handle": 1},
            ],
            "l2_handles": [
                {"handle": 0, "ports": [6], "lags": []},
                {"handle": 1, "ports": [1], "lags": []},
            ],
            "lags": [],
        })
    );
    call(&mut client, "bm_mc_node_dissociate", ids(&[7, 1])).await;
    assert_eq!(harness.ports_of(&frame(1)), [6]);
    // A destroyed node leaves its group, and its handle is free.
    call(&mut client, "bm_mc_node_destroy", ids(&[0])).await;
    assert_eq!(harness.ports_of(&frame(1)), NOWHERE);
    assert_eq!(create(&mut client, 9, "1", "").await, 0);
    // Creating an existing group does not change it.
    call(&mut client, "bm_mc_node_associate", ids(&[7, 1])).await;
    call(&mut client, "bm_mc_mgrp_create", ids(&[7])).await;
    assert_eq!(harness.ports_of(&frame(1)), [1]);
    for _ in 0..2 {
        call(&mut client, "bm_mc_mgrp_destroy", ids(&[7])).await;
    }
    assert_eq!(harness.ports_of(&frame(1)), NOWHERE);
    call(&mut client, "bm_mc_node_destroy", ids(&[1])).await;
}

#[tokio::test]
async fn a_lag_stands_for_the_port_that_bmv2_would_choose() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    to_group_7(&mut client).await;
    call(&mut client, "bm_mc_mgrp_create", ids(&[7])).await;
    create(&mut client, 1, "10", "1001").await;
    call(&mut client, "bm_mc_node_associate", ids(&[7, 0])).await;
    assert_eq!(harness.ports_of(&frame(1)), [1]);
    // The hash is always 255. Modulo 4, it selects the last of four ports; modulo 2, it selects the last of two ports.
    let lag = |lag, ports: &str| args![0, Arg::I16(lag), ports];
    call(&mut client, "bm_mc_set_lag_membership", lag(3, "1111000")).await;
    assert_eq!(harness.ports_of(&frame(1)), [1, 6]);
    call(&mut client, "bm_mc_set_lag_membership", lag(0, "10100")).await;
    assert_eq!(harness.ports_of(&frame(1)), [1, 4, 6]);
    call(&mut client, "bm_mc_set_lag_membership", lag(3, "10000000")).await;
    assert_eq!(harness.ports_of(&frame(1)), [1, 4, 7]);
    let found = entries(&mut client).await;
    let expected = json!([{"id": 0, "ports": [2, 4]}, {"id": 3, "ports": [7]}]);
    assert_eq!(found["lags"], expected);
    assert_eq!(found["l2_handles"][0]["lags"], json!([0, 3]));
    // A duplicate copy is refused, and nothing changes.
    let twice = refused(&mut client, "bm_mc_set_lag_membership", lag(3, "10")).await;
    assert_eq!(twice, ERROR);
    assert_eq!(harness.ports_of(&frame(1)), [1, 4, 7]);
    assert_eq!(entries(&mut client).await["lags"][1]["ports"], json!([7]));
}

fn replicas(of: &[(u16, u16)]) -> Vec<Replica> {
    let replica = |(port, instance): &(u16, u16)| Replica {
        port: PortId(*port),
        instance: *instance,
    };
    of.iter().map(replica).collect()
}

#[tokio::test]
async fn a_group_of_another_protocol_has_nodes_and_one_that_it_changed_has_others() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    to_group_7(&mut client).await;
    let group = |of: &[(u16, u16)]| MulticastGroup {
        id: 7,
        replicas: replicas(of),
        backups: Vec::new(),
    };
    let client_data = ClientData {
        bytes: b"theirs".to_vec(),
        ..ClientData::default()
    };
    let theirs = group(&[(1, 5), (3, 5), (2, 5), (4, 6)]);
    harness
        .write_group(Update::Insert(theirs), client_data.clone())
        .await;
    let found = entries(&mut client).await;
    assert_eq!(found["mgrps"], json!([{"id": 7, "l1_handles": [0, 1, 2]}]));
    assert_eq!(found["l2_handles"][0]["ports"], json!([1, 3]));
    assert_eq!(found["l1_handles"][2]["rid"], json!(6));
    call(&mut client, "bm_mc_node_destroy", ids(&[1])).await;
    assert_eq!(harness.ports_of(&frame(1)), [1, 3, 4]);
    assert_eq!(harness.pipeline().client_data().group(7), client_data);
    // The other protocol writes again: the old nodes belong to no group.
    harness
        .write_group(Update::Modify(group(&[(6, 1)])), client_data)
        .await;
    call(&mut client, "bm_mc_node_update", node(0, "100000", "")).await;
    assert_eq!(harness.ports_of(&frame(1)), [6]);
    call(&mut client, "bm_mc_node_associate", ids(&[7, 0])).await;
    assert_eq!(harness.ports_of(&frame(1)), [6, 5]);
    harness
        .write_group(Update::Delete(7), ClientData::default())
        .await;
    assert_eq!(entries(&mut client).await["mgrps"], json!([]));
    let associate = refused(&mut client, "bm_mc_node_associate", ids(&[7, 0])).await;
    assert_eq!(associate, INVALID_GROUP_HANDLE);
}

/// Thrift's calls cannot name backups. They remove a backup only if they remove the replica to which the backup
/// belongs.
#[tokio::test]
async fn replicas_keep_the_backups_that_p4runtime_has_written() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let backups = vec![replicas(&[(5, 0)]), Vec::new(), replicas(&[(6, 0)])];
    let group = MulticastGroup {
        id: 7,
        replicas: replicas(&[(1, 1), (2, 2), (3, 3)]),
        backups: backups.clone(),
    };
    harness
        .write_group(Update::Insert(group), ClientData::default())
        .await;
    entries(&mut client).await;
    let found = async || {
        let read = |switch: &dataplane::Switch| switch.multicast_groups().remove(0);
        let found = harness.device.read(&harness.pipeline(), 1, read).await;
        found.unwrap().remove(0)
    };
    call(&mut client, "bm_mc_node_destroy", ids(&[1])).await;
    let after = found().await;
    assert_eq!(after.replicas, replicas(&[(1, 1), (3, 3)]));
    assert_eq!(after.backups, [backups[0].clone(), backups[2].clone()]);
    call(&mut client, "bm_mc_node_destroy", ids(&[2])).await;
    assert_eq!(found().await.backups, [backups[0].clone()]);
}

#[tokio::test]
async fn every_mistake_has_bmv2_s_code() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    for group in [7, 8] {
        call(&mut client, "bm_mc_mgrp_create", ids(&[group])).await;
    }
    create(&mut client, 1, "10", "").await;
    create(&mut client, 1, "110", "").await;
    call(&mut client, "bm_mc_node_associate", ids(&[7, 0])).await;
    let long = "1".repeat(513);
    let mistakes = [
        ("bm_mc_mgrp_create", ids(&[0]), INVALID_GROUP),
        ("bm_mc_mgrp_create", ids(&[70_000]), INVALID_GROUP),
        ("bm_mc_node_associate", ids(&[9, 1]), INVALID_GROUP_HANDLE),
        ("bm_mc_node_associate", ids(&[9, 0]), INVALID_GROUP_HANDLE),
        ("bm_mc_node_associate", ids(&[7, 5]), INVALID_NODE_HANDLE),
        ("bm_mc_node_associate", ids(&[8, 0]), ERROR),
        // Port 1 would have two copies with one replication id.
        ("bm_mc_node_associate", ids(&[7, 1]), ERROR),
        ("bm_mc_node_dissociate", ids(&[8, 0]), ERROR),
        ("bm_mc_node_dissociate", ids(&[7, 1]), ERROR),
        ("bm_mc_node_destroy", ids(&[5]), INVALID_NODE_HANDLE),
        ("bm_mc_node_update", node(5, "1", ""), INVALID_NODE_HANDLE),
        ("bm_mc_node_create", node(70_000, "1", ""), ERROR),
        ("bm_mc_node_create", node(1, "12", ""), ERROR),
        ("bm_mc_node_create", node(1, &long, ""), ERROR),
    ];
    for (name, args, expected) in mistakes {
        let found = refused(&mut client, name, args.clone()).await;
        assert_eq!(found, expected, "{name} {args:?}");
    }
    let found = entries(&mut client).await;
    let expected = json!([{"id": 7, "l1_handles": [0]}, {"id": 8, "l1_handles": []}]);
    assert_eq!(found["mgrps"], expected);
    call(&mut client, "bm_mc_node_associate", ids(&[8, 1])).await;
}

#[tokio::test]
async fn without_lags_the_service_is_bmv2_s_other_one() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    client.call("simple_pre:bm_mc_mgrp_create", ids(&[7])).await;
    let node = args![0, 1, "110"];
    assert_eq!(client.number("simple_pre:bm_mc_node_create", node).await, 0);
}
