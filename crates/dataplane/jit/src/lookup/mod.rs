//! Lookup structures: they map keys, packed into words, to numbers of entries.
//!
//! A benchmark measures each structure against a hash map of the standard library and a linear search
//! (docs/performance.md; `cargo bench -p dataplane-jit --bench lookup`). The structures know nothing of tables, actions
//! or counters. Random tests check that the structures find the same entries as the interpreter's index (`dataplane`'s
//! `match_action`).

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

/// The result of a lookup that finds no entry.
pub const MISS: u32 = u32::MAX;
