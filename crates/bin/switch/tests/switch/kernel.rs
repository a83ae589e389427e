//! `--engine kernel`, on real veth pairs. The kernel lets only root outside any user namespace load programs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirEntry;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use p4runtime_proto::p4::config::v1::P4Info;
use packet_io::{AfPacketConfig, AfPacketPort, Port, Waiter};
use serde_json::Value;
use testkit::frames::{local_sender, numbered, receive, send};
use testkit::namespace::{
    ethtool, has_xdp_program, in_root_mount_namespace, in_root_namespace, interface_index, ip, run,
    veth_pair,
};
use testkit::text::{assert_has, assert_starts};

use crate::p4runtime::primary;
use crate::support::{
    FORWARD, Running, TIMEOUT, TemporaryFolder, drops, error, http_get, http_get_from,
    lost_at_sender, outside, program, totals,
};

/// Returns the arguments of a switch whose ports 1 and 2 are the interfaces a1 and b1. These are ends of veth pairs;
/// the other ends are a0 and b0. Frames from port 1 leave through port 2.
fn arguments<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let ports = ["-i", "1@afxdp:a1", "-i", "2@afxdp:b1"];
    let others = ["--grpc", "off", "--json", "--engine", "kernel"];
    [
        &ports[..],
        &others,
        &["--explain-engine"],
        options,
        &FORWARD,
    ]
    .concat()
}

fn start(options: &[&str]) -> Running {
    Running::start_that_logs(&arguments(options))
}

/// Starts a switch, and waits until the kernel has the switch's program.
fn start_offloaded(options: &[&str]) -> Running {
    let switch = start(options);
    switch.wait_for_line(&["offload: the whole program"]);
    switch
}

/// Makes the veth pairs. Turns GRO on at their outer ends, because redirected frames arrive only where GRO is on.
pub fn cables() {
    ip("link set lo up");
    veth_pair("a0", "a1");
    veth_pair("b0", "b1");
    for peer in ["a0", "b0"] {
        ethtool(&format!("-K {peer} gro on"));
    }
}

/// Runs a test with packet sockets at the cables' outer ends.
fn on_cables(test: impl FnOnce(AfPacketPort, AfPacketPort)) {
    in_root_namespace(|| {
        cables();
        test(outside("a0"), outside("b0"));
    });
}

#[test]
fn the_whole_program_is_in_the_kernel_and_the_totals_have_its_frames() {
    on_cables(|mut a, mut b| {
        let switch = start_offloaded(&[]);
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
            assert!(!has_xdp_program(interface), "{interface}");
        }
    });
}

#[test]
fn latencies_and_ports_in_the_metrics_have_what_the_kernel_forwards() {
    on_cables(|mut a, mut b| {
        let switch = start_offloaded(&["--metrics", "127.0.0.1:0"]);
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
    });
}

#[test]
fn a_trace_has_every_packet_as_with_another_engine() {
    on_cables(|mut a, mut b| {
        let folder = TemporaryFolder::new("kernel-trace");
        let file = folder.path("trace.txt");
        let switch = start(&["--trace-to", file.to_str().expect("a path")]);
        for number in 0..3 {
            send(&mut a, [numbered(number, 60)]);
            assert_eq!(receive(&mut b, 1), [numbered(number, 60)]);
        }
        let (printed, _) = switch.stop_that_logs("-TERM");
        assert_eq!(totals(&printed)["packets"]["transmitted"], 3);
        let story = std::fs::read_to_string(file).expect("a trace");
        // Each packet's trace names the table.
        assert!(story.matches("forward").count() >= 3, "{story}");
    });
}

