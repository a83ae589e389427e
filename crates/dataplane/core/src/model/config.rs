//! Parameters of a switch.

use super::{PortId, limits};

/// Parameters of a switch, fixed when it is made.
#[derive(Debug, Clone)]
pub struct SwitchConfig {
    /// Capacity of the ingress queue.
    pub ingress_queue_packets: usize,
    /// Capacity of the queue of recirculated and resubmitted packets.
    pub recirculation_queue_packets: usize,
    /// Capacity of each queue of an output port. An output port has one queue per priority.
    pub egress_queue_packets: usize,
    /// Packets per second of the recirculation path; `None` is unlimited.
    pub recirculation_rate_pps: Option<u64>,
    /// Packets per second of each output queue; `None` is unlimited.
    pub egress_rate_pps: Option<u64>,
    /// The port of packet-in and packet-out, if any.
    pub cpu_port: Option<PortId>,
    /// Seed of the extern `random`.
    pub random_seed: u64,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            ingress_queue_packets: limits::INGRESS_QUEUE_PACKETS,
            recirculation_queue_packets: limits::RECIRCULATION_QUEUE_PACKETS,
            egress_queue_packets: limits::EGRESS_QUEUE_PACKETS,
            recirculation_rate_pps: None,
            egress_rate_pps: None,
            cpu_port: Some(PortId(limits::CPU_PORT)),
            random_seed: 1,
        }
    }
}
