//! The coprocessor of AOM-PK, on a port of the sequencer's switch. It links each stamped packet to its predecessor and
//! signs it. When few nonces are left, it signs only some packets; each signature covers the packets before it.
//!
//! [`Signer`] has no I/O: the caller passes in frames and the time, and gets frames. `docs/aom-signer.md` lists the
//! guarantees.

mod chains;
pub mod frame;
pub mod key;
pub mod limits;
pub mod nonces;
pub mod ratio;
mod signer;

pub use signer::{Counters, Signer};
