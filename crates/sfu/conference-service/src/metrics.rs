//! What the service counts, for Prometheus. There are few labels, and they are known beforehand. They name no
//! conference or participant, unless the configuration asks for [`of_legs`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conference_model::Model;
use p4runtime_client::objects::Count;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry, TextEncoder,
};

use crate::activity::Activity;
use crate::sign_in::{Ignored, Outcome};

/// Buckets for the time of a request. A request takes less than a millisecond or, if the store must write, as long as
/// the write, and at most ten seconds.
const REQUEST_S: [f64; 10] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0,
];
/// Buckets for the time of a write of the store. A disk or etcd's nodes write within milliseconds.
const STORE_S: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0, 5.0];

const DONE: &str = "done";
const FAILED: &str = "failed";
const HELLO_OUTCOMES: [&str; 9] = [
    "challenged",
    "welcomed",
    "signed_in",
    FAILED,
    "ignored_no_hello",
    "ignored_answer",
    "ignored_unknown_leg",
    "ignored_signature",
    "ignored_in_use",
];

/// Metrics of this process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    conferences: IntGauge,
    participants: IntGauge,
    tracks: IntGauge,
    subscriptions: IntGauge,
    legs: IntGauge,
    signed_in_legs: IntGauge,
    received: [IntCounter; 2],
    sent: [IntCounter; 2],
    verdicts: IntCounterVec,
    hellos: IntCounterVec,
    requests: IntCounterVec,
    request_s: HistogramVec,
    store_writes: IntCounterVec,
    store_s: Histogram,
    websockets: IntGauge,
    events_lost: IntCounter,
    webhooks: Webhooks,
    switch_whole: IntGauge,
    leader: IntGauge,
    draining: IntGauge,
    certificate_expiry: IntGauge,
}

