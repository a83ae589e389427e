//! Tests of the service `reprise.v1.Switch`.

use std::time::Duration;

use dataplane::SwitchConfig;
use p4runtime_proto::reprise::v1::{
    DrainRequest, DrainResponse, GetCountersRequest, TableCounters, latency,
};
use tokio::task::JoinHandle;
use tonic::{Code, Request, Response, Status};

use crate::harness::{DEVICE_ID, Harness, JSON, frame, in_time, p4info};
use crate::table_entries::forward_entry;

/// A server whose switch sends one frame a second on a port.
pub async fn slow_harness() -> Harness {
    let config = SwitchConfig {
        egress_rate_pps: Some(1),
        ..Default::default()
    };
    let harness = Harness::without_pipeline(config).await;
    let harness = harness.with_pipeline(p4info(), JSON).await;
    let mut primary = harness.primary().await;
    primary.insert(forward_entry(0xa, 2)).await;
    harness
}

pub const DRAIN: DrainRequest = DrainRequest {
    device_id: DEVICE_ID,
};

/// Calls `Drain`. Returns when a later call was answered: the server handles calls in order, so the drain has begun.
async fn begin_drain(harness: &Harness) -> JoinHandle<Result<Response<DrainResponse>, Status>> {
    let mut client = harness.switch_client().await;
    let drain = tokio::spawn(async move { client.drain(DRAIN).await });
    let mut other = harness.switch_client().await;
    let later = other.get_counters(GetCountersRequest {
        device_id: DEVICE_ID,
    });
    in_time(later).await.unwrap();
    drain
}

#[tokio::test]
async fn an_empty_switch_is_drained_at_once() {
    let harness = Harness::start().await;
    let mut client = harness.switch_client().await;
    in_time(client.drain(DRAIN)).await.unwrap();
}

#[tokio::test]
async fn a_drain_waits_for_the_packets_that_were_there_and_for_no_others() {
    let harness = slow_harness().await;
    for _ in 0..3 {
        harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    }
    let mut n_sent = harness.switch.transmitted().len();
    assert!(n_sent < 3, "the port is slow, and still sent {n_sent}");

    let drain = begin_drain(&harness).await;
    let mut second = harness.switch_client().await;
    let mut short = Request::new(DRAIN);
    short.set_timeout(Duration::from_millis(200));
    let refused = in_time(second.drain(short)).await.unwrap_err();
    // The server's deadline ends the call. On a busy machine the client's timer may end it first, with Cancelled.
    let ends = [Code::DeadlineExceeded, Code::Cancelled];
    assert!(ends.contains(&refused.code()), "{refused:?}");
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));

    while n_sent < 3 {
        assert!(!drain.is_finished());
        harness.switch.advance(1_000_000_000);
        n_sent += harness.switch.transmitted().len();
    }
    in_time(drain).await.unwrap().unwrap();
    assert_eq!(n_sent, 3, "the fourth came later and is still inside");
}

#[tokio::test]
async fn a_stopping_server_answers_those_who_wait_for_a_drain() {
    let harness = slow_harness().await;
    for _ in 0..3 {
        harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    }
    let drain = begin_drain(&harness).await;
    harness.stop().await;
    let refused = in_time(drain).await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn another_device_is_not_found() {
    let harness = Harness::start().await;
    let mut client = harness.switch_client().await;
    let refused = in_time(client.drain(DrainRequest { device_id: 8 })).await;
    assert_eq!(refused.unwrap_err().code(), Code::NotFound);
    let refused = in_time(client.get_counters(GetCountersRequest { device_id: 8 })).await;
    assert_eq!(refused.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn counters_are_read_in_one_view() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    primary.insert(forward_entry(0xa, 2)).await;
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0806));

    let mut client = harness.switch_client().await;
    let request = GetCountersRequest {
        device_id: DEVICE_ID,
    };
    let counters = in_time(client.get_counters(request))
        .await
        .unwrap()
        .into_inner();
    assert!(counters.timestamp_ns > 0);
    let port = |id: u32| counters.ports.iter().find(|port| port.port == id).unwrap();
    assert_eq!((port(1).rx_packets, port(1).rx_bytes), (2, 128));
    assert_eq!((port(2).tx_packets, port(2).tx_bytes), (1, 64));
    assert_eq!((port(3).name.as_str(), port(3).tx_dropped), ("veth3", 3));
    let latencies = counters.latencies.iter();
    let latencies: Vec<_> = latencies.map(|it| (it.of(), it.id, it.packets)).collect();
    let expected = [(latency::Of::Port, 2, 1), (latency::Of::Unicast, 0, 1)];
    assert_eq!(latencies, expected);
    let mut tables = counters.tables.iter();
    let forward = tables.find(|table| table.table == "ingress.forward");
    let expected = TableCounters {
        table: "ingress.forward".into(),
        hits: 2,
        misses: 0,
        entries: 1,
        size: 64,
    };
    assert_eq!(forward, Some(&expected));
    let mut drops = counters.drops.iter();
    let drop = drops.find(|drop| drop.reason == "ingress_drop").unwrap();
    assert_eq!(drop.packets, 1);
}
