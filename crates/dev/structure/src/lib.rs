//! Analyses the code of a Rust crate from its syntax: the lines of code, the arrows between files, the circles of files
//! (dependency cycles), and the layers.
//!
//! An arrow is a path in the code, in a `use` or elsewhere. The arrow leads from the file with the path to the file
//! that defines the path's item. A re-export is followed to the definition. A `mod` declaration is not an arrow, and
//! calls of methods are ignored. Code below `#[cfg(test)]` is left out. A crate's `LAYERS` file lists the files and
//! folders directly below `src`, one layer per line, with the lowest layer first. An arrow to a later line leads
//! upwards. `lib.rs` is above all layers.

mod arrows;
mod counts;
mod module;

pub use arrows::{Layers, LayersError, circles};
pub use counts::{Counts, counts_of, counts_of_file};
pub use module::{Crate, ReadError};
