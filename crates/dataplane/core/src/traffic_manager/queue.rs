//! The queues of the output ports: bounded FIFOs, with rates in virtual time.
//!
//! Without a rate every packet may leave at once: higher priority first, then the older packet, so that replicas leave
//! in the order in which they were made, whatever their ports. The packets of all ports wait in one ring per priority.
//! A ring may hold all copies of a packet as one item, a replica batch.
//!
//! Each queue may have its own rate. With a rate, a packet gets its departure time when it is queued: one interval
//! after the previous packet of its queue. So the order does not depend on how often the caller polls. Among packets
//! with the same departure time, higher priority goes first, then the older packet.
//!
//! Each queue, of one port and one priority, has its own bound: packets in one queue take no room from another.
//!
//! A port may be held while its interface accepts no more: its packets wait in its queues and do not block other ports.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use super::{
    interval_ns,
    packet::{EgressPacket, Place},
    replication::Copies,
};
use crate::{Nanos, PortId, limits};

const N_QUEUES: usize = limits::EGRESS_QUEUES_PER_PORT;

/// Sort key of departures: time, priority, sequence number.
type Order = (Nanos, Reverse<usize>, u64);

/// Packets in each queue of one port.
type Depths = [usize; N_QUEUES];

#[derive(Debug)]
enum Entry {
    One(Place, EgressPacket),
    Many(Many),
}

/// A replica batch: all copies of one packet, queued at the same time.
#[derive(Debug)]
struct Many {
    packet: EgressPacket,
    /// How many packets waited before the batch, in the queue of each of its ports; the number is the same for all
    /// ports.
    depth: usize,
    copies: Arc<Copies>,
    /// How many copies have been taken out of the queue.
    n_gone: usize,
}

