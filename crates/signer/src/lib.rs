//! The coprocessor of AOM-PK, on a port of the sequencer's switch. It links each stamped packet to the one
//! before it and signs it. While nonces are short it signs only some packets, which cover the earlier ones.
//!
//! [`Signer`] has no I/O: frames and the time go in, frames come out. `docs/aom-signer.md` lists its
//! promises.

mod chains;
pub mod frame;
pub mod key;
pub mod limits;
pub mod nonces;
pub mod ratio;
mod signer;

pub use signer::{Counters, Signer};
