//! The state of a program: tables, externs, counters. The switch owns the state; control calls write it; the engine
//! reads and writes it in passes. Every engine has the same kind of state.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::match_action::{EntryAccount, EntryAction, EntryIndex, EntryView};

use super::ir::{CalculationId, Int};
use crate::{
    ActionProfileId, CounterId, CounterValue, DropReason, MeterConfig, MeterId, Nanos, Program,
    RegisterId, SwitchCounters, TableCounters, TableId, ValueSetId,
    externs::{Externs, departures::Departures, payload::PayloadExterns},
    match_action::{Call, Tables},
    model::PortSet,
    trace::{TraceKind, Tracer},
};

/// Tables, externs and counters of the loaded program, and what the switch keeps across programs.
pub struct State {
    pub(crate) program: Program,
    pub(crate) tables: Tables,
    pub(crate) externs: Externs,
    /// The registered payload externs; kept across programs.
    pub(crate) payloads: PayloadExterns,
    pub(crate) departures: Departures,
    pub(crate) counters: SwitchCounters,
    pub(crate) tracer: Tracer,
    /// Ports whose links are down; kept across programs.
    pub(crate) links_down: PortSet,
    /// Ports that a control call has disabled; kept across programs.
    pub(crate) ports_disabled: PortSet,
    /// The latest time that a caller gave.
    pub(crate) now: Nanos,
    identity: u64,
}

fn next_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl State {
    pub(crate) fn new(random_seed: u64) -> Self {
        let program = Program::empty();
        Self {
            tables: Tables::default(),
            externs: Externs::new(&program.ir, random_seed, 0),
            program,
            payloads: PayloadExterns::default(),
            departures: Departures::default(),
            counters: SwitchCounters::default(),
            tracer: Tracer::default(),
            links_down: PortSet::default(),
            ports_disabled: PortSet::default(),
            now: 0,
            identity: next_identity(),
        }
    }

    /// Replaces the program and resets tables and externs to their declarations.
    pub(crate) fn set_program(&mut self, program: Program, random_seed: u64) {
        self.tables = Tables::new(&program, self.now);
        self.tables.set_ports_down(self.ports_down());
        self.externs = Externs::new(&program.ir, random_seed, self.now);
        self.payloads.bind(&program.ir.payload_externs);
        self.counters.tables = vec![TableCounters::default(); program.tables.len()];
        self.program = program;
        self.identity = next_identity();
    }

    /// Swaps the program with another state's. Tables, externs and their counters keep their addresses, and go to the
    /// other state together with [`State::identity`].
    pub(crate) fn exchange_program(&mut self, other: &mut Self) {
        mem::swap(&mut self.program, &mut other.program);
        mem::swap(&mut self.tables, &mut other.tables);
        mem::swap(&mut self.externs, &mut other.externs);
        mem::swap(&mut self.counters.tables, &mut other.counters.tables);
        mem::swap(&mut self.identity, &mut other.identity);
        self.payloads.bind(&self.program.ir.payload_externs);
    }

    /// Returns the ports that count as down for everything that watches a port: action selector members and multicast
    /// backups.
    pub(crate) fn ports_down(&self) -> PortSet {
        self.links_down.union(self.ports_disabled)
    }

    /// Advances the clock; ignores a time before the current time.
    pub(crate) fn advance(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.counters.count_drop(reason);
        self.tracer.emit(|| TraceKind::Drop(reason));
    }

    /// Identifies this state and its program; changes when the program is replaced. An engine that keeps addresses
    /// compares it with the identity it was loaded for.
    #[inline]
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// The loaded program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The time of the current pass.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the hits and misses of each table. The slice keeps its address while the program is loaded.
    pub fn table_counters(&mut self) -> &mut [TableCounters] {
        &mut self.counters.tables
    }
}

