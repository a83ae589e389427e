//! Lookup by ternary, range and optional fields with priorities: tuple space search for entries whose mask many entries
//! share, and bitmaps for the other entries.
//!
//! One hash of the key's masked bits finds the entries of one mask (a *tuple*). Tuples are searched in the order of
//! their best entries, until no remaining tuple can beat the entry found. A tuple costs one hash however many entries
//! it has, so it is worth its cost only if it has enough entries. The entries of smaller groups are in [`block`]s. A
//! block of 64 entries with any masks costs about as much as one tuple. So a set in which every entry has its own mask
//! costs no more than a linear search with one or two instructions per entry.
//!
//! Ranges are not part of a mask. A lookup compares the ranges of the entries that the rest of the key finds. In
//! blocks, ranges also filter the entries.

mod block;
mod store;
mod tuple;

use std::collections::HashMap;

use block::Blocks;
pub use store::FieldRange;
use store::{Rank, Store};
use tuple::Tuple;

use super::{MISS, shape::FieldPlace};

/// The least number of entries with one mask that form a tuple. Fewer entries cost a lookup less if they are in blocks,
/// as measured (the benchmark `lookup`, docs/performance.md).
const TUPLE_ENTRIES_MIN: usize = 16;

/// A tuple that shrinks to this many entries is dissolved. This number is lower than the number that forms a tuple.
/// Otherwise, one entry that is added and removed repeatedly would move the other entries each time.
const TUPLE_ENTRIES_KEPT: usize = 6;

#[derive(Debug, Clone, Default)]
struct Group {
    tuple: Option<u32>,
    /// The entries of the group, which are in blocks; empty if the group has a tuple.
    loose: Vec<u32>,
}

#[derive(Debug, Clone)]
pub struct TernaryIndex {
    store: Store,
    blocks: Blocks,
    tuples: Vec<Tuple>,
    /// The tuples, sorted by the rank of their best entry.
    order: Vec<(Rank, u32)>,
    free_tuples: Vec<u32>,
    groups: HashMap<Box<[u64]>, Group>,
    len: usize,
    age: u64,
    tuple_entries_min: usize,
}

impl TernaryIndex {
    /// An empty index for keys of `words` words. `fields` are all fields of the key, `range_fields` are the fields that
    /// are matched by ranges.
    pub fn new(words: usize, fields: &[FieldPlace], range_fields: &[FieldPlace]) -> Self {
        let mut used = vec![0; words];
        for field in fields {
            field.put(&vec![u64::MAX; field.words()], &mut used);
        }
        Self {
            store: Store::new(words, range_fields.to_vec()),
            blocks: Blocks::new(&used),
            tuples: Vec::new(),
            order: Vec::new(),
            free_tuples: Vec::new(),
            groups: HashMap::new(),
            len: 0,
            age: 0,
            tuple_entries_min: TUPLE_ENTRIES_MIN,
        }
    }

