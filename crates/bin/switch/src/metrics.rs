//! Serves every counter and latency of the switch to Prometheus: in text format 0.0.4 over HTTP, at `/metrics`. Also
//! serves liveness and readiness ([`health`]).

mod health;
mod recent;
mod selected;

use std::fmt::{Display, Write};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
    serve::Listener,
};
use control::{Counted, LinkState, PortStatus, SwitchHandle};
use dataplane::{
    GeneratorState, GeneratorStatus, LatencySummary, PortCounters, RecentMaxima, Stream,
};
use p4runtime_server::Server;
use stream_socket::{Connection, ConnectionLimits};

use crate::handle::LoopHandle;
use health::Probes;
pub(crate) use recent::Recent;
pub(crate) use selected::Selection;

/// Room for a few clients that ask every few seconds, and connect again if they are cut off.
const CONNECTION_LIMITS: ConnectionLimits = ConnectionLimits {
    service: "metrics",
    open_max: 32,
    silent_max: Some(Duration::from_secs(10)),
};

pub(crate) struct Served {
    handle: LoopHandle,
    server: Server,
    selection: Selection,
    recent: Recent,
    probes: Probes,
    engine: &'static str,
    /// Start of the process, in seconds of the Unix epoch.
    started_s: f64,
}

impl Served {
    /// The caller must run `recent.keep`.
    pub(crate) fn new(
        handle: LoopHandle,
        server: Server,
        selection: Selection,
        recent: Recent,
        engine: &'static str,
    ) -> Served {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Served {
            probes: Probes::of(handle.n_workers()),
            handle,
            server,
            selection,
            recent,
            engine,
            // A clock before 1970 counts as 1970.
            started_s: since_epoch.map_or(0.0, |since| since.as_secs_f64()),
        }
    }
}

/// Routes for the metrics, and for liveness and readiness.
pub(crate) fn router(served: Served) -> Router {
    Router::new()
        .route("/metrics", get(answer))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .with_state(Arc::new(served))
}

async fn answer(State(served): State<Arc<Served>>) -> Response {
    match text(&served).await {
        Some(text) => {
            let headers = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
            (headers, text).into_response()
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, "the switch has stopped\n").into_response(),
    }
}

/// The text with all metrics; `None` if the switch has stopped.
pub(crate) async fn text(served: &Served) -> Option<String> {
    let device = served.server.device();
    let counted = device.counted().await.ok()?;
    let selected = selected::read(device, &served.selection).await?;
    served.recent.take(device).await?;
    let mut metrics = Metrics::default();
    process(&mut metrics, served);
    stored(&mut metrics, device.is_stored());
    render(&mut metrics, counted);
    controller_drops(&mut metrics, &served.server);
    let maxima = served.recent.maxima();
    recent_maxima(&mut metrics, &maxima);
    deepest_queues(&mut metrics, &maxima);
    selected::render(&mut metrics, &selected);
    Some(metrics.text)
}

#[derive(Default)]
struct Metrics {
    text: String,
}

type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

impl Metrics {
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

fn escape(value: &str) -> String {
    let value = value.replace('\\', "\\\\");
    value.replace('"', "\\\"").replace('\n', "\\n")
}

/// Formats nanoseconds as seconds, without the rounding of a floating-point number.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn process(metrics: &mut Metrics, served: &Served) {
    let name = "reprise_build_info";
    metrics.family(name, "gauge", "1; version and build in its labels.");
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let labels: Labels<'_> = &[
        ("version", &env!("CARGO_PKG_VERSION")),
        ("commit", &env!("REPRISE_COMMIT")),
        ("profile", &profile),
        ("engine", &served.engine),
    ];
    metrics.sample(name, labels, 1);
    let name = "process_start_time_seconds";
    metrics.family(name, "gauge", "When the process started, Unix time.");
    metrics.sample(name, &[], format!("{:.3}", served.started_s));
}

/// Shows whether the state file is current, if there is one.
fn stored(metrics: &mut Metrics, is_stored: Option<bool>) {
    let name = "reprise_state_current";
    let help = "1 where the state file has all that was answered as done, 0 where it is gone, was written to by somebody else, or cannot be written.";
    metrics.family(name, "gauge", help);
    if let Some(is_stored) = is_stored {
        metrics.sample(name, &[], u8::from(is_stored));
    }
}

fn render(metrics: &mut Metrics, mut counted: Counted) {
    totals(metrics, &counted);
    port_counters(metrics, &counted);
    port_states(metrics, &counted);
    port_queues(metrics, &counted);
    port_offloads(metrics, &counted);
    port_drops(metrics, &counted);
    table_counters(metrics, &counted);
    generators(metrics, &counted);
    latencies(metrics, &mut counted);
}

