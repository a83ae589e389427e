//! The switch's answers over HTTP: the program's own counters, maxima, health.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testkit::namespace::{in_namespace, ip, veth_pair};

use crate::support::{FORWARD, Running, TIMEOUT, TemporaryFolder, http_get, program, words_of};

/// Starts a switch that counts the frames that come to its UDP port. Returns the switch and the port's address.
fn start(options: &[&str]) -> (Running, String) {
    let entries = program("counted.entries.txtpb");
    let source = program("counted.p4");
    let arguments = words_of("-i 1@udp:127.0.0.1:0 --grpc off --metrics 127.0.0.1:0");
    let arguments = [&arguments[..], options, &["--entries", &entries, &source]].concat();
    let switch = Running::start_that_logs(&arguments);
    let address = switch.address("1@udp:").to_owned();
    (switch, address)
}

fn metrics(switch: &Running) -> String {
    let (status, text) = http_get(switch, "/metrics");
    assert_eq!(status, 200, "{text}");
    text
}

fn wait_for_line(switch: &Running, line: &str) -> String {
    let began = Instant::now();
    loop {
        let text = metrics(switch);
        if text.lines().any(|it| it == line) {
            return text;
        }
        assert!(began.elapsed() < TIMEOUT, "no {line} in\n{text}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn send(address: &str, payload_bytes: usize, times: usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for _ in 0..times {
        socket
            .send_to(&vec![1; payload_bytes], address)
            .expect("sent");
    }
}

/// Reads the text as Prometheus does.
fn expect_exposition(text: &str) {
    let mut families = BTreeSet::new();
    let mut series = BTreeSet::new();
    let mut family = "";
    for line in text.lines().filter(|line| !line.starts_with("# HELP ")) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split_once(' ').expect("a type").0;
            assert!(families.insert(family), "{family} twice");
            continue;
        }
        let (name_and_labels, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.insert(name_and_labels), "{name_and_labels} twice");
        let (name, labels) = name_and_labels
            .split_once('{')
            .unwrap_or((name_and_labels, "}"));
        assert!(name.starts_with(family), "{name} stands under {family}");
        let labels = labels.strip_suffix('}').expect("an end");
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let name = label.split_once("=\"").expect("a label").0;
            let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
            assert!(
                name.chars().all(is_legal) && !name.starts_with(|c: char| c.is_ascii_digit()),
                "{line}"
            );
        }
    }
}

#[test]
fn counters_and_entries_that_were_asked_for_are_shown_by_index_and_key() {
    let names = words_of("--metrics-counters ingress.verdicts --metrics-entries ingress.lengths");
    for workers in ["1", "2"] {
        let (switch, address) = start(&[&names[..], &["--workers", workers]].concat());
        // Besides these bytes of payload, each frame has 42 bytes of headers.
        send(&address, 30, 3);
        send(&address, 40, 2);
        wait_for_line(
            &switch,
            "reprise_counter_packets_total{counter=\"ingress.verdicts\",index=\"3\"} 3",
        );
        let text = wait_for_line(
            &switch,
            "reprise_counter_packets_total{counter=\"ingress.verdicts\",index=\"1999\"} 2",
        );
        let entry = |value: &str, priority: u32| {
            format!(
                "{{table=\"ingress.lengths\",key_ingress_port=\"1\",key_packet_length=\"{value}&0xffffffff\",priority=\"{priority}\"}}"
            )
        };
        for line in [
            "reprise_counter_bytes_total{counter=\"ingress.verdicts\",index=\"3\"} 216".to_owned(),
            format!("reprise_entry_packets_total{} 3", entry("0x48", 10)),
            format!("reprise_entry_bytes_total{} 164", entry("0x52", 20)),
        ] {
            assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
        }
        let cells = text
            .lines()
            .filter(|line| line.starts_with("reprise_counter_packets_total{"));
        assert_eq!(cells.count(), 2, "cells that never counted are no series");
        assert!(!text.contains("reprise_metrics_left_out{"), "{text}");
        expect_exposition(&text);
        switch.stop("-TERM");
    }
}

