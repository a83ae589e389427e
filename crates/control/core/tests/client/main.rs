//! A client without a protocol, which uses this crate alone.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect, and tells one story"
)]

mod changes;
mod cut_short;
mod entities;
mod harness;
mod life;
mod offload;
mod ready;
mod workers;
