//! Tables as generated code reads them: one record per table, which leads to its index, to its
//! entries as words, and to the entries' counters.
//!
//! An entry's words are a head (which of the table's actions runs, and whether the entry is a hit)
//! and the action's arguments. All entries of a table have the same number of words, so an entry's
//! number gives its place.
#![expect(
    unsafe_code,
    reason = "the records are pointers, which go with the engine from thread to thread"
)]

use std::{ffi::c_void, ops::Range};

use dataplane::{
    ActionId, ActionInfo, ActionProfileId, Program, TableId, TableInfo,
    engine::{EntryAccount, EntryAction, EntryIndex, State, TableChange, ir::Int},
};

use crate::{
    lookup::{self, TableIndex},
    vector,
};

/// Offset of an entry's action number, which is its position in the table's list of actions: 32 bits.
pub(crate) const ENTRY_ACTION: u32 = 0;
/// Offset of an entry's hit flag: 32 bits, 0 or 1.
pub(crate) const ENTRY_HIT: u32 = 4;
/// Offset of an entry's arguments.
const ENTRY_ARGS: u32 = 8;
/// The action number of an entry that runs no action.
const NO_ACTION: u32 = u32::MAX;
/// The action number of an entry whose action must first be found through its action profile.
pub(crate) const RESOLVE: u32 = u32::MAX - 1;

/// The words of a parameter in an entry, counted from the entry's beginning. `None` if the action
/// has no such parameter.
pub(crate) fn param_slot(action: &ActionInfo, index: usize) -> Option<Range<u32>> {
    let words = |bits: u32| bits.div_ceil(64).max(1);
    let width = action.params.get(index)?.width_bits;
    let before: u32 = action.params[..index]
        .iter()
        .map(|param| words(param.width_bits))
        .sum();
    let start = ENTRY_ARGS / 8 + before;
    Some(start..start + words(width))
}

pub(crate) fn entry_words(program: &Program, table: TableId) -> u32 {
    let of_action = |action: ActionId| {
        let info = program.action_info(action)?;
        let last = info.params.len().checked_sub(1)?;
        param_slot(info, last).map(|slot| slot.end)
    };
    let actions = runnable(program, table).into_iter();
    actions.filter_map(of_action).max().unwrap_or(1)
}

/// The actions that a table may run, its own first. If several tables share an action profile, a
/// member may run any action of these tables.
pub(crate) fn runnable(program: &Program, table: TableId) -> Vec<ActionId> {
    let Some(info) = program.table_info(table) else {
        return Vec::new();
    };
    let mut actions = info.actions.clone();
    if info.action_profile.is_some() {
        let sharing = program.tables().map(|(_, other)| other);
        let sharing = sharing.filter(|other| other.action_profile == info.action_profile);
        for action in sharing.flat_map(|other| &other.actions) {
            if !actions.contains(action) {
                actions.push(*action);
            }
        }
    }
    actions
}

/// The position of an action in a table's list. If several tables share an action profile, a member
/// may have another table's copy of the action, which has the same name.
pub(crate) fn position_of(program: &Program, info: &TableInfo, action: ActionId) -> Option<usize> {
    let name = |action| program.action_info(action).map(|info| &info.name);
    let position = info.actions.iter().position(|other| *other == action);
    position.or_else(|| {
        let mut names = info.actions.iter().map(|other| name(*other));
        names.position(|other| other == name(action))
    })
}

/// The part of a table that generated code reads: one cache line.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableRecord {
    /// The first argument of the lookup function.
    pub target: *const c_void,
    /// The words of the entries, by [`EntryIndex::index`].
    pub entries: *const u64,
    /// The counters and last hits of the entries.
    pub accounts: *mut EntryAccount,
    /// The words of the default action, which a miss runs.
    pub default: *const u64,
    pub n_entries: u64,
}

#[derive(Debug)]
struct NativeTable {
    id: TableId,
    profile: Option<ActionProfileId>,
    /// The actions that the table may run. The head of an entry has a position in this list.
    actions: Vec<ActionId>,
    stride: usize,
    entries: Vec<u64>,
    n_entries: u64,
    default: Box<[u64]>,
    index: TableIndex,
}

