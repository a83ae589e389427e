//! How generated code calls a table's lookup: one function for each structure and number of words,
//! so that a lookup asks for neither. The words of a short key of an exact table are passed in
//! registers, those of others through a pointer.
#![expect(
    unsafe_code,
    reason = "generated code calls lookups with plain pointers; instructions that not every \
              processor has are used where they are"
)]

use std::ffi::c_void;

use super::{
    MISS,
    exact::ExactMap,
    lpm::LpmTrie,
    table::{Index, TableIndex},
    ternary::TernaryIndex,
};

type OfKey = unsafe extern "C" fn(*const c_void, *const u64) -> u32;

/// What generated code calls: it gives the entry's number, or [`MISS`].
///
/// # Safety
/// The functions' first argument is what [`TableIndex::target`] gives for a live index of the kind
/// that the function is for, which nobody writes meanwhile. A pointer to a key leads to as many words
/// as the index's shape has.
#[derive(Debug, Clone, Copy)]
pub enum LookupFunction {
    /// Of a key of one word.
    One(unsafe extern "C" fn(*const c_void, u64) -> u32),
    /// Of two words.
    Two(unsafe extern "C" fn(*const c_void, u64, u64) -> u32),
    /// Of three.
    Three(unsafe extern "C" fn(*const c_void, u64, u64, u64) -> u32),
    /// Of four.
    Four(unsafe extern "C" fn(*const c_void, u64, u64, u64, u64) -> u32),
    /// Of a key that a pointer leads to.
    Key(OfKey),
}

impl LookupFunction {
    /// Where the function is.
    pub fn address(&self) -> *const u8 {
        match self {
            Self::One(function) => *function as *const u8,
            Self::Two(function) => *function as *const u8,
            Self::Three(function) => *function as *const u8,
            Self::Four(function) => *function as *const u8,
            Self::Key(function) => *function as *const u8,
        }
    }

    /// Whether it takes the words of a key; else a pointer to them.
    pub fn takes_words(&self) -> bool {
        !matches!(self, Self::Key(_))
    }
}

impl TableIndex {
    /// The function for this table. It stays right whatever entries come and go.
    pub fn function(&self) -> LookupFunction {
        let words = self.shape().words();
        match &self.index {
            Index::Exact(_) => match words {
                1 => LookupFunction::One(exact_1),
                2 => LookupFunction::Two(exact_2),
                3 => LookupFunction::Three(exact_3),
                4 => LookupFunction::Four(exact_4),
                _ => LookupFunction::Key(any),
            },
            Index::Lpm(_) => LookupFunction::Key(match words {
                1 => counting(lpm::<1>, counting_lpm::<1>),
                2 => counting(lpm::<2>, counting_lpm::<2>),
                3 => counting(lpm::<3>, counting_lpm::<3>),
                _ => any,
            }),
            Index::Ternary(_) => LookupFunction::Key(match words {
                1 => counting(ternary::<1>, counting_ternary::<1>),
                2 => counting(ternary::<2>, counting_ternary::<2>),
                3 => counting(ternary::<3>, counting_ternary::<3>),
                4 => counting(ternary::<4>, counting_ternary::<4>),
                _ => any,
            }),
        }
    }

    /// What the function is given first. It stays as long as the index is where it is.
    pub fn target(&self) -> *const c_void {
        let words = self.shape().words();
        match &self.index {
            Index::Exact(map) if (1..=4).contains(&words) => std::ptr::from_ref(map).cast(),
            Index::Lpm(trie) if (1..=3).contains(&words) => std::ptr::from_ref(&**trie).cast(),
            Index::Ternary(index) if (1..=4).contains(&words) => {
                std::ptr::from_ref(&**index).cast()
            }
            _ => std::ptr::from_ref(self).cast(),
        }
    }

    /// The entry that a key hits, found as generated code does it.
    ///
    /// # Panics
    /// If the key has not as many words as [`TableIndex::shape`] says.
    pub fn call(&self, key: &[u64]) -> Option<u32> {
        assert_eq!(key.len(), self.shape().words(), "words of a key");
        let target = self.target();
        // SAFETY: the target is that of the function, the key is as long as the shape says.
        let found = unsafe {
            match (self.function(), key) {
                (LookupFunction::One(find), [a, ..]) => find(target, *a),
                (LookupFunction::Two(find), [a, b, ..]) => find(target, *a, *b),
                (LookupFunction::Three(find), [a, b, c, ..]) => find(target, *a, *b, *c),
                (LookupFunction::Four(find), [a, b, c, d, ..]) => find(target, *a, *b, *c, *d),
                (LookupFunction::Key(find), key) => find(target, key.as_ptr()),
                _ => MISS,
            }
        };
        (found != MISS).then_some(found)
    }
}

