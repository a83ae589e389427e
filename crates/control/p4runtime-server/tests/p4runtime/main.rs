//! The server as a controller sees it, in one file for each section of the P4Runtime specification. Each test calls a
//! server in this process by gRPC over loopback.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "what is not as expected is a failure; some tests are lists of cases"
)]

mod action_profiles;
mod arbitration;
mod atomicity;
mod cancelled;
mod capabilities;
mod counters;
mod digests;
mod drain;
mod errors;
mod every_entity;
mod generators;
mod harness;
mod idle_timeouts;
mod limits;
mod malformed;
mod meters;
mod over_tls;
mod packet_io;
mod payload_externs;
mod pieces;
mod pipeline_config;
mod reconcile;
mod registers;
mod replication;
mod roles;
mod table_entries;
mod value_sets;
