//! The entries of one mask: a hash of the key's masked bits finds them.

use std::collections::BTreeSet;

use super::store::{Rank, Store};
use crate::lookup::{MISS, exact::ExactMap, hash::hash_words};

/// Maximum entries of one value (with different priorities or ranges). Further entries are in
/// blocks (`block.rs`), which filter them.
const CHAIN_ENTRIES_MAX: usize = 8;

/// The least number of filter bits for each value. With so many, one absent value in sixteen passes the filter.
const FILTER_BITS_PER_VALUE: usize = 16;

#[derive(Debug, Clone)]
pub(super) struct Tuple {
    mask: Box<[u64]>,
    /// A bit for the hash of each value. Most tuples do not have the value of a given key. If the filter's bit for the
    /// key is 0, the lookup ends without probing slots, whose number varies unpredictably.
    filter: Vec<u64>,
    /// Values added to the filter since it was built.
    in_filter: usize,
    /// The first entry of each value. The value's other entries follow in a linked list, by rank.
    heads: ExactMap,
    /// Every entry by rank; the first is the tuple's best.
    ranks: BTreeSet<(Rank, u32)>,
}

impl Tuple {
    pub(super) fn new(mask: Box<[u64]>) -> Self {
        Self {
            filter: vec![0; 1],
            in_filter: 0,
            heads: ExactMap::new(mask.len()),
            mask,
            ranks: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ranks.len()
    }

    pub(super) fn best(&self) -> Rank {
        self.ranks.first().map_or(Rank::LAST, |(rank, _)| *rank)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = u32> {
        self.ranks.iter().map(|(_, entry)| *entry)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // Assumes that the tree's nodes are two thirds full.
        let ranks = self.ranks.len() * size_of::<(Rank, u32)>() * 3 / 2;
        self.heads.memory_bytes() + self.filter.capacity() * size_of::<u64>() + ranks
    }

    /// The first entry that matches, or [`MISS`].
    #[inline(always)]
    pub(super) fn lookup(&self, words: usize, store: &Store, key: &[u64]) -> u32 {
        let mask = &self.mask[..words];
        let masked = |word: usize| key[word] & mask[word];
        let hash = hash_words(words, masked);
        let (word, bit) = self.filter_bit(hash);
        if self.filter[word] & bit == 0 {
            return MISS;
        }
        let mut entry = self.heads.lookup_hashed(words, hash, masked);
        while entry != MISS && !store.in_ranges(entry, key) {
            entry = store.next[entry as usize];
        }
        entry
    }

    #[inline(always)]
    fn filter_bit(&self, hash: u64) -> (usize, u64) {
        let word =
            usize::try_from(hash >> 6).expect("a usize has 64 bits") & (self.filter.len() - 1);
        (word, 1 << (hash & 63))
    }

    fn mark(&mut self, value: &[u64]) {
        let hash = hash_words(value.len(), |word| value[word]);
        let (word, bit) = self.filter_bit(hash);
        self.filter[word] |= bit;
        self.in_filter += 1;
    }

    /// Adds a value to the filter. A full filter is rebuilt, without the values of removed entries.
    fn filter(&mut self, store: &Store, entry: u32) {
        if (self.in_filter + 1) * FILTER_BITS_PER_VALUE > self.filter.len() * 64 {
            let bits = (self.ranks.len() + 1) * 2 * FILTER_BITS_PER_VALUE;
            self.filter = vec![0; (bits / 64).next_power_of_two()];
            self.in_filter = 0;
            for (_, entry) in std::mem::take(&mut self.ranks) {
                self.mark(store.value(entry));
                self.ranks.insert((store.rank(entry), entry));
            }
        }
        self.mark(store.value(entry));
    }

    /// Adds an entry. Returns false if too many entries have the same value.
    pub(super) fn insert(&mut self, store: &mut Store, entry: u32) -> bool {
        let rank = store.rank(entry);
        let head = self.heads.lookup(store.value(entry));
        let (mut before, mut at, mut len) = (MISS, head, 0);
        while at != MISS {
            len += 1;
            if store.rank(at) < rank {
                before = at;
            }
            at = store.next[at as usize];
        }
        if len >= CHAIN_ENTRIES_MAX {
            return false;
        }
        if before == MISS {
            store.next[entry as usize] = head;
            self.heads.insert(store.value(entry), entry);
        } else {
            store.next[entry as usize] = store.next[before as usize];
            store.next[before as usize] = entry;
        }
        self.filter(store, entry);
        self.ranks.insert((rank, entry));
        true
    }

    /// Removes an entry. Returns false if the entry is not in this tuple.
    pub(super) fn remove(&mut self, store: &mut Store, entry: u32) -> bool {
        if !self.ranks.remove(&(store.rank(entry), entry)) {
            return false;
        }
        let after = std::mem::replace(&mut store.next[entry as usize], MISS);
        let value = store.value(entry);
        let mut at = self.heads.lookup(value);
        if at == entry {
            if after == MISS {
                self.heads.remove(value);
            } else {
                self.heads.insert(value, after);
            }
        }
        while at != MISS {
            if store.next[at as usize] == entry {
                store.next[at as usize] = after;
                break;
            }
            at = store.next[at as usize];
        }
        true
    }
}