    /// Sets, for measurements, how many entries with one mask form a tuple. Call it before the first insert.
    #[must_use]
    pub fn with_tuple_entries_min(mut self, entries: usize) -> Self {
        self.tuple_entries_min = entries;
        self
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn n_tuples(&self) -> usize {
        self.order.len()
    }

    /// About how many bytes of memory the index takes.
    pub fn memory_bytes(&self) -> usize {
        let tuples = self.tuples.iter().map(Tuple::memory_bytes);
        self.store.memory_bytes() + self.blocks.memory_bytes() + tuples.sum::<usize>()
    }

    /// The first entry that matches a key, or [`MISS`].
    #[inline]
    pub fn lookup(&self, key: &[u64]) -> u32 {
        match self.store.words {
            1 => self.find(1, key),
            2 => self.find(2, key),
            3 => self.find(3, key),
            words => self.find(words, key),
        }
    }

    /// Looks up a key as [`TernaryIndex::lookup`] does. The caller gives the number of words.
    #[inline(always)]
    pub(super) fn find(&self, words: usize, key: &[u64]) -> u32 {
        let key = &key[..words];
        let (mut best, mut found) = (Rank::LAST, MISS);
        for (first, tuple) in &self.order {
            if *first > best {
                break;
            }
            let entry = self.tuples[*tuple as usize].lookup(words, &self.store, key);
            if entry != MISS {
                let rank = self.store.rank(entry);
                if rank < best {
                    (best, found) = (rank, entry);
                }
            }
        }
        let loose = self.blocks.lookup(words, &self.store, key, best);
        loose.unwrap_or(found)
    }

    /// Adds an entry. `entry` is a small number that no other entry has. The value must have no bits outside the mask,
    /// and the mask must have no bits of range fields; `ranges` must be in the order of the range fields. Among
    /// matching entries of one priority, a lookup finds the entry that was added first.
    pub fn insert(
        &mut self,
        value: &[u64],
        mask: &[u64],
        ranges: &[FieldRange],
        priority: i32,
        entry: u32,
    ) {
        let rank = Rank::new(priority, self.age);
        self.age += 1;
        self.len += 1;
        self.store.put(entry, value, mask, ranges, rank);
        let mask = self.store.mask(entry);
        let group = match self.groups.get_mut(mask) {
            Some(group) => group,
            None => self.groups.entry(mask.into()).or_default(),
        };
        match group.tuple {
            Some(tuple) => {
                if !self.chain(tuple, entry) {
                    self.blocks.insert(&self.store, entry);
                }
            }
            None => {
                group.loose.push(entry);
                let full = group.loose.len() >= self.tuple_entries_min;
                self.blocks.insert(&self.store, entry);
                if full {
                    self.make_tuple(entry);
                }
            }
        }
    }

    pub fn remove(&mut self, entry: u32) {
        let mask: Box<[u64]> = self.store.mask(entry).into();
        self.len -= 1;
        let tuple = self.groups.get(&mask).and_then(|group| group.tuple);
        if let Some(tuple) = tuple
            && self.unchain(tuple, entry)
        {
            if self.tuples[tuple as usize].len() <= self.tuple_entries_kept() {
                self.end_tuple(tuple, &mask);
            }
            return;
        }
        // The entry is in a block: its mask has no tuple, or its value has too many entries.
        if let Some(group) = self.groups.get_mut(&mask) {
            group.loose.retain(|other| *other != entry);
            if group.loose.is_empty() && group.tuple.is_none() {
                self.groups.remove(&mask);
            }
        }
        self.blocks.remove(&self.store, entry);
    }

    fn tuple_entries_kept(&self) -> usize {
        TUPLE_ENTRIES_KEPT.min(self.tuple_entries_min / 2)
    }

    /// Moves the entries with the mask of `entry` from the blocks to a new tuple.
    fn make_tuple(&mut self, entry: u32) {
        let mask: Box<[u64]> = self.store.mask(entry).into();
        let Some(group) = self.groups.get_mut(&mask) else {
            return;
        };
        let loose = std::mem::take(&mut group.loose);
        let made = Tuple::new(mask.clone());
        let tuple = match self.free_tuples.pop() {
            Some(tuple) => {
                self.tuples[tuple as usize] = made;
                tuple
            }
            None => {
                self.tuples.push(made);
                u32::try_from(self.tuples.len() - 1).expect("fewer masks than entries")
            }
        };
        group.tuple = Some(tuple);
        self.order.push((Rank::LAST, tuple));
        for entry in loose {
            self.blocks.remove(&self.store, entry);
            if !self.chain(tuple, entry) {
                self.blocks.insert(&self.store, entry);
            }
        }
        // If nearly all entries have the same value, the tuple takes only a few of them, and the other entries go back
        // to the blocks. A tuple that is left with too few entries is dissolved.
        if self.tuples[tuple as usize].len() <= self.tuple_entries_kept() {
            self.end_tuple(tuple, &mask);
        }
    }

    /// Moves the remaining entries of a tuple to the blocks.
    fn end_tuple(&mut self, tuple: u32, mask: &[u64]) {
        self.order.retain(|(_, other)| *other != tuple);
        self.free_tuples.push(tuple);
        let none = Tuple::new(Box::default());
        let ended = std::mem::replace(&mut self.tuples[tuple as usize], none);
        let loose: Vec<u32> = ended.entries().collect();
        for entry in &loose {
            self.store.next[*entry as usize] = MISS;
            self.blocks.insert(&self.store, *entry);
        }
        if loose.is_empty() {
            self.groups.remove(mask);
        } else if let Some(group) = self.groups.get_mut(mask) {
            group.tuple = None;
            group.loose = loose;
        }
    }

    /// Adds an entry to its tuple. Returns false if too many entries have the same value.
    fn chain(&mut self, tuple: u32, entry: u32) -> bool {
        let is_in = self.tuples[tuple as usize].insert(&mut self.store, entry);
        self.reorder(tuple);
        is_in
    }

    /// Removes an entry from its tuple. Returns false if the entry is not in the tuple.
    fn unchain(&mut self, tuple: u32, entry: u32) -> bool {
        let was_in = self.tuples[tuple as usize].remove(&mut self.store, entry);
        self.reorder(tuple);
        was_in
    }

    /// Moves a tuple to the place in `order` that belongs to the rank of its best entry.
    fn reorder(&mut self, tuple: u32) {
        let best = self.tuples[tuple as usize].best();
        let Some(old) = self.order.iter().position(|(_, other)| *other == tuple) else {
            return;
        };
        if self.order[old].0 == best {
            return;
        }
        self.order.remove(old);
        let new = self.order.partition_point(|(rank, _)| *rank < best);
        self.order.insert(new, (best, tuple));
    }
}

#[cfg(test)]
mod tests;
