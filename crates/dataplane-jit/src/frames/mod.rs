//! What is done to frames, as machine code: the parser, the checksums, the deparser; with what it is
//! written as the controls are, by [`crate::compile`].

pub(crate) mod bits;
pub(crate) mod calculation;
mod calls;
mod checksum;
mod deparser;
mod digest;
mod incremental;
mod module;
mod parser;
mod sum;

pub(crate) use calls::{FUNCTIONS, gather};
pub(crate) use digest::digest;
pub(crate) use incremental::Sums;
pub(crate) use module::{Deparse, FrameCode, Frames, Measure};

/// Words of a header in the packet's block at most for what is done to it to be unrolled.
const UNROLLED_WORDS_MAX: u32 = 48;
