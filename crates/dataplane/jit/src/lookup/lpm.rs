//! Longest prefix match: a trie whose nodes are arrays of slots. A key is one number, with the prefix's field in its
//! lowest bits and the exact fields above it ([`KeyShape::with_lowest`]). The root is an array over the number's first
//! bits, at most 16; each node below covers four bits more.
//!
//! A slot has the entry of the longest prefix that ends in its node and covers the slot, so a lookup loads one slot per
//! node and remembers the last entry that it saw. A prefix that is alone below its slot has no nodes: the slot has the
//! entry's number, and the lookup compares the key with the entry's prefix. So a key of 128 bits costs little more than
//! a key of 32 bits. A write changes the slots that a prefix covers in its node: at most 16, or a part of the root.

use std::collections::HashMap;

use super::shape::{FieldPlace, KeyShape, low_ones};

/// The number of words of the longest key.
pub(super) const WORDS_MAX: usize = 4;

/// The highest number of key bits that the root covers: 512 KiB of slots. The processor's caches hold the part that
/// traffic uses.
const ROOT_BITS_MAX: u32 = 16;

const NODE_BITS: u32 = 4;

const NODE_SLOTS: usize = 1 << NODE_BITS;

/// Marks a slot's child as the number of an entry.
const LEAF: u32 = 1 << 31;

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The first slot of the node below; or, with the bit [`LEAF`] set, the number of the only entry below; or 0 if
    /// there is nothing below.
    child: u32,
    /// The entry's number plus 1; 0 is none.
    entry: u32,
}

impl Slot {
    #[inline(always)]
    fn has_node(self) -> bool {
        self.child.wrapping_sub(1) < LEAF - 1
    }
}

/// A node: its first slot, its lowest key bit, and how many key bits it covers.
#[derive(Debug, Clone, Copy)]
struct Node {
    first: usize,
    low: u32,
    bits: u32,
}

/// A prefix: its key, whose lowest `after` bits are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Prefix {
    key: [u64; WORDS_MAX],
    after: u32,
}

impl Prefix {
    /// Makes the prefix that leaves out the lowest `after` bits of a key.
    fn new(key: &[u64], after: u32) -> Self {
        let mut words = [0; WORDS_MAX];
        for (word, (to, from)) in words.iter_mut().zip(key).enumerate() {
            *to = from & word_mask(word, after);
        }
        let key = words;
        Self { key, after }
    }
}

/// Maps prefixes to numbers.
#[derive(Debug, Clone)]
pub struct LpmTrie {
    words: usize,
    bits: u32,
    prefix_bits: u32,
    root: Node,
    /// The slots of the root, then the slots of each node.
    slots: Vec<Slot>,
    /// For each node, by its first slot: how many prefixes end in the node or below, at least two.
    n_prefixes: HashMap<usize, usize>,
    free: Vec<usize>,
    /// For each entry, the words of its prefix's key and of its mask.
    cells: Vec<u64>,
    /// For each entry, how many bits of the key follow the entry's prefix.
    afters: Vec<u32>,
    prefixes: HashMap<Prefix, u32>,
}

