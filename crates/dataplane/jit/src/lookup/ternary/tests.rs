//! Random writes and lookups, checked against a linear search.

use super::*;
use crate::lookup::shape::KeyShape;

struct Entry {
    number: u32,
    priority: i32,
    value: Vec<u64>,
    mask: Vec<u64>,
    ranges: Vec<FieldRange>,
}

/// How the masks of a test's entries are chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Masks {
    /// Chosen from a few, so that tuples form and end.
    Few,
    /// Random for each entry.
    Own,
    /// Mostly chosen from a few.
    Mixed,
}

struct Check {
    shape: KeyShape,
    ranges: Vec<usize>,
    index: TernaryIndex,
    /// The entries that the index has, the oldest first.
    model: Vec<Entry>,
    masks: Vec<Vec<u64>>,
    random: fastrand::Rng,
    free: Vec<u32>,
}

impl Check {
    fn new(widths: &[u32], ranges: &[usize], seed: u64) -> Self {
        let shape = KeyShape::new(widths);
        let range_fields: Vec<FieldPlace> = ranges.iter().map(|at| shape.fields()[*at]).collect();
        let index = TernaryIndex::new(shape.words(), shape.fields(), &range_fields);
        let mut check = Self {
            index: index.with_tuple_entries_min(if seed.is_multiple_of(2) { 4 } else { 12 }),
            shape,
            ranges: ranges.to_vec(),
            model: Vec::new(),
            masks: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            free: (0..400).collect(),
        };
        check.masks = (0..5).map(|_| check.random_words(true)).collect();
        check
    }

    /// Random words in the fields; a mask leaves out range fields.
    fn random_words(&mut self, is_mask: bool) -> Vec<u64> {
        let mut words = vec![0; self.shape.words()];
        for (at, field) in self.shape.fields().to_vec().iter().enumerate() {
            if is_mask && self.ranges.contains(&at) {
                continue;
            }
            let kind = self.random.u8(0..4);
            let value: Vec<u64> = (0..field.words())
                .map(|_| match kind {
                    0 => 0,
                    1 => u64::MAX,
                    2 => self.random.u64(..) & self.random.u64(..) & self.random.u64(..),
                    _ => self.random.u64(..),
                })
                .collect();
            field.put(&value, &mut words);
        }
        words
    }

    /// A key that nearly or fully matches some entry, or a random key.
    fn key(&mut self) -> Vec<u64> {
        let mut key = self.random_words(false);
        if !self.model.is_empty() && self.random.u8(0..5) > 0 {
            let entry = &self.model[self.random.usize(0..self.model.len())];
            for (key, (value, mask)) in key.iter_mut().zip(entry.value.iter().zip(&entry.mask)) {
                *key = *key & !mask | value;
            }
            for (at, range) in self.ranges.iter().zip(&entry.ranges) {
                let field = self.shape.fields()[*at];
                let mut empty = vec![0; self.shape.words()];
                field.put(&vec![u64::MAX; field.words()], &mut empty);
                let end = if self.random.bool() {
                    &range.low
                } else {
                    &range.high
                };
                let mut end = end.clone();
                if self.random.u8(0..3) == 0 {
                    end[0] = end[0].wrapping_add(self.random.u64(0..3)).wrapping_sub(1);
                }
                for (key, field) in key.iter_mut().zip(&empty) {
                    *key &= !field;
                }
                field.put(&end, &mut key);
            }
        }
        key
    }

    fn range(&mut self, field: FieldPlace) -> FieldRange {
        let mut ends: Vec<Vec<u64>> = (0..2)
            .map(|_| {
                (0..field.words())
                    .map(|limb| {
                        let mut key = vec![0; self.shape.words()];
                        field.put(&vec![self.random.u64(..); field.words()], &mut key);
                        field.limb(&key, limb)
                    })
                    .collect()
            })
            .collect();
        if self.random.bool() {
            // The ends are near each other: they have a common prefix.
            ends[1] = ends[0].clone();
            ends[1][0] ^= self.random.u64(0..16) & low(field.bits);
        }
        ends.sort_by(|a, b| a.iter().rev().cmp(b.iter().rev()));
        let high = ends.pop().unwrap();
        let low = ends.pop().unwrap();
        FieldRange { low, high }
    }

