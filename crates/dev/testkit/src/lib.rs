//! Helpers that the tests of several crates use, or the tests and the examples of one crate. Only tests, examples and
//! the development crates `conformance` and `control-bench` link this crate.
//!
//! A crate's unit tests are a second build of the crate, and the types of the two builds are different. Therefore unit
//! tests in `src/` may use only helpers whose functions have no types of the tested crate. Unit tests of every crate
//! may use `namespace` and `text`, and those of the switch's event loop may use `offload`; but unit tests of
//! `packet-io` may not use `frames`. Files in `tests/` and `examples/` may use all helpers.
//!
//! Each feature enables modules that need the same crates. Without features, the tests of `dataplane` and `packet-io`
//! could be compiled only after the control plane, gRPC and TLS.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::missing_errors_doc,
    reason = "a test stops at what it did not expect; some functions are lists of cases"
)]

#[cfg(feature = "dataplane")]
pub mod builder;
#[cfg(feature = "certificates")]
pub mod certificates;
pub mod etcd;
#[cfg(feature = "frames")]
pub mod frames;
#[cfg(feature = "dataplane")]
pub mod mask;
#[cfg(feature = "memory-loop")]
pub mod memory_loop;
pub mod namespace;
#[cfg(feature = "dataplane")]
pub mod offload;
#[cfg(feature = "p4")]
pub mod p4;
#[cfg(feature = "p4runtime")]
pub mod p4runtime;
pub mod repository;
#[cfg(feature = "sfu")]
pub mod sfu;
pub mod text;
#[cfg(feature = "xdp")]
pub mod xdp;
