//! Every counter and latency of the switch as Prometheus reads them: its text format 0.0.4, over
//! HTTP, at `/metrics`.

use std::fmt::{Display, Write};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use dataplane::{LatencySummary, Stream, Switch};
use p4runtime_server::{PortStatus, SwitchContext, SwitchHandle};
use tokio::sync::oneshot;

use crate::handle::LoopHandle;

/// What serves the metrics.
pub(crate) fn router(handle: LoopHandle) -> Router {
    let router = Router::new().route("/metrics", get(answer));
    router.with_state(handle)
}

/// One consistent view, written on the switch's thread.
async fn answer(State(handle): State<LoopHandle>) -> Response {
    let (sender, text) = oneshot::channel();
    handle.submit(Box::new(|context: &mut SwitchContext<'_>| {
        // Whoever asked may have gone.
        let _ = sender.send(render(context.switch, context.ports));
    }));
    match text.await {
        Ok(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the switch has stopped\n").into_response(),
    }
}

/// A text that is being written.
#[derive(Default)]
struct Metrics {
    text: String,
}

type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

impl Metrics {
    /// What the samples that follow are.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(name);
        for (place, (label, value)) in labels.iter().enumerate() {
            self.text.push(if place == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"{}\"", escape(&value.to_string()));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// A family of one counter.
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    fn latency(&mut self, name: &str, labels: Labels<'_>, summary: &LatencySummary) {
        let quantiles = [
            ("0.5", summary.p50_ns),
            ("0.99", summary.p99_ns),
            ("0.999", summary.p999_ns),
            ("1", summary.max_ns),
        ];
        for (quantile, value_ns) in quantiles {
            let labels = [labels, &[("quantile", &quantile)]].concat();
            self.sample(name, &labels, seconds(value_ns));
        }
        self.sample(&format!("{name}_sum"), labels, seconds(summary.sum_ns));
        self.sample(&format!("{name}_count"), labels, summary.packets);
    }
}

/// As a label's value is written.
fn escape(value: &str) -> String {
    let value = value.replace('\\', "\\\\");
    value.replace('"', "\\\"").replace('\n', "\\n")
}

/// Without the rounding of a floating-point number.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn render(switch: &mut Switch, ports: &[PortStatus]) -> String {
    let mut metrics = Metrics::default();
    totals(&mut metrics, switch);
    port_counters(&mut metrics, switch, ports);
    table_counters(&mut metrics, switch);
    latencies(&mut metrics, switch, ports);
    metrics.text
}

fn totals(metrics: &mut Metrics, switch: &Switch) {
    let counters = switch.counters();
    let events = [
        ("received", counters.received),
        ("cloned", counters.created_by_clone),
        ("replicated", counters.created_by_replication),
        ("transmitted", counters.transmitted),
        ("to_cpu", counters.to_cpu),
    ];
    let name = "reprise_packets_total";
    metrics.family(name, "counter", "Packets that came, were made, and left.");
    for (event, packets) in events {
        metrics.sample(name, &[("event", &event)], packets);
    }
    let name = "reprise_drops_total";
    metrics.family(name, "counter", "Packets dropped, by reason.");
    for (reason, packets) in counters.drops() {
        metrics.sample(name, &[("reason", &reason)], packets);
    }
    let name = "reprise_packets_inside";
    metrics.family(name, "gauge", "Packets that wait in a queue.");
    metrics.sample(name, &[], switch.packets_inside());
    let name = "reprise_digests_total";
    metrics.counter(name, "Digests made.", counters.digests);
    let name = "reprise_digests_lost_total";
    let help = "Digests that nobody took.";
    metrics.counter(name, help, counters.digests_lost);
    let name = "reprise_idle_timeouts_lost_total";
    let help = "Idle timeouts that nobody took.";
    metrics.counter(name, help, counters.idle_timeouts_lost);
}

fn port_counters(metrics: &mut Metrics, switch: &Switch, ports: &[PortStatus]) {
    type Column = (&'static str, &'static str, fn(&Switch, &PortStatus) -> u64);
    let columns: [Column; 6] = [
        (
            "reprise_port_received_packets_total",
            "Frames that came in.",
            |switch, port| switch.counters().port(port.id).rx_packets,
        ),
        (
            "reprise_port_received_bytes_total",
            "Bytes that came in.",
            |switch, port| switch.counters().port(port.id).rx_bytes,
        ),
        (
            "reprise_port_transmitted_packets_total",
            "Frames that left.",
            |switch, port| switch.counters().port(port.id).tx_packets,
        ),
        (
            "reprise_port_transmitted_bytes_total",
            "Bytes that left.",
            |switch, port| switch.counters().port(port.id).tx_bytes,
        ),
        (
            "reprise_port_receive_drops_total",
            "Frames dropped before the switch saw them.",
            |_, port| port.rx_dropped,
        ),
        (
            "reprise_port_transmit_drops_total",
            "Frames that could not be sent.",
            |_, port| port.tx_dropped,
        ),
    ];
    for (name, help, read) in columns {
        metrics.family(name, "counter", help);
        for port in ports {
            let labels: Labels<'_> = &[("port", &port.id), ("name", &port.name)];
            metrics.sample(name, labels, read(switch, port));
        }
    }
}

