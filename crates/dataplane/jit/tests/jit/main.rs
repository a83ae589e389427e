//! Compares the native engine with the interpreter, and checks the code that the engine generates
//! for programs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect, and tells one story"
)]

mod corpus;
mod expressions;
mod flows;
mod frames;
mod listing;
mod snapshots;
mod support;
