//! The index of one table: the engine writes it, generated code looks up in it.
//!
//! The engine makes a [`TableIndex`] for each table, inserts the table's entries, and applies every change
//! ([`dataplane::engine::Engine`]'s `changed`). Generated code packs the key as [`TableIndex::shape`] says, with zeros
//! where no field is, and with a range field's value replaced by its rank among the field's values
//! ([`KeyField::order`]). It calls the function that [`TableIndex::function`] returned when the program was compiled
//! (see [`super::call`]).

use dataplane::{
    KeyField, MatchKind, TableInfo,
    engine::ir::{Int, Matcher},
};

use super::{
    MISS,
    exact::ExactMap,
    lpm::LpmTrie,
    shape::{FieldPlace, KeyShape, low_ones},
    ternary::{FieldRange, TernaryIndex},
};

#[derive(Debug, Clone)]
pub(super) enum Index {
    /// For exact keys, and for a table without a key, whose entry always matches.
    Exact(ExactMap),
    Lpm(Box<LpmTrie>),
    /// For tables with priorities, and for prefixes in keys that are too wide for a trie: then the prefix length is the
    /// priority.
    Ternary(Box<TernaryIndex>),
}

#[derive(Debug, Clone)]
pub struct TableIndex {
    shape: KeyShape,
    fields: Vec<KeyField>,
    pub(super) index: Index,
    has_priority: bool,
    /// The bits of a key that any entry has matched on since the table was last empty.
    looked_at: Vec<u64>,
}

pub fn key_shape(info: &TableInfo) -> KeyShape {
    let widths: Vec<u32> = info.key.iter().map(|field| field.width_bits).collect();
    let is_lpm = |field: &KeyField| field.kind == MatchKind::Lpm;
    // A trie reads the key as one number (`super::lpm`).
    KeyShape::with_lowest(&widths, info.key.iter().position(is_lpm))
}

impl TableIndex {
    pub fn new(info: &TableInfo) -> Self {
        let kinds: Vec<MatchKind> = info.key.iter().map(|field| field.kind).collect();
        let shape = key_shape(info);
        Self {
            index: index(info, &kinds, &shape),
            fields: info.key.clone(),
            has_priority: info.has_priority(),
            looked_at: vec![0; shape.words()],
            shape,
        }
    }

    pub fn shape(&self) -> &KeyShape {
        &self.shape
    }

    pub fn is_empty(&self) -> bool {
        match &self.index {
            Index::Exact(map) => map.is_empty(),
            Index::Lpm(trie) => trie.is_empty(),
            Index::Ternary(index) => index.is_empty(),
        }
    }

    /// The bits of a key's field that may decide a lookup, the least significant 64 first. They are the bits that
    /// entries match on, including entries removed since the table was last empty.
    pub fn looked_at(&self, field: usize) -> impl Iterator<Item = u64> {
        let place = self.shape.fields().get(field).copied();
        let words = place.map_or(0, |place| place.words());
        (0..words).filter_map(move |limb| Some(place?.limb(&self.looked_at, limb)))
    }

    /// Adds an entry. `key` has one matcher per field; `entry` is a small number that no other entry of the table has.
    /// Among matching entries of one priority, a lookup finds the entry that was added first.
    pub fn insert(&mut self, key: &[Matcher], priority: i32, entry: u32) {
        let words = self.words(key);
        self.look_at(&words, key);
        match &mut self.index {
            Index::Exact(map) => {
                map.insert(&words.value, entry);
            }
            Index::Lpm(trie) => {
                trie.insert(&words.value, words.prefix_len, entry);
            }
            Index::Ternary(index) => {
                let len = i32::try_from(words.prefix_len).expect("a key has fewer than 2^31 bits");
                let priority = if self.has_priority { priority } else { len };
                index.insert(&words.value, &words.mask, &words.ranges, priority, entry);
            }
        }
    }

