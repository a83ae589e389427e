//! Lookup structures: keys packed into words to numbers of entries.
//!
//! Each is measured against a hash map of the standard library and a linear search
//! (`cargo bench -p dataplane-jit --bench lookup`, docs/performance.md). They know nothing of tables,
//! actions or counters; what they find is that which the interpreter's index finds
//! (`dataplane`'s `match_action`), held by random tests.

pub mod call;
pub mod exact;
mod hash;
pub mod lpm;
pub mod shape;
pub mod table;
pub mod ternary;

pub use call::LookupFunction;
pub(crate) use hash::hash_words;
pub use table::{TableIndex, key_shape};

/// The number that says that no entry was found.
pub const MISS: u32 = u32::MAX;
