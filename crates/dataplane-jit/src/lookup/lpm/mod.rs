//! Longest prefix match: a trie with compressed nodes (tree bitmap) below a directly indexed root.
//!
//! The exact fields of a key stand before the prefix's field, so a key is one string of bits and an
//! entry one prefix of it, whatever its fields are. The root is an array over the first bits of the
//! string; a node covers six bits more: one bitmap says which prefixes end inside of it, one below
//! which values of its bits there are nodes, one below which there is a single entry (a leaf). What
//! is below stands side by side, so that a bit's rank is its place. An entry that is alone below
//! its node ends the way at once, so keys of 128 bits cost little more than those of 32.
//!
//! A write changes one node, except for a prefix that is shorter than the root: that one is written
//! to each of the root's slots that it covers.

mod arena;
mod update;

use std::collections::HashMap;

use arena::Arena;

use super::{MISS, shape::FieldPlace, shape::low_ones};

/// Bits of a node.
const NODE_BITS: u32 = 6;

/// Bits of the root by the number of entries: with few, the root stays in the first-level cache;
/// with many, its slots replace two or three nodes each. Measured, see docs/performance.md.
const ROOT_BITS: [(usize, u32); 4] = [(0, 6), (64, 12), (2_048, 16), (16_384, 20)];

/// The longest string of bits that a trie takes: it keeps a mask for each length.
pub(super) const TRIE_BITS_MAX: u32 = 256;

/// For each value of a node's bits, which prefixes inside the node cover it. The prefix of length
/// n and value v has bit 2^n - 1 + v, so the highest bit set is the longest prefix.
static COVERS: [u64; 64] = covers();

const fn covers() -> [u64; 64] {
    let mut table = [0; 64];
    let mut value = 0;
    while value < 64 {
        let mut len = 0;
        while len < NODE_BITS {
            table[value] |= 1 << ((1 << len) - 1 + (value >> (NODE_BITS - len)));
            len += 1;
        }
        value += 1;
    }
    table
}

/// Consecutive bits of a key, in one of its words.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    word: usize,
    shift: u32,
    bits: u32,
}

impl Chunk {
    #[inline(always)]
    fn read(self, key: &[u64]) -> u64 {
        (key[self.word] >> self.shift) & ((1 << self.bits) - 1)
    }
}

/// What is below a slot of the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Child {
    None,
    Leaf(u32),
    Node(u32),
}

/// Eight bytes, since the root is what every lookup reads first: the length of a slot's entry is
/// only for writes and stands apart.
#[derive(Debug, Clone, Copy)]
struct RootSlot {
    /// A [`Child`]: [`MISS`] is none, the highest bit marks a leaf.
    child: u32,
    /// The entry of the longest prefix that is no longer than the root and covers the slot.
    entry: u32,
}

impl RootSlot {
    const LEAF: u32 = 1 << 31;

    #[inline(always)]
    fn child(self) -> Child {
        match self.child {
            MISS => Child::None,
            child if child & Self::LEAF != 0 => Child::Leaf(child & !Self::LEAF),
            child => Child::Node(child),
        }
    }

    fn set_child(&mut self, child: Child) {
        self.child = match child {
            Child::None => MISS,
            Child::Leaf(leaf) => leaf | Self::LEAF,
            Child::Node(node) => node,
        };
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// Prefixes that end inside.
    inner: u64,
    /// Values of its bits below which there are nodes, or a leaf.
    nodes: u64,
    leaves: u64,
    first_node: u32,
    first_leaf: u32,
    first_entry: u32,
}

/// A prefix: the key's bits, zero after its length, and its length counted from the first bit of
/// the string.
#[derive(Debug, Clone, Copy)]
struct Prefix<'k> {
    value: &'k [u64],
    len: u32,
}

