//! `reprise watch`: shows current rates, the packets' times in the switch, and drops, whatever the program.

use std::time::Duration;

use p4runtime_client::Client;
use p4runtime_proto::reprise::v1::latency::Of;
use p4runtime_proto::reprise::v1::port_counters::Link;
use p4runtime_proto::reprise::v1::{
    DropCounter, GetCountersResponse, Latency, PacketCounters, PortCounters,
};
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::Failure;
use crate::output::{self, grouped};

/// Time between the two readings from which a rate is computed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of streams shown, busiest first, so that a page fits a terminal.
const STREAMS_SHOWN: usize = 10;

struct Pair<'a> {
    before: &'a GetCountersResponse,
    now: &'a GetCountersResponse,
}

/// State of the interface of a port; `None` if the port has no interface.
pub fn link(port: &PortCounters) -> Option<&'static str> {
    match port.link() {
        Link::Unspecified => None,
        Link::Up => Some("up"),
        Link::Down => Some("down"),
        Link::Lost => Some("lost"),
    }
}

/// The state of the interface as text, with the number of queues that are not served.
pub fn link_cell(port: &PortCounters) -> String {
    let link = link(port).unwrap_or("-");
    match port.unserved_queues {
        0 => link.to_owned(),
        1 => format!("{link}, 1 queue not served"),
        n => format!("{link}, {n} queues not served"),
    }
}

pub fn interface(port: &PortCounters) -> Option<&str> {
    Some(port.interface.as_str()).filter(|name| !name.is_empty())
}

/// The port's name at the start of the switch, and its interface's current name if that differs.
pub fn name(port: &PortCounters) -> String {
    let given = port.name.rsplit(':').next().unwrap_or(&port.name);
    match interface(port) {
        Some(now) if now != given => format!("{} (now {now})", port.name),
        _ => port.name.clone(),
    }
}

pub async fn run(global: &Global, times: Option<u32>) -> Result<(), Failure> {
    let mut client = Client::connect(&global.switch()?, global.device_id).await?;
    let mut before = client.counters().await?;
    let mut n_left = times;
    while n_left != Some(0) {
        tokio::time::sleep(INTERVAL).await;
        let now = client.counters().await?;
        let pair = Pair {
            before: &before,
            now: &now,
        };
        if global.json {
            output::json(&pair.to_json());
        } else {
            output::clear();
            pair.print(global.address());
        }
        before = now;
        n_left = n_left.map(|n| n - 1);
    }
    Ok(())
}