fn totals(metrics: &mut Metrics, counted: &Counted) {
    let counters = &counted.counters;
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
    metrics.sample(name, &[], counted.inside);
    let name = "reprise_workers";
    metrics.family(name, "gauge", "Threads that forward.");
    metrics.sample(name, &[], counted.n_workers);
    let name = "reprise_digests_total";
    metrics.counter(name, "Digests made.", counters.digests);
    let name = "reprise_digests_lost_total";
    let help = "Digests that nobody took.";
    metrics.counter(name, help, counters.digests_lost);
    let name = "reprise_idle_timeouts_lost_total";
    let help = "Idle timeouts that nobody took.";
    metrics.counter(name, help, counters.idle_timeouts_lost);
}

fn controller_drops(metrics: &mut Metrics, server: &Server) {
    let name = "reprise_controller_drops_total";
    let help = "Packet-ins and notices of idle entries that reached no controller, by reason.";
    metrics.family(name, "counter", help);
    for (reason, packets) in server.controller_drops() {
        metrics.sample(name, &[("reason", &reason)], packets);
    }
}

fn port_counters(metrics: &mut Metrics, counted: &Counted) {
    type Column = (
        &'static str,
        &'static str,
        fn(PortCounters, &PortStatus) -> u64,
    );
    let columns: [Column; 7] = [
        (
            "reprise_port_received_packets_total",
            "Frames that came in.",
            |counters, _| counters.rx_packets,
        ),
        (
            "reprise_port_received_bytes_total",
            "Bytes that came in.",
            |counters, _| counters.rx_bytes,
        ),
        (
            "reprise_port_transmitted_packets_total",
            "Frames that left.",
            |counters, _| counters.tx_packets,
        ),
        (
            "reprise_port_transmitted_bytes_total",
            "Bytes that left.",
            |counters, _| counters.tx_bytes,
        ),
        (
            "reprise_port_link_down_events_total",
            "How often the interface went down.",
            |_, port| port.link_down_events,
        ),
        (
            "reprise_port_link_up_events_total",
            "How often the interface came up again.",
            |_, port| port.link_up_events,
        ),
        (
            "reprise_port_lost_events_total",
            "How often the interface was removed.",
            |_, port| port.lost_events,
        ),
    ];
    for (name, help, read) in columns {
        metrics.family(name, "counter", help);
        for port in &counted.ports {
            let labels: Labels<'_> = &[("port", &port.id), ("name", &port.name)];
            let value = read(counted.counters.port(port.id), port);
            metrics.sample(name, labels, value);
        }
    }
}

/// Shows the link states of ports on interfaces.
fn port_states(metrics: &mut Metrics, counted: &Counted) {
    let name = "reprise_port_link";
    let help = "Whether the interface is up, down, or lost (removed): 1 for its state.";
    metrics.family(name, "gauge", help);
    let on_interfaces = |port: &&PortStatus| port.link != LinkState::None;
    for port in counted.ports.iter().filter(on_interfaces) {
        for state in [LinkState::Up, LinkState::Down, LinkState::Lost] {
            let labels: Labels<'_> = &[
                ("port", &port.id),
                ("name", &port.name),
                ("state", &state.name()),
            ];
            metrics.sample(name, labels, u8::from(port.reported_link() == state));
        }
    }
}

/// Shows the queues that ports on interfaces do not serve.
fn port_queues(metrics: &mut Metrics, counted: &Counted) {
    let name = "reprise_port_unserved_queues";
    let help = "Receive queues of the interface that the port does not serve.";
    metrics.family(name, "gauge", help);
    let on_interfaces = |port: &&PortStatus| port.link != LinkState::None;
    for port in counted.ports.iter().filter(on_interfaces) {
        let labels: Labels<'_> = &[("port", &port.id), ("name", &port.name)];
        metrics.sample(name, labels, port.unserved_queues);
    }
}

/// Shows whether the offload forwards, for ports that an offload serves.
fn port_offloads(metrics: &mut Metrics, counted: &Counted) {
    let name = "reprise_port_offloaded";
    let help = "1 where the offload of the port forwards beside the engine, 0 where it does not.";
    metrics.family(name, "gauge", help);
    for port in &counted.ports {
        if let Some(is_offloaded) = port.is_offloaded {
            let labels: Labels<'_> = &[("port", &port.id), ("name", &port.name)];
            metrics.sample(name, labels, u8::from(is_offloaded));
        }
    }
}

