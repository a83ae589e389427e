//! The server as a controller sees it: one file for each section of the P4Runtime specification,
//! each talking gRPC over loopback to a server in this process.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, what is not there is a failure"
)]

mod arbitration;
mod capabilities;
mod counters;
mod drain;
mod errors;
mod harness;
#[path = "../support/memory_loop.rs"]
mod memory_loop;
mod packet_io;
mod pipeline_config;
mod registers;
mod replication;
mod table_entries;
