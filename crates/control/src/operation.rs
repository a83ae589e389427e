//! Every write to a switch as data: any thread makes it, each worker's thread executes it.
//!
//! Ids are the program's ([`dataplane::Program::table`] and its like return them by name), values the data plane's. An
//! operation is done completely or not at all.

use std::ops::Range;

use dataplane::{
    ActionProfileId, CloneSession, ControlError, ControlErrorKind, CounterId, CounterValue,
    CrcParameters, GeneratorChange, GeneratorConfig, MatchField, MeterConfig, MeterId, Mirror,
    MulticastGroup, ProfileGroup, ProfileMember, Program, RegisterId, Switch, TableAction,
    TableEntry, TableId, ValueSetId,
};
use serde::{Deserialize, Serialize};

use crate::error::OperationResult;
use crate::limits::CELLS_PER_UPDATE;
use crate::notes::{Digests, EntryKey, Note, Notes};

/// One update of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// As [`Switch::insert_entry`].
    InsertEntry {
        /// The table that gets the entry.
        table: TableId,
        /// The entry; its counter is the sum over all workers.
        entry: TableEntry,
        /// Client data of the entry.
        note: Note,
    },
    /// Changes the given parts of an entry.
    ModifyEntry(EntryKey, EntryChange),
    /// As [`Switch::delete_entry`].
    DeleteEntry(EntryKey),
    /// As [`Switch::forget_handles`].
    ForgetHandles(TableId),
    /// As [`Switch::set_default_action`]; the client data is removed when the program's own action comes back.
    SetDefaultAction {
        /// The table whose default action is set.
        table: TableId,
        /// `None`: the program's own action.
        action: Option<TableAction>,
        /// Client data of the default action.
        note: Note,
    },
    /// As [`Switch::insert_member`].
    InsertMember(ActionProfileId, ProfileMember),
    /// As [`Switch::modify_member`].
    ModifyMember(ActionProfileId, ProfileMember),
    /// As [`Switch::delete_member`].
    DeleteMember(ActionProfileId, u32),
    /// As [`Switch::insert_group`].
    InsertProfileGroup(ActionProfileId, ProfileGroup),
    /// As [`Switch::modify_group`].
    ModifyProfileGroup(ActionProfileId, ProfileGroup),
    /// As [`Switch::delete_group`].
    DeleteProfileGroup(ActionProfileId, u32),
    /// Sets a range of an array's cells to the same value; frames may pass in the middle of a long range.
    SetCells(CellValue, Range<u64>),
    /// As [`Switch::set_value_set`].
    SetValueSet(ValueSetId, Vec<Vec<MatchField>>),
    /// As [`Switch::set_crc_parameters`].
    SetCrcParameters(String, CrcParameters),
    /// Subscribes a client to the digests of a name; the client data has the settings.
    InsertDigest(String, Note),
    /// Changes the settings of a subscription.
    ModifyDigest(String, Note),
    /// Ends a subscription.
    DeleteDigest(String),
    /// As [`Switch::insert_multicast_group`].
    InsertMulticastGroup(MulticastGroup, Note),
    /// As [`Switch::modify_multicast_group`].
    ModifyMulticastGroup(MulticastGroup, Note),
    /// As [`Switch::delete_multicast_group`].
    DeleteMulticastGroup(u32),
    /// As [`Switch::insert_clone_session`].
    InsertCloneSession(CloneSession, Note),
    /// As [`Switch::modify_clone_session`].
    ModifyCloneSession(CloneSession, Note),
    /// As [`Switch::delete_clone_session`].
    DeleteCloneSession(u32),
    /// As [`Switch::mirror`].
    Mirror(u32, Mirror),
    /// As [`Switch::insert_generator`].
    InsertGenerator {
        /// The generator's number, from 1.
        id: u32,
        /// Frames, pace, count and ingress port.
        config: GeneratorConfig,
        /// Whether it starts at once.
        runs: bool,
    },
    /// As [`Switch::modify_generator`].
    ModifyGenerator(u32, GeneratorChange),
    /// As [`Switch::delete_generator`].
    DeleteGenerator(u32),
}

