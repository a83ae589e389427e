//! Tables with ternary, range or optional fields: a linear search in the order of priority. Of two
//! entries with the same priority the older comes first.

use super::EntryIndex;
use crate::{
    program::{KeyField, TableInfo, ir::Matcher},
    value::{self, Int},
};

/// Entries, highest priority first.
#[derive(Debug, Default)]
pub(super) struct OrderedIndex {
    order: Vec<(i32, EntryIndex)>,
}

impl OrderedIndex {
    /// Returns the first entry that matches. `key_of` gives the key of an entry.
    pub(super) fn lookup<'k>(
        &self,
        info: &TableInfo,
        key: &[Int],
        key_of: impl Fn(EntryIndex) -> &'k [Matcher],
    ) -> Option<EntryIndex> {
        self.order.iter().map(|(_, entry)| *entry).find(|entry| {
            let matchers = key_of(*entry);
            info.key
                .iter()
                .zip(matchers)
                .zip(key)
                .all(|((field, matcher), value)| matches(matcher, field, value))
        })
    }

    pub(super) fn in_order(&self) -> impl Iterator<Item = EntryIndex> {
        self.order.iter().map(|(_, entry)| *entry)
    }

    pub(super) fn insert(&mut self, priority: i32, entry: EntryIndex) {
        let position = self.order.partition_point(|(other, _)| *other >= priority);
        self.order.insert(position, (priority, entry));
    }

    /// Returns the entries of the same priority that the search tries after `entry`.
    pub(super) fn after(&self, entry: EntryIndex) -> Vec<EntryIndex> {
        let mut order = self.order.iter();
        let Some((priority, _)) = order.find(|(_, other)| *other == entry) else {
            return Vec::new();
        };
        let younger = order.take_while(|(other, _)| other == priority);
        younger.map(|(_, entry)| *entry).collect()
    }

    pub(super) fn remove(&mut self, entry: EntryIndex) {
        self.order.retain(|(_, other)| *other != entry);
    }
}

fn matches(matcher: &Matcher, field: &KeyField, value: &Int) -> bool {
    match matcher {
        Matcher::Exact(wanted) | Matcher::Optional(Some(wanted)) => wanted == value,
        Matcher::Optional(None) => true,
        Matcher::Lpm {
            value: wanted,
            prefix_len,
        } => &(value & value::prefix_mask(field.width_bits, *prefix_len)) == wanted,
        Matcher::Ternary {
            value: wanted,
            mask,
        } => &(value & mask) == wanted,
        Matcher::Range { low, high } if field.is_signed => {
            let place = field.order(value);
            field.order(low) <= place && place <= field.order(high)
        }
        Matcher::Range { low, high } => low <= value && value <= high,
    }
}