impl LpmTrie {
    /// An empty trie for keys of a shape whose lowest field is the prefix. `None` if another field is the lowest, or if
    /// keys have more than four words.
    pub fn new(shape: &KeyShape, prefix: FieldPlace) -> Option<Self> {
        let end = |field: &FieldPlace| {
            let word = u32::try_from(field.word).expect("a key has a few words");
            64 * word + field.shift + field.bits
        };
        let bits = shape.fields().iter().map(end).max().unwrap_or(0);
        let low = bits
            .saturating_sub(ROOT_BITS_MAX)
            .next_multiple_of(NODE_BITS)
            .min(bits);
        let root = Node {
            first: 0,
            low,
            bits: bits - low,
        };
        let is_lowest = (prefix.word, prefix.shift) == (0, 0);
        (is_lowest && shape.words() <= WORDS_MAX).then(|| Self {
            words: shape.words(),
            bits,
            prefix_bits: prefix.bits,
            root,
            slots: vec![Slot::default(); 1 << root.bits],
            n_prefixes: HashMap::new(),
            free: Vec::new(),
            cells: Vec::new(),
            afters: Vec::new(),
            prefixes: HashMap::new(),
        })
    }

    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// The entry of the longest prefix of a key, or [`MISS`].
    ///
    /// [`MISS`]: super::MISS
    pub fn lookup(&self, key: &[u64]) -> u32 {
        match *key {
            [a] => self.lookup_words(&[a]),
            [a, b] => self.lookup_words(&[a, b]),
            [a, b, c] => self.lookup_words(&[a, b, c]),
            [a, b, c, d] => self.lookup_words(&[a, b, c, d]),
            _ => super::MISS,
        }
    }

    /// Looks up a key as [`LpmTrie::lookup`] does, with a number of words that is known at compile time.
    #[inline(always)]
    pub fn lookup_words<const WORDS: usize>(&self, key: &[u64; WORDS]) -> u32 {
        let mut low = self.root.low;
        let mut slot = self.slots[read(key, low, self.root.bits)];
        let mut entry = slot.entry;
        while slot.has_node() {
            low -= NODE_BITS;
            // A node's bits are in one word.
            let word = if WORDS == 1 { 0 } else { low as usize / 64 };
            let at = position(key[word] >> (low % 64)) % NODE_SLOTS;
            slot = self.slots[slot.child as usize + at];
            entry = if slot.entry == 0 { entry } else { slot.entry };
        }
        if slot.child != 0 {
            let leaf = slot.child & !LEAF;
            let cells = &self.cells[leaf as usize * 2 * WORDS..][..2 * WORDS];
            let differs = (0..WORDS).fold(0, |rest, word| {
                rest | ((key[word] & cells[WORDS + word]) ^ cells[word])
            });
            entry = if differs == 0 { leaf + 1 } else { entry };
        }
        // 0 means no entry here, and becomes `MISS`.
        entry.wrapping_sub(1)
    }

    /// Sets the entry of the prefix that keeps the first `len` bits of the key's prefix field. Returns the prefix's old
    /// entry. No other prefix may have the number `entry`.
    pub fn insert(&mut self, key: &[u64], len: u32, entry: u32) -> Option<u32> {
        let prefix = self.prefix(key, len);
        self.set_prefix(entry, &prefix);
        let old = self.prefixes.insert(prefix, entry);
        self.place(self.root, &prefix, entry, old);
        old
    }

    pub fn remove(&mut self, key: &[u64], len: u32) -> Option<u32> {
        let prefix = self.prefix(key, len);
        let old = self.prefixes.remove(&prefix)?;
        let (mut node, mut with_one) = (self.root, None);
        while prefix.after < node.low {
            let slot = covered(node, &prefix).start;
            if !self.slots[slot].has_node() {
                self.slots[slot].child = 0;
                break;
            }
            node = self.below(node, slot);
            let left = self.n_prefixes.entry(node.first).or_default();
            *left -= 1;
            with_one = with_one.or((*left == 1).then_some((slot, node.first)));
        }
        if prefix.after >= node.low {
            self.uncover(node, &prefix, old);
        }
        if let Some((slot, first)) = with_one {
            self.slots[slot].child = LEAF | self.take_one(first);
        }
        Some(old)
    }

    fn prefix(&self, key: &[u64], len: u32) -> Prefix {
        let mut prefix = Prefix::new(key, self.prefix_bits - len);
        for (word, part) in prefix.key.iter_mut().enumerate() {
            // Bits above the fields are ignored.
            *part &= !word_mask(word, self.bits);
        }
        prefix
    }