/// A change of an entry; parts that are `None` stay. Action and meter of a constant entry cannot change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryChange {
    /// The new action, with its idle timeout and client data.
    pub action: Option<NewAction>,
    /// The direct counter, summed over all workers.
    pub counter: Option<CounterValue>,
    /// The direct meter's rates; an inner `None` makes it always green.
    pub meter: Option<Option<MeterConfig>>,
    /// Whether the direct meter's counts restart from zero.
    pub resets_meter_counts: bool,
}

/// An entry's new action, and what is written with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAction {
    /// What a hit executes.
    pub action: TableAction,
    /// The idle timeout, which restarts; 0: none.
    pub idle_timeout_ns: u64,
    /// Client data of the entry.
    pub note: Note,
}

/// The new value of array cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellValue {
    /// A counter's value, summed over all workers.
    Counter(CounterId, CounterValue),
    /// A meter's rates, with full buckets; `None`: always green.
    Meter(MeterId, Option<MeterConfig>),
    /// Like `Meter`, and the counts restart from zero.
    MeterAnew(MeterId, Option<MeterConfig>),
    /// A register's value in every worker.
    Register(RegisterId, Vec<u8>),
}

/// The worker state that operations change.
pub(crate) struct Site<'a> {
    pub(crate) switch: &'a mut Switch,
    /// Only the first worker's are kept.
    pub(crate) notes: &'a mut Notes,
    pub(crate) digests: &'a mut Digests,
    pub(crate) worker: usize,
    pub(crate) n_workers: usize,
    /// False for the switch of a saved pipeline.
    pub(crate) forwards: bool,
}

impl Operation {
    /// Duration of the operation, in table-entry updates.
    pub(crate) fn n_updates(&self) -> usize {
        let n_more = match self {
            Self::InsertMulticastGroup(group, _) | Self::ModifyMulticastGroup(group, _) => {
                group.replicas.len()
            }
            Self::InsertCloneSession(session, _) | Self::ModifyCloneSession(session, _) => {
                session.replicas.len()
            }
            Self::InsertProfileGroup(_, group) | Self::ModifyProfileGroup(_, group) => {
                group.members.len()
            }
            Self::SetValueSet(_, members) => members.len(),
            Self::SetCells(_, cells) => {
                let n_cells = cells.end.saturating_sub(cells.start);
                usize::try_from(n_cells / CELLS_PER_UPDATE).unwrap_or(usize::MAX - 1)
            }
            _ => 0,
        };
        1 + n_more
    }

    /// What of an operation a new process may repeat, since the packets' state is lost.
    pub(crate) fn in_a_new_process(mut self, program: &Program) -> Option<Self> {
        match &mut self {
            // Packets have changed the register since the controller wrote it: a restored counter would give out every
            // number a second time.
            Self::SetCells(CellValue::Register(register, _), _)
                if program.is_written_by_packets(*register) =>
            {
                return None;
            }
            // Nobody knows how many of its frames were sent.
            Self::InsertGenerator { config, runs, .. } if config.count.is_some() => *runs = false,
            _ => {}
        }
        Some(self)
    }

    /// Refuses an operation that cannot be undone.
    pub(crate) fn expect_reversible(&self) -> OperationResult {
        let what = match self {
            _ if self.is_of_generator() => "packet generators go on with time",
            Self::SetCrcParameters(..) => "what a CRC was cannot be read",
            Self::ForgetHandles(_) => "handles that began anew cannot be told",
            _ => return Ok(()),
        };
        let message = format!("no batch that is done whole or not at all can have it: {what}");
        Err(ControlError::new(ControlErrorKind::Unimplemented, message))
    }

    /// Executes the whole operation at once.
    pub(crate) fn run(&self, site: &mut Site<'_>) -> OperationResult {
        self.expect_possible(site)?;
        self.change(site)?;
        self.keep_note(site.notes);
        Ok(())
    }

