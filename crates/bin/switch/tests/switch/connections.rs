//! Clients that open connections and send nothing block neither P4Runtime nor the metrics.

use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Running, TIMEOUT, http_get};
use p4runtime_proto::p4::v1::CapabilitiesRequest;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use tonic::Code;

/// Limit of the switch's descriptors, and number of connections to each of its servers.
const N_DESCRIPTORS: usize = 160;
const N_CONNECTIONS: usize = 240;

fn start() -> Running {
    let mut command = Command::new("sh");
    let switch = env!("CARGO_BIN_EXE_reprise-switch");
    let options = "-i 1@udp:127.0.0.1:0 --grpc 127.0.0.1:0 --metrics 127.0.0.1:0";
    command.arg("-c");
    command.arg(format!(
        "ulimit -n {N_DESCRIPTORS}; exec {switch} {options}"
    ));
    Running::of(command)
}

/// Clock ticks of processor time that the process has used, a hundred a second.
fn ticks(switch: &Running) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", switch.id())).expect("a process");
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
    let times = fields.skip(11).take(2);
    times
        .map(|ticks| ticks.parse::<u64>().expect("a number"))
        .sum()
}

#[tokio::test]
async fn half_open_connections_take_nothing_away() {
    let switch = start();
    let grpc = switch.address("P4Runtime on ").to_owned();
    let metrics = switch.address("metrics on ").to_owned();
    let connect = |address: &str| TcpStream::connect(address).expect("a connection");
    let mut strangers = Vec::new();
    for _ in 0..N_CONNECTIONS {
        strangers.push(connect(&metrics));
        strangers.push(connect(&grpc));
    }
    let began = Instant::now();
    while let Err(status) = capabilities(&grpc).await {
        assert_ne!(status, Code::DeadlineExceeded, "no answer");
        assert!(began.elapsed() < TIMEOUT, "P4Runtime: {status}");
    }
    assert_eq!(http_get(&switch, "/metrics").0, 200);
    let (before, began) = (ticks(&switch), Instant::now());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let busy = Duration::from_millis(10 * (ticks(&switch) - before));
    assert!(busy < began.elapsed() / 4, "busy {busy:?} of a second");
    assert_eq!(http_get(&switch, "/metrics").0, 200);
    switch.signal("-TERM");
    let (status, _, said) = switch.end();
    assert_eq!(status, Some(0), "{said}");
}

/// Makes a connection and calls `Capabilities` on it.
async fn capabilities(address: &str) -> Result<(), Code> {
    let client = P4RuntimeClient::connect(format!("http://{address}")).await;
    let mut client = client.map_err(|_| Code::Unavailable)?;
    let call = client.capabilities(CapabilitiesRequest::default());
    match tokio::time::timeout(TIMEOUT, call).await {
        Ok(answer) => answer.map(drop).map_err(|status| status.code()),
        Err(_) => Err(Code::DeadlineExceeded),
    }
}