    fn set_prefix(&mut self, entry: u32, prefix: &Prefix) {
        assert!(entry < LEAF, "fewer than 2^31 entries");
        let at = entry as usize;
        if at >= self.afters.len() {
            self.afters.resize(at + 1, 0);
            self.cells.resize((at + 1) * 2 * self.words, 0);
        }
        self.afters[at] = prefix.after;
        let cells = &mut self.cells[at * 2 * self.words..][..2 * self.words];
        for word in 0..self.words {
            let mask = word_mask(word, prefix.after) & !word_mask(word, self.bits);
            (cells[word], cells[self.words + word]) = (prefix.key[word], mask);
        }
    }

    /// Puts an entry into a node, or into a node below. Counts a new entry in each node on the way.
    fn place(&mut self, mut node: Node, prefix: &Prefix, entry: u32, old: Option<u32>) {
        while prefix.after < node.low {
            let slot = covered(node, prefix).start;
            let child = self.slots[slot].child;
            if child == 0 || old.is_some_and(|old| child == LEAF | old) {
                self.slots[slot].child = LEAF | entry;
                return;
            }
            if !self.slots[slot].has_node() {
                let first = self.new_node();
                self.slots[slot].child = u32::try_from(first).expect("fewer than 2^31 slots");
                self.n_prefixes.insert(first, 1);
                let other = child & !LEAF;
                let cells = &self.cells[other as usize * 2 * self.words..][..self.words];
                let other_prefix = Prefix::new(cells, self.afters[other as usize]);
                self.place(self.below(node, slot), &other_prefix, other, None);
            }
            node = self.below(node, slot);
            *self.n_prefixes.entry(node.first).or_default() += usize::from(old.is_none());
        }
        for slot in covered(node, prefix) {
            let there = self.slots[slot].entry;
            if there == 0 || self.afters[there as usize - 1] >= prefix.after {
                self.slots[slot].entry = entry + 1;
            }
        }
    }

    /// Gives the slots of a removed prefix to the next longest prefix that ends in the node and covers them.
    fn uncover(&mut self, node: Node, gone: &Prefix, old: u32) {
        // A prefix that ends where the node begins belongs to the parent.
        let end = node.low + node.bits + u32::from(node.first == 0);
        let shorter = (gone.after + 1..end.min(self.prefix_bits + 1)).find_map(|after| {
            let entry = self.prefixes.get(&Prefix::new(&gone.key, after));
            entry.map(|entry| entry + 1)
        });
        for slot in covered(node, gone) {
            if self.slots[slot].entry == old + 1 {
                self.slots[slot].entry = shorter.unwrap_or(0);
            }
        }
    }

    fn below(&self, node: Node, slot: usize) -> Node {
        Node {
            first: self.slots[slot].child as usize,
            low: node.low - NODE_BITS,
            bits: NODE_BITS,
        }
    }

    fn new_node(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let first = self.slots.len();
            self.slots.resize(first + NODE_SLOTS, Slot::default());
            first
        })
    }

    /// Frees a node with a single prefix, and the nodes below it. Returns the prefix's entry.
    fn take_one(&mut self, mut first: usize) -> u32 {
        loop {
            self.n_prefixes.remove(&first);
            self.free.push(first);
            let slots = &mut self.slots[first..first + NODE_SLOTS];
            let one = slots
                .iter()
                .copied()
                .find(|slot| (slot.child, slot.entry) != (0, 0));
            slots.fill(Slot::default());
            match one.expect("a node has a prefix") {
                slot if slot.has_node() => first = slot.child as usize,
                Slot { child: 0, entry } => return entry - 1,
                Slot { child, .. } => return child & !LEAF,
            }
        }
    }
}

/// The slots of a node that a prefix covers if it ends in the node; otherwise the slot that leads to the prefix.
fn covered(node: Node, prefix: &Prefix) -> std::ops::Range<usize> {
    let first = node.first + read(&prefix.key, node.low, node.bits);
    first..first + (1 << prefix.after.saturating_sub(node.low))
}