    fn change(&self, site: &mut Site<'_>) -> OperationResult {
        let switch = &mut *site.switch;
        match self {
            Self::InsertEntry { table, entry, .. } => site.insert_entry(*table, entry),
            Self::ModifyEntry(key, change) => site.modify_entry(key, change),
            Self::DeleteEntry(of) => switch.delete_entry(of.table, &of.key, of.priority),
            Self::ForgetHandles(table) => switch.forget_handles(*table),
            Self::SetDefaultAction { table, action, .. } => {
                switch.set_default_action(*table, action.clone())
            }
            Self::InsertMember(profile, member) => switch.insert_member(*profile, member.clone()),
            Self::ModifyMember(profile, member) => switch.modify_member(*profile, member.clone()),
            Self::DeleteMember(profile, id) => switch.delete_member(*profile, *id),
            Self::InsertProfileGroup(profile, group) => {
                switch.insert_group(*profile, group.clone())
            }
            Self::ModifyProfileGroup(profile, group) => {
                switch.modify_group(*profile, group.clone())
            }
            Self::DeleteProfileGroup(profile, id) => switch.delete_group(*profile, *id),
            Self::SetCells(value, cells) => {
                value.expect_there(site, cells)?;
                value.set(site, cells.clone())
            }
            Self::SetValueSet(set, members) => switch.set_value_set(*set, members.clone()),
            Self::SetCrcParameters(of, parameters) => switch.set_crc_parameters(of, *parameters),
            Self::InsertDigest(name, note) => site.set_digest(name, false, Some(note)),
            Self::ModifyDigest(name, note) => site.set_digest(name, true, Some(note)),
            Self::DeleteDigest(name) => site.set_digest(name, true, None),
            Self::InsertMulticastGroup(group, _) => switch.insert_multicast_group(group.clone()),
            Self::ModifyMulticastGroup(group, _) => switch.modify_multicast_group(group.clone()),
            Self::DeleteMulticastGroup(id) => switch.delete_multicast_group(*id),
            Self::InsertCloneSession(session, _) => switch.insert_clone_session(session.clone()),
            Self::ModifyCloneSession(session, _) => switch.modify_clone_session(session.clone()),
            Self::DeleteCloneSession(id) => switch.delete_clone_session(*id),
            Self::Mirror(id, mirror) => switch.mirror(*id, *mirror),
            Self::InsertGenerator { id, config, runs } => {
                switch.insert_generator(*id, config.clone(), *runs)
            }
            Self::ModifyGenerator(id, change) => switch.modify_generator(*id, change),
            Self::DeleteGenerator(id) => switch.delete_generator(*id),
        }
    }

    fn keep_note(&self, notes: &mut Notes) {
        match self {
            Self::InsertEntry { table, entry, note } => {
                let key = EntryKey {
                    table: *table,
                    key: entry.key.clone(),
                    priority: entry.priority,
                };
                notes.set_entry(key, note.clone());
            }
            Self::ModifyEntry(key, change) => {
                if let Some(new) = &change.action {
                    notes.set_entry(key.clone(), new.note.clone());
                }
            }
            Self::DeleteEntry(key) => notes.remove_entry(key),
            Self::SetDefaultAction {
                table,
                action,
                note,
            } => {
                let note = action.as_ref().map(|_| note.clone());
                notes.set_default_action(*table, note.unwrap_or_default());
            }
            Self::InsertMulticastGroup(group, note) | Self::ModifyMulticastGroup(group, note) => {
                notes.set_group(group.id, note.clone());
            }
            Self::DeleteMulticastGroup(id) => notes.set_group(*id, Note::default()),
            Self::InsertCloneSession(session, note) | Self::ModifyCloneSession(session, note) => {
                notes.set_session(session.id, note.clone());
            }
            Self::DeleteCloneSession(id) | Self::Mirror(id, _) => {
                notes.set_session(*id, Note::default());
            }
            _ => {}
        }
    }

