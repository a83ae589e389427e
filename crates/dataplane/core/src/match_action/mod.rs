//! Tables: keys, entries, lookups, default actions, direct counters and meters, action profiles.

mod action;
mod action_profile;
mod entry;
mod lpm;
mod table;
mod ternary;

pub use action::Call;
pub use action_profile::EntryAction;
pub(crate) use action_profile::{Choices, Profile};
pub use entry::{EntryAccount, EntryIndex, EntryView};
pub(crate) use entry::{number, to_call, to_key};
pub(crate) use table::{Slot, SlotSnapshot, Table, TableView, no_entry};

use crate::{
    ActionProfileId, Nanos, TableId,
    model::PortSet,
    program::{Program, TableInfo, ir::Matcher},
    trace::{self, TraceValue},
    value::{self, Int},
};

/// A saved table entry, or the fact that the entry did not exist.
#[derive(Debug, Clone)]
pub struct EntrySnapshot {
    pub(crate) table: TableId,
    pub(crate) key: Vec<Matcher>,
    pub(crate) priority: i32,
    pub(crate) was: Option<SlotSnapshot>,
}

/// Saved members and groups of an action profile.
#[derive(Debug, Clone)]
pub struct ProfileSnapshot(pub(crate) ActionProfileId, pub(crate) Profile);

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub tables: Vec<Table>,
    pub profiles: Vec<Profile>,
    /// The key of the last lookup; kept to avoid allocations and for traces.
    key: Vec<Int>,
    key_bytes: Vec<u8>,
}

impl Tables {
    pub(crate) fn new(program: &Program, now: Nanos) -> Self {
        let tables = program.tables.iter().zip(&program.ir.table_inits);
        let tables = tables.map(|(info, init)| Table::new(info, init, now));
        let profiles = program.ir.action_profiles.iter();
        let profiles = profiles.map(|profile| Profile::new(&profile.name, profile.max_size));
        Self {
            tables: tables.collect(),
            profiles: profiles.collect(),
            key: Vec::new(),
            key_bytes: Vec::new(),
        }
    }

    pub(crate) fn table(&self, id: TableId) -> Option<&Table> {
        self.tables.get(id.index())
    }

    pub(crate) fn table_mut(
        &mut self,
        id: TableId,
        profile: Option<ActionProfileId>,
    ) -> Option<(&mut Table, Option<&mut Profile>)> {
        let table = self.tables.get_mut(id.index())?;
        let profile = profile.and_then(|profile| self.profiles.get_mut(profile.index()));
        Some((table, profile))
    }

    /// Returns the next time at which an entry may be idle; `None` if no entry can become idle.
    pub(crate) fn next_idle(&self) -> Option<Nanos> {
        self.tables.iter().filter_map(Table::next_idle).min()
    }

    pub(crate) fn profile(&self, id: ActionProfileId) -> Option<&Profile> {
        self.profiles.get(id.index())
    }

    pub(crate) fn set_ports_down(&mut self, down: PortSet) {
        for profile in &mut self.profiles {
            profile.down = down;
        }
    }

    /// Looks up a key: one value per key field, truncated to the field's width.
    pub(crate) fn lookup(
        &mut self,
        id: TableId,
        info: &TableInfo,
        key: impl Iterator<Item = Int>,
    ) -> Option<EntryIndex> {
        self.key.clear();
        let fields = info.key.iter().zip(key);
        self.key
            .extend(fields.map(|(field, value)| value::wrap(value, field.width_bits, false)));
        self.tables[id.index()].lookup(info, &self.key, &mut self.key_bytes)
    }

    pub(crate) fn last_key(&self, info: &TableInfo) -> Vec<TraceValue> {
        let fields = info.key.iter().zip(&self.key);
        fields
            .map(|(field, value)| trace::named(&field.name, value, field.width_bits))
            .collect()
    }

    /// Returns the action that runs, with its arguments: the action of the entry that was hit or, after a miss, the
    /// default action. `hash` computes the selector's hash and is called only for a group.
    pub(crate) fn call(
        &self,
        id: TableId,
        profile: Option<ActionProfileId>,
        hit: Option<EntryIndex>,
        hash: impl FnOnce() -> u64,
    ) -> Option<Call> {
        let table = &self.tables[id.index()];
        let action = match hit {
            Some(entry) => table.action(entry)?,
            None => table.default_action()?,
        };
        match (action, profile) {
            (EntryAction::Call(call), _) => Some(call.clone()),
            (action, Some(profile)) => self.profiles[profile.index()].resolve(action, hash),
            (_, None) => None,
        }
    }
}
