//! Snapshots, to undo control calls. Restoring gives exactly the old state if no packet was processed in between.
//!
//! Calls must be undone in reverse order, so that each call is undone in the state in which it left the switch.

use std::ops::Range;

use crate::{
    ActionProfileId, Controlled, MatchField, MeterId, TableId,
    engine::{Change, TableChange},
    externs::meter::MeterSnapshot,
    match_action::{EntryIndex, EntrySnapshot, ProfileSnapshot, SlotSnapshot},
    program::ir::Matcher,
    switch::Switch,
};

impl Switch {
    /// Saves the entry of a key with its counter, its meter and its position among the entries of the same priority; if
    /// there is no such entry, saves this fact.
    ///
    /// # Errors
    /// The key does not fit the table.
    pub fn entry_snapshot(
        &mut self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Controlled<EntrySnapshot> {
        let target = self.target(table)?;
        let key = target.key(key, priority)?;
        Ok(EntrySnapshot {
            table,
            was: target.table.snapshot(&key, priority),
            key,
            priority,
        })
    }

    /// Restores the entry. Does not update the use counts in the action profile, so the caller must restore the
    /// profile's snapshot, too.
    ///
    /// # Errors
    /// The table no longer exists.
    pub fn restore_entry(&mut self, snapshot: &EntrySnapshot) -> Controlled {
        let EntrySnapshot {
            table,
            key,
            priority,
            was,
        } = snapshot;
        let target = self.target(*table)?;
        let there = target.table.find(key, *priority);
        match (was, there) {
            (None, None) => Ok(()),
            (None, Some(_)) => {
                let (entry, _) = target.table.delete(target.info, key, *priority)?;
                self.notify_removed(*table, entry, key, *priority);
                Ok(())
            }
            (Some(was), Some(_)) => {
                target.table.restore(was);
                let entry = was.entry;
                let has_meter = self.model.state.program.ir.direct_meter(*table).is_some();
                let action = Change::Table(*table, TableChange::Modified(entry));
                let meter = Change::Table(*table, TableChange::Metered(entry));
                let changes = [action, meter];
                self.notify_together(&changes[..1 + usize::from(has_meter)]);
                Ok(())
            }
            (Some(was), None) => {
                target.table.put_back(target.info, was);
                self.notify(&Change::Table(*table, TableChange::Inserted(was.entry)));
                self.put_younger_last(*table, was)
            }
        }
    }

    /// Moves the younger entries of the same priority behind a restored entry, so that lookups try the restored one
    /// first again.
    fn put_younger_last(&mut self, table: TableId, was: &SlotSnapshot) -> Controlled {
        for entry in &was.younger {
            let moved = self.target(table)?.table.put_last(*entry);
            if let Some((key, priority)) = moved {
                self.notify_removed(table, *entry, &key, priority);
                self.notify(&Change::Table(table, TableChange::Inserted(*entry)));
            }
        }
        Ok(())
    }

    fn notify_removed(
        &mut self,
        table: TableId,
        entry: EntryIndex,
        key: &[Matcher],
        priority: i32,
    ) {
        let removed = TableChange::Removed {
            entry,
            key,
            priority,
        };
        self.notify(&Change::Table(table, removed));
    }

    /// Saves the members and groups of a profile, and their use counts.
    pub fn profile_snapshot(&self, profile: ActionProfileId) -> Option<ProfileSnapshot> {
        let found = self.model.state.tables.profile(profile)?;
        Some(ProfileSnapshot(profile, found.clone()))
    }

    /// Brings a profile back to what [`profile_snapshot`](Self::profile_snapshot) saved.
    pub fn restore_profile(&mut self, snapshot: ProfileSnapshot) {
        let ProfileSnapshot(id, was) = snapshot;
        if let Some(profile) = self.model.state.tables.profiles.get_mut(id.index()) {
            *profile = was;
            self.notify(&Change::Profile(id));
        }
    }

    /// Saves cells of a meter array with buckets and counts, up to the end of the array.
    pub fn meter_snapshot(&self, meter: MeterId, cells: Range<u64>) -> MeterSnapshot {
        let meters = &self.model.state.externs.meters;
        let first = cells.start;
        let cell = |cell| meters.get(meter, usize::try_from(cell).ok()?).cloned();
        MeterSnapshot(meter, first, cells.map_while(cell).collect())
    }

    /// Brings cells back to what [`meter_snapshot`](Self::meter_snapshot) saved.
    pub fn restore_meter(&mut self, snapshot: MeterSnapshot) {
        let MeterSnapshot(id, first, cells) = snapshot;
        for (place, was) in (first..).zip(cells) {
            let Ok(place) = usize::try_from(place) else {
                return;
            };
            if let Some(cell) = self.model.state.externs.meters.get_mut(id, place) {
                *cell = was;
            }
            self.notify(&Change::Meter(id, place));
        }
    }

    /// Whether no packet waits between two of its passes (runs through ingress or egress). If none waits, a change made
    /// now applies to all passes of each packet.
    pub fn is_between_packets(&self) -> bool {
        let traffic = &self.model.traffic;
        traffic.egress.is_empty() && traffic.recirculation.is_empty()
    }
}
