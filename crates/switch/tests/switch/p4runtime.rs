//! The switch as a controller sees it. P4Runtime itself is tested with the server.

use std::time::{Duration, Instant};

use crate::support::controller::{Controller, forward_config};
use crate::support::{FORWARD, Running, TemporaryFolder, http_get, program, words_of};
use p4runtime_proto::p4::v1::GetForwardingPipelineConfigRequest;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::reprise::v1::switch_client::SwitchClient;
use p4runtime_proto::reprise::v1::{DrainRequest, GetCountersRequest};
use packet_io::{PcapPort, Port};

#[tokio::test]
async fn a_controller_reads_the_pipeline_and_the_ports_it_was_started_with() {
    let [_, p4info, _, _, json] = FORWARD;
    let arguments = words_of("-i 7@pcap:,/dev/null --grpc 127.0.0.1:0 --device-id 3");
    let switch = Running::start(&[&arguments[..], &["--p4info", p4info, json]].concat());
    let address = switch.grpc();
    let mut p4runtime = P4RuntimeClient::connect(address.clone())
        .await
        .expect("a server");
    let request = GetForwardingPipelineConfigRequest {
        device_id: 3,
        ..Default::default()
    };
    let answer = p4runtime
        .get_forwarding_pipeline_config(request)
        .await
        .expect("an answer");
    let config = answer.into_inner().config.expect("a pipeline");
    assert_eq!(config.p4info.expect("a P4Info").tables[0].size, 16);
    let mut control = SwitchClient::connect(address).await.expect("a server");
    control
        .drain(DrainRequest { device_id: 3 })
        .await
        .expect("drained");
    let counters = control
        .get_counters(GetCountersRequest { device_id: 3 })
        .await;
    let counters = counters.expect("an answer").into_inner();
    let port = counters
        .ports
        .iter()
        .find(|port| port.port == 7)
        .expect("the port");
    assert_eq!(port.name, "pcap:,/dev/null");
    assert_eq!(counters.tables[0].table, "ingress.forward");
    tokio::task::spawn_blocking(move || switch.stop("-TERM"))
        .await
        .expect("it stops");
}

#[tokio::test]
async fn the_device_id_0_is_one_like_any_other() {
    let switch = Running::start(&["--grpc", "127.0.0.1:0", "--device-id", "0"]);
    let mut client = P4RuntimeClient::connect(switch.grpc())
        .await
        .expect("a server");
    let get = |device_id| GetForwardingPipelineConfigRequest {
        device_id,
        ..Default::default()
    };
    let without_pipeline = client.get_forwarding_pipeline_config(get(0)).await;
    let refused = without_pipeline.expect_err("it has no pipeline");
    let found = refused.code();
    assert_eq!(found, tonic::Code::FailedPrecondition, "{refused:?}");
    let other = client.get_forwarding_pipeline_config(get(1)).await;
    let refused = other.expect_err("it is not device 1");
    assert_eq!(refused.code(), tonic::Code::NotFound, "{refused:?}");
    tokio::task::spawn_blocking(move || switch.stop("-TERM"))
        .await
        .expect("it stops");
}

#[tokio::test]
async fn a_capture_waits_for_the_controllers_program() {
    let folder = TemporaryFolder::new("held");
    let capture = folder.path("1.pcap");
    let mut port = PcapPort::open(None, Some(&capture)).expect("a capture to write");
    port.transmit(0, [&[1; 60][..], &[]].into())
        .expect("writing");
    port.transmit(1_000, [&[2; 60][..], &[]].into())
        .expect("writing");
    port.close().expect("closing");
    let port = format!("1@pcap:{}", capture.display());
    let switch = Running::start(&["-i", &port, "--grpc", "127.0.0.1:0"]);
    let mut controller = Controller::of(&switch).await;
    let set = controller.set_pipeline(Action::VerifyAndCommit, Some(forward_config()));
    set.await;
    let mut control = SwitchClient::connect(switch.grpc())
        .await
        .expect("a server");
    let start = Instant::now();
    let counters = loop {
        let answer = control
            .get_counters(GetCountersRequest { device_id: 1 })
            .await;
        let counters = answer.expect("an answer").into_inner();
        if counters
            .ports
            .iter()
            .any(|port| port.port == 1 && port.rx_packets == 2)
        {
            break counters;
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{counters:?}");
    };
    let dropped = |reason: &str| {
        let drop = counters.drops.iter().find(|drop| drop.reason == reason);
        drop.map_or(0, |drop| drop.packets)
    };
    assert_eq!((dropped("no_pipeline"), dropped("ingress_drop")), (0, 2));
    drop(controller);
    tokio::task::spawn_blocking(move || switch.stop("-TERM"))
        .await
        .expect("it stops");
}

#[tokio::test]
async fn an_open_stream_does_not_keep_the_switch_from_stopping() {
    let switch = Running::start(&["--grpc", "127.0.0.1:0"]);
    assert!(
        switch.ready.starts_with("ready: ports none, P4Runtime on "),
        "{}",
        switch.ready
    );
    assert!(
        switch.ready.ends_with(", program none yet"),
        "{}",
        switch.ready
    );
    let controller = Controller::of(&switch).await;
    let stopped = tokio::task::spawn_blocking(move || switch.stop("-INT")).await;
    assert!(stopped.expect("it stops").starts_with("totals after "));
    drop(controller);
}

#[test]
fn counters_and_latencies_are_there_for_prometheus() {
    let json = program("forward.json");
    let arguments = format!("-i 7@pcap:,/dev/null --grpc 127.0.0.1:0 --metrics 127.0.0.1:0 {json}");
    let arguments = words_of(&arguments);
    let switch = Running::start(&arguments);
    let (status, body) = http_get(&switch, "/metrics");
    assert_eq!(status, 200);
    let sample = "reprise_port_received_packets_total{port=\"7\",name=\"pcap:,/dev/null\"} 0";
    assert!(body.contains(sample), "{body}");
    assert_eq!(http_get(&switch, "/").0, 404);
    switch.stop("-TERM");
}