#[test]
fn a_local_sender_s_unfinished_checksum_is_finished() {
    in_root_namespace(|| {
        cables();
        let mut b = outside("b0");
        let switch = start_offloaded(&[]);
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
    on_cables(|mut a, mut b| {
        for round in 0..2 {
            let switch = start_offloaded(&[]);
            send(&mut a, [numbered(round, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(round, 100)]);
            switch.signal("-KILL");
            let (status, _, _) = switch.end();
            assert_eq!(status, None);
            let start = Instant::now();
            while ["a1", "b1"].into_iter().any(has_xdp_program) {
                assert!(start.elapsed() < TIMEOUT);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
}

/// Repeatedly sends a frame and receives it at the other end, until `is_over`; returns the number of frames. No frame
/// may be lost.
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
    in_root_mount_namespace(|| {
        cables();
        let folder = TemporaryFolder::new("kept");
        let mounted = folder.path("");
        run(&format!("mount -t bpf bpf {}", mounted.display()));
        let kept = mounted.join("switch");
        let options = ["--keep-forwarding", kept.to_str().expect("a path")];
        let mut switch = start_offloaded(&options);
        let is_over = Arc::new(AtomicBool::new(false));
        let forwarding = forwarded_all_the_time(Arc::clone(&is_over));
        for signal in ["-KILL", "-TERM", "-KILL"] {
            switch.signal(signal);
            let (status, _, said) = switch.end();
            assert_eq!(status, (signal == "-TERM").then_some(0), "{said}");
            for interface in ["a1", "b1"] {
                assert!(has_xdp_program(interface), "{interface}");
            }
            // A switch without `--keep-forwarding` cannot have the ports.
            let said = error(1, &["-i", "1@afxdp:a1"]);
            assert_has(&said, "\"a1\"");
            switch = start_offloaded(&options);
            assert!(!forwarding.is_finished());
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(forwarding.join().expect("each frame arrives") > 0);
        // A trace must have all packets, so nothing is offloaded.
        switch.signal("-KILL");
        switch.end();
        let traces = TemporaryFolder::new("kept-trace");
        let trace = traces.path("trace.txt");
        let trace = ["--trace-to", trace.to_str().expect("a path")];
        let switch = start(&[&options[..], &trace].concat());
        let (mut a, mut b) = (outside("a0"), outside("b0"));
        send(&mut a, [numbered(1, 100)]);
        assert_eq!(receive(&mut b, 1), [numbered(1, 100)]);
        let (printed, _) = switch.stop_that_logs("-TERM");
        assert_eq!(totals(&printed)["packets"]["transmitted"], 1);
        run(&format!("umount {}", mounted.display()));
    });
}

#[test]
fn what_is_to_be_kept_needs_a_folder_where_it_can_be() {
    let folder = TemporaryFolder::new("kept-nowhere");
    let path = folder.path("switch");
    let path = path.to_str().expect("a path");
    let kernel = ["-i", "1@afxdp:a1", "--engine", "kernel", "--grpc", "off"];
    let program = program("forward.json");
    let keep = ["--keep-forwarding", path, &program];
    let said = error(1, &[&kernel[..], &keep].concat());
    assert_has(&said, "is in no BPF file system");
    // This folder does not exist, as on a machine without a mounted BPF file system.
    let nowhere = "/proc/nowhere/reprise";
    let keep_nowhere = ["--keep-forwarding", nowhere, &program];
    let said = error(1, &[&kernel[..], &keep_nowhere].concat());
    assert_has(&said, nowhere);
    assert_has(&said, "mount -t bpf bpf /sys/fs/bpf");
    let said = error(2, &[&["-i", "1@a1", "--grpc", "off"][..], &keep].concat());
    assert_has(&said, "--keep-forwarding: expected --engine kernel");
}

#[test]
fn a_port_that_comes_back_is_served_again() {
    in_root_namespace(|| {
        cables();
        let mut a = outside("a0");
        let switch = start_offloaded(&[]);
        ip("link del b0");
        switch.wait_for_line(&["\"b1\" was removed"]);
        veth_pair("b0", "b1");
        ethtool("-K b0 gro on");
        switch.wait_for_line(&["\"b1\" is there again"]);
        let mut b = outside("b0");
        // The offload begins at some moment; until then the engine forwards.
        for number in 0..100 {
            send(&mut a, [numbered(number, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(number, 100)]);
        }
        let (printed, _) = switch.stop_that_logs("-TERM");
        assert_eq!(totals(&printed)["packets"]["transmitted"], 100);
    });
}

/// Frames of [`Stream`] in each millisecond.
const STREAM_FRAMES_PER_MS: u32 = 20;

/// Sends 20,000 numbered frames a second to a0, and receives from b0.
struct Stream {
    is_over: Arc<AtomicBool>,
    sender: JoinHandle<u32>,
    receiver: JoinHandle<Vec<u32>>,
}

impl Stream {
    fn start() -> Stream {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut a = outside("a0");
        // With this ring, a receiver that is not scheduled for some seconds loses nothing.
        let config = AfPacketConfig {
            rx_ring_slots: 1 << 17,
            ..AfPacketConfig::default()
        };
        let mut b = AfPacketPort::open("b0", config).expect("an interface that is up");
        let sending = Arc::clone(&is_over);
        let sender = std::thread::spawn(move || {
            let (start, mut n_frames) = (Instant::now(), 0);
            while !sending.load(Ordering::Relaxed) {
                send(
                    &mut a,
                    (0..STREAM_FRAMES_PER_MS).map(|n| numbered(n_frames + n, 100)),
                );
                n_frames += STREAM_FRAMES_PER_MS;
                // Late frames are not sent in one burst, which could exceed the cable's queue.
                let due = Duration::from_millis((n_frames / STREAM_FRAMES_PER_MS).into());
                let early = due.saturating_sub(start.elapsed());
                std::thread::sleep(early.max(Duration::from_micros(300)));
            }
            n_frames
        });
        let receiver = std::thread::spawn(move || {
            let (mut numbers, mut waiter) = (Vec::new(), Waiter::default());
            loop {
                let fd = b.poll_fd().expect("a descriptor");
                waiter
                    .wait([fd], Some(Duration::from_secs(2)))
                    .expect("waiting");
                if !waiter.is_ready(0) {
                    return numbers;
                }
                let mut take = |frame: &[u8]| {
                    let number = frame.get(14..18).and_then(|it| it.try_into().ok());
                    numbers.push(u32::from_be_bytes(number.expect("a number")));
                };
                b.receive(0, 64, &mut take).expect("receiving");
            }
        });
        Stream {
            is_over,
            sender,
            receiver,
        }
    }

    /// Returns how many frames were sent, and the sorted numbers that arrived.
    fn end(self) -> (u32, Vec<u32>) {
        self.is_over.store(true, Ordering::Relaxed);
        let n_sent = self.sender.join().expect("a sender");
        let mut numbers = self.receiver.join().expect("a receiver");
        numbers.sort_unstable();
        (n_sent, numbers)
    }
}

/// How long each thread of a process has waited for a processor, in nanoseconds.
fn waits(process: u32) -> BTreeMap<OsString, u64> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let of_thread = |thread: DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let wait = text.split_whitespace().nth(1)?.parse().ok()?;
        Some((thread.file_name(), wait))
    };
    threads
        .filter_map(|thread| of_thread(thread.ok()?))
        .collect()
}

/// How long the present threads of a process have waited for a processor since `before` was read.
fn waited_since(before: &BTreeMap<OsString, u64>, process: u32) -> Duration {
    let now = waits(process);
    let since = now
        .iter()
        .map(|(thread, wait)| wait - before.get(thread).unwrap_or(&0));
    Duration::from_nanos(since.sum())
}

/// Fails if frames are missing for another reason than lack of room in the switch or in the cable. `waited` is how long
/// the switch has waited for a processor; it limits how many frames may be missing. Returns how many are missing.
fn assert_all_came((n_sent, came): (u32, Vec<u32>), totals: &Value, waited: Duration) -> u32 {
    let n_lost = n_sent - u32::try_from(came.len()).expect("no more than were sent");
    let first = (0..n_sent).zip(&came).find(|(n, came)| n != *came);
    let said = format!("{n_lost} of {n_sent}, from {first:?}, {waited:?}: {totals}");
    let had_no_room = drops(&totals["ports"][0], "rx_") + lost_at_sender("a0");
    assert_eq!(u64::from(n_lost), had_no_room, "{said}");
    assert!(
        u128::from(n_lost) <= u128::from(STREAM_FRAMES_PER_MS) * waited.as_millis(),
        "{said}"
    );
    n_lost
}

/// How often another port's interface is removed and created: 4 times, or as often as `REPRISE_CYCLES` says.
fn n_cycles() -> usize {
    let cycles = std::env::var("REPRISE_CYCLES");
    cycles.map_or(4, |cycles| cycles.parse().expect("a number"))
}

#[test]
fn a_bystander_loses_nothing_while_another_port_s_interface_goes_and_comes() {
    in_root_namespace(|| {
        cables();
        veth_pair("c0", "c1");
        ethtool("-K c0 gro on");
        let switch = start_offloaded(&["-i", "3@afxdp:c1"]);
        let before = waits(switch.id());
        let stream = Stream::start();
        for _ in 0..n_cycles() {
            ip("link del c0");
            switch.wait_for_line(&["\"c1\" was removed"]);
            veth_pair("c0", "c1");
            ethtool("-K c0 gro on");
            switch.wait_for_line(&["\"c1\" is there again"]);
        }
        let sent_and_came = stream.end();
        let n_sent = sent_and_came.0;
        let waited = waited_since(&before, switch.id());
        let (printed, said) = switch.stop_that_logs("-TERM");
        assert!(!said.contains("offload_stopped"), "{said}");
        let totals = totals(&printed);
        let n_forwarded = n_sent - assert_all_came(sent_and_came, &totals, waited);
        assert_eq!(totals["packets"]["transmitted"], n_forwarded);
        assert_eq!(totals["packets"]["inside"], 0);
        assert_eq!(totals["ports"][1]["tx_frames"], n_forwarded);
    });
}

/// A program that sends frames from port 1 to port 2 without any entry, and that the verifier checks for long because
/// of `n_tables` tables on the path.
fn long_program(n_tables: usize) -> (P4Info, Vec<u8>) {
    let numbers = 0..n_tables;
    let tables: String = numbers
        .clone()
        .map(|n| {
            let field = n % 8;
            format!(
                "action set_{n}(bit<32> v) {{ hdr.h.f{field} = hdr.h.f{field} ^ v; }}
                 action add_{n}(bit<32> v) {{ hdr.h.f{field} = hdr.h.f{field} + v; }}
                 table t{n} {{
                     key = {{ hdr.h.f{field} : exact; }}
                     actions = {{ set_{n}; add_{n}; NoAction; }}
                     default_action = NoAction();
                 }}
"
            )
        })
        .collect();
    let applied: String = numbers.map(|n| format!("t{n}.apply();\n")).collect();
    let fields: String = (0..8).map(|n| format!("bit<32> f{n}; ")).collect();
    let text = format!(
        "#include <core.p4>
         #include <v1model.p4>
         header ethernet_t {{ bit<48> to; bit<48> from; bit<16> kind; }}
         header fields_t {{ {fields} }}
         struct headers_t {{ ethernet_t ethernet; fields_t h; }}
         struct meta_t {{}}
         parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {{
             state start {{ p.extract(hdr.ethernet); p.extract(hdr.h); transition accept; }}
         }}
         control V(inout headers_t hdr, inout meta_t m) {{ apply {{}} }}
         control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {{
             {tables}
             apply {{
                 {applied}
                 if (s.ingress_port == 1) {{ s.egress_spec = 2; }} else {{ mark_to_drop(s); }}
             }}
         }}
         control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {{ apply {{}} }}
         control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr.ethernet); p.emit(hdr.h); }} }}
         V1Switch(P(), V(), I(), E(), V(), D()) main;"
    );
    let options = p4_compiler::Options::default();
    let output = p4_compiler::compile("long.p4", &text, &|_: &str| None, &options);
    assert!(output.p4info.is_some(), "{:?}", output.diagnostics);
    let json = output.bmv2_json.expect("a sound program").to_json();
    let p4info = output.p4info.expect("a sound program");
    (p4info, json.expect("JSON").into_bytes())
}

/// Sets a program `times` times, and each time waits until it forwards in the kernel.
fn set_pipeline(switch: &Running, (p4info, json): &(P4Info, Vec<u8>), times: usize) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut client = primary(switch).await;
        for _ in 0..times {
            let set = client.set_pipeline(p4info.clone(), json.clone()).await;
            set.expect("the pipeline is set");
            switch.wait_for_line(&["offload_forwards"]);
        }
    });
}

