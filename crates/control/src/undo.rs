//! Undoes operations exactly, with a record taken before each operation. No frame passes between the record and the
//! operation.

use std::collections::HashMap;
use std::ops::Range;

use dataplane::{ActionProfileId, MatchField, ProfileSnapshot, Switch, TableId};

use crate::error::OperationResult;
use crate::notes::EntryKey;
use crate::operation::{CellValue, Operation, Site};

type Step = Box<dyn FnOnce(&mut Site<'_>) -> OperationResult>;

/// Undo steps, in the order of the operations.
#[derive(Default)]
pub(crate) struct Undo {
    steps: Vec<Step>,
    /// Each action profile as it was before the first operation that concerns it.
    profiles: HashMap<ActionProfileId, Option<ProfileSnapshot>>,
}

impl Undo {
    /// Records what an operation is about to change. If that does not exist, nothing is recorded, and the operation
    /// will be refused.
    pub(crate) fn note(&mut self, operation: &Operation, site: &mut Site<'_>) {
        match operation {
            Operation::InsertEntry { table, entry, .. } => {
                self.entry(*table, &entry.key, entry.priority, site);
            }
            Operation::ModifyEntry(of, _) | Operation::DeleteEntry(of) => {
                self.entry(of.table, &of.key, of.priority, site);
            }
            Operation::SetDefaultAction { table, .. } => self.default_action(*table, site),
            Operation::InsertMember(profile, _)
            | Operation::ModifyMember(profile, _)
            | Operation::DeleteMember(profile, _)
            | Operation::InsertProfileGroup(profile, _)
            | Operation::ModifyProfileGroup(profile, _)
            | Operation::DeleteProfileGroup(profile, _) => self.profile(*profile, site.switch),
            Operation::SetCells(value, cells) => self.cells(value, cells.clone(), site),
            Operation::SetValueSet(set, _) => {
                let (set, members) = (*set, site.switch.value_set(*set));
                self.push(move |site| site.switch.set_value_set(set, members));
            }
            Operation::InsertDigest(name, _)
            | Operation::ModifyDigest(name, _)
            | Operation::DeleteDigest(name) => self.digest(name.clone(), site),
            Operation::InsertMulticastGroup(group, _)
            | Operation::ModifyMulticastGroup(group, _) => self.multicast_group(group.id, site),
            Operation::DeleteMulticastGroup(id) => self.multicast_group(*id, site),
            Operation::InsertCloneSession(session, _)
            | Operation::ModifyCloneSession(session, _) => self.clone_session(session.id, site),
            Operation::DeleteCloneSession(id) | Operation::Mirror(id, _) => {
                self.clone_session(*id, site);
            }
            // A whole batch refuses these.
            Operation::SetCrcParameters(..)
            | Operation::ForgetHandles(_)
            | Operation::InsertGenerator { .. }
            | Operation::ModifyGenerator(..)
            | Operation::DeleteGenerator(_) => {}
        }
    }

    /// Undoes all operations, the last one first.
    pub(crate) fn take_back(self, site: &mut Site<'_>) {
        for step in self.steps.into_iter().rev() {
            step(site).expect("what was there before fits");
        }
        for was in self.profiles.into_values().flatten() {
            site.switch.restore_profile(was);
        }
    }

    fn push(&mut self, step: impl FnOnce(&mut Site<'_>) -> OperationResult + 'static) {
        self.steps.push(Box::new(step));
    }

    fn entry(&mut self, table: TableId, key: &[MatchField], priority: i32, site: &mut Site<'_>) {
        let Ok(was) = site.switch.entry_snapshot(table, key, priority) else {
            return;
        };
        self.profile_of(table, site.switch);
        let of = EntryKey {
            table,
            key: key.to_vec(),
            priority,
        };
        let note = site.notes.entry(&of);
        self.push(move |site| {
            site.notes.set_entry(of, note);
            site.switch.restore_entry(&was)
        });
    }

    fn default_action(&mut self, table: TableId, site: &mut Site<'_>) {
        self.profile_of(table, site.switch);
        let was = site.switch.default_action(table);
        let note = site.notes.default_action(table);
        self.push(move |site| {
            site.notes.set_default_action(table, note);
            site.switch.set_default_action(table, was)
        });
    }

    /// Records the table's action profile, since it counts the entries that use it.
    fn profile_of(&mut self, table: TableId, switch: &Switch) {
        let info = switch.program().and_then(|it| it.table_info(table));
        if let Some(profile) = info.and_then(|info| info.action_profile) {
            self.profile(profile, switch);
        }
    }

    fn profile(&mut self, profile: ActionProfileId, switch: &Switch) {
        let was = || switch.profile_snapshot(profile);
        self.profiles.entry(profile).or_insert_with(was);
    }

    fn cells(&mut self, value: &CellValue, cells: Range<u64>, site: &mut Site<'_>) {
        match *value {
            CellValue::Counter(counter, _) => {
                let was = cells
                    .clone()
                    .map_while(|cell| site.switch.counter_cell(counter, cell).ok());
                let was: Vec<_> = was.collect();
                self.push(move |site| {
                    let mut cells = cells.zip(was);
                    cells.try_for_each(|(cell, was)| {
                        site.switch.set_counter_cell(counter, cell, was)
                    })
                });
            }
            CellValue::Meter(meter, _) | CellValue::MeterAnew(meter, _) => {
                let was = site.switch.meter_snapshot(meter, cells);
                self.push(move |site| {
                    site.switch.restore_meter(was);
                    Ok(())
                });
            }
            CellValue::Register(register, _) => {
                let was = cells
                    .clone()
                    .map_while(|cell| site.switch.register_cell(register, cell).ok());
                let was: Vec<_> = was.collect();
                self.push(move |site| {
                    let mut cells = cells.zip(was);
                    cells.try_for_each(|(cell, was)| {
                        site.switch.set_register_cell(register, cell, &was)
                    })
                });
            }
        }
    }

    fn digest(&mut self, name: String, site: &Site<'_>) {
        let was = site.digests.get(&name).cloned();
        self.push(move |site| {
            match was {
                Some(was) => site.digests.insert(name, was),
                None => site.digests.remove(&name),
            };
            Ok(())
        });
    }

    fn multicast_group(&mut self, id: u32, site: &Site<'_>) {
        let found = site.switch.multicast_groups_from(id, 1).into_iter().next();
        let was = found.filter(|group| group.id == id);
        let note = site.notes.group(id);
        self.push(move |site| {
            site.notes.set_group(id, note);
            let is_there = site.switch.delete_multicast_group(id);
            match was {
                Some(was) => site.switch.insert_multicast_group(was),
                None => is_there.or(Ok(())),
            }
        });
    }

    fn clone_session(&mut self, id: u32, site: &Site<'_>) {
        let found = site.switch.clone_sessions_from(id, 1).into_iter().next();
        let was = found.filter(|session| session.id == id);
        // For a session with a group, `was` also has the group's replicas. So the session is restored as a mirror,
        // which names the group.
        let mirrored = site.switch.mirrored(id).filter(|to| to.group.is_some());
        let note = site.notes.session(id);
        self.push(move |site| {
            site.notes.set_session(id, note);
            let is_there = site.switch.delete_clone_session(id);
            match (was, mirrored) {
                (_, Some(mirror)) => site.switch.mirror(id, mirror),
                (Some(was), None) => site.switch.insert_clone_session(was),
                (None, None) => is_there.or(Ok(())),
            }
        });
    }
}
