//! What is chosen when a switch is made.

use super::{PortId, limits};

/// What is chosen when a switch is made.
#[derive(Debug, Clone)]
pub struct SwitchConfig {
    /// Frames waiting for ingress at most.
    pub ingress_queue_packets: usize,
    /// Recirculated and resubmitted packets waiting at most.
    pub recirculation_queue_packets: usize,
    /// Packets waiting in each queue of an output port at most; one a priority.
    pub egress_queue_packets: usize,
    /// Packets a second through the recirculation path; none: as fast as it goes.
    pub recirculation_rate_pps: Option<u64>,
    /// Packets a second through each output port; none: as fast as it goes.
    pub egress_rate_pps: Option<u64>,
    /// The port of packet-in and packet-out.
    pub cpu_port: Option<PortId>,
    /// Seed of the generator behind `random`.
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
