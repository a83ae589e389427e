//! `--engine kernel`, on real veth pairs. The kernel lets only root outside any user namespace load programs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use packet_io::{AfPacketConfig, AfPacketPort};
use serde_json::Value;

use crate::frames::{local_sender, numbered, receive, send};
use crate::namespace::{in_root_mount_namespace, in_root_namespace, ip, veth_pair};
use crate::support::{PATIENCE, Running, TemporaryFolder, error, http_get, program};

/// Port 1 is a1, port 2 b1, of pairs whose other ends are a0 and b0; what comes to 1 leaves by 2.
fn arguments(options: &[&str]) -> Vec<String> {
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
    let all = [&ports[..], &engine, options, &program].concat();
    all.into_iter().map(str::to_owned).collect()
}

fn start(options: &[&str]) -> Running {
    let arguments = arguments(options);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Running::start_that_logs(&arguments)
}

/// The pairs; redirected frames arrive where GRO is on.
pub fn cables() {
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

pub fn outside(interface: &str) -> AfPacketPort {
    AfPacketPort::open(interface, AfPacketConfig::default()).expect("an interface that is up")
}

fn has_program(interface: &str) -> bool {
    let shown = Command::new("ip")
        .args(["link", "show", interface])
        .output();
    let shown = shown.expect("iproute2 is installed").stdout;
    String::from_utf8_lossy(&shown).contains("xdp")
}

pub fn totals(printed: &str) -> Value {
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
fn latencies_and_ports_in_the_metrics_have_what_the_kernel_forwards() {
    in_root_namespace(
        "latencies_and_ports_in_the_metrics_have_what_the_kernel_forwards",
        || {
            cables();
            let (mut a, mut b) = (outside("a0"), outside("b0"));
            let switch = start(&["--metrics", "127.0.0.1:0"]);
            switch.wait_for_line(&["offload: the whole program"]);
            send(&mut a, (0..100).map(|n| numbered(n, 60)));
            assert_eq!(receive(&mut b, 100).len(), 100);
            let (status, metrics) = http_get(&switch, "/metrics");
            assert_eq!(status, 200);
            let is_there = |name: &str, labels: &str, value: &str| {
                let mut lines = metrics.lines();
                let begin = format!("{name}{{{labels}");
                lines.any(|line| line.starts_with(&begin) && line.ends_with(value))
            };
            for (name, labels, value) in [
                ("reprise_port_latency_seconds_count", "port=\"2\"", " 100"),
                (
                    "reprise_stream_latency_seconds_count",
                    "stream=\"unicast\"",
                    " 100",
                ),
                ("reprise_port_offloaded", "port=\"1\"", " 1"),
                ("reprise_port_offloaded", "port=\"2\"", " 1"),
            ] {
                assert!(is_there(name, labels, value), "{name}: {metrics}");
            }
            switch.stop("-TERM");
        },
    );
}

#[test]
fn a_trace_has_every_packet_as_with_another_engine() {
    in_root_namespace("a_trace_has_every_packet_as_with_another_engine", || {
        cables();
        let (mut a, mut b) = (outside("a0"), outside("b0"));
        let folder = TemporaryFolder::new("kernel-trace");
        let file = folder.path("trace.txt");
        let switch = start(&["--trace-to", file.to_str().expect("a path")]);
        for number in 0..3 {
            send(&mut a, [numbered(number, 60)]);
            assert_eq!(receive(&mut b, 1), [numbered(number, 60)]);
        }
        switch.signal("-TERM");
        let (status, printed, said) = switch.end();
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(totals(&printed)["packets"]["transmitted"], 3);
        let story = std::fs::read_to_string(file).expect("a trace");
        // The table of each packet.
        assert!(story.matches("forward").count() >= 3, "{story}");
    });
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

/// Sends one frame after the other and takes it at the other end, until told to end; how many there were. Each is
/// expected.
fn forwarded_all_the_time(is_over: Arc<AtomicBool>) -> JoinHandle<u32> {
    let (mut a, mut b) = (outside("a0"), outside("b0"));
    std::thread::spawn(move || {
        let mut n_frames = 0;
        while !is_over.load(Ordering::Relaxed) {
            send(&mut a, [numbered(n_frames, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(n_frames, 100)]);
            n_frames += 1;
        }
        n_frames
    })
}

#[test]
fn what_is_kept_forwards_without_the_switch_and_the_next_one_takes_over_without_a_loss() {
    in_root_mount_namespace(
        "what_is_kept_forwards_without_the_switch_and_the_next_one_takes_over_without_a_loss",
        || {
            cables();
            let folder = TemporaryFolder::new("kept");
            let mounted = folder.path("");
            let mount = Command::new("mount")
                .args(["-t", "bpf", "bpf"])
                .arg(&mounted)
                .status();
            assert!(mount.expect("mount is installed").success());
            let kept = mounted.join("switch");
            let options = ["--keep-forwarding", kept.to_str().expect("a path")];
            let mut switch = start(&options);
            switch.wait_for_line(&["offload: the whole program"]);
            let is_over = Arc::new(AtomicBool::new(false));
            let forwarding = forwarded_all_the_time(Arc::clone(&is_over));
            for signal in ["-KILL", "-TERM", "-KILL"] {
                switch.signal(signal);
                let (status, _, said) = switch.end();
                assert_eq!(status, (signal == "-TERM").then_some(0), "{said}");
                for interface in ["a1", "b1"] {
                    assert!(has_program(interface), "{interface}");
                }
                // One that is not told of it may not have the ports.
                let said = error(1, &["-i", "1@afxdp:a1"]);
                assert!(said.contains("\"a1\""), "{said}");
                switch = start(&options);
                switch.wait_for_line(&["offload: the whole program"]);
                assert!(!forwarding.is_finished());
            }
            is_over.store(true, Ordering::Relaxed);
            assert!(forwarding.join().expect("each frame arrives") > 0);
            // A trace has all packets: nothing forwards beside it.
            switch.signal("-KILL");
            switch.end();
            let traces = TemporaryFolder::new("kept-trace");
            let trace = traces.path("trace.txt");
            let trace = ["--trace-to", trace.to_str().expect("a path")];
            let switch = start(&[&options[..], &trace].concat());
            let (mut a, mut b) = (outside("a0"), outside("b0"));
            send(&mut a, [numbered(1, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(1, 100)]);
            switch.signal("-TERM");
            let (status, printed, said) = switch.end();
            assert_eq!(status, Some(0), "{said}");
            assert_eq!(totals(&printed)["packets"]["transmitted"], 1);
            umount(&mounted);
        },
    );
}

fn umount(folder: &Path) {
    let umount = Command::new("umount").arg(folder).status();
    assert!(umount.expect("umount is installed").success());
}

#[test]
fn what_is_to_be_kept_needs_a_folder_where_it_can_be() {
    let folder = TemporaryFolder::new("kept-nowhere");
    let path = folder.path("switch");
    let path = path.to_str().expect("a path");
    let kernel = ["-i", "1@afxdp:a1", "--engine", "kernel", "--grpc", "off"];
    let program = program("forward.json").display().to_string();
    let keep = ["--keep-forwarding", path, &program];
    let said = error(1, &[&kernel[..], &keep].concat());
    assert!(said.contains("is in no BPF file system"), "{said}");
    let said = error(2, &[&["-i", "1@a1", "--grpc", "off"][..], &keep].concat());
    assert!(
        said.contains("--keep-forwarding: expected --engine kernel"),
        "{said}"
    );
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
fn the_totals_of_a_port_stay_while_its_interface_is_away() {
    in_root_namespace(
        "the_totals_of_a_port_stay_while_its_interface_is_away",
        || {
            cables();
            let (mut a, mut b) = (outside("a0"), outside("b0"));
            let switch = start(&[]);
            switch.wait_for_line(&["offload: the whole program"]);
            send(&mut a, (0..50).map(|n| numbered(n, 100)));
            assert_eq!(receive(&mut b, 50).len(), 50);
            ip("link del b0");
            switch.wait_for_line(&["\"b1\" was removed"]);
            switch.signal("-TERM");
            let (status, printed, said) = switch.end();
            assert_eq!(status, Some(0), "{said}");
            let totals = totals(&printed);
            assert_eq!(totals["packets"]["transmitted"], 50);
            assert_eq!(totals["ports"][0]["rx_frames"], 50);
            assert_eq!(totals["ports"][1]["tx_frames"], 50);
        },
    );
}

#[test]
fn what_comes_while_a_link_is_down_is_counted_and_it_goes_on_behind() {
    in_root_namespace(
        "what_comes_while_a_link_is_down_is_counted_and_it_goes_on_behind",
        || {
            cables();
            let mut a = outside("a0");
            let switch = start(&[]);
            switch.wait_for_line(&["offload: the whole program"]);
            ip("link set b0 down");
            switch.wait_for_line(&["\"b1\"", "down"]);
            send(&mut a, (0..20).map(|n| numbered(n, 100)));
            ip("link set b0 up");
            switch.wait_for_line(&["\"b1\"", "up"]);
            let mut b = outside("b0");
            send(&mut a, [numbered(77, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(77, 100)]);
            switch.signal("-TERM");
            let (status, printed, said) = switch.end();
            assert_eq!(status, Some(0), "{said}");
            assert!(!said.contains("offload"), "{said}");
            let totals = totals(&printed);
            assert_eq!(totals["packets"]["received"], 21);
            assert_eq!(totals["packets"]["transmitted"], 1);
            assert_eq!(totals["drops"]["device_refused"], 20);
            assert_eq!(totals["packets"]["inside"], 0);
        },
    );
}

#[test]
fn a_second_switch_on_a_port_is_told_so_and_the_first_goes_on() {
    in_root_namespace(
        "a_second_switch_on_a_port_is_told_so_and_the_first_goes_on",
        || {
            cables();
            let (mut a, mut b) = (outside("a0"), outside("b0"));
            let switch = start(&[]);
            switch.wait_for_line(&["offload: the whole program"]);
            let forward = program("forward.json").display().to_string();
            let options = ["-i", "1@afxdp:a1", "--engine", "kernel", "--grpc", "off"];
            let said = error(1, &[&options[..], &[&forward]].concat());
            assert!(said.contains("\"a1\""), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            send(&mut a, [numbered(3, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(3, 100)]);
            let totals = totals(&switch.stop("-TERM"));
            assert_eq!(totals["packets"]["transmitted"], 1);
        },
    );
}

/// The ports can be had, but not the kernel engine: who forwards, and what is said why.
fn refused(switch: Running, reason: &[&str]) {
    let (mut a, mut b) = (outside("a0"), outside("b0"));
    let words = [&["offload: nothing of the program"], reason].concat();
    switch.wait_for_line(&words);
    send(&mut a, [numbered(1, 100)]);
    assert_eq!(receive(&mut b, 1), [numbered(1, 100)]);
    switch.signal("-TERM");
    let (status, printed, said) = switch.end();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(totals(&printed)["packets"]["transmitted"], 1);
    for interface in ["a1", "b1"] {
        assert!(!has_program(interface), "{interface}");
    }
}

#[test]
fn where_frames_do_not_fit_one_buffer_the_engine_forwards_and_the_log_says_why() {
    in_root_namespace(
        "where_frames_do_not_fit_one_buffer_the_engine_forwards_and_the_log_says_why",
        || {
            cables();
            for interface in ["b0", "b1"] {
                ip(&format!("link set {interface} mtu 9000"));
            }
            refused(start(&[]), &["port 2", "\"b1\"", "MTU"]);
        },
    );
}

#[test]
fn where_a_driver_runs_no_programs_the_engine_forwards_and_the_log_says_why() {
    in_root_namespace(
        "where_a_driver_runs_no_programs_the_engine_forwards_and_the_log_says_why",
        || {
            cables();
            ip("link add d1 type bridge");
            ip("link set d1 up");
            let third = ["-i", "3@afxdp:d1"];
            refused(start(&third), &["port 3", "\"d1\"", "generic"]);
        },
    );
}

/// Runs a command whose `membarrier(2)` the kernel refuses, as one does of which processors are kept free of the
/// scheduler (`nohz_full`).
const WITHOUT_MEMBARRIER: &str = r#"
import ctypes, os, platform, struct, sys
number = {"x86_64": 324, "aarch64": 283}[platform.machine()]
load, jump_if_equal, give = 0x20, 0x15, 0x06
code = [(load, 0, 0, 0), (jump_if_equal, 0, 1, number), (give, 0, 0, 0x0005_0016), (give, 0, 0, 0x7FFF_0000)]
code = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
memory = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(memory))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(22, 2, ctypes.c_char_p(program), 0, 0) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn where_the_kernel_waits_for_no_grace_period_the_engine_forwards_and_the_log_says_why() {
    in_root_namespace(
        "where_the_kernel_waits_for_no_grace_period_the_engine_forwards_and_the_log_says_why",
        || {
            cables();
            let mut command = Command::new("python3");
            command.args(["-c", WITHOUT_MEMBARRIER]);
            command.arg(env!("CARGO_BIN_EXE_reprise-switch"));
            command.args(arguments(&[]));
            refused(Running::of(command), &["membarrier"]);
        },
    );
}

#[test]
fn without_privileges_it_says_so_and_leaves_nothing_behind() {
    in_root_namespace(
        "without_privileges_it_says_so_and_leaves_nothing_behind",
        || {
            cables();
            let output = Command::new("setpriv")
                .args(["--bounding-set=-all", "--inh-caps=-all"])
                .arg(env!("CARGO_BIN_EXE_reprise-switch"))
                .args(arguments(&[]))
                .output();
            let output = output.expect("util-linux is installed");
            let said = String::from_utf8(output.stderr).expect("text");
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.starts_with("error: "), "{said}");
            assert!(said.contains("\"a1\""), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            for interface in ["a1", "b1"] {
                assert!(!has_program(interface), "{interface}");
            }
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
