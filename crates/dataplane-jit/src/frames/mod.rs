//! What is done to frames, as machine code: the parser, the checksums, the deparser.

mod bits;
mod checksum;
mod code;
mod convert;
mod deparser;
mod emit;
pub(crate) mod interpret;
mod module;
mod parser;

pub(crate) use emit::Emit;
pub(crate) use module::FrameCode;
pub(crate) use parser::cut_words;
