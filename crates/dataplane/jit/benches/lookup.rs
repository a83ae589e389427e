//! Measures what a lookup costs in each structure of `dataplane_jit::lookup`, and for comparison in a hash map of the
//! standard library and in a linear search, with 10, 1,000 and 100,000 entries.
//!
//! `taskset -c 1 cargo bench -p dataplane-jit --bench lookup [-- FILTER]` prints a Markdown table. Each measurement
//! looks up 4,096 random keys that hit. Rows with the same set (the first column) and the same number of entries use
//! the same keys. In the column "one after the other", a lookup begins when the previous lookup has ended, as when one
//! packet goes through several tables. In the column "many at once", the processor may overlap the lookups. Each
//! number comes from the fastest of thirty rounds.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement stops at what it did not expect"
)]

use std::{collections::HashMap, hint::black_box, time::Instant};

use dataplane_jit::lookup::{
    MISS, exact::ExactMap, lpm::LpmTrie, shape::KeyShape, shape::low_ones, ternary::FieldRange,
    ternary::TernaryIndex,
};

const N_KEYS: usize = 4_096;
const ROUNDS: usize = 30;
const ROUND_NS: f64 = 1e6;

type Key<const W: usize> = [u64; W];

struct Bench {
    filter: Option<String>,
}

impl Bench {
    fn wants(&self, set: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| set.contains(filter.as_str()))
    }

    /// Measures the lookups and prints a row. Panics if a key is not found, because the keys are chosen to hit.
    fn row<const W: usize>(
        &self,
        set: &str,
        entries: usize,
        name: &str,
        keys: &[Key<W>],
        find: impl Fn(&Key<W>) -> u32,
    ) {
        assert!(
            keys.iter().all(|key| find(key) != MISS),
            "{set}: {name} misses"
        );
        let serial = least(keys, |keys| {
            let (mut found, zero) = (0, black_box(0));
            for step in 0..keys.len() {
                // The address of the next key depends on this lookup's result, so the processor cannot overlap the
                // lookups.
                found = find(&keys[step + (found & zero) as usize]);
            }
            u64::from(found)
        });
        let parallel = least(keys, |keys| {
            keys.iter().map(|key| u64::from(find(key))).sum()
        });
        println!("| {set} | {entries} | {name} | {serial:.1} | {parallel:.1} |");
    }
}

/// Returns the nanoseconds per lookup in the fastest round.
fn least<const W: usize>(keys: &[Key<W>], run: impl Fn(&[Key<W>]) -> u64) -> f64 {
    let round = |keys: &[Key<W>]| {
        let start = Instant::now();
        black_box(run(black_box(keys)));
        start.elapsed().as_secs_f64() * 1e9
    };
    // A slow structure gets fewer keys, so that a round takes about a millisecond.
    let one = round(&keys[..16]) / 16.0;
    let affordable = (ROUND_NS / one) as usize;
    let keys = &keys[..affordable.clamp(16, N_KEYS)];
    let rounds = (0..ROUNDS).map(|_| round(keys));
    rounds.fold(f64::MAX, f64::min) / keys.len() as f64
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let bench = Bench { filter };
    println!("| set | entries | structure | one after the other, ns | many at once, ns |");
    println!("|---|---:|---|---:|---:|");
    for entries in [10, 1_000, 100_000] {
        exact::<1>(&bench, "exact 48 bits", &[48], entries);
        exact::<2>(&bench, "exact 104 bits", &[32, 32, 8, 16, 16], entries);
        exact::<3>(&bench, "exact 192 bits", &[64, 96, 32], entries);
        exact::<4>(&bench, "exact 256 bits", &[128, 128], entries);
    }
    for entries in [10, 1_000, 100_000] {
        lpm::<1>(
            &bench,
            "lpm 32 bits, routes",
            &[32],
            &[8, 16, 20, 22, 24, 24, 24, 32],
            entries,
        );
        lpm::<1>(&bench, "lpm 32 bits, hosts", &[32], &[32], entries);
        lpm::<2>(
            &bench,
            "lpm 128 bits, routes",
            &[128],
            &[32, 36, 40, 48, 48, 64, 64, 128],
            entries,
        );
        lpm::<1>(
            &bench,
            "lpm 32 bits in one of 64 VRFs",
            &[32, 16],
            &[8, 16, 20, 22, 24, 24, 24, 32],
            entries,
        );
    }
    for entries in [10, 1_000, 100_000] {
        ternary(&bench, "acl, one mask", 1, false, entries);
        ternary(&bench, "acl, 10 masks", 10, false, entries);
        ternary(&bench, "acl, 200 masks", 200, false, entries);
        ternary(&bench, "acl, a mask each", usize::MAX, false, entries);
        ternary(&bench, "acl, ports in ranges", 10, true, entries);
    }
}

