//! Analyses the code of a Rust crate from its syntax: the lines of code, the arrows between files, the circles of files
//! (dependency cycles), and the layers.
//!
//! Each path in the code that names an item of the crate, in a `use` or elsewhere, makes an arrow. The arrow leads from
//! the file that contains the path to the file that defines the item. If the path names a re-export, the arrow leads to
//! the file that defines the re-exported item. A `mod` declaration is not an arrow, and calls of methods are ignored.
//! Code below `#[cfg(test)]` is left out. A crate's `LAYERS` file lists the files and folders directly below `src`, one
//! layer per line, with the lowest layer first. An arrow from a file to a file of a later line leads upwards. `lib.rs`
//! is above all layers.

mod arrows;
mod counts;
mod module;

pub use arrows::{Layers, LayersError, circles};
pub use counts::{Counts, counts_of, counts_of_file};
pub use module::{Crate, ReadError};
