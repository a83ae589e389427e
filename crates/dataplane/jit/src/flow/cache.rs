//! The records of a control's flows. A record has a cell for each table. The cell holds the number of the entry that a
//! packet of the flow found in the table.
#![expect(
    unsafe_code,
    reason = "generated code calls the cache with plain pointers and fills the cells it is given"
)]

use std::{ffi::c_void, mem::offset_of};

use super::plan::{FlowPlan, Looked};
use crate::{lookup::hash_words, tables::NativeTables};

/// The content of a cell if no packet of the flow has come to the cell's table yet. It differs from the number of every
/// entry, and from the number of a miss.
pub(crate) const OPEN: u32 = u32::MAX - 1;

/// The number of records in a set. A key may be in any record of its set.
const WAYS: usize = 2;

/// The number of records of a cache. Most records have 64 to 192 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// 2,048 records: 128 to 384 KiB, which the second-level cache holds beside the tables. With more records and ten
    /// thousand flows, a packet waits longer for its record than for the lookups that the record saves.
    Near,
    /// Up to 65,536 records, which are prefetched ([`FlowCache::prefetch`]), so that packets do not wait for them. Of
    /// ten thousand flows, 96 % then keep a record; the remaining flows evict each other's records.
    Prefetched,
}

/// The highest number of words of a prefetched cache. With long records, the cache gets fewer of them.
const WORDS_MAX: usize = 1 << 20;

impl Capacity {
    /// The number of records of `stride` words each, a power of two.
    const fn records(self, stride: usize) -> usize {
        let (least, most) = (1 << 11, 1 << 16);
        match self {
            Self::Near => least,
            Self::Prefetched => {
                let mut records = most;
                while records > least && records * stride > WORDS_MAX {
                    records /= 2;
                }
                records
            }
        }
    }
}

/// Lookups after which the cache checks whether it is worth its cost.
const WINDOW: u32 = 4_096;

/// The least number of hits in a window for which the cache is worth its cost: a miss costs about as much time as a hit
/// saves.
const WINDOW_HITS_MIN: u32 = WINDOW / 2;

/// How many windows in a row may have too few hits before the cache sleeps, if most misses find an unused record: an
/// empty cache must fill first.
const POOR_WINDOWS_MAX: u32 = 16;

/// When the cache is not worth its cost, it sleeps: this many packets bypass it.
const SLEEP: u32 = 16 * WINDOW;

const LINE_WORDS: usize = 8;

/// A lookup for generated code. Takes the cache and the inputs packed into a key; returns the flow's cells.
pub(crate) type FlowFunction = unsafe extern "C" fn(*mut c_void, *const u64) -> *mut u32;

/// Prefetches the flow's record. Takes the same arguments as a `FlowFunction`.
pub(crate) type PrefetchFunction = unsafe extern "C" fn(*const c_void, *const u64);

/// The flows of a control. A record has its generation (32 bits), its cells and, from the next whole word on, its key.
pub(crate) struct FlowCache {
    plan: FlowPlan,
    has_wildcards: bool,
    /// The records; the first begins at word `start`, on a cache line.
    words: Box<[u64]>,
    start: usize,
    /// Sets of records, a power of two.
    sets: usize,
    /// Words of a record.
    stride: usize,
    /// Words of a record before its key.
    key_at: usize,
    /// Counts changes of tables and action profiles, from 1. A record whose generation differs is invalid. A record of
    /// generation 0 was never used.
    generation: u32,
    /// The bits of the key that are compared.
    masks: Box<[u64]>,
    lookups: u32,
    hits: u32,
    /// Misses that overwrote a valid record.
    evictions: u32,
    poor_windows_left: u32,
    /// Packets that still bypass the cache; generated code counts them down.
    asleep: u32,
}

impl FlowCache {
    /// Offset of `asleep`: 4 bytes, 0 while the cache is awake.
    pub(crate) const ASLEEP: usize = offset_of!(Self, asleep);

