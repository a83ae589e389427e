//! Tables: keys, entries, lookups, default actions, direct counters.

mod action;
mod action_profile;
mod entry;
mod exact;
mod lpm;
mod range;
mod table;
mod ternary;

pub(crate) use action::Call;
pub(crate) use action_profile::check_supported;
pub(crate) use entry::{number, prefix_mask, to_call, to_key};
pub(crate) use table::{EntryIndex, Table};

use crate::{
    expression::Scope,
    program::{
        Program, TableId, TableInfo,
        ir::{KeySource, TableNode},
    },
    trace::{self, TraceValue},
    value::Int,
};

/// Every table of a program.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    tables: Vec<Table>,
    /// The key of the last lookup; kept so that a lookup does not allocate.
    key: Vec<Int>,
    key_bytes: Vec<u8>,
}

impl Tables {
    /// The tables with the entries and default actions that the program gives.
    pub(crate) fn new(program: &Program) -> Self {
        let tables = program
            .tables
            .iter()
            .zip(&program.ir.table_inits)
            .map(|(info, init)| Table::new(info, init))
            .collect();
        Self { tables, key: Vec::new(), key_bytes: Vec::new() }
    }

    pub(crate) fn table(&self, id: TableId) -> Option<&Table> {
        self.tables.get(id.index())
    }

    pub(crate) fn table_mut(&mut self, id: TableId) -> Option<&mut Table> {
        self.tables.get_mut(id.index())
    }

    /// The entry that the packet hits.
    pub(crate) fn lookup(
        &mut self,
        id: TableId,
        info: &TableInfo,
        node: &TableNode,
        scope: &Scope<'_>,
    ) -> Option<EntryIndex> {
        self.key.clear();
        self.key.extend(node.key.iter().map(|source| read(source, scope)));
        self.tables[id.index()].lookup(info, &self.key, &mut self.key_bytes)
    }

    /// The key of the last lookup, for traces.
    pub(crate) fn last_key(&self, info: &TableInfo) -> Vec<TraceValue> {
        let fields = info.key.iter().zip(&self.key);
        fields.map(|(field, value)| trace::named(&field.name, value, field.width_bits)).collect()
    }

    /// An entry as a person reads it.
    pub(crate) fn describe(&self, id: TableId, info: &TableInfo, entry: EntryIndex) -> String {
        self.tables[id.index()].describe(info, entry)
    }

    /// Counts the lookup and says what runs: the entry's action or the default one.
    pub(crate) fn account(
        &mut self,
        id: TableId,
        hit: Option<EntryIndex>,
        bytes: usize,
    ) -> Option<Call> {
        self.tables[id.index()].account(hit, bytes)
    }
}

fn read(source: &KeySource, scope: &Scope<'_>) -> Int {
    let value = scope.number(&source.value);
    match &source.mask {
        Some(mask) => value & mask,
        None => value,
    }
}
