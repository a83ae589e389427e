//! A lock that lets only one switch use an interface.
//!
//! Packet sockets do not exclude one another: two switches on one interface would both forward every frame, and an XDP
//! program would take all frames away from a packet socket. The lock is a Unix socket bound to a name in the abstract
//! namespace. That namespace belongs to the network namespace, and the kernel frees the name however the process ends.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Holds an interface until dropped.
pub(crate) struct InterfaceLock(UnixDatagram);

impl InterfaceLock {
    /// Returns `None` if the lock is already held.
    pub(crate) fn acquire(interface_index: i32) -> io::Result<Option<InterfaceLock>> {
        let name = format!("reprise-switch/interface/{interface_index}");
        let address = SocketAddr::from_abstract_name(name)?;
        match UnixDatagram::bind_addr(&address) {
            Ok(socket) => Ok(Some(InterfaceLock(socket))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns another descriptor of the lock. The lock is held until both descriptors are closed.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(self.0.try_clone()?.into())
    }

    /// Takes over the lock that another process has passed.
    pub(crate) fn passed(lock: OwnedFd) -> InterfaceLock {
        InterfaceLock(UnixDatagram::from(lock))
    }
}