    pub(crate) fn new(plan: FlowPlan, has_wildcards: bool, capacity: Capacity) -> Self {
        let key_at = (1 + plan.tables.len()).div_ceil(2);
        let stride = (key_at + plan.shape.words()).next_multiple_of(LINE_WORDS);
        let records = capacity.records(stride);
        // The operating system provides memory for zeroed records only when they are first used.
        let words: Box<[u64]> = vec![0; records * stride + LINE_WORDS].into();
        Self {
            has_wildcards,
            start: words.as_ptr().align_offset(LINE_WORDS * size_of::<u64>()),
            words,
            sets: records / WAYS,
            stride,
            key_at,
            generation: 1,
            masks: vec![u64::MAX; plan.shape.words()].into(),
            lookups: 0,
            hits: 0,
            evictions: 0,
            poor_windows_left: POOR_WINDOWS_MAX,
            asleep: 0,
            plan,
        }
    }

    pub(crate) fn plan(&self) -> &FlowPlan {
        &self.plan
    }

    /// Whether packets bypass the cache because too few lookups hit.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep > 0
    }

    pub(crate) fn functions(&self) -> (FlowFunction, PrefetchFunction) {
        match self.plan.shape.words() {
            1 => (find::<1>, prefetch::<1>),
            2 => (find::<2>, prefetch::<2>),
            3 => (find::<3>, prefetch::<3>),
            4 => (find::<4>, prefetch::<4>),
            5 => (find::<5>, prefetch::<5>),
            6 => (find::<6>, prefetch::<6>),
            7 => (find::<7>, prefetch::<7>),
            _ => (find::<8>, prefetch::<8>),
        }
    }

    /// Invalidates all records, because a table or an action profile has changed.
    pub(crate) fn invalidate(&mut self, tables: &NativeTables) {
        self.begin_generation();
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

    fn begin_generation(&mut self) {
        self.generation = self.generation.checked_add(1).unwrap_or_else(|| {
            // After the wrap, records of old generations would count as valid again.
            self.words.fill(0);
            1
        });
    }

    /// Counts a lookup, and lets the cache sleep if too few lookups hit.
    fn count(&mut self) {
        self.lookups += 1;
        if self.lookups == WINDOW {
            self.look_back();
        }
    }

    #[cold]
    fn look_back(&mut self) {
        let misses = self.lookups - self.hits;
        if self.hits >= WINDOW_HITS_MIN {
            self.poor_windows_left = POOR_WINDOWS_MAX;
        } else if self.poor_windows_left > 0 && self.evictions < misses / 2 {
            self.poor_windows_left -= 1;
        } else {
            self.asleep = SLEEP;
        }
        (self.lookups, self.hits, self.evictions) = (0, 0, 0);
    }

    /// The bits of a key that are compared, and the first word of the set that the key belongs to.
    #[inline(always)]
    fn place<const WORDS: usize>(&self, key: &[u64; WORDS]) -> ([u64; WORDS], usize) {
        let mut masked = [0; WORDS];
        for (word, (key, mask)) in masked.iter_mut().zip(key.iter().zip(&self.masks)) {
            *word = key & mask;
        }
        let hash = hash_words(WORDS, |word| masked[word]);
        let set = usize::try_from(hash >> 20).expect("a usize has 64 bits") & (self.sets - 1);
        (masked, self.start + set * WAYS * self.stride)
    }

    #[inline(always)]
    fn prefetch<const WORDS: usize>(&self, key: &[u64; WORDS]) {
        let (_, at) = self.place(key);
        for line in self.words[at..at + WAYS * self.stride].chunks(LINE_WORDS) {
            prefetch_line(line.as_ptr());
        }
    }

    #[inline(always)]
    fn find<const WORDS: usize>(&mut self, key: &[u64; WORDS]) -> *mut u32 {
        self.count();
        let (masked, at) = self.place(key);
        let (stride, key_at, generation) = (self.stride, self.key_at, self.generation);
        let records = &mut self.words[at..at + WAYS * stride];
        let is_it = |record: &[u64]| {
            let key = record[key_at..].iter().zip(&masked);
            let differs = u64::from(generation_of(record) ^ generation);
            key.fold(differs, |all, (a, b)| all | (a ^ b)) == 0
        };
        let (first, second) = records.split_at_mut(stride);
        let found = match (is_it(first), is_it(second)) {
            (true, _) => Some(first),
            (_, true) => Some(second),
            _ => None,
        };
        if let Some(record) = found {
            self.hits += 1;
            return cells_of(record);
        }
        let (first, second) = records.split_at_mut(stride);
        self.evictions += u32::from(generation_of(second) == generation);
        second.copy_from_slice(first);
        let open = u64::from(OPEN) << 32 | u64::from(OPEN);
        first[..key_at].fill(open);
        first[0] = u64::from(OPEN) << 32 | u64::from(generation);
        first[key_at..key_at + WORDS].copy_from_slice(&masked);
        cells_of(first)
    }
}

