//! The traffic manager, between the ingress and the egress control: queues, copies, and the count of packets inside.

pub(crate) mod digests;
pub(crate) mod latency;
pub(crate) mod look_ahead;
pub(crate) mod packet;
pub(crate) mod queue;
pub(crate) mod recirculate;
pub(crate) mod replication;

use std::collections::VecDeque;

use crate::{Nanos, SwitchConfig, limits};
use look_ahead::LookAhead;
use packet::{Common, IngressPacket};
use replication::ReplicationEntries;

/// All waiting packets, and the groups and sessions that make copies.
#[derive(Debug)]
pub(crate) struct TrafficManager {
    pub ingress: VecDeque<IngressPacket>,
    pub ingress_capacity: usize,
    pub recirculation: recirculate::RecirculationQueue,
    pub egress: queue::EgressQueues,
    pub groups: ReplicationEntries,
    pub sessions: ReplicationEntries,
    pub inside: Inside,
    pub look_ahead: LookAhead,
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
            groups: ReplicationEntries::new("multicast group", limits::MULTICAST_GROUP_ID_MAX),
            sessions: ReplicationEntries::new("clone session", limits::CLONE_SESSION_ID_MAX),
            inside: Inside::default(),
            look_ahead: LookAhead::default(),
        }
    }

    /// Takes a packet out of any queue, whatever its departure time: a new frame first, then a recirculated packet,
    /// then a packet that waits for egress.
    pub(crate) fn next_waiting(&mut self) -> Option<Common> {
        let mut next = self.ingress.pop_front();
        if next.is_none() {
            next = self.recirculation.pop(Nanos::MAX);
        }
        match next {
            Some(waiting) => Some(waiting.common),
            None => Some(self.egress.take_any()?.packet.common),
        }
    }

    /// Whether to look ahead now. While a packet recirculates, there is no look-ahead, because the passes of that
    /// packet run back to back.
    #[inline]
    pub(crate) fn is_look_ahead_due(&self) -> bool {
        let is_due = self.look_ahead.is_due() && !self.ingress.is_empty();
        is_due && !self.egress.is_empty() && self.recirculation.is_empty()
    }

    /// Egress passes that may run before the next look-ahead, if nothing recirculates.
    pub(crate) fn n_passes_before_look(&self) -> usize {
        if self.ingress.is_empty() {
            usize::MAX
        } else {
            self.look_ahead.n_passes_left()
        }
    }
}

/// The number of packets inside, by the epoch in which their root frame (the received frame that a packet comes from)
/// arrived. Each drain begins a new epoch, with a higher number. Except during a drain, all packets are of the newest
/// epoch, whose count is kept apart.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    newest: u64,
    n_newest: u64,
    /// Older epochs with packets inside and their counts, in ascending order.
    older: Vec<(u64, u64)>,
    n_older: u64,
}

impl Inside {
    pub(crate) fn enter(&mut self, epoch: u64) {
        self.enter_many(epoch, 1);
    }

    /// Adds `n_packets` packets of an epoch; `n_packets` is not 0.
    #[inline]
    pub(crate) fn enter_many(&mut self, epoch: u64, n_packets: u64) {
        if epoch > self.newest {
            self.begin(epoch);
        }
        if epoch == self.newest {
            self.n_newest += n_packets;
        } else if let Some((_, count)) = self.find_older(epoch) {
            // Only copies enter with an older epoch. The packet that they are made of is still inside, so `older` has
            // that epoch.
            *count += n_packets;
            self.n_older += n_packets;
        }
    }

    #[cold]
    fn begin(&mut self, epoch: u64) {
        if self.n_newest > 0 {
            self.older.push((self.newest, self.n_newest));
            self.n_older += self.n_newest;
        }
        self.newest = epoch;
        self.n_newest = 0;
    }

    fn find_older(&mut self, epoch: u64) -> Option<&mut (u64, u64)> {
        self.older.iter_mut().find(|(older, _)| *older == epoch)
    }

    pub(crate) fn leave(&mut self, epoch: u64) {
        self.leave_many(epoch, 1);
    }

    #[inline]
    pub(crate) fn leave_many(&mut self, epoch: u64, n_packets: u64) {
        if epoch == self.newest {
            self.n_newest -= n_packets;
        } else {
            self.leave_older(epoch, n_packets);
        }
    }

    #[cold]
    fn leave_older(&mut self, epoch: u64, n_packets: u64) {
        if let Some((_, count)) = self.find_older(epoch) {
            *count -= n_packets;
            self.n_older -= n_packets;
            self.older.retain(|(_, count)| *count > 0);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.n_newest + self.n_older
    }

    /// Whether no packet of this epoch or an older one is inside.
    pub(crate) fn is_clear(&self, epoch: u64) -> bool {
        let is_newest_clear = self.newest > epoch || self.n_newest == 0;
        is_newest_clear && self.older.first().is_none_or(|(oldest, _)| *oldest > epoch)
    }
}

fn interval_ns(rate_pps: Option<u64>) -> Option<u64> {
    rate_pps.map(|rate| 1_000_000_000 / rate.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_clear_when_it_and_all_older_ones_are_empty() {
        let mut inside = Inside::default();
        inside.enter(3);
        inside.enter_many(5, 2);
        assert_eq!(inside.total(), 3);
        assert!(inside.is_clear(2) && !inside.is_clear(3) && !inside.is_clear(7));
        inside.leave(5);
        assert!(!inside.is_clear(3));
        inside.leave(3);
        assert!(inside.is_clear(4) && !inside.is_clear(5));
        inside.leave(5);
        assert!(inside.is_clear(9));
        inside.enter(9);
        assert!(inside.is_clear(8) && !inside.is_clear(9));
        assert_eq!(inside.total(), 1);
    }
}
