//! Tests that the switch forwards: between captures in virtual time, and between interfaces.

use std::path::Path;

use crate::support::{
    FORWARD, Running, TIMEOUT, TemporaryFolder, outside, program, run, succeed, totals, words_of,
};
use packet_io::{AfPacketPort, PcapPort, Port, Waiter};
use testkit::namespace::{in_namespace, in_root_namespace, ip, veth_pair};
use testkit::text::{assert_has, assert_starts};

fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, number];
    frame.resize(len, 0xab);
    frame
}

/// Writes a capture in which time 0 has the timestamp 1,000 s.
fn write_capture(path: &Path, frames: &[(u64, Vec<u8>)]) {
    let mut port = PcapPort::open(None, Some(path)).expect("a capture to write");
    port.start(1_000_000_000_000);
    for (at, frame) in frames {
        port.transmit(*at, frame.as_slice().into())
            .expect("writing");
    }
    port.close().expect("closing");
}

/// Reads a capture; returns each frame with its time, in nanoseconds after the timestamp 1,000 s.
fn read_capture(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut port = PcapPort::open(Some(path), None).expect("a capture to read");
    port.start(1_000_000_000_000);
    let mut frames = Vec::new();
    while let Some(at) = port.next_frame_at() {
        port.receive(at, 1, &mut |frame| frames.push((at, frame.to_vec())))
            .expect("reading");
    }
    frames
}

#[test]
fn captures_are_forwarded_in_their_own_time() {
    let folder = TemporaryFolder::new("replay");
    let (one, two, out) = (
        folder.path("1.pcap"),
        folder.path("2.pcap"),
        folder.path("out.pcap"),
    );
    // An hour of virtual time.
    let hour_ns = 3_600_000_000_000;
    write_capture(&one, &[(7, frame(1, 60)), (hour_ns, frame(3, 1514))]);
    write_capture(&two, &[(0, frame(9, 60)), (5_000, frame(9, 60))]);
    let port_1 = format!("1@pcap:{}", one.display());
    let port_2 = format!("2@pcap:{},{}", two.display(), out.display());
    let (printed, said) =
        succeed(&[&["-i", &port_1, "-i", &port_2, "--json"][..], &FORWARD].concat());
    assert_starts(
        &said,
        &format!("ready: ports {port_1} {port_2}, P4Runtime off"),
    );
    let found = read_capture(&out);
    assert_eq!(found, [(7, frame(1, 60)), (hour_ns, frame(3, 1514))]);
    let totals = totals(&printed);
    assert_eq!(totals["time_ns"], hour_ns);
    assert_eq!(totals["packets"]["received"], 4);
    assert_eq!(totals["packets"]["transmitted"], 2);
    assert_eq!(totals["drops"]["ingress_drop"], 2);
    assert_eq!(totals["ports"][0]["rx_frames"], 2);
    assert_eq!(totals["ports"][1]["tx_bytes"], 60 + 1514);
    assert_eq!(totals["tables"][0]["hits"], 2);
    assert_eq!(totals["tables"][0]["misses"], 2);
    assert_eq!(totals["tables"][0]["entries"], 1);
}

#[test]
fn a_p4_program_is_compiled_and_takes_entries() {
    let folder = TemporaryFolder::new("compiled");
    let (one, out) = (folder.path("1.pcap"), folder.path("out.pcap"));
    write_capture(&one, &[(0, frame(1, 60)), (9, frame(2, 60))]);
    let (entries, source) = (program("forward.entries.txtpb"), program("forward.p4"));
    let (port_1, port_2) = (
        format!("1@pcap:{}", one.display()),
        format!("2@pcap:,{}", out.display()),
    );
    succeed(&["-i", &port_1, "-i", &port_2, "--entries", &entries, &source]);
    assert_eq!(read_capture(&out), [(0, frame(1, 60)), (9, frame(2, 60))]);
}

#[test]
fn the_sfu_programs_start() {
    for name in ["sfu.p4", "sfu_recirculation.p4"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../p4")
            .join(name);
        let (_, said) = succeed(&["-i", "1@pcap:,/dev/null", &path.display().to_string()]);
        // Nothing is printed before the ready line.
        assert_starts(&said, "ready: ");
    }
}

