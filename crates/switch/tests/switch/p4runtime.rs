//! The switch as a controller sees it. P4Runtime itself is tested with the server.

use std::time::{Duration, Instant};

use crate::support::{Running, TemporaryFolder, program};
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update;
use p4runtime_proto::p4::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, MasterArbitrationUpdate,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, StreamMessageResponse, Uint128,
};
use p4runtime_proto::reprise::v1::switch_client::SwitchClient;
use p4runtime_proto::reprise::v1::{DrainRequest, GetCountersRequest};
use p4runtime_proto::text_format;
use packet_io::{PcapPort, Port};
use tokio::sync::mpsc::Sender;
use tonic::Streaming;
use tonic::transport::Channel;

pub fn endpoint(ready: &str) -> String {
    let address = ready.split("P4Runtime on ").nth(1).expect("an address");
    format!("http://{}", address.split(',').next().expect("an address"))
}

#[tokio::test]
async fn a_controller_reads_the_pipeline_and_the_ports_it_was_started_with() {
    let (p4info, json) = (program("forward.p4info.txtpb"), program("forward.json"));
    let (p4info, json) = (p4info.display().to_string(), json.display().to_string());
    let arguments = [
        "-i",
        "7@pcap:,/dev/null",
        "--grpc",
        "127.0.0.1:0",
        "--device-id",
        "3",
    ];
    let switch = Running::start(&[&arguments[..], &["--p4info", &p4info, &json]].concat());
    let address = endpoint(&switch.ready);
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
    let mut client = P4RuntimeClient::connect(endpoint(&switch.ready))
        .await
        .expect("a server");
    let get = |device_id| GetForwardingPipelineConfigRequest {
        device_id,
        ..Default::default()
    };
    let without_pipeline = client.get_forwarding_pipeline_config(get(0)).await;
    let refused = without_pipeline.expect_err("it has no pipeline");
    assert_eq!(
        refused.code(),
        tonic::Code::FailedPrecondition,
        "{refused:?}"
    );
    let other = client.get_forwarding_pipeline_config(get(1)).await;
    let refused = other.expect_err("it is not device 1");
    assert_eq!(refused.code(), tonic::Code::NotFound, "{refused:?}");
    tokio::task::spawn_blocking(move || switch.stop("-TERM"))
        .await
        .expect("it stops");
}

/// Makes this client the primary controller while the stream is open.
pub async fn become_primary(
    client: &mut P4RuntimeClient<Channel>,
) -> (
    Sender<StreamMessageRequest>,
    Streaming<StreamMessageResponse>,
) {
    let (sender, requests) = tokio::sync::mpsc::channel(1);
    let arbitration = MasterArbitrationUpdate {
        device_id: 1,
        election_id: Some(Uint128 { high: 0, low: 1 }),
        ..Default::default()
    };
    let update = Some(Update::Arbitration(arbitration));
    sender
        .send(StreamMessageRequest { update })
        .await
        .expect("a place");
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut answers = client
        .stream_channel(requests)
        .await
        .expect("a stream")
        .into_inner();
    answers
        .message()
        .await
        .expect("an answer")
        .expect("an answer");
    (sender, answers)
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
    let address = endpoint(&switch.ready);
    let mut p4runtime = P4RuntimeClient::connect(address.clone())
        .await
        .expect("a server");
    let stream = become_primary(&mut p4runtime).await;
    let p4info = std::fs::read_to_string(program("forward.p4info.txtpb")).expect("the P4Info");
    let config = ForwardingPipelineConfig {
        p4info: Some(text_format::parse_p4info(&p4info).expect("a P4Info")),
        p4_device_config: std::fs::read(program("forward.json")).expect("the program"),
        cookie: None,
    };
    let request = SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(Uint128 { high: 0, low: 1 }),
        action: Action::VerifyAndCommit as i32,
        config: Some(config),
        ..Default::default()
    };
    p4runtime
        .set_forwarding_pipeline_config(request)
        .await
        .expect("the pipeline is set");
    let mut control = SwitchClient::connect(address).await.expect("a server");
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
    drop(stream);
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
    let mut client = P4RuntimeClient::connect(endpoint(&switch.ready))
        .await
        .expect("a server");
    let stream = become_primary(&mut client).await;
    let stopped = tokio::task::spawn_blocking(move || switch.stop("-INT")).await;
    assert!(stopped.expect("it stops").starts_with("totals after "));
    drop(stream);
}

/// Gets a page from an address; returns the body and the status line.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(address).expect("a server");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.lines().next().expect("a line").to_owned();
    (status, body.to_owned())
}

#[test]
fn counters_and_latencies_are_there_for_prometheus() {
    let json = program("forward.json").display().to_string();
    let arguments = [
        "-i",
        "7@pcap:,/dev/null",
        "--grpc",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        &json,
    ];
    let switch = Running::start(&arguments);
    let (_, address) = switch.ready.split_once("metrics on ").expect("an address");
    let (status, body) = get(address, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let sample = "reprise_port_received_packets_total{port=\"7\",name=\"pcap:,/dev/null\"} 0";
    assert!(body.contains(sample), "{body}");
    assert_eq!(get(address, "/").0, "HTTP/1.1 404 Not Found");
    switch.stop("-TERM");
}