/// The bits of one word of a key that are not among the key's lowest `after` bits.
fn word_mask(word: usize, after: u32) -> u64 {
    let before = u32::try_from(word * 64).expect("a key has a few words");
    !low_ones(after.saturating_sub(before).min(64))
}

/// Returns `bits` bits (fewer than 64) of a key, from bit `low` on.
#[inline(always)]
fn read<const WORDS: usize>(key: &[u64; WORDS], low: u32, bits: u32) -> usize {
    let (word, shift) = (low as usize / 64, low % 64);
    let part = key.get(word).map_or(0, |part| part >> shift);
    let next = key
        .get(word + 1)
        .map_or(0, |next| next << 1 << (63 - shift));
    position((part | next) & low_ones(bits))
}

#[inline(always)]
fn position(bits: u64) -> usize {
    usize::try_from(bits).expect("a usize has 64 bits")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::lookup::MISS;

    /// A trie for keys of these fields, of which the first is the prefix.
    fn trie(widths: &[u32]) -> (KeyShape, Option<LpmTrie>) {
        let shape = KeyShape::with_lowest(widths, Some(0));
        let trie = LpmTrie::new(&shape, shape.fields()[0]);
        (shape, trie)
    }

    /// Entries by length and bits of their prefix, the longest last.
    type Model = BTreeMap<(u32, Vec<u64>), u32>;

    fn longest(model: &Model, bits: u32, key: &[u64]) -> u32 {
        let mut from_longest = model.iter().rev();
        let found = from_longest.find(|((len, prefix), _)| is_below(key, prefix, bits - len));
        found.map_or(MISS, |(_, entry)| *entry)
    }

    fn is_below(key: &[u64], prefix: &[u64], after: u32) -> bool {
        let mut words = key.iter().zip(prefix).zip((0..).step_by(64));
        words.all(|((key, prefix), at)| cut_word(key ^ prefix, at, after) == 0)
    }

    /// Returns a key with its lowest `after` bits cleared.
    fn cut(key: &[u64], after: u32) -> Vec<u64> {
        let words = key.iter().zip((0..).step_by(64));
        words.map(|(word, at)| cut_word(*word, at, after)).collect()
    }

    /// Clears the lowest bits of one word, for [`cut`]. The word's lowest bit is bit `at` of the key.
    fn cut_word(word: u64, at: u32, after: u32) -> u64 {
        match after.saturating_sub(at) {
            after @ 0..64 => word >> after << after,
            _ => 0,
        }
    }

    /// Compares a trie with a map, both with random prefixes near each other.
    fn check(widths: &[u32], entries: usize) {
        let mut random = fastrand::Rng::with_seed(widths.iter().sum::<u32>().into());
        let bits = widths[0];
        let (shape, trie) = trie(widths);
        let mut trie = trie.unwrap();
        let mut model = Model::new();
        let some = |random: &mut fastrand::Rng, field: usize| -> Vec<u64> {
            // Few values of the exact fields, so that keys collide.
            let mask = if field == 0 { u64::MAX } else { 1 << 7 | 1 };
            (0..4).map(|_| random.u64(..) & mask).collect()
        };
        let mut values = Vec::new();
        for _ in 0..24 {
            let fields: Vec<Vec<u64>> = (0..widths.len())
                .map(|field| some(&mut random, field))
                .collect();
            values.push(shape.pack(fields.iter().map(Vec::as_slice)));
        }
        let near = |random: &mut fastrand::Rng| {
            let mut key = values[random.usize(0..values.len())].clone();
            let bit = random.u32(0..bits.max(1) * 2);
            if bit < bits {
                key[(bit / 64) as usize] ^= 1 << (bit % 64);
            }
            key
        };
        for entry in 0..3_000 {
            let len = random.u32(0..=bits);
            let key = cut(&near(&mut random), bits - len);
            if model.len() < entries && random.u8(0..3) > 0 {
                let old = model.insert((len, key.clone()), entry);
                assert_eq!(trie.insert(&key, len, entry), old);
            } else {
                let at = random.usize(0..model.len().max(1));
                let gone = model.keys().nth(at).cloned();
                let (len, key) = gone.filter(|_| random.bool()).unwrap_or((len, key));
                let old = model.remove(&(len, key.clone()));
                assert_eq!(trie.remove(&key, len), old);
            }
            assert_eq!(trie.len(), model.len());
            for _ in 0..4 {
                let key = near(&mut random);
                let expected = longest(&model, bits, &key);
                // Bits above the fields do not count.
                let mut around = key.clone();
                for (word, part) in around.iter_mut().enumerate() {
                    *part |= random.u64(..) & word_mask(word, trie.bits);
                }
                assert_eq!(trie.lookup(&around), expected, "{widths:?}");
            }
        }
        for ((len, key), entry) in model {
            assert_eq!(trie.remove(&key, len), Some(entry));
        }
        assert!(trie.is_empty() && trie.n_prefixes.is_empty());
        assert!(trie.slots.iter().all(|it| (it.child, it.entry) == (0, 0)));
    }

    #[test]
    fn a_lookup_finds_the_longest_of_all_prefixes() {
        for bits in [
            1, 5, 8, 13, 16, 17, 18, 19, 20, 24, 31, 32, 33, 63, 64, 65, 70, 128, 255, 256,
        ] {
            check(&[bits], 60);
            check(&[bits], 400);
        }
    }

    #[test]
    fn fields_that_are_matched_whole_stand_before_the_prefix() {
        let keys: &[&[u32]] = &[
            &[32, 1],
            &[32, 16],
            &[32, 32],
            &[32, 48],
            &[13, 9, 60],
            &[70, 3],
            &[128, 12],
            &[128, 64, 48],
            &[0, 16],
        ];
        for widths in keys {
            check(widths, 60);
            check(widths, 400);
        }
    }

    #[test]
    fn wider_keys_have_none() {
        assert!(trie(&[257]).1.is_none());
        assert!(trie(&[128, 128, 1]).1.is_none());
        let shape = KeyShape::new(&[32, 48]);
        assert!(
            LpmTrie::new(&shape, shape.fields()[0]).is_none(),
            "not the lowest"
        );
        let mut trie = trie(&[0]).1.unwrap();
        assert_eq!(trie.lookup(&[7]), MISS);
        trie.insert(&[0], 0, 3);
        assert_eq!(trie.lookup(&[7]), 3);
    }

    fn churn(widths: &[u32], len: u32, key: impl Fn(&mut fastrand::Rng) -> Vec<u64>) {
        let mut trie = trie(widths).1.unwrap();
        let mut random = fastrand::Rng::with_seed(5);
        let mut inside = std::collections::VecDeque::new();
        let mut free: Vec<u32> = (0..1_002).collect();
        let mut after_start = 0;
        for step in 0..60_000u32 {
            let value = key(&mut random);
            let entry = free.pop().unwrap();
            match trie.insert(&value, len, entry) {
                None => inside.push_back(value),
                Some(old) => free.push(old),
            }
            if inside.len() > 1_000 {
                let gone = inside.pop_front().unwrap();
                free.push(trie.remove(&gone, len).unwrap());
            }
            if step == 20_000 {
                after_start = trie.slots.len();
            }
        }
        assert!(trie.slots.len() <= after_start * 5 / 4);
        assert!(trie.afters.len() <= 1_002 && trie.n_prefixes.len() < 1_000 * 12);
    }

    #[test]
    fn memory_is_flat_under_churn() {
        churn(&[32], 24, |random| vec![random.u64(..) & 0xffff_ff00]);
        churn(&[32, 16], 24, |random| {
            vec![random.u64(..) & 0x0007_ffff_ff00]
        });
        churn(&[128], 64, |random| {
            vec![0, 0x2001_0db8 << 32 | random.u64(0..5_000)]
        });
    }
}
