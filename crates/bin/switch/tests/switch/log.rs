//! The switch's log: every event of docs/switch.md, as text and as JSON.

use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{FORWARD, Running, TemporaryFolder, program, words_of};
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::stream_message_request::Update;
use p4runtime_proto::p4::v1::{MasterArbitrationUpdate, StreamMessageRequest, Uint128};
use serde_json::Value;

/// Starts a switch with one UDP port (port 1), a program, and entries that forward from port 1 to port 2, which does
/// not exist.
fn start(options: &[&str]) -> Running {
    let arguments = ["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    Running::start_that_logs(&[&arguments[..], &FORWARD, options].concat())
}

/// Parses a JSON line and removes its time, which must be valid.
fn event(line: &str) -> Value {
    let mut event: Value = serde_json::from_str(line).expect(line);
    let members = event.as_object_mut().expect("an object");
    let time = members.remove("timestamp").expect("a time");
    let time = time.as_str().expect("a text");
    assert!(
        time.starts_with("20") && time.ends_with('Z') && time.contains('T'),
        "{time}"
    );
    event
}

/// Splits a line of text into its level and what follows the level.
fn parts(line: &str) -> (&str, &str) {
    let (time, rest) = line.split_once(' ').expect("a time");
    assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
    rest.trim_start().split_once(' ').expect("a level")
}

#[test]
fn signals_that_mean_nothing_are_logged_and_the_totals_come_at_the_end() {
    let switch = Running::start(&words_of(
        "-i 1@pcap:,/dev/null --grpc 127.0.0.1:0 --json --log-level info",
    ));
    for signal in ["USR1", "USR2"] {
        switch.signal(&format!("-{signal}"));
        switch.wait_for_line(&["signal_ignored", &format!("SIG{signal}")]);
    }
    let printed = switch.stop("-QUIT");
    assert!(printed.contains("\"packets\""), "{printed}");
}

#[test]
fn a_pipeline_that_is_set_is_reported_at_level_info_only() {
    let json = start(&["--log-level", "info", "--log-format", "json"]);
    let expected = serde_json::json!({
        "level": "INFO",
        "message": "the pipeline \"forward\" is set",
        "event": "pipeline_set",
        "name": "forward",
        "source": "forward",
        "tables": 1,
    });
    let logged: Vec<Value> = json.before.iter().map(|line| event(line)).collect();
    assert_eq!(logged, [expected]);
    let text = start(&["--log-level", "info"]);
    let logged: Vec<_> = text.before.iter().map(|line| parts(line)).collect();
    let fields = "the pipeline \"forward\" is set event=\"pipeline_set\" name=\"forward\" source=\"forward\" tables=1";
    assert_eq!(logged, [("INFO", fields)]);
    let quiet = start(&[]);
    assert_eq!(quiet.before, [""; 0]);
    for switch in [json, text, quiet] {
        switch.stop("-TERM");
    }
}

#[test]
fn a_program_that_the_switch_compiles_is_not_warned_of() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = program.join("../../../testdata/stf/table_initial_entries.p4");
    let program = program.display().to_string();
    let ports = ["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let switch = Running::start_that_logs(&[&ports[..], &[&program]].concat());
    // The compiler's own diagnostics are no events.
    let events = switch.before.iter().filter(|it| it.contains("event="));
    assert_eq!(events.collect::<Vec<_>>(), [""; 0]);
    switch.stop("-TERM");
}

#[test]
fn what_the_p4info_leaves_out_and_promises_otherwise_is_warned_of() {
    let folder = TemporaryFolder::new("p4info");
    let json = program("forward.json");
    let logged = |p4info: &str| {
        let p4info = folder.file("p4info.txtpb", p4info);
        let arguments = ["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"];
        let program = ["--log-format", "json", "--p4info", &p4info, &json];
        let switch = Running::start_that_logs(&[&arguments[..], &program].concat());
        let logged: Vec<Value> = switch.before.iter().map(|line| event(line)).collect();
        switch.stop("-TERM");
        logged
    };
    let nothing = logged("pkg_info { arch: \"v1model\" }\n");
    let expected = serde_json::json!({
        "level": "WARN",
        "message": "no controller can write or read what the device config has and the P4Info lacks: table \"ingress.forward\"",
        "event": "p4info_lacks",
        "objects": 1,
    });
    assert_eq!(nothing, [expected]);
    let whole = std::fs::read_to_string(program("forward.p4info.txtpb")).expect("the P4Info");
    let other = logged(&whole.replace("size: 16", "size: 1024"));
    let expected = serde_json::json!({
        "level": "WARN",
        "message": "these tables have the size in the device config, not the one in the P4Info: table \"ingress.forward\" 16, not 1024",
        "event": "p4info_sizes",
        "tables": 1,
    });
    assert_eq!(other, [expected]);
    assert_eq!(logged(&whole), [Value::Null; 0]);
}

/// Sends election ids on one stream, which it then closes.
async fn bid(switch: &Running, ids: Vec<Uint128>) {
    let bids = ids.into_iter().map(|id| StreamMessageRequest {
        update: Some(Update::Arbitration(MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(id),
            ..Default::default()
        })),
    });
    let bids = tokio_stream::iter(bids.collect::<Vec<_>>());
    let client = P4RuntimeClient::connect(switch.grpc()).await;
    let answers = client.expect("a server").stream_channel(bids).await;
    let mut answers = answers.expect("a stream").into_inner();
    while let Ok(Some(_)) = answers.message().await {}
}

