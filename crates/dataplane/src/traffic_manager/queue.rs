//! The queues of the output ports: bounded, FIFO, at a rate in virtual time.
//!
//! Without a rate whatever waits may leave: the higher priority first, always; then the older
//! packet, so that replicas leave in the order in which they were made, whatever their ports. A
//! ring a priority. All copies of one packet may stand in a ring as one, from which each comes when it
//! is its turn.
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
    sync::Arc,
};

use super::{interval_ns, packet::EgressPacket, replication::Copies};
use crate::{Nanos, PortId, limits};

const N_QUEUES: usize = limits::EGRESS_QUEUES_PER_PORT;

/// The order of departure.
type Order = (Nanos, Reverse<usize>, u64);

/// Packets in each queue of one port.
type Depths = [usize; N_QUEUES];

/// What stands in a ring.
#[derive(Debug)]
enum Entry {
    One(PortId, EgressPacket),
    Many(Many),
}

/// The copies of one packet, which are queued at one time.
#[derive(Debug)]
struct Many {
    /// All of them but for port, instance and depth.
    packet: EgressPacket,
    copies: Arc<Copies>,
    /// How many have left.
    n_left: usize,
}

impl Many {
    fn next(&mut self) -> Option<(PortId, EgressPacket)> {
        let replica = self.copies.replicas.get(self.n_left)?;
        let packet = EgressPacket {
            common: self.packet.common.clone(),
            instance: Some(replica.instance),
            enq_depth: self.packet.enq_depth + self.copies.ranks[self.n_left],
            ..self.packet
        };
        self.n_left += 1;
        Some((replica.port, packet))
    }

    fn is_empty(&self) -> bool {
        self.n_left >= self.copies.replicas.len()
    }
}

