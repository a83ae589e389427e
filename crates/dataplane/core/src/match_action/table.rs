//! One table: entries, index, default action, counters.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

use super::{
    Call, EntryAccount, EntryAction, EntryIndex, EntryView, Profile, entry, lpm::LpmIndex,
    ternary::OrderedIndex,
};
use crate::{
    ActionCall, ControlError, ControlErrorKind, Controlled, CounterValue, EntryHandle, MeterConfig,
    Nanos, ShardedMap, TableAction, TableEntry, WeightedCall, color,
    externs::meter::Meter,
    limits,
    program::{
        ActionInfo, HIDDEN, TableInfo,
        ir::{Matcher, MeterKind, TableInit},
    },
    refuse,
    trace::{format_mask, format_value},
    value::{self, Int},
};

#[derive(Debug)]
enum Index {
    Lpm(LpmIndex),
    Ordered(OrderedIndex),
}

#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub key: Vec<Matcher>,
    pub priority: i32,
    pub action: EntryAction,
    pub is_const: bool,
    /// Present if the table has direct meters.
    pub meter: Option<Box<Meter>>,
    /// Nanoseconds without a hit after which the entry is idle; with 0, it never becomes idle.
    pub idle_timeout_ns: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct SlotSnapshot {
    pub entry: EntryIndex,
    slot: Slot,
    account: EntryAccount,
    /// Entries of the same priority that lookups try after this entry.
    pub younger: Vec<EntryIndex>,
}

#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Option<Slot>>,
    /// Indexed like `slots`.
    pub accounts: Vec<EntryAccount>,
    /// Free slots; the lowest is used first.
    free: BinaryHeap<Reverse<usize>>,
    /// For each slot, how many earlier entries it has held, modulo 256.
    versions: Vec<u8>,
    by_key: ShardedMap<(Vec<Matcher>, i32), EntryIndex>,
    index: Index,
    default: Option<EntryAction>,
    initial_default: Option<EntryAction>,
    /// A lower bound of the time at which the next entry becomes idle.
    next_idle: Option<Nanos>,
    /// The earliest time of the next search for idle entries.
    next_sweep: Nanos,
}

impl Table {
    pub(crate) fn new(info: &TableInfo, init: &TableInit, now: Nanos) -> Self {
        let index = if info.has_priority() {
            Index::Ordered(OrderedIndex::default())
        } else {
            Index::Lpm(LpmIndex::default())
        };
        let call = |bound| EntryAction::Call(Call::from_program(bound));
        let default = init.default.as_ref().map(call);
        let mut table = Self {
            slots: Vec::new(),
            accounts: Vec::new(),
            free: BinaryHeap::new(),
            versions: Vec::new(),
            by_key: ShardedMap::default(),
            index,
            initial_default: default.clone(),
            default,
            next_idle: None,
            next_sweep: 0,
        };
        for entry in &init.entries {
            let slot = Slot {
                key: entry.key.clone(),
                priority: entry.priority,
                action: call(&entry.action),
                is_const: entry.is_const,
                meter: info.with_meters.then(Box::default),
                idle_timeout_ns: 0,
            };
            let account = EntryAccount {
                last_hit: now,
                ..EntryAccount::default()
            };
            table.put(info, slot, account);
        }
        table
    }

    fn put(&mut self, info: &TableInfo, slot: Slot, account: EntryAccount) -> EntryIndex {
        let free = self.free.pop().map(|Reverse(position)| position);
        let position = free.unwrap_or(self.slots.len());
        self.put_at(info, position, slot, account)
    }

    /// Stores an entry at a position that is neither occupied nor in `free`.
    fn put_at(
        &mut self,
        info: &TableInfo,
        position: usize,
        slot: Slot,
        account: EntryAccount,
    ) -> EntryIndex {
        let entry = EntryIndex(position);
        self.by_key.insert((slot.key.clone(), slot.priority), entry);
        match &mut self.index {
            Index::Lpm(index) => index.insert(info, &slot.key, entry),
            Index::Ordered(index) => index.insert(slot.priority, entry),
        }
        match self.slots.get_mut(position) {
            Some(free) => {
                *free = Some(slot);
                self.accounts[position] = account;
            }
            None => {
                self.slots.push(Some(slot));
                self.accounts.push(account);
                self.versions.push(0);
            }
        }
        entry
    }

    /// Returns the positions of all entries; among entries of equal priority, the older comes first. For a table
    /// without priorities, returns the free positions, too.
    pub(crate) fn in_order(&self) -> Vec<EntryIndex> {
        match &self.index {
            Index::Ordered(index) => index.in_order().collect(),
            _ => (0..self.slots.len()).map(EntryIndex).collect(),
        }
    }

