//! The queues of the output ports: bounded, FIFO, at a rate in virtual time.
//!
//! When a packet is queued it gets its departure time: at once without a rate, otherwise one
//! interval after the packet before it. So the order does not depend on how often anyone polls.
//! At one instant the higher priority goes first, then the older packet: replicas leave in the
//! order in which they were made, whatever their ports.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use super::interval_ns;
use crate::{Nanos, PortId, limits, packet::EgressPacket};

/// The order of departure.
type Order = (Nanos, Reverse<usize>, u64);

#[derive(Debug, Default)]
struct Port {
    depth: usize,
    depth_of_queue: [usize; limits::EGRESS_QUEUES_PER_PORT],
    next_departure: [Nanos; limits::EGRESS_QUEUES_PER_PORT],
}

/// The queues of every port.
#[derive(Debug)]
pub(crate) struct EgressQueues {
    capacity: usize,
    interval_ns: Option<Nanos>,
    waiting: BTreeMap<Order, (PortId, EgressPacket)>,
    ports: HashMap<PortId, Port>,
    sequence: u64,
}

/// A packet whose turn it is.
pub(crate) struct Departure {
    pub port: PortId,
    pub queue: usize,
    /// Packets left in its queue.
    pub depth: usize,
    pub packet: EgressPacket,
}

impl EgressQueues {
    pub(crate) fn new(capacity: usize, rate_pps: Option<u64>) -> Self {
        Self {
            capacity,
            interval_ns: interval_ns(rate_pps),
            waiting: BTreeMap::new(),
            ports: HashMap::new(),
            sequence: 0,
        }
    }

    /// Packets in a queue of a port.
    pub(crate) fn depth(&self, port: PortId, queue: usize) -> usize {
        self.ports.get(&port).and_then(|port| port.depth_of_queue.get(queue)).copied().unwrap_or(0)
    }

    pub(crate) fn is_full(&self, port: PortId) -> bool {
        self.ports.get(&port).map_or(0, |port| port.depth) >= self.capacity
    }

    /// Appends a packet; whoever calls has looked whether the port is full and the queue exists.
    pub(crate) fn push(&mut self, now: Nanos, port: PortId, queue: usize, packet: EgressPacket) {
        let state = self.ports.entry(port).or_default();
        let departure = match self.interval_ns {
            None => now,
            Some(interval) => {
                let departure = state.next_departure[queue].max(now);
                state.next_departure[queue] = departure.saturating_add(interval);
                departure
            }
        };
        state.depth += 1;
        state.depth_of_queue[queue] += 1;
        self.sequence += 1;
        self.waiting.insert((departure, Reverse(queue), self.sequence), (port, packet));
    }

    /// The packet whose turn it is, if its time has come.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Departure> {
        let first = self.waiting.first_entry()?;
        let (departure, Reverse(queue), _) = *first.key();
        if departure > now {
            return None;
        }
        let (port, packet) = first.remove();
        let mut depth = 0;
        if let Some(state) = self.ports.get_mut(&port) {
            state.depth -= 1;
            state.depth_of_queue[queue] -= 1;
            depth = state.depth_of_queue[queue];
        }
        Some(Departure { port, queue, depth, packet })
    }

    pub(crate) fn next_departure(&self) -> Option<Nanos> {
        self.waiting.first_key_value().map(|((departure, ..), _)| *departure)
    }

    /// Empties the queues.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = EgressPacket> + use<> {
        self.ports.clear();
        std::mem::take(&mut self.waiting).into_values().map(|(_, packet)| packet)
    }
}