#[test]
fn a_queues_rate_passes_in_the_captures_time() {
    let folder = TemporaryFolder::new("rate");
    let (one, out) = (folder.path("1.pcap"), folder.path("out.pcap"));
    write_capture(&one, &[1, 2, 3, 4].map(|number| (0, frame(number, 60))));
    let (port_1, port_2) = (
        format!("1@pcap:{}", one.display()),
        format!("2@pcap:,{}", out.display()),
    );
    let own = ["-i", &port_1, "-i", &port_2, "--egress-rate", "10"];
    succeed(&[&own[..], &FORWARD].concat());
    let frames = read_capture(&out);
    assert_eq!(
        frames
            .iter()
            .map(|(_, frame)| frame[14])
            .collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    // The rate is 10 packets a second; the first packet leaves at once, as in BMv2.
    let gaps: Vec<u64> = frames
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    assert_eq!(gaps, [100_000_000; 3]);
}

#[test]
fn totals_are_printed_for_people() {
    let folder = TemporaryFolder::new("text");
    let one = folder.path("1.pcap");
    write_capture(&one, &[(0, frame(1, 60)), (500_000_000, frame(2, 60))]);
    let port = format!("3@pcap:{}", one.display());
    let text = |own: &[&str]| succeed(&[own, &FORWARD].concat()).0;
    let short = text(&["-i", &port]);
    assert_starts(&short, "totals after 0.500 s\n");
    assert_has(&short, "ingress_drop");
    assert!(
        !short.contains("egress_queue_full") && !short.contains("ingress.forward"),
        "{short}"
    );
    let full = text(&["-i", &port, "--stats"]);
    assert_has(&full, "egress_queue_full");
    assert_has(&full, "ingress.forward");
    assert_has(&full, "rx_ring_full");
    assert_has(&full, "510 (CPU)");
}

#[test]
fn a_trace_reports_each_packets_way() {
    let folder = TemporaryFolder::new("trace");
    let (one, trace) = (
        folder.path("1.pcap"),
        folder.path("trace.txt").display().to_string(),
    );
    write_capture(&one, &[(0, frame(1, 60)), (1, frame(2, 60))]);
    let port = format!("1@pcap:{}", one.display());
    let (stdout, _) = succeed(&[&["-i", &port, "--json", "--trace"][..], &FORWARD].concat());
    assert_eq!(totals(&stdout)["packets"]["received"], 2);
    let printed = &stdout[..stdout.trim_end().rfind('\n').expect("more lines") + 1];
    assert_starts(printed, "packet 1 arrives on port 1, 60 bytes");
    assert_has(printed, "packet 2, ");
    assert_has(printed, "ingress.forward");
    succeed(&[&["-i", &port, "--trace-to", &trace][..], &FORWARD].concat());
    assert_eq!(std::fs::read_to_string(&trace).expect("the trace"), printed);
}

#[test]
fn a_trace_that_is_not_whole_is_in_the_exit_code() {
    let folder = TemporaryFolder::new("trace-full");
    let one = folder.path("1.pcap");
    write_capture(&one, &[(0, frame(1, 60))]);
    let port = format!("1@pcap:{}", one.display());
    let full = [
        &["-i", &port, "--json", "--trace-to", "/dev/full"][..],
        &FORWARD,
    ]
    .concat();
    let output = run(&full);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().expect("a line");
    let expected = "error: cannot write the trace to /dev/full: No space left on device";
    assert!(last.starts_with(expected), "{said}");
    // The packets were forwarded all the same.
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(totals(&printed)["packets"]["received"], 1);
}

#[test]
fn a_trace_into_a_pipe_that_nobody_reads_is_refused_at_once() {
    let folder = TemporaryFolder::new("trace-pipe");
    let pipe = folder.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo starts").success());
    let pipe = pipe.display().to_string();
    let output = run(&["--grpc", "127.0.0.1:0", "--trace-to", &pipe]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_has(&said, &pipe);
    assert_has(&said, "start the reader first");
}

#[test]
fn without_a_program_every_frame_is_dropped_for_that_reason() {
    let folder = TemporaryFolder::new("none");
    let one = folder.path("1.pcap");
    write_capture(&one, &[(0, frame(1, 60)), (1, frame(2, 60))]);
    let (printed, _) = succeed(&["-i", &format!("1@pcap:{}", one.display()), "--json"]);
    assert_eq!(totals(&printed)["drops"]["no_pipeline"], 2);
}

#[test]
fn a_capture_that_breaks_off_ends_the_switch_with_what_was_counted() {
    let folder = TemporaryFolder::new("broken");
    let one = folder.path("1.pcap");
    write_capture(&one, &[(0, frame(1, 60)), (1, frame(2, 60))]);
    let whole = std::fs::read(&one).expect("the capture");
    std::fs::write(&one, &whole[..whole.len() - 1]).expect("the capture, cut");
    let output = run(&["-i", &format!("1@pcap:{}", one.display()), "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_has(&said, "error: port 1: capture file");
    assert_has(&said, "packet 2");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(totals(&printed)["packets"]["received"], 1);
}

fn receive(port: &mut AfPacketPort, n_frames: usize) -> Vec<Vec<u8>> {
    let (mut frames, mut waiter) = (Vec::new(), Waiter::default());
    while frames.len() < n_frames {
        waiter
            .wait([port.poll_fd().expect("a descriptor")], Some(TIMEOUT))
            .expect("waiting");
        if !waiter.is_ready(0) {
            break;
        }
        port.receive(0, 64, &mut |frame| frames.push(frame.to_vec()))
            .expect("receiving");
    }
    frames
}

#[test]
fn frames_are_forwarded_between_interfaces_until_a_signal() {
    in_namespace(|| {
        for wait in ["sleep", "spin"] {
            frames_are_forwarded(["1@sw1", "2@sw2"], wait, "");
        }
    });
}

#[test]
fn frames_are_forwarded_between_afxdp_ports_until_a_signal() {
    in_root_namespace(|| {
        for wait in ["sleep", "spin"] {
            let mode = " (XDP native, copy, 1 queue)";
            frames_are_forwarded(["1@afxdp:sw1", "2@afxdp:sw2"], wait, mode);
        }
    });
}

/// `ports` are on interfaces sw1 and sw2; the ready line shows `mode` for each.
fn frames_are_forwarded(ports: [&str; 2], wait: &str, mode: &str) {
    veth_pair("host1", "sw1");
    veth_pair("host2", "sw2");
    ip("link set lo up");
    let [one, two] = ports;
    let own = format!("-i {one} -i {two} --wait {wait} --grpc 127.0.0.1:0 --json");
    let own = words_of(&own);
    for signal in ["-TERM", "-INT"] {
        let switch = Running::start(&[&own[..], &FORWARD].concat());
        let ready = switch.ready.clone();
        let expected = format!("ready: ports {one}{mode} {two}{mode}, P4Runtime on 127.0.0.1:");
        assert_starts(&ready, &expected);
        assert!(
            !ready.contains("127.0.0.1:0,") && ready.ends_with("forward.json"),
            "{ready}"
        );
        let (mut one, mut two) = (outside("host1"), outside("host2"));
        let sent: Vec<_> = (0..200).map(|number| frame(number, 1400)).collect();
        for frame in &sent {
            one.transmit(0, frame.as_slice().into()).expect("queueing");
        }
        one.flush().expect("sending");
        let received = receive(&mut two, sent.len());
        assert!(
            received == sent,
            "{} frames came, or not as sent",
            received.len()
        );
        two.transmit(0, frame(1, 60).as_slice().into())
            .expect("queueing");
        two.flush().expect("sending");
        // The refused frame is not visible outside. When the next frame arrives, the refused frame has been processed.
        one.transmit(0, frame(77, 60).as_slice().into())
            .expect("queueing");
        one.flush().expect("sending");
        assert_eq!(receive(&mut two, 1), [frame(77, 60)]);
        let totals = totals(&switch.stop(signal));
        assert_eq!(totals["packets"]["transmitted"], 201);
        assert_eq!(totals["ports"][0]["rx_bytes"], 200 * 1400 + 60);
        assert_eq!(totals["ports"][1]["tx_frames"], 201);
        assert_eq!(totals["packets"]["inside"], 0);
    }
    ip("link del host1");
    ip("link del host2");
}

#[test]
fn captures_beside_an_interface_replay_in_real_time() {
    in_namespace(|| {
        veth_pair("host2", "sw2");
        let folder = TemporaryFolder::new("mixed");
        let one = folder.path("1.pcap");
        write_capture(&one, &[(0, frame(1, 60)), (200_000_000, frame(2, 60))]);
        let mut two = outside("host2");
        let port_1 = format!("1@pcap:{}", one.display());
        let own = ["-i", &port_1, "-i", "2@sw2", "--grpc", "off", "--json"];
        let switch = Running::start(&[&own[..], &FORWARD].concat());
        assert_eq!(receive(&mut two, 2), [frame(1, 60), frame(2, 60)]);
        let totals = totals(&switch.stop("-TERM"));
        let time_ns = totals["time_ns"].as_u64().expect("a number");
        assert!(time_ns >= 200_000_000, "{time_ns}");
        assert_eq!(totals["packets"]["transmitted"], 2);
    });
}

#[test]
fn json_is_one_document_and_whatever_ends_the_switch_the_last_line() {
    let folder = TemporaryFolder::new("json");
    let (whole, cut) = (folder.path("whole.pcap"), folder.path("cut.pcap"));
    write_capture(&whole, &[(0, frame(1, 60)), (1, frame(2, 60))]);
    let bytes = std::fs::read(&whole).expect("the capture");
    std::fs::write(&cut, &bytes[..bytes.len() - 1]).expect("written");
    let [whole, cut] = [whole, cut].map(|path| format!("1@pcap:{}", path.display()));
    let missing = folder.path("missing.p4").display().to_string();
    let runs: [(&[&str], i32, usize); 6] = [
        (&["-i", &whole], 0, 1),
        (&["-i", &whole, "--stats"], 0, 1),
        (&["-i", &whole, "--explain-engine"], 0, 1),
        // The run starts and then fails.
        (&["-i", &cut], 1, 1),
        // The run does not start.
        (&["-i", &whole, &missing], 1, 0),
        (&["-i", &whole, "--nonsense"], 2, 0),
    ];
    for (words, code, n_documents) in runs {
        let output = run(&[words, &["--json"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert_eq!(code != 0, said.contains("error: "), "{words:?}: {said}");
        let printed = String::from_utf8(output.stdout).expect("text");
        assert_eq!(printed.lines().count(), n_documents, "{words:?}: {printed}");
        if n_documents == 1 {
            assert!(totals(&printed)["packets"].is_object(), "{words:?}");
        }
    }
}

#[test]
fn a_listing_has_the_kernel_s_instructions_beside_the_lines_they_come_from() {
    let folder = TemporaryFolder::new("listing");
    let whole = folder.path("whole.pcap");
    write_capture(&whole, &[(0, frame(1, 60))]);
    let port = format!("1@pcap:{}", whole.display());
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../p4/sfu.p4");
    let output = run(&["-i", &port, "--explain-engine", "--listing", program]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let begins = |words: &str| said.lines().filter(|line| line.starts_with(words)).count();
    assert_eq!(begins("; ports: "), 1, "{said}");
    assert_eq!(begins("; copies of a multicast group: "), 1);
    for (note, line) in [
        ("state parse_ethernet at byte 0", ""),
        ("table SfuIngress.stream_lookup.streams", "presenter.p4:65"),
        (
            "table SfuEgress.viewer_address.viewers",
            "viewer_address.p4:42",
        ),
        ("", "checksum.p4:29"),
    ] {
        let is_there = |said: &str| {
            said.contains(" = ") && said.contains(note) && said.trim_end().ends_with(line)
        };
        assert!(said.lines().any(is_there), "{note} {line}");
    }
    // The page has both numbers, with commas as separators.
    let page = include_str!("../../../../../docs/kernel.md");
    let count = |words: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(words));
        let count = line.and_then(|line| line.split(' ').next()?.parse::<u32>().ok());
        count.expect("a count")
    };
    let (ports, copies) = (count("; ports: "), count("; copies of a multicast group: "));
    let expected = format!(
        "{},{:03} instructions for the ports, {copies} for each copy.",
        ports / 1000,
        ports % 1000
    );
    assert!(page.contains(&expected), "docs/kernel.md: {expected}");
    let alone = run(&["-i", &port, "--listing", program]);
    assert_eq!(alone.status.code(), Some(2));
}
