//! One table: its entries, the index that finds them, its default action, its counters.

use std::collections::HashMap;

use super::{
    Call, EntryAction, Profile, entry, exact::ExactIndex, lpm::LpmIndex, ternary::OrderedIndex,
};
use crate::{
    Nanos,
    control::{
        ControlError, ControlErrorKind, CounterValue, MatchField, MeterConfig, TableAction,
        TableEntry, WeightedCall,
    },
    externs::{
        counter,
        meter::{self, Meter},
    },
    program::{
        ActionInfo, MatchKind, TableInfo,
        ir::{Matcher, MeterKind, TableInit},
    },
    trace::{format_mask, format_value},
    value::{self, Int},
};

/// Position of an entry in its table; stays the same as long as the entry is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryIndex(usize);

#[derive(Debug)]
enum Index {
    Exact(ExactIndex),
    Lpm(LpmIndex),
    Ordered(OrderedIndex),
}

/// An entry.
#[derive(Debug)]
pub(crate) struct Slot {
    pub key: Vec<Matcher>,
    pub priority: i32,
    pub action: EntryAction,
    pub is_const: bool,
    pub counter: CounterValue,
    /// None is green.
    pub meter: Option<Box<Meter>>,
    /// Nanoseconds without a hit after which the entry is idle; 0 is never.
    pub idle_timeout_ns: u64,
    pub last_hit: Nanos,
    /// The control plane knows that the entry is idle.
    pub is_idle: bool,
}

/// A table's state.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    by_key: HashMap<(Vec<Matcher>, i32), EntryIndex>,
    index: Index,
    default: Option<EntryAction>,
    initial_default: Option<EntryAction>,
    /// When the next entry may have become idle; never later than that.
    next_idle: Option<Nanos>,
}

