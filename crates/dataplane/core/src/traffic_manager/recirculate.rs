//! The path from egress or ingress back to ingress: a bounded FIFO. If the path has a rate, a packet gets its departure
//! time when it is queued.

use std::collections::VecDeque;

use super::{interval_ns, packet::IngressPacket};
use crate::Nanos;

#[derive(Debug)]
pub(crate) struct RecirculationQueue {
    capacity: usize,
    interval_ns: Option<Nanos>,
    next_departure: Nanos,
    waiting: VecDeque<(Nanos, IngressPacket)>,
}

impl RecirculationQueue {
    pub(crate) fn new(capacity: usize, rate_pps: Option<u64>) -> Self {
        Self {
            capacity,
            interval_ns: interval_ns(rate_pps),
            next_departure: 0,
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.capacity
    }

    /// Appends a packet; the caller has checked that the queue is not full.
    pub(crate) fn push(&mut self, now: Nanos, packet: IngressPacket) {
        let departure = match self.interval_ns {
            None => now,
            Some(interval) => {
                let departure = self.next_departure.max(now);
                self.next_departure = departure.saturating_add(interval);
                departure
            }
        };
        self.waiting.push_back((departure, packet));
    }

    /// Whether a packet that is queued now would run ingress at once.
    pub(crate) fn is_passable(&self) -> bool {
        self.waiting.is_empty() && self.interval_ns.is_none()
    }

    /// Takes the oldest packet, if its departure time has come.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<IngressPacket> {
        if self.next_departure()? > now {
            return None;
        }
        self.waiting.pop_front().map(|(_, packet)| packet)
    }

    pub(crate) fn next_departure(&self) -> Option<Nanos> {
        self.waiting.front().map(|(departure, _)| *departure)
    }
}