/// Values that are determined only when Prometheus fetches the metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct State {
    pub is_leader: bool,
    /// Whether the switch has what it must have.
    pub is_whole: bool,
    /// Whether the service drains, that is, takes no new conferences and participants.
    pub is_draining: bool,
    /// When the certificate of HTTPS expires, in seconds since 1970; `None` without one.
    pub certificate_expiry_s: Option<u64>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// Makes the metrics of a process that starts now, all at zero.
    #[must_use]
    pub fn new() -> Metrics {
        let all = Registered(Registry::new());
        all.of_process();
        let metrics = Metrics {
            conferences: all.gauge("conferences", "Conferences."),
            participants: all.gauge("participants", "Participants of all conferences."),
            tracks: all.gauge("tracks", "Published tracks."),
            subscriptions: all.gauge("subscriptions", "Subscriptions, also to absent tracks."),
            legs: all.gauge("legs", "Legs: sockets that participants have or may open."),
            signed_in_legs: all.gauge("signed_in_legs", "Legs whose socket is signed in."),
            received: all.traffic(
                "received",
                "the switch has got from signed-in sockets, hellos too",
            ),
            sent: all.traffic("sent", "the switch has copied to signed-in sockets"),
            verdicts: all.counters(
                "verdicts_total",
                "Packets that the switch has got from its ports, by what it did with them.",
                &["verdict"],
            ),
            hellos: all.counters(
                "hellos_total",
                "Hellos that the switch has passed on, by what they led to.",
                &["outcome"],
            ),
            requests: all.counters(
                "http_requests_total",
                "Answered requests, by method, route and status.",
                &["method", "route", "status"],
            ),
            request_s: all.add(HistogramVec::new(
                seconds(
                    "http_request_seconds",
                    "Time from a request's head to its answer's head, by route.",
                    &REQUEST_S,
                ),
                &["route"],
            )),
            store_writes: all.counters(
                "store_writes_total",
                "Writes of the store, each of one or more requests, by whether they succeeded.",
                &["result"],
            ),
            store_s: all.add(Histogram::with_opts(seconds(
                "store_write_seconds",
                "Time of the store's writes.",
                &STORE_S,
            ))),
            websockets: all.gauge("websockets", "Open event streams."),
            events_lost: all.counter(
                "events_lost_total",
                "Events that were left out of a stream, since its reader did not keep up.",
            ),
            webhooks: Webhooks::new(&all),
            switch_whole: all.gauge(
                "switch_whole",
                "Whether the switch is connected and has what the conferences need.",
            ),
            leader: all.gauge("leader", "Whether this service leads."),
            draining: all.gauge("draining", "Whether nobody new is let in."),
            certificate_expiry: all.gauge(
                "certificate_expiry_seconds",
                "When the certificate of HTTPS expires, in seconds since 1970; 0 without one.",
            ),
            registry: all.0,
        };
        metrics.begin_series();
        metrics
    }

    /// Begins each time series at 0. If a series began with its first event, Prometheus would see no increase for it.
    fn begin_series(&self) {
        for outcome in HELLO_OUTCOMES {
            self.hellos.with_label_values(&[outcome]).inc_by(0);
        }
        for result in [DONE, FAILED] {
            self.store_writes.with_label_values(&[result]).inc_by(0);
            self.webhooks.tries.with_label_values(&[result]).inc_by(0);
        }
    }

    /// Counts a hello by its outcome. A hello is the datagram with which a host signs a socket in.
    pub fn hello(&self, outcome: &Outcome) {
        let name = match outcome {
            Outcome::Answered(answer) if answer.kind == hello::Kind::Challenge => "challenged",
            Outcome::Answered(_) => "welcomed",
            // A sign-in is counted when it is stored.
            Outcome::SignsIn { .. } => return,
            Outcome::Ignored(Ignored::NoHello(_)) => "ignored_no_hello",
            Outcome::Ignored(Ignored::Answer) => "ignored_answer",
            Outcome::Ignored(Ignored::UnknownLeg(_)) => "ignored_unknown_leg",
            Outcome::Ignored(Ignored::Signature(_)) => "ignored_signature",
            Outcome::Ignored(Ignored::InUse(_)) => "ignored_in_use",
        };
        self.hellos.with_label_values(&[name]).inc();
    }

    /// Counts a hello that has signed a socket in, or that failed to do so.
    pub fn sign_in(&self, is_done: bool) {
        let name = if is_done { "signed_in" } else { FAILED };
        self.hellos.with_label_values(&[name]).inc();
    }

    /// Adds what the switch has counted since the last reading.
    pub fn activity(&self, activity: &Activity) {
        let add = |[packets, bytes]: &[IntCounter; 2], count: Count| {
            packets.inc_by(count.packets);
            bytes.inc_by(count.bytes);
        };
        for leg in activity.legs.values() {
            add(&self.received, leg.sent.increase);
            add(&self.sent, leg.received.increase);
        }
        for (name, flow) in &activity.verdicts {
            let verdict = self.verdicts.with_label_values(&[name]);
            verdict.inc_by(flow.increase.packets);
        }
    }

    /// Counts the conferences of the model, and their participants, tracks and subscriptions.
    pub fn model(&self, model: &Model) {
        let (mut conferences, mut participants, mut tracks, mut subscriptions) = (0, 0, 0, 0);
        for (name, _) in model.conferences() {
            conferences += 1;
            let of_this = model
                .participants(name)
                .into_iter()
                .flat_map(|it| it.values());
            for participant in of_this {
                participants += 1;
                tracks += participant.tracks.len();
                subscriptions += participant.subscriptions.len();
            }
        }
        let legs = model.legs();
        let (mut n_legs, mut n_signed_in) = (0, 0);
        for leg in legs {
            n_legs += 1;
            n_signed_in += usize::from(model.binding(leg).is_some());
        }
        for (gauge, value) in [
            (&self.conferences, conferences),
            (&self.participants, participants),
            (&self.tracks, tracks),
            (&self.subscriptions, subscriptions),
            (&self.legs, n_legs),
            (&self.signed_in_legs, n_signed_in),
        ] {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    /// Counts an answered request. `route` is the template of the route, not the path that the caller requested.
    pub fn request(&self, method: &axum::http::Method, route: &str, status: u16, took: Duration) {
        // A stranger's request may have any method.
        let method = match method.as_str() {
            known @ ("GET" | "HEAD" | "PUT" | "POST" | "DELETE" | "OPTIONS" | "PATCH") => known,
            _ => "other",
        };
        let status = status.to_string();
        let labels = [method, route, status.as_str()];
        self.requests.with_label_values(&labels).inc();
        let seconds = self.request_s.with_label_values(&[route]);
        seconds.observe(took.as_secs_f64());
    }

    /// Counts a write of the store.
    pub fn store_write(&self, is_done: bool, took: Duration) {
        let result = if is_done { DONE } else { FAILED };
        self.store_writes.with_label_values(&[result]).inc();
        self.store_s.observe(took.as_secs_f64());
    }

    /// Counts an event stream as open while the result lives.
    #[must_use]
    pub fn websocket(&self) -> OpenWebsocket {
        self.websockets.inc();
        OpenWebsocket(self.websockets.clone())
    }

    /// Counts events that a stream did not get.
    pub fn events_lost(&self, n: u64) {
        self.events_lost.inc_by(n);
    }

    /// Counts a delivery of an event to a webhook.
    pub fn webhook(&self, is_done: bool) {
        let result = if is_done { DONE } else { FAILED };
        self.webhooks.tries.with_label_values(&[result]).inc();
    }

    /// Counts events that a webhook did not get.
    pub fn webhook_events_lost(&self, n: u64) {
        self.webhooks.events_lost.inc_by(n);
    }

    /// Returns all metrics in Prometheus' text format 0.0.4, followed by `more`.
    #[must_use]
    pub fn text(&self, state: State, more: Vec<MetricFamily>) -> String {
        self.leader.set(state.is_leader.into());
        self.switch_whole.set(state.is_whole.into());
        self.draining.set(state.is_draining.into());
        let expiry_s = state.certificate_expiry_s.unwrap_or(0);
        self.certificate_expiry
            .set(i64::try_from(expiry_s).unwrap_or(i64::MAX));
        if !state.is_leader {
            self.model(&Model::default());
        }
        let mut families = self.registry.gather();
        families.extend(more);
        // Every family has a name, a type and samples.
        let encoded = TextEncoder::new().encode_to_string(&families);
        encoded.unwrap_or_else(|error| unreachable!("{error}"))
    }
}

/// Counts an event stream as open until this value is dropped.
#[derive(Debug)]
pub struct OpenWebsocket(IntGauge);

impl Drop for OpenWebsocket {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Returns what each leg (a participant's connection by one UDP socket) has sent and received, with the names of its
/// conference and participant.
#[must_use]
pub fn of_legs(model: &Model, activity: &Activity) -> Vec<MetricFamily> {
    let labels = ["conference", "participant", "leg"];
    let family = |name: &str, help: &str| {
        registered(IntCounterVec::new(Opts::new(full(name), help), &labels))
    };
    let received = family(
        "leg_received_packets_total",
        "Packets that the switch has got from the leg's socket, hellos too.",
    );
    let sent = family(
        "leg_sent_packets_total",
        "Packets that the switch has copied to the leg's socket.",
    );
    for (number, leg) in &activity.legs {
        let Some(place) = model.leg(*number) else {
            continue;
        };
        let names = [
            place.conference.as_str(),
            place.participant.as_str(),
            place.leg.as_str(),
        ];
        let packets = received.with_label_values(&names);
        packets.inc_by(leg.sent.count.packets);
        let packets = sent.with_label_values(&names);
        packets.inc_by(leg.received.count.packets);
    }
    let families = received.collect().into_iter().chain(sent.collect());
    // A family without samples cannot be written.
    families.filter(|it| !it.get_metric().is_empty()).collect()
}

/// The metrics of webhooks.
#[derive(Debug)]
struct Webhooks {
    tries: IntCounterVec,
    events_lost: IntCounter,
}

impl Webhooks {
    fn new(all: &Registered) -> Webhooks {
        Webhooks {
            tries: all.counters(
                "webhook_tries_total",
                "Deliveries of events to webhooks, by whether the receiver took them.",
                &["result"],
            ),
            events_lost: all.counter(
                "webhook_events_lost_total",
                "Events that a webhook did not get: tried for too long, or too many waited.",
            ),
        }
    }
}

struct Registered(Registry);

impl Registered {
    fn add<M: Collector + Clone + 'static>(&self, metric: prometheus::Result<M>) -> M {
        let metric = registered(metric);
        registered(self.0.register(Box::new(metric.clone())));
        metric
    }

    /// Adds the time at which the process started, and the program's version.
    fn of_process(&self) {
        let started = self.add(Gauge::new(
            "process_start_time_seconds",
            "When the process started, in seconds since 1970.",
        ));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        started.set(now.map_or(0.0, |it| it.as_secs_f64()));
        let build = Opts::new(full("build_info"), "1; the label is the program's version.");
        let build = build.const_label("version", env!("CARGO_PKG_VERSION"));
        self.add(IntGauge::with_opts(build)).set(1);
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.add(IntGauge::new(full(name), help))
    }

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.add(IntCounter::new(full(name), help))
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.add(IntCounterVec::new(Opts::new(full(name), help), labels))
    }

    fn traffic(&self, name: &str, of: &str) -> [IntCounter; 2] {
        [("packets", "Packets"), ("bytes", "Bytes of whole frames")].map(|(unit, what)| {
            self.counter(
                &format!("{name}_{unit}_total"),
                &format!("{what} that {of}."),
            )
        })
    }
}

fn seconds(name: &str, help: &str, buckets: &[f64]) -> HistogramOpts {
    HistogramOpts::new(full(name), help).buckets(buckets.to_vec())
}

fn full(name: &str) -> String {
    format!("reprise_conference_{name}")
}

/// Returns a registered metric. Names, labels and buckets are constants of this file, and each is registered once, so a
/// mistake shows in the first test.
fn registered<T>(result: prometheus::Result<T>) -> T {
    result.unwrap_or_else(|error| unreachable!("{error}"))
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;

    #[test]
    fn what_was_counted_is_in_the_text() {
        let metrics = Metrics::new();
        metrics.request(
            &Method::GET,
            "/v1/conferences",
            200,
            Duration::from_millis(2),
        );
        let strange = Method::from_bytes(b"STRANGE").expect("a method");
        metrics.request(&strange, "none", 405, Duration::from_millis(2));
        metrics.store_write(true, Duration::from_millis(7));
        metrics.hello(&Outcome::Ignored(Ignored::UnknownLeg(7)));
        metrics.sign_in(true);
        let open = metrics.websocket();
        metrics.webhook(false);
        let state = State {
            is_leader: true,
            certificate_expiry_s: Some(7),
            ..State::default()
        };
        let text = metrics.text(state, Vec::new());
        for line in [
            "# TYPE reprise_conference_http_requests_total counter",
            "reprise_conference_http_requests_total{method=\"GET\",route=\"/v1/conferences\",status=\"200\"} 1",
            "reprise_conference_http_requests_total{method=\"other\",route=\"none\",status=\"405\"} 1",
            "reprise_conference_http_request_seconds_bucket{route=\"none\",le=\"0.0025\"} 1",
            "reprise_conference_store_write_seconds_count 1",
            "reprise_conference_hellos_total{outcome=\"ignored_unknown_leg\"} 1",
            "reprise_conference_hellos_total{outcome=\"signed_in\"} 1",
            "reprise_conference_websockets 1",
            "reprise_conference_leader 1",
            "reprise_conference_switch_whole 0",
            "reprise_conference_draining 0",
            "reprise_conference_certificate_expiry_seconds 7",
            "reprise_conference_webhook_tries_total{result=\"done\"} 0",
            "reprise_conference_webhook_tries_total{result=\"failed\"} 1",
            "reprise_conference_store_writes_total{result=\"failed\"} 0",
            "reprise_conference_hellos_total{outcome=\"ignored_in_use\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        drop(open);
        assert!(
            metrics
                .text(State::default(), Vec::new())
                .contains("websockets 0\n")
        );
    }
}