    pub fn remove(&mut self, key: &[Matcher], entry: u32) {
        match &mut self.index {
            Index::Ternary(index) => index.remove(entry),
            Index::Exact(_) | Index::Lpm(_) => {
                let words = self.words(key);
                match &mut self.index {
                    Index::Exact(map) => map.remove(&words.value),
                    Index::Lpm(trie) => trie.remove(&words.value, words.prefix_len),
                    _ => None,
                };
            }
        }
    }

    pub fn lookup(&self, key: &[u64]) -> Option<u32> {
        let entry = match &self.index {
            Index::Exact(map) => map.lookup(key),
            Index::Lpm(trie) => trie.lookup(key),
            Index::Ternary(index) => index.lookup(key),
        };
        (entry != MISS).then_some(entry)
    }

    fn look_at(&mut self, words: &KeyWords, key: &[Matcher]) {
        if self.is_empty() {
            self.looked_at.fill(0);
        }
        for (all, mask) in self.looked_at.iter_mut().zip(&words.mask) {
            *all |= mask;
        }
        for (place, matcher) in self.shape.fields().iter().zip(key) {
            if matches!(matcher, Matcher::Range { .. }) {
                place.put(&vec![u64::MAX; place.words()], &mut self.looked_at);
            }
        }
    }

    fn words(&self, key: &[Matcher]) -> KeyWords {
        let mut words = KeyWords {
            value: vec![0; self.shape.words()],
            mask: vec![0; self.shape.words()],
            ranges: Vec::new(),
            prefix_len: 0,
        };
        let places = self.shape.fields().iter().zip(&self.fields);
        for ((place, field), matcher) in places.zip(key) {
            words.add(*place, field, matcher);
        }
        words
    }
}

fn index(info: &TableInfo, kinds: &[MatchKind], shape: &KeyShape) -> Index {
    let of_kind = |wanted: &dyn Fn(MatchKind) -> bool| -> Vec<FieldPlace> {
        let fields = shape.fields().iter().zip(kinds);
        let fields = fields.filter(|(_, kind)| wanted(**kind));
        fields.map(|(field, _)| *field).collect()
    };
    let ternary = || {
        let ranges = of_kind(&|kind| kind == MatchKind::Range);
        let index = TernaryIndex::new(shape.words(), shape.fields(), &ranges);
        Index::Ternary(Box::new(index))
    };
    if info.has_priority() {
        return ternary();
    }
    match of_kind(&|kind| kind == MatchKind::Lpm).as_slice() {
        [] => Index::Exact(ExactMap::new(shape.words())),
        [prefix] => {
            let trie = LpmTrie::new(shape, *prefix);
            trie.map_or_else(ternary, |trie| Index::Lpm(Box::new(trie)))
        }
        // The loader refuses a key with several LPM fields.
        _ => ternary(),
    }
}

struct KeyWords {
    value: Vec<u64>,
    mask: Vec<u64>,
    ranges: Vec<FieldRange>,
    prefix_len: u32,
}

impl KeyWords {
    fn add(&mut self, place: FieldPlace, field: &KeyField, matcher: &Matcher) {
        let ones = vec![u64::MAX; place.words()];
        match matcher {
            Matcher::Exact(value) | Matcher::Optional(Some(value)) => {
                self.put(place, limbs(value), &ones);
            }
            Matcher::Optional(None) => {}
            Matcher::Lpm { value, prefix_len } => {
                self.prefix_len = *prefix_len;
                self.put(place, limbs(value), &prefix(place, *prefix_len));
            }
            Matcher::Ternary { value, mask } => self.put(place, limbs(value), limbs(mask)),
            Matcher::Range { low, high } => self.ranges.push(FieldRange {
                low: limbs(&field.order(low)).to_vec(),
                high: limbs(&field.order(high)).to_vec(),
            }),
        }
    }

    fn put(&mut self, place: FieldPlace, value: &[u64], mask: &[u64]) {
        place.put(value, &mut self.value);
        place.put(mask, &mut self.mask);
    }
}

/// A number's words, the least significant first. Values of keys are not negative.
fn limbs(value: &Int) -> &[u64] {
    value.as_sign_words().1
}