#[test]
fn what_is_beyond_the_bound_or_not_there_is_said() {
    let names = words_of(
        "--metrics-counters ingress.verdicts,ingress.nothing --metrics-entries ingress.lengths --metrics-series 2 --log-format json",
    );
    let (switch, address) = start(&names);
    send(&address, 30, 1);
    send(&address, 40, 1);
    // The limit has room for two series, which are those of one cell. The next cell that has counted packets is the
    // last cell, 1,999; it is left out.
    let text = wait_for_line(
        &switch,
        "reprise_metrics_left_out{of=\"ingress.verdicts\"} 1",
    );
    for line in [
        "reprise_counter_packets_total{counter=\"ingress.verdicts\",index=\"3\"} 1",
        "reprise_metrics_left_out{of=\"ingress.lengths\"} 2",
        "reprise_metrics_unknown{of=\"ingress.nothing\"} 1",
    ] {
        assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
    }
    assert!(!text.contains("reprise_entry_packets_total{"), "{text}");
    expect_exposition(&text);
    // The cut was logged only once in several scrapes.
    switch.signal("-TERM");
    let (_, _, said) = switch.end();
    for (event, of) in [
        ("metrics_cut", "ingress.verdicts"),
        ("metrics_cut", "ingress.lengths"),
        ("metrics_unknown", "ingress.nothing"),
    ] {
        let logged = said
            .lines()
            .filter(|line| line.contains(event) && line.contains(of));
        assert_eq!(logged.count(), 1, "{event} of {of}: {said}");
    }
}

/// Forwards from a UDP port into a discarded capture.
fn start_forwarding(options: &[&str]) -> Running {
    let ports = ["-i", "1@udp:127.0.0.1:0", "-i", "2@pcap:,/dev/null"];
    let served = ["--grpc", "off", "--metrics", "127.0.0.1:0"];
    Running::start(&[&ports[..], &served, options, &FORWARD].concat())
}

#[test]
fn the_most_that_waited_for_a_port_is_there() {
    // One packet leaves each second.
    let switch = start_forwarding(&["--egress-queue", "5", "--egress-rate", "1"]);
    let address = switch.address("1@udp:");
    let name = "reprise_port_queue_recent_max_packets{port=\"2\"}";
    assert!(!metrics(&switch).contains(name), "nothing has waited");
    send(address, 30, 20);
    let full = "reprise_drops_total{reason=\"egress_queue_full\"} ";
    let began = Instant::now();
    let has_dropped = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(full));
        line.expect("a reason").trim() != "0"
    };
    while !has_dropped(&metrics(&switch)) {
        assert!(began.elapsed() < TIMEOUT, "{}", metrics(&switch));
        thread::sleep(Duration::from_millis(5));
    }
    let text = metrics(&switch);
    assert!(text.contains(&format!("{name} 5\n")), "{text}");
    switch.stop("-TERM");
}

#[test]
fn the_build_the_start_and_the_longest_times_are_there() {
    let before = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock")
        .as_secs_f64();
    let switch = start_forwarding(&[]);
    send(switch.address("1@udp:"), 30, 1);
    let text = wait_for_line(
        &switch,
        "reprise_port_latency_seconds_count{port=\"2\",name=\"pcap:,/dev/null\"} 1",
    );
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect(name).trim().parse().expect("a number")
    };
    let started = value("process_start_time_seconds");
    assert!(
        (before - 1.0..before + 60.0).contains(&started),
        "{started}"
    );
    let build = format!(
        "reprise_build_info{{version=\"{}\",commit=\"{}\",profile=\"debug\",engine=\"native\"}}",
        env!("CARGO_PKG_VERSION"),
        commit()
    );
    assert!((value(&build) - 1.0).abs() < f64::EPSILON);
    let longest =
        value("reprise_port_latency_seconds{port=\"2\",name=\"pcap:,/dev/null\",quantile=\"1\"}");
    for name in [
        "reprise_port_latency_recent_max_seconds{port=\"2\"}",
        "reprise_stream_latency_recent_max_seconds{stream=\"unicast\",id=\"\"}",
    ] {
        // Histograms keep two significant digits.
        assert!(
            value(name) > 0.0 && value(name) <= longest * 1.02,
            "{name}: {} {longest}",
            value(name)
        );
    }
    expect_exposition(&text);
    switch.stop("-TERM");
}

