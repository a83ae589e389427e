//! Tests the same programs and packets on every engine, and the structure of the repository. All tests are in one test
//! program, because every test program links every engine.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect, and tells one story"
)]

mod agreement;
mod aom;
mod architecture;
mod early;
mod engines;
mod fusion;
mod fuzz;
mod malformed;
mod multicast;
mod one_version;
mod optimised;
mod own_output;
mod payload;
mod recirculation;
mod rounds;
mod sfu_copies;
mod size;
mod stf;
