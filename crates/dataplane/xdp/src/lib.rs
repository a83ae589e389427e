//! The kernel engine: compiles a loaded program to eBPF, which XDP runs in the kernel's receive path.
//!
//! This engine is an offload (`dataplane::offload`): it forwards the packets that it can. It punts all other packets,
//! which means that it leaves them to the switch's own engine. The interpreter of [`dataplane`] defines how the kernel
//! engine must forward.

pub mod compile;
pub mod image;
mod listing;
pub mod runtime;

pub use bpf::asm;
