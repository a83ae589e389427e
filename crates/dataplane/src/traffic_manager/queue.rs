//! The queues of the output ports: bounded, FIFO, at a rate in virtual time.
//!
//! Without a rate every packet may leave at once: the higher priority first, then the older packet, so
//! that replicas leave in the order in which they were made, whatever their ports. There is a ring for
//! each priority. All copies of one packet may stand in a ring as one, a replica batch.
//!
//! With a rate a packet gets its departure time when it is queued, one interval after the packet
//! before it in its queue. So the order does not depend on how often anyone polls. At one instant
//! the higher priority goes first, then the older packet.
//!
//! Each queue, of one port and one priority, is bounded on its own: packets that wait in one take no
//! room from those in another.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::{
    interval_ns,
    packet::{EgressPacket, Place},
    replication::Copies,
};
use crate::{Nanos, PortId, limits};

const N_QUEUES: usize = limits::EGRESS_QUEUES_PER_PORT;

/// The order of departure.
type Order = (Nanos, Reverse<usize>, u64);

/// Packets in each queue of one port.
type Depths = [usize; N_QUEUES];

/// What stands in a ring.
#[derive(Debug)]
enum Entry {
    One(Place, EgressPacket),
    Many(Many),
}

/// The copies of one packet, which are queued at one time.
#[derive(Debug)]
struct Many {
    packet: EgressPacket,
    /// What waits in the queue of each of their ports.
    depth: usize,
    copies: Arc<Copies>,
    /// How many have left.
    n_left: usize,
}

impl Entry {
    /// The next packet's place; none where all have left.
    fn place(&self) -> Option<Place> {
        match self {
            Self::One(place, _) => Some(*place),
            Self::Many(many) => {
                let place = many.copies.places.get(many.n_left)?;
                Some(Place {
                    enq_depth: many.depth + place.enq_depth,
                    ..*place
                })
            }
        }
    }

    fn packet(&self) -> &EgressPacket {
        match self {
            Self::One(_, packet) | Self::Many(Many { packet, .. }) => packet,
        }
    }

    /// The next packet leaves; whether it was the last.
    fn take(&mut self) -> bool {
        match self {
            Self::One(..) => true,
            Self::Many(many) => {
                many.n_left += 1;
                many.n_left >= many.copies.replicas.len()
            }
        }
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
        packets: BTreeMap<Order, (Place, EgressPacket)>,
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
    /// The most that waited in a queue of each port since somebody last asked.
    deepest: Vec<usize>,
}

/// A packet whose turn it is.
pub(crate) struct Departure {
    pub place: Place,
    pub queue: usize,
    /// Packets left in its queue.
    pub depth: usize,
    pub packet: EgressPacket,
}

/// Copies of one packet whose turn it is, one after the other. They stay in their queue until it is
/// told how many have left.
pub(crate) struct ReplicaBatch {
    pub packet: EgressPacket,
    pub queue: usize,
    /// What waited in the queue of each of their ports before them.
    depth: usize,
    copies: Arc<Copies>,
    /// How many had left before.
    n_left: usize,
}

impl ReplicaBatch {
    /// Where each of them goes.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let places = self.copies.places.get(self.n_left..).unwrap_or_default();
        places.iter().map(|place| Place {
            enq_depth: self.depth + place.enq_depth,
            ..*place
        })
    }
}

