//! What stands between a publisher and a receiver.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Name, TrackPath};

/// Why a participant receives a track or not, from the publisher to the receiver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// Who should receive.
    pub participant: Name,
    /// What.
    pub path: TrackPath,
    /// What stands in the way, the first one first; empty if packets are forwarded.
    pub causes: Vec<Cause>,
    /// Packets from the publisher's leg that the switch has counted.
    pub packets_in: u64,
    /// Packets that the switch has sent to the receiver's leg, of all that the leg receives.
    pub packets_out: u64,
    /// When the publisher's last packet was counted, in milliseconds since 1970; null if none was.
    pub last_packet_ms: Option<u64>,
}

/// What can stand between a publisher and a receiver, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No such participant publishes now.
    NoPublisher,
    /// The publisher has no such track.
    NotPublished,
    /// The track is muted.
    Muted,
    /// The publisher's socket is not signed in.
    PublisherNotSignedIn,
    /// The publisher's socket is signed in, and sends nothing now.
    PublisherSilent,
    /// The publisher sends more than its rate, and the switch drops some.
    Policed,
    /// The publisher sends what is no RTP.
    NotRtp,
    /// The receiver has not subscribed.
    NotSubscribed,
    /// The receiver's socket is not signed in.
    ReceiverNotSignedIn,
    /// The switch is not connected, so nothing newer is in it.
    SwitchAway,
    /// The switch does not have what it should have; it is being written.
    NotWritten,
    /// The receiver's port is down.
    PortDown,
    /// Copies are too long for the receiver's port.
    TooLong,
    /// The device refuses copies.
    DeviceRefused,
    /// Copies from IPv4 without UDP checksum to a receiver over IPv6.
    NoChecksum,
}
