//! The totals at the end: everything that the switch and its ports have counted.

use std::fmt;

use dataplane::{GeneratorStatus, Nanos, PortCounters, PortId, Switch};
use packet_io::PortStatistics;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    time_ns: Nanos,
    packets: Vec<(&'static str, u64)>,
    ports: Vec<PortTotals>,
    cpu_port: Option<(PortId, PortCounters)>,
    drops: Vec<(&'static str, u64)>,
    tables: Vec<TableTotals>,
    generators: Vec<GeneratorStatus>,
}

#[derive(Debug, Clone)]
pub(crate) struct PortTotals {
    pub(crate) id: PortId,
    pub(crate) name: String,
    pub(crate) statistics: PortStatistics,
    /// How often the port's interface went down.
    pub(crate) link_down_events: u64,
    /// How often the port's interface was removed.
    pub(crate) lost_events: u64,
}

#[derive(Debug, Clone)]
struct TableTotals {
    name: String,
    hits: u64,
    misses: u64,
    entries: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The ports, and the drop reasons that occurred.
    Short,
    /// Every counter.
    Full,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Totals) {
        if self.packets.is_empty() {
            *self = other;
            return;
        }
        self.time_ns = self.time_ns.max(other.time_ns);
        let counts = self.packets.iter_mut().chain(&mut self.drops);
        let theirs = other.packets.iter().chain(&other.drops);
        for ((_, ours), (_, theirs)) in counts.zip(theirs) {
            *ours += theirs;
        }
        for (ours, theirs) in self.ports.iter_mut().zip(&other.ports) {
            ours.statistics.add(&theirs.statistics);
        }
        if let (Some((_, ours)), Some((_, theirs))) = (&mut self.cpu_port, &other.cpu_port) {
            ours.rx_packets += theirs.rx_packets;
            ours.rx_bytes += theirs.rx_bytes;
            ours.tx_packets += theirs.tx_packets;
            ours.tx_bytes += theirs.tx_bytes;
        }
        for (ours, theirs) in self.tables.iter_mut().zip(&other.tables) {
            ours.hits += theirs.hits;
            ours.misses += theirs.misses;
        }
        self.generators.extend(other.generators);
    }

    pub(crate) fn new(
        switch: &Switch,
        time_ns: Nanos,
        ports: Vec<PortTotals>,
        packet_ins_unclaimed: u64,
    ) -> Totals {
        let counters = switch.counters();
        let tables = switch
            .program()
            .into_iter()
            .flat_map(|program| program.tables())
            .filter(|(_, table)| !table.is_generated());
        let tables = tables.map(|(id, table)| {
            let counted = counters.table(id);
            TableTotals {
                name: table.name.clone(),
                hits: counted.hits,
                misses: counted.misses,
                entries: switch.entry_count(id),
            }
        });
        Totals {
            time_ns,
            packets: vec![
                ("received", counters.received),
                ("generated", counters.generated),
                ("cloned", counters.created_by_clone),
                ("replicated", counters.created_by_replication),
                ("transmitted", counters.transmitted),
                ("to_cpu", counters.to_cpu),
                ("dropped", counters.dropped_total()),
                ("inside", switch.packets_inside()),
                ("packet_ins_unclaimed", packet_ins_unclaimed),
                ("digests_lost", counters.digests_lost),
            ],
            ports,
            cpu_port: switch
                .config()
                .cpu_port
                .map(|port| (port, counters.port(port))),
            drops: counters
                .drops()
                .map(|(reason, count)| (reason.name(), count))
                .collect(),
            tables: tables.collect(),
            generators: switch.generators(),
        }
    }

    /// Returns the totals as one line of JSON, without a line end.
    pub(crate) fn to_json(&self) -> String {
        let object = |counts: &[(&'static str, u64)]| -> Value {
            let members = counts
                .iter()
                .map(|(name, count)| ((*name).to_owned(), json!(count)));
            members.collect::<Map<_, _>>().into()
        };
        let ports: Vec<Value> = self.ports.iter().map(PortTotals::to_json).collect();
        let table = |table: &TableTotals| {
            json!({
                "table": table.name,
                "hits": table.hits,
                "misses": table.misses,
                "entries": table.entries,
            })
        };
        json!({
            "time_ns": self.time_ns,
            "packets": object(&self.packets),
            "ports": ports,
            "drops": object(&self.drops),
            "tables": self.tables.iter().map(table).collect::<Vec<_>>(),
            "generators": self.generators.iter().map(generator).collect::<Vec<_>>(),
        })
        .to_string()
    }

    pub(crate) fn to_text(&self, detail: Detail) -> String {
        Text {
            totals: self,
            detail,
        }
        .to_string()
    }
}

fn generator(status: &GeneratorStatus) -> Value {
    let counters = status.counters;
    json!({
        "generator": status.id,
        "name": status.config.name,
        "port": status.config.port.0,
        "state": status.state.name(),
        "sent": counters.sent,
        "dropped": counters.dropped,
        "late": counters.late,
        "late_max_ns": counters.late_max_ns,
    })
}

impl PortTotals {
    fn to_json(&self) -> Value {
        let PortStatistics {
            rx_frames,
            rx_bytes,
            tx_frames,
            tx_bytes,
            ..
        } = self.statistics;
        let mut port = json!({
            "port": self.id.0,
            "name": self.name,
            "rx_frames": rx_frames,
            "rx_bytes": rx_bytes,
            "tx_frames": tx_frames,
            "tx_bytes": tx_bytes,
            "link_down_events": self.link_down_events,
            "lost_events": self.lost_events,
        });
        for (reason, count) in self.statistics.drops() {
            port[reason] = json!(count);
        }
        port
    }
}

struct Text<'a> {
    totals: &'a Totals,
    detail: Detail,
}

