//! The entries that no hash finds: blocks of up to 64, in their order, filtered by bitmaps.
//!
//! A block has, for each group of four key bits and each of its 16 values, one word that says which of
//! the block's entries allow it. The words of a key's groups, anded, are the entries that may
//! match, and the first that does is the block's answer: about two instructions a group for 64
//! entries, whatever their masks (the bit vectors of Lakshman and Stiliadis, 1998, on groups of
//! bits in place of fields).

use super::store::{Rank, Store};

/// Entries of a block: the bits of a word.
const BLOCK_ENTRIES: usize = 64;

/// Two neighbours with so few entries together become one block.
const MERGE_AT: usize = BLOCK_ENTRIES / 2;

/// With so few entries it costs less to look at each.
const SCAN_ENTRIES_MAX: usize = 4;

/// Groups that a block filters by at most; an entry is compared whole in the end anyway.
const GROUPS_MAX: usize = 64;

/// Values of a group of four bits.
const GROUP_VALUES: usize = 16;

#[derive(Debug, Clone)]
struct Block {
    /// Entries in their order.
    entries: Vec<u32>,
    first: Rank,
    /// For each group, for each value, the entries that allow it, by their position.
    bitmaps: Vec<u64>,
}

/// Entries in their order.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    /// Word and first bit of the groups of four bits that hold some field.
    groups: Vec<(usize, u32)>,
    blocks: Vec<Block>,
    len: usize,
}

impl Blocks {
    /// `used` has the bits of a key that belong to fields.
    pub(super) fn new(used: &[u64]) -> Self {
        let all = (0..used.len()).flat_map(|word| (0..64).step_by(4).map(move |bit| (word, bit)));
        let groups = all.filter(|(word, bit)| used[*word] >> bit & 15 != 0);
        Self {
            groups: groups.take(GROUPS_MAX).collect(),
            blocks: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let bytes = |block: &Block| {
            block.bitmaps.capacity() * size_of::<u64>()
                + block.entries.capacity() * size_of::<u32>()
        };
        self.blocks.iter().map(bytes).sum()
    }

    /// The first entry that matches and stands before `bound`.
    #[inline(always)]
    pub(super) fn lookup(
        &self,
        words: usize,
        store: &Store,
        key: &[u64],
        bound: Rank,
    ) -> Option<u32> {
        let mut values = [0u8; GROUPS_MAX];
        if self.len > SCAN_ENTRIES_MAX {
            for (value, (word, bit)) in values.iter_mut().zip(&self.groups) {
                *value = (key[*word] >> bit).to_le_bytes()[0] & 15;
            }
        }
        let values = &values[..self.groups.len()];
        for block in &self.blocks {
            if block.first > bound {
                return None;
            }
            let found = if block.entries.len() <= SCAN_ENTRIES_MAX {
                let mut entries = block.entries.iter().copied();
                entries.find(|entry| store.matches(words, *entry, key))
            } else {
                block.lookup(words, store, key, values)
            };
            if let Some(entry) = found {
                return (store.rank(entry) < bound).then_some(entry);
            }
        }
        None
    }

    /// The block in which an entry of this rank stands, or would.
    fn block_of(&self, rank: Rank) -> usize {
        let after = self.blocks.partition_point(|block| block.first <= rank);
        after.saturating_sub(1)
    }

    pub(super) fn insert(&mut self, store: &Store, entry: u32) {
        self.len += 1;
        let rank = store.rank(entry);
        if self.blocks.is_empty() {
            let block = Block::new(store, &self.groups, &[entry]);
            self.blocks.push(block);
            return;
        }
        let mut at = self.block_of(rank);
        if self.blocks[at].entries.len() == BLOCK_ENTRIES {
            let second = self.blocks[at].entries.split_off(BLOCK_ENTRIES / 2);
            let second = Block::new(store, &self.groups, &second);
            self.blocks[at] = Block::new(store, &self.groups, &self.blocks[at].entries);
            self.blocks.insert(at + 1, second);
            at = self.block_of(rank);
        }
        self.blocks[at].insert(store, &self.groups, entry);
    }

    pub(super) fn remove(&mut self, store: &Store, entry: u32) {
        if self.blocks.is_empty() {
            return;
        }
        let at = self.block_of(store.rank(entry));
        let block = &mut self.blocks[at];
        let Some(position) = block.entries.iter().position(|other| *other == entry) else {
            return;
        };
        self.len -= 1;
        block.remove(store, position);
        if block.entries.is_empty() {
            self.blocks.remove(at);
        } else if let Some(next) = self.blocks.get(at + 1)
            && self.blocks[at].entries.len() + next.entries.len() <= MERGE_AT
        {
            let next = self.blocks.remove(at + 1);
            let mut entries = std::mem::take(&mut self.blocks[at].entries);
            entries.extend(next.entries);
            self.blocks[at] = Block::new(store, &self.groups, &entries);
        }
    }
}

impl Block {
    /// A block of entries in their order; there is at least one.
    fn new(store: &Store, groups: &[(usize, u32)], entries: &[u32]) -> Self {
        let mut block = Self {
            entries: entries.to_vec(),
            first: entries
                .first()
                .map_or(Rank::LAST, |entry| store.rank(*entry)),
            bitmaps: vec![0; groups.len() * GROUP_VALUES],
        };
        for (position, entry) in entries.iter().enumerate() {
            block.mark(store, groups, position, *entry);
        }
        block
    }

    /// Sets an entry's bits, which are zero.
    fn mark(&mut self, store: &Store, groups: &[(usize, u32)], position: usize, entry: u32) {
        let maps = self.bitmaps.chunks_exact_mut(GROUP_VALUES);
        for (maps, (word, bit)) in maps.zip(groups) {
            let allowed = store.nibbles(entry, *word, *bit);
            for (value, map) in maps.iter_mut().enumerate() {
                *map |= u64::from(allowed >> value & 1) << position;
            }
        }
    }

    fn insert(&mut self, store: &Store, groups: &[(usize, u32)], entry: u32) {
        let rank = store.rank(entry);
        let position = self
            .entries
            .partition_point(|other| store.rank(*other) < rank);
        for map in &mut self.bitmaps {
            let below = *map & ((1 << position) - 1);
            *map = below | (*map & !((1 << position) - 1)) << 1;
        }
        self.entries.insert(position, entry);
        self.mark(store, groups, position, entry);
        self.first = store.rank(self.entries[0]);
    }

    fn remove(&mut self, store: &Store, position: usize) {
        for map in &mut self.bitmaps {
            let below = *map & ((1 << position) - 1);
            *map = below | (*map >> 1 & !((1 << position) - 1));
        }
        self.entries.remove(position);
        if let Some(first) = self.entries.first() {
            self.first = store.rank(*first);
        }
    }

    #[inline(always)]
    fn lookup(&self, words: usize, store: &Store, key: &[u64], values: &[u8]) -> Option<u32> {
        let mut candidates = u64::MAX >> (BLOCK_ENTRIES - self.entries.len());
        // Looking for zero after each group would cost more than it saves.
        let maps = self.bitmaps.chunks(GROUP_VALUES * 4).zip(values.chunks(4));
        for (maps, values) in maps {
            for (map, value) in maps.chunks_exact(GROUP_VALUES).zip(values) {
                candidates &= map[usize::from(value & 15)];
            }
            if candidates == 0 {
                return None;
            }
        }
        while candidates != 0 {
            let entry = self.entries[candidates.trailing_zeros() as usize];
            if store.matches(words, entry, key) {
                return Some(entry);
            }
            candidates &= candidates - 1;
        }
        None
    }
}
