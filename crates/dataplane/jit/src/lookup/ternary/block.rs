//! The entries that are in no tuple (a hash map of entries with one mask, see the parent module). They are in blocks of
//! up to 64 entries, sorted by rank (the order in which entries are tried), and bitmaps filter the entries of a block.
//!
//! For each group of four key bits and each of its 16 values, a block has one word that says which of its entries allow
//! the value. The bitwise AND of the words for a key's groups gives the entries that may match, and the first of them
//! that does match is the block's answer. This takes about two instructions per group for 64 entries, whatever their
//! masks. The method is that of the bit vectors of Lakshman and Stiliadis (1998), with groups of bits in place of
//! fields.

use super::store::{Rank, Store};

/// The highest number of entries of a block: one for each bit of a word.
const BLOCK_ENTRIES: usize = 64;

/// Two neighbouring blocks with at most this many entries together are merged.
const MERGE_AT: usize = BLOCK_ENTRIES / 2;

/// In a block of up to this many entries, a lookup compares the entries one after the other, which costs less than the
/// bitmaps. A comparison takes about as long as the bitmaps of three groups, keys have twenty groups and more, and the
/// first match ends the search.
const SCAN_ENTRIES_MAX: usize = 12;

/// The highest number of groups that a block filters by. Leaving groups out is safe, because a lookup at last compares
/// the key with the whole entry.
const GROUPS_MAX: usize = 64;

const GROUP_VALUES: usize = 16;

type Bitmaps = [u64; GROUP_VALUES];

/// Every other group of four bits of a word, up to eight. One shift and one mask read them all, each into a byte.
#[derive(Debug, Clone, Copy)]
struct Run {
    word: usize,
    /// 0 or 4.
    shift: u32,
    len: usize,
}

#[derive(Debug, Clone)]
struct Block {
    /// The entries, in the order of rank.
    entries: Vec<u32>,
    first: Rank,
    /// For each group and each value, the entries that allow the value: bit n stands for the entry at position n.
    bitmaps: Vec<Bitmaps>,
}

#[derive(Debug, Clone)]
pub(super) struct Blocks {
    runs: Vec<Run>,
    /// Word and first bit of each group, in the order of the runs.
    groups: Vec<(usize, u32)>,
    blocks: Vec<Block>,
    len: usize,
}

impl Blocks {
    /// `used` has the bits of a key that belong to fields.
    pub(super) fn new(used: &[u64]) -> Self {
        let (mut runs, mut groups) = (Vec::new(), Vec::new());
        for (word, used) in used.iter().enumerate() {
            for shift in [0, 4] {
                let last = 64 - ((used >> shift) & 0x0f0f_0f0f_0f0f_0f0f).leading_zeros();
                let room = GROUPS_MAX - groups.len();
                let len = (last.div_ceil(8) as usize).min(room);
                runs.push(Run { word, shift, len });
                groups.extend((0..64).step_by(8).take(len).map(|bit| (word, bit + shift)));
            }
        }
        runs.retain(|run| run.len > 0);
        Self {
            runs,
            groups,
            blocks: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let bytes = |block: &Block| {
            block.bitmaps.capacity() * size_of::<Bitmaps>()
                + block.entries.capacity() * size_of::<u32>()
        };
        self.blocks.iter().map(bytes).sum()
    }

    /// The first entry that matches and ranks before `bound`.
    #[inline(always)]
    pub(super) fn lookup(
        &self,
        words: usize,
        store: &Store,
        key: &[u64],
        bound: Rank,
    ) -> Option<u32> {
        // The values of the key's groups. Each run writes eight bytes; the next run overwrites the bytes that belong to
        // no group.
        let mut values = [0u8; GROUPS_MAX + 8];
        if self.len > SCAN_ENTRIES_MAX {
            let mut at = 0;
            for run in &self.runs {
                let bytes = (key[run.word] >> run.shift) & 0x0f0f_0f0f_0f0f_0f0f;
                values[at..at + 8].copy_from_slice(&bytes.to_le_bytes());
                at += run.len;
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

    /// The block in which an entry of this rank is or would be.
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
    /// A block of entries in the order of their ranks; there is at least one.
    fn new(store: &Store, groups: &[(usize, u32)], entries: &[u32]) -> Self {
        let mut block = Self {
            entries: entries.to_vec(),
            first: entries
                .first()
                .map_or(Rank::LAST, |entry| store.rank(*entry)),
            bitmaps: vec![[0; GROUP_VALUES]; groups.len()],
        };
        for (position, entry) in entries.iter().enumerate() {
            block.mark(store, groups, position, *entry);
        }
        block
    }

    /// Sets an entry's bits, which must be zero.
    fn mark(&mut self, store: &Store, groups: &[(usize, u32)], position: usize, entry: u32) {
        for (maps, (word, bit)) in self.bitmaps.iter_mut().zip(groups) {
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
        for map in self.bitmaps.as_flattened_mut() {
            let below = *map & ((1 << position) - 1);
            *map = below | (*map & !((1 << position) - 1)) << 1;
        }
        self.entries.insert(position, entry);
        self.mark(store, groups, position, entry);
        self.first = store.rank(self.entries[0]);
    }

    fn remove(&mut self, store: &Store, position: usize) {
        for map in self.bitmaps.as_flattened_mut() {
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
        let quads = self.bitmaps.chunks(4).zip(values.chunks(4));
        for (maps, values) in quads {
            for (map, value) in maps.iter().zip(values) {
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