#[test]
fn a_bystander_loses_nothing_while_a_program_is_made_ready_for_the_kernel() {
    in_root_namespace(|| {
        cables();
        let program = long_program(8);
        let arguments = ["-i", "1@afxdp:a1", "-i", "2@afxdp:b1", "--json"];
        let engine = ["--engine", "kernel", "--grpc", "127.0.0.1:0"];
        let others = ["--log-level", "info", "--metrics", "127.0.0.1:0"];
        let switch = Running::start_that_logs(&[&arguments[..], &engine, &others].concat());
        set_pipeline(&switch, &program, 1);
        let before = waits(switch.id());
        let stream = Stream::start();
        let is_set = AtomicBool::new(false);
        let metrics = switch.address("metrics on ").to_owned();
        let answers = std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let mut answers = Vec::new();
                while !is_set.load(Ordering::Relaxed) && answers.len() < 12_000 {
                    answers.push(http_get_from(&metrics, "/readyz").0);
                    std::thread::sleep(Duration::from_millis(10));
                }
                answers
            });
            set_pipeline(&switch, &program, 3);
            is_set.store(true, Ordering::Relaxed);
            asked.join().expect("answers")
        });
        assert!(answers.iter().all(|it| *it == 200), "{answers:?}");
        let sent_and_came = stream.end();
        let waited = waited_since(&before, switch.id());
        let (printed, _) = switch.stop_that_logs("-TERM");
        let totals = totals(&printed);
        assert_all_came(sent_and_came, &totals, waited);
        assert_eq!(
            totals["packets"]["received"],
            totals["packets"]["transmitted"]
        );
    });
}

