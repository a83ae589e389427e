//! Passes ports from one process to another while frames arrive.
//!
//! The sockets are passed as descriptors, so the kernel continues to queue frames in the same ring or buffer. The new
//! process may have the sockets before the old process stops receiving, as long as the new process neither receives nor
//! sends. At the end, the old process passes only the position in the receive ring and what the port has learned
//! (addresses and counts).

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use serde::{Deserialize, Serialize};

/// What another process needs to take over a port.
#[derive(Debug)]
pub struct HandedPort {
    /// Duplicates of the port's descriptors, in an order that depends on the port's kind.
    pub descriptors: Vec<OwnedFd>,
    pub state: PortState,
}

/// The state that a port has besides its sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PortState {
    Packet(PacketState),
    Udp(UdpState),
}

/// State of an [`AfPacketPort`](crate::AfPacketPort). The port's descriptors are, in this order, its receiving socket,
/// its sending socket and its lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketState {
    /// Inode of the receiving socket, which no other socket has at the same time.
    pub(crate) inode: u64,
    pub(crate) interface_index: i32,
    pub(crate) ring: RingState,
}

/// The layout of a receive ring, and the number of the slot to read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RingState {
    pub(crate) block_bytes: usize,
    pub(crate) slot_bytes: usize,
    pub(crate) n_slots: usize,
    pub(crate) next_slot: usize,
}

/// State of a [`UdpPort`](crate::UdpPort), whose only descriptor is its socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpState {
    /// Inode of the socket, which no other socket has at the same time.
    pub(crate) inode: u64,
    pub(crate) local: SocketAddr,
    pub(crate) spoken_to: Vec<IpAddr>,
    pub(crate) n_overflows: u32,
}

impl PortState {
    /// Whether both states belong to the same socket. A port that lost its interface between the two states has another
    /// socket now.
    pub fn is_of_same_socket(&self, other: &PortState) -> bool {
        let inode = |state: &PortState| match state {
            PortState::Packet(state) => state.inode,
            PortState::Udp(state) => state.inode,
        };
        inode(self) == inode(other)
    }
}

/// Returns the inode of a socket.
pub(crate) fn inode(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let duplicate = File::from(fd.try_clone_to_owned()?);
    Ok(duplicate.metadata()?.ino())
}

/// Returns the error for a state or descriptors that belong to another kind of port.
pub(crate) fn of_another_kind(expected: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("expected the sockets and the state of {expected}, found those of another port"),
    )
}