/// Shows the drops of each port by reason. A reason begins with the direction, `rx_` or `tx_`; docs/switch.md lists
/// them.
fn port_drops(metrics: &mut Metrics, counted: &Counted) {
    let directions = [
        (
            "reprise_port_receive_drops_total",
            "rx_",
            "Frames dropped before the switch saw them, by reason.",
        ),
        (
            "reprise_port_transmit_drops_total",
            "tx_",
            "Frames that could not be sent, by reason.",
        ),
    ];
    for (name, prefix, help) in directions {
        metrics.family(name, "counter", help);
        for port in &counted.ports {
            for (reason, frames) in port.drops.iter().filter(|(it, _)| it.starts_with(prefix)) {
                let labels: Labels<'_> =
                    &[("port", &port.id), ("name", &port.name), ("reason", reason)];
                metrics.sample(name, labels, frames);
            }
        }
    }
}

fn table_counters(metrics: &mut Metrics, counted: &Counted) {
    let name = "reprise_table_lookups_total";
    metrics.family(name, "counter", "Lookups, by table and result.");
    for table in &counted.tables {
        let lookups = table.lookups;
        for (result, lookups) in [("hit", lookups.hits), ("miss", lookups.misses)] {
            let labels: Labels<'_> = &[("table", &table.name), ("result", &result)];
            metrics.sample(name, labels, lookups);
        }
    }
    let name = "reprise_table_entries";
    metrics.family(name, "gauge", "Entries, by table.");
    for table in &counted.tables {
        metrics.sample(name, &[("table", &table.name)], table.entries);
    }
    let name = "reprise_table_size";
    metrics.family(name, "gauge", "Entries at most, by table.");
    for table in &counted.tables {
        metrics.sample(name, &[("table", &table.name)], table.size);
    }
}

fn generators(metrics: &mut Metrics, counted: &Counted) {
    type Column = (
        &'static str,
        &'static str,
        &'static str,
        fn(&GeneratorStatus) -> u64,
    );
    let columns: [Column; 4] = [
        (
            "reprise_generator_sent_packets_total",
            "counter",
            "Frames of generators that came in.",
            |generator| generator.counters.sent,
        ),
        (
            "reprise_generator_dropped_packets_total",
            "counter",
            "Frames of generators that were refused as they came in; the reasons are among the drops.",
            |generator| generator.counters.dropped,
        ),
        (
            "reprise_generator_late_packets_total",
            "counter",
            "Frames of generators that were made when the next one was due already.",
            |generator| generator.counters.late,
        ),
        (
            "reprise_generator_running",
            "gauge",
            "Whether the generator runs.",
            |generator| u64::from(generator.state == GeneratorState::Running),
        ),
    ];
    for (name, kind, help, read) in columns {
        metrics.family(name, kind, help);
        for generator in &counted.generators {
            generator_sample(metrics, name, generator, read(generator));
        }
    }
    let name = "reprise_generator_late_max_seconds";
    let help = "The longest time that a frame of the generator was made after it was due.";
    metrics.family(name, "gauge", help);
    for generator in &counted.generators {
        let value = seconds(generator.counters.late_max_ns);
        generator_sample(metrics, name, generator, value);
    }
}

fn generator_sample(
    metrics: &mut Metrics,
    name: &str,
    generator: &GeneratorStatus,
    value: impl Display,
) {
    let GeneratorStatus { id, config, .. } = generator;
    let labels: Labels<'_> = &[
        ("generator", id),
        ("name", &config.name),
        ("port", &config.port),
    ];
    metrics.sample(name, labels, value);
}

fn latencies(metrics: &mut Metrics, counted: &mut Counted) {
    let (report, ports) = (counted.latencies.report(), &counted.ports);
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
        let (kind, id) = stream_labels(*stream);
        let labels: Labels<'_> = &[("stream", &kind), ("id", &id)];
        metrics.latency(name, labels, summary);
    }
}

fn stream_labels(stream: Stream) -> (&'static str, String) {
    match stream {
        Stream::Unicast => ("unicast", String::new()),
        Stream::MulticastGroup(id) => ("multicast_group", id.to_string()),
        Stream::CloneSession(id) => ("clone_session", id.to_string()),
        Stream::Other => ("other", String::new()),
    }
}

fn recent_maxima(metrics: &mut Metrics, maxima: &RecentMaxima) {
    let name = "reprise_port_latency_recent_max_seconds";
    let help = "The longest time in the switch in the last minute, by output port.";
    metrics.family(name, "gauge", help);
    for (port, max_ns) in &maxima.ports {
        metrics.sample(name, &[("port", port)], seconds(*max_ns));
    }
    let name = "reprise_stream_latency_recent_max_seconds";
    let help = "The longest time in the switch in the last minute, by what made the copies.";
    metrics.family(name, "gauge", help);
    for (stream, max_ns) in &maxima.streams {
        let (kind, id) = stream_labels(*stream);
        let labels: Labels<'_> = &[("stream", &kind), ("id", &id)];
        metrics.sample(name, labels, seconds(*max_ns));
    }
}

