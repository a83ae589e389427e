//! What a switch has counted. A leg is a participant's connection by one UDP socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Name;

/// What the switch has counted of a leg in one direction. Zeros if the leg is not signed in.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct LegTraffic {
    /// Packets, a publisher's hellos among them.
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
    /// Packets that it has sent and that were dropped because it exceeded its rate.
    pub policed_packets: u64,
    /// The port by which it is reached; null if it is not signed in, or the switch does not tell of its ports.
    pub port: Option<PortCounts>,
}

/// What the switch has counted of one of its ports, since its process began.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct PortCounts {
    /// How long the packets that left by it were in the switch; null if none has left.
    pub delay: Option<Delay>,
    /// Packets that it has dropped, by reason (docs/switch.md, "Drop reasons"); only reasons that occurred.
    pub drops: BTreeMap<String, Drops>,
}

/// How long packets were in the switch, in nanoseconds, exact to two digits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct Delay {
    /// Half of the packets were in it no longer.
    pub p50_ns: u64,
    /// 99 of 100 were in it no longer.
    pub p99_ns: u64,
    /// 999 of 1,000 were in it no longer.
    pub p999_ns: u64,
    /// The longest time that a packet was in the switch.
    pub max_ns: u64,
}

/// Packets that were dropped for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct Drops {
    /// How many packets were dropped for this reason in all.
    pub packets: u64,
    /// How many in the last second.
    pub packets_per_s: u64,
    /// When the last one was counted, to the second, in milliseconds since 1970; null if none was since the
    /// service first read the counter.
    pub last_ms: Option<u64>,
}

/// What a switch has counted of all conferences.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SwitchCounts {
    /// The switch's name, as the service's configuration has it.
    pub switch: Name,
    /// Whether the service is connected to it. Without that, the counters are the last that were read.
    pub connected: bool,
    /// Packets that the program has dropped, by its verdict without `drop_` (p4/lib/conference_verdict.p4); only
    /// verdicts that occurred.
    pub drops: BTreeMap<String, Drops>,
    /// The switch's ports by number; empty if the switch does not tell of its ports.
    pub ports: BTreeMap<u16, PortCounts>,
}
