//! Reports changes of network interfaces, which rtnetlink(7) announces: created, removed, up, down, new addresses.
//!
//! A [`LinkMonitor`] reports all interfaces of its thread's network namespace. An interface that moves to
//! another namespace is reported as removed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::netlink::{self, attribute};

// `linux/rtnetlink.h`, `linux/if_link.h`, `linux/if_addr.h`.
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_LINK_NETNSID: u16 = 37;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Bytes of `struct ifinfomsg` and `struct ifaddrmsg`, which attributes follow.
const LINK_HEADER_BYTES: usize = 16;
const ADDRESS_HEADER_BYTES: usize = 8;

/// How many times [`links`] asks the kernel, if interfaces change during each answer; an answer takes microseconds.
const DUMP_TRIES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Unique in the namespace as long as the interface exists.
    pub index: i32,
    pub name: String,
    /// Whether the interface is administratively up and has a carrier, so that frames can arrive and leave.
    pub is_up: bool,
    /// Maximum bytes after the link layer's header; `None` if the kernel does not report it.
    pub mtu: Option<u32>,
}

/// A change, or a part of the current state ([`links`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// An interface exists and has this state.
    Present(Link),
    /// The interface with this index was removed, or moved to another namespace.
    Removed { index: i32 },
    /// The kernel has an address at an interface.
    Address {
        index: i32,
        /// The host's own address at this interface (not the peer's, on a point-to-point link).
        address: IpAddr,
    },
}

/// Reports the changes of interfaces from its creation on.
pub struct LinkMonitor {
    socket: OwnedFd,
}

impl LinkMonitor {
    /// Starts to receive events.
    ///
    /// # Errors
    /// If the process has no descriptor left, or the kernel does not have rtnetlink.
    pub fn new() -> io::Result<LinkMonitor> {
        let socket = netlink::open_route()?;
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        netlink::join(socket.as_fd(), groups.cast_unsigned())?;
        Ok(LinkMonitor { socket })
    }