fn random_key<const W: usize>(shape: &KeyShape, random: &mut fastrand::Rng) -> Key<W> {
    let mut key = [0; W];
    for field in shape.fields() {
        let value: Vec<u64> = (0..field.words()).map(|_| random.u64(..)).collect();
        field.put(&value, &mut key);
    }
    key
}

fn chosen<const W: usize>(from: &[Key<W>], random: &mut fastrand::Rng) -> Vec<Key<W>> {
    (0..N_KEYS)
        .map(|_| from[random.usize(0..from.len())])
        .collect()
}

fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap()
}

fn exact<const W: usize>(bench: &Bench, set: &str, widths: &[u32], entries: usize) {
    if !bench.wants(set) {
        return;
    }
    let mut random = fastrand::Rng::with_seed(1);
    let shape = KeyShape::new(widths);
    assert_eq!(shape.words(), W);
    let all: Vec<Key<W>> = (0..entries)
        .map(|_| random_key(&shape, &mut random))
        .collect();
    let keys = chosen(&all, &mut random);
    let mut ours = ExactMap::new(W);
    let mut std_map = HashMap::new();
    let mut fold_map = hashbrown::HashMap::<Key<W>, u32, foldhash::fast::FixedState>::default();
    for (position, key) in all.iter().enumerate() {
        ours.insert(key, number(position));
        std_map.insert(*key, number(position));
        fold_map.insert(*key, number(position));
    }
    bench.row(set, entries, "ExactMap", &keys, |key| ours.lookup(key));
    bench.row(set, entries, "hashbrown and foldhash", &keys, |key| {
        fold_map.get(key).copied().unwrap_or(MISS)
    });
    bench.row(set, entries, "std HashMap", &keys, |key| {
        std_map.get(key).copied().unwrap_or(MISS)
    });
    bench.row(set, entries, "linear", &keys, |key| {
        all.iter()
            .position(|other| other == key)
            .map_or(MISS, number)
    });
    let start = Instant::now();
    for key in keys.iter().take(1_000) {
        let value = ours.remove(key);
        ours.insert(key, value.unwrap_or(1));
    }
    writes(set, entries, "ExactMap", start);
}

/// Prints the mean cost of removing an entry and inserting it again, over a thousand repetitions.
fn writes(set: &str, entries: usize, name: &str, start: Instant) {
    let ns = start.elapsed().as_nanos() / 1_000;
    println!("| {set} | {entries} | {name}: remove and insert | {ns} | |");
}

fn prefix_mask<const W: usize>(bits: u32, len: u32) -> Key<W> {
    let mut mask = [0; W];
    for bit in 0..len {
        let bit = bits - 1 - bit;
        mask[(bit / 64) as usize] |= 1 << (bit % 64);
    }
    mask
}

/// Adds to a mask the bits of the exact field that lies above the prefix's field, if the key has such a field.
fn with_exact<const W: usize>(mut mask: Key<W>, bits: u32, widths: &[u32]) -> Key<W> {
    if let Some(width) = widths.get(1) {
        mask[W - 1] |= low_ones(*width) << (bits % 64);
    }
    mask
}

fn and<const W: usize>(key: &Key<W>, mask: &Key<W>) -> Key<W> {
    std::array::from_fn(|word| key[word] & mask[word])
}

