//! Tests the queues of output ports, and compares queues that hold batches with queues that hold
//! single packets.

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

struct Numbers(u64);

impl Numbers {
    /// Returns a number less than `n`.
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

/// Tries to append all copies as one item; returns whether it did.
fn push_all(
    queues: &mut EgressQueues,
    now: Nanos,
    queue: usize,
    packet: EgressPacket,
    copies: &Arc<Copies>,
) -> bool {
    let depth = queues.common_depth(queue, copies);
    if let Some(depth) = depth {
        queues.push_all(now, queue, depth, packet, copies.clone());
    }
    depth.is_some()
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
                if push_all(&mut together, now, queue, one, &copies) {
                    n_together += 1;
                } else {
                    push_each(&mut together, now, queue, handle, &copies)
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
fn the_most_that_waited_is_reported_for_each_port_once() {
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
    // Each port reports its deepest queue since the last reading, although a packet has left since.
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
    assert!(push_all(&mut queues, 0, 2, packet(1, 0), &copies));
    assert_eq!(queues.depth(PortId(1), 2), 5);
    assert!(!push_all(&mut queues, 0, 2, packet(2, 0), &copies));
    assert_eq!(queues.depth(PortId(1), 2), 5);
    let deepest: Vec<_> = queues.take_deepest().collect();
    assert_eq!(deepest, [(PortId(1), 5)]);
    let mut timed = EgressQueues::new(8, Some(1_000));
    assert!(!push_all(&mut timed, 0, 2, packet(3, 0), &copies));
    assert!(timed.is_empty());
}

fn push(queues: &mut EgressQueues, now: Nanos, port: u16, queue: usize, handle: u32) {
    let place = Place {
        port: PortId(port),
        instance: None,
        enq_depth: queues.depth(PortId(port), queue),
    };
    queues.push(now, place, queue, packet(handle, now));
}

/// Takes all packets due at `now`; returns their handles.
fn leave(queues: &mut EgressQueues, now: Nanos) -> Vec<u32> {
    let next = std::iter::from_fn(|| queues.pop(now));
    next.map(|departure| departure.packet.packet.0).collect()
}

fn only(port: u16) -> Queues {
    Queues {
        port: Some(PortId(port)),
        queue: None,
    }
}

#[test]
fn a_rate_holds_back_its_own_queue_only_and_what_waited_before_goes_first() {
    let mut queues = EgressQueues::new(8, None);
    push(&mut queues, 10, 1, 0, 1);
    queues.set_rate(only(1), Some(1_000_000));
    for handle in [2, 3] {
        push(&mut queues, 10, 1, 0, handle);
    }
    push(&mut queues, 10, 2, 0, 4);
    push(&mut queues, 10, 2, 5, 5);
    assert!(!queues.is_passable());
    assert_eq!(leave(&mut queues, 10), [1, 5, 4, 2]);
    assert_eq!(queues.next_departure(), Some(1_010));
    assert!(leave(&mut queues, 1_009).is_empty());
    assert_eq!(leave(&mut queues, 1_010), [3]);
    assert!(queues.is_empty() && !queues.is_passable());
}

#[test]
fn a_rate_that_is_taken_away_lets_what_waits_go_in_its_time() {
    let mut queues = EgressQueues::new(8, Some(1_000_000));
    for handle in [1, 2] {
        push(&mut queues, 0, 1, 0, handle);
    }
    queues.set_rate(Queues::default(), None);
    assert_eq!(leave(&mut queues, 0), [1]);
    assert!(!queues.is_passable());
    push(&mut queues, 0, 1, 0, 3);
    assert_eq!(leave(&mut queues, 1_000), [3, 2]);
    assert!(queues.is_passable());
}

#[test]
fn a_capacity_is_a_queue_s_and_a_new_program_s_too() {
    let mut queues = EgressQueues::new(8, None);
    queues.set_capacity(only(1), 1);
    let high = Queues {
        queue: Some(7),
        ..only(1)
    };
    queues.set_capacity(high, 0);
    assert!(!queues.is_passable());
    queues.set_rate(high, Some(10));
    push(&mut queues, 0, 1, 0, 1);
    let mut queues = queues.emptied();
    let full = |queues: &EgressQueues, port, queue| queues.is_full(PortId(port), queue);
    assert!(!full(&queues, 1, 0) && full(&queues, 1, 7) && !full(&queues, 2, 7));
    push(&mut queues, 0, 1, 0, 1);
    assert!(full(&queues, 1, 0) && !full(&queues, 1, 1));
    assert_eq!(leave(&mut queues, 0), [1]);
    queues.set_capacity(Queues::default(), 8);
    queues.set_rate(Queues::default(), None);
    assert!(!full(&queues, 1, 7) && queues.is_passable());
}

fn place(port: u16) -> Place {
    Place {
        port: PortId(port),
        instance: None,
        enq_depth: 0,
    }
}

/// Takes all packets due at `now`; returns port, queue and handle.
fn leaving(queues: &mut EgressQueues, now: Nanos) -> Vec<(u16, usize, u32)> {
    let next = || {
        let next = queues.pop(now)?;
        Some((next.place.port.0, next.queue, next.packet.packet.0))
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn a_held_port_keeps_what_is_for_it_and_others_go_on() {
    let mut queues = EgressQueues::new(3, None);
    queues.hold(PortId(1), true);
    for handle in 0..6 {
        queues.push(0, place(1 + handle as u16 % 2), 0, packet(handle, 0));
    }
    assert!(!queues.is_passable());
    assert_eq!(leaving(&mut queues, 0), [(2, 0, 1), (2, 0, 3), (2, 0, 5)]);
    assert_eq!(queues.depth(PortId(1), 0), 3);
    assert!(queues.is_full(PortId(1), 0));
    assert!(!queues.is_empty());
    assert_eq!(queues.next_departure(), None, "nothing to wake up for");
    queues.hold(PortId(1), false);
    assert_eq!(queues.next_departure(), Some(0));
    assert_eq!(leaving(&mut queues, 0), [(1, 0, 0), (1, 0, 2), (1, 0, 4)]);
    assert!(queues.is_empty() && queues.is_passable());
    assert_eq!(queues.depth(PortId(1), 0), 0);
}

#[test]
fn what_comes_while_others_wait_stays_behind_them_but_for_its_priority() {
    let mut queues = EgressQueues::new(8, None);
    queues.hold(PortId(1), true);
    queues.push(0, place(1), 0, packet(0, 0));
    assert_eq!(leaving(&mut queues, 0), []);
    queues.hold(PortId(1), false);
    queues.push(1, place(1), 0, packet(1, 1));
    queues.push(1, place(1), 7, packet(2, 1));
    assert_eq!(leaving(&mut queues, 1), [(1, 7, 2), (1, 0, 0), (1, 0, 1)]);
}

#[test]
fn copies_pushed_as_one_are_held_port_by_port() {
    let mut queues = EgressQueues::new(8, None);
    let replica = |port| Replica {
        port: PortId(port),
        instance: port,
    };
    let copies = Arc::new(Copies::new([1, 2, 1].map(replica).to_vec()));
    assert!(push_all(&mut queues, 0, 0, packet(9, 0), &copies));
    queues.hold(PortId(1), true);
    assert!(queues.replica_batch(0).is_none());
    assert_eq!(leaving(&mut queues, 0), [(2, 0, 9)]);
    queues.hold(PortId(1), false);
    assert_eq!(leaving(&mut queues, 0), [(1, 0, 9), (1, 0, 9)]);
    assert!(queues.is_empty());
}

#[test]
fn a_port_with_a_rate_keeps_its_interval_behind_a_hold() {
    let mut queues = EgressQueues::new(8, Some(1_000));
    queues.hold(PortId(1), true);
    queues.push(0, place(1), 0, packet(0, 0));
    queues.push(0, place(1), 0, packet(1, 0));
    assert_eq!(leaving(&mut queues, 0), []);
    queues.hold(PortId(1), false);
    assert_eq!(leaving(&mut queues, 999_999), [(1, 0, 0)]);
    assert_eq!(queues.next_departure(), Some(1_000_000));
    assert_eq!(leaving(&mut queues, 1_000_000), [(1, 0, 1)]);
}

#[test]
fn what_is_thrown_away_comes_out_of_held_queues_too_and_the_hold_stays() {
    let mut queues = EgressQueues::new(8, None);
    queues.hold(PortId(1), true);
    queues.push(0, place(1), 0, packet(0, 0));
    assert_eq!(leaving(&mut queues, 0), []);
    queues.push(0, place(1), 0, packet(1, 0));
    let taken = std::iter::from_fn(|| queues.take_any());
    let handles: Vec<u32> = taken.map(|next| next.packet.packet.0).collect();
    assert_eq!(handles, [0, 1]);
    queues.push(0, place(1), 0, packet(2, 0));
    assert_eq!(leaving(&mut queues, 0), []);
    let mut queues = queues.emptied();
    queues.push(0, place(1), 0, packet(3, 0));
    assert_eq!(leaving(&mut queues, 0), []);
}
