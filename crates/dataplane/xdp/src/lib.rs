//! The kernel engine: compiles a loaded program to eBPF, which XDP runs in the kernel's receive path.
//!
//! This engine is an offload (`dataplane::offload`): it forwards the packets that it can. It punts all other packets:
//! the switch's own engine forwards them. The interpreter of [`dataplane`] defines how it must forward.

pub mod compile;
pub mod image;
mod listing;
pub mod runtime;

pub use bpf::asm;
