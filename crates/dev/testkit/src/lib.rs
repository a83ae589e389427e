//! What tests of more than one crate use, or a crate's tests and its examples. Only tests, examples and the development
//! crates `conformance` and `control-bench` link it.
//!
//! A crate's unit tests are a second build of that crate, with types of their own. So in `src/` a crate uses here only
//! what has no types of that crate: `namespace` and `text` anywhere, `offload` in the switch's event loop, but no
//! `frames` in `packet-io`. Files in `tests/` and `examples/` may use everything.
//!
//! Each feature stands for what its modules link. Without features the tests of `dataplane` and `packet-io` would
//! compile only after the control plane, gRPC and TLS had compiled.
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
