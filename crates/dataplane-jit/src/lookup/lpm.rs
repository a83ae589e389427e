//! Longest prefix match over one field of up to 32 bits: a trie of slots. The root is an array over the
//! field's first 16 bits or so; each node below covers four bits more.
//!
//! A slot has the entry of the longest prefix that ends in its node and covers it, so a lookup is a load
//! a node and remembers the last entry that it saw. A write changes the slots that a prefix covers
//! in its node: 16 at most, or a part of the root.
//!
//! Other keys are looked up as ternary ones whose priority is the prefix's length
//! ([`super::ternary`]).

use std::collections::HashMap;

use super::shape::{FieldPlace, low_ones};

/// Bits of the widest field. A wider one's nodes would be long ways with few entries.
pub(super) const FIELD_BITS_MAX: u32 = 32;

/// Bits of the root at most: 512 KiB, of which the caches hold what traffic asks for.
const ROOT_BITS_MAX: u32 = 16;

/// Bits of a node.
const NODE_BITS: u32 = 4;

/// Slots of a node.
const NODE_SLOTS: usize = 1 << NODE_BITS;

/// What a lookup finds in a node.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The first slot of the node below; 0 is none.
    child: u32,
    /// The entry's number plus 1; 0 is none.
    entry: u32,
}

/// A node: where its slots begin, and the bits of the field before it and in it.
#[derive(Debug, Clone, Copy)]
struct Node {
    first: usize,
    before: u32,
    bits: u32,
}

/// Prefixes to numbers.
#[derive(Debug, Clone)]
pub struct LpmTrie {
    field: FieldPlace,
    root: Node,
    /// Of the root, then of each node.
    slots: Vec<Slot>,
    /// Of each slot, the length of its entry's prefix.
    lens: Vec<u8>,
    /// Of each node, by its first slot: the prefixes that end in it or below.
    n_prefixes: HashMap<usize, usize>,
    free: Vec<usize>,
    /// By length and value.
    prefixes: HashMap<(u32, u64), u32>,
}

impl LpmTrie {
    /// An empty trie for keys that are one field; none where that is too wide.
    pub fn new(field: FieldPlace) -> Option<Self> {
        let below = field
            .bits
            .saturating_sub(ROOT_BITS_MAX)
            .next_multiple_of(NODE_BITS);
        let bits = field.bits.saturating_sub(below);
        (field.bits <= FIELD_BITS_MAX).then(|| Self {
            field,
            root: Node {
                first: 0,
                before: 0,
                bits,
            },
            slots: vec![Slot::default(); 1 << bits],
            lens: vec![0; 1 << bits],
            n_prefixes: HashMap::new(),
            free: Vec::new(),
            prefixes: HashMap::new(),
        })
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// The entry of the longest prefix of a key's word, or [`MISS`].
    ///
    /// [`MISS`]: super::MISS
    #[inline(always)]
    pub fn lookup(&self, key: u64) -> u32 {
        let value = (key >> self.field.shift) & low_ones(self.field.bits);
        let mut below = self.field.bits - self.root.bits;
        let mut slot = self.slots[position(value >> below)];
        let mut entry = slot.entry;
        while slot.child != 0 {
            below -= NODE_BITS;
            let at = position(value >> below) % NODE_SLOTS;
            slot = self.slots[slot.child as usize + at];
            entry = if slot.entry == 0 { entry } else { slot.entry };
        }
        // None becomes `MISS`.
        entry.wrapping_sub(1)
    }

    /// Sets the entry of the prefix of so many bits of a key's word; gives the one it had.
    pub fn insert(&mut self, key: u64, len: u32, entry: u32) -> Option<u32> {
        let value = self.prefix(key >> self.field.shift, len);
        let old = self.prefixes.insert((len, value), entry);
        let node = self.node_of(value, len, old.is_none());
        for slot in self.covered(node, value, len) {
            if self.slots[slot].entry == 0 || u32::from(self.lens[slot]) <= len {
                self.put(slot, Some((len, entry)));
            }
        }
        old
    }

    /// Takes a prefix away; gives its entry.
    pub fn remove(&mut self, key: u64, len: u32) -> Option<u32> {
        let value = self.prefix(key >> self.field.shift, len);
        let old = self.prefixes.remove(&(len, value))?;
        let node = self.node_of(value, len, false);
        // The longest of those that end in the node before it covers the same slots.
        let shorter = (node.before..len).rev().find_map(|len| {
            // One that ends where the node begins is its parent's.
            let is_own = len > node.before || node.before == 0;
            let entry = self.prefixes.get(&(len, self.prefix(value, len)));
            entry.filter(|_| is_own).map(|entry| (len, *entry))
        });
        for slot in self.covered(node, value, len) {
            if u32::from(self.lens[slot]) == len {
                self.put(slot, shorter);
            }
        }
        self.leave(value, len);
        Some(old)
    }

    fn put(&mut self, slot: usize, entry: Option<(u32, u32)>) {
        let (len, number) = entry.map_or((0, 0), |(len, entry)| (len, entry + 1));
        self.slots[slot].entry = number;
        self.lens[slot] = u8::try_from(len).expect("a field of at most 32 bits");
    }

    /// The first bits of a field, zeros after them.
    fn prefix(&self, value: u64, len: u32) -> u64 {
        value & low_ones(self.field.bits) & !low_ones(self.field.bits - len)
    }

    /// The slots of a node that a prefix covers, which ends in it.
    fn covered(&self, node: Node, value: u64, len: u32) -> std::ops::Range<usize> {
        let below = self.field.bits - node.before - node.bits;
        let first = node.first + position((value >> below) & low_ones(node.bits));
        first..first + (1 << (node.before + node.bits - len))
    }

    /// The slot of a node that leads on, and the node below if it is there.
    fn below(&self, node: Node, value: u64) -> (usize, Option<Node>) {
        let end = node.before + node.bits;
        let slot = self.covered(node, value, end).start;
        let child = self.slots[slot].child as usize;
        let below = Node {
            first: child,
            before: end,
            bits: NODE_BITS,
        };
        (slot, (child != 0).then_some(below))
    }

    /// The node that a prefix ends in; one that is new counts in it and in those before.
    fn node_of(&mut self, value: u64, len: u32, is_new: bool) -> Node {
        let mut node = self.root;
        while len > node.before + node.bits {
            let (slot, below) = self.below(node, value);
            node = below.unwrap_or_else(|| {
                let first = self.new_node();
                self.slots[slot].child = u32::try_from(first).expect("fewer than 2^32 slots");
                Node {
                    first,
                    before: node.before + node.bits,
                    bits: NODE_BITS,
                }
            });
            *self.n_prefixes.entry(node.first).or_default() += usize::from(is_new);
        }
        node
    }

    fn new_node(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let first = self.slots.len();
            self.slots.resize(first + NODE_SLOTS, Slot::default());
            self.lens.resize(first + NODE_SLOTS, 0);
            first
        })
    }

    /// A prefix that ended there has gone; so do nodes without any.
    fn leave(&mut self, value: u64, len: u32) {
        let mut node = self.root;
        while len > node.before + node.bits {
            let (slot, Some(below)) = self.below(node, value) else {
                return;
            };
            let left = self.n_prefixes.entry(below.first).or_default();
            *left -= 1;
            if *left == 0 {
                self.n_prefixes.remove(&below.first);
                self.slots[slot].child = 0;
                self.free.push(below.first);
            }
            node = below;
        }
    }
}

