//! The SFU programs on a UDP port: ordinary sockets are the presenter and the viewers, without privileges.

use std::net::UdpSocket;

use crate::support::{Running, TIMEOUT, TemporaryFolder, error, totals, words_of};
use testkit::namespace::{in_namespace, ip};
use testkit::repository::root;

const N_PACKETS: u8 = 50;

fn socket(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).expect("an address that is free");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    socket
}

/// The conference of testdata/trace, with one presenter and three viewers. Its MAC addresses become those that a UDP
/// port derives from IP addresses: 02:00:0a:00:01:04 from 10.0.1.4.
fn entries(folder: &TemporaryFolder, program: &str) -> String {
    let path = format!("testdata/trace/{program}.txtpb");
    let text = std::fs::read_to_string(root().join(path)).expect("the entries");
    let found = r"\002\000\000\000\001";
    assert!(text.contains(found));
    folder.file("entries.txtpb", text.replace(found, r"\002\000\n\000\001"))
}

/// Runs the conference; the copies must come from `source`.
fn serve(program: &str, port: &str, wait: &str, viewers: [&str; 3], source: &str) {
    for address in [4, 5, 6, 7, 100] {
        ip(&format!("addr replace 10.0.1.{address}/32 dev lo"));
    }
    let folder = TemporaryFolder::new(&format!("udp-{program}-{wait}"));
    let entries = entries(&folder, program);
    let path = root().join(format!("p4/{program}.p4"));
    let path = path.display().to_string();
    let arguments = format!("-i {port} --wait {wait} --grpc off --json --entries {entries} {path}");
    let switch = Running::start(&words_of(&arguments));
    let presenter = socket("10.0.1.4:40000");
    let viewers = viewers.map(socket);
    for number in 0..N_PACKETS {
        let payload = [number; 1200];
        presenter
            .send_to(&payload, "10.0.1.100:5004")
            .expect("sending");
        for viewer in &viewers {
            let mut buffer = [0; 2000];
            let (n_bytes, from) = viewer.recv_from(&mut buffer).expect("a copy");
            assert!(buffer[..n_bytes] == payload, "copy {number} is another one");
            assert_eq!(from.to_string(), source);
        }
    }
    // This packet does not come from a presenter, so the switch counts it but makes no copies.
    viewers[0]
        .send_to(b"who?", "10.0.1.100:5004")
        .expect("sending");
    presenter
        .send_to(b"last", "10.0.1.100:5004")
        .expect("sending");
    let n_bytes = viewers[2].recv(&mut [0; 9]).expect("the last copy");
    assert_eq!(n_bytes, 4);
    let totals = totals(&switch.stop("-TERM"));
    let port = &totals["ports"][0];
    assert_eq!(port["rx_frames"], u64::from(N_PACKETS) + 2);
    assert_eq!(port["tx_frames"], (u64::from(N_PACKETS) + 1) * 3);
    assert_eq!(port["tx_not_udp"], 0);
    assert_eq!(totals["packets"]["inside"], 0);
}

#[test]
fn the_replication_program_serves_ordinary_sockets() {
    in_namespace(|| {
        ip("link set lo up");
        let viewers = ["10.0.1.5:5004", "10.0.1.6:6000", "10.0.1.7:5004"];
        for wait in ["sleep", "spin"] {
            serve(
                "sfu",
                "1@udp:10.0.1.100:5004",
                wait,
                viewers,
                "10.0.1.100:5004",
            );
        }
    });
}

#[test]
fn the_recirculation_program_serves_ordinary_sockets() {
    in_namespace(|| {
        ip("link set lo up");
        let viewers = ["10.0.1.5:5004", "10.0.1.6:5004", "10.0.1.7:5004"];
        serve(
            "sfu_recirculation",
            "1@udp:10.0.1.100:5004",
            "sleep",
            viewers,
            "10.0.1.100:5004",
        );
    });
}

#[test]
fn the_ready_line_says_the_port_that_was_chosen() {
    let switch = Running::start(&["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
    let rest = switch.ready.strip_prefix("ready: ports 1@udp:127.0.0.1:");
    let (port, _) = rest.and_then(|rest| rest.split_once(',')).expect("a port");
    assert!(port.parse::<u16>().is_ok_and(|port| port > 0), "{port}");
    // The port is in use, which the second switch must report.
    let port = format!("1@udp:127.0.0.1:{port}");
    let said = error(1, &["-i", &port, "--grpc", "off"]);
    assert!(said.contains("cannot bind a UDP socket"), "{said}");
    switch.stop("-TERM");
}

#[test]
fn a_hangup_ends_the_switch_in_order_unless_it_was_to_be_ignored() {
    let arguments = ["-i", "1@udp:127.0.0.1:0", "--grpc", "off"];
    // This test may itself run under nohup.
    let mut command = std::process::Command::new("env");
    command
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_reprise-switch")])
        .args(arguments);
    let switch = Running::of(command);
    assert!(switch.stop("-HUP").starts_with("totals after"));
    // Starts the switch with SIGHUP ignored, as nohup does.
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_reprise-switch")])
        .args(arguments);
    let switch = Running::of(command);
    // SIGHUP must still be ignored: neither caught, nor left at its default action, which ends the process.
    let status = std::fs::read_to_string(format!("/proc/{}/status", switch.id()));
    let status = status.expect("proc(5)");
    let has_hangup = |mask: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(mask));
        let mask = u64::from_str_radix(line.expect(mask).trim(), 16);
        mask.expect("a mask") & 1 == 1
    };
    assert!(has_hangup("SigIgn:"));
    assert!(!has_hangup("SigCgt:"));
    assert!(switch.stop("-TERM").starts_with("totals after"));
}
