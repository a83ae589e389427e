//! Parser, checksums and deparser as machine code, written with [`crate::compile`] as the controls are.

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

/// Code for a header is unrolled up to this many words of the header in the packet's block (its header vector).
const UNROLLED_WORDS_MAX: u32 = 48;