/// One packet less in a queue; those that are left.
fn take_one(depths: &mut [Depths], port: PortId, queue: usize) -> usize {
    let depth = &mut depths[usize::from(port.0)][queue];
    *depth -= 1;
    *depth
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
            deepest: Vec::new(),
        }
    }

    /// So many packets more in a queue.
    #[inline]
    fn deepen(&mut self, port: PortId, queue: usize, n_packets: usize) {
        let place = usize::from(port.0);
        if place >= self.depths.len() {
            self.depths.resize(place + 1, Depths::default());
            self.deepest.resize(place + 1, 0);
        }
        self.depths[place][queue] += n_packets;
        self.deepest[place] = self.deepest[place].max(self.depths[place][queue]);
    }

    /// The most that waited in a queue of each port since the last call; what waits now is of the next.
    pub(crate) fn take_deepest(&mut self) -> impl Iterator<Item = (PortId, usize)> {
        let ports = (0..).map(PortId);
        let ports = ports.zip(self.deepest.iter_mut().zip(&self.depths));
        ports.filter_map(|(port, (deepest, depths))| {
            let now = depths.iter().copied().max().unwrap_or(0);
            let taken = std::mem::replace(deepest, now);
            (taken > 0).then_some((port, taken))
        })
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
    /// queue exists. Otherwise does nothing.
    pub(crate) fn push_all(
        &mut self,
        now: Nanos,
        queue: usize,
        packet: EgressPacket,
        copies: &Arc<Copies>,
    ) -> bool {
        let Some(depth) = self.common_depth(queue, copies) else {
            return false;
        };
        let Waiting::Rings { rings, filled } = &mut self.waiting else {
            return false;
        };
        let many = Many {
            packet,
            depth,
            copies: copies.clone(),
            n_left: 0,
        };
        rings[queue].push_back((now, Entry::Many(many)));
        *filled |= 1 << queue;
        for (port, n_copies) in &copies.ports {
            self.deepen(*port, queue, *n_copies);
        }
        true
    }

    /// Appends a packet; whoever calls has looked whether the queue exists and is full,
    /// and gives no time before the last one.
    pub(crate) fn push(&mut self, now: Nanos, place: Place, queue: usize, packet: EgressPacket) {
        self.deepen(place.port, queue, 1);
        match &mut self.waiting {
            Waiting::Rings { rings, filled } => {
                rings[queue].push_back((now, Entry::One(place, packet)));
                *filled |= 1 << queue;
            }
            Waiting::Timed {
                interval_ns,
                next_departure,
                packets,
                sequence,
            } => {
                let next = next_departure.entry((place.port, queue)).or_default();
                let departure = (*next).max(now);
                *next = departure.saturating_add(*interval_ns);
                *sequence += 1;
                packets.insert((departure, Reverse(queue), *sequence), (place, packet));
            }
        }
    }

    /// The packet whose turn it is, if its time has come.
    #[inline]
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Departure> {
        let Waiting::Rings { rings, filled } = &mut self.waiting else {
            return self.pop_timed(now);
        };
        let queue = next_ring(*filled)?;
        let ring = &mut rings[queue];
        let (departure, entry) = ring.front_mut()?;
        if *departure > now {
            return None;
        }
        let place = entry.place()?;
        let departure = Some(Departure {
            place,
            queue,
            depth: take_one(&mut self.depths, place.port, queue),
            packet: *entry.packet(),
        });
        if entry.take() {
            ring.pop_front();
            *filled &= !(u8::from(ring.is_empty()) << queue);
        }
        departure
    }

    /// The copies of one packet whose turn it is, if there are such.
    #[inline]
    pub(crate) fn replica_batch(&self, now: Nanos) -> Option<ReplicaBatch> {
        let Waiting::Rings { rings, filled } = &self.waiting else {
            return None;
        };
        let queue = next_ring(*filled)?;
        match rings[queue].front()? {
            (departure, Entry::Many(many)) if *departure <= now => Some(ReplicaBatch {
                packet: many.packet,
                queue,
                depth: many.depth,
                copies: many.copies.clone(),
                n_left: many.n_left,
            }),
            _ => None,
        }
    }

    /// One of a batch leaves; packets left in its queue.
    #[inline]
    pub(crate) fn take_of_batch(&mut self, batch: &ReplicaBatch, place: &Place) -> usize {
        take_one(&mut self.depths, place.port, batch.queue)
    }

    /// So many of a batch have left.
    pub(crate) fn end_batch(&mut self, batch: &ReplicaBatch, n_taken: usize) {
        let Waiting::Rings { rings, filled } = &mut self.waiting else {
            return;
        };
        let ring = &mut rings[batch.queue];
        if let Some((_, Entry::Many(many))) = ring.front_mut() {
            many.n_left += n_taken;
            if many.n_left >= many.copies.replicas.len() {
                ring.pop_front();
                *filled &= !(u8::from(ring.is_empty()) << batch.queue);
            }
        }
    }

    #[cold]
    fn pop_timed(&mut self, now: Nanos) -> Option<Departure> {
        let Waiting::Timed { packets, .. } = &mut self.waiting else {
            return None;
        };
        let first = packets.first_entry()?;
        let (departure, Reverse(queue), _) = *first.key();
        if departure > now {
            return None;
        }
        let (place, packet) = first.remove();
        Some(Departure {
            place,
            queue,
            depth: take_one(&mut self.depths, place.port, queue),
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
        trace::NameId,
        traffic_manager::packet::Common,
    };

    fn packet(handle: u32, now: Nanos) -> EgressPacket {
        EgressPacket {
            common: Common {
                epoch: 0,
                name: NameId::NONE,
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
            enqueued: now,
        }
    }

    fn push_each(queues: &mut EgressQueues, now: Nanos, queue: usize, handle: u32, to: &Copies) {
        for replica in &to.replicas {
            let place = Place {
                port: replica.port,
                instance: Some(replica.instance),
                enq_depth: queues.depth(replica.port, queue),
            };
            queues.push(now, place, queue, packet(handle, now));
        }
    }

    fn pop(queues: &mut EgressQueues, now: Nanos) -> Option<String> {
        let next = queues.pop(now)?;
        let queue = (next.queue, next.depth);
        Some(format!("{:?} {queue:?} {:?}", next.place, next.packet))
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
                    let one = packet(handle, now);
                    match together.push_all(now, queue, one, &copies) {
                        true => n_together += 1,
                        false => push_each(&mut together, now, queue, handle, &copies),
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
    fn the_most_that_waited_is_told_of_each_port_once() {
        let mut queues = EgressQueues::new(8, None);
        let taken = |queues: &mut EgressQueues| queues.take_deepest().collect::<Vec<_>>();
        assert_eq!(taken(&mut queues), []);
        let place = |port| Place {
            port: PortId(port),
            instance: None,
            enq_depth: 0,
        };
        for (port, queue) in [(1, 0), (1, 0), (1, 3), (4, 7)] {
            queues.push(0, place(port), queue, packet(1, 0));
        }
        pop(&mut queues, 0);
        // The deepest of its queues, though a packet of another has left.
        assert_eq!(taken(&mut queues), [(PortId(1), 2), (PortId(4), 1)]);
        pop(&mut queues, 0);
        assert_eq!(taken(&mut queues), [(PortId(1), 2)], "they still wait");
        while pop(&mut queues, 0).is_some() {}
        assert_eq!(taken(&mut queues), [(PortId(1), 2)], "they did since");
        assert_eq!(taken(&mut queues), []);
    }

    #[test]
    fn copies_without_room_for_all_are_not_pushed() {
        let replica = |instance| Replica {
            port: PortId(1),
            instance,
        };
        let copies = Arc::new(Copies::new((0..5).map(replica).collect()));
        let mut queues = EgressQueues::new(8, None);
        assert!(queues.push_all(0, 2, packet(1, 0), &copies));
        assert_eq!(queues.depth(PortId(1), 2), 5);
        assert!(!queues.push_all(0, 2, packet(2, 0), &copies));
        assert_eq!(queues.depth(PortId(1), 2), 5);
        let deepest: Vec<_> = queues.take_deepest().collect();
        assert_eq!(deepest, [(PortId(1), 5)]);
        let mut timed = EgressQueues::new(8, Some(1_000));
        assert!(!timed.push_all(0, 2, packet(3, 0), &copies));
        assert!(timed.is_empty());
    }
}
