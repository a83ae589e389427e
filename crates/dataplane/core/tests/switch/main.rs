//! Tests the switch through its public calls, on small programs built in Rust.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect, and tells one story"
)]

mod action_profiles;
mod architectures;
mod externs;
mod generators;
mod loader;
mod offload;
mod overload;
mod parser;
mod random_traffic;
mod tables;
mod trace;
mod traffic;
