//! What the code of a Rust crate is made of, counted from its syntax: the lines of code, the arrows between files, the
//! circles of files, the layers.
//!
//! An arrow is a path in the code, in a `use` or elsewhere, from the file where it stands to the file that defines what
//! it names. A re-export is followed to the definition; a `mod` declaration is no arrow; methods are not seen. Code below
//! `#[cfg(test)]` is left out. A crate's `LAYERS` file names the files and folders directly below `src`, lowest layer
//! first, one layer a line; an arrow to a later line runs upwards. `lib.rs` is above all.

mod arrows;
mod counts;
mod module;

pub use arrows::{Layers, LayersError, circles};
pub use counts::{Counts, counts_of, counts_of_file};
pub use module::{Crate, ReadError};
