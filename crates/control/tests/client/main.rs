//! A client without a protocol, which uses this crate alone.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect, and tells one story"
)]

mod changes;
mod cut_short;
#[path = "../../../dataplane/tests/switch/offload/double.rs"]
mod double;
mod entities;
mod harness;
mod life;
#[allow(dead_code, reason = "other crates' tests use what is left over here")]
#[path = "../support/memory_loop.rs"]
mod memory_loop;
mod offload;
mod ready;
mod workers;
