//! The controller against switches: one in memory, P4Runtime's server, faults between two steps.
#![allow(
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect; some are lists of cases"
)]

mod backends;
#[path = "../../../tls/tests/support/certificates.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod certificates;
mod client;
mod interruptions;
#[path = "../../../control/tests/support/memory_loop.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod memory_loop;
mod over_tls;
mod real_server;
mod support;
