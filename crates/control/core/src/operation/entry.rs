//! Table entries and default actions.

use dataplane::{
    ControlError, ControlErrorKind, CounterValue, MatchField, MeterConfig, MeterCounts,
    TableAction, TableEntry, TableId,
};
use serde::{Deserialize, Serialize};

use super::{EntityKey, Operation, Rules, Stored, Undo, WorkerState};
use crate::client_data::{ClientData, EntryKey};
use crate::error::OperationResult;

/// A change of a table's entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryUpdate {
    /// Inserts an entry, as [`dataplane::Switch::insert_entry`] does.
    Insert {
        /// The table that gets the entry.
        table: TableId,
        /// The entry; its counter is the sum over all workers.
        entry: TableEntry,
        /// Client data of the entry.
        client_data: ClientData,
    },
    /// Changes the given parts of an entry.
    Modify(EntryKey, EntryChange),
    /// Deletes an entry, as [`dataplane::Switch::delete_entry`] does.
    Delete(EntryKey),
}

/// A change of an entry; parts that are `None` stay as they are. The action and the meter of a constant entry cannot
/// change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryChange {
    /// The new action, with its idle timeout and client data.
    pub action: Option<NewAction>,
    /// The direct counter, summed over all workers.
    pub counter: Option<CounterValue>,
    /// The direct meter's rates; `Some(None)` makes the meter always green.
    pub meter: Option<Option<MeterConfig>>,
    /// Whether the direct meter's counts restart from zero.
    pub resets_meter_counts: bool,
}

/// An entry's new action, and what is written with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAction {
    /// The action that a hit executes.
    pub action: TableAction,
    /// The idle timeout, which starts anew with this write; 0 if the entry has none.
    pub idle_timeout_ns: u64,
    /// Client data of the entry.
    pub client_data: ClientData,
}

/// A table's new default action, with its client data.
pub(super) struct DefaultAction<'a>(
    pub(super) TableId,
    pub(super) Option<&'a TableAction>,
    pub(super) &'a ClientData,
);

impl EntryUpdate {
    fn key(&self) -> EntryKey {
        match self {
            Self::Insert { table, entry, .. } => EntryKey {
                table: *table,
                key: entry.key.clone(),
                priority: entry.priority,
            },
            Self::Modify(key, _) | Self::Delete(key) => key.clone(),
        }
    }

    /// Returns the table, the entry's new action, and the entry's idle timeout; `None` if the action does not change.
    fn new_action(&self) -> Option<(TableId, &TableAction, u64)> {
        match self {
            Self::Insert { table, entry, .. } => {
                Some((*table, &entry.action, entry.idle_timeout_ns))
            }
            Self::Modify(key, change) => {
                let new = change.action.as_ref()?;
                Some((key.table, &new.action, new.idle_timeout_ns))
            }
            Self::Delete(_) => None,
        }
    }
}

impl Rules for EntryUpdate {
    fn expect_possible(&self, state: &WorkerState<'_>) -> OperationResult {
        let Some((table, action, idle_timeout_ns)) = self.new_action() else {
            return Ok(());
        };
        if let (TableAction::OneShot(_), Some(profile)) = (action, state.profile_of(table)) {
            state.expect_one_way(profile, state.switch.has_members(profile))?;
        }
        if idle_timeout_ns == 0 {
            return Ok(());
        }
        // An entry that is idle in one worker may be hit in another.
        let name = state.table_name(table);
        state.expect_one_worker(&format!("table \"{name}\": idle timeouts"))
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        match self {
            Self::Insert {
                table,
                entry,
                client_data,
            } => {
                let mut entry = entry.clone();
                entry.counter = state.share_of(entry.counter);
                state.switch.insert_entry(*table, entry)?;
                state.client_data.set_entry(self.key(), client_data.clone());
            }
            Self::Modify(key, change) => {
                state.modify_entry(key, change)?;
                if let Some(new) = &change.action {
                    state
                        .client_data
                        .set_entry(key.clone(), new.client_data.clone());
                }
            }
            Self::Delete(of) => {
                state.switch.delete_entry(of.table, &of.key, of.priority)?;
                state.client_data.remove_entry(of);
            }
        }
        Ok(())
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        let of = self.key();
        let Ok(was) = state.switch.entry_snapshot(of.table, &of.key, of.priority) else {
            return;
        };
        undo.profile_of(of.table, state);
        let client_data = state.client_data.entry(&of);
        undo.push(move |state| {
            state.client_data.set_entry(of, client_data);
            state.switch.restore_entry(&was)
        });
    }

