//! Reports on how this machine and its interfaces can serve as ports, without changing anything.

use std::fs;
use std::io;

use crate::af_packet::socket as packet_socket;
use crate::interface::{Interface, RingSlots};
use crate::{PortError, af_xdp, netlink, socket};

/// The operations that this process may do. An error is the kernel's reason why the process may not.
#[derive(Debug)]
pub struct Permissions {
    /// Open a packet socket (AF_PACKET ports).
    pub packet_socket: io::Result<()>,
    /// Open an AF_XDP socket.
    pub xdp_socket: io::Result<()>,
    /// Load the XDP program that gives frames to an AF_XDP socket.
    pub xdp_program: io::Result<()>,
}

/// Tries each operation, and undoes it at once.
pub fn permissions() -> Permissions {
    Permissions {
        packet_socket: packet_socket::open().map(drop),
        xdp_socket: socket::open(libc::AF_XDP, libc::SOCK_RAW, 0).map(drop),
        xdp_program: af_xdp::try_load(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpFeatures {
    /// Whether XDP programs run in the driver.
    pub is_native: bool,
    /// Whether frames need not be copied between card and socket.
    pub has_zero_copy: bool,
    /// Whether frames may have several pieces, which allows an MTU above a page.
    pub has_fragments: bool,
    /// Whether the interface sends frames that an XDP program redirects to it; on veth only while the peer has an XDP
    /// program or GRO.
    pub takes_redirected: bool,
}

/// An offload that matters to a port, and whether it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// The name in `ethtool -K`.
    pub name: &'static str,
    pub is_on: bool,
}

#[derive(Clone, Debug)]
pub struct InterfaceReport {
    pub name: String,
    /// Whether the interface is administratively up.
    pub is_up: bool,
    pub is_ethernet: bool,
    /// Maximum bytes after the Ethernet header.
    pub mtu_bytes: usize,
    /// `None` if the driver does not report its name.
    pub driver: Option<String>,
    /// Whether the interface is only software, so that a sender may be on this machine, or on the host of this virtual
    /// machine.
    pub is_virtual: bool,
    pub n_rx_queues: u32,
    /// Slots of the card's rings: the receive ring's current and maximum number, then the transmit ring's.
    pub ring_slots: Option<[u32; 4]>,
    /// The driver's AF_XDP features; `None` on a kernel that does not report them (before 6.3).
    pub xdp: Option<XdpFeatures>,
    /// The offloads that the driver reports.
    pub offloads: Vec<Offload>,
    /// Whether the interface has an IP address that is not link-local.
    pub has_address: bool,
    /// Whether a reprise-switch holds the interface.
    pub is_in_use: bool,
}

/// The names of the network namespace's interfaces.
///
/// # Errors
/// If `/proc` is not there.
pub fn interface_names() -> io::Result<Vec<String>> {
    let table = fs::read_to_string("/proc/net/dev")?;
    let names = table.lines().filter_map(|line| line.split_once(':'));
    Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
}

// `linux/netdev.h`: `enum netdev_xdp_act`.
const XDP_BASIC_AND_REDIRECT: u64 = 0b11;
/// The interface sends frames that a program redirects to it.
pub(crate) const XDP_TRANSMIT: u64 = 1 << 2;
const XDP_ZERO_COPY: u64 = 1 << 3;
const XDP_RX_FRAGMENTS: u64 = 1 << 5;

// `linux/ethtool.h`: requests for one setting each, and for a word of flags.
const SETTINGS: [(&str, u32); 5] = [
    ("rx", 0x14),
    ("tx", 0x16),
    ("tso", 0x1e),
    ("gso", 0x23),
    ("gro", 0x2b),
];
const ETHTOOL_GFLAGS: u32 = 0x25;
const FLAGS: [(&str, u32); 3] = [("txvlan", 1 << 7), ("rxvlan", 1 << 8), ("lro", 1 << 15)];

/// Reports on an interface.
///
/// # Errors
/// [`PortError::NameLength`], [`PortError::InterfaceMissing`], [`PortError::System`].
pub fn interface(name: &str) -> Result<InterfaceReport, PortError> {
    let interface = Interface::find(name)?;
    let driver = interface.driver().ok().map(|(driver, _)| driver);
    let xdp = netlink::xdp_features(interface.index).ok();
    let slots = interface.ring_slots().ok();
    Ok(InterfaceReport {
        name: name.to_owned(),
        is_up: interface.is_up,
        is_ethernet: interface.is_ethernet(),
        mtu_bytes: interface.mtu_bytes,
        driver: driver.filter(|driver| !driver.is_empty()),
        is_virtual: interface.is_virtual(),
        n_rx_queues: interface.n_rx_queues(),
        ring_slots: slots.map(
            |RingSlots {
                 rx,
                 rx_max,
                 tx,
                 tx_max,
             }| [rx, rx_max, tx, tx_max],
        ),
        xdp: xdp.map(|bits| XdpFeatures {
            is_native: bits & XDP_BASIC_AND_REDIRECT == XDP_BASIC_AND_REDIRECT,
            has_zero_copy: bits & XDP_ZERO_COPY != 0,
            has_fragments: bits & XDP_RX_FRAGMENTS != 0,
            takes_redirected: bits & XDP_TRANSMIT != 0,
        }),
        offloads: offloads(&interface),
        has_address: has_address(&interface),
        is_in_use: matches!(interface.reserve(), Err(PortError::InUse { .. })),
    })
}

fn offloads(interface: &Interface) -> Vec<Offload> {
    let settings = SETTINGS.iter().filter_map(|(name, request)| {
        let is_on = interface.setting(*request).ok()? != 0;
        Some(Offload { name, is_on })
    });
    let word = interface.setting(ETHTOOL_GFLAGS).ok();
    let flags = word.into_iter().flat_map(|word| {
        FLAGS.iter().map(move |(name, flag)| Offload {
            name,
            is_on: word & flag != 0,
        })
    });
    settings.chain(flags).collect()
}

fn has_address(interface: &Interface) -> bool {
    let ipv6 = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let has_ipv6 = ipv6.lines().any(|line| {
        let is_link_local = line.starts_with("fe8");
        !is_link_local && line.split_whitespace().last() == Some(&interface.name)
    });
    has_ipv6 || interface.has_ipv4_address()
}
