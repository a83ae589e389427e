//! The queues of the output ports: bounded, FIFO, at a rate in virtual time.
//!
//! When a packet is queued it gets its departure time: at once without a rate, otherwise one
//! interval after the packet before it. So the order does not depend on how often anyone polls.
//! At one instant the higher priority goes first, then the older packet: replicas leave in the
//! order in which they were made, whatever their ports.
//!
//! Time does not go back, so without a rate the packets of one priority depart in the order in
//! which they came, whatever their port: a ring each. With a rate every queue has its own time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

use super::{interval_ns, packet::EgressPacket};
use crate::{Nanos, PortId, limits};

const N_QUEUES: usize = limits::EGRESS_QUEUES_PER_PORT;

/// The order of departure.
type Order = (Nanos, Reverse<usize>, u64);

/// What waits at one port.
#[derive(Debug, Clone, Default)]
struct Depth {
    all: usize,
    of_queue: [usize; N_QUEUES],
}

#[derive(Debug)]
enum Waiting {
    /// No rate: a ring a priority, each in the order of time.
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
    depths: Vec<Depth>,
}

/// A packet whose turn it is.
pub(crate) struct Departure {
    pub port: PortId,
    pub queue: usize,
    /// Packets left in its queue.
    pub depth: usize,
    pub packet: EgressPacket,
}

/// The filled ring whose first packet departs first; of equals the higher priority.
fn next_ring(
    rings: &[VecDeque<(Nanos, PortId, EgressPacket)>; N_QUEUES],
    filled: u8,
) -> Option<usize> {
    if filled.count_ones() <= 1 {
        return (filled != 0).then(|| filled.trailing_zeros() as usize);
    }
    let heads = rings.iter().enumerate();
    let heads = heads.filter_map(|(queue, ring)| Some((ring.front()?.0, Reverse(queue))));
    heads.min().map(|(_, Reverse(queue))| queue)
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
        depth.map_or(0, |depth| depth.of_queue[queue])
    }

    pub(crate) fn is_full(&self, port: PortId) -> bool {
        let depth = self.depths.get(usize::from(port.0));
        depth.map_or(0, |depth| depth.all) >= self.capacity
    }

    /// Appends a packet; whoever calls has looked whether the port is full and the queue exists,
    /// and gives no time before the last one.
    pub(crate) fn push(&mut self, now: Nanos, port: PortId, queue: usize, packet: EgressPacket) {
        let place = usize::from(port.0);
        if place >= self.depths.len() {
            self.depths.resize(place + 1, Depth::default());
        }
        self.depths[place].all += 1;
        self.depths[place].of_queue[queue] += 1;
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
                let queue = next_ring(rings, *filled)?;
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
        depth.all -= 1;
        depth.of_queue[queue] -= 1;
        Some(Departure {
            port,
            queue,
            depth: depth.of_queue[queue],
            packet,
        })
    }

    pub(crate) fn next_departure(&self) -> Option<Nanos> {
        match &self.waiting {
            Waiting::Rings { rings, filled } => {
                let ring = &rings[next_ring(rings, *filled)?];
                ring.front().map(|(departure, ..)| *departure)
            }
            Waiting::Timed { packets, .. } => {
                let first = packets.first_key_value();
                first.map(|((departure, ..), _)| *departure)
            }
        }
    }
}
