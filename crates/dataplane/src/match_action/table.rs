//! One table: its entries, the index that finds them, its default action, its counters.

use std::collections::HashMap;

use super::{Call, entry, exact::ExactIndex, lpm::LpmIndex, ternary::OrderedIndex};
use crate::{
    control::{ControlError, ControlErrorKind, CounterValue, MatchField, TableEntry},
    externs::counter,
    program::{
        ActionInfo, MatchKind, TableInfo,
        ir::{Matcher, TableInit},
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

#[derive(Debug)]
struct Slot {
    key: Vec<Matcher>,
    priority: i32,
    call: Call,
    is_const: bool,
    counter: CounterValue,
}

/// A table's state.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    by_key: HashMap<(Vec<Matcher>, i32), EntryIndex>,
    index: Index,
    default: Option<Call>,
    initial_default: Option<Call>,
}

impl Table {
    pub(crate) fn new(info: &TableInfo, init: &TableInit) -> Self {
        let index = if info.has_priority() {
            Index::Ordered(OrderedIndex::default())
        } else if info.key.iter().any(|field| field.kind == MatchKind::Lpm) {
            Index::Lpm(LpmIndex::default())
        } else {
            Index::Exact(ExactIndex::default())
        };
        let default = init.default.as_ref().map(Call::from_program);
        let mut table = Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            index,
            initial_default: default.clone(),
            default,
        };
        for entry in &init.entries {
            table.put(
                info,
                Slot {
                    key: entry.key.clone(),
                    priority: entry.priority,
                    call: Call::from_program(&entry.action),
                    is_const: true,
                    counter: CounterValue::default(),
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
    pub(crate) fn account(&mut self, hit: Option<EntryIndex>, bytes: usize) -> Option<Call> {
        let Some(slot) = hit.and_then(|entry| self.slots.get_mut(entry.0)?.as_mut()) else {
            return self.default.clone();
        };
        counter::count(&mut slot.counter, bytes);
        Some(slot.call.clone())
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

    pub(crate) fn insert(
        &mut self,
        info: &TableInfo,
        key: Vec<Matcher>,
        priority: i32,
        call: Call,
        counter: CounterValue,
    ) -> Result<(), ControlError> {
        if self.find(&key, priority).is_some() {
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
        self.put(
            info,
            Slot {
                key,
                priority,
                call,
                is_const: false,
                counter,
            },
        );
        Ok(())
    }

    pub(crate) fn modify(
        &mut self,
        info: &TableInfo,
        key: &[Matcher],
        priority: i32,
        call: Call,
    ) -> Result<(), ControlError> {
        match self
            .find(key, priority)
            .and_then(|entry| self.slot_mut(entry))
        {
            Some(slot) => {
                slot.call = call;
                Ok(())
            }
            None => Err(self.not_found(info)),
        }
    }

    pub(crate) fn delete(
        &mut self,
        info: &TableInfo,
        key: &[Matcher],
        priority: i32,
    ) -> Result<(), ControlError> {
        let Some(entry) = self.by_key.remove(&(key.to_vec(), priority)) else {
            return Err(self.not_found(info));
        };
        match &mut self.index {
            Index::Exact(index) => index.remove(info, key),
            Index::Lpm(index) => index.remove(info, key),
            Index::Ordered(index) => index.remove(entry),
        }
        if let Some(slot) = self.slots.get_mut(entry.0) {
            *slot = None;
            self.free.push(entry.0);
        }
        Ok(())
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

    pub(crate) fn default_call(&self) -> Option<&Call> {
        self.default.as_ref()
    }

    /// Sets the default action; none goes back to the program's.
    pub(crate) fn set_default(&mut self, call: Option<Call>) {
        self.default = call.or_else(|| self.initial_default.clone());
    }

    pub(crate) fn entry(
        &self,
        info: &TableInfo,
        actions: &[ActionInfo],
        entry: EntryIndex,
    ) -> Option<TableEntry> {
        let slot = self.slot(entry)?;
        let key: Vec<MatchField> = entry::to_fields(info, &slot.key);
        Some(TableEntry {
            key,
            priority: slot.priority,
            action: slot.call.to_control(actions.get(slot.call.action.index())?),
            is_const: slot.is_const,
            counter: if info.with_counters {
                slot.counter
            } else {
                CounterValue::default()
            },
        })
    }

    /// Every entry, in the order of the slots.
    pub(crate) fn entries(&self, info: &TableInfo, actions: &[ActionInfo]) -> Vec<TableEntry> {
        let all = (0..self.slots.len()).map(EntryIndex);
        all.filter_map(|entry| self.entry(info, actions, entry))
            .collect()
    }
}
