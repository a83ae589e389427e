//! The SFU control plane: groups and viewers to table entries, over P4Runtime.
//!
//! In reading order: [`model`] is the configuration of an SFU, [`file`] the same as YAML and
//! [`export`] back, [`difference`] the difference between two of them; [`slots`] allocates viewers'
//! places in the register pool; [`entities`] P4Runtime's messages by name; [`plan`] a change as
//! steps, and their execution; [`backend`] the two programs, and the order of steps that keeps one
//! version per packet; [`client`], [`neighbour`], [`heard`] and [`reading`] talk to a switch. Only
//! these last four and [`plan::run`] do I/O. They know the switch only through P4Runtime.
#![warn(missing_docs)]

pub mod address;
pub mod backend;
pub mod client;
pub mod dial;
pub mod difference;
pub mod entities;
pub mod export;
pub mod file;
pub mod heard;
pub mod limits;
pub mod model;
pub mod neighbour;
pub mod plan;
pub mod reading;
pub mod slots;
