//! The switch as a controller and Prometheus see it. The crate `p4runtime-server` tests P4Runtime itself.

use std::time::{Duration, Instant};

use crate::support::{FORWARD, Running, TemporaryFolder, http_get, program, words_of};
use p4runtime_client::{Client, ClientError, SwitchAddress};
use p4runtime_proto::text_format;
use packet_io::{PcapPort, Port};
use testkit::text::{assert_ends, assert_starts};

/// Where the switch's P4Runtime server is.
pub fn address(switch: &Running) -> SwitchAddress {
    SwitchAddress::plain(switch.address("P4Runtime on "))
}

/// Connects a client and makes it the switch's primary controller.
pub async fn primary(switch: &Running) -> Client {
    let client = Client::connect(&address(switch), 1).await;
    let mut client = client.expect("a server");
    client.become_primary().await.expect("primary");
    client
}

/// Sets the pipeline of `forward.p4`.
pub async fn set_forward(client: &mut Client) {
    let p4info = std::fs::read_to_string(program("forward.p4info.txtpb")).expect("the P4Info");
    let p4info = text_format::parse_p4info(&p4info).expect("a P4Info");
    let json = std::fs::read(program("forward.json")).expect("the program");
    let set = client.set_pipeline(p4info, json).await;
    set.expect("the pipeline is set");
}

#[tokio::test]
async fn a_controller_reads_the_pipeline_and_the_ports_it_was_started_with() {
    let [_, p4info, _, _, json] = FORWARD;
    let arguments = words_of("-i 7@pcap:,/dev/null --grpc 127.0.0.1:0 --device-id 3");
    let switch = Running::start(&[&arguments[..], &["--p4info", p4info, json]].concat());
    let client = Client::connect(&address(&switch), 3).await;
    let mut client = client.expect("a server");
    let info = client.p4info().await.expect("a P4Info");
    assert_eq!(info.tables[0].size, 16);
    client.drain().await.expect("drained");
    let counters = client.counters().await.expect("an answer");
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
    let client = Client::connect(&address(&switch), 0).await;
    let refused = client.expect("a server").p4info().await;
    assert!(
        matches!(refused, Err(ClientError::NoPipeline)),
        "{refused:?}"
    );
    let other = Client::connect(&address(&switch), 1).await;
    let refused = other.expect("a server").p4info().await;
    assert!(
        matches!(refused, Err(ClientError::WrongDevice { .. })),
        "{refused:?}"
    );
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
    let mut client = primary(&switch).await;
    set_forward(&mut client).await;
    let start = Instant::now();
    let counters = loop {
        let counters = client.counters().await.expect("an answer");
        if counters
            .ports
            .iter()
            .any(|port| port.port == 1 && port.rx_packets == 2)
        {
            break counters;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "{counters:?}");
    };
    let dropped = |reason: &str| {
        let drop = counters.drops.iter().find(|drop| drop.reason == reason);
        drop.map_or(0, |drop| drop.packets)
    };
    assert_eq!((dropped("no_pipeline"), dropped("ingress_drop")), (0, 2));
    drop(client);
    tokio::task::spawn_blocking(move || switch.stop("-TERM"))
        .await
        .expect("it stops");
}

#[tokio::test]
async fn an_open_stream_does_not_keep_the_switch_from_stopping() {
    let switch = Running::start(&["--grpc", "127.0.0.1:0"]);
    assert_starts(&switch.ready, "ready: ports none, P4Runtime on ");
    assert_ends(&switch.ready, ", program none yet");
    let client = primary(&switch).await;
    let stopped = tokio::task::spawn_blocking(move || switch.stop("-INT")).await;
    assert!(stopped.expect("it stops").starts_with("totals after "));
    drop(client);
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