/// Prefixes to numbers.
#[derive(Debug, Clone)]
pub struct LpmTrie {
    words: usize,
    /// The string's chunks of up to [`NODE_BITS`] bits below the root, and how many bits are
    /// before each.
    levels: Vec<(Chunk, u32)>,
    /// The string in pieces of one word each, in its order.
    pieces: Vec<Chunk>,
    root_chunk: Chunk,
    root: Vec<RootSlot>,
    /// For each slot of the root, the length of its entry's prefix; meaningless without an entry.
    root_lens: Vec<u8>,
    /// The prefixes that are no longer than the root, by length and value of the root's bits.
    short: HashMap<(u32, u64), u32>,
    nodes: Arena<Node>,
    /// A leaf: its value's words, then its length and its entry.
    leaves: Arena<u64>,
    entries: Arena<u32>,
    /// For each length, the bits of a key that it covers.
    masks: Vec<u64>,
    exact_bits: u32,
    len: usize,
    root_bits_max: u32,
}

impl LpmTrie {
    /// An empty trie. `exact` are the fields that are matched whole, `prefix` the one whose
    /// prefixes are; `words` is the length of a key. None where the fields have more than 256 bits.
    pub fn new(words: usize, exact: &[FieldPlace], prefix: FieldPlace) -> Option<Self> {
        let exact_bits: u32 = exact.iter().map(|field| field.bits).sum();
        if exact_bits.saturating_add(prefix.bits) > TRIE_BITS_MAX {
            return None;
        }
        let fields = exact.iter().copied().chain([prefix]);
        let pieces: Vec<Chunk> = fields.flat_map(pieces).collect();
        let mut trie = Self {
            words,
            levels: Vec::new(),
            masks: masks(&pieces, words),
            pieces,
            root_chunk: Chunk {
                word: 0,
                shift: 0,
                bits: 0,
            },
            root: Vec::new(),
            root_lens: Vec::new(),
            short: HashMap::new(),
            nodes: Arena::new(1),
            leaves: Arena::new(words + 1),
            entries: Arena::new(1),
            exact_bits,
            len: 0,
            root_bits_max: ROOT_BITS[ROOT_BITS.len() - 1].1,
        };
        trie.set_root(ROOT_BITS[0].1);
        Some(trie)
    }

