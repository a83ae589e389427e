//! `--engine kernel`, on real veth pairs. The kernel lets only root outside any user namespace load programs.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::frames::{local_sender, numbered, receive, send};
use crate::namespace::{in_root_namespace, ip, veth_pair};
use crate::support::{PATIENCE, Running, error, program};
use packet_io::{AfPacketConfig, AfPacketPort};
use serde_json::Value;

/// Port 1 is a1, port 2 b1, of pairs whose other ends are a0 and b0; what comes to 1 leaves by 2.
fn start(options: &[&str]) -> Running {
    let files = [
        "forward.p4info.txtpb",
        "forward.entries.txtpb",
        "forward.json",
    ];
    let [p4info, entries, json] = files.map(|name| program(name).display().to_string());
    let ports = [
        "-i",
        "1@afxdp:a1",
        "-i",
        "2@afxdp:b1",
        "--grpc",
        "off",
        "--json",
    ];
    let engine = ["--engine", "kernel", "--explain-engine"];
    let program = ["--p4info", &p4info, "--entries", &entries, &json];
    Running::start_that_logs(&[&ports[..], &engine, options, &program].concat())
}

/// The pairs; redirected frames arrive where GRO is on.
fn cables() {
    ip("link set lo up");
    veth_pair("a0", "a1");
    veth_pair("b0", "b1");
    for peer in ["a0", "b0"] {
        gro(peer, "on");
    }
}

fn gro(interface: &str, state: &str) {
    let set = Command::new("ethtool")
        .args(["-K", interface, "gro", state])
        .status();
    assert!(set.expect("ethtool is installed").success());
}

fn outside(interface: &str) -> AfPacketPort {
    AfPacketPort::open(interface, AfPacketConfig::default()).expect("an interface that is up")
}

fn has_program(interface: &str) -> bool {
    let shown = Command::new("ip")
        .args(["link", "show", interface])
        .output();
    let shown = shown.expect("iproute2 is installed").stdout;
    String::from_utf8_lossy(&shown).contains("xdp")
}

fn totals(printed: &str) -> Value {
    serde_json::from_str(printed).expect("JSON")
}

#[test]
fn the_whole_program_is_in_the_kernel_and_the_totals_have_its_frames() {
    in_root_namespace(
        "the_whole_program_is_in_the_kernel_and_the_totals_have_its_frames",
        || {
            cables();
            let (mut a, mut b) = (outside("a0"), outside("b0"));
            let switch = start(&[]);
            switch.wait_for_line(&["offload: the whole program"]);
            let frames: Vec<_> = (0..500).map(|n| numbered(n, 60 + n as usize)).collect();
            for batch in frames.chunks(100) {
                send(&mut a, batch.to_vec());
                assert!(receive(&mut b, batch.len()) == batch);
            }
            let totals = totals(&switch.stop("-TERM"));
            assert_eq!(totals["packets"]["received"], 500);
            assert_eq!(totals["packets"]["transmitted"], 500);
            assert_eq!(totals["packets"]["inside"], 0);
            assert_eq!(totals["ports"][0]["rx_frames"], 500);
            assert_eq!(totals["ports"][1]["tx_frames"], 500);
            for interface in ["a1", "b1"] {
                assert!(!has_program(interface), "{interface}");
            }
        },
    );
}

#[test]
fn a_local_sender_s_unfinished_checksum_is_finished() {
    in_root_namespace("a_local_sender_s_unfinished_checksum_is_finished", || {
        cables();
        let mut b = outside("b0");
        let switch = start(&[]);
        switch.wait_for_line(&["offload: the whole program"]);
        let sender = local_sender("a0");
        for payload in [&b"odd"[..], &[7; 1400]] {
            sender.send(payload).expect("sending");
            let frame = receive(&mut b, 1).pop().expect("a frame");
            let parsed = etherparse::PacketHeaders::from_ethernet_slice(&frame).expect("a frame");
            let udp = parsed.transport.and_then(|transport| transport.udp());
            let udp = udp.expect("a datagram");
            let Some(etherparse::NetHeaders::Ipv4(ip, _)) = parsed.net else {
                unreachable!("IPv4 was sent");
            };
            assert_eq!(Ok(udp.checksum), udp.calc_checksum_ipv4(&ip, payload));
        }
        switch.stop("-TERM");
    });
}

#[test]
fn a_killed_switch_leaves_no_program_behind() {
    in_root_namespace("a_killed_switch_leaves_no_program_behind", || {
        cables();
        let (mut a, mut b) = (outside("a0"), outside("b0"));
        for round in 0..2 {
            let switch = start(&[]);
            switch.wait_for_line(&["offload: the whole program"]);
            send(&mut a, [numbered(round, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(round, 100)]);
            switch.signal("-KILL");
            let (status, _, _) = switch.end();
            assert_eq!(status, None);
            let start = Instant::now();
            while ["a1", "b1"].into_iter().any(has_program) {
                assert!(start.elapsed() < PATIENCE);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
}

#[test]
fn a_port_that_comes_back_is_served_again() {
    in_root_namespace("a_port_that_comes_back_is_served_again", || {
        cables();
        let mut a = outside("a0");
        let switch = start(&[]);
        switch.wait_for_line(&["offload: the whole program"]);
        ip("link del b0");
        switch.wait_for_line(&["\"b1\" was removed"]);
        veth_pair("b0", "b1");
        gro("b0", "on");
        switch.wait_for_line(&["\"b1\" is there again"]);
        let mut b = outside("b0");
        // It is served from a moment on; until then the engine forwards.
        for number in 0..100 {
            send(&mut a, [numbered(number, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(number, 100)]);
        }
        switch.signal("-TERM");
        let (status, printed, said) = switch.end();
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(totals(&printed)["packets"]["transmitted"], 100);
    });
}

#[test]
fn where_the_other_end_would_lose_all_the_engine_forwards_and_the_log_says_why() {
    in_root_namespace(
        "where_the_other_end_would_lose_all_the_engine_forwards_and_the_log_says_why",
        || {
            cables();
            gro("b0", "off");
            let (mut a, mut b) = (outside("a0"), outside("b0"));
            let switch = start(&[]);
            switch.wait_for_line(&["offload: nothing of the program", "\"b1\"", "gro on"]);
            send(&mut a, [numbered(1, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(1, 100)]);
            switch.signal("-TERM");
            let (status, printed, _) = switch.end();
            assert_eq!(status, Some(0));
            assert_eq!(totals(&printed)["packets"]["transmitted"], 1);
        },
    );
}

#[test]
fn it_needs_a_port_through_xdp_and_one_worker() {
    let program = program("forward.json").display().to_string();
    let engine = ["--engine", "kernel", "--grpc", "off", &program];
    let said = error(2, &[&["-i", "1@a1"][..], &engine].concat());
    assert!(
        said.contains("--engine kernel: expected a port through XDP"),
        "{said}"
    );
    let said = error(
        2,
        &[&["-i", "1@afxdp:a1", "--workers", "2"][..], &engine].concat(),
    );
    assert!(
        said.contains("--engine kernel: expected one worker"),
        "{said}"
    );
}