/// Returns the number that follows `name` in a file of `/proc`.
fn number_in(text: &str, name: &str) -> Option<u32> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    value.trim().parse().ok()
}

/// Detaches a switch's XDP program from the interface with this index, like `bpftool link detach`.
#[expect(unsafe_code, reason = "bpf(2) and pidfd_getfd(2) have no safe form")]
fn detach(switch: &Running, interface_index: u32) {
    let process = format!("/proc/{}", switch.id());
    let files = std::fs::read_dir(format!("{process}/fdinfo")).expect("a process");
    let is_link = |fd: &i32| {
        let text = std::fs::read_to_string(format!("{process}/fdinfo/{fd}"));
        let text = text.unwrap_or_default();
        text.contains("link_type:\txdp") && number_in(&text, "ifindex:") == Some(interface_index)
    };
    let names = files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok());
    let fd: i32 = names.into_iter().find(is_link).expect("the link");
    // SAFETY: only bpf(2) takes an address, and its attributes outlive that call.
    unsafe {
        let pidfd = libc::syscall(libc::SYS_pidfd_open, switch.id(), 0);
        assert!(pidfd >= 0);
        let link = libc::syscall(libc::SYS_pidfd_getfd, pidfd, fd, 0);
        assert!(link >= 0);
        // `BPF_LINK_DETACH`
        let mut attributes = u32::try_from(link).expect("a descriptor");
        let detached = libc::syscall(libc::SYS_bpf, 34, &raw mut attributes, 4);
        assert_eq!(detached, 0, "{}", std::io::Error::last_os_error());
        libc::close(link as i32);
        libc::close(pidfd as i32);
    }
}