#[derive(Debug)]
pub(crate) struct NativeTables {
    tables: Box<[NativeTable]>,
    records: Box<[TableRecord]>,
    /// The words of an entry or default action that must be resolved again for every packet.
    resolved: Box<[u64]>,
}

// SAFETY: the pointers lead to memory of the tables themselves and of the state, which both move
// with the engine from thread to thread; nobody uses the pointers outside of a pass.
unsafe impl Send for NativeTables {}

fn head(action: u32, hit: bool) -> u64 {
    // The head has the form of the two 32-bit numbers that generated code reads.
    let [a, b, c, d] = action.to_ne_bytes();
    let [e, f, g, h] = u32::from(hit).to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// An entry's number in the index. A table has far fewer than 2^32 entries: so many entries would need
/// hundreds of GiB.
fn index_number(entry: EntryIndex) -> u32 {
    u32::try_from(entry.index()).expect("a table has fewer than 2^32 entries")
}

/// The entry whose number a lookup returned, or `None` on a miss.
pub(crate) fn entry_of(number: u32) -> Option<EntryIndex> {
    (number != lookup::MISS).then(|| EntryIndex::at(number as usize))
}

/// The number of an entry in a lookup's result, or [`lookup::MISS`] for no entry.
pub(crate) fn number_of(entry: Option<EntryIndex>) -> u32 {
    entry.map_or(lookup::MISS, index_number)
}

impl NativeTable {
    fn new(program: &Program, id: TableId, info: &TableInfo) -> Self {
        let stride = entry_words(program, id) as usize;
        Self {
            id,
            profile: program.ir().table_nodes[id.index()].profile,
            actions: runnable(program, id),
            stride,
            entries: Vec::new(),
            n_entries: 0,
            default: vec![0; stride].into(),
            index: TableIndex::new(info),
        }
    }

    /// Writes an action and its arguments to an entry's words. With `None`, the entry runs no action.
    fn write(
        actions: &[ActionId],
        program: &Program,
        words: &mut [u64],
        call: Option<(ActionId, &[Int])>,
        hit: bool,
    ) {
        words.fill(0);
        let Some((action, args)) = call else {
            words[0] = head(NO_ACTION, hit);
            return;
        };
        let position = actions.iter().position(|other| *other == action);
        let position = position.expect("an entry runs one of its table's actions");
        let position = u32::try_from(position).expect("a program has fewer than 2^32 actions");
        words[0] = head(position, hit);
        let info = program.action_info(action);
        let info = info.expect("a table's action is the program's");
        for (index, arg) in args.iter().enumerate() {
            if let Some(slot) = param_slot(info, index) {
                let slot = slot.start as usize..slot.end as usize;
                let n_words = slot.len();
                let places = words[slot].iter_mut();
                for (place, word) in places.zip(vector::words_of(arg, n_words)) {
                    *place = word;
                }
            }
        }
    }

    fn put(&mut self, program: &Program, state: &State, entry: EntryIndex, is_new: bool) {
        let view = state.entry(self.id, entry);
        let view = view.expect("an entry that was written is there");
        let start = entry.index() * self.stride;
        if self.entries.len() < start + self.stride {
            self.entries.resize(start + self.stride, 0);
        }
        let words = &mut self.entries[start..start + self.stride];
        match view.action {
            EntryAction::Call(call) => {
                let call = Some((call.action, &*call.args));
                Self::write(&self.actions, program, words, call, true);
            }
            _ => words[0] = head(RESOLVE, true),
        }
        if is_new {
            self.n_entries += 1;
            self.index
                .insert(view.key, view.priority, index_number(entry));
        }
    }

    fn put_default(&mut self, program: &Program, state: &State) {
        let call = match state.default_action(self.id) {
            Some(EntryAction::Call(call)) => Some((call.action, &*call.args)),
            None => None,
            Some(_) => {
                self.default[0] = head(RESOLVE, false);
                return;
            }
        };
        Self::write(&self.actions, program, &mut self.default, call, false);
    }

    fn record(&mut self, state: &mut State) -> TableRecord {
        TableRecord {
            target: self.index.target(),
            entries: self.entries.as_ptr(),
            accounts: state.accounts(self.id).as_mut_ptr(),
            default: self.default.as_ptr(),
            n_entries: self.n_entries,
        }
    }
}

impl NativeTables {
    pub(crate) fn new(state: &mut State) -> Self {
        let program = state.program().clone();
        let tables = program.tables();
        let tables = tables.map(|(id, info)| NativeTable::new(&program, id, info));
        let mut tables: Box<[NativeTable]> = tables.collect();
        for table in &mut tables {
            let entries: Vec<EntryIndex> = state.entries(table.id).map(|it| it.0).collect();
            for entry in entries {
                table.put(&program, state, entry, true);
            }
            table.put_default(&program, state);
        }
        let records = tables.iter_mut().map(|table| table.record(state)).collect();
        let widest = tables.iter().map(|table| table.stride).max();
        Self {
            records,
            resolved: vec![0; widest.unwrap_or(1)].into(),
            tables,
        }
    }

    pub(crate) fn id(&self, table: usize) -> Option<TableId> {
        self.tables.get(table).map(|table| table.id)
    }

    /// The bits of a key's field that may decide a lookup.
    pub(crate) fn looked_at(&self, table: TableId, field: usize) -> impl Iterator<Item = u64> {
        let table = self.tables.get(table.index());
        table
            .into_iter()
            .flat_map(move |table| table.index.looked_at(field))
    }

    pub(crate) fn records(&self) -> *const TableRecord {
        self.records.as_ptr()
    }

    /// Applies a change that a call from the control plane has made to a table.
    pub(crate) fn changed(&mut self, state: &mut State, table: TableId, change: TableChange<'_>) {
        let program = state.program().clone();
        let native = &mut self.tables[table.index()];
        match change {
            TableChange::Inserted(entry) => native.put(&program, state, entry, true),
            TableChange::Modified(entry) => native.put(&program, state, entry, false),
            TableChange::Removed { entry, key, .. } => {
                native.index.remove(key, index_number(entry));
                native.n_entries -= 1;
            }
            // Native code runs meters through the state.
            TableChange::Metered(_) => {}
            TableChange::Default => native.put_default(&program, state),
        }
        self.records[table.index()] = native.record(state);
    }

    /// Makes the tables of an action profile resolve their entries again, after a call from the control plane has
    /// changed the profile.
    pub(crate) fn profile_changed(&mut self, profile: ActionProfileId) {
        let sharing = self.tables.iter_mut();
        for table in sharing.filter(|table| table.profile == Some(profile)) {
            for words in table.entries.chunks_exact_mut(table.stride) {
                words[0] = head(RESOLVE, true);
            }
        }
    }

    /// The words of an entry that runs no action.
    pub(crate) fn nothing(&mut self) -> *const u64 {
        self.resolved[0] = head(NO_ACTION, false);
        self.resolved.as_ptr()
    }

    /// Stores the action to which an entry, or the default action, of a table with an action profile was resolved.
    /// Returns the action's words. With `for_all` (no group chooses between members) the words are valid until the
    /// profile changes; without it, they are valid for this packet only.
    pub(crate) fn keep_resolved(
        &mut self,
        program: &Program,
        table: TableId,
        entry: Option<EntryIndex>,
        call: Option<(ActionId, &[Int])>,
        for_all: bool,
    ) -> *const u64 {
        let native = &mut self.tables[table.index()];
        let words = match entry {
            Some(entry) if for_all => {
                let start = entry.index() * native.stride;
                native.entries.get_mut(start..start + native.stride)
            }
            _ => None,
        };
        let words = words.unwrap_or(&mut *self.resolved);
        NativeTable::write(&native.actions, program, words, call, entry.is_some());
        words.as_ptr()
    }
}