fn table_counters(metrics: &mut Metrics, switch: &Switch) {
    let Some(program) = switch.program() else {
        return;
    };
    let tables = || program.tables().filter(|(_, info)| !info.is_generated());
    let name = "reprise_table_lookups_total";
    metrics.family(name, "counter", "Lookups, by table and result.");
    for (id, info) in tables() {
        let counted = switch.counters().table(id);
        for (result, lookups) in [("hit", counted.hits), ("miss", counted.misses)] {
            let labels: Labels<'_> = &[("table", &info.name), ("result", &result)];
            metrics.sample(name, labels, lookups);
        }
    }
    let name = "reprise_table_entries";
    metrics.family(name, "gauge", "Entries, by table.");
    for (id, info) in tables() {
        metrics.sample(name, &[("table", &info.name)], switch.entry_count(id));
    }
    let name = "reprise_table_size";
    metrics.family(name, "gauge", "Entries at most, by table.");
    for (_, info) in tables() {
        metrics.sample(name, &[("table", &info.name)], info.size);
    }
}

fn latencies(metrics: &mut Metrics, switch: &mut Switch, ports: &[PortStatus]) {
    let report = switch.latency();
    let name = "reprise_port_latency_seconds";
    let help = "Time in the switch of frames that left, by output port; quantile 1 is the longest.";
    metrics.family(name, "summary", help);
    for (id, summary) in &report.ports {
        let status = ports.iter().find(|port| port.id == *id);
        let port_name = status.map_or("", |port| &port.name);
        let labels: Labels<'_> = &[("port", id), ("name", &port_name)];
        metrics.latency(name, labels, summary);
    }
    let name = "reprise_stream_latency_seconds";
    let help = "Time in the switch of frames that left, by what made the copies.";
    metrics.family(name, "summary", help);
    for (stream, summary) in &report.streams {
        let (kind, id) = match stream {
            Stream::Unicast => ("unicast", String::new()),
            Stream::MulticastGroup(id) => ("multicast_group", id.to_string()),
            Stream::CloneSession(id) => ("clone_session", id.to_string()),
            Stream::Other => ("other", String::new()),
        };
        let labels: Labels<'_> = &[("stream", &kind), ("id", &id)];
        metrics.latency(name, labels, summary);
    }
}

#[cfg(test)]
mod tests {
    use dataplane::{ActionCall, MatchField, PortId, Program, SwitchConfig, TableEntry};

    use super::*;

    #[test]
    fn every_family_says_what_it_is_and_labels_are_escaped() {
        let mut switch = Switch::new(SwitchConfig::default());
        let program = Program::from_json_str(include_str!("../tests/programs/forward.json"));
        switch.set_program(program.expect("a sound program"));
        switch.add_port(PortId(1));
        let program = switch.program().expect("a program");
        let table = program.table("ingress.forward").expect("the table");
        let action = program.action_of(table, "ingress.send").expect("it");
        let args = vec![vec![1]];
        let key = vec![MatchField::Exact(vec![1])];
        let entry = TableEntry::new(key, 0, ActionCall { action, args });
        switch.insert_entry(table, entry).expect("a new entry");
        switch.handle_frame(1_000, PortId(1), &[0; 60]);
        assert!(switch.poll_transmit(1_501_000).is_some());
        switch.handle_frame(2_000_000, PortId(7), &[0; 60]);
        let port = PortStatus {
            id: PortId(1),
            name: "a \"b\\c\"".into(),
            rx_dropped: 3,
            tx_dropped: 4,
        };
        let text = render(&mut switch, &[port]);
        let name = r#"port="1",name="a \"b\\c\"""#;
        for line in [
            "# TYPE reprise_packets_total counter".to_owned(),
            "reprise_packets_total{event=\"received\"} 2".into(),
            "reprise_drops_total{reason=\"port_unknown\"} 1".into(),
            "reprise_drops_total{reason=\"egress_queue_full\"} 0".into(),
            "reprise_packets_inside 0".into(),
            format!("reprise_port_received_packets_total{{{name}}} 1"),
            format!("reprise_port_transmitted_bytes_total{{{name}}} 60"),
            format!("reprise_port_receive_drops_total{{{name}}} 3"),
            "reprise_table_lookups_total{table=\"ingress.forward\",result=\"hit\"} 1".into(),
            "reprise_table_entries{table=\"ingress.forward\"} 1".into(),
            format!("reprise_port_latency_seconds_count{{{name}}} 1"),
            format!("reprise_port_latency_seconds_sum{{{name}}} 0.001500000"),
            "reprise_stream_latency_seconds_count{stream=\"unicast\",id=\"\"} 1".into(),
        ] {
            assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
        }
        let is_sample = |line: &&str| !line.starts_with('#');
        for line in text.lines().filter(is_sample) {
            let (_, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
