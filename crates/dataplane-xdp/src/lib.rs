//! The kernel engine: a loaded program compiled to eBPF, run by XDP in the kernel's receive path.
//!
//! It is an offload (`dataplane::offload`): it forwards what it can and punts the rest, and the
//! interpreter of [`dataplane`] is the semantics of what it forwards.

pub mod asm;
pub mod compile;
pub mod image;
mod listing;
pub mod runtime;