#[test]
fn a_frame_that_is_too_long_for_a_port_is_counted_as_that() {
    in_root_namespace(|| {
        cables();
        for interface in ["b0", "b1"] {
            ip(&format!("link set {interface} mtu 1000"));
        }
        let (mut a, mut b) = (outside("a0"), outside("b0"));
        let switch = start_offloaded(&["--metrics", "127.0.0.1:0"]);
        send(&mut a, [numbered(1, 1200), numbered(2, 1014)]);
        assert_eq!(receive(&mut b, 1), [numbered(2, 1014)]);
        // The kernel punts the first frame, so the switch may process it after the second has left.
        let of_second = "reprise_port_transmit_drops_total{port=\"2\"";
        let is_counted = |line: &str| {
            line.starts_with(of_second) && line.contains("\"tx_too_long\"") && line.ends_with(" 1")
        };
        let until = Instant::now() + Duration::from_secs(120);
        while !http_get(&switch, "/metrics").1.lines().any(is_counted) {
            assert!(Instant::now() < until, "the long frame is not counted");
        }
        let totals = totals(&switch.stop("-TERM"));
        assert_eq!(totals["ports"][1]["tx_too_long"], 1, "{totals}");
        assert_eq!(totals["drops"]["device_refused"], 0, "{totals}");
    });
}

