//! The data of each entry: value, mask, ranges and rank.

use crate::lookup::{MISS, shape::FieldPlace};

/// The order in which entries are tried, smaller ranks first. An entry of higher priority comes before an entry of
/// lower priority; among entries of the same priority, the older entry comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u128);

impl Rank {
    /// A rank that comes after the rank of every entry.
    pub(super) const LAST: Self = Self(u128::MAX);

    pub(super) fn new(priority: i32, age: u64) -> Self {
        let below = i64::from(i32::MAX) - i64::from(priority);
        Self(u128::from(below.unsigned_abs()) << 64 | u128::from(age))
    }
}

/// A range of one field: the lowest and the highest value, both as words, the least significant word first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRange {
    pub low: Vec<u64>,
    pub high: Vec<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Store {
    pub(super) words: usize,
    pub(super) range_fields: Vec<FieldPlace>,
    /// Words of an entry in `cells`: value, mask, then the ends of each range.
    stride: usize,
    cells: Vec<u64>,
    ranks: Vec<Rank>,
    /// The next entry of the same tuple and value, or [`MISS`].
    pub(super) next: Vec<u32>,
}

impl Store {
    pub(super) fn new(words: usize, range_fields: Vec<FieldPlace>) -> Self {
        let limbs: usize = range_fields.iter().map(FieldPlace::words).sum();
        Self {
            words,
            range_fields,
            stride: 2 * words + 2 * limbs,
            cells: Vec::new(),
            ranks: Vec::new(),
            next: Vec::new(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<u64>()
            + self.ranks.capacity() * size_of::<Rank>()
            + self.next.capacity() * size_of::<u32>()
    }

    /// Stores an entry. Value and mask have no bits of range fields.
    pub(super) fn put(
        &mut self,
        entry: u32,
        value: &[u64],
        mask: &[u64],
        ranges: &[FieldRange],
        rank: Rank,
    ) {
        let at = entry as usize;
        if self.ranks.len() <= at {
            self.ranks.resize(at + 1, Rank::LAST);
            self.next.resize(at + 1, MISS);
            self.cells.resize((at + 1) * self.stride, 0);
        }
        self.ranks[at] = rank;
        self.next[at] = MISS;
        let mut cells = [value, mask].concat();
        for (field, range) in self.range_fields.iter().zip(ranges) {
            cells.extend(resized(&range.low, field));
            cells.extend(resized(&range.high, field));
        }
        let places = &mut self.cells[at * self.stride..][..self.stride];
        places.copy_from_slice(&cells);
    }

    #[inline(always)]
    pub(super) fn rank(&self, entry: u32) -> Rank {
        self.ranks[entry as usize]
    }

    #[inline(always)]
    fn cells(&self, entry: u32) -> &[u64] {
        &self.cells[entry as usize * self.stride..][..self.stride]
    }

    pub(super) fn value(&self, entry: u32) -> &[u64] {
        &self.cells(entry)[..self.words]
    }

    pub(super) fn mask(&self, entry: u32) -> &[u64] {
        &self.cells(entry)[self.words..2 * self.words]
    }

    #[inline(always)]
    pub(super) fn matches(&self, words: usize, entry: u32, key: &[u64]) -> bool {
        let cells = self.cells(entry);
        let (value, rest) = cells.split_at(words);
        let mask = &rest[..words];
        let differs = (0..words).fold(0, |all, word| {
            all | ((key[word] & mask[word]) ^ value[word])
        });
        differs == 0 && self.in_ranges(entry, key)
    }

    /// Whether the key's fields are in the ranges of an entry. True if no field is matched by ranges.
    #[inline(always)]
    pub(super) fn in_ranges(&self, entry: u32, key: &[u64]) -> bool {
        if self.range_fields.is_empty() {
            return true;
        }
        let mut ends = &self.cells(entry)[2 * self.words..];
        self.range_fields.iter().all(|field| {
            let limbs = field.words();
            let (low, rest) = ends.split_at(limbs);
            let (high, rest) = rest.split_at(limbs);
            ends = rest;
            if limbs == 1 {
                let value = field.limb(key, 0);
                return low[0] <= value && value <= high[0];
            }
            let value = || (0..limbs).rev().map(|limb| field.limb(key, limb));
            low.iter().rev().copied().le(value()) && value().le(high.iter().rev().copied())
        })
    }

    /// Bit n is set if the entry may match a key whose four bits at `shift` of a word are n. If the
    /// entry matches such a key, the bit is surely set; if not, the bit may still be set.
    pub(super) fn nibbles(&self, entry: u32, word: usize, shift: u32) -> u16 {
        let (value, mask) = (self.value(entry)[word], self.mask(entry)[word]);
        let (value, mask) = (value >> shift & 15, mask >> shift & 15);
        let mut allowed = (0..16u64)
            .filter(|nibble| nibble & mask == value)
            .fold(0, |all, nibble| all | 1u16 << nibble);
        let mut ends = &self.cells(entry)[2 * self.words..];
        for field in &self.range_fields {
            let (range, rest) = ends.split_at(2 * field.words());
            ends = rest;
            let inside = field.word == word
                && field.bits <= 64
                && field.shift <= shift
                && shift + 4 <= field.shift + field.bits;
            if !inside {
                continue;
            }
            let offset = shift - field.shift;
            let above = |end: u64| end.checked_shr(offset + 4).unwrap_or(0);
            let (low, high) = (range[0], range[1]);
            if above(low) == above(high) {
                for nibble in 0..16u64 {
                    if nibble < (low >> offset & 15) || nibble > (high >> offset & 15) {
                        allowed &= !(1 << nibble);
                    }
                }
            }
        }
        allowed
    }
}

/// A value, extended with zeros or cut to the number of words of a field.
fn resized(value: &[u64], field: &FieldPlace) -> Vec<u64> {
    let mut value = value.to_vec();
    value.resize(field.words(), 0);
    value
}
