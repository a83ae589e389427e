//! Between the controls: queues, copies, and who is still inside.

pub(crate) mod clone_session;
pub(crate) mod queue;
pub(crate) mod recirculate;
pub(crate) mod replication;

use std::collections::{BTreeMap, VecDeque};

use crate::{SwitchConfig, packet::IngressPacket};

/// Every packet that waits, and the groups and sessions that make copies.
#[derive(Debug)]
pub(crate) struct TrafficManager {
    pub ingress: VecDeque<IngressPacket>,
    pub ingress_capacity: usize,
    pub recirculation: recirculate::RecirculationQueue,
    pub egress: queue::EgressQueues,
    pub groups: replication::MulticastGroups,
    pub sessions: clone_session::CloneSessions,
    pub inside: Inside,
}

impl TrafficManager {
    pub(crate) fn new(config: &SwitchConfig) -> Self {
        Self {
            ingress: VecDeque::new(),
            ingress_capacity: config.ingress_queue_packets,
            recirculation: recirculate::RecirculationQueue::new(
                config.recirculation_queue_packets,
                config.recirculation_rate_pps,
            ),
            egress: queue::EgressQueues::new(config.egress_queue_packets, config.egress_rate_pps),
            groups: replication::MulticastGroups::default(),
            sessions: clone_session::CloneSessions::default(),
            inside: Inside::default(),
        }
    }
}

/// How many packets are inside, by the epoch of their root frame.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    by_epoch: BTreeMap<u64, u64>,
}

impl Inside {
    pub(crate) fn enter(&mut self, epoch: u64) {
        *self.by_epoch.entry(epoch).or_default() += 1;
    }

    pub(crate) fn leave(&mut self, epoch: u64) {
        if let Some(count) = self.by_epoch.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                self.by_epoch.remove(&epoch);
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.by_epoch.values().sum()
    }

    /// Whether no packet of that epoch or an older one is inside.
    pub(crate) fn is_clear(&self, epoch: u64) -> bool {
        self.by_epoch.keys().next().is_none_or(|oldest| *oldest > epoch)
    }
}

/// Nanoseconds between two packets at a rate; none where there is no rate.
fn interval_ns(rate_pps: Option<u64>) -> Option<u64> {
    rate_pps.map(|rate| 1_000_000_000 / rate.max(1))
}