    pub(crate) fn view(&self, entry: EntryIndex) -> Option<EntryView<'_>> {
        let slot = self.slot(entry)?;
        Some(EntryView {
            key: &slot.key,
            priority: slot.priority,
            action: &slot.action,
            has_meter: slot.meter.is_some(),
        })
    }

    pub(crate) fn lookup(
        &self,
        info: &TableInfo,
        key: &[Int],
        bytes: &mut Vec<u8>,
    ) -> Option<EntryIndex> {
        match &self.index {
            Index::Lpm(index) => index.lookup(info, key, bytes),
            Index::Ordered(index) => index.lookup(info, key, |entry| {
                self.slot(entry).map_or(&[][..], |slot| slot.key.as_slice())
            }),
        }
    }

    fn slot(&self, entry: EntryIndex) -> Option<&Slot> {
        self.slots.get(entry.0)?.as_ref()
    }

    fn slot_mut(&mut self, entry: EntryIndex) -> Option<&mut Slot> {
        self.slots.get_mut(entry.0)?.as_mut()
    }

    /// Counts hits of an entry; `last` is the time of the last hit.
    pub(crate) fn count_hits(&mut self, entry: EntryIndex, hits: CounterValue, last: Nanos) {
        let Some(account) = self.accounts.get_mut(entry.0) else {
            return;
        };
        account.counter.add(hits);
        account.last_hit = account.last_hit.max(last);
        if std::mem::take(&mut account.is_idle) {
            let timeout = self.slot(entry).map_or(0, |slot| slot.idle_timeout_ns);
            self.watch(last, timeout);
        }
    }

    pub(crate) fn action(&self, entry: EntryIndex) -> Option<&EntryAction> {
        self.slot(entry).map(|slot| &slot.action)
    }

    pub(crate) fn color(
        &mut self,
        entry: EntryIndex,
        kind: MeterKind,
        micros: u64,
        bytes: usize,
    ) -> u8 {
        let slot = self.slot_mut(entry);
        let meter = slot.and_then(|slot| slot.meter.as_mut());
        meter.map_or(color::GREEN, |meter| meter.color(kind, micros, bytes))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns an entry's key as text, in which secret fields are hidden.
    pub(crate) fn describe(
        &self,
        info: &TableInfo,
        are_secret: &[bool],
        entry: EntryIndex,
    ) -> String {
        let Some(slot) = self.slot(entry) else {
            return "?".into();
        };
        let fields = info.key.iter().zip(&slot.key).zip(are_secret);
        let fields = fields.map(|((field, matcher), is_secret)| {
            if *is_secret {
                return HIDDEN.to_owned();
            }
            let text = |value: &Int| {
                let bytes = value::to_be_bytes(value, field.width_bits);
                format_value(&field.name, field.width_bits, &bytes)
            };
            match matcher {
                Matcher::Exact(value) | Matcher::Optional(Some(value)) => text(value),
                Matcher::Optional(None) => "_".into(),
                Matcher::Lpm { value, prefix_len } => format!("{}/{prefix_len}", text(value)),
                Matcher::Ternary { value, mask } => {
                    let mask = value::to_be_bytes(mask, field.width_bits);
                    let mask = format_mask(&field.name, field.width_bits, &mask);
                    format!("{} &&& {mask}", text(value))
                }
                Matcher::Range { low, high } => format!("{}..{}", text(low), text(high)),
            }
        });
        format!("({})", fields.collect::<Vec<_>>().join(", "))
    }

    pub(crate) fn find(&self, key: &[Matcher], priority: i32) -> Option<EntryIndex> {
        self.by_key.get(&(key.to_vec(), priority)).copied()
    }

    pub(crate) fn insert(
        &mut self,
        info: &TableInfo,
        slot: Slot,
        account: EntryAccount,
    ) -> Controlled<EntryIndex> {
        if self.find(&slot.key, slot.priority).is_some() {
            let message = format!("table \"{}\" has this entry already", info.name);
            return refuse(ControlErrorKind::AlreadyExists, message);
        }
        if self.len() >= info.size {
            let TableInfo { name, size, .. } = info;
            let message = format!("table \"{name}\" is full, its size is {size}");
            return refuse(ControlErrorKind::ResourceExhausted, message);
        }
        self.watch(account.last_hit, slot.idle_timeout_ns);
        Ok(self.put(info, slot, account))
    }

    /// Makes sure that the search for idle entries runs when an entry with this last hit and timeout may be idle.
    pub(crate) fn watch(&mut self, last_hit: Nanos, idle_timeout_ns: u64) {
        watch(&mut self.next_idle, last_hit, idle_timeout_ns);
    }

    pub(crate) fn next_idle(&self) -> Option<Nanos> {
        self.next_idle.map(|at| at.max(self.next_sweep))
    }

    /// Looks up an entry that the control plane may change.
    pub(crate) fn changeable(
        &mut self,
        info: &TableInfo,
        key: &[Matcher],
        priority: i32,
    ) -> Controlled<(EntryIndex, &mut Slot)> {
        let entry = self.find(key, priority).ok_or_else(|| no_entry(info))?;
        match self.slot_mut(entry) {
            Some(slot) if !slot.is_const => Ok((entry, slot)),
            _ => {
                let found = "has this entry as a constant entry of the program";
                let message = format!("table \"{}\" {found}", info.name);
                refuse(ControlErrorKind::PermissionDenied, message)
            }
        }
    }

    /// Restarts the idle timeout of an entry that the control plane has written.
    pub(crate) fn begin_idle_timeout(&mut self, entry: EntryIndex, now: Nanos) {
        let timeout = self.slot(entry).map_or(0, |slot| slot.idle_timeout_ns);
        if let Some(account) = self.accounts.get_mut(entry.0) {
            account.last_hit = now;
            account.is_idle = false;
        }
        self.watch(now, timeout);
    }

    /// Removes an entry; returns its position and contents.
    pub(crate) fn delete(
        &mut self,
        info: &TableInfo,
        key: &[Matcher],
        priority: i32,
    ) -> Controlled<(EntryIndex, Option<Slot>)> {
        let (entry, _) = self.changeable(info, key, priority)?;
        self.by_key.remove(&(key.to_vec(), priority));
        match &mut self.index {
            Index::Lpm(index) => index.remove(info, key),
            Index::Ordered(index) => index.remove(entry),
        }
        let slot = self.slots.get_mut(entry.0).and_then(Option::take);
        self.free.push(Reverse(entry.0));
        if let Some(version) = self.versions.get_mut(entry.0) {
            *version = version.wrapping_add(1);
        }
        Ok((entry, slot))
    }

    pub(crate) fn snapshot(&self, key: &[Matcher], priority: i32) -> Option<SlotSnapshot> {
        let entry = self.find(key, priority)?;
        let younger = match &self.index {
            Index::Ordered(index) => index.after(entry),
            Index::Lpm(_) => Vec::new(),
        };
        Some(SlotSnapshot {
            entry,
            slot: self.slot(entry)?.clone(),
            account: *self.accounts.get(entry.0)?,
            younger,
        })
    }

    /// Restores an entry that still exists.
    pub(crate) fn restore(&mut self, snapshot: &SlotSnapshot) {
        let place = snapshot.entry.0;
        self.slots[place] = Some(snapshot.slot.clone());
        self.accounts[place] = snapshot.account;
        self.watch(snapshot.account.last_hit, snapshot.slot.idle_timeout_ns);
    }

    /// Restores a deleted entry at its old position, which is free. The caller then moves the younger entries of the
    /// same priority behind the restored entry.
    pub(crate) fn put_back(&mut self, info: &TableInfo, snapshot: &SlotSnapshot) {
        let place = snapshot.entry.0;
        match self.free.peek() {
            Some(Reverse(lowest)) if *lowest == place => {
                self.free.pop();
            }
            _ => self.free.retain(|Reverse(free)| *free != place),
        }
        self.put_at(info, place, snapshot.slot.clone(), snapshot.account);
        self.watch(snapshot.account.last_hit, snapshot.slot.idle_timeout_ns);
    }

    /// Moves an entry behind the other entries of the same priority; returns the moved entry's key and priority.
    pub(crate) fn put_last(&mut self, entry: EntryIndex) -> Option<(Vec<Matcher>, i32)> {
        let slot = self.slots.get(entry.0)?.as_ref()?;
        if let Index::Ordered(index) = &mut self.index {
            index.remove(entry);
            index.insert(slot.priority, entry);
        }
        Some((slot.key.clone(), slot.priority))
    }

    pub(crate) fn meter_mut(&mut self, entry: EntryIndex) -> Option<&mut Meter> {
        self.slot_mut(entry)?.meter.as_deref_mut()
    }

    pub(crate) fn meter(&self, entry: EntryIndex) -> Option<MeterConfig> {
        let slot = self.slot(entry)?;
        slot.meter.as_ref()?.config()
    }

    pub(crate) fn default_action(&self) -> Option<&EntryAction> {
        self.default.as_ref()
    }

    /// Sets the default action, or for `None` restores the program's default action; returns the previous default
    /// action.
    pub(crate) fn set_default(&mut self, action: Option<EntryAction>) -> Option<EntryAction> {
        let action = action.or_else(|| self.initial_default.clone());
        std::mem::replace(&mut self.default, action)
    }

    /// Returns the entries that became idle since the last search.
    pub(crate) fn sweep_idle(&mut self, now: Nanos) -> Vec<EntryIndex> {
        if self.next_idle().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let n_slots = self.slots.len() as u64;
        self.next_sweep = now.saturating_add(n_slots * limits::IDLE_SWEEP_NS_PER_ENTRY);
        self.next_idle = None;
        let mut idle = Vec::new();
        let slots = self.slots.iter().zip(&mut self.accounts).enumerate();
        for (position, (slot, account)) in slots {
            let Some(slot) = slot.as_ref() else { continue };
            if slot.idle_timeout_ns == 0 || account.is_idle {
                continue;
            }
            if account.last_hit.saturating_add(slot.idle_timeout_ns) <= now {
                account.is_idle = true;
                idle.push(EntryIndex(position));
            } else {
                watch(&mut self.next_idle, account.last_hit, slot.idle_timeout_ns);
            }
        }
        idle
    }

    /// BMv2's handle of an entry; `None` if the slot does not fit into a handle.
    pub(crate) fn handle(&self, entry: EntryIndex) -> Option<EntryHandle> {
        EntryHandle::new(entry.0, *self.versions.get(entry.0)?)
    }

    /// If the table is empty, restarts the numbering of handles as if no slot had ever been used. If it has entries,
    /// does nothing.
    pub(crate) fn forget_handles(&mut self) {
        if self.len() == 0 {
            self.versions.fill(0);
        }
    }

    /// Number of slots, occupied and free.
    pub(crate) fn n_places(&self) -> usize {
        self.slots.len()
    }
}

