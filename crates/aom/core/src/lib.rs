//! The receiver of authenticated ordered multicast (AOM), after NeoBFT (Sun et al., SIGCOMM 2023).
//!
//! A sequencer in the network stamps every message to a group with an epoch and a sequence number, and authenticates
//! both for each receiver. There are two ways: in AOM-HM the sequencer computes a tag for each receiver with
//! HalfSipHash; in AOM-PK a coprocessor signs packets that form a chain. A receiver delivers messages in order, reports
//! gaps, and can prove to another member what the sequencer sent. `docs/aom.md` lists the guarantees.
//!
//! This crate has no sockets, clocks or threads: the caller passes in datagrams and the time, and polls events.
#![warn(missing_docs)]

pub mod certificate;
pub mod chain;
pub mod confirm;
pub mod event;
pub mod half_siphash;
pub mod limits;
pub mod membership;
mod order;
pub mod receiver;
pub mod refused;
mod signed;
mod tagged;
pub mod wire;
