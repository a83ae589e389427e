//! Ports: the sources and destinations of frames.
//!
//! A [`Port`] hands over whole Ethernet frames, as they are on the wire, and takes frames to send. There are five
//! kinds: [`AfPacketPort`] and [`AfXdpPort`] (a Linux network interface, through packet sockets or past the kernel's
//! network stack), [`UdpPort`] (a UDP socket, without any privilege), [`PcapPort`] (capture files, in the capture's own
//! time) and [`MemoryPort`] (a pair of ports in memory, for tests). A [`LostPort`] replaces a port whose interface was
//! removed; a [`LinkMonitor`] reports such removals.
//!
//! This crate knows frames and ports, nothing of P4. It reads no clock: time is an argument, in nanoseconds. Every
//! frame that a port receives or is to send is either passed on or counted in [`PortStatistics`] with the reason why it
//! was dropped; no frame is lost silently.
//!
//! Each file with `unsafe` code has one mechanism: socket calls (`socket.rs`, `af_packet/socket.rs`, `udp/socket.rs`),
//! requests about an interface (`interface.rs`, `netlink.rs`), memory shared with the kernel (`af_packet/ring.rs`,
//! `af_xdp/ring.rs`, `af_xdp/queue.rs`, `af_xdp/shared.rs`), waiting (`wait.rs`). The crate `bpf` calls bpf(2).

mod af_packet;
mod af_xdp;
mod batch;
mod error;
mod handed;
mod interface;
pub mod limits;
mod link;
mod lost;
mod memory;
mod netlink;
mod observed;
pub mod offload;
mod open;
mod pace;
mod pcap;
mod port;
pub mod probe;
mod sending;
mod socket;
mod udp;
mod wait;

pub use af_packet::{AfPacketConfig, AfPacketPort, WayOut};
pub use af_xdp::{
    AfXdpConfig, AfXdpMode, AfXdpPort, Destination, XdpInterface, kept_path, make_kept_folder,
};
pub use error::PortError;
pub use frame::Frame;
pub use handed::{HandedPort, PacketState, PortState, UdpState};
pub use interface::receive_queues;
pub use link::{Link, LinkEvent, LinkMonitor, links, other_end};
pub use lost::LostPort;
pub use memory::{MemoryPort, memory_pair};
pub use observed::{ObservedPort, Observer, SharedObserver};
pub use open::open;
pub use pcap::{PcapPort, Recorder, ReplayOrder};
pub use port::{Nanos, Port, PortStatistics};
pub use udp::{UdpPort, mac_of};
pub use wait::{Waiter, Waker};
