//! The table entries and multicast groups that the switch must have for a leg. A leg is a participant's connection to
//! the conference service by one UDP socket.

use std::net::IpAddr;

/// A leg's entries in the switch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LegEntries {
    /// The leg's entry of table `sockets`, if the leg is signed in.
    pub socket: Option<Socket>,
    /// The leg's entry of table `receivers`, if the leg is signed in.
    pub receiver: Option<Receiver>,
    /// The members of the multicast group that gets the leg's media. Each member is a port of the switch and a leg.
    /// Without members there is no group.
    pub media: Vec<(u16, u16)>,
    /// The members of the multicast group that gets the leg's reports (RTCP). Without members there is no group.
    pub reports: Vec<(u16, u16)>,
}

/// An entry of table `sockets`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket {
    /// The switch's port.
    pub port: u16,
    pub address: IpAddr,
    pub udp_port: u16,
    /// The MAC address of the station that sends the socket's frames.
    pub mac: [u8; 6],
    /// The multicast group that gets what the socket sends, or 0 if nobody receives it.
    pub media_group: u16,
    /// The multicast group that gets the socket's reports (RTCP).
    pub report_group: u16,
    /// 0 to 7; where packets wait in a queue, those with a higher priority leave first.
    pub priority: u8,
    /// Whether the switch drops all packets of the socket except RTP and RTCP.
    pub is_rtp: bool,
    /// The highest rate at which the socket may send, in kbit/s.
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
    pub udp_port: u16,
}

/// Returns the multicast group that gets what a leg sends.
pub(crate) fn media_group(leg: u16) -> u16 {
    leg
}

/// Returns the multicast group that gets a leg's reports, for a leg whose reports and media go to different groups.
pub(crate) fn report_group(leg: u16) -> u16 {
    0x8000 | leg
}
