//! Tests of the services over loopback. A client that writes and reads the protocol itself calls a server with a device
//! in memory.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect, and tells one story"
)]

mod abuse;
mod arrays;
mod client;
mod harness;
mod multicast;
mod notifications;
mod pipelined;
mod profiles;
mod programs;
mod simple_switch;
mod tables;
mod value_sets;
