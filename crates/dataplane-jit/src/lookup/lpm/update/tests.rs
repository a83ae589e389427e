//! Tries that are written to against a list of prefixes.

use super::*;
use crate::lookup::shape::KeyShape;

/// Random prefixes near each other over a key of some fields, the last one the prefix's.
fn check(widths: &[u32], entries: usize, steps: usize, seed: u64) {
    let shape = KeyShape::new(widths);
    let (prefix, exact) = shape.fields().split_last().unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut trie = LpmTrie::new(shape.words(), exact, *prefix).unwrap();
    let total: u32 = widths.iter().sum();
    let exact_bits = total - prefix.bits;
    let mut model: Vec<(Vec<u64>, u32, u32)> = Vec::new();
    let values: Vec<Vec<u64>> = (0..24).map(|_| random_key(&shape, &mut random)).collect();
    let near = |random: &mut fastrand::Rng| {
        let mut key = values[random.usize(0..values.len())].clone();
        if random.bool() {
            let field = shape.fields()[random.usize(0..widths.len())];
            if field.bits > 0 {
                let bit = random.u32(0..field.bits);
                let shift = if field.bits > 64 {
                    bit % 64
                } else {
                    field.shift + bit
                };
                let limb = if field.bits > 64 { bit / 64 } else { 0 };
                key[field.word + limb as usize] ^= 1 << shift;
            }
        }
        key
    };
    for step in 0..steps {
        let entry = u32::try_from(step).unwrap();
        let len = random.u32(0..=prefix.bits);
        let mask = &trie.masks[(exact_bits + len) as usize * shape.words()..][..shape.words()];
        let value: Vec<u64> = near(&mut random)
            .iter()
            .zip(mask)
            .map(|(w, m)| w & m)
            .collect();
        let place = model.iter().position(|(v, l, _)| (v, *l) == (&value, len));
        if model.len() < entries && random.u8(0..3) > 0 {
            let old = place.map(|place| model.remove(place).2);
            assert_eq!(trie.insert(&value, len, entry), old);
            model.push((value, len, entry));
        } else {
            let gone = if random.bool() && !model.is_empty() {
                let (v, l, _) = model[random.usize(0..model.len())].clone();
                (v, l)
            } else {
                (value, len)
            };
            let place = model
                .iter()
                .position(|(v, l, _)| (v, l) == (&gone.0, &gone.1));
            let old = place.map(|place| model.swap_remove(place).2);
            assert_eq!(trie.remove(&gone.0, gone.1), old);
        }
        assert_eq!(trie.len(), model.len());
        for _ in 0..3 {
            let key = near(&mut random);
            let expected = longest(&trie, &model, exact_bits, &key);
            assert_eq!(trie.lookup(&key), expected, "{widths:?} step {step}");
        }
    }
    for (value, len, entry) in model {
        assert_eq!(trie.remove(&value, len), Some(entry));
    }
    assert!(trie.is_empty() && trie.root.iter().all(|slot| slot.child() == Child::None));
}

fn random_key(shape: &KeyShape, random: &mut fastrand::Rng) -> Vec<u64> {
    let values: Vec<Vec<u64>> = shape
        .fields()
        .iter()
        .map(|field| (0..field.words()).map(|_| random.u64(..)).collect())
        .collect();
    shape.pack(values.iter().map(Vec::as_slice))
}

fn longest(trie: &LpmTrie, model: &[(Vec<u64>, u32, u32)], exact: u32, key: &[u64]) -> u32 {
    let words = trie.words;
    let covering = model.iter().filter(|(value, len, _)| {
        let mask = &trie.masks[(exact + len) as usize * words..][..words];
        (0..words).all(|word| key[word] & mask[word] == value[word])
    });
    covering
        .max_by_key(|(_, len, _)| *len)
        .map_or(MISS, |(_, _, entry)| *entry)
}

#[test]
fn a_lookup_finds_the_longest_of_all_prefixes() {
    for (seed, widths) in [
        &[32u32][..],
        &[0],
        &[8],
        &[1],
        &[5],
        &[9],
        &[48],
        &[64],
        &[128],
        &[200],
        &[12, 32],
        &[16, 128],
        &[3, 7, 20],
        &[32, 32],
        &[100, 100],
        &[0, 32],
        &[64, 64, 128],
    ]
    .iter()
    .enumerate()
    {
        check(widths, 60, 1_500, seed as u64);
    }
}

#[test]
fn a_root_that_grows_keeps_every_prefix() {
    check(&[32], 300, 3_000, 100);
    check(&[10, 40], 300, 3_000, 101);
    let shape = KeyShape::new(&[32]);
    let mut trie = LpmTrie::new(1, &[], shape.fields()[0]).unwrap();
    let mut random = fastrand::Rng::with_seed(102);
    let mut model = std::collections::HashMap::new();
    for entry in 0..6_000u32 {
        let len = random.u32(0..=32);
        let value = random.u64(..) & trie.masks[len as usize];
        assert_eq!(
            trie.insert(&[value], len, entry),
            model.insert((value, len), entry)
        );
    }
    assert_eq!(trie.root_chunk.bits, 16);
    for _ in 0..20_000 {
        let key = random.u64(0..1 << 32);
        let lens = (0..=32u32).rev();
        let expected = lens
            .into_iter()
            .find_map(|len| model.get(&(key & trie.masks[len as usize], len)).copied());
        assert_eq!(trie.lookup(&[key]), expected.unwrap_or(MISS));
    }
}

#[test]
fn memory_is_flat_under_churn() {
    let shape = KeyShape::new(&[128]);
    let mut trie = LpmTrie::new(2, &[], shape.fields()[0]).unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    let mut inside = std::collections::VecDeque::new();
    let mut after_start = 0;
    for step in 0..60_000u32 {
        let value = [0, random.u64(..) & 0xffff_ffff_00ff_ff00];
        if trie.insert(&value, 64, step).is_none() {
            inside.push_back(value);
        }
        if inside.len() > 1_000 {
            let gone = inside.pop_front().unwrap();
            assert!(trie.remove(&gone, 64).is_some());
        }
        if step == 20_000 {
            after_start = trie.memory_bytes();
        }
    }
    assert!(
        trie.memory_bytes() <= after_start * 5 / 4,
        "{}",
        trie.memory_bytes()
    );
}