fn watch(next: &mut Option<Nanos>, last_hit: Nanos, idle_timeout_ns: u64) {
    if idle_timeout_ns > 0 {
        let due = last_hit.saturating_add(idle_timeout_ns);
        *next = Some(next.map_or(due, |next| next.min(due)));
    }
}

pub(crate) fn no_entry(info: &TableInfo) -> ControlError {
    let message = format!("table \"{}\" has no such entry", info.name);
    ControlError::new(ControlErrorKind::NotFound, message)
}

/// A table as the control plane reads it.
pub(crate) struct TableView<'a> {
    pub info: &'a TableInfo,
    pub table: &'a Table,
    pub actions: &'a [ActionInfo],
    pub profile: Option<&'a Profile>,
    pub now: Nanos,
}

impl TableView<'_> {
    pub(crate) fn entry(&self, entry: EntryIndex) -> Option<TableEntry> {
        let slot = self.table.slot(entry)?;
        let account = self.table.accounts.get(entry.0)?;
        let counter = self.info.with_counters.then_some(account.counter);
        let meter = slot.meter.as_ref();
        Some(TableEntry {
            key: entry::to_fields(self.info, &slot.key),
            priority: slot.priority,
            action: self.action(&slot.action)?,
            is_const: slot.is_const,
            counter: counter.unwrap_or_default(),
            meter: meter.and_then(|meter| meter.config()),
            meter_counts: meter.map(|meter| meter.counts).unwrap_or_default(),
            idle_timeout_ns: slot.idle_timeout_ns,
            since_last_hit_ns: self.now.saturating_sub(account.last_hit),
        })
    }

    pub(crate) fn entries_in(&self, places: Range<usize>) -> Vec<TableEntry> {
        let places = places.start..places.end.min(self.table.n_places());
        let entries = places.map(EntryIndex);
        entries.filter_map(|entry| self.entry(entry)).collect()
    }

    fn call(&self, call: &Call) -> Option<ActionCall> {
        Some(call.to_control(self.actions.get(call.action.index())?))
    }

    pub(crate) fn action(&self, action: &EntryAction) -> Option<TableAction> {
        Some(match action {
            EntryAction::Call(call) => TableAction::Call(self.call(call)?),
            EntryAction::Member(handle) => TableAction::Member(self.profile?.id_of(*handle)?),
            EntryAction::Group(id) => TableAction::Group(*id),
            EntryAction::OneShot(choices) => {
                let calls = choices.iter().filter_map(|(weight, watch, call)| {
                    let call = self.call(call)?;
                    Some(WeightedCall {
                        call,
                        weight,
                        watch,
                    })
                });
                TableAction::OneShot(calls.collect())
            }
        })
    }
}
