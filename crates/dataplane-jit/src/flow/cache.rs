//! The records of a control's flows.
#![expect(
    unsafe_code,
    reason = "generated code calls the cache with plain pointers and fills the cells it is given"
)]

use std::{ffi::c_void, mem::offset_of};

use super::plan::{FlowPlan, Looked};
use crate::{lookup::hash_words, tables::NativeTables};

/// What a cell holds whose table no packet of the flow has come to. It is no entry's number, and
/// not that of a miss.
pub(crate) const OPEN: u32 = u32::MAX - 1;

/// Records of a cache: 128 to 384 KiB, which the second-level cache holds beside the tables. With
/// more of them a packet of one of ten thousand flows waits longer for its record than the lookups
/// take; with these the cache sees that it hits seldom, and goes to sleep.
const RECORDS: usize = 1 << 11;

/// Records that a key may stand in.
const WAYS: usize = 2;

/// Lookups after which it is asked whether the cache is worth it.
const WINDOW: u32 = 4_096;

/// Of a window's lookups, so many must have hit: a miss costs what a hit saves.
const WINDOW_HITS_MIN: u32 = WINDOW / 2;

/// Lookups that go past a cache that was not worth it.
const SLEEP: u32 = 16 * WINDOW;

/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// What generated code calls: of the cache and the packed inputs, the flow's cells.
pub(crate) type FlowFunction = unsafe extern "C" fn(*mut c_void, *const u64) -> *mut u32;

/// The flows of a control. A record is the generation, the key's words, the cells.
pub(crate) struct FlowCache {
    plan: FlowPlan,
    has_wildcards: bool,
    /// The records, from the first word that begins a cache line.
    words: Box<[u64]>,
    start: usize,
    /// Words of a record.
    stride: usize,
    generation: u64,
    /// The bits of the key that count.
    masks: Box<[u64]>,
    lookups: u32,
    hits: u32,
    /// Packets that go past the cache from now on; generated code counts them down.
    asleep: u32,
}

impl FlowCache {
    /// Where generated code finds whether it sleeps: 4 bytes, 0 where it does not.
    pub(crate) const ASLEEP: usize = offset_of!(Self, asleep);

    pub(crate) fn new(plan: FlowPlan, has_wildcards: bool) -> Self {
        let cells = plan.tables.len().div_ceil(2);
        let stride = (1 + plan.shape.words() + cells).next_multiple_of(LINE_WORDS);
        // Memory that is zero from the beginning is not touched before a record is used.
        let words: Box<[u64]> = vec![0; RECORDS * stride + LINE_WORDS].into();
        Self {
            has_wildcards,
            start: words.as_ptr().align_offset(LINE_WORDS * size_of::<u64>()),
            words,
            stride,
            generation: 1,
            masks: vec![u64::MAX; plan.shape.words()].into(),
            lookups: 0,
            hits: 0,
            asleep: 0,
            plan,
        }
    }

    pub(crate) fn plan(&self) -> &FlowPlan {
        &self.plan
    }

    /// The function for keys of this length.
    pub(crate) fn function(&self) -> FlowFunction {
        match self.plan.shape.words() {
            1 => find::<1>,
            2 => find::<2>,
            3 => find::<3>,
            4 => find::<4>,
            5 => find::<5>,
            6 => find::<6>,
            7 => find::<7>,
            _ => find::<8>,
        }
    }

    /// Some table or profile has changed: nothing that was found counts any more.
    pub(crate) fn invalidate(&mut self, tables: &NativeTables) {
        self.generation += 1;
        if !self.has_wildcards {
            return;
        }
        self.masks.fill(0);
        let places = self.plan.shape.fields().iter();
        for (place, (_, looked)) in places.zip(&self.plan.inputs) {
            let mut bits = vec![0; place.words()];
            match looked {
                Looked::Whole => bits.fill(u64::MAX),
                Looked::Keys(keys) => {
                    for (table, field) in keys {
                        let seen = tables.looked_at(*table, *field);
                        for (all, more) in bits.iter_mut().zip(seen) {
                            *all |= more;
                        }
                    }
                }
            }
            place.put(&bits, &mut self.masks);
        }
    }

    /// Counts a lookup; goes to sleep where too few have hit.
    fn count(&mut self) {
        self.lookups += 1;
        if self.lookups == WINDOW {
            if self.hits < WINDOW_HITS_MIN {
                self.asleep = SLEEP;
            }
            (self.lookups, self.hits) = (0, 0);
        }
    }

    #[inline(always)]
    fn find<const WORDS: usize>(&mut self, key: &[u64; WORDS]) -> *mut u32 {
        self.count();
        let mut masked = [0; WORDS];
        for (word, (key, mask)) in masked.iter_mut().zip(key.iter().zip(&self.masks)) {
            *word = key & mask;
        }
        let hash = hash_words(WORDS, |word| masked[word]);
        let set = usize::try_from(hash >> 20).unwrap_or(0) & (RECORDS / WAYS - 1);
        let (stride, generation) = (self.stride, self.generation);
        let at = self.start + set * WAYS * stride;
        let records = &mut self.words[at..at + WAYS * stride];
        let is_it = |record: &[u64]| {
            let key = record[1..].iter().zip(&masked);
            let differs = key.fold(record[0] ^ generation, |all, (a, b)| all | (a ^ b));
            differs == 0
        };
        let (first, second) = records.split_at_mut(stride);
        let found = match (is_it(first), is_it(second)) {
            (true, _) => Some(first),
            (_, true) => Some(second),
            _ => None,
        };
        if let Some(record) = found {
            let cells = record[1 + WORDS..].as_mut_ptr().cast();
            self.hits += 1;
            return cells;
        }
        let (first, second) = records.split_at_mut(stride);
        second.copy_from_slice(first);
        first[0] = generation;
        first[1..=WORDS].copy_from_slice(&masked);
        let open = u64::from(OPEN) << 32 | u64::from(OPEN);
        let cells = &mut first[1 + WORDS..];
        cells.fill(open);
        cells.as_mut_ptr().cast()
    }
}

unsafe extern "C" fn find<const WORDS: usize>(cache: *mut c_void, key: *const u64) -> *mut u32 {
    // SAFETY: generated code gives the cache that it was made for, which nobody else uses in a
    // pass, and a key of its length.
    let (cache, key) = unsafe {
        (
            &mut *cache.cast::<FlowCache>(),
            &*key.cast::<[u64; WORDS]>(),
        )
    };
    cache.find(key)
}
