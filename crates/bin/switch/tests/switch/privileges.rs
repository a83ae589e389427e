//! Checks the privileges of every thread of a running switch: a thread has only those that the switch's ports need, and
//! nothing that the switch executes can gain more.

use std::fs;

use testkit::namespace::{in_namespace, in_root_namespace, ip, veth_pair};

use crate::support::{Running, TemporaryFolder, program, words_of};

/// From Linux's capability.h.
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const IPC_LOCK: u32 = 14;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// Effective capabilities of each thread of the process, as bits.
fn threads(switch: &Running) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{}/task", switch.id())).expect("a process");
    let mut all = Vec::new();
    for task in tasks {
        let path = task.expect("a thread").path().join("status");
        let status = fs::read_to_string(path).expect("its status");
        let field = |name: &str| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)).expect(name);
            value.trim_start_matches(':').trim().to_owned()
        };
        assert_eq!(field("NoNewPrivs"), "1", "{status}");
        let bits = |name| u64::from_str_radix(&field(name), 16).expect("bits");
        // A permitted capability could be made effective again.
        assert_eq!(bits("CapPrm"), bits("CapEff"), "{status}");
        assert_eq!(bits("CapInh") | bits("CapAmb"), 0, "{status}");
        all.push(bits("CapEff"));
    }
    all
}

fn expect(switch: &Running, needed: &[u32]) {
    let needed = needed.iter().fold(0, |bits, number| bits | 1 << number);
    let found = threads(switch);
    // The log's thread needs none.
    assert!(found.len() >= 4, "{found:x?}");
    assert!(found.contains(&needed), "{found:x?}, expected {needed:x}");
    assert!(
        found.iter().all(|bits| [0, needed].contains(bits)),
        "{found:x?}, expected {needed:x} or nothing"
    );
}

fn start(arguments: &[&str]) -> Running {
    let source = program("kept.p4");
    let own = ["--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0", &source];
    Running::start_that_logs(&[&own[..], arguments].concat())
}

#[test]
fn a_switch_on_udp_sockets_and_captures_keeps_no_privilege() {
    in_namespace(|| {
        ip("link set lo up");
        let folder = TemporaryFolder::new("privileges");
        let capture = format!("2@pcap:,{}", folder.path("out.pcap").display());
        let switch = start(&["-i", "1@udp:127.0.0.1:0", "-i", &capture]);
        expect(&switch, &[]);
        switch.stop("-TERM");
    });
}

#[test]
fn a_switch_on_packet_sockets_keeps_what_opens_another_one() {
    in_namespace(|| {
        ip("link set lo up");
        veth_pair("a0", "a1");
        let switch = start(&["-i", "1@a1", "--workers", "2", "--log-level", "off"]);
        expect(&switch, &[NET_RAW]);
        switch.stop("-TERM");
    });
}

#[test]
fn a_switch_on_af_xdp_keeps_what_loads_its_program_again() {
    in_root_namespace(|| {
        ip("link set lo up");
        veth_pair("a0", "a1");
        let switch = start(&["-i", "1@afxdp:a1", "--log-level", "off"]);
        expect(&switch, &[NET_ADMIN, NET_RAW, IPC_LOCK, BPF]);
        switch.stop("-TERM");
    });
}

#[test]
fn a_switch_in_the_kernel_keeps_what_loads_the_next_program() {
    in_root_namespace(|| {
        ip("link set lo up");
        veth_pair("a0", "a1");
        let switch = start(&words_of("-i 1@afxdp:a1 --engine kernel --log-level off"));
        expect(&switch, &[NET_ADMIN, NET_RAW, IPC_LOCK, PERFMON, BPF]);
        switch.stop("-TERM");
    });
}
