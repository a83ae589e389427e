//! The coprocessor of AOM-PK, on a port of the sequencer's switch: it links each stamped packet to the
//! one before it and signs it, or leaves that to a later one while nonces are short.
//!
//! [`Signer`] has no I/O: frames and the time go in, frames come out. `docs/aom-signer.md` says what
//! it promises.

mod chains;
pub mod frame;
pub mod key;
pub mod limits;
pub mod nonces;
pub mod ratio;
mod signer;

pub use signer::{Counters, Signer};