/// Measures the lookup of prefixes of the first field. If there is a second field, it is matched exactly and has values
/// below 64.
fn lpm<const W: usize>(bench: &Bench, set: &str, widths: &[u32], lens: &[u32], entries: usize) {
    if !bench.wants(set) {
        return;
    }
    let mut random = fastrand::Rng::with_seed(2);
    let bits = widths[0];
    let shape = KeyShape::with_lowest(widths, Some(0));
    let vrf = low_ones(6) << (bits % 64);
    let mut by_len: HashMap<u32, HashMap<Key<W>, u32>> = HashMap::new();
    let (mut all, mut inside) = (Vec::new(), Vec::new());
    for position in 0..entries {
        let len = lens[random.usize(0..lens.len())];
        let mut key: Key<W> = random_key(&shape, &mut random);
        if widths.len() > 1 {
            key[W - 1] &= low_ones(bits % 64) | vrf;
        }
        let mask = with_exact(prefix_mask(bits, len), bits, widths);
        by_len
            .entry(len)
            .or_default()
            .insert(and(&key, &mask), number(position));
        all.push((and(&key, &mask), mask, len, number(position)));
        inside.push(key);
    }
    let keys = chosen(&inside, &mut random);
    let mut trie = LpmTrie::new(&shape, shape.fields()[0]).unwrap();
    for (value, _, len, entry) in &all {
        trie.insert(value, *len, *entry);
    }
    bench.row(set, entries, "LpmTrie", &keys, |key| trie.lookup_words(key));
    let start = Instant::now();
    for (value, _, len, entry) in all.iter().cycle().take(1_000) {
        trie.remove(value, *len);
        trie.insert(value, *len, *entry);
    }
    writes(set, entries, "LpmTrie", start);
    let mut index = TernaryIndex::new(W, shape.fields(), &[]);
    for (value, mask, len, entry) in &all {
        let priority = i32::try_from(*len).unwrap();
        index.insert(value, mask, &[], priority, *entry);
    }
    bench.row(set, entries, "TernaryIndex", &keys, |key| index.lookup(key));
    let mut lens: Vec<(u32, Key<W>)> = by_len
        .keys()
        .map(|len| (*len, with_exact(prefix_mask(bits, *len), bits, widths)))
        .collect();
    lens.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
    bench.row(set, entries, "std HashMap a length", &keys, |key| {
        let found = lens
            .iter()
            .find_map(|(len, mask)| by_len[len].get(&and(key, mask)).copied());
        found.unwrap_or(MISS)
    });
    let mut sorted = all.clone();
    sorted.sort_by_key(|(_, _, len, _)| std::cmp::Reverse(*len));
    bench.row(set, entries, "linear", &keys, |key| {
        let found = sorted
            .iter()
            .find(|(value, mask, _, _)| and(key, mask) == *value);
        found.map_or(MISS, |(_, _, _, entry)| *entry)
    });
}

struct Rule {
    value: Key<2>,
    mask: Key<2>,
    range: Option<(u64, u64)>,
}

/// Returns rules over the fields of a 5-tuple, the highest priority first. [`ternary`] looks up keys that each match
/// one of the last rules, which is the worst case of an access list and also the usual one.
fn rules(masks: usize, ranges: bool, entries: usize, random: &mut fastrand::Rng) -> Vec<Rule> {
    let shape = KeyShape::new(&[32, 32, 8, 16, 16]);
    let mask = |random: &mut fastrand::Rng| -> Key<2> {
        let mut mask = [0; 2];
        for (field, lens) in shape.fields().iter().zip([
            &[32, 24, 16, 30, 28, 27][..],
            &[32, 24, 29, 31, 22, 8],
            &[8, 0],
            &[16, 0, 12, 8],
            &[16, 0, 10, 6],
        ]) {
            let len = lens[random.usize(0..lens.len())];
            let ones = low_ones(field.bits) & !low_ones(field.bits - len);
            field.put(&[ones], &mut mask);
        }
        mask
    };
    let few: Vec<Key<2>> = (0..masks.min(entries)).map(|_| mask(random)).collect();
    let own = |random: &mut fastrand::Rng| -> Key<2> {
        let any: Key<2> = random_key(&shape, random);
        let more: Key<2> = random_key(&shape, random);
        std::array::from_fn(|word| any[word] | more[word])
    };
    let rule = |_| {
        let mut mask = match masks {
            usize::MAX => own(random),
            _ => few[random.usize(0..few.len())],
        };
        let range = ranges.then(|| {
            let low = random.u64(0..60_000);
            (low, low + random.u64(0..5_000))
        });
        if ranges {
            let port = shape.fields()[4];
            mask[port.word] &= !(low_ones(port.bits) << port.shift);
        }
        Rule {
            value: and(&random_key(&shape, random), &mask),
            mask,
            range,
        }
    };
    (0..entries).map(rule).collect()
}

