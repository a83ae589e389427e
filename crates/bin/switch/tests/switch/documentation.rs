//! Checks that the documentation agrees with the switch: the traces (stories) that docs/trace.md shows, the drop
//! reasons of docs/switch.md, and the switch's options. `UPDATE_EXPECT=1` rewrites the stories, and the capture with
//! which they begin.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::{Running, http_get, run, switch};
use etherparse::PacketBuilder;
use p4runtime_server::CONTROLLER_DROPS;
use packet_io::PortStatistics;
use testkit::repository::root;

const CAPTURE: &str = "testdata/trace/three_viewers.pcap";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some()
}

/// Returns a frame that the presenter of `testdata/trace/*.yaml` sends to the SFU.
fn presenter_frame(ttl: u8, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 1, 4], [2, 0, 0, 0, 1, 0x64])
        .ipv4([10, 0, 1, 4], [10, 0, 1, 100], ttl)
        .udp(40_000, 5004);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).expect("room");
    frame
}

/// Returns a capture (libpcap's format, microseconds, Ethernet) that contains the frames 20 ms apart.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_le_bytes());
    file.extend([2, 0, 4, 0]);
    for word in [0, 0, 65_535, 1_u32] {
        file.extend(word.to_le_bytes());
    }
    for (number, frame) in (0_u32..).zip(frames) {
        let len = u32::try_from(frame.len()).expect("a short frame");
        for word in [0, number * 20_000, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Returns the metric families, in the order in which the switch shows them, as rows of the table in the documentation.
fn metrics_table() -> String {
    let program = crate::support::program("counted.p4");
    let ports = ["-i", "1@pcap:,/dev/null", "--grpc", "127.0.0.1:0"];
    let metrics = ["--metrics", "127.0.0.1:0"];
    let switch = Running::start_that_logs(&[&ports[..], &metrics, &[&program]].concat());
    let (status, text) = http_get(&switch, "/metrics");
    assert_eq!(status, 200);
    switch.signal("-TERM");
    switch.end();
    let mut rows = String::new();
    let mut help = "";
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# HELP ") {
            help = family.split_once(' ').expect("a sentence").1;
        } else if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').expect("a type");
            rows += &format!("| `{name}` | {kind} | {help} |\n");
        }
    }
    rows
}

#[test]
fn every_metric_stands_in_the_page_of_metrics() {
    const PAGE: &str = "docs/metrics.md";
    const HEAD: &str = "|---|---|---|\n";
    let page = read(PAGE);
    let (before, _) = page.split_once(HEAD).expect("the table's head");
    let expected = format!("{before}{HEAD}{}", metrics_table());
    if is_update() {
        fs::write(root().join(PAGE), &expected).expect(PAGE);
    }
    assert!(
        read(PAGE) == expected,
        "{PAGE} is not current (UPDATE_EXPECT=1 writes it): {expected}"
    );
}

#[test]
fn the_capture_of_the_stories_is_current() {
    let served = presenter_frame(64, b"hello, viewers");
    let expired = presenter_frame(1, b"too many hops");
    let expected = capture(&[served, expired]);
    let path = root().join(CAPTURE);
    if is_update() {
        fs::write(&path, &expected).expect("written");
    }
    assert_eq!(fs::read(path).expect(CAPTURE), expected);
}

/// Returns the document with current outputs: runs each command of the document, and replaces the text after the
/// command in its code block by what the command prints now.
fn with_outputs(document: &str) -> String {
    let mut out = String::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(command) = line.strip_prefix("$ reprise-switch ") else {
            continue;
        };
        let words: Vec<&str> = command.split_whitespace().collect();
        let output = switch(&words).current_dir(root()).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        out.push_str(&String::from_utf8(output.stdout).expect("text"));
        let end = lines.find(|line| *line == "```");
        out.push_str(end.expect("the block's end"));
        out.push('\n');
    }
    out
}

#[test]
fn the_documents_show_what_the_switch_prints() {
    for path in [
        "docs/trace.md",
        "docs/switch.md",
        "testdata/trace/README.md",
    ] {
        let document = read(path);
        assert!(document.contains("\n$ reprise-switch "), "{path}");
        let current = with_outputs(&document);
        if is_update() {
            fs::write(root().join(path), &current).expect("written");
        } else {
            assert_eq!(document, current, "{path}: UPDATE_EXPECT=1 refreshes it");
        }
    }
}

/// Returns the names in backticks with which the rows of a section's tables begin; the section is the one under
/// `heading`.
fn rows(document: &str, heading: &str) -> BTreeSet<String> {
    let mut lines = document.lines().skip_while(|line| *line != heading);
    assert_eq!(lines.next(), Some(heading));
    let section = lines.take_while(|line| !line.starts_with("## "));
    let rows = section.filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_drop_reason_is_in_the_documentation_and_no_other() {
    let of_switch = dataplane::DropReason::ALL
        .iter()
        .map(|reason| reason.name());
    let of_ports = PortStatistics::default().drops().map(|(name, _)| name);
    let all: Vec<&str> = of_switch.chain(of_ports).chain(CONTROLLER_DROPS).collect();
    let expected: BTreeSet<String> = all.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(
        expected.len(),
        all.len(),
        "one name has two meanings: {all:?}"
    );
    assert_eq!(rows(&read("docs/switch.md"), "## Drop reasons"), expected);
}

#[test]
fn every_option_is_in_the_documentation_and_no_other() {
    let help = String::from_utf8(run(&["--help"]).stdout).expect("text");
    let options = help.lines().filter_map(|line| {
        let words = line.trim_start();
        words.starts_with('-').then_some(words)
    });
    let long = |line: &str| {
        let word = line
            .split_whitespace()
            .find(|word| word.starts_with("--"))?;
        Some(word.trim_end_matches(',').to_owned())
    };
    let expected: BTreeSet<String> = options.filter_map(long).collect();
    assert!(expected.contains("--egress-rate"), "{help}");
    assert_eq!(rows(&read("docs/switch.md"), "## Options"), expected);
}

#[test]
fn every_event_of_the_log_is_in_the_documentation_and_no_other() {
    let crates = root().join("crates");
    let mut logged = BTreeSet::new();
    for of in [
        "bin/switch/src",
        "control/core/src",
        "control/p4runtime-server/src",
        "control/thrift-server/src",
        "system/stream-socket/src",
    ] {
        events_in(&crates.join(of), &mut logged);
    }
    let document = read("docs/switch.md");
    let table = document
        .split("| Event | Level |")
        .nth(1)
        .expect("the table");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let documented = rows.map(|row| row.split('`').nth(1).expect("a name").to_owned());
    assert_eq!(documented.collect::<BTreeSet<_>>(), logged);
}

/// Adds to `events` the names that follow `event = "` in a folder's sources.
fn events_in(folder: &Path, events: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            events_in(&path, events);
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a source");
        let names = source.split("event = \"").skip(1);
        events.extend(names.map(|rest| rest.split('"').next().expect("a name").to_owned()));
    }
}
