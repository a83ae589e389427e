//! Table entries and default actions.

use std::ops::Range;
use std::sync::Arc;

use crate::{
    ControlError, ControlErrorKind, Controlled, CounterValue, EntryHandle, IdleTimeout, MatchField,
    MeterConfig, PortId, TableAction, TableEntry, TableId,
    engine::{Change, EntryAccount, State, TableChange},
    externs::meter::Meter,
    invalid, limits,
    match_action::{self, Choices, EntryAction, EntryIndex, Profile, Slot, Table, TableView},
    missing,
    program::{
        ActionInfo, TableInfo,
        ir::{Matcher, MeterKind},
    },
    refuse,
    switch::Switch,
};

pub(super) struct Target<'a> {
    pub info: &'a TableInfo,
    pub table: &'a mut Table,
    actions: &'a [ActionInfo],
    profile: Option<&'a mut Profile>,
    meter: Option<MeterKind>,
}

impl Target<'_> {
    pub(super) fn what(&self) -> String {
        format!("table \"{}\"", self.info.name)
    }

    pub(super) fn key(&self, key: &[MatchField], priority: i32) -> Controlled<Vec<Matcher>> {
        let what = self.what();
        if self.info.has_priority() && priority <= 0 {
            return invalid(format!(
                "{what}: expected a priority above 0, found {priority}"
            ));
        }
        if !self.info.has_priority() && priority != 0 {
            return invalid(format!(
                "{what} has no priorities: expected a priority of 0, found {priority}"
            ));
        }
        if self.info.key.is_empty() {
            return invalid(format!("{what} has no key, so it has no entries"));
        }
        match_action::to_key(self.info, key)
    }

    fn writable(&self) -> Controlled {
        if self.info.is_const {
            let message = format!("{}: its entries are constant in the program", self.what());
            return refuse(ControlErrorKind::PermissionDenied, message);
        }
        Ok(())
    }

    pub(super) fn metered(&self) -> Controlled<MeterKind> {
        self.meter.ok_or_else(|| no_direct("meter", self.info))
    }

    fn meter(&self, config: Option<MeterConfig>) -> Controlled<Option<Box<Meter>>> {
        if let Some(config) = &config {
            check_meter(&self.what(), self.metered()?, config)?;
        }
        let has_meter = self.meter.is_some();
        Ok(has_meter.then(|| Box::new(Meter::new(config))))
    }

    fn check_idle_timeout(&self, idle_timeout_ns: u64) -> Controlled {
        if idle_timeout_ns == 0 || self.info.has_idle_timeout {
            return Ok(());
        }
        invalid(format!("{} has no idle timeouts", self.what()))
    }

    fn action(&self, action: &TableAction, is_default: bool) -> Controlled<EntryAction> {
        let what = self.what();
        let to_call = |call| match_action::to_call(self.info, self.actions, call);
        match (action, &self.profile) {
            (TableAction::Call(call), profile) if profile.is_none() || is_default => {
                Ok(EntryAction::Call(to_call(call)?))
            }
            (_, None) => invalid(format!("{what} has no action profile")),
            (TableAction::Call(_), _) => invalid(format!(
                "{what}: expected a member or a group of its action profile, found an action"
            )),
            (TableAction::Member(id), Some(profile)) => {
                Ok(EntryAction::Member(profile.handle(*id)?))
            }
            _ if !self.info.has_selector => {
                invalid(format!("{what}: its action profile has no groups"))
            }
            (TableAction::Group(id), Some(profile)) => {
                profile.check_group(*id)?;
                Ok(EntryAction::Group(*id))
            }
            (TableAction::OneShot(calls), _) => {
                if calls.iter().any(|call| call.weight == 0) {
                    return invalid(format!("{what}: an action of a group has the weight 0"));
                }
                let calls = calls.iter();
                let calls = calls.map(|one| Ok((one.weight, one.watch, to_call(&one.call)?)));
                let calls = calls.collect::<Controlled<Vec<_>>>()?;
                Ok(EntryAction::OneShot(Arc::new(Choices::new(calls))))
            }
        }
    }

    /// Updates the profile's use counts when an entry's action changes.
    fn count_uses(&mut self, old: Option<&EntryAction>, new: Option<&EntryAction>) {
        if let Some(profile) = &mut self.profile {
            new.into_iter().for_each(|new| profile.count_use(new, 1));
            old.into_iter().for_each(|old| profile.count_use(old, -1));
        }
    }

    pub(super) fn find(&self, key: &[MatchField], priority: i32) -> Controlled<EntryIndex> {
        let entry = self.table.find(&self.key(key, priority)?, priority);
        entry.ok_or_else(|| match_action::no_entry(self.info))
    }
}