const TO_CPU: &str = "\
#include <v1model.p4>
struct headers_t {}
struct metadata_t {}
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply {} }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = 510; }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";

#[test]
fn what_reached_no_controller_is_counted_and_reported() {
    let folder = TemporaryFolder::new("to-cpu");
    let source = folder.file("to_cpu.p4", TO_CPU);
    let ports = ["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let logged = ["--log-format", "json", "--log-level", "info", "--log-drops"];
    let served = ["1", "--metrics", "127.0.0.1:0", &source];
    let switch = Running::start_that_logs(&[&ports[..], &logged, &served].concat());
    send(switch.address("1@udp:"), 30, 3);
    let line = "reprise_controller_drops_total{reason=\"packet_in_no_primary\"} 3";
    let text = wait_for_line(&switch, line);
    expect_exposition(&text);
    let dropped = "reprise_drops_total{reason=\"packet_in_queue_full\"} 0";
    assert!(text.contains(dropped), "{text}");
    let logged = switch.wait_for_line(&["drops", "packet_in_no_primary"]);
    assert!(logged.contains("\"level\":\"INFO\""), "{logged}");
}

/// The checked-out commit as the build found it; "unknown" outside a repository.
fn commit() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok();
        let output = output.filter(|output| output.status.success());
        output.map(|output| String::from_utf8(output.stdout).expect("text"))
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let root = root.canonicalize().expect("a folder").display().to_string();
    let top = git(&["rev-parse", "--show-toplevel"]);
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let is_ours = top.is_some_and(|top| top.trim_end() == root);
    let commit = commit.filter(|_| is_ours);
    commit.map_or("unknown".to_owned(), |commit| commit.trim_end().to_owned())
}

#[test]
fn the_switch_lives_and_is_ready_once_it_has_a_pipeline_and_its_interfaces() {
    in_namespace(|| {
        ip("link set lo up");
        veth_pair("a0", "a1");
        let arguments = ["-i", "1@a1", "--metrics", "127.0.0.1:0", "--grpc"];
        let bare = Running::start(&[&arguments[..], &["127.0.0.1:0"]].concat());
        assert_eq!(http_get(&bare, "/healthz"), (200, "ok\n".to_owned()));
        let found = http_get(&bare, "/readyz");
        assert_eq!(found, (503, "no pipeline is set\n".to_owned()));
        bare.stop("-TERM");
        let forward = program("forward.json");
        let switch = Running::start(&[&arguments[..], &["off", &forward]].concat());
        assert_eq!(http_get(&switch, "/readyz"), (200, "ok\n".to_owned()));
        ip("link del a1");
        switch.wait_for_line(&["port_lost"]);
        let found = http_get(&switch, "/readyz");
        assert_eq!(found, (503, "port 1@a1 has no interface\n".to_owned()));
        assert_eq!(http_get(&switch, "/healthz"), (200, "ok\n".to_owned()));
        veth_pair("a0", "a1");
        switch.wait_for_line(&["port_rebound"]);
        assert_eq!(http_get(&switch, "/readyz"), (200, "ok\n".to_owned()));
        switch.stop_that_logs("-TERM");
    });
}

#[test]
fn the_sfus_count_by_the_names_of_the_documentation() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let document = std::fs::read_to_string(root.join("docs/switch.md")).expect("the document");
    let is_example =
        |line: &&str| line.starts_with("reprise-switch ") && line.contains("--metrics-");
    let examples: Vec<&str> = document.lines().filter(is_example).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let words = example
            .split(' ')
            .skip_while(|word| *word != "--metrics")
            .skip(2);
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        let source = words.pop().expect("a program");
        words.push(root.join(source).display().to_string());
        let arguments = words_of("-i 1@udp:127.0.0.1:0 --grpc off --metrics 127.0.0.1:0");
        let words = words.iter().map(String::as_str);
        let switch = Running::start(&arguments.into_iter().chain(words).collect::<Vec<_>>());
        let text = metrics(&switch);
        assert!(
            !text.contains("reprise_metrics_unknown{"),
            "{example}: {text}"
        );
        let verdict =
            "reprise_entry_packets_total{table=\"SfuIngress.verdict_count.verdicts\",key_";
        assert!(text.contains(verdict), "{text}");
        switch.stop("-TERM");
    }
}
