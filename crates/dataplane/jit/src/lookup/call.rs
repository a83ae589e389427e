//! How generated code calls a table's lookup. There is one function for each combination of a structure and a number of
//! words, so that a lookup need check neither. If a key is short and has exact fields or a prefix, its words are passed
//! in processor registers. For any other key, a pointer to the words is passed.
#![expect(
    unsafe_code,
    reason = "generated code calls lookups with plain pointers"
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

/// A lookup that generated code calls. It returns the entry's number, or [`MISS`].
///
/// # Safety
/// The function's first argument is the [`TableIndex::target`] of a live index whose [`TableIndex::function`] is this
/// function. Nobody writes the index during the call. The other arguments are the words of a key of the index's shape,
/// or a pointer to these words.
#[derive(Debug, Clone, Copy)]
pub struct LookupFunction {
    pub address: *const u8,
    /// Whether the function takes the words of a key; otherwise it takes a pointer to them.
    pub takes_words: bool,
}

impl TableIndex {
    /// The lookup function for this table. It does not depend on the entries.
    pub fn function(&self) -> LookupFunction {
        let words = self.shape().words();
        let of_words = |address| LookupFunction {
            address,
            takes_words: true,
        };
        let of_key: OfKey = match (&self.index, words) {
            (Index::Lpm(_), 1) => return of_words(lpm_1 as *const u8),
            (Index::Lpm(_), 2) => return of_words(lpm_2 as *const u8),
            (Index::Lpm(_), 3) => return of_words(lpm_3 as *const u8),
            (Index::Lpm(_), 4) => return of_words(lpm_4 as *const u8),
            (Index::Exact(_), 1) => return of_words(exact_1 as *const u8),
            (Index::Exact(_), 2) => return of_words(exact_2 as *const u8),
            (Index::Exact(_), 3) => return of_words(exact_3 as *const u8),
            (Index::Exact(_), 4) => return of_words(exact_4 as *const u8),
            (Index::Ternary(_), 1) => ternary::<1>,
            (Index::Ternary(_), 2) => ternary::<2>,
            (Index::Ternary(_), 3) => ternary::<3>,
            (Index::Ternary(_), 4) => ternary::<4>,
            _ => any,
        };
        LookupFunction {
            address: of_key as *const u8,
            takes_words: false,
        }
    }

    /// The first argument for [`TableIndex::function`]. Valid as long as the index stays where it is.
    pub fn target(&self) -> *const c_void {
        let words = self.shape().words();
        match &self.index {
            Index::Exact(map) if (1..=4).contains(&words) => std::ptr::from_ref(map).cast(),
            Index::Lpm(trie) => std::ptr::from_ref(&**trie).cast(),
            Index::Ternary(index) if (1..=4).contains(&words) => {
                std::ptr::from_ref(&**index).cast()
            }
            _ => std::ptr::from_ref(self).cast(),
        }
    }
}

/// The lookup for any structure and any number of words.
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

/// Defines lookup functions, one for each number of words that are passed in registers.
macro_rules! of_words {
    ($($name:ident: $structure:ident($($word:ident),*);)*) => {$(
        unsafe extern "C" fn $name(structure: *const c_void, $($word: u64),*) -> u32 {
            // SAFETY: the caller gives a live structure.
            unsafe { &*structure.cast::<$structure>() }.lookup_words(&[$($word),*])
        }
    )*};
}

of_words! {
    exact_1: ExactMap(a);
    exact_2: ExactMap(a, b);
    exact_3: ExactMap(a, b, c);
    exact_4: ExactMap(a, b, c, d);
    lpm_1: LpmTrie(a);
    lpm_2: LpmTrie(a, b);
    lpm_3: LpmTrie(a, b, c);
    lpm_4: LpmTrie(a, b, c, d);
}

unsafe extern "C" fn ternary<const WORDS: usize>(index: *const c_void, key: *const u64) -> u32 {
    // SAFETY: the caller gives a live index and as many words as its keys have, which are `WORDS`.
    let (index, key) = unsafe { (&*index.cast::<TernaryIndex>(), &*key.cast::<[u64; WORDS]>()) };
    index.find(WORDS, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl TableIndex {
        /// The entry that a key hits, found as generated code does it.
        ///
        /// # Panics
        /// If the key has not as many words as [`TableIndex::shape`] says.
        pub(in crate::lookup) fn call(&self, key: &[u64]) -> Option<u32> {
            assert_eq!(key.len(), self.shape().words(), "words of a key");
            let target = self.target();
            let LookupFunction {
                address,
                takes_words,
            } = self.function();
            let is_lpm = matches!(self.index, Index::Lpm(_));
            // SAFETY: the target belongs to the function, and the key's length says which of these the function is.
            let found = unsafe {
                match *key {
                    [a] if is_lpm => lpm_1(target, a),
                    [a, b] if is_lpm => lpm_2(target, a, b),
                    [a, b, c] if is_lpm => lpm_3(target, a, b, c),
                    [a, b, c, d] if is_lpm => lpm_4(target, a, b, c, d),
                    [a] if takes_words => exact_1(target, a),
                    [a, b] if takes_words => exact_2(target, a, b),
                    [a, b, c] if takes_words => exact_3(target, a, b, c),
                    [a, b, c, d] if takes_words => exact_4(target, a, b, c, d),
                    _ => std::mem::transmute::<*const u8, OfKey>(address)(target, key.as_ptr()),
                }
            };
            (found != MISS).then_some(found)
        }
    }
}
