//! A switch as a process of its own, between two pairs of interfaces in a network namespace: frames pass at a known
//! rate, and every one is accounted for, while clients load the control plane or abuse it.
//!
//! Reading order: `namespace`, `process`, `traffic`, `program`, `secure`, `controller`, `thrift`,
//! `grammar`, `mutate`, `raw`. The programs are `reprise-control-bench` (`main.rs`), `reprise-control-abuse`
//! (`bin/abuse`) and `reprise-control-kills` (`bin/kills.rs`). Each is the switch too, when it is started by its name, so
//! that it is the same build.

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

#[path = "../../tls/tests/support/certificates.rs"]
#[allow(dead_code, reason = "shared with tests, which need more of it")]
mod certificates;

/// What a measurement ends with that could not be made.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Of what may fail.
pub type Result<T> = std::result::Result<T, Failure>;