#[tokio::test]
async fn another_primary_controller_is_reported_and_that_there_is_none() {
    let switch = start(&["--log-level", "info", "--log-format", "json"]);
    // Repeating the same update changes nothing.
    bid(&switch, [Uint128 { high: 1, low: 7 }; 2].into()).await;
    let (first, last) = tokio::task::spawn_blocking(move || {
        let lines = [(); 2].map(|()| event(&switch.wait_for_line(&["primary_changed"])));
        switch.stop("-TERM");
        lines.into()
    })
    .await
    .expect("two lines");
    let id = "18446744073709551623";
    assert_eq!(first["election_id"], id);
    assert_eq!(
        first["message"],
        format!("the controller with election id {id} is primary")
    );
    assert_eq!(first["level"], "INFO");
    assert_eq!(first["controllers"], 1);
    assert_eq!(last["message"], "no controller is primary");
    assert_eq!(
        (last.get("election_id"), &last["controllers"]),
        (None, &0.into())
    );
}

#[test]
fn drops_are_reported_by_reason_while_they_grow() {
    let switch = start(&["--log-format", "json", "--log-drops", "1"]);
    let address = switch.address("1@udp:").to_owned();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let send = |n: usize| {
        for _ in 0..n {
            socket.send_to(&[1; 30], &address).expect("sent");
        }
    };
    send(3);
    let mut logged = 0;
    let began = Instant::now();
    while logged < 3 {
        let line = event(&switch.wait_for_line(&["egress_port_unknown"]));
        let grown = line["packets"].as_u64().expect("a number");
        logged += grown;
        assert_eq!(
            line,
            serde_json::json!({
                "level": "WARN",
                "message": format!("the switch dropped {grown} packets in 1 s: egress_port_unknown"),
                "event": "drops", "reason": "egress_port_unknown",
                "packets": grown, "total": logged, "seconds": 1,
            })
        );
    }
    assert!(
        began.elapsed() >= Duration::from_millis(900),
        "not before the first look"
    );
    send(2);
    while logged < 5 {
        let line = event(&switch.wait_for_line(&["egress_port_unknown"]));
        logged += line["packets"].as_u64().expect("a number");
        assert_eq!(line["total"], logged);
    }
    switch.stop("-TERM");
}

#[test]
fn p4runtime_beyond_the_loopback_interface_is_warned_of() {
    let arguments = ["-i", "1@udp:127.0.0.1:0", "--log-format", "json", "--grpc"];
    let switch = Running::start_that_logs(&[&arguments[..], &["0.0.0.0:0", "--insecure"]].concat());
    let address = switch.address("P4Runtime on ").to_owned();
    let logged: Vec<Value> = switch.before.iter().map(|line| event(line)).collect();
    assert_eq!(logged.len(), 1);
    assert_eq!(logged[0]["event"], "grpc_beyond_loopback");
    assert_eq!(logged[0]["level"], "WARN");
    assert_eq!(logged[0]["address"], address);
    switch.stop("-TERM");
    let quiet = Running::start(&[&arguments[..], &["127.0.0.1:0"]].concat());
    quiet.stop("-TERM");
}

#[tokio::test]
async fn what_a_flood_leaves_out_of_the_log_is_reported() {
    let switch = start(&["--log-level", "info", "--log-format", "json"]);
    // Changes the primary a thousand times.
    let ids = (1..=1000).map(|low| Uint128 { high: 0, low });
    bid(&switch, ids.collect()).await;
    let line = tokio::task::spawn_blocking(move || {
        let line = switch.wait_for_line(&["log_lines_left_out"]);
        switch.stop_that_logs("-TERM");
        line
    });
    let logged = event(&line.await.expect("a line"));
    let lines = logged["lines"].as_u64().expect("a number");
    // The log writes a burst of 200 lines of one event, and some more on a loaded machine.
    assert!((300..=850).contains(&lines), "{logged}");
    assert_eq!(logged["level"], "WARN");
}
