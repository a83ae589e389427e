//! Runs a switch as a separate process, between two veth pairs in a network namespace. Frames pass through the switch
//! at a known rate, and each frame is accounted for, while clients load or abuse the control plane.
//!
//! Reading order: `namespace`, `process`, `traffic`, `program`, `secure`, `controller`, `thrift`, `grammar`,
//! `mutate`, `raw`. The programs are `reprise-control-bench` (`main.rs`), `reprise-control-abuse` (`bin/abuse`) and
//! `reprise-control-kills` (`bin/kills.rs`). A program that is started under the switch's name runs the switch, so that
//! program and switch are from the same build.

pub mod controller;
pub mod grammar;
pub mod mutate;
pub mod namespace;
pub mod process;
pub mod program;
pub mod raw;
pub mod secure;
pub mod thrift;
pub mod traffic;

/// The reason why a measurement could not be made.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

pub type Result<T> = std::result::Result<T, Failure>;