impl Text<'_> {
    fn is_shown(&self, count: u64) -> bool {
        count > 0 || self.detail == Detail::Full
    }

    fn ports(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals {
            ports, cpu_port, ..
        } = self.totals;
        let title = |port: &PortTotals| format!("{}@{}", port.id, port.name);
        let width = ports
            .iter()
            .map(|port| title(port).chars().count())
            .max()
            .unwrap_or(0)
            .max(8);
        let heads = ["rx frames", "rx bytes", "tx frames", "tx bytes"];
        write!(f, "{:width$}", "port")?;
        for head in heads {
            write!(f, " {head:>14}")?;
        }
        writeln!(f)?;
        for port in ports {
            let counted = &port.statistics;
            write!(f, "{:width$}", title(port))?;
            for count in [
                counted.rx_frames,
                counted.rx_bytes,
                counted.tx_frames,
                counted.tx_bytes,
            ] {
                write!(f, " {count:>14}")?;
            }
            writeln!(f)?;
        }
        if let Some((id, counted)) = cpu_port
            && self.is_shown(counted.rx_packets + counted.tx_packets)
        {
            write!(f, "{:width$}", format!("{id} (CPU)"))?;
            let counts = [
                counted.rx_packets,
                counted.rx_bytes,
                counted.tx_packets,
                counted.tx_bytes,
            ];
            for count in counts {
                write!(f, " {count:>14}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn list(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        counts: &[(&'static str, u64)],
    ) -> fmt::Result {
        let shown: Vec<_> = counts
            .iter()
            .filter(|(_, count)| self.is_shown(*count))
            .collect();
        if shown.is_empty() {
            return Ok(());
        }
        writeln!(f, "{title}:")?;
        for (name, count) in shown {
            writeln!(f, "  {name:<26} {count:>12}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = self.totals;
        let seconds = totals.time_ns as f64 / 1e9;
        writeln!(f, "totals after {seconds:.3} s")?;
        self.ports(f)?;
        self.list(f, "packets", &totals.packets)?;
        for status in &totals.generators {
            let GeneratorStatus {
                id, config, state, ..
            } = status;
            let title = format!("generator {id} {} ({})", config.name, state.name());
            let counters = status.counters;
            let counts = [
                ("sent", counters.sent),
                ("dropped", counters.dropped),
                ("late", counters.late),
                ("late_max_ns", counters.late_max_ns),
            ];
            self.list(f, &title, &counts)?;
        }
        self.list(f, "dropped by the switch", &totals.drops)?;
        for port in &totals.ports {
            let title = format!("dropped at port {}@{}", port.id, port.name);
            self.list(f, &title, &port.statistics.drops())?;
            let title = format!("link of port {}@{}", port.id, port.name);
            let events = [
                ("link_down_events", port.link_down_events),
                ("lost_events", port.lost_events),
            ];
            self.list(f, &title, &events)?;
        }
        if self.detail == Detail::Full && !totals.tables.is_empty() {
            let width = totals
                .tables
                .iter()
                .map(|table| table.name.chars().count())
                .max();
            let width = width.unwrap_or(0).max(8);
            writeln!(
                f,
                "{:width$} {:>12} {:>12} {:>9}",
                "table", "hits", "misses", "entries"
            )?;
            for table in &totals.tables {
                let TableTotals {
                    name,
                    hits,
                    misses,
                    entries,
                } = table;
                let name = printable::line(name);
                writeln!(f, "{name:width$} {hits:>12} {misses:>12} {entries:>9}")?;
            }
        }
        Ok(())
    }
}
