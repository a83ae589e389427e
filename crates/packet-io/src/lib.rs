//! Ports: where frames come from and go to.
//!
//! A [`Port`] hands over whole Ethernet frames, as they are on the wire, and takes frames to send.
//! Three kinds: [`AfPacketPort`] (a Linux network interface), [`PcapPort`] (capture files, in the
//! capture's own time) and [`MemoryPort`] (a pair of ports in memory, for tests).
//!
//! This crate knows frames and ports, nothing of P4. It reads no clock: time is an argument, in
//! nanoseconds. Every frame that a port takes in or is given either goes on or is counted in
//! [`PortStatistics`] with its reason; none is lost silently.
//!
//! `unsafe` is in three files, one a mechanism: `af_packet/socket.rs` (socket calls),
//! `af_packet/ring.rs` (the memory shared with the kernel), `wait.rs` (`ppoll`, `eventfd`).

mod af_packet;
mod batch;
mod error;
pub mod limits;
mod memory;
pub mod offload;
mod pcap;
mod port;
mod wait;

pub use af_packet::{AfPacketConfig, AfPacketPort};
pub use error::PortError;
pub use memory::{MemoryPort, memory_pair};
pub use pcap::PcapPort;
pub use port::{Nanos, Port, PortStatistics};
pub use wait::{Waiter, Waker};