#[test]
fn where_the_other_end_of_a_veth_has_more_queues_the_log_says_so() {
    in_root_namespace(|| {
        ip("link set lo up");
        veth_pair("a0", "a1");
        ethtool("-K a0 gro on");
        ip("link add b0 numtxqueues 2 type veth peer name b1 numrxqueues 1 numtxqueues 1");
        for interface in ["b0", "b1"] {
            ip(&format!("link set {interface} up"));
        }
        let switch = start(&[]);
        switch.wait_for_line(&[
            "nothing of the program",
            "\"b1\"",
            "1 receive queues, fewer than its other end has transmit queues",
        ]);
        switch.wait_for_line(&["the engine forwards all", "event=\"offload_refused\""]);
        switch.stop("-TERM");
    });
}

#[test]
fn a_program_that_somebody_detaches_is_noticed_and_attached_again() {
    on_cables(|mut a, mut b| {
        for engine in ["kernel", "native"] {
            let words = arguments(&[]).into_iter();
            let words = words.map(|word| if word == "kernel" { engine } else { word });
            let arguments: Vec<&str> = words.collect();
            let switch = Running::start_that_logs(&arguments);
            detach(&switch, interface_index("a1"));
            switch.wait_for_line(&["port_detached", "\"a1\""]);
            switch.wait_for_line(&["\"a1\" is there again"]);
            assert!(has_xdp_program("a1"));
            send(&mut a, [numbered(1, 100)]);
            assert_eq!(receive(&mut b, 1), [numbered(1, 100)]);
            switch.signal("-TERM");
            switch.end();
        }
    });
}

#[test]
fn where_the_other_end_would_lose_all_the_engine_forwards_and_the_log_says_why() {
    in_root_namespace(|| {
        cables();
        ethtool("-K b0 gro off");
        let (mut a, mut b) = (outside("a0"), outside("b0"));
        let switch = start(&[]);
        switch.wait_for_line(&["offload: nothing of the program", "\"b1\"", "gro on"]);
        send(&mut a, [numbered(1, 100)]);
        assert_eq!(receive(&mut b, 1), [numbered(1, 100)]);
        switch.signal("-TERM");
        let (status, printed, _) = switch.end();
        assert_eq!(status, Some(0));
        assert_eq!(totals(&printed)["packets"]["transmitted"], 1);
    });
}

#[test]
fn the_totals_of_a_port_stay_while_its_interface_is_away() {
    on_cables(|mut a, mut b| {
        let switch = start_offloaded(&[]);
        send(&mut a, (0..50).map(|n| numbered(n, 100)));
        assert_eq!(receive(&mut b, 50).len(), 50);
        ip("link del b0");
        switch.wait_for_line(&["\"b1\" was removed"]);
        let (printed, _) = switch.stop_that_logs("-TERM");
        let totals = totals(&printed);
        assert_eq!(totals["packets"]["transmitted"], 50);
        assert_eq!(totals["ports"][0]["rx_frames"], 50);
        assert_eq!(totals["ports"][1]["tx_frames"], 50);
    });
}

#[test]
fn what_comes_while_a_link_is_down_is_counted_and_it_goes_on_behind() {
    in_root_namespace(|| {
        cables();
        let mut a = outside("a0");
        let switch = start_offloaded(&[]);
        ip("link set b0 down");
        switch.wait_for_line(&["\"b1\"", "down"]);
        send(&mut a, (0..20).map(|n| numbered(n, 100)));
        ip("link set b0 up");
        switch.wait_for_line(&["\"b1\"", "up"]);
        let mut b = outside("b0");
        send(&mut a, [numbered(77, 100)]);
        assert_eq!(receive(&mut b, 1), [numbered(77, 100)]);
        let (printed, said) = switch.stop_that_logs("-TERM");
        assert!(!said.contains("offload"), "{said}");
        let totals = totals(&printed);
        assert_eq!(totals["packets"]["received"], 21);
        assert_eq!(totals["packets"]["transmitted"], 1);
        assert_eq!(totals["drops"]["device_refused"], 20);
        assert_eq!(totals["packets"]["inside"], 0);
    });
}