fn no_direct(what: &str, info: &TableInfo) -> ControlError {
    let message = format!("table \"{}\" has no direct {what}", info.name);
    ControlError::new(ControlErrorKind::FailedPrecondition, message)
}

fn counted(info: &TableInfo) -> Controlled {
    let counted = info.with_counters.then_some(());
    counted.ok_or_else(|| no_direct("counter", info))
}

/// The ports that a one-shot group watches.
fn watched_by(action: &TableAction) -> impl Iterator<Item = PortId> {
    let calls = match action {
        TableAction::OneShot(calls) => calls.as_slice(),
        _ => &[],
    };
    calls.iter().filter_map(|call| call.watch)
}

/// Refuses a peak rate below the committed rate, for a two-rate marker.
pub(super) fn check_meter(what: &str, kind: MeterKind, config: &MeterConfig) -> Controlled {
    if kind.rates > 1 && config.excess_burst == 0 && config.peak_rate < config.committed_rate {
        let (peak, committed) = (config.peak_rate, config.committed_rate);
        let found = format!("the peak rate {peak} is below the committed rate {committed}");
        return invalid(format!("{what}: {found}"));
    }
    Ok(())
}

impl Switch {
    pub(super) fn target(&mut self, id: TableId) -> Controlled<Target<'_>> {
        let State {
            program, tables, ..
        } = self.loaded_mut()?;
        let info = program.tables.get(id.index());
        let state = info.and_then(|info| tables.table_mut(id, info.action_profile));
        match (info, state) {
            (Some(info), Some((table, profile))) => Ok(Target {
                info,
                table,
                actions: &program.actions,
                profile,
                meter: program.ir.direct_meter(id).map(|meter| meter.kind),
            }),
            _ => Err(missing("table", id.index())),
        }
    }

    fn table_view(&self, id: TableId) -> Option<TableView<'_>> {
        let state = &self.model.state;
        let info = state.program.tables.get(id.index())?;
        Some(TableView {
            info,
            table: state.tables.table(id)?,
            actions: &state.program.actions,
            profile: info.action_profile.and_then(|id| state.tables.profile(id)),
            now: state.now,
        })
    }

    /// Adds an entry. Its direct counter starts at the given value, its meter starts with full buckets, and its idle
    /// timeout starts now.
    ///
    /// # Errors
    /// `InvalidArgument` if key, priority, action or arguments do not fit the table, `AlreadyExists`,
    /// `ResourceExhausted`, `PermissionDenied` if the program declares the entries as constant, `NotFound` for the
    /// table, a member or a group, `FailedPrecondition` for a meter if the table has none.
    pub fn insert_entry(&mut self, table: TableId, entry: TableEntry) -> Controlled {
        let now = self.model.state.now;
        self.check_watched(watched_by(&entry.action))?;
        let mut target = self.target(table)?;
        target.writable()?;
        target.check_idle_timeout(entry.idle_timeout_ns)?;
        let action = target.action(&entry.action, false)?;
        let slot = Slot {
            key: target.key(&entry.key, entry.priority)?,
            priority: entry.priority,
            action: action.clone(),
            is_const: false,
            meter: target.meter(entry.meter)?,
            idle_timeout_ns: entry.idle_timeout_ns,
        };
        let account = EntryAccount {
            counter: entry.counter,
            last_hit: now,
            is_idle: false,
        };
        let index = target.table.insert(target.info, slot, account)?;
        target.count_uses(None, Some(&action));
        self.done(&Change::Table(table, TableChange::Inserted(index)))
    }

    /// Replaces an entry's action, idle timeout and, if given, meter. The entry's direct counter keeps its value; the
    /// idle timeout restarts.
    ///
    /// # Errors
    /// The same as for [`Switch::insert_entry`], and `NotFound` for the entry.
    pub fn modify_entry(&mut self, table: TableId, entry: TableEntry) -> Controlled {
        let now = self.model.state.now;
        self.check_watched(watched_by(&entry.action))?;
        let mut target = self.target(table)?;
        target.writable()?;
        target.check_idle_timeout(entry.idle_timeout_ns)?;
        let key = target.key(&entry.key, entry.priority)?;
        let action = target.action(&entry.action, false)?;
        target.meter(entry.meter)?;
        let (index, slot) = target.table.changeable(target.info, &key, entry.priority)?;
        let old = std::mem::replace(&mut slot.action, action.clone());
        if let (Some(meter), Some(_)) = (&mut slot.meter, entry.meter) {
            meter.set(entry.meter);
        }
        slot.idle_timeout_ns = entry.idle_timeout_ns;
        target.table.begin_idle_timeout(index, now);
        target.count_uses(Some(&old), Some(&action));
        let change = Change::Table(table, TableChange::Modified(index));
        if entry.meter.is_none() {
            return self.done(&change);
        }
        self.notify_together(&[change, Change::Table(table, TableChange::Metered(index))]);
        Ok(())
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `PermissionDenied` if the program declares the entry as constant.
    pub fn delete_entry(
        &mut self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Controlled {
        let mut target = self.target(table)?;
        target.writable()?;
        let key = target.key(key, priority)?;
        let (entry, old) = target.table.delete(target.info, &key, priority)?;
        target.count_uses(old.as_ref().map(|slot| &slot.action), None);
        let removed = TableChange::Removed {
            entry,
            key: &key,
            priority,
        };
        self.done(&Change::Table(table, removed))
    }

    /// Every entry, including those that the program declares; empty if the table does not exist.
    pub fn entries(&self, table: TableId) -> Vec<TableEntry> {
        self.entries_in(table, 0..usize::MAX)
    }

    /// Entries in a range of the table's slots. An entry keeps its slot, so a caller can read a large table in pieces.
    /// [`Switch::entry_places`] gives the number of slots.
    pub fn entries_in(&self, table: TableId, places: Range<usize>) -> Vec<TableEntry> {
        let view = self.table_view(table);
        view.map_or_else(Vec::new, |view| view.entries_in(places))
    }

    /// Number of slots, occupied and free.
    pub fn entry_places(&self, table: TableId) -> usize {
        let view = self.table_view(table);
        view.map_or(0, |view| view.table.n_places())
    }

    /// Number of entries.
    pub fn entry_count(&self, table: TableId) -> usize {
        let view = self.table_view(table);
        view.map_or(0, |view| view.table.len())
    }

    /// The entry of a key and priority, if there is one.
    pub fn entry(&self, table: TableId, key: &[MatchField], priority: i32) -> Option<TableEntry> {
        let view = self.table_view(table)?;
        let key = match_action::to_key(view.info, key).ok()?;
        view.entry(view.table.find(&key, priority)?)
    }

    /// BMv2's handle of an entry.
    pub fn entry_handle(
        &self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Option<EntryHandle> {
        let TableView { info, table, .. } = self.table_view(table)?;
        let key = match_action::to_key(info, key).ok()?;
        table.handle(table.find(&key, priority)?)
    }

    /// Entries in a range of the table's slots ([`Switch::entries_in`]), each with its handle.
    pub fn entries_with_handles_in(
        &self,
        table: TableId,
        places: Range<usize>,
    ) -> Vec<(EntryHandle, TableEntry)> {
        let view = self.table_view(table);
        view.map_or_else(Vec::new, |view| {
            let places = places.start..places.end.min(view.table.n_places());
            let entries = places.map(EntryIndex::at);
            let entry = |it| Some((view.table.handle(it)?, view.entry(it)?));
            entries.filter_map(entry).collect()
        })
    }

    /// Restarts the numbering of handles in an empty table, as BMv2 does when it clears a table.
    ///
    /// # Errors
    /// `NotFound` for the table.
    pub fn forget_handles(&mut self, table: TableId) -> Controlled {
        self.target(table)?.table.forget_handles();
        Ok(())
    }

    /// Sets the default action; `None` restores the default action that the program declares.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `PermissionDenied` if the program declares the default action as constant.
    pub fn set_default_action(
        &mut self,
        table: TableId,
        action: Option<TableAction>,
    ) -> Controlled {
        let mut target = self.target(table)?;
        if target.info.is_default_const {
            let message = format!("{}: its default action is constant", target.what());
            return refuse(ControlErrorKind::PermissionDenied, message);
        }
        let action = action.map(|action| target.action(&action, true));
        let action = action.transpose()?;
        let old = target.table.set_default(action.clone());
        target.count_uses(old.as_ref(), action.as_ref());
        self.done(&Change::Table(table, TableChange::Default))
    }

    /// The current default action.
    pub fn default_action(&self, table: TableId) -> Option<TableAction> {
        let view = self.table_view(table)?;
        view.action(view.table.default_action()?)
    }

    /// Reads the direct counter of an entry.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `FailedPrecondition` if the table has no counters.
    pub fn direct_counter(
        &self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Controlled<CounterValue> {
        self.loaded()?;
        let view = self.table_view(table);
        let TableView { info, .. } = view.ok_or_else(|| missing("table", table.index()))?;
        counted(info)?;
        match_action::to_key(info, key)?;
        let entry = self.entry(table, key, priority);
        entry.map_or_else(|| Err(match_action::no_entry(info)), |it| Ok(it.counter))
    }

    /// Writes the direct counter of an entry.
    ///
    /// # Errors
    /// The same as for [`Switch::direct_counter`].
    pub fn set_direct_counter(
        &mut self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
        value: CounterValue,
    ) -> Controlled {
        self.collect();
        let target = self.target(table)?;
        counted(target.info)?;
        let entry = target.find(key, priority)?;
        if let Some(account) = target.table.accounts.get_mut(entry.index()) {
            account.counter = value;
        }
        Ok(())
    }

    /// Returns the next entry that [`Switch::handle_timeout`] found idle. Each idle entry is reported once, and again
    /// only if it becomes idle after another hit.
    pub fn poll_idle_timeout(&mut self) -> Option<IdleTimeout> {
        self.idle_timeouts.pop_front()
    }

    pub(crate) fn sweep_idle_entries(&mut self) {
        let now = self.model.state.now;
        let swept = (0..).map(TableId).zip(&mut self.model.state.tables.tables);
        let idle = swept.flat_map(|(id, table)| {
            let entries = table.sweep_idle(now).into_iter();
            entries.map(move |entry| (id, entry))
        });
        for (table, entry) in idle.collect::<Vec<_>>() {
            let view = self.table_view(table);
            let Some(entry) = view.and_then(|view| view.entry(entry)) else {
                continue;
            };
            if self.idle_timeouts.len() < limits::IDLE_TIMEOUT_QUEUE_MAX {
                self.idle_timeouts.push_back(IdleTimeout { table, entry });
            } else {
                self.model.state.counters.idle_timeouts_lost += 1;
            }
        }
    }
}
