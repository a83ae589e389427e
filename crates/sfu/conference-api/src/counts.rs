//! What a switch has counted. A leg is a participant's connection by one UDP socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Name;

/// The switch's counters of a leg in one direction; all 0 if no socket is signed in to the leg.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct LegTraffic {
    /// Packets, including a publisher's hellos.
    pub packets: u64,
    /// Bytes of these packets as whole frames.
    pub bytes: u64,
    /// Packets in the last second; 0 while the service is not connected to the switch.
    pub packets_per_s: u64,
    /// Kilobits in the last second, of whole frames; 0 while the service is not connected to the switch.
    pub kbps: u64,
    /// When the last packet of media was counted, to the second, in milliseconds since 1970; null if none was.
    pub last_packet_ms: Option<u64>,
}

/// What the switch has counted of a leg.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct LegCounts {
    /// What the leg's socket has sent to the switch.
    pub sent: LegTraffic,
    /// Media and reports (RTCP) that the switch has copied to the leg's socket; the port may have dropped some of them.
    pub received: LegTraffic,
    /// Packets from the leg's socket that the switch dropped because the socket exceeded its rate.
    pub policed_packets: u64,
    /// The switch's port to which the leg's socket is connected; null if no socket is signed in, or if the switch does
    /// not report on its ports.
    pub port: Option<PortCounts>,
}

/// What the switch has counted of one of its ports, since its process began.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct PortCounts {
    /// How long the packets that left by the port were in the switch; null if none has left.
    pub delay: Option<Delay>,
    /// Packets that the port has dropped, by reason (docs/switch.md, "Drop reasons"); only reasons that occurred.
    pub drops: BTreeMap<String, Drops>,
}

/// How long packets were in the switch, in nanoseconds, exact to two digits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct Delay {
    /// The median: half of the packets were in the switch for at most this time.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The longest time that a packet was in the switch.
    pub max_ns: u64,
}

/// Packets that were dropped for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct Drops {
    /// Packets that were dropped for this reason, since the switch's process began.
    pub packets: u64,
    /// Packets that were dropped for this reason in the last second.
    pub packets_per_s: u64,
    /// When the counter last grew, to the second, in milliseconds since 1970; null if it has not grown since the
    /// service first read it.
    pub last_ms: Option<u64>,
}

/// What a switch has counted of all conferences.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SwitchCounts {
    /// The switch's name, as the service's configuration has it.
    pub switch: Name,
    /// Whether the service is connected to the switch. If not, the counters are those of the last reading.
    pub connected: bool,
    /// Packets that the program has dropped, by its verdict without `drop_` (p4/lib/conference_verdict.p4); only
    /// verdicts that occurred.
    pub drops: BTreeMap<String, Drops>,
    /// The switch's ports by number; empty if the switch does not report on its ports.
    pub ports: BTreeMap<u16, PortCounts>,
}
