//! The SFU control plane: turns groups and viewers into table entries, over P4Runtime.
//!
//! In reading order: [`model`] is the configuration of an SFU, [`file`] reads it from YAML and [`export`] writes it as
//! YAML, [`difference`] compares two configurations. [`slots`] allocates the viewers' slots in the register pool,
//! [`plan`] defines a change as steps and executes them. [`backend`] knows the two P4 programs, `sfu.p4` and
//! `sfu_recirculation.p4`, and the order of steps in which each packet sees one version of a group. [`neighbour`],
//! [`heard`] and [`reading`] talk to a switch, by `p4runtime_client`. Only these last three and [`plan::run`] do I/O.
#![warn(missing_docs)]

pub mod address;
pub mod backend;
pub mod difference;
pub mod export;
pub mod file;
pub mod heard;
pub mod limits;
pub mod model;
pub mod neighbour;
pub mod plan;
pub mod reading;
pub mod slots;
