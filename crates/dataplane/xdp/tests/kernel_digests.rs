//! Tests the digests of a program that runs in the kernel, on real veth pairs. The kernel lets only root outside any
//! user namespace load programs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use dataplane::{Digest, DropReason, OffloadStatus, PortId, limits};
use packet_io::Waiter;
use testkit::frames::TIMEOUT;
use testkit::namespace::in_root_namespace;
use testkit::xdp::beside::{Beside, frame};

/// The CPU port, which leads to the controller and has no network interface.
const CPU_PORT: u16 = 9;

/// The bytes that a digest takes in the kernel's ring: a message of 32 bytes and the kernel's header of 8 bytes.
const RECORD_BYTES: usize = 40;

/// How many messages fit into the ring, which always keeps a byte free.
const RING_MESSAGES: usize = ((1 << 17) - 1) / RECORD_BYTES;

fn arrivals() -> Beside {
    Beside::with("arrivals.p4", |switch| {
        switch.add_port(PortId(CPU_PORT));
    })
}

/// Returns the digest that frame `number` should cause, with the values that ingress has written.
fn arrival(number: u32, instance: u16, port: u16) -> Digest {
    let value = |value: u32| {
        let bytes = value.to_be_bytes();
        let n_zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes[n_zeros.min(3)..].to_vec()
    };
    Digest {
        name: "arrival_t".into(),
        members: vec![value(number), value(instance.into()), value(port.into())],
    }
}

fn is_readable(beside: &Beside) -> bool {
    let mut waiter = Waiter::default();
    let fd = beside.switch.offloaded_digests_fd();
    waiter.wait(fd, Some(Duration::ZERO)).unwrap();
    waiter.is_ready(0)
}

/// Waits for a digest.
fn await_digest(beside: &Beside) {
    let fd = beside.switch.offloaded_digests_fd();
    let fd = fd.expect("the program makes digests");
    let mut waiter = Waiter::default();
    waiter.wait([fd], Some(TIMEOUT)).unwrap();
    assert!(waiter.is_ready(0), "no digest has come");
}

fn polled(beside: &mut Beside) -> Vec<Digest> {
    std::iter::from_fn(|| beside.switch.poll_digest()).collect()
}

/// Sends frames in batches that fit into a veth's ring, and waits until they arrive.
fn forwarded(beside: &mut Beside, n_frames: usize) {
    for first in (0..n_frames).step_by(100) {
        let n = (n_frames - first).min(100);
        let numbers = first as u32..(first + n) as u32;
        beside.send(0, numbers.map(|number| frame(1, number)));
        assert_eq!(beside.receive(1, n).len(), n);
    }
}

#[test]
fn a_digest_has_the_values_of_the_end_of_ingress_whatever_becomes_of_its_packet() {
    in_root_namespace(|| {
        let mut beside = arrivals();
        beside.assert_forwards();
        beside.insert(1, "forward", &[1, 77]);
        beside.insert(2, "flood", &[5]);
        beside.group(5, &[(1, 11), (2, 12)], true);
        beside.drain();
        assert!(!is_readable(&beside));
        beside.send(0, [frame(1, 4)]);
        await_digest(&beside);
        assert_eq!(beside.switch.take_offloaded_digests(0), 0);
        assert!(is_readable(&beside), "it is there until it is taken");
        assert_eq!(beside.switch.take_offloaded_digests(9), 1);
        assert!(!is_readable(&beside));
        assert_eq!(polled(&mut beside), [arrival(4, 77, 0)]);
        // Egress increments the field `instance` after the digest has read it.
        assert_eq!(beside.receive(1, 1)[0][18..20], [0, 78]);
        beside.send(2, [frame(2, 5), frame(9, 6)]);
        assert_eq!([1, 2].map(|port| beside.receive(port, 1).len()), [1, 1]);
        let start = Instant::now();
        while beside.counters().dropped(DropReason::IngressDrop) < 1 {
            assert!(start.elapsed() < TIMEOUT);
        }
        // Reading the counters also takes the digests out of the ring, because a digest is counted when it is taken
        // out.
        assert!(!is_readable(&beside));
        let untouched = 0xabab;
        let expected = [arrival(5, untouched, 2), arrival(6, untouched, 2)];
        assert_eq!(polled(&mut beside), expected);
        let counters = beside.counters();
        assert_eq!((counters.digests, counters.digests_lost), (3, 0));
        beside.assert_accounted();
    });
}

#[test]
fn a_packet_that_is_punted_behind_its_digest_makes_it_once() {
    in_root_namespace(|| {
        let mut beside = arrivals();
        beside.insert(1, "forward", &[CPU_PORT, 7]);
        beside.drain();
        beside.send(0, (0..3).map(|number| frame(1, number)));
        beside.take_punted_of(&[0], 3);
        while beside.switch.poll_transmit(0).is_some() {}
        assert!(!is_readable(&beside));
        let expected = [0, 1, 2].map(|number| arrival(number, 7, 0));
        assert_eq!(polled(&mut beside), expected);
        assert_eq!(beside.counters().digests, 3);
        assert_eq!(beside.counters().digests_lost, 0);
    });
}

