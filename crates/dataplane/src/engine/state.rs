//! The state of a program: tables, externs, counters. The architecture owns it, control calls write it,
//! passes read and write it through the engine. It is the same for every engine.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::match_action::{EntryAccount, EntryAction, EntryIndex, EntryView};

use super::ir::{CalculationId, Int};
use crate::{
    ActionProfileId, CounterId, CounterValue, DropReason, MeterId, Nanos, Program, RegisterId,
    SwitchCounters, TableCounters, TableId, ValueSetId,
    externs::{Externs, departures::Departures, payload::PayloadExterns},
    match_action::{Call, Tables},
    model::PortSet,
    trace::{TraceKind, Tracer},
};

/// A program's state.
pub struct State {
    pub(crate) program: Program,
    pub(crate) tables: Tables,
    pub(crate) externs: Externs,
    /// The switch's, whatever the program.
    pub(crate) payloads: PayloadExterns,
    pub(crate) departures: Departures,
    pub(crate) counters: SwitchCounters,
    pub(crate) tracer: Tracer,
    /// Ports whose links are down. The switch's, whatever the program.
    pub(crate) links_down: PortSet,
    /// Ports that a control call has disabled. The switch's, whatever the program.
    pub(crate) ports_disabled: PortSet,
    /// The latest time that anyone has given.
    pub(crate) now: Nanos,
    identity: u64,
}

/// No two are the same.
fn next_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl State {
    /// Without a program.
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

    /// Replaces the program; tables and externs are as it declares them.
    pub(crate) fn set_program(&mut self, program: Program, random_seed: u64) {
        self.tables = Tables::new(&program, self.now);
        self.tables.set_ports_down(self.ports_down());
        self.externs = Externs::new(&program.ir, random_seed, self.now);
        self.payloads.bind(&program.ir.payload_externs);
        self.counters.tables = vec![TableCounters::default(); program.tables.len()];
        self.program = program;
        self.identity = next_identity();
    }

    /// Exchanges the program for another state's: tables, externs and what they count keep their places in memory, and
    /// the identity goes with them.
    pub(crate) fn exchange_program(&mut self, other: &mut Self) {
        mem::swap(&mut self.program, &mut other.program);
        mem::swap(&mut self.tables, &mut other.tables);
        mem::swap(&mut self.externs, &mut other.externs);
        mem::swap(&mut self.counters.tables, &mut other.counters.tables);
        mem::swap(&mut self.identity, &mut other.identity);
        self.payloads.bind(&self.program.ir.payload_externs);
    }

    /// Ports that whoever watches them takes for down.
    pub(crate) fn ports_down(&self) -> PortSet {
        self.links_down.union(self.ports_disabled)
    }

    /// Time never goes back, whatever is given.
    pub(crate) fn advance(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }

    /// Counts a drop of the packet that is being traced.
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.counters.count_drop(reason);
        self.tracer.emit(|| TraceKind::Drop(reason));
    }

    /// The number of this state and its program: another state has another one, and so has this when
    /// its program is replaced. An engine that keeps addresses of what is here looks whether it is the
    /// state that it was loaded for.
    #[inline]
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The time of the pass.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Hits and misses, a table each; one place in memory as long as the program is loaded.
    pub fn table_counters(&mut self) -> &mut [TableCounters] {
        &mut self.counters.tables
    }
}

/// Tables.
impl State {
    /// Every entry of a table; of those with one priority the older first, which wins.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = (EntryIndex, EntryView<'_>)> {
        let table = self.tables.table(table);
        table.into_iter().flat_map(|table| {
            let order = table.in_order().into_iter();
            order.filter_map(|entry| Some((entry, table.view(entry)?)))
        })
    }

    /// An entry.
    pub fn entry(&self, table: TableId, entry: EntryIndex) -> Option<EntryView<'_>> {
        self.tables.table(table)?.view(entry)
    }

    /// The entry that a key hits: one value a key field, as its bits.
    pub fn look_up(&self, table: TableId, key: &[Int]) -> Option<EntryIndex> {
        let info = self.program.tables.get(table.index())?;
        let mut bytes = Vec::new();
        self.tables.table(table)?.lookup(info, key, &mut bytes)
    }

    /// What a miss runs.
    pub fn default_action(&self, table: TableId) -> Option<&EntryAction> {
        self.tables.table(table)?.default_action()
    }

    /// What an entry's action, or a default action, comes down to where the table has an action
    /// profile. `hash` is the selector's over the packet, asked for where there is a choice; none
    /// is a choice among nothing.
    pub fn resolve(
        &self,
        profile: ActionProfileId,
        action: &EntryAction,
        hash: impl FnOnce() -> u64,
    ) -> Option<Call> {
        self.tables.profile(profile)?.resolve(action, hash)
    }

    /// What packets have left at a table's entries, by [`EntryIndex::index`]. It moves when the
    /// table is changed, and then only.
    pub fn accounts(&mut self, table: TableId) -> &mut [EntryAccount] {
        let table = self.tables.table_mut(table, None);
        table.map_or(&mut [], |(table, _)| &mut table.accounts)
    }

    /// Counts a hit at its entry: the direct counter, the time, and that the entry is not idle.
    pub fn count_hit(&mut self, table: TableId, entry: EntryIndex, ingress_bytes: usize) {
        let now = self.now;
        if let Some((table, _)) = self.tables.table_mut(table, None) {
            table.count_hits(entry, CounterValue::packet(ingress_bytes), now);
        }
    }

    /// The colour that an entry's meter gives to a packet; green where the table has none.
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

/// Externs.
impl State {
    /// The cells of a register of up to 64 bits; one place in memory as long as the program is
    /// loaded. None where the register is wider.
    pub fn register_words(&mut self, register: RegisterId) -> Option<&mut [u64]> {
        self.externs.registers.words_mut(register)
    }

    /// A cell of any register; none beyond the end.
    pub fn register(&self, register: RegisterId, index: usize) -> Option<Int> {
        self.externs.registers.get(register, index)
    }

    /// Writes a cell of any register, cut to its width; beyond the end nothing.
    pub fn set_register(&mut self, register: RegisterId, index: usize, value: Int) {
        self.externs.registers.set(register, index, value);
    }

    /// The cells of a counter; one place in memory as long as the program is loaded.
    pub fn counter_cells(&mut self, counter: CounterId) -> &mut [CounterValue] {
        self.externs.counters.cells_mut(counter)
    }

    /// The colour that a meter gives to a packet; none beyond the end.
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

    /// A random number of `low..=high`; none where that is empty.
    pub fn random(&mut self, low: u64, high: u64) -> Option<u64> {
        self.externs.random.between(low, high)
    }

    /// The result of a calculation over bytes that the engine has put together, with the
    /// parameters of a custom CRC as they are now.
    pub fn calculate(&mut self, calculation: CalculationId, bytes: &[u8]) -> u64 {
        self.externs.calculate(&self.program.ir, calculation, bytes)
    }

    /// The selector's hash of an action profile over bytes; 0 where it has no selector.
    pub fn select(&mut self, profile: ActionProfileId, bytes: &[u8]) -> u64 {
        let random = &mut self.externs.random;
        let selector = self.program.ir.selector(profile);
        selector.map_or(0, |it| it.algorithm.compute(bytes, random))
    }

    /// The members of a parser value set: value and the bits of it that count.
    pub fn value_set(&self, set: ValueSetId) -> impl Iterator<Item = (&Int, &Int)> {
        let members = self.externs.value_sets.members(set).iter();
        members.map(|member| (&member.value, &member.mask))
    }
}