impl State {
    /// Returns every entry of a table. Among entries of equal priority, the older comes first; it also wins a lookup.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = (EntryIndex, EntryView<'_>)> {
        let table = self.tables.table(table);
        table.into_iter().flat_map(|table| {
            let order = table.in_order().into_iter();
            order.filter_map(|entry| Some((entry, table.view(entry)?)))
        })
    }

    /// One entry, or `None` if the index is free.
    pub fn entry(&self, table: TableId, entry: EntryIndex) -> Option<EntryView<'_>> {
        self.tables.table(table)?.view(entry)
    }

    /// Returns the entry that a key hits. `key` has one value per key field, as its bit pattern. `None` is a miss.
    pub fn look_up(&self, table: TableId, key: &[Int]) -> Option<EntryIndex> {
        let info = self.program.tables.get(table.index())?;
        let mut bytes = Vec::new();
        self.tables.table(table)?.lookup(info, key, &mut bytes)
    }

    /// The action that a miss runs.
    pub fn default_action(&self, table: TableId) -> Option<&EntryAction> {
        self.tables.table(table)?.default_action()
    }

    /// Resolves an entry's action or a default action, in a table with an action profile, to the call that runs. `hash`
    /// computes the selector's hash and is called only for a group. Returns `None` if there is no member to choose.
    pub fn resolve(
        &self,
        profile: ActionProfileId,
        action: &EntryAction,
        hash: impl FnOnce() -> u64,
    ) -> Option<Call> {
        self.tables.profile(profile)?.resolve(action, hash)
    }

    /// Returns the counters and times of a table's entries, indexed by [`EntryIndex::index`]. The slice's address
    /// changes only when the table is changed.
    pub fn accounts(&mut self, table: TableId) -> &mut [EntryAccount] {
        let table = self.tables.table_mut(table, None);
        table.map_or(&mut [], |(table, _)| &mut table.accounts)
    }

    /// Counts a hit of an entry: updates the direct counter and the time of the last hit.
    pub fn count_hit(&mut self, table: TableId, entry: EntryIndex, ingress_bytes: usize) {
        let now = self.now;
        if let Some((table, _)) = self.tables.table_mut(table, None) {
            table.count_hits(entry, CounterValue::packet(ingress_bytes), now);
        }
    }

    /// Runs an entry's direct meter and returns the colour; green (0) if the table has no meter.
    pub fn execute_direct_meter(
        &mut self,
        table: TableId,
        entry: EntryIndex,
        ingress_bytes: usize,
    ) -> u8 {
        let Some(meter) = self.program.ir.direct_meter(table) else {
            return 0;
        };
        let micros = self.externs.meters.micros(self.now);
        let table = &mut self.tables.tables[table.index()];
        table.color(entry, meter.kind, micros, ingress_bytes)
    }
}

impl State {
    /// Returns the cells of a register; `None` if the cells are wider than 64 bits. The slice keeps its address while
    /// the program is loaded.
    pub fn register_words(&mut self, register: RegisterId) -> Option<&mut [u64]> {
        self.externs.registers.words_mut(register)
    }

    /// Reads a cell of a register of any width; returns `None` if the index is beyond the end of the register.
    pub fn register(&self, register: RegisterId, index: usize) -> Option<Int> {
        self.externs.registers.get(register, index)
    }

    /// Writes a value to a cell of a register of any width, truncated to the cell's width. Does nothing if the index is
    /// beyond the end.
    pub fn set_register(&mut self, register: RegisterId, index: usize, value: Int) {
        self.externs.registers.set(register, index, value);
    }

    /// Returns the cells of a counter. The slice keeps its address while the program is loaded.
    pub fn counter_cells(&mut self, counter: CounterId) -> &mut [CounterValue] {
        self.externs.counters.cells_mut(counter)
    }

    /// Runs a meter and returns the colour; `None` if the index is beyond the end of the meter array.
    pub fn execute_meter(
        &mut self,
        meter: MeterId,
        index: usize,
        ingress_bytes: usize,
    ) -> Option<u8> {
        let now = self.now;
        let meters = &mut self.externs.meters;
        meters.execute(meter, index, now, ingress_bytes)
    }

    /// The rates of a meter cell; `None` if the meter has no rates, so that it colours every packet green.
    pub fn meter_config(&self, meter: MeterId, index: usize) -> Option<MeterConfig> {
        self.externs.meters.get(meter, index)?.config()
    }

    /// The rates of an entry's direct meter; `None` if the meter has no rates, so that it colours every packet green.
    pub fn direct_meter_config(&self, table: TableId, entry: EntryIndex) -> Option<MeterConfig> {
        self.tables.table(table)?.meter(entry)
    }

    /// A random number in `low..=high`; `None` if that range is empty.
    pub fn random(&mut self, low: u64, high: u64) -> Option<u64> {
        self.externs.random.between(low, high)
    }

    /// Computes a calculation over bytes that the engine has assembled. A custom CRC uses its current parameters.
    pub fn calculate(&mut self, calculation: CalculationId, bytes: &[u8]) -> u64 {
        self.externs.calculate(&self.program.ir, calculation, bytes)
    }

    /// Computes the hash of an action selector over bytes; 0 if the profile has no selector.
    pub fn select(&mut self, profile: ActionProfileId, bytes: &[u8]) -> u64 {
        let random = &mut self.externs.random;
        let selector = self.program.ir.selector(profile);
        selector.map_or(0, |it| it.algorithm.compute(bytes, random))
    }

    /// The members of a parser value set, as value and mask.
    pub fn value_set(&self, set: ValueSetId) -> impl Iterator<Item = (&Int, &Int)> {
        let members = self.externs.value_sets.members(set).iter();
        members.map(|member| (&member.value, &member.mask))
    }
}
