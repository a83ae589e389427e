//! The table entries and multicast groups that the switch must have for a leg. A leg is a participant's connection to
//! the conference service by one UDP socket.

use std::net::IpAddr;

/// A leg's entries in the switch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LegEntries {
    /// Its entry of table `sockets`, if it is signed in.
    pub socket: Option<Socket>,
    /// Its entry of table `receivers`, if it is signed in.
    pub receiver: Option<Receiver>,
    /// Members of the multicast group that gets its media, each a port of the switch and a leg. Without members there
    /// is no group.
    pub media: Vec<(u16, u16)>,
    /// Members of the multicast group that gets its reports (RTCP). Without members there is no group.
    pub reports: Vec<(u16, u16)>,
}

/// An entry of table `sockets`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket {
    /// The switch's port.
    pub port: u16,
    /// The socket's address.
    pub address: IpAddr,
    /// Its UDP port.
    pub udp_port: u16,
    /// The MAC address of the station that sends the socket's frames.
    pub mac: [u8; 6],
    /// The multicast group that gets what the socket sends; 0: nobody receives it.
    pub media_group: u16,
    /// The multicast group of its reports.
    pub report_group: u16,
    /// 0 to 7; where packets wait in a queue, those with a higher priority leave first.
    pub priority: u8,
    /// Whether anything but RTP and RTCP is dropped.
    pub is_rtp: bool,
    /// The most that it may send.
    pub max_kbps: u32,
}

/// An entry of table `receivers`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receiver {
    /// The switch's MAC on the leg's port.
    pub own_mac: [u8; 6],
    /// The MAC address of the station that gets the leg's frames.
    pub mac: [u8; 6],
    /// The switch's address, which is the source address of the packets that the leg gets.
    pub own_address: IpAddr,
    /// The socket's address.
    pub address: IpAddr,
    /// Its UDP port.
    pub udp_port: u16,
}

/// The multicast group of what a leg sends.
pub(crate) fn media_group(leg: u16) -> u16 {
    leg
}

/// The multicast group of a leg's reports, where it differs from the group of its media.
pub(crate) fn report_group(leg: u16) -> u16 {
    0x8000 | leg
}