#[test]
fn what_a_full_ring_and_a_full_queue_lose_is_counted_and_packets_go_on() {
    in_root_namespace(|| {
        let mut beside = arrivals();
        beside.insert(1, "forward", &[1, 7]);
        beside.drain();
        let n_frames = RING_MESSAGES + 100;
        forwarded(&mut beside, n_frames);
        let counters = beside.counters();
        let counted = (counters.digests, counters.digests_lost);
        assert_eq!(counted, (n_frames as u64, 100));
        // The last 100 messages are lost, as in a full queue. The control plane's queue now holds the messages that
        // fitted into the ring. It has room for all but 10 messages of the next `n_more` frames; these 10 stay in the
        // ring.
        let n_more = limits::DIGEST_QUEUE_MAX - RING_MESSAGES + 10;
        forwarded(&mut beside, n_more);
        assert_eq!(
            beside.switch.take_offloaded_digests(usize::MAX),
            n_more - 10
        );
        assert!(!is_readable(&beside), "nobody is woken to lose them");
        assert_eq!(beside.switch.take_offloaded_digests(usize::MAX), 0);
        let counters = beside.switch.counters();
        let counted = (counters.digests, counters.digests_lost);
        assert_eq!(counted, ((n_frames + n_more - 10) as u64, 100));
        // Reading the counters loses no digest either.
        let counters = beside.counters();
        let counted = (counters.digests, counters.digests_lost);
        assert_eq!(counted, ((n_frames + n_more - 10) as u64, 100));
        let polled = polled(&mut beside);
        assert_eq!(polled.len(), limits::DIGEST_QUEUE_MAX);
        assert_eq!(polled[0], arrival(0, 7, 0));
        let last_of_ring = RING_MESSAGES as u32 - 1;
        assert_eq!(polled[RING_MESSAGES - 1], arrival(last_of_ring, 7, 0));
        assert_eq!(polled[RING_MESSAGES], arrival(0, 7, 0));
        assert_eq!(beside.switch.take_offloaded_digests(usize::MAX), 10);
        let counters = beside.switch.counters();
        let counted = (counters.digests, counters.digests_lost);
        assert_eq!(counted, ((n_frames + n_more) as u64, 100));
        // Forwarding continues after that.
        forwarded(&mut beside, 1);
        await_digest(&beside);
        beside.assert_accounted();
    });
}

#[test]
fn what_waits_when_the_program_ends_is_given_and_a_new_program_has_its_own() {
    in_root_namespace(|| {
        let mut beside = arrivals();
        beside.insert(1, "forward", &[1, 7]);
        beside.drain();
        forwarded(&mut beside, 2);
        await_digest(&beside);
        // While a port is disabled, the engine in user space forwards all frames.
        beside.switch.set_port_enabled(PortId(2), false);
        assert!(beside.switch.offloaded_digests_fd().is_none());
        let both = [0, 1].map(|number| arrival(number, 7, 0));
        assert_eq!(polled(&mut beside), both);
        beside.switch.set_port_enabled(PortId(2), true);
        beside.assert_forwards();
        forwarded(&mut beside, 1);
        await_digest(&beside);
        // Replacing the program discards its digests, as it does in the engine.
        beside.set_program("arrivals.p4");
        beside.assert_forwards();
        assert!(!is_readable(&beside));
        assert_eq!(polled(&mut beside), []);
        beside.insert(1, "forward", &[1, 8]);
        beside.drain();
        forwarded(&mut beside, 1);
        await_digest(&beside);
        beside.switch.take_offloaded_digests(9);
        assert_eq!(polled(&mut beside), [arrival(0, 8, 0)]);
    });
}

#[test]
fn digests_of_a_program_that_runs_on_without_a_switch_are_lost_and_the_next_one_begins_anew() {
    in_root_namespace(|| {
        let mut beside = arrivals();
        beside.set_offload_that_leaves(beside.served(), Arc::new(AtomicBool::new(true)));
        beside.insert(1, "forward", &[1, 7]);
        beside.drain();
        forwarded(&mut beside, 1);
        beside.switch.set_offload(None);
        assert_eq!(polled(&mut beside), [arrival(0, 7, 0)]);
        forwarded(&mut beside, RING_MESSAGES + 100);
        beside.set_offload();
        beside.assert_forwards();
        assert!(!is_readable(&beside));
        forwarded(&mut beside, 2);
        await_digest(&beside);
        beside.counters();
        assert_eq!(polled(&mut beside).len(), 2);
    });
}

#[test]
fn what_waits_when_the_offload_fails_is_given_and_the_engine_goes_on() {
    in_root_namespace(|| {
        let mut beside = arrivals();
        beside.insert(1, "forward", &[2, 7]);
        beside.drain();
        beside.send(0, [frame(1, 3)]);
        assert_eq!(beside.receive(2, 1).len(), 1);
        await_digest(&beside);
        beside.leave_no_descriptors();
        beside.group(5, &[(1, 1)], true);
        let start = Instant::now();
        while matches!(
            beside.switch.offload_status(),
            Some(OffloadStatus::Forwarding(_))
        ) {
            assert!(start.elapsed() < TIMEOUT);
            beside.switch.check_offload();
        }
        assert_eq!(polled(&mut beside), [arrival(3, 7, 0)]);
        assert!(!is_readable(&beside));
        beside.send(0, [frame(1, 4)]);
        beside.forward_punted_of(&[0, 2], 1);
        assert_eq!(beside.receive(2, 1).len(), 1);
        assert_eq!(polled(&mut beside), [arrival(4, 7, 0)]);
        let counters = beside.counters();
        assert_eq!((counters.digests, counters.digests_lost), (2, 0));
    });
}