/// The mask of a prefix, as its field's words.
fn prefix(place: FieldPlace, len: u32) -> Vec<u64> {
    let after = place.bits - len.min(place.bits);
    let mut below = after;
    (0..place.words())
        .map(|_| {
            let zeros = below.min(64);
            below -= zeros;
            !low_ones(zeros)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(key: &[(MatchKind, u32)]) -> TableInfo {
        let key = key.iter().map(|(kind, width_bits)| KeyField {
            name: "field".into(),
            kind: *kind,
            width_bits: *width_bits,
            is_signed: false,
            is_secret: false,
        });
        TableInfo {
            name: "table".into(),
            key: key.collect(),
            size: 1_024,
            actions: Vec::new(),
            is_const: false,
            is_default_const: false,
            with_counters: false,
            with_meters: false,
            has_idle_timeout: false,
            action_profile: None,
            has_selector: false,
        }
    }

    fn random_int(random: &mut fastrand::Rng, bits: u32) -> Int {
        let mut value = Int::ZERO;
        for _ in 0..bits.div_ceil(64) {
            // Few values, so that keys hit entries.
            let word = match random.u8(0..3) {
                0 => u64::MAX,
                1 => random.u64(0..3),
                _ => random.u64(0..3) << 61 | random.u64(0..3) << 30,
            };
            value = (value << 64usize) + Int::from(word);
        }
        value & ones(bits)
    }

    fn ones(bits: u32) -> Int {
        (Int::ONE << bits as usize) - Int::ONE
    }

    fn random_matcher(random: &mut fastrand::Rng, kind: MatchKind, bits: u32) -> Matcher {
        let value = random_int(random, bits);
        match kind {
            MatchKind::Exact => Matcher::Exact(value),
            MatchKind::Lpm => {
                let prefix_len = random.u32(0..=bits);
                let mask = ones(prefix_len) << (bits - prefix_len) as usize;
                let value = value & mask;
                Matcher::Lpm { value, prefix_len }
            }
            MatchKind::Ternary => {
                let mask = random_int(random, bits);
                let value = value & &mask;
                Matcher::Ternary { value, mask }
            }
            MatchKind::Range => {
                let other = random_int(random, bits);
                let (low, high) = if value <= other {
                    (value, other)
                } else {
                    (other, value)
                };
                Matcher::Range { low, high }
            }
            MatchKind::Optional => Matcher::Optional(random.bool().then_some(value)),
        }
    }

    fn some_value(matcher: &Matcher) -> Int {
        match matcher {
            Matcher::Exact(value) | Matcher::Lpm { value, .. } | Matcher::Ternary { value, .. } => {
                value.clone()
            }
            Matcher::Range { high, .. } => high.clone(),
            Matcher::Optional(value) => value.clone().unwrap_or(Int::ONE),
        }
    }

    /// Whether a value matches, decided as by the interpreter's index.
    fn matches(matcher: &Matcher, bits: u32, value: &Int) -> bool {
        match matcher {
            Matcher::Exact(wanted) | Matcher::Optional(Some(wanted)) => wanted == value,
            Matcher::Optional(None) => true,
            Matcher::Lpm {
                value: wanted,
                prefix_len,
            } => {
                let mask = ones(*prefix_len) << (bits - prefix_len) as usize;
                value & mask == *wanted
            }
            Matcher::Ternary {
                value: wanted,
                mask,
            } => value & mask == *wanted,
            Matcher::Range { low, high } => low <= value && value <= high,
        }
    }

    struct Entry {
        key: Vec<Matcher>,
        priority: i32,
        number: u32,
    }

    fn expected(entries: &[Entry], info: &TableInfo, key: &[Int]) -> Option<u32> {
        let mut best: Option<(i32, u32)> = None;
        for entry in entries {
            let mut length = 0;
            let mut fields = info.key.iter().zip(&entry.key).zip(key);
            let hit = fields.all(|((field, matcher), value)| {
                if let Matcher::Lpm { prefix_len, .. } = matcher {
                    length = i32::try_from(*prefix_len).unwrap();
                }
                matches(matcher, field.width_bits, value)
            });
            let rank = if info.has_priority() {
                entry.priority
            } else {
                length
            };
            if hit && best.is_none_or(|(best, _)| rank > best) {
                best = Some((rank, entry.number));
            }
        }
        best.map(|(_, number)| number)
    }

    fn check(key: &[(MatchKind, u32)], seed: u64) -> usize {
        let info = table(key);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut index = TableIndex::new(&info);
        let (mut entries, mut hits): (Vec<Entry>, usize) = (Vec::new(), 0);
        let mut free: Vec<u32> = (0..100).collect();
        for _ in 0..700 {
            if random.u8(0..3) > 0 && !free.is_empty() {
                let key: Vec<Matcher> = key
                    .iter()
                    .map(|(kind, bits)| random_matcher(&mut random, *kind, *bits))
                    .collect();
                let priority = if info.has_priority() {
                    random.i32(1..5)
                } else {
                    0
                };
                let is_there = |entry: &Entry| entry.key == key && entry.priority == priority;
                if !entries.iter().any(is_there) {
                    let number = free.pop().unwrap();
                    index.insert(&key, priority, number);
                    entries.push(Entry {
                        key,
                        priority,
                        number,
                    });
                }
            } else if !entries.is_empty() {
                let gone = entries.remove(random.usize(0..entries.len()));
                index.remove(&gone.key, gone.number);
                free.push(gone.number);
            }
            for _ in 0..4 {
                let mut values: Vec<Int> = key
                    .iter()
                    .map(|(_, bits)| random_int(&mut random, *bits))
                    .collect();
                if random.bool() && !entries.is_empty() {
                    let near = &entries[random.usize(0..entries.len())].key;
                    for (value, matcher) in values.iter_mut().zip(near) {
                        if random.u8(0..8) > 0 {
                            *value = some_value(matcher);
                        }
                    }
                }
                let words = index.shape().pack(values.iter().map(limbs));
                let expected = expected(&entries, &info, &values);
                assert_eq!(index.lookup(&words), expected, "{key:?}");
                assert_eq!(index.call(&words), expected, "{key:?}");
                hits += usize::from(expected.is_some());
            }
            assert_eq!(index.is_empty(), entries.is_empty());
        }
        hits
    }

    #[test]
    fn every_kind_of_table_finds_what_the_interpreter_finds() {
        use MatchKind::{Exact, Lpm, Optional, Range, Ternary};
        let keys: &[&[(MatchKind, u32)]] = &[
            &[(Exact, 9)],
            &[(Exact, 48), (Exact, 12)],
            &[(Exact, 128), (Exact, 16)],
            &[(Exact, 300)],
            &[(Lpm, 32)],
            &[(Lpm, 128)],
            &[(Exact, 2), (Lpm, 32)],
            &[(Exact, 48), (Lpm, 32), (Exact, 9)],
            &[(Exact, 16), (Lpm, 128)],
            &[(Exact, 64), (Lpm, 128), (Exact, 48)],
            &[(Lpm, 70), (Exact, 3)],
            &[(Lpm, 400)],
            &[(Exact, 1), (Lpm, 300)],
            &[(Ternary, 32), (Ternary, 16)],
            &[(Ternary, 130)],
            &[(Range, 16), (Exact, 1)],
            &[(Range, 100)],
            &[(Optional, 16), (Optional, 8)],
            &[
                (Lpm, 32),
                (Ternary, 8),
                (Range, 16),
                (Optional, 9),
                (Exact, 1),
            ],
            &[(Ternary, 300), (Range, 16)],
        ];
        for (seed, key) in keys.iter().enumerate() {
            assert!(check(key, seed as u64) > 50, "{key:?}: too few hits");
        }
    }

    #[test]
    fn a_table_without_a_key_hits_the_entry_that_it_has() {
        let mut index = TableIndex::new(&table(&[]));
        for entry in [None, Some(3)] {
            if let Some(entry) = entry {
                index.insert(&[], 0, entry);
            }
            assert_eq!(index.lookup(&[]), entry);
            assert_eq!(index.call(&[]), entry);
        }
    }
}