    fn stored(&self) -> Stored {
        Stored::Combined(EntityKey::Entry(self.key()))
    }

    fn combined(&self, mut kept: Vec<Operation>) -> Vec<Operation> {
        match self {
            Self::Insert { .. } => kept.push(Operation::Entry(self.without_counts())),
            // If a controller inserted the entry, the store forgets it. Any other entry comes with the program, so its
            // deletion is stored and repeated at each start.
            Self::Delete(_) => match kept.first() {
                Some(Operation::Entry(Self::Insert { .. })) => kept.clear(),
                _ => kept = vec![Operation::Entry(self.clone())],
            },
            Self::Modify(of, change) => match kept.last_mut() {
                Some(Operation::Entry(Self::Insert {
                    entry, client_data, ..
                })) => {
                    change.apply(entry, client_data);
                }
                Some(Operation::Entry(Self::Modify(_, before))) => before.merge(change),
                _ if change.action.is_none() && change.meter.is_none() => {}
                _ => {
                    let mut all = EntryChange::default();
                    all.merge(change);
                    kept.push(Operation::Entry(Self::Modify(of.clone(), all)));
                }
            },
        }
        kept
    }
}

impl EntryUpdate {
    fn without_counts(&self) -> Self {
        let mut update = self.clone();
        if let Self::Insert { entry, .. } = &mut update {
            entry.counter = CounterValue::default();
            entry.meter_counts = MeterCounts::default();
            entry.since_last_hit_ns = 0;
        }
        update
    }
}

impl EntryChange {
    /// Applies the change to a stored entry as the data plane applies it to the entry in the table.
    fn apply(&self, entry: &mut TableEntry, client_data: &mut ClientData) {
        if let Some(new) = &self.action {
            entry.action = new.action.clone();
            entry.idle_timeout_ns = new.idle_timeout_ns;
            entry.meter = self.meter.flatten();
            *client_data = new.client_data.clone();
        } else if let Some(meter) = self.meter {
            entry.meter = meter;
        }
    }

    /// Merges a later change of the same entry into this change, without the counts that the later change writes.
    fn merge(&mut self, later: &Self) {
        if later.action.is_some() {
            self.action.clone_from(&later.action);
            self.meter = later.meter;
        } else if later.meter.is_some() {
            self.meter = later.meter;
        }
    }
}

impl Rules for DefaultAction<'_> {
    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        let Self(table, action, client_data) = *self;
        state.switch.set_default_action(table, action.cloned())?;
        let client_data = action.map(|_| client_data.clone()).unwrap_or_default();
        state.client_data.set_default_action(table, client_data);
        Ok(())
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        let table = self.0;
        undo.profile_of(table, state);
        let was = state.switch.default_action(table);
        let client_data = state.client_data.default_action(table);
        undo.push(move |state| {
            state.client_data.set_default_action(table, client_data);
            state.switch.set_default_action(table, was)
        });
    }

    fn stored(&self) -> Stored {
        let Self(table, action, client_data) = *self;
        let entity = EntityKey::DefaultAction(table);
        match action {
            None => Stored::Removed(entity),
            Some(action) => {
                let (action, client_data) = (Some(action.clone()), client_data.clone());
                Stored::replaced(
                    entity,
                    Operation::DefaultAction {
                        table,
                        action,
                        client_data,
                    },
                )
            }
        }
    }
}

impl WorkerState<'_> {
    fn modify_entry(&mut self, key: &EntryKey, change: &EntryChange) -> OperationResult {
        let EntryKey {
            table,
            key: of,
            priority,
        } = key;
        let mut entry = self.find(*table, of, *priority)?;
        let counter = change.counter.map(|value| self.share_of(value));
        // These checks come before any change, since the table may have no counter or meter.
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

    fn find(
        &self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Result<TableEntry, ControlError> {
        self.switch.entry(table, key, priority).ok_or_else(|| {
            let table = self.table_name(table);
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
}