    /// As [`LpmTrie::new`] with a root of up to so many bits from the beginning, to measure.
    pub fn with_root_bits(words: usize, prefix: FieldPlace, bits: u32) -> Option<Self> {
        let mut trie = Self::new(words, &[], prefix)?;
        trie.root_bits_max = bits;
        trie.set_root(bits);
        Some(trie)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that it holds, about.
    pub fn memory_bytes(&self) -> usize {
        self.root.capacity() * size_of::<RootSlot>()
            + self.nodes.memory_bytes()
            + self.leaves.memory_bytes()
            + self.entries.memory_bytes()
            + self.masks.capacity() * size_of::<u64>()
            + self.short.capacity() * size_of::<((u32, u64), u32)>()
    }

    /// The entry of the longest prefix of a key, or [`MISS`].
    #[inline]
    pub fn lookup(&self, key: &[u64]) -> u32 {
        match self.words {
            1 => self.find(1, key),
            2 => self.find(2, key),
            3 => self.find(3, key),
            words => self.find(words, key),
        }
    }

    /// As [`LpmTrie::lookup`] where the caller knows the number of words.
    #[inline(always)]
    pub(super) fn find(&self, words: usize, key: &[u64]) -> u32 {
        let key = &key[..words];
        let slot = &self.root[index(self.root_chunk.read(key))];
        let mut node = match slot.child() {
            Child::None => return slot.entry,
            Child::Leaf(leaf) => return self.leaf(words, key, leaf).unwrap_or(slot.entry),
            Child::Node(node) => node,
        };
        let mut best = None;
        for (chunk, _) in &self.levels {
            let bits = &self.nodes.get(node)[0];
            let value = chunk.read(key);
            let inner = bits.inner & COVERS[index(value << (NODE_BITS - chunk.bits))];
            if inner != 0 {
                let longest = 63 - inner.leading_zeros();
                best = Some(bits.first_entry + rank(bits.inner, u64::from(longest)));
            }
            if bits.nodes >> value & 1 != 0 {
                node = bits.first_node + rank(bits.nodes, value);
                continue;
            }
            if bits.leaves >> value & 1 != 0 {
                let leaf = bits.first_leaf + rank(bits.leaves, value);
                if let Some(entry) = self.leaf(words, key, leaf) {
                    return entry;
                }
            }
            break;
        }
        best.map_or(slot.entry, |entry| self.entries.get(entry)[0])
    }

    /// The entry of a leaf that covers a key.
    #[inline(always)]
    fn leaf(&self, words: usize, key: &[u64], leaf: u32) -> Option<u32> {
        let leaf = &self.leaves.get(leaf)[..=words];
        let (len, entry) = unpack(leaf[words]);
        let mask = &self.masks[len as usize * words..][..words];
        let differs = (0..words).fold(0, |rest, word| {
            rest | ((key[word] & mask[word]) ^ leaf[word])
        });
        (differs == 0).then_some(entry)
    }
}

/// The pieces of a field, from its most significant bit on.
fn pieces(field: FieldPlace) -> Vec<Chunk> {
    let piece = |limb: usize| Chunk {
        word: field.word + limb,
        shift: field.shift,
        bits: match field.bits {
            0..=64 => field.bits,
            bits => (bits - 64 * u32::try_from(limb).expect("a key has a few limbs")).min(64),
        },
    };
    let limbs = (0..field.words()).rev().map(piece);
    limbs.filter(|piece| piece.bits > 0).collect()
}

/// For each length, its mask.
fn masks(pieces: &[Chunk], words: usize) -> Vec<u64> {
    let mut mask = vec![0u64; words];
    let mut masks = mask.clone();
    for piece in pieces {
        for bit in (0..piece.bits).rev() {
            mask[piece.word] |= 1 << (piece.shift + bit);
            masks.extend_from_slice(&mask);
        }
    }
    masks
}

#[inline(always)]
fn index(value: u64) -> usize {
    // Lossless where a `usize` has 64 bits; a chunk has 24 bits at most anyway.
    usize::try_from(value).expect("a usize has 64 bits")
}

/// How many bits are set below one.
#[inline(always)]
fn rank(bits: u64, bit: u64) -> u32 {
    (bits & ((1 << bit) - 1)).count_ones()
}

fn pack(len: u32, entry: u32) -> u64 {
    u64::from(len) << 32 | u64::from(entry)
}

#[inline(always)]
fn unpack(cell: u64) -> (u32, u32) {
    let low = |cell: u64| u32::try_from(cell & u64::from(u32::MAX)).expect("it was masked");
    (low(cell >> 32), low(cell))
}

/// The chunk of the first `bits` bits at most, and those of what follows.
fn split(pieces: &[Chunk], root_bits: u32) -> (Chunk, Vec<(Chunk, u32)>) {
    let mut root = Chunk {
        word: 0,
        shift: 0,
        bits: 0,
    };
    let (mut levels, mut before) = (Vec::new(), 0);
    for (position, piece) in pieces.iter().enumerate() {
        let mut rest = piece.bits;
        if position == 0 {
            root = *piece;
            root.bits = rest.min(root_bits);
            rest -= root.bits;
            root.shift += rest;
            before = root.bits;
        }
        while rest > 0 {
            let bits = rest.min(NODE_BITS);
            rest -= bits;
            let shift = piece.shift + rest;
            let word = piece.word;
            levels.push((Chunk { word, shift, bits }, before));
            before += bits;
        }
    }
    (root, levels)
}

/// The value with a chunk's bits set to a number.
fn with_chunk(value: &mut [u64], chunk: Chunk, number: u64) {
    value[chunk.word] &= !(low_ones(chunk.bits) << chunk.shift);
    value[chunk.word] |= number << chunk.shift;
}
