//! The queues of the output ports: bounded, FIFO, at a rate in virtual time.
//!
//! Without a rate whatever waits may leave: the higher priority first, always; then the older
//! packet, so that replicas leave in the order in which they were made, whatever their ports. A
//! ring a priority.
//!
//! With a rate a packet gets its departure time when it is queued, one interval after the packet
//! before it in its queue. So the order does not depend on how often anyone polls. At one instant
//! the higher priority goes first, then the older packet.
//!
//! A queue, one of a port and a priority, is bounded: what waits at one takes no room from those of
//! another.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

use super::{interval_ns, packet::EgressPacket};
use crate::{Nanos, PortId, limits};

const N_QUEUES: usize = limits::EGRESS_QUEUES_PER_PORT;

/// The order of departure.
type Order = (Nanos, Reverse<usize>, u64);

/// Packets in each queue of one port.
type Depths = [usize; N_QUEUES];

#[derive(Debug)]
enum Waiting {
    /// No rate: a ring a priority.
    Rings {
        rings: [VecDeque<(Nanos, PortId, EgressPacket)>; N_QUEUES],
        /// A bit a ring: it is not empty.
        filled: u8,
    },
    Timed {
        interval_ns: Nanos,
        /// When a queue may send again.
        next_departure: BTreeMap<(PortId, usize), Nanos>,
        packets: BTreeMap<Order, (PortId, EgressPacket)>,
        sequence: u64,
    },
}

impl Waiting {
    fn new(rate_pps: Option<u64>) -> Self {
        match interval_ns(rate_pps) {
            None => Self::Rings {
                rings: Default::default(),
                filled: 0,
            },
            Some(interval_ns) => Self::Timed {
                interval_ns,
                next_departure: BTreeMap::new(),
                packets: BTreeMap::new(),
                sequence: 0,
            },
        }
    }
}

/// The queues of every port.
#[derive(Debug)]
pub(crate) struct EgressQueues {
    capacity: usize,
    waiting: Waiting,
    /// By port number.
    depths: Vec<Depths>,
}

/// A packet whose turn it is.
pub(crate) struct Departure {
    pub port: PortId,
    pub queue: usize,
    /// Packets left in its queue.
    pub depth: usize,
    pub packet: EgressPacket,
}

/// The filled ring of the highest priority.
fn next_ring(filled: u8) -> Option<usize> {
    filled.checked_ilog2().map(|queue| queue as usize)
}

impl EgressQueues {
    pub(crate) fn new(capacity: usize, rate_pps: Option<u64>) -> Self {
        Self {
            capacity,
            waiting: Waiting::new(rate_pps),
            depths: Vec::new(),
        }
    }

    /// Packets in a queue of a port.
    pub(crate) fn depth(&self, port: PortId, queue: usize) -> usize {
        let depth = self.depths.get(usize::from(port.0));
        depth.map_or(0, |depth| depth[queue])
    }

    pub(crate) fn is_full(&self, port: PortId, queue: usize) -> bool {
        self.depth(port, queue) >= self.capacity
    }

    /// Whether so many copies of one packet go to a queue all or none, and it is none: there is no
    /// room for all of them now, and there would be in an empty queue.
    pub(crate) fn refuses(&self, port: PortId, queue: usize, n_copies: usize) -> bool {
        n_copies <= self.capacity && self.depth(port, queue) + n_copies > self.capacity
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.waiting {
            Waiting::Rings { filled, .. } => *filled == 0,
            Waiting::Timed { packets, .. } => packets.is_empty(),
        }
    }

    /// Appends a packet; whoever calls has looked whether the queue exists and is full,
    /// and gives no time before the last one.
    pub(crate) fn push(&mut self, now: Nanos, port: PortId, queue: usize, packet: EgressPacket) {
        let place = usize::from(port.0);
        if place >= self.depths.len() {
            self.depths.resize(place + 1, Depths::default());
        }
        self.depths[place][queue] += 1;
        match &mut self.waiting {
            Waiting::Rings { rings, filled } => {
                rings[queue].push_back((now, port, packet));
                *filled |= 1 << queue;
            }
            Waiting::Timed {
                interval_ns,
                next_departure,
                packets,
                sequence,
            } => {
                let next = next_departure.entry((port, queue)).or_default();
                let departure = (*next).max(now);
                *next = departure.saturating_add(*interval_ns);
                *sequence += 1;
                packets.insert((departure, Reverse(queue), *sequence), (port, packet));
            }
        }
    }

    /// The packet whose turn it is, if its time has come.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Departure> {
        let (queue, port, packet) = match &mut self.waiting {
            Waiting::Rings { rings, filled } => {
                let queue = next_ring(*filled)?;
                let ring = &mut rings[queue];
                let (_, port, packet) = ring.pop_front_if(|(departure, ..)| *departure <= now)?;
                if ring.is_empty() {
                    *filled &= !(1 << queue);
                }
                (queue, port, packet)
            }
            Waiting::Timed { packets, .. } => {
                let first = packets.first_entry()?;
                let (departure, Reverse(queue), _) = *first.key();
                if departure > now {
                    return None;
                }
                let (port, packet) = first.remove();
                (queue, port, packet)
            }
        };
        let depth = &mut self.depths[usize::from(port.0)];
        depth[queue] -= 1;
        Some(Departure {
            port,
            queue,
            depth: depth[queue],
            packet,
        })
    }

    pub(crate) fn next_departure(&self) -> Option<Nanos> {
        match &self.waiting {
            Waiting::Rings { rings, filled } => {
                let ring = &rings[next_ring(*filled)?];
                ring.front().map(|(departure, ..)| *departure)
            }
            Waiting::Timed { packets, .. } => {
                let first = packets.first_key_value();
                first.map(|((departure, ..), _)| *departure)
            }
        }
    }
}