/// The second of two functions where the processor counts bits in one instruction.
fn counting(plain: OfKey, counting: OfKey) -> OfKey {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("lzcnt")
    {
        return counting;
    }
    let _ = counting;
    plain
}

/// Any table, any number of words.
unsafe extern "C" fn any(table: *const c_void, key: *const u64) -> u32 {
    // SAFETY: the caller gives a live index.
    let table = unsafe { &*table.cast::<TableIndex>() };
    let key = match table.shape().words() {
        0 => &[],
        // SAFETY: the caller gives as many words as the index's shape has.
        words => unsafe { std::slice::from_raw_parts(key, words) },
    };
    table.lookup(key).unwrap_or(MISS)
}

/// # Safety
/// `map` leads to a live [`ExactMap`].
#[inline(always)]
unsafe fn exact<const WORDS: usize>(map: *const c_void, key: [u64; WORDS]) -> u32 {
    // SAFETY: the caller gives a live map.
    unsafe { &*map.cast::<ExactMap>() }.lookup_words(&key)
}

unsafe extern "C" fn exact_1(map: *const c_void, a: u64) -> u32 {
    // SAFETY: the caller gives a live map.
    unsafe { exact(map, [a]) }
}

unsafe extern "C" fn exact_2(map: *const c_void, a: u64, b: u64) -> u32 {
    // SAFETY: the caller gives a live map.
    unsafe { exact(map, [a, b]) }
}

unsafe extern "C" fn exact_3(map: *const c_void, a: u64, b: u64, c: u64) -> u32 {
    // SAFETY: the caller gives a live map.
    unsafe { exact(map, [a, b, c]) }
}

unsafe extern "C" fn exact_4(map: *const c_void, a: u64, b: u64, c: u64, d: u64) -> u32 {
    // SAFETY: the caller gives a live map.
    unsafe { exact(map, [a, b, c, d]) }
}

unsafe extern "C" fn lpm<const WORDS: usize>(trie: *const c_void, key: *const u64) -> u32 {
    // SAFETY: the caller gives a live trie and as many words as its keys have, which are `WORDS`.
    let (trie, key) = unsafe { (&*trie.cast::<LpmTrie>(), &*key.cast::<[u64; WORDS]>()) };
    trie.find(WORDS, key)
}

unsafe extern "C" fn ternary<const WORDS: usize>(index: *const c_void, key: *const u64) -> u32 {
    // SAFETY: the caller gives a live index and as many words as its keys have, which are `WORDS`.
    let (index, key) = unsafe { (&*index.cast::<TernaryIndex>(), &*key.cast::<[u64; WORDS]>()) };
    index.find(WORDS, key)
}

/// As [`lpm`], compiled for processors that have the instructions.
#[cfg_attr(
    target_arch = "x86_64",
    target_feature(enable = "popcnt,bmi1,bmi2,lzcnt")
)]
unsafe extern "C" fn counting_lpm<const WORDS: usize>(trie: *const c_void, key: *const u64) -> u32 {
    // SAFETY: the caller gives a live trie and as many words as its keys have, which are `WORDS`.
    let (trie, key) = unsafe { (&*trie.cast::<LpmTrie>(), &*key.cast::<[u64; WORDS]>()) };
    trie.find(WORDS, key)
}

/// As [`ternary`], compiled for processors that have the instructions.
#[cfg_attr(
    target_arch = "x86_64",
    target_feature(enable = "popcnt,bmi1,bmi2,lzcnt")
)]
unsafe extern "C" fn counting_ternary<const WORDS: usize>(
    index: *const c_void,
    key: *const u64,
) -> u32 {
    // SAFETY: the caller gives a live index and as many words as its keys have, which are `WORDS`.
    let (index, key) = unsafe { (&*index.cast::<TernaryIndex>(), &*key.cast::<[u64; WORDS]>()) };
    index.find(WORDS, key)
}