impl Pair<'_> {
    fn seconds(&self) -> f64 {
        let ns = (self.now.timestamp_ns).saturating_sub(self.before.timestamp_ns);
        ns as f64 / 1e9
    }

    /// Returns how much a count grew per second. Returns `None` if the count is smaller than before, since the switch
    /// was restarted, or if no time has passed.
    fn rate(&self, before: u64, now: u64) -> Option<f64> {
        let n = now.checked_sub(before)?;
        (self.seconds() > 0.0).then(|| n as f64 / self.seconds())
    }

    fn packets(&self) -> (PacketCounters, PacketCounters) {
        let of = |reading: &GetCountersResponse| reading.packets.unwrap_or_default();
        (of(self.before), of(self.now))
    }

    fn port_before(&self, port: &PortCounters) -> PortCounters {
        let mut ports = self.before.ports.iter();
        let found = ports.find(|earlier| earlier.port == port.port);
        found.cloned().unwrap_or_default()
    }

    /// Packets per second, and the mean time of a packet in the switch in nanoseconds, both between the two readings.
    fn recent(&self, latency: &Latency) -> (Option<f64>, Option<f64>) {
        let mut earlier = self.before.latencies.iter();
        let earlier = earlier.find(|it| (it.of, it.id) == (latency.of, latency.id));
        let (packets, sum_ns) = earlier.map_or((0, 0), |it| (it.packets, it.sum_ns));
        let n = latency.packets.saturating_sub(packets);
        let mean = latency.sum_ns.checked_sub(sum_ns).filter(|_| n > 0);
        (
            self.rate(packets, latency.packets),
            mean.map(|sum_ns| sum_ns as f64 / n as f64),
        )
    }

    /// Every drop reason that occurred: where (the switch or a port), the reason, the count before, the count now.
    fn drops(&self) -> Vec<(String, &str, u64, u64)> {
        let count = |drops: &[DropCounter], reason: &str| {
            let found = drops.iter().find(|drop| drop.reason == reason);
            found.map_or(0, |drop| drop.packets)
        };
        let inside = self.now.drops.iter().map(|drop| {
            let before = count(&self.before.drops, &drop.reason);
            (
                "switch".to_owned(),
                drop.reason.as_str(),
                before,
                drop.packets,
            )
        });
        let at_ports = self.now.ports.iter().flat_map(|port| {
            let earlier = self.port_before(port);
            port.drops.iter().map(move |drop| {
                let before = count(&earlier.drops, &drop.reason);
                let place = format!("port {}", port.port);
                (place, drop.reason.as_str(), before, drop.packets)
            })
        });
        let occurred = inside.chain(at_ports).filter(|(.., now)| *now > 0);
        occurred.collect()
    }

    fn print(&self, switch: &str) {
        let (before, now) = self.packets();
        let workers = match self.now.workers {
            0 | 1 => "1 worker".to_owned(),
            n => format!("{n} workers"),
        };
        output::text(format!(
            "switch {switch}, {workers}, up {:.0} s, {} packets inside",
            self.now.timestamp_ns as f64 / 1e9,
            grouped(now.inside)
        ));
        let flows = [
            ("received", before.received, now.received),
            (
                "copied",
                before.cloned + before.replicated,
                now.cloned + now.replicated,
            ),
            ("sent", before.transmitted, now.transmitted),
            ("to CPU", before.to_cpu, now.to_cpu),
        ];
        let flows = flows
            .map(|(name, before, now)| format!("{name} {}", per_second(self.rate(before, now))));
        output::text(format!("packets/s: {}", flows.join(", ")));
        output::text("");
        self.print_ports();
        self.print_latencies();
        self.print_drops();
    }

    fn print_ports(&self) {
        let titles = [
            "port",
            "name",
            "link",
            "rx/s",
            "rx Mbit/s",
            "tx/s",
            "tx Mbit/s",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for port in &self.now.ports {
            let earlier = self.port_before(port);
            let megabits = |before, now| {
                let rate = self.rate(before, now);
                rate.map_or_else(
                    || "-".to_owned(),
                    |bytes| format!("{:.2}", bytes * 8.0 / 1e6),
                )
            };
            rows.push(vec![
                port.port.to_string(),
                shortened(&name(port)),
                link_cell(port),
                per_second(self.rate(earlier.rx_packets, port.rx_packets)),
                megabits(earlier.rx_bytes, port.rx_bytes),
                per_second(self.rate(earlier.tx_packets, port.tx_packets)),
                megabits(earlier.tx_bytes, port.tx_bytes),
            ]);
        }
        output::table(&rows, 3);
        output::text("");
    }

    /// Prints the times in the switch. Quantiles of ports cover the time since the switch started, quantiles of streams
    /// the time since the program was set.
    fn print_latencies(&self) {
        if self.now.latencies.is_empty() {
            return output::text("no packet has left yet");
        }
        let titles = [
            "time in switch",
            "packets/s",
            "mean now",
            "p50",
            "p99",
            "p99.9",
            "max",
        ];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        let shown = self.busiest();
        for latency in &shown {
            let (rate, mean_ns) = self.recent(latency);
            rows.push(vec![
                title(latency),
                per_second(rate),
                mean_ns.map_or_else(|| "-".to_owned(), duration),
                duration(latency.p50_ns as f64),
                duration(latency.p99_ns as f64),
                duration(latency.p999_ns as f64),
                duration(latency.max_ns as f64),
            ]);
        }
        output::table(&rows, 1);
        let n_left = self.now.latencies.len() - shown.len();
        if n_left > 0 {
            output::text(format!("and {n_left} with fewer packets/s"));
        }
    }

    /// Returns the times of every port, and of the streams with the most packets per second, in the order in which the
    /// switch lists them.
    fn busiest(&self) -> Vec<&Latency> {
        let rate = |latency: &Latency| self.recent(latency).0.unwrap_or(0.0);
        let streams = self.now.latencies.iter();
        let mut streams: Vec<&Latency> = streams.filter(|it| it.of() != Of::Port).collect();
        streams.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
        streams.truncate(STREAMS_SHOWN);
        let is_shown = |it: &&Latency| {
            let is_same = |shown: &&Latency| (shown.of, shown.id) == (it.of, it.id);
            it.of() == Of::Port || streams.iter().any(is_same)
        };
        self.now.latencies.iter().filter(is_shown).collect()
    }

    fn print_drops(&self) {
        let drops = self.drops();
        output::text("");
        if drops.is_empty() {
            return output::text("no packet dropped");
        }
        let titles = ["dropped", "reason", "packets", "packets/s"];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        for (place, reason, before, now) in drops {
            rows.push(vec![
                place,
                reason.to_owned(),
                grouped(now),
                per_second(self.rate(before, now)),
            ]);
        }
        output::table(&rows, 2);
    }

    fn to_json(&self) -> Value {
        let (before, now) = self.packets();
        let flow = |before, now| json!({ "packets": now, "packets_per_s": self.rate(before, now) });
        let ports = self.now.ports.iter().map(|port| {
            let earlier = self.port_before(port);
            json!({
                "port": port.port, "name": port.name,
                "rx_packets": port.rx_packets, "rx_bytes": port.rx_bytes,
                "tx_packets": port.tx_packets, "tx_bytes": port.tx_bytes,
                "rx_packets_per_s": self.rate(earlier.rx_packets, port.rx_packets),
                "rx_bytes_per_s": self.rate(earlier.rx_bytes, port.rx_bytes),
                "tx_packets_per_s": self.rate(earlier.tx_packets, port.tx_packets),
                "tx_bytes_per_s": self.rate(earlier.tx_bytes, port.tx_bytes),
                "link": link(port),
                "link_down_events": port.link_down_events,
                "link_up_events": port.link_up_events,
                "lost_events": port.lost_events,
                "unserved_queues": port.unserved_queues,
                "interface": interface(port),
            })
        });
        let latencies = self.now.latencies.iter().map(|latency| {
            let (rate, mean_ns) = self.recent(latency);
            json!({
                "of": kind(latency), "id": latency.id, "packets": latency.packets,
                "packets_per_s": rate, "mean_now_ns": mean_ns,
                "p50_ns": latency.p50_ns, "p99_ns": latency.p99_ns,
                "p999_ns": latency.p999_ns, "max_ns": latency.max_ns,
            })
        });
        let drops = self
            .drops()
            .into_iter()
            .map(|(place, reason, before, now)| {
                json!({
                    "at": place, "reason": reason, "packets": now,
                    "packets_per_s": self.rate(before, now),
                })
            });
        json!({
            "timestamp_ns": self.now.timestamp_ns, "interval_s": self.seconds(),
            "workers": self.now.workers, "inside": now.inside,
            "received": flow(before.received, now.received),
            "cloned": flow(before.cloned, now.cloned),
            "replicated": flow(before.replicated, now.replicated),
            "transmitted": flow(before.transmitted, now.transmitted),
            "to_cpu": flow(before.to_cpu, now.to_cpu),
            "ports": ports.collect::<Vec<_>>(),
            "latencies": latencies.collect::<Vec<_>>(),
            "drops": drops.collect::<Vec<_>>(),
        })
    }
}