    /// Refuses what several workers cannot do, or what a saved pipeline cannot.
    fn expect_possible(&self, site: &Site<'_>) -> OperationResult {
        if self.is_of_generator() {
            expect_forwarding(site.forwards)?;
        }
        self.expect_one_way(site)?;
        let what = match self.idle_timeout_in() {
            _ if site.n_workers == 1 => return Ok(()),
            // An entry that is idle in one worker may be hit in another.
            Some(table) => format!("table \"{}\": idle timeouts need", site.table_name(table)),
            None if self.is_of_generator() => "packet generators need".to_owned(),
            None => return Ok(()),
        };
        let n_workers = site.n_workers;
        let message = format!("{what} a switch with one worker, this one has {n_workers}");
        Err(ControlError::new(ControlErrorKind::Unimplemented, message))
    }

    /// Refuses to mix members and one-shot groups in an action profile: P4Runtime 1.5.0, "One Shot Action Selector
    /// Programming".
    fn expect_one_way(&self, site: &Site<'_>) -> OperationResult {
        let switch = &*site.switch;
        let (profile, is_mixed) = match self {
            Self::InsertMember(profile, _) | Self::InsertProfileGroup(profile, _) => {
                (*profile, switch.n_one_shots(*profile) > 0)
            }
            _ => match self.profile_of_one_shot(switch) {
                Some(profile) => (profile, switch.has_members(profile)),
                None => return Ok(()),
            },
        };
        if !is_mixed {
            return Ok(());
        }
        let program = switch.program();
        let info = program.and_then(|program| program.action_profile_info(profile));
        let message = format!(
            "action profile \"{}\": either it has members, or its entries have groups of their own, not both",
            info.map_or("", |info| &info.name)
        );
        Err(ControlError::new(
            ControlErrorKind::InvalidArgument,
            message,
        ))
    }

    /// The action profile of an entry that gets a one-shot group.
    fn profile_of_one_shot(&self, switch: &Switch) -> Option<ActionProfileId> {
        let (table, action) = match self {
            Self::InsertEntry { table, entry, .. } => (*table, &entry.action),
            Self::ModifyEntry(key, change) => (key.table, &change.action.as_ref()?.action),
            _ => return None,
        };
        match action {
            TableAction::OneShot(_) => switch.program()?.table_info(table)?.action_profile,
            _ => None,
        }
    }

    pub(crate) fn is_of_generator(&self) -> bool {
        matches!(
            self,
            Self::InsertGenerator { .. } | Self::ModifyGenerator(..) | Self::DeleteGenerator(_)
        )
    }

    /// The table of an entry that gets an idle timeout.
    fn idle_timeout_in(&self) -> Option<TableId> {
        let (table, idle_timeout_ns) = match self {
            Self::InsertEntry { table, entry, .. } => (*table, entry.idle_timeout_ns),
            Self::ModifyEntry(key, change) => {
                let action = change.action.as_ref();
                (key.table, action.map_or(0, |new| new.idle_timeout_ns))
            }
            _ => return None,
        };
        (idle_timeout_ns != 0).then_some(table)
    }
}

/// Refuses generators for a saved pipeline, since they belong to the switch that forwards.
pub(crate) fn expect_forwarding(forwards: bool) -> OperationResult {
    if forwards {
        return Ok(());
    }
    Err(ControlError::new(
        ControlErrorKind::FailedPrecondition,
        "packet generators belong to the switch that forwards, and a saved pipeline waits: commit it first",
    ))
}

impl CellValue {
    /// Checks that the array has all these cells; called once, before the first is written.
    pub(crate) fn expect_there(&self, site: &Site<'_>, cells: &Range<u64>) -> OperationResult {
        let Some(last) = cells.clone().next_back() else {
            return Ok(());
        };
        match self {
            Self::Counter(counter, _) => site.switch.counter_cell(*counter, last).map(drop),
            Self::Meter(meter, _) | Self::MeterAnew(meter, _) => {
                site.switch.meter_cell(*meter, last).map(drop)
            }
            Self::Register(register, _) => site.switch.register_cell(*register, last).map(drop),
        }
    }

