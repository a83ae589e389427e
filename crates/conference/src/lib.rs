//! The SFU control plane: groups and viewers to table entries, over P4Runtime.
//!
//! In reading order: [`model`] is what an SFU is told, [`file`] the same as YAML and
//! [`export`] back, [`difference`]
//! what changes between two of them; [`slots`] where viewers are in the register pool;
//! [`entities`] P4Runtime's messages by name; [`plan`] a change as steps, and how it is carried
//! out; [`backend`] the two programs, and the order of steps that keeps one version per packet;
//! [`client`], [`neighbour`], [`heard`] and [`reading`] talk to a switch. Only these last four and
//! [`plan::run`] do I/O, and none of it knows the switch but through P4Runtime.

pub mod address;
pub mod backend;
pub mod client;
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
