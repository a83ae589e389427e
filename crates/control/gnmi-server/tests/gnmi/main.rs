//! gNMI over a switch in memory, with a client over TCP. One file per section of the specification.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect, and tells one story"
)]

mod bounds;
mod get;
mod harness;
mod set;
mod stored;
mod subscribe;
