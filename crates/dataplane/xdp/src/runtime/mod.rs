//! Runs a compiled program ([`crate::image::Image`]) in the kernel: creates its maps, attaches its code to the ports,
//! and reads its counters.

mod counts;
mod digests;
mod grace;
mod groups;
mod index;
mod loaded;
mod maps;
mod messages;
mod offload;
mod partial_checksum;
mod prefixes;
mod prepared;
mod ranges;
mod serving;
mod table;
#[cfg(test)]
mod testing;
mod tracepoints;
mod translator;
pub mod transmit;
mod writer;

pub use offload::KernelOffload;
pub use serving::{KernelPort, KernelPorts};