#[test]
fn a_second_switch_on_a_port_is_refused_and_the_first_goes_on() {
    on_cables(|mut a, mut b| {
        let switch = start_offloaded(&[]);
        let forward = program("forward.json");
        let options = ["-i", "1@afxdp:a1", "--engine", "kernel", "--grpc", "off"];
        let said = error(1, &[&options[..], &[&forward]].concat());
        assert_has(&said, "\"a1\"");
        assert_eq!(said.lines().count(), 1, "{said}");
        send(&mut a, [numbered(3, 100)]);
        assert_eq!(receive(&mut b, 1), [numbered(3, 100)]);
        let totals = totals(&switch.stop("-TERM"));
        assert_eq!(totals["packets"]["transmitted"], 1);
    });
}

/// Checks a switch whose ports work, but whose kernel engine does not: the switch forwards, and logs this reason.
fn refused(switch: Running, reason: &[&str]) {
    let (mut a, mut b) = (outside("a0"), outside("b0"));
    let words = [&["offload: nothing of the program"], reason].concat();
    switch.wait_for_line(&words);
    send(&mut a, [numbered(1, 100)]);
    assert_eq!(receive(&mut b, 1), [numbered(1, 100)]);
    let (printed, _) = switch.stop_that_logs("-TERM");
    assert_eq!(totals(&printed)["packets"]["transmitted"], 1);
    for interface in ["a1", "b1"] {
        assert!(!has_xdp_program(interface), "{interface}");
    }
}

#[test]
fn where_frames_do_not_fit_one_buffer_the_engine_forwards_and_the_log_says_why() {
    in_root_namespace(|| {
        cables();
        for interface in ["b0", "b1"] {
            ip(&format!("link set {interface} mtu 9000"));
        }
        refused(start(&[]), &["port 2", "\"b1\"", "MTU"]);
    });
}

#[test]
fn where_a_driver_runs_no_programs_the_engine_forwards_and_the_log_says_why() {
    in_root_namespace(|| {
        cables();
        ip("link add d1 type bridge");
        ip("link set d1 up");
        let third = ["-i", "3@afxdp:d1"];
        refused(start(&third), &["port 3", "\"d1\"", "generic"]);
    });
}

/// Runs a command for which the kernel refuses `membarrier(2)`, as it does on a machine whose processors are kept free
/// of the scheduler (`nohz_full`).
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
    in_root_namespace(|| {
        cables();
        let mut command = Command::new("python3");
        command.args(["-c", WITHOUT_MEMBARRIER]);
        command.arg(env!("CARGO_BIN_EXE_reprise-switch"));
        command.args(arguments(&[]));
        refused(Running::of(command), &["membarrier"]);
    });
}

#[test]
fn without_privileges_it_says_so_and_leaves_nothing_behind() {
    in_root_namespace(|| {
        cables();
        let output = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all"])
            .arg(env!("CARGO_BIN_EXE_reprise-switch"))
            .args(arguments(&[]))
            .output();
        let output = output.expect("util-linux is installed");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_starts(&said, "error: ");
        assert_has(&said, "\"a1\"");
        assert_eq!(said.lines().count(), 1, "{said}");
        for interface in ["a1", "b1"] {
            assert!(!has_xdp_program(interface), "{interface}");
        }
    });
}

#[test]
fn it_needs_a_port_through_xdp_and_one_worker() {
    let program = program("forward.json");
    let engine = ["--engine", "kernel", "--grpc", "off", &program];
    let said = error(2, &[&["-i", "1@a1"][..], &engine].concat());
    assert_has(&said, "--engine kernel: expected a port through XDP");
    let said = error(
        2,
        &[&["-i", "1@afxdp:a1", "--workers", "2"][..], &engine].concat(),
    );
    assert_has(&said, "--engine kernel: expected one worker");
}