    /// Writes the value to existing cells: to all of them or to none.
    pub(crate) fn set(&self, site: &mut Site<'_>, mut cells: Range<u64>) -> OperationResult {
        match self {
            Self::Counter(counter, value) => {
                let value = site.share_of(*value);
                site.switch.set_counter_cells(*counter, cells, value)
            }
            // Refused rates are refused at the first cell already.
            Self::Meter(meter, config) => {
                cells.try_for_each(|cell| site.switch.set_meter_cell(*meter, cell, *config))
            }
            Self::MeterAnew(meter, config) => cells.try_for_each(|cell| {
                site.switch.set_meter_cell(*meter, cell, *config)?;
                site.switch.reset_meter_counts(*meter, cell)
            }),
            Self::Register(register, value) => {
                site.switch.set_register_cells(*register, cells, value)
            }
        }
    }
}

impl Site<'_> {
    /// This worker's share of a count that a client writes. The first worker has all of it and the others 0, so that
    /// the sum of all workers is the count.
    fn share_of(&self, value: CounterValue) -> CounterValue {
        match self.worker {
            0 => value,
            _ => CounterValue::default(),
        }
    }

    fn insert_entry(&mut self, table: TableId, entry: &TableEntry) -> OperationResult {
        let mut entry = entry.clone();
        entry.counter = self.share_of(entry.counter);
        self.switch.insert_entry(table, entry)
    }

    fn modify_entry(&mut self, key: &EntryKey, change: &EntryChange) -> OperationResult {
        let EntryKey {
            table,
            key: of,
            priority,
        } = key;
        let mut entry = self.find(key)?;
        let counter = change.counter.map(|value| self.share_of(value));
        // Checked before any change, in case the table has no counter or meter.
        if counter.is_some() {
            self.switch.direct_counter(*table, of, *priority)?;
        }
        if change.meter.is_some() || change.resets_meter_counts {
            self.switch.direct_meter(*table, of, *priority)?;
        }
        if change.action.is_some() || change.meter.is_some() {
            self.expect_changeable(*table, &entry)?;
        }
        if let Some(new) = &change.action {
            entry.action = new.action.clone();
            entry.idle_timeout_ns = new.idle_timeout_ns;
            entry.meter = change.meter.flatten();
            self.switch.modify_entry(*table, entry)?;
        }
        if let Some(config) = change.meter
            && (config.is_none() || change.action.is_none())
        {
            self.switch
                .set_direct_meter(*table, of, *priority, config)?;
        }
        if change.resets_meter_counts {
            self.switch
                .reset_direct_meter_counts(*table, of, *priority)?;
        }
        if let Some(value) = counter {
            self.switch
                .set_direct_counter(*table, of, *priority, value)?;
        }
        Ok(())
    }

    /// Subscribes a client to digests of a name, or changes or ends the subscription; `is_there`: it must exist
    /// already.
    fn set_digest(&mut self, name: &str, is_there: bool, note: Option<&Note>) -> OperationResult {
        if self.digests.contains_key(name) == is_there {
            match note {
                Some(note) => self.digests.insert(name.to_owned(), note.clone()),
                None => self.digests.remove(name),
            };
            return Ok(());
        }
        let (kind, what) = if is_there {
            (ControlErrorKind::NotFound, "is not told of")
        } else {
            (ControlErrorKind::AlreadyExists, "is told of already")
        };
        Err(ControlError::new(kind, format!("digest \"{name}\" {what}")))
    }

    fn find(&self, key: &EntryKey) -> Result<TableEntry, ControlError> {
        let found = self.switch.entry(key.table, &key.key, key.priority);
        found.ok_or_else(|| {
            let table = self.table_name(key.table);
            let message = format!("table \"{table}\" has no such entry");
            ControlError::new(ControlErrorKind::NotFound, message)
        })
    }

    fn expect_changeable(&self, table: TableId, entry: &TableEntry) -> OperationResult {
        if !entry.is_const {
            return Ok(());
        }
        let table = self.table_name(table);
        let message =
            format!("table \"{table}\": the entry is constant, its action cannot be written");
        Err(ControlError::new(
            ControlErrorKind::PermissionDenied,
            message,
        ))
    }

    fn table_name(&self, table: TableId) -> &str {
        let info = self.switch.program().and_then(|it| it.table_info(table));
        info.map_or("", |info| &info.name)
    }
}