#[derive(Debug)]
enum Waiting {
    /// No rate: a ring a priority.
    Rings {
        rings: [VecDeque<(Nanos, Entry)>; N_QUEUES],
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

    /// Whether a packet would leave at once that goes to a queue now.
    pub(crate) fn is_passable(&self) -> bool {
        match &self.waiting {
            Waiting::Rings { filled, .. } => *filled == 0 && self.capacity > 0,
            Waiting::Timed { .. } => false,
        }
    }

    /// How many packets wait in the queue of each port that copies go to, where it is the same
    /// number and there is room for all copies.
    fn common_depth(&self, queue: usize, copies: &Copies) -> Option<usize> {
        let (first, _) = copies.ports.first()?;
        let depth = self.depth(*first, queue);
        let fits = |(port, n_copies): &(PortId, usize)| {
            self.depth(*port, queue) == depth && depth + n_copies <= self.capacity
        };
        copies.ports.iter().all(fits).then_some(depth)
    }

    /// Appends all copies of a packet as one, where that is the same as one after the other; the
    /// queue exists. Otherwise gives the packet back.
    pub(crate) fn push_all(
        &mut self,
        now: Nanos,
        queue: usize,
        mut packet: EgressPacket,
        copies: &Arc<Copies>,
    ) -> Result<(), EgressPacket> {
        let depth = self.common_depth(queue, copies);
        let (Waiting::Rings { rings, filled }, Some(depth)) = (&mut self.waiting, depth) else {
            return Err(packet);
        };
        for (port, n_copies) in &copies.ports {
            let place = usize::from(port.0);
            if place >= self.depths.len() {
                self.depths.resize(place + 1, Depths::default());
            }
            self.depths[place][queue] += n_copies;
        }
        packet.enq_depth = depth;
        let many = Many {
            packet,
            copies: copies.clone(),
            n_left: 0,
        };
        rings[queue].push_back((now, Entry::Many(many)));
        *filled |= 1 << queue;
        Ok(())
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
                rings[queue].push_back((now, Entry::One(port, packet)));
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
                let (departure, entry) = ring.front_mut()?;
                if *departure > now {
                    return None;
                }
                let (port, packet) = if let Entry::Many(many) = entry {
                    let next = many.next()?;
                    if many.is_empty() {
                        ring.pop_front();
                    }
                    next
                } else {
                    match ring.pop_front()? {
                        (_, Entry::One(port, packet)) => (port, packet),
                        (_, Entry::Many(mut many)) => many.next()?,
                    }
                };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Replica, Stream,
        engine::{InstanceType, PacketHandle},
        traffic_manager::packet::Common,
    };

    fn packet(handle: u32, now: Nanos, instance: Option<u16>, enq_depth: usize) -> EgressPacket {
        EgressPacket {
            common: Common {
                epoch: 0,
                label: None,
                n_clones: 0,
                n_replicas: 0,
                arrived: now,
                stream: Stream::Unicast,
                ingress_port: PortId(0),
                ingress_bytes: 0,
                recirculations: 0,
                resubmits: 0,
                clone_generation: 0,
            },
            packet: PacketHandle(handle),
            instance_type: InstanceType::Replicated,
            instance,
            enqueued: now,
            enq_depth,
        }
    }

    fn push_each(queues: &mut EgressQueues, now: Nanos, queue: usize, handle: u32, to: &Copies) {
        for replica in &to.replicas {
            let depth = queues.depth(replica.port, queue);
            let copy = packet(handle, now, Some(replica.instance), depth);
            queues.push(now, replica.port, queue, copy);
        }
    }

    fn pop(queues: &mut EgressQueues, now: Nanos) -> Option<String> {
        let next = queues.pop(now)?;
        let place = (next.port, next.queue, next.depth);
        Some(format!("{place:?} {:?}", next.packet))
    }

    /// Numbers that look random: a linear congruence.
    struct Numbers(u64);

    impl Numbers {
        /// Less than `n`.
        fn below(&mut self, n: u16) -> u16 {
            let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = next.wrapping_add(1_442_695_040_888_963_407);
            u16::try_from((self.0 >> 33) % u64::from(n)).unwrap_or_default()
        }
    }

    fn random_copies(rng: &mut Numbers) -> Arc<Copies> {
        let n_ports = 1 + rng.below(3);
        let replica = |instance| Replica {
            port: PortId(instance * 7 % n_ports),
            instance,
        };
        let replicas = (0..1 + rng.below(5)).map(replica).collect();
        Arc::new(Copies::new(replicas))
    }

    #[test]
    fn copies_pushed_as_one_leave_as_those_pushed_one_by_one() {
        let mut rng = Numbers(64);
        let mut n_together = 0;
        for _ in 0..200 {
            let mut one_by_one = EgressQueues::new(8, None);
            let mut together = EgressQueues::new(8, None);
            for now in 0..200 {
                let (queue, handle) = (usize::from(rng.below(3)), u32::from(rng.below(1_000)));
                let copies = random_copies(&mut rng);
                let has_room = copies
                    .ports
                    .iter()
                    .all(|(port, n_copies)| one_by_one.depth(*port, queue) + n_copies <= 8);
                if rng.below(4) == 0 && has_room {
                    push_each(&mut one_by_one, now, queue, handle, &copies);
                    let one = packet(handle, now, None, 0);
                    match together.push_all(now, queue, one, &copies) {
                        Ok(()) => n_together += 1,
                        Err(_) => push_each(&mut together, now, queue, handle, &copies),
                    }
                }
                let at = now.saturating_sub(rng.below(2).into());
                let expected = pop(&mut one_by_one, at);
                assert_eq!(pop(&mut together, at), expected);
                assert_eq!(together.next_departure(), one_by_one.next_departure());
                assert_eq!(together.is_empty(), one_by_one.is_empty());
            }
        }
        assert!(n_together > 1_000, "only {n_together} were pushed as one");
    }

    #[test]
    fn copies_without_room_for_all_are_given_back() {
        let replica = |instance| Replica {
            port: PortId(1),
            instance,
        };
        let copies = Arc::new(Copies::new((0..5).map(replica).collect()));
        let mut queues = EgressQueues::new(8, None);
        assert!(
            queues
                .push_all(0, 2, packet(1, 0, None, 0), &copies)
                .is_ok()
        );
        assert_eq!(queues.depth(PortId(1), 2), 5);
        let refused = queues.push_all(0, 2, packet(2, 0, None, 0), &copies);
        let refused = refused.err().map(|refused| refused.packet);
        assert_eq!(refused, Some(PacketHandle(2)));
        assert_eq!(queues.depth(PortId(1), 2), 5);
        let mut timed = EgressQueues::new(8, Some(1_000));
        assert!(
            timed
                .push_all(0, 2, packet(3, 0, None, 0), &copies)
                .is_err()
        );
        assert!(timed.is_empty());
    }
}