fn ternary(bench: &Bench, set: &str, masks: usize, ranges: bool, entries: usize) {
    if !bench.wants(set) {
        return;
    }
    let mut random = fastrand::Rng::with_seed(3);
    let shape = KeyShape::new(&[32, 32, 8, 16, 16]);
    let port = shape.fields()[4];
    let rules = rules(masks, ranges, entries, &mut random);
    let last = &rules[rules.len() - rules.len().min(5)..];
    let keys: Vec<Key<2>> = (0..N_KEYS)
        .map(|_| {
            let rule = &last[random.usize(0..last.len())];
            let any: Key<2> = random_key(&shape, &mut random);
            let mut key: Key<2> =
                std::array::from_fn(|word| any[word] & !rule.mask[word] | rule.value[word]);
            if let Some((low, high)) = rule.range {
                key[port.word] &= !(low_ones(16) << port.shift);
                port.put(&[random.u64(low..=high)], &mut key);
            }
            key
        })
        .collect();
    let range_fields = if ranges { vec![port] } else { Vec::new() };
    for least in [16, 32, 64] {
        let mut ours =
            TernaryIndex::new(2, shape.fields(), &range_fields).with_tuple_entries_min(least);
        for (position, rule) in rules.iter().enumerate() {
            insert(&mut ours, rule, position);
        }
        let name = format!(
            "TernaryIndex, tuples from {least}: {}, {} KiB",
            ours.n_tuples(),
            ours.memory_bytes() / 1024
        );
        bench.row(set, entries, &name, &keys, |key| ours.lookup(key));
        let start = Instant::now();
        for position in 0..1_000 {
            let position = position % rules.len();
            ours.remove(number(position));
            insert(&mut ours, &rules[position], position);
        }
        writes(set, entries, "TernaryIndex", start);
    }
    bench.row(set, entries, "linear", &keys, |key| {
        let found = rules.iter().position(|rule| {
            let inside = rule
                .range
                .is_none_or(|(low, high)| (low..=high).contains(&port.limb(key, 0)));
            and(key, &rule.mask) == rule.value && inside
        });
        found.map_or(MISS, number)
    });
    let mut maps: HashMap<Key<2>, HashMap<Key<2>, Vec<u32>>> = HashMap::new();
    for (position, rule) in rules.iter().enumerate() {
        maps.entry(rule.mask)
            .or_default()
            .entry(rule.value)
            .or_default()
            .push(number(position));
    }
    bench.row(set, entries, "std HashMap a mask", &keys, |key| {
        let found = maps.iter().filter_map(|(mask, map)| {
            let mut inside = map.get(&and(key, mask))?.iter().copied();
            inside.find(|rule| {
                let range = rules[*rule as usize].range;
                range.is_none_or(|(low, high)| (low..=high).contains(&port.limb(key, 0)))
            })
        });
        found.min().unwrap_or(MISS)
    });
}

fn insert(index: &mut TernaryIndex, rule: &Rule, position: usize) {
    let ranges: Vec<FieldRange> = rule
        .range
        .iter()
        .map(|(low, high)| FieldRange {
            low: vec![*low],
            high: vec![*high],
        })
        .collect();
    let priority = i32::MAX - i32::try_from(position).unwrap();
    index.insert(&rule.value, &rule.mask, &ranges, priority, number(position));
}