#[inline(always)]
fn position(bits: u64) -> usize {
    usize::try_from(bits).expect("a usize has 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::MISS;

    fn trie(bits: u32, shift: u32) -> LpmTrie {
        let word = 0;
        LpmTrie::new(FieldPlace { word, shift, bits }).unwrap()
    }

    fn longest(model: &HashMap<(u32, u64), u32>, bits: u32, value: u64) -> u32 {
        let mut lens = (0..=bits).rev();
        let found = lens.find_map(|len| {
            let prefix = value & !low_ones(bits - len);
            model.get(&(len, prefix)).copied()
        });
        found.unwrap_or(MISS)
    }

    /// Random prefixes near each other against a map of them.
    fn check(bits: u32, shift: u32, entries: usize) {
        let mut random = fastrand::Rng::with_seed(bits.into());
        let mut trie = trie(bits, shift);
        let mut model = HashMap::new();
        let values: Vec<u64> = (0..24).map(|_| random.u64(..) & low_ones(bits)).collect();
        let near = |random: &mut fastrand::Rng| {
            let value = values[random.usize(0..values.len())];
            let bit = random.u32(0..bits.max(1) * 2);
            value ^ if bit < bits { 1 << bit } else { 0 }
        };
        for entry in 0..3_000 {
            let len = random.u32(0..=bits);
            let value = near(&mut random) & !low_ones(bits - len);
            if model.len() < entries && random.u8(0..3) > 0 {
                let old = model.insert((len, value), entry);
                assert_eq!(trie.insert(value << shift, len, entry), old);
            } else {
                let mut there = model.keys();
                let gone = there.nth(random.usize(0..model.len().max(1))).copied();
                let (len, value) = gone.filter(|_| random.bool()).unwrap_or((len, value));
                let old = model.remove(&(len, value));
                assert_eq!(trie.remove(value << shift, len), old);
            }
            assert_eq!(trie.len(), model.len());
            for _ in 0..4 {
                let value = near(&mut random);
                // What stands beside the field in its word does not count.
                let around = random.u64(..) & !(low_ones(bits) << shift);
                let expected = longest(&model, bits, value);
                assert_eq!(
                    trie.lookup(value << shift | around),
                    expected,
                    "{bits} bits"
                );
            }
        }
        for ((len, value), entry) in model {
            assert_eq!(trie.remove(value << shift, len), Some(entry));
        }
        assert!(trie.is_empty() && trie.n_prefixes.is_empty());
        assert!(trie.slots.iter().all(|it| (it.child, it.entry) == (0, 0)));
    }

    #[test]
    fn a_lookup_finds_the_longest_of_all_prefixes() {
        for bits in [1, 5, 8, 13, 16, 17, 18, 19, 20, 24, 31, 32] {
            check(bits, 0, 60);
            check(bits, 64 - bits, 400);
        }
    }

    #[test]
    fn wider_fields_have_none() {
        let (word, shift) = (0, 0);
        assert!(
            LpmTrie::new(FieldPlace {
                word,
                shift,
                bits: 33
            })
            .is_none()
        );
        let mut trie = trie(0, 0);
        assert_eq!(trie.lookup(7), MISS);
        trie.insert(0, 0, 3);
        assert_eq!(trie.lookup(7), 3);
    }

    #[test]
    fn memory_is_flat_under_churn() {
        let mut trie = trie(32, 0);
        let mut random = fastrand::Rng::with_seed(5);
        let mut inside = std::collections::VecDeque::new();
        let mut after_start = 0;
        for step in 0..60_000u32 {
            let value = random.u64(..) & 0xffff_ff00;
            if trie.insert(value, 24, step).is_none() {
                inside.push_back(value);
            }
            if inside.len() > 1_000 {
                let gone = inside.pop_front().unwrap();
                assert!(trie.remove(gone, 24).is_some());
            }
            if step == 20_000 {
                after_start = trie.slots.len();
            }
        }
        assert!(trie.slots.len() <= after_start * 5 / 4);
    }
}