fn kind(latency: &Latency) -> &'static str {
    match latency.of() {
        Of::Port => "port",
        Of::Unicast => "unicast",
        Of::MulticastGroup => "multicast_group",
        Of::CloneSession => "clone_session",
        Of::Other | Of::Unspecified => "other",
    }
}

fn title(latency: &Latency) -> String {
    match latency.of() {
        Of::Port => format!("port {}", latency.id),
        Of::Unicast => "no copies".to_owned(),
        Of::MulticastGroup => format!("group {}", latency.id),
        Of::CloneSession => format!("session {}", latency.id),
        Of::Other | Of::Unspecified => "other streams".to_owned(),
    }
}

/// Shortens a port's name to the width of its column. A port can be named after a capture file, and such names can be
/// long.
fn shortened(name: &str) -> String {
    const WIDTH: usize = 24;
    if name.chars().count() <= WIDTH {
        return name.to_owned();
    }
    let kept: String = name.chars().take(WIDTH - 3).collect();
    format!("{kept}...")
}

fn per_second(rate: Option<f64>) -> String {
    // Rates are not negative; a rate that does not fit into 64 bits becomes the largest 64-bit number.
    rate.map_or_else(|| "-".to_owned(), |rate| grouped(rate.round() as u64))
}

/// Formats a number of nanoseconds, in a suitable unit.
fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e5 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_fits() {
        let shown = [0.0, 999.0, 1_250.0, 99_900.0, 250_000.0, 1.5e6, 2e9].map(duration);
        assert_eq!(
            shown,
            [
                "0 ns", "999 ns", "1.2 us", "99.9 us", "250 us", "1.5 ms", "2.0 s"
            ]
        );
    }

    #[test]
    fn an_interface_that_is_not_what_it_was_shows() {
        let mut port = PortCounters {
            name: "afxdp:eth1".to_owned(),
            interface: "eth1".to_owned(),
            link: Link::Up.into(),
            ..PortCounters::default()
        };
        assert_eq!(
            (name(&port), link_cell(&port)),
            ("afxdp:eth1".into(), "up".into())
        );
        port.interface = "wan0".to_owned();
        port.unserved_queues = 3;
        let shown = (name(&port), link_cell(&port));
        assert_eq!(
            shown,
            (
                "afxdp:eth1 (now wan0)".into(),
                "up, 3 queues not served".into()
            )
        );
        port.interface.clear();
        assert_eq!(name(&port), "afxdp:eth1", "it is lost");
    }

    #[test]
    fn of_many_streams_the_busiest_are_shown() {
        let stream = |id| Latency {
            of: Of::MulticastGroup.into(),
            id,
            packets: id.into(),
            ..Latency::default()
        };
        let port = Latency {
            of: Of::Port.into(),
            ..Latency::default()
        };
        let now = GetCountersResponse {
            timestamp_ns: 1_000_000_000,
            latencies: [vec![port], (1..=30).map(stream).collect()].concat(),
            ..GetCountersResponse::default()
        };
        let before = &GetCountersResponse::default();
        let pair = Pair { before, now: &now };
        let shown = pair.busiest();
        let ids: Vec<u32> = shown.iter().map(|it| it.id).collect();
        assert_eq!(ids, [0, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30]);
    }

    #[test]
    fn rates_and_means_are_of_the_interval() {
        let reading = |timestamp_ns, packets, sum_ns| GetCountersResponse {
            timestamp_ns,
            latencies: vec![Latency {
                of: Of::Port.into(),
                id: 1,
                packets,
                sum_ns,
                ..Latency::default()
            }],
            ..GetCountersResponse::default()
        };
        let (before, now) = (reading(0, 10, 1_000), reading(2_000_000_000, 30, 5_000));
        let pair = Pair {
            before: &before,
            now: &now,
        };
        assert_eq!(pair.recent(&now.latencies[0]), (Some(10.0), Some(200.0)));
        let again = Pair {
            before: &now,
            now: &before,
        };
        assert_eq!(
            again.recent(&before.latencies[0]),
            (None, None),
            "it was restarted"
        );
    }
}