impl Entry {
    /// Destination of the next packet; `None` if all have left.
    fn place(&self) -> Option<Place> {
        match self {
            Self::One(place, _) => Some(*place),
            Self::Many(many) => {
                let place = many.copies.places.get(many.n_gone)?;
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

    /// Removes the next packet; returns whether it was the last packet of the entry.
    fn take(&mut self) -> bool {
        match self {
            Self::One(..) => true,
            Self::Many(many) => {
                many.n_gone += 1;
                many.n_gone >= many.copies.replicas.len()
            }
        }
    }
}

/// Packets queued while no queue had a rate, by priority.
#[derive(Debug, Default)]
struct Rings {
    rings: [VecDeque<(Nanos, Entry)>; N_QUEUES],
    /// Bit `n` is set if ring `n` is not empty.
    filled: u8,
}

/// Packets queued while some queue has a rate.
#[derive(Debug, Default)]
struct Timed {
    rates: PerQueue<Option<Nanos>>,
    /// When a queue may send again.
    next_departure: BTreeMap<(PortId, usize), Nanos>,
    packets: BTreeMap<Order, (Place, EgressPacket)>,
    sequence: u64,
}

/// The held ports, and the packets that should have left while their port was held. A released port's packets stay here
/// until they leave.
#[derive(Debug, Default)]
struct Holds {
    held: BTreeSet<PortId>,
    /// The packets by port and priority, in order of departure. A port is here only while it has a packet.
    waiting: BTreeMap<PortId, [VecDeque<(Place, EgressPacket)>; N_QUEUES]>,
}

impl Holds {
    /// Whether a packet to this port must wait here: the port is held, or earlier packets to the port wait.
    fn is_in_the_way(&self, port: PortId) -> bool {
        self.held.contains(&port) || self.waiting.contains_key(&port)
    }

    fn is_over(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// Takes a packet of a released port. Of all such packets, takes one with the highest priority.
    fn pop(&mut self) -> Option<(usize, Place, EgressPacket)> {
        let free = self
            .waiting
            .iter()
            .filter(|(port, _)| !self.held.contains(port));
        let highest =
            |queues: &[VecDeque<_>; N_QUEUES]| queues.iter().rposition(|queue| !queue.is_empty());
        let (queue, Reverse(port)) = free
            .filter_map(|(port, queues)| Some((highest(queues)?, Reverse(*port))))
            .max()?;
        let queues = self.waiting.get_mut(&port)?;
        let (place, packet) = queues[queue].pop_front()?;
        if queues.iter().all(VecDeque::is_empty) {
            self.waiting.remove(&port);
        }
        Some((queue, place, packet))
    }
}

/// Selects output queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queues {
    /// The port; `None` selects every queue of every port.
    pub port: Option<PortId>,
    /// The priority; `None` selects all queues of the port.
    pub queue: Option<usize>,
}

impl Queues {
    /// The selected queues of one port; `None` if every port is selected.
    fn of_port(self) -> Option<impl Iterator<Item = (PortId, usize)>> {
        let port = self.port?;
        let all = 0..N_QUEUES;
        let queues = all.filter(move |queue| self.queue.is_none_or(|only| only == *queue));
        Some(queues.map(move |queue| (port, queue)))
    }
}

/// A value per queue: a default, and the values of the queues that differ from the default.
#[derive(Debug, Clone, Default)]
struct PerQueue<T> {
    usual: T,
    others: BTreeMap<(PortId, usize), T>,
}

impl<T: Copy + PartialEq> PerQueue<T> {
    fn new(usual: T) -> Self {
        let others = BTreeMap::new();
        Self { usual, others }
    }

    #[inline]
    fn get(&self, port: PortId, queue: usize) -> T {
        if self.others.is_empty() {
            return self.usual;
        }
        *self.others.get(&(port, queue)).unwrap_or(&self.usual)
    }

    fn set(&mut self, queues: Queues, value: T) {
        let Some(of_port) = queues.of_port() else {
            *self = Self::new(value);
            return;
        };
        for queue in of_port {
            self.others.insert(queue, value);
        }
        let usual = self.usual;
        self.others.retain(|_, value| *value != usual);
    }

    fn values(&self) -> impl Iterator<Item = T> {
        [self.usual]
            .into_iter()
            .chain(self.others.values().copied())
    }
}

impl Timed {
    fn new(rates: PerQueue<Option<Nanos>>) -> Self {
        Self {
            rates,
            ..Self::default()
        }
    }

    fn has_rates(&self) -> bool {
        self.rates.values().any(|interval| interval.is_some())
    }

    /// Departure time of a packet queued now. It is 0 in queues without a rate. Packets with equal times leave by
    /// priority, then by age.
    fn departure(&mut self, now: Nanos, port: PortId, queue: usize) -> Nanos {
        let Some(interval_ns) = self.rates.get(port, queue) else {
            return 0;
        };
        let next = self.next_departure.entry((port, queue)).or_default();
        let departure = (*next).max(now);
        *next = departure.saturating_add(interval_ns);
        departure
    }

    fn push(&mut self, now: Nanos, place: Place, queue: usize, packet: EgressPacket) {
        let departure = self.departure(now, place.port, queue);
        self.sequence += 1;
        let order = (departure, Reverse(queue), self.sequence);
        self.packets.insert(order, (place, packet));
    }

    fn next_departure(&self) -> Option<Nanos> {
        let first = self.packets.first_key_value();
        first.map(|((departure, ..), _)| *departure)
    }
}

#[derive(Debug)]
pub(crate) struct EgressQueues {
    capacity: PerQueue<usize>,
    /// Whether some queue has capacity 0.
    is_some_closed: bool,
    /// Served before `timed`, because its packets are older.
    rings: Rings,
    /// Present while a queue has a rate, or packets queued under a rate wait.
    timed: Option<Box<Timed>>,
    /// Present while a port is held, or held packets wait.
    holds: Option<Box<Holds>>,
    /// Indexed by port number.
    depths: Vec<Depths>,
    /// The greatest depth of each port's queues since the last reading.
    deepest: Vec<usize>,
}

pub(crate) struct Departure {
    pub place: Place,
    pub queue: usize,
    /// The number of packets that are left in the queue.
    pub depth: usize,
    pub packet: EgressPacket,
}

/// The next copies of one packet. They stay in their queue until `end_batch`.
pub(crate) struct ReplicaBatch {
    pub packet: EgressPacket,
    pub queue: usize,
    /// How many packets waited before the batch, in the queue of each of its ports; the number is the same for all
    /// ports.
    depth: usize,
    copies: Arc<Copies>,
    /// How many copies of the packet left before this batch.
    n_gone: usize,
}

impl ReplicaBatch {
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let places = self.copies.places.get(self.n_gone..).unwrap_or_default();
        places.iter().map(|place| Place {
            enq_depth: self.depth + place.enq_depth,
            ..*place
        })
    }
}

/// Removes one packet from a queue's count; returns how many are left.
fn take_one(depths: &mut [Depths], port: PortId, queue: usize) -> usize {
    let depth = &mut depths[usize::from(port.0)][queue];
    *depth -= 1;
    *depth
}

fn next_ring(filled: u8) -> Option<usize> {
    filled.checked_ilog2().map(|queue| queue as usize)
}

impl EgressQueues {
    pub(crate) fn new(capacity: usize, rate_pps: Option<u64>) -> Self {
        let timed = interval_ns(rate_pps).map(|interval| Timed::new(PerQueue::new(Some(interval))));
        Self {
            capacity: PerQueue::new(capacity),
            is_some_closed: capacity == 0,
            rings: Rings::default(),
            timed: timed.map(Box::new),
            holds: None,
            depths: Vec::new(),
            deepest: Vec::new(),
        }
    }

    /// Returns empty queues with the same capacities and rates; held ports stay held.
    pub(crate) fn emptied(&self) -> Self {
        let held = self.holds.as_deref().map(|holds| holds.held.clone());
        let holds = held.filter(|held| !held.is_empty()).map(|held| {
            Box::new(Holds {
                held,
                ..Holds::default()
            })
        });
        let timed = self.timed.as_deref().filter(|timed| timed.has_rates());
        let timed = timed.map(|timed| Box::new(Timed::new(timed.rates.clone())));
        Self {
            capacity: self.capacity.clone(),
            timed,
            holds,
            is_some_closed: self.is_some_closed,
            ..Self::new(0, None)
        }
    }

    /// Sets the capacity of queues. Packets that already wait stay, even if they exceed the new capacity.
    pub(crate) fn set_capacity(&mut self, queues: Queues, n_packets: usize) {
        self.capacity.set(queues, n_packets);
        self.is_some_closed = self.capacity.values().any(|capacity| capacity == 0);
    }

    /// Sets the packet rate of queues; packets already queued keep their departure times.
    pub(crate) fn set_rate(&mut self, queues: Queues, rate_pps: Option<u64>) {
        let timed = self.timed.get_or_insert_default();
        timed.rates.set(queues, interval_ns(rate_pps));
        self.forget_times();
    }

    /// If no queue has a rate and no packet waits for its departure time, uses only the rings again.
    fn forget_times(&mut self) {
        let is_over = |timed: &Timed| timed.packets.is_empty() && !timed.has_rates();
        if self.timed.as_deref().is_some_and(is_over) {
            self.timed = None;
        }
    }

    pub(crate) fn hold(&mut self, port: PortId, is_held: bool) {
        if is_held {
            self.holds.get_or_insert_default().held.insert(port);
        } else if let Some(holds) = &mut self.holds {
            holds.held.remove(&port);
            self.forget_holds();
        }
    }

    fn forget_holds(&mut self) {
        if self.holds.as_deref().is_some_and(Holds::is_over) {
            self.holds = None;
        }
    }

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

    /// Returns the greatest depth of each port's queues since the last call, and starts over from the current depths.
    pub(crate) fn take_deepest(&mut self) -> impl Iterator<Item = (PortId, usize)> {
        let ports = (0..).map(PortId);
        let ports = ports.zip(self.deepest.iter_mut().zip(&self.depths));
        ports.filter_map(|(port, (deepest, depths))| {
            let now = depths.iter().copied().max().unwrap_or(0);
            let taken = std::mem::replace(deepest, now);
            (taken > 0).then_some((port, taken))
        })
    }

    pub(crate) fn depth(&self, port: PortId, queue: usize) -> usize {
        let depth = self.depths.get(usize::from(port.0));
        depth.map_or(0, |depth| depth[queue])
    }

    pub(crate) fn is_full(&self, port: PortId, queue: usize) -> bool {
        self.depth(port, queue) >= self.capacity.get(port, queue)
    }

    /// Whether a queue refuses all copies of a packet: they do not all fit now, but would fit into the empty queue.
    pub(crate) fn refuses(&self, port: PortId, queue: usize, n_copies: usize) -> bool {
        let capacity = self.capacity.get(port, queue);
        n_copies <= capacity && self.depth(port, queue) + n_copies > capacity
    }

    pub(crate) fn is_empty(&self) -> bool {
        let is_timed_empty = |timed: &Timed| timed.packets.is_empty();
        let is_none_waiting = |holds: &Holds| holds.waiting.is_empty();
        self.rings.filled == 0
            && self.timed.as_deref().is_none_or(is_timed_empty)
            && self.holds.as_deref().is_none_or(is_none_waiting)
    }

    /// Whether a packet that is queued now would leave at once.
    pub(crate) fn is_passable(&self) -> bool {
        let is_free = self.timed.is_none() && self.holds.is_none();
        self.rings.filled == 0 && is_free && !self.is_some_closed
    }

    /// The depth common to the queues of all ports of these copies, if the copies may be appended as one item: the
    /// depths are equal, every queue has room, and no rate is set.
    pub(crate) fn common_depth(&self, queue: usize, copies: &Copies) -> Option<usize> {
        let (first, _) = copies.ports.first()?;
        let depth = self.depth(*first, queue);
        let fits = |(port, n_copies): &(PortId, usize)| {
            self.depth(*port, queue) == depth && depth + n_copies <= self.capacity.get(*port, queue)
        };
        (self.timed.is_none() && copies.ports.iter().all(fits)).then_some(depth)
    }

    /// Appends all copies of a packet as one item. The result is the same as if the copies were appended one after the
    /// other. `depth` comes from [`EgressQueues::common_depth`].
    pub(crate) fn push_all(
        &mut self,
        now: Nanos,
        queue: usize,
        depth: usize,
        packet: EgressPacket,
        copies: Arc<Copies>,
    ) {
        // A batch of one copy costs more than a single packet.
        if let [only] = copies.places[..] {
            let enq_depth = depth;
            return self.push(now, Place { enq_depth, ..only }, queue, packet);
        }
        for (port, n_copies) in &copies.ports {
            self.deepen(*port, queue, *n_copies);
        }
        let many = Many {
            packet,
            depth,
            copies,
            n_gone: 0,
        };
        let Rings { rings, filled } = &mut self.rings;
        rings[queue].push_back((now, Entry::Many(many)));
        *filled |= 1 << queue;
    }

    /// Appends a packet. The caller has checked that the queue exists and is not full; `now` must not go back.
    pub(crate) fn push(&mut self, now: Nanos, place: Place, queue: usize, packet: EgressPacket) {
        self.deepen(place.port, queue, 1);
        if let Some(timed) = &mut self.timed {
            return timed.push(now, place, queue, packet);
        }
        let Rings { rings, filled } = &mut self.rings;
        rings[queue].push_back((now, Entry::One(place, packet)));
        *filled |= 1 << queue;
    }

    /// Takes the next packet, if its departure time has come.
    #[inline]
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Departure> {
        match self.holds {
            None => self.pop_next(now),
            Some(_) => self.pop_past_holds(now),
        }
    }

    /// Takes the next packet whose port is not held and has no held packets. Each packet before it is for a port that
    /// is held or has held packets; this method moves that packet behind the held packets of its port. If there is no
    /// such next packet, takes a held packet whose port is released.
    #[cold]
    fn pop_past_holds(&mut self, now: Nanos) -> Option<Departure> {
        while let Some(departure) = self.pop_next(now) {
            let Departure {
                place,
                queue,
                packet,
                ..
            } = departure;
            let holds = self.holds.as_deref_mut();
            let Some(holds) = holds.filter(|holds| holds.is_in_the_way(place.port)) else {
                return Some(departure);
            };
            let queues = holds.waiting.entry(place.port).or_default();
            queues[queue].push_back((place, packet));
            self.depths[usize::from(place.port.0)][queue] += 1;
        }
        let (queue, place, packet) = self.holds.as_deref_mut()?.pop()?;
        self.forget_holds();
        Some(Departure {
            place,
            queue,
            depth: take_one(&mut self.depths, place.port, queue),
            packet,
        })
    }

    /// Takes any packet, whatever its departure time, held or not.
    pub(crate) fn take_any(&mut self) -> Option<Departure> {
        let Some(holds) = &mut self.holds else {
            return self.pop_next(Nanos::MAX);
        };
        let held = std::mem::take(&mut holds.held);
        let departure = self.pop(Nanos::MAX);
        if !held.is_empty() {
            self.holds.get_or_insert_default().held = held;
        }
        departure
    }

    #[inline]
    fn pop_next(&mut self, now: Nanos) -> Option<Departure> {
        let Rings { rings, filled } = &mut self.rings;
        let Some(queue) = next_ring(*filled) else {
            return self.pop_timed(now);
        };
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

    /// Returns the next item, if it is a replica batch.
    #[inline]
    pub(crate) fn replica_batch(&self, now: Nanos) -> Option<ReplicaBatch> {
        if self.holds.is_some() {
            return None;
        }
        let Rings { rings, filled } = &self.rings;
        let queue = next_ring(*filled)?;
        match rings[queue].front()? {
            (departure, Entry::Many(many)) if *departure <= now => Some(ReplicaBatch {
                packet: many.packet,
                queue,
                depth: many.depth,
                copies: many.copies.clone(),
                n_gone: many.n_gone,
            }),
            _ => None,
        }
    }

    /// Removes one copy of a batch from the queue's count; returns how many packets are left.
    #[inline]
    pub(crate) fn take_of_batch(&mut self, batch: &ReplicaBatch, place: &Place) -> usize {
        take_one(&mut self.depths, place.port, batch.queue)
    }

    /// Removes from a batch the copies that have left.
    pub(crate) fn end_batch(&mut self, batch: &ReplicaBatch, n_taken: usize) {
        let Rings { rings, filled } = &mut self.rings;
        let ring = &mut rings[batch.queue];
        if let Some((_, Entry::Many(many))) = ring.front_mut() {
            many.n_gone += n_taken;
            if many.n_gone >= many.copies.replicas.len() {
                ring.pop_front();
                *filled &= !(u8::from(ring.is_empty()) << batch.queue);
            }
        }
    }

    #[cold]
    fn pop_timed(&mut self, now: Nanos) -> Option<Departure> {
        let first = self.timed.as_mut()?.packets.first_entry()?;
        let (departure, Reverse(queue), _) = *first.key();
        if departure > now {
            return None;
        }
        let (place, packet) = first.remove();
        self.forget_times();
        Some(Departure {
            place,
            queue,
            depth: take_one(&mut self.depths, place.port, queue),
            packet,
        })
    }

    pub(crate) fn next_departure(&self) -> Option<Nanos> {
        let is_free = |holds: &Holds| holds.waiting.keys().any(|port| !holds.held.contains(port));
        if self.holds.as_deref().is_some_and(is_free) {
            return Some(0);
        }
        let Rings { rings, filled } = &self.rings;
        match next_ring(*filled) {
            Some(queue) => rings[queue].front().map(|(departure, ..)| *departure),
            None => self.timed.as_ref()?.next_departure(),
        }
    }
}

#[cfg(test)]
mod tests;
