//! Tests the controller with a switch in memory, with the P4Runtime server, and with faults between two steps.
#![allow(
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect; some are lists of cases"
)]

mod backends;
mod interruptions;
mod neighbours;
mod real_server;