    fn insert(&mut self, masks: Masks) {
        let Some(number) = self.free.pop() else {
            return;
        };
        let own = match masks {
            Masks::Few => false,
            Masks::Own => true,
            Masks::Mixed => self.random.u8(0..4) == 0,
        };
        let mask = if own {
            self.random_words(true)
        } else {
            self.masks[self.random.usize(0..self.masks.len())].clone()
        };
        let mut value = self.random_words(true);
        if let Some(entry) = self.model.last()
            && self.random.bool()
        {
            value = entry.value.clone();
        }
        for (value, mask) in value.iter_mut().zip(&mask) {
            *value &= mask;
        }
        let ranges: Vec<FieldRange> = (0..self.ranges.len())
            .map(|at| self.range(self.shape.fields()[self.ranges[at]]))
            .collect();
        let priority = self.random.i32(1..6);
        self.index.insert(&value, &mask, &ranges, priority, number);
        self.model.push(Entry {
            number,
            priority,
            value,
            mask,
            ranges,
        });
    }

    fn remove(&mut self) {
        if !self.model.is_empty() {
            let gone = self.model.remove(self.random.usize(0..self.model.len()));
            self.index.remove(gone.number);
            self.free.push(gone.number);
        }
    }

    fn expected(&self, key: &[u64]) -> u32 {
        let mut best: Option<&Entry> = None;
        for entry in &self.model {
            let masked = key.iter().zip(&entry.mask).map(|(key, mask)| key & mask);
            let inside = self.ranges.iter().zip(&entry.ranges).all(|(at, range)| {
                let field = self.shape.fields()[*at];
                let value: Vec<u64> = (0..field.words())
                    .rev()
                    .map(|l| field.limb(key, l))
                    .collect();
                let end = |end: &[u64]| end.iter().rev().copied().collect::<Vec<u64>>();
                end(&range.low) <= value && value <= end(&range.high)
            });
            let better = best.is_none_or(|best| entry.priority > best.priority);
            if inside && better && masked.eq(entry.value.iter().copied()) {
                best = Some(entry);
            }
        }
        best.map_or(MISS, |entry| entry.number)
    }

    fn run(mut self, masks: Masks, steps: usize) -> Self {
        for step in 0..steps {
            // Grows to hundreds of entries and shrinks again, so that blocks split and merge.
            let grows = (step / 500).is_multiple_of(2);
            match (self.random.u8(0..4), grows) {
                (0, true) | (1..4, false) => self.remove(),
                _ => self.insert(masks),
            }
            assert_eq!(self.index.len(), self.model.len());
            for _ in 0..3 {
                let key = self.key();
                assert_eq!(
                    self.index.lookup(&key),
                    self.expected(&key),
                    "{masks:?} {step}"
                );
            }
        }
        self
    }
}

fn low(bits: u32) -> u64 {
    crate::lookup::shape::low_ones(bits)
}

#[test]
fn the_first_entry_in_order_is_found_whatever_the_masks() {
    for (seed, widths) in [
        &[32u32, 32, 8, 16, 16][..],
        &[9],
        &[1, 1],
        &[48, 48, 16],
        &[128, 12],
    ]
    .iter()
    .enumerate()
    {
        for masks in [Masks::Few, Masks::Own, Masks::Mixed] {
            Check::new(widths, &[], seed as u64).run(masks, 1_200);
        }
    }
}

#[test]
fn ranges_hold_their_ends_and_what_is_between() {
    for (seed, (widths, ranges)) in [
        (&[16u32][..], &[0usize][..]),
        (&[32, 16, 16, 8], &[1, 2]),
        (&[5, 11, 32], &[0, 1]),
        (&[100, 8], &[0]),
        (&[3, 64], &[0, 1]),
    ]
    .iter()
    .enumerate()
    {
        for masks in [Masks::Few, Masks::Own, Masks::Mixed] {
            Check::new(widths, ranges, seed as u64).run(masks, 1_200);
        }
    }
}

#[test]
fn tuples_form_and_end_and_leave_nothing_behind() {
    let mut check = Check::new(&[32, 16], &[], 8).run(Masks::Few, 400);
    assert!(check.index.n_tuples() > 0);
    while !check.model.is_empty() {
        check.remove();
    }
    assert!(check.index.is_empty() && check.index.groups.is_empty());
    assert_eq!(check.index.n_tuples(), 0);
    assert_eq!(check.index.lookup(&[0, 0]), MISS);
}

#[test]
fn memory_is_flat_under_churn() {
    let mut check = Check::new(&[32, 32, 8, 16, 16], &[3], 7);
    let mut after_start = 0;
    for step in 0..20_000 {
        if check.model.len() > 300 {
            check.remove();
        } else {
            check.insert(Masks::Mixed);
        }
        if step == 5_000 {
            after_start = check.index.memory_bytes();
        }
    }
    assert!(check.index.memory_bytes() <= after_start * 3 / 2);
}
