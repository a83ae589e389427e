//! Exact lookup: open addressing with linear probing, key and value side by side.
//!
//! A lookup that hits touches one cache line in most cases. A deletion moves the following entries
//! back into the gap, so there are no tombstones, and endless writes do not degrade the table.

use super::{MISS, hash::hash_words};

/// The least number of slots of a map that has entries.
const SLOTS_MIN: usize = 8;

/// The highest share of slots in use, in eighths. With a higher share, a miss takes many more probes.
const LOAD_EIGHTHS_MAX: usize = 5;

/// Maps keys to numbers.
#[derive(Debug, Clone)]
pub struct ExactMap {
    words: usize,
    /// A slot has the key's words, then the value. The value [`MISS`] marks an empty slot.
    slots: Vec<u64>,
    /// Number of slots less one, or 0 without slots.
    mask: usize,
    len: usize,
}

impl ExactMap {
    pub fn new(words: usize) -> Self {
        Self {
            words,
            slots: Vec::new(),
            mask: 0,
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    /// The value of a key, or [`MISS`].
    #[inline]
    pub fn lookup(&self, key: &[u64]) -> u32 {
        match self.words {
            1 => self.find(1, |word| key[word]),
            2 => self.find(2, |word| key[word]),
            3 => self.find(3, |word| key[word]),
            4 => self.find(4, |word| key[word]),
            words => self.find(words, |word| key[word]),
        }
    }

    /// Looks up a key as [`ExactMap::lookup`] does, with a number of words that is known at compile time.
    #[inline(always)]
    pub fn lookup_words<const WORDS: usize>(&self, key: &[u64; WORDS]) -> u32 {
        self.find(WORDS, |word| key[word])
    }

    /// Looks up a key that is given word by word.
    #[inline(always)]
    fn find(&self, words: usize, key: impl Fn(usize) -> u64) -> u32 {
        self.lookup_hashed(words, hash_words(words, &key), key)
    }

    /// Looks up a key that is given word by word, with a hash that the caller computed.
    #[inline(always)]
    pub(super) fn lookup_hashed(&self, words: usize, hash: u64, key: impl Fn(usize) -> u64) -> u32 {
        if self.len == 0 {
            return MISS;
        }
        let stride = words + 1;
        let mut position = start(hash, self.mask);
        // There always is an empty slot, so the loop ends.
        loop {
            let slot = &self.slots[position * stride..][..stride];
            if slot[words] == EMPTY {
                return MISS;
            }
            if (0..words).fold(0, |rest, word| rest | (slot[word] ^ key(word))) == 0 {
                return value_of(slot[words]);
            }
            position = (position + 1) & self.mask;
        }
    }

    fn position(&self, key: &[u64]) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut position = self.start(key);
        loop {
            let slot = self.slot(position);
            if slot[self.words] == EMPTY {
                return None;
            }
            if slot[..self.words] == *key {
                return Some(position);
            }
            position = (position + 1) & self.mask;
        }
    }

    fn start(&self, key: &[u64]) -> usize {
        start(hash_words(self.words, |word| key[word]), self.mask)
    }

    fn slot(&self, position: usize) -> &[u64] {
        let stride = self.words + 1;
        &self.slots[position * stride..][..stride]
    }

    /// Sets the value of a key. Returns the old value.
    pub fn insert(&mut self, key: &[u64], value: u32) -> Option<u32> {
        debug_assert_ne!(value, MISS, "a value that says there is none");
        if let Some(position) = self.position(key) {
            let cell = position * (self.words + 1) + self.words;
            let old = std::mem::replace(&mut self.slots[cell], u64::from(value));
            return Some(value_of(old));
        }
        if self.slots.is_empty() || (self.len + 1) * 8 > (self.mask + 1) * LOAD_EIGHTHS_MAX {
            self.grow();
        }
        self.put(key, u64::from(value));
        self.len += 1;
        None
    }

    fn put(&mut self, key: &[u64], value: u64) {
        let mut position = self.start(key);
        while self.slot(position)[self.words] != EMPTY {
            position = (position + 1) & self.mask;
        }
        let stride = self.words + 1;
        let slot = &mut self.slots[position * stride..][..stride];
        slot[..self.words].copy_from_slice(key);
        slot[self.words] = value;
    }

    fn grow(&mut self) {
        let stride = self.words + 1;
        let slots = match self.slots.len() / stride {
            0 => SLOTS_MIN,
            slots => slots * 2,
        };
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots * stride]);
        self.mask = slots - 1;
        for slot in old.chunks_exact(stride) {
            if slot[self.words] != EMPTY {
                self.put(&slot[..self.words], slot[self.words]);
            }
        }
    }

    pub fn remove(&mut self, key: &[u64]) -> Option<u32> {
        let mut gap = self.position(key)?;
        let stride = self.words + 1;
        let value = value_of(self.slots[gap * stride + self.words]);
        let mut next = gap;
        loop {
            next = (next + 1) & self.mask;
            let slot = self.slot(next);
            if slot[self.words] == EMPTY {
                break;
            }
            // An entry may move to the gap if probing from the entry's first position comes to the gap before it comes
            // to the entry.
            let first = self.start(&slot[..self.words]);
            if (next.wrapping_sub(first) & self.mask) >= (next.wrapping_sub(gap) & self.mask) {
                self.slots
                    .copy_within(next * stride..(next + 1) * stride, gap * stride);
                gap = next;
            }
        }
        self.slots[gap * stride + self.words] = EMPTY;
        self.len -= 1;
        Some(value)
    }
}

/// The value cell of an empty slot.
const EMPTY: u64 = MISS as u64;

#[inline(always)]
fn value_of(cell: u64) -> u32 {
    u32::try_from(cell & EMPTY).expect("it was masked")
}

#[inline(always)]
fn start(hash: u64, mask: usize) -> usize {
    // The hash is made of products of words, each with its halves joined by XOR. Its middle bits depend on every bit of
    // the words, so they give the position.
    usize::try_from(hash >> 20).expect("a usize has 64 bits") & mask
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn random_writes_leave_what_a_hash_map_holds() {
        for words in 0..7 {
            let mut random = fastrand::Rng::with_seed(words as u64);
            let (mut map, mut model) = (ExactMap::new(words), HashMap::new());
            for step in 0..20_000u32 {
                // Few values for each word, so that keys repeat, and often differ in one word only.
                let key: Vec<u64> = (0..words).map(|_| random.u64(0..12) << 61).collect();
                match random.u8(0..5) {
                    0 | 1 => assert_eq!(map.insert(&key, step), model.insert(key, step)),
                    2 => assert_eq!(map.remove(&key), model.remove(&key)),
                    _ => {
                        let expected = model.get(&key).copied().unwrap_or(MISS);
                        assert_eq!(map.lookup(&key), expected);
                    }
                }
                assert_eq!(map.len(), model.len());
            }
        }
    }

    #[test]
    fn memory_is_flat_under_churn() {
        let mut map = ExactMap::new(2);
        let key = |number: u64| [number, number.wrapping_mul(77)];
        for number in 0..1_000 {
            map.insert(&key(number), 1);
        }
        let before = map.memory_bytes();
        for number in 1_000..200_000 {
            map.insert(&key(number), 1);
            assert_eq!(map.remove(&key(number - 1_000)), Some(1));
        }
        assert_eq!((map.len(), map.memory_bytes()), (1_000, before));
    }
}
