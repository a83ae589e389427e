//! A hash map whose growth never causes a long pause: it consists of many small maps that grow one at a time, so that
//! an insertion moves only a small part of the entries.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::{Hash, Hasher},
};

use crate::limits;

/// A hash map of many small maps.
#[derive(Debug)]
pub struct ShardedMap<K, V> {
    /// Empty before the first insertion.
    shards: Vec<HashMap<K, V>>,
    len: usize,
}

impl<K, V> Default for ShardedMap<K, V> {
    fn default() -> Self {
        Self {
            shards: Vec::new(),
            len: 0,
        }
    }
}

impl<K: Hash + Eq, V> ShardedMap<K, V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the map has no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a key.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.shards.get(shard(key))?.get(key)
    }

    /// Sets the value of a key and returns its previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.shards.is_empty() {
            self.shards.resize_with(limits::MAP_SHARDS, HashMap::new);
        }
        let old = self.shards[shard(&key)].insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes a key and returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let old = self.shards.get_mut(shard(key))?.remove(key);
        self.len -= usize::from(old.is_some());
        old
    }
}

fn shard<Q: Hash + ?Sized>(key: &Q) -> usize {
    let mut fold = Fold(0);
    key.hash(&mut fold);
    // A bit of the product depends only on the bits of the factors up to its own place. The highest bits depend on all
    // of them, so they select the shard.
    (fold.finish() >> (u64::BITS - limits::MAP_SHARDS.ilog2())) as usize
}

/// The hash that selects the shard of a key. It is cheaper than the hash of the maps and must differ from that hash;
/// otherwise the keys in one shard would collide in the shard's map.
struct Fold(u64);

impl Fold {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_a_hash_map_holds() {
        let mut random = fastrand::Rng::with_seed(11);
        let (mut map, mut model) = (ShardedMap::default(), HashMap::new());
        for step in 0..50_000_u32 {
            let key: Box<[u8]> = random.u16(0..3_000).to_be_bytes().into();
            match random.u8(0..3) {
                0 => assert_eq!(map.remove(&key), model.remove(&key)),
                1 => assert_eq!(map.get(&*key), model.get(&*key)),
                _ => assert_eq!(map.insert(key.clone(), step), model.insert(key, step)),
            }
            assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
        }
    }

    #[test]
    fn keys_that_differ_in_little_are_in_shards_of_one_size() {
        const N_KEYS: u32 = 65_536;
        // The bytes that a table with an exact key of 16 to 128 bits looks up.
        for n_bytes in [2, 4, 6, 8, 12, 16] {
            for first in 0..n_bytes - 1 {
                let mut map = ShardedMap::default();
                for number in 0..N_KEYS {
                    let mut key = vec![0; n_bytes];
                    key[first..first + 2].copy_from_slice(&number.to_be_bytes()[2..]);
                    map.insert(key.into_boxed_slice(), number);
                }
                let sizes = map.shards.iter().map(HashMap::len);
                let largest = sizes.max().expect("there are shards");
                let average = N_KEYS as usize / limits::MAP_SHARDS;
                assert!(
                    largest < 2 * average,
                    "{n_bytes} bytes, those from {first} on differ: {largest} of {average}"
                );
            }
        }
    }
}