    /// Returns a descriptor that is readable when there are events.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns all events since the last call, without waiting. `None` if events were lost, because the kernel buffers
    /// only a few hundred kilobytes: then [`links`] gives the current state. The buffered events are older than that
    /// state and are discarded, too.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn receive(&self) -> io::Result<Option<Vec<LinkEvent>>> {
        let mut events = Some(Vec::new());
        loop {
            match netlink::receive(self.socket.as_fd()) {
                Ok(Some(datagram)) => {
                    let messages = netlink::messages(&datagram);
                    let parsed = messages.filter_map(|message| parse(message.kind, message.body));
                    if let Some(events) = &mut events {
                        events.extend(parsed);
                    }
                }
                Ok(None) => return Ok(events),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => events = None,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns all interfaces and addresses that exist now.
///
/// # Errors
/// As [`LinkMonitor::new`]; [`io::ErrorKind::Interrupted`] if interfaces came and went all the time.
pub fn links() -> io::Result<Vec<LinkEvent>> {
    let mut events = ask();
    for _ in 1..DUMP_TRIES {
        match &events {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events = ask(),
            _ => break,
        }
    }
    events
}

/// Returns the name of the interface at the other end of a virtual cable. `None` if the other end is in another
/// namespace, or if the interface with this index is not the end of a cable.
pub fn other_end(index: i32) -> Option<String> {
    // Each end of a cable refers to the other end (`IFLA_LINK`). A VLAN interface refers to the interface beneath it,
    // which does not refer back.
    let mut named = Vec::new();
    let dumped = netlink::dump(RTM_GETLINK, LINK_HEADER_BYTES, &mut |kind, body| {
        let Some((_, attributes)) = body.split_at_checked(LINK_HEADER_BYTES) else {
            return;
        };
        let other = attribute(attributes, IFLA_LINK);
        let other = other.and_then(|other| other.try_into().map_err(io::Error::other));
        let is_elsewhere = attribute(attributes, IFLA_LINK_NETNSID).is_ok();
        if let (Some(LinkEvent::Present(link)), Ok(other), false) =
            (parse_link(kind, body), other, is_elsewhere)
        {
            named.push((link, i32::from_ne_bytes(other)));
        }
    });
    dumped.ok()?;
    let its_other = named.iter().find(|(link, _)| link.index == index)?.1;
    let mut ends = named.into_iter();
    let found = ends.find(|(link, back)| link.index == its_other && *back == index);
    found.map(|(link, _)| link.name)
}

fn ask() -> io::Result<Vec<LinkEvent>> {
    let mut events = Vec::new();
    for (question, header_bytes) in [
        (RTM_GETLINK, LINK_HEADER_BYTES),
        (RTM_GETADDR, ADDRESS_HEADER_BYTES),
    ] {
        netlink::dump(question, header_bytes, &mut |kind, body| {
            events.extend(parse(kind, body));
        })?;
    }
    Ok(events)
}

/// Returns `None` for a message that reports no [`LinkEvent`].
fn parse(kind: u16, body: &[u8]) -> Option<LinkEvent> {
    match kind {
        RTM_NEWLINK | RTM_DELLINK => parse_link(kind, body),
        RTM_NEWADDR => parse_address(body),
        _ => None,
    }
}

fn parse_link(kind: u16, body: &[u8]) -> Option<LinkEvent> {
    let (header, attributes) = body.split_first_chunk::<LINK_HEADER_BYTES>()?;
    // Bridges report their ports by the same kinds of message, with an address family of their own. If a port leaves a
    // bridge, its interface still exists, so these messages are ignored.
    if i32::from(header[0]) != libc::AF_UNSPEC {
        return None;
    }
    let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let index = i32::from_ne_bytes(word(4));
    if kind == RTM_DELLINK {
        return Some(LinkEvent::Removed { index });
    }
    let flags = i32::from_ne_bytes(word(8));
    let up = libc::IFF_UP | libc::IFF_LOWER_UP;
    let name = attribute(attributes, IFLA_IFNAME).ok()?;
    let name = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name));
    let mtu = attribute(attributes, IFLA_MTU).ok();
    let mtu = mtu.and_then(|mtu| Some(u32::from_ne_bytes(mtu.try_into().ok()?)));
    Some(LinkEvent::Present(Link {
        index,
        name: name.into_owned(),
        is_up: flags & up == up,
        mtu,
    }))
}

fn parse_address(body: &[u8]) -> Option<LinkEvent> {
    let (header, attributes) = body.split_first_chunk::<ADDRESS_HEADER_BYTES>()?;
    let index = i32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
    // On a point-to-point link `IFA_ADDRESS` is the peer's address.
    let own = attribute(attributes, IFA_LOCAL);
    let own = own.or_else(|_| attribute(attributes, IFA_ADDRESS)).ok()?;
    let address = match i32::from(header[0]) {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(own).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(own).ok()?).into(),
        _ => return None,
    };
    Some(LinkEvent::Address { index, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_there_as_everywhere() {
        let events = links().expect("rtnetlink");
        let is_loopback = |event: &LinkEvent| matches!(event, LinkEvent::Present(Link { index: 1, name, .. }) if name == "lo");
        assert_eq!(events.iter().filter(|it| is_loopback(it)).count(), 1);
        let has_mtu = |event: &LinkEvent| matches!(event, LinkEvent::Present(Link { index: 1, mtu: Some(mtu), .. }) if *mtu > 0);
        assert!(events.iter().any(has_mtu));
    }

    #[test]
    fn a_bridge_that_lets_a_port_go_removes_nothing() {
        let mut body = [0; LINK_HEADER_BYTES];
        body[4..8].copy_from_slice(&7_i32.to_ne_bytes());
        let removed = LinkEvent::Removed { index: 7 };
        assert_eq!(parse(RTM_DELLINK, &body), Some(removed));
        body[0] = libc::AF_BRIDGE as u8;
        assert_eq!(parse(RTM_DELLINK, &body), None);
        assert_eq!(parse(RTM_DELLINK, &body[..9]), None);
    }
}
