//! The coprocessor of AOM-PK, on a port of the sequencer's switch. It links each stamped packet (a packet with a
//! sequence number from the sequencer) to the packet before it, and signs the packet. Each signature uses up a nonce, a
//! secret random number. When few nonces are left, the coprocessor signs only some packets; a signature also covers all
//! earlier packets of the chain.
//!
//! [`Signer`] has no I/O: the caller passes in frames and the time, and gets frames. `docs/aom-signer.md` lists the
//! guarantees.

pub mod args;
mod chains;
pub mod frame;
pub mod key;
pub mod limits;
pub mod nonces;
pub mod ratio;
mod signer;

pub use signer::{Counters, Signer};