impl Table {
    pub(crate) fn new(info: &TableInfo, init: &TableInit, now: Nanos) -> Self {
        let index = if info.has_priority() {
            Index::Ordered(OrderedIndex::default())
        } else if info.key.iter().any(|field| field.kind == MatchKind::Lpm) {
            Index::Lpm(LpmIndex::default())
        } else {
            Index::Exact(ExactIndex::default())
        };
        let call = |bound| EntryAction::Call(Call::from_program(bound));
        let default = init.default.as_ref().map(call);
        let mut table = Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            index,
            initial_default: default.clone(),
            default,
            next_idle: None,
        };
        for entry in &init.entries {
            table.put(
                info,
                Slot {
                    key: entry.key.clone(),
                    priority: entry.priority,
                    action: call(&entry.action),
                    is_const: entry.is_const,
                    counter: CounterValue::default(),
                    meter: None,
                    idle_timeout_ns: 0,
                    last_hit: now,
                    is_idle: false,
                },
            );
        }
        table
    }

    fn put(&mut self, info: &TableInfo, slot: Slot) {
        let position = self.free.pop().unwrap_or(self.slots.len());
        let entry = EntryIndex(position);
        self.by_key.insert((slot.key.clone(), slot.priority), entry);
        match &mut self.index {
            Index::Exact(index) => index.insert(info, &slot.key, entry),
            Index::Lpm(index) => index.insert(info, &slot.key, entry),
            Index::Ordered(index) => index.insert(slot.priority, entry),
        }
        match self.slots.get_mut(position) {
            Some(free) => *free = Some(slot),
            None => self.slots.push(Some(slot)),
        }
    }

    pub(crate) fn lookup(
        &self,
        info: &TableInfo,
        key: &[Int],
        bytes: &mut Vec<u8>,
    ) -> Option<EntryIndex> {
        match &self.index {
            Index::Exact(index) => index.lookup(info, key, bytes),
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

    /// Counts a hit at its entry and says what runs.
    pub(crate) fn account(
        &mut self,
        hit: Option<EntryIndex>,
        bytes: usize,
        now: Nanos,
    ) -> Option<&EntryAction> {
        let Some(slot) = hit.and_then(|entry| self.slots.get_mut(entry.0)?.as_mut()) else {
            return self.default.as_ref();
        };
        counter::count(&mut slot.counter, bytes);
        slot.last_hit = now;
        if std::mem::take(&mut slot.is_idle) {
            watch(&mut self.next_idle, now, slot.idle_timeout_ns);
        }
        Some(&slot.action)
    }

    /// The colour that an entry's meter gives to a packet.
    pub(crate) fn color(
        &mut self,
        entry: EntryIndex,
        kind: MeterKind,
        micros: u64,
        bytes: usize,
    ) -> u8 {
        let slot = self.slot_mut(entry);
        let meter = slot.and_then(|slot| slot.meter.as_mut());
        meter.map_or(meter::GREEN, |meter| meter.color(kind, micros, bytes))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// An entry's key as a person reads it.
    pub(crate) fn describe(&self, info: &TableInfo, entry: EntryIndex) -> String {
        let Some(slot) = self.slot(entry) else {
            return "?".into();
        };
        let fields = info.key.iter().zip(&slot.key).map(|(field, matcher)| {
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

    /// Whether there is an entry of this key.
    pub(crate) fn find(&self, key: &[Matcher], priority: i32) -> Option<EntryIndex> {
        self.by_key.get(&(key.to_vec(), priority)).copied()
    }

    pub(crate) fn insert(&mut self, info: &TableInfo, slot: Slot) -> Result<(), ControlError> {
        if self.find(&slot.key, slot.priority).is_some() {
            return Err(self.error(
                info,
                ControlErrorKind::AlreadyExists,
                "has this entry already",
            ));
        }
        if self.len() >= info.size {
            let message = format!("is full, its size is {}", info.size);
            return Err(self.error(info, ControlErrorKind::ResourceExhausted, &message));
        }
        self.watch(slot.last_hit, slot.idle_timeout_ns);
        self.put(info, slot);
        Ok(())
    }

    /// Looks again when an entry may have become idle.
    pub(crate) fn watch(&mut self, last_hit: Nanos, idle_timeout_ns: u64) {
        watch(&mut self.next_idle, last_hit, idle_timeout_ns);
    }

    pub(crate) fn next_idle(&self) -> Option<Nanos> {
        self.next_idle
    }

    /// An entry that a control plane may change.
    pub(crate) fn changeable(
        &mut self,
        info: &TableInfo,
        key: &[Matcher],
        priority: i32,
    ) -> Result<&mut Slot, ControlError> {
        let Some(entry) = self.find(key, priority) else {
            return Err(self.not_found(info));
        };
        let fixed = self.error(
            info,
            ControlErrorKind::PermissionDenied,
            "has this entry from the program, which fixes it",
        );
        match self.slot_mut(entry) {
            Some(slot) if !slot.is_const => Ok(slot),
            _ => Err(fixed),
        }
    }

    /// Takes an entry away and says what it ran.
    pub(crate) fn delete(
        &mut self,
        info: &TableInfo,
        key: &[Matcher],
        priority: i32,
    ) -> Result<Option<EntryAction>, ControlError> {
        self.changeable(info, key, priority)?;
        let Some(entry) = self.by_key.remove(&(key.to_vec(), priority)) else {
            return Err(self.not_found(info));
        };
        match &mut self.index {
            Index::Exact(index) => index.remove(info, key),
            Index::Lpm(index) => index.remove(info, key),
            Index::Ordered(index) => index.remove(entry),
        }
        let slot = self.slots.get_mut(entry.0).and_then(Option::take);
        self.free.push(entry.0);
        Ok(slot.map(|slot| slot.action))
    }

    pub(crate) fn not_found(&self, info: &TableInfo) -> ControlError {
        self.error(info, ControlErrorKind::NotFound, "has no such entry")
    }

    fn error(&self, info: &TableInfo, kind: ControlErrorKind, what: &str) -> ControlError {
        ControlError::new(kind, format!("table \"{}\" {what}", info.name))
    }

    /// The direct counter of an entry.
    pub(crate) fn counter_mut(&mut self, entry: EntryIndex) -> Option<&mut CounterValue> {
        self.slot_mut(entry).map(|slot| &mut slot.counter)
    }

    /// The direct meter of an entry.
    pub(crate) fn meter_mut(&mut self, entry: EntryIndex) -> Option<&mut Option<Box<Meter>>> {
        self.slot_mut(entry).map(|slot| &mut slot.meter)
    }

    pub(crate) fn meter(&self, entry: EntryIndex) -> Option<MeterConfig> {
        let slot = self.slot(entry)?;
        slot.meter.as_ref().map(|meter| meter.config())
    }

    pub(crate) fn default_action(&self) -> Option<&EntryAction> {
        self.default.as_ref()
    }

    /// Sets the default action, or goes back to the program's; gives what it was.
    pub(crate) fn set_default(&mut self, action: Option<EntryAction>) -> Option<EntryAction> {
        let action = action.or_else(|| self.initial_default.clone());
        std::mem::replace(&mut self.default, action)
    }

    /// Which entries have become idle by now; each is told once.
    pub(crate) fn sweep_idle(&mut self, now: Nanos) -> Vec<EntryIndex> {
        if self.next_idle.is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.next_idle = None;
        let mut idle = Vec::new();
        for (position, slot) in self.slots.iter_mut().enumerate() {
            let Some(slot) = slot.as_mut() else { continue };
            if slot.idle_timeout_ns == 0 || slot.is_idle {
                continue;
            }
            if slot.last_hit.saturating_add(slot.idle_timeout_ns) <= now {
                slot.is_idle = true;
                idle.push(EntryIndex(position));
            } else {
                watch(&mut self.next_idle, slot.last_hit, slot.idle_timeout_ns);
            }
        }
        idle
    }

    pub(crate) fn entry(
        &self,
        view: &EntryView<'_>,
        info: &TableInfo,
        entry: EntryIndex,
    ) -> Option<TableEntry> {
        let slot = self.slot(entry)?;
        let key: Vec<MatchField> = entry::to_fields(info, &slot.key);
        Some(TableEntry {
            key,
            priority: slot.priority,
            action: view.action(&slot.action)?,
            is_const: slot.is_const,
            counter: if info.with_counters {
                slot.counter
            } else {
                CounterValue::default()
            },
            meter: slot.meter.as_ref().map(|meter| meter.config()),
            idle_timeout_ns: slot.idle_timeout_ns,
            since_last_hit_ns: view.now.saturating_sub(slot.last_hit),
        })
    }

    /// Every entry, in the order of the slots.
    pub(crate) fn entries(&self, view: &EntryView<'_>, info: &TableInfo) -> Vec<TableEntry> {
        let all = (0..self.slots.len()).map(EntryIndex);
        all.filter_map(|entry| self.entry(view, info, entry))
            .collect()
    }
}

fn watch(next: &mut Option<Nanos>, last_hit: Nanos, idle_timeout_ns: u64) {
    if idle_timeout_ns > 0 {
        let due = last_hit.saturating_add(idle_timeout_ns);
        *next = Some(next.map_or(due, |next| next.min(due)));
    }
}

/// What is needed to show an entry to the control plane.
pub(crate) struct EntryView<'a> {
    pub actions: &'a [ActionInfo],
    /// The table's action profile.
    pub profile: Option<&'a Profile>,
    pub now: Nanos,
}

impl EntryView<'_> {
    fn call(&self, call: &Call) -> Option<crate::ActionCall> {
        Some(call.to_control(self.actions.get(call.action.index())?))
    }

    /// What an entry runs, with the control plane's ids.
    pub(crate) fn action(&self, action: &EntryAction) -> Option<TableAction> {
        Some(match action {
            EntryAction::Call(call) => TableAction::Call(self.call(call)?),
            EntryAction::Member(handle) => TableAction::Member(self.profile?.id_of(*handle)?),
            EntryAction::Group(id) => TableAction::Group(*id),
            EntryAction::OneShot(choices) => {
                let calls = choices.iter().filter_map(|(weight, call)| {
                    let call = self.call(call)?;
                    Some(WeightedCall { call, weight })
                });
                TableAction::OneShot(calls.collect())
            }
        })
    }
}