/// The generation of a record: the low half of its first word.
fn generation_of(record: &[u64]) -> u32 {
    u32::try_from(record[0] & u64::from(u32::MAX)).expect("masked to 32 bits")
}

fn cells_of(record: &mut [u64]) -> *mut u32 {
    record.as_mut_ptr().cast::<u32>().wrapping_add(1)
}

fn prefetch_line(line: *const u64) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no visible effect, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
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

unsafe extern "C" fn prefetch<const WORDS: usize>(cache: *const c_void, key: *const u64) {
    // SAFETY: as in `find`.
    let (cache, key) = unsafe { (&*cache.cast::<FlowCache>(), &*key.cast::<[u64; WORDS]>()) };
    cache.prefetch(key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::shape::KeyShape;

    fn cache(capacity: Capacity) -> FlowCache {
        let plan = FlowPlan {
            inputs: Vec::new(),
            shape: KeyShape::new(&[64, 64]),
            tables: Vec::new(),
        };
        FlowCache::new(plan, false, capacity)
    }

    /// Looks up packets of `flows` flows in turn, as generated code does. Returns how many of the last thousand packets
    /// hit, and whether the cache slept.
    fn run(cache: &mut FlowCache, flows: u64, packets: u64) -> (u32, bool) {
        let (mut hits, mut slept) = (0, false);
        for packet in 0..packets {
            if cache.asleep > 0 {
                slept = true;
                cache.asleep -= 1;
                continue;
            }
            let before = cache.hits;
            let flow = packet % flows;
            cache.prefetch(&[flow, !flow]);
            cache.find(&[flow, !flow]);
            // If a window ended, `hits` was reset.
            let is_hit = cache.hits == before + 1 || (cache.lookups, cache.hits) == (1, 1);
            hits += u32::from(is_hit && packet + 1_000 >= packets);
        }
        (hits, slept)
    }

    #[test]
    fn ten_thousand_flows_have_records_where_they_are_prefetched() {
        let mut prefetched = cache(Capacity::Prefetched);
        let (hits, slept) = run(&mut prefetched, 10_000, 40_000);
        assert!(hits > 940, "{hits} of 1,000");
        assert!(!slept, "it filled first");
        let mut near = cache(Capacity::Near);
        let (_, slept) = run(&mut near, 10_000, 40_000);
        assert!(slept);
        let (hits, _) = run(&mut near, 500, 200_000);
        assert!(hits > 940, "it woke: {hits} of 1,000");
    }

    #[test]
    fn long_records_are_fewer() {
        let most = |stride| Capacity::Prefetched.records(stride);
        assert_eq!([8, 16, 24, 200].map(most), [65_536, 65_536, 32_768, 4_096]);
        assert_eq!(most(4_000), Capacity::Near.records(4_000));
    }

    #[test]
    fn a_cache_that_is_always_emptied_sleeps() {
        let mut cache = cache(Capacity::Prefetched);
        let n_awake = (0..200).filter(|_| {
            cache.begin_generation();
            !run(&mut cache, 10_000, 3_000).1
        });
        assert!(n_awake.count() < 100);
    }

    #[test]
    fn no_record_of_an_older_generation_counts() {
        let mut cache = cache(Capacity::Near);
        cache.find(&[1, 2]);
        cache.generation = u32::MAX;
        cache.find(&[3, 4]);
        cache.begin_generation();
        assert_eq!(cache.generation, 1);
        for key in [[1, 2], [3, 4]] {
            let before = cache.hits;
            cache.find(&key);
            assert_eq!(cache.hits, before, "{key:?}");
        }
    }
}