fn deepest_queues(metrics: &mut Metrics, maxima: &RecentMaxima) {
    let name = "reprise_port_queue_recent_max_packets";
    let help = "The most packets that waited in one queue of an output port in the last minute.";
    metrics.family(name, "gauge", help);
    for (port, packets) in &maxima.queues {
        metrics.sample(name, &[("port", port)], packets);
    }
}

/// A listener with limits for connections that ask for metrics, for axum.
pub(crate) struct BoundedListener(stream_socket::BoundedListener);

impl BoundedListener {
    pub(crate) fn new(listener: stream_socket::Listener) -> Self {
        let listener = stream_socket::BoundedListener::new(listener, CONNECTION_LIMITS);
        Self(listener)
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The address is not used.
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        (self.0.accept().await, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use control::{DrainWaiters, SwitchContext};
    use dataplane::{
        ActionCall, DropReason, MatchField, PortId, Program, Switch, SwitchConfig, TableEntry,
    };
    use packet_io::PortStatistics;

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
            is_offloaded: Some(true),
            drops: PortStatistics {
                rx_ring_full: 3,
                tx_too_long: 4,
                ..PortStatistics::default()
            }
            .drops()
            .to_vec(),
            ..PortStatus::default()
        };
        let counted = Counted::of(&mut SwitchContext {
            switch: &mut switch,
            now: 2_000_000,
            ports: &[port],
            drain_waiters: &mut DrainWaiters::default(),
            n_updates: 0,
            rest: None,
        });
        let mut metrics = Metrics::default();
        render(&mut metrics, counted);
        let text = metrics.text;
        let name = r#"port="1",name="a \"b\\c\"""#;
        for line in [
            "# TYPE reprise_packets_total counter".to_owned(),
            "reprise_packets_total{event=\"received\"} 2".into(),
            "reprise_drops_total{reason=\"port_unknown\"} 1".into(),
            "reprise_drops_total{reason=\"egress_queue_full\"} 0".into(),
            "reprise_packets_inside 0".into(),
            format!("reprise_port_received_packets_total{{{name}}} 1"),
            format!("reprise_port_transmitted_bytes_total{{{name}}} 60"),
            format!("reprise_port_receive_drops_total{{{name},reason=\"rx_ring_full\"}} 3"),
            format!("reprise_port_transmit_drops_total{{{name},reason=\"tx_too_long\"}} 4"),
            format!("reprise_port_link_down_events_total{{{name}}} 0"),
            format!("reprise_port_offloaded{{{name}}} 1"),
            "reprise_workers 1".into(),
            "reprise_table_lookups_total{table=\"ingress.forward\",result=\"hit\"} 1".into(),
            "reprise_table_entries{table=\"ingress.forward\"} 1".into(),
            format!("reprise_port_latency_seconds_count{{{name}}} 1"),
            format!("reprise_port_latency_seconds_sum{{{name}}} 0.001500000"),
            "reprise_stream_latency_seconds_count{stream=\"unicast\",id=\"\"} 1".into(),
        ] {
            assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
        }
        for reason in DropReason::ALL {
            let sample = format!("reprise_drops_total{{reason=\"{reason}\"}} ");
            assert!(text.contains(&sample), "no {sample} in\n{text}");
        }
        for (reason, _) in PortStatistics::default().drops() {
            let label = format!("reason=\"{reason}\"}} ");
            assert!(text.contains(&label), "no {reason} in\n{text}");
        }
        exposition(&text);
    }

    /// Checks the text as Prometheus reads it: each family's help and type come once, before its samples, which stand
    /// together; names follow the conventions; no sample comes twice.
    fn exposition(text: &str) {
        let mut families = BTreeSet::new();
        let mut samples = BTreeSet::new();
        let (mut family, mut kind) = ("", "");
        let mut helped = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                helped = rest.split_once(' ').expect("a help").0;
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                (family, kind) = rest.split_once(' ').expect("a type");
                assert_eq!(family, helped, "help stands before the type");
                assert!(families.insert(family), "{family} twice");
                assert_eq!(kind == "counter", family.ends_with("_total"), "{family}");
                assert!(family.starts_with("reprise_"), "{family}");
                continue;
            }
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = sample.split('{').next().expect("a name");
            let is_part = ["", "_sum", "_count"]
                .iter()
                .any(|part| name == format!("{family}{part}"));
            assert!(is_part, "{name} stands under {family}");
            assert!(name == family || kind == "summary", "{line}");
            assert!(samples.insert(sample), "{sample} twice");
        }
        assert!(families.len() > 10, "{families:?}");
    }
}
