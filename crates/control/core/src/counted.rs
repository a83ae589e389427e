//! All counters of a switch: of one worker, or summed over all workers.

use dataplane::{GeneratorStatus, Latencies, Nanos, SwitchCounters, TableCounters};

use crate::switch_handle::{PortStatus, SwitchContext};

/// All counters at one moment.
#[derive(Debug, Clone)]
pub struct Counted {
    /// The time on the event loop's clock when the counters were read. With several workers, this is the latest of
    /// their times.
    pub now: Nanos,
    /// Number of workers in the sum.
    pub n_workers: usize,
    /// The switch's counters of packets, drops and ports.
    pub counters: SwitchCounters,
    /// Packets that wait in a queue of the engine or of the offload.
    pub inside: u64,
    /// The program's tables, without those that the compiler generates.
    pub tables: Vec<TableCounted>,
    /// The state and the losses of each port.
    pub ports: Vec<PortStatus>,
    /// The packet generators of all workers.
    pub generators: Vec<GeneratorStatus>,
    /// Time that transmitted frames spent in the switch.
    pub latencies: Latencies,
}

/// Lookups and entries of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableCounted {
    /// Fully qualified name.
    pub name: String,
    /// Hits and misses.
    pub lookups: TableCounters,
    /// Current number of entries; equal in all workers.
    pub entries: usize,
    /// Maximum number of entries.
    pub size: usize,
}

impl Counted {
    /// Reads one worker's counters on its own thread, including the offload's counts.
    pub fn of(context: &mut SwitchContext<'_>) -> Self {
        context.switch.collect();
        let switch = &*context.switch;
        let counters = switch.counters().clone();
        let tables = switch
            .program()
            .into_iter()
            .flat_map(|program| program.tables())
            .filter(|(_, info)| !info.is_generated());
        let tables = tables.map(|(id, info)| TableCounted {
            name: info.name.clone(),
            lookups: counters.table(id),
            entries: switch.entry_count(id),
            size: info.size,
        });
        Self {
            now: context.now,
            n_workers: 1,
            inside: switch.packets_inside(),
            tables: tables.collect(),
            ports: context.ports.to_vec(),
            generators: switch.generators(),
            latencies: switch.latencies(),
            counters,
        }
    }

    /// Sums the counters of all workers; `None` for an empty list.
    pub fn sum(all: Vec<Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let first = all.next()?;
        Some(all.fold(first, Self::plus))
    }

    fn plus(mut self, other: Self) -> Self {
        self.now = self.now.max(other.now);
        self.n_workers += other.n_workers;
        self.counters.add(&other.counters);
        self.inside += other.inside;
        for (ours, theirs) in self.tables.iter_mut().zip(&other.tables) {
            ours.lookups.hits += theirs.lookups.hits;
            ours.lookups.misses += theirs.lookups.misses;
        }
        for (ours, theirs) in self.ports.iter_mut().zip(&other.ports) {
            ours.add(theirs);
        }
        self.generators.extend(other.generators);
        self.latencies.add(&other.latencies);
        self
    }
}
