//! Everything that is counted, of one worker or of all: it adds up.

use dataplane::{GeneratorStatus, Latencies, Nanos, SwitchCounters, TableCounters};

use crate::switch_handle::{PortStatus, SwitchContext};

/// Everything counted, at one moment.
#[derive(Debug, Clone)]
pub struct Counted {
    /// The loop's clock; the latest where there are several.
    pub now: Nanos,
    /// Workers that it is the sum of.
    pub n_workers: usize,
    /// What the switch counts.
    pub counters: SwitchCounters,
    /// Packets in a queue.
    pub inside: u64,
    /// Every table that is not a compiler's.
    pub tables: Vec<TableCounted>,
    /// The ports, and what was lost there.
    pub ports: Vec<PortStatus>,
    /// The packet generators.
    pub generators: Vec<GeneratorStatus>,
    /// How long frames that left were inside.
    pub latencies: Latencies,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableCounted {
    /// Fully qualified name.
    pub name: String,
    /// Its lookups.
    pub lookups: TableCounters,
    /// Its entries; the same in all workers.
    pub entries: usize,
    /// Its entries at most.
    pub size: usize,
}

impl Counted {
    /// One worker's, on its own thread; with what an offload has counted until then.
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

    /// All workers' together; none of none.
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
