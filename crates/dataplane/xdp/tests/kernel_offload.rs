//! Tests a program that runs in the kernel beside a switch, on real veth pairs. The kernel lets only root outside any
//! user namespace load such a program.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use dataplane::{DropReason, MulticastGroup, OffloadStatus, PortId, Replica, Stream, TableAction};
use packet_io::Port;
use testkit::frames::TIMEOUT;
use testkit::namespace::{ethtool, in_root_namespace, ip};
use testkit::xdp::beside::{Beside, burst, frame, left, packets};

/// The CPU port, which leads to the controller and has no network interface.
const CPU_PORT: u16 = 9;

#[test]
fn frames_are_forwarded_copied_and_dropped_in_the_kernel_and_counted() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.assert_forwards();
        beside.insert(1, "forward", &[1, 77]);
        beside.insert(2, "forward", &[0, 78]);
        beside.insert(3, "flood", &[5]);
        beside.group(5, &[(1, 11), (2, 12), (0, 13), (1, 14)], true);
        beside.drain();
        beside.send(0, (0..100).map(|n| frame(1, n)));
        let expected: Vec<_> = (0..100).map(|n| left(1, n, 77)).collect();
        assert_eq!(beside.receive(1, 100), expected);
        // This frame leaves through the port that received it.
        beside.send(0, [frame(2, 7)]);
        assert_eq!(beside.receive(0, 1), [left(2, 7, 78)]);
        beside.send(2, (0..20).map(|n| frame(3, n)));
        let copies = |instances: &[u16]| -> Vec<_> {
            let numbers = (0..20).flat_map(|n| instances.iter().map(move |it| (n, *it)));
            numbers.map(|(n, instance)| left(3, n, instance)).collect()
        };
        assert_eq!(beside.receive(0, 20), copies(&[13]));
        assert_eq!(beside.receive(1, 40), copies(&[11, 14]));
        assert_eq!(beside.receive(2, 20), copies(&[12]));
        beside.send(1, (0..3).map(|n| frame(9, n)));
        let start = Instant::now();
        while beside.counters().dropped(DropReason::IngressDrop) < 3 {
            assert!(start.elapsed() < TIMEOUT);
        }
        beside.assert_accounted();
        assert_eq!(beside.hits(1), packets(100));
        assert_eq!(beside.hits(2), packets(1));
        assert_eq!(beside.hits(3), packets(20));
        assert_eq!([0, 1, 2].map(|port| beside.by_port(port)), [101, 3, 20]);
        let report = beside.switch.latency();
        let by_port = report.ports.iter().map(|(port, it)| (port.0, it.packets));
        assert!(by_port.eq([(0, 21), (1, 140), (2, 20)]), "{report:?}");
        let mut by_stream: Vec<_> = report
            .streams
            .iter()
            .map(|it| (it.0, it.1.packets))
            .collect();
        by_stream.sort_by_key(|(_, n)| *n);
        let group = Stream::MulticastGroup(5);
        assert_eq!(by_stream, [(group, 80), (Stream::Unicast, 101)]);
        for (_, times) in &report.ports {
            assert!(
                times.p50_ns > 100 && times.max_ns < 1_000_000_000,
                "{report:?}"
            );
        }
        let table = beside.table;
        let lookups = beside.counters().table(table);
        assert_eq!((lookups.hits, lookups.misses), (121, 3));
        assert_eq!(beside.counters().received, 124);
        assert_eq!(beside.counters().transmitted, 181);
        beside.assert_forwards();
        assert_eq!(beside.n_punted, 0);
    });
}

#[test]
fn what_is_written_is_seen_by_packets_after_a_drain_however_often_it_changes() {
    in_root_namespace(|| {
        let mut beside = Beside::with("exchange.p4", |switch| {
            let group = MulticastGroup {
                id: 4,
                replicas: vec![Replica {
                    port: PortId(1),
                    instance: 3,
                }],
                ..MulticastGroup::default()
            };
            switch.insert_multicast_group(group).unwrap();
        });
        beside.insert(8, "flood", &[4]);
        for round in 0..30_u16 {
            beside.insert(1, "forward", &[1, round]);
            for change in 0..3 {
                beside.modify(1, "forward", &[1, round + 100 * change]);
            }
            beside.group(4, &vec![(1, 7); 1][..], false);
            let replicas: Vec<_> = (0..=round % 5).map(|it| (1, round + it)).collect();
            beside.group(4, &replicas, false);
            beside.drain();
            beside.send(0, [frame(1, 5), frame(8, 6)]);
            let mut expected = vec![left(1, 5, round + 200)];
            expected.extend(replicas.iter().map(|(_, it)| left(8, 6, *it)));
            assert_eq!(beside.receive(1, expected.len()), expected, "round {round}");
            // The entry is removed and inserted again in one batch, so later hits are counted for a new entry.
            beside.switch.begin_batch();
            beside.delete(1);
            beside.insert(1, "forward", &[2, round]);
            beside.switch.end_batch();
            beside.drain();
            beside.send(0, [frame(1, 9)]);
            assert_eq!(beside.receive(2, 1), [left(1, 9, round)]);
            assert_eq!(beside.hits(1), packets(1));
            beside.delete(1);
            beside.drain();
            let before = beside.counters().dropped(DropReason::IngressDrop);
            beside.send(0, [frame(1, 10)]);
            let start = Instant::now();
            while beside.counters().dropped(DropReason::IngressDrop) == before {
                assert!(start.elapsed() < TIMEOUT, "round {round}");
            }
        }
        beside.assert_accounted();
        beside.assert_forwards();
    });
}

#[test]
fn more_entries_come_and_go_than_there_is_room_for() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        for round in 0..400_u16 {
            let to = (round % 50) as u8;
            if round >= 50 {
                beside.delete(to);
            }
            beside.insert(to, "forward", &[1, round]);
        }
        beside.drain();
        beside.send(0, (0..50).map(|to| frame(to, 1)));
        let expected: Vec<_> = (0..50).map(|to| left(to, 1, 350 + u16::from(to))).collect();
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(beside.receive(1, 50), expected);
        for to in 0..50 {
            assert_eq!(beside.hits(to), packets(1));
        }
        beside.assert_accounted();
        beside.assert_forwards();
    });
}

#[test]
fn what_the_kernel_leaves_goes_whole_to_the_engine_and_both_are_counted_together() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.switch.add_port(PortId(CPU_PORT));
        beside.insert(1, "forward", &[1, 7]);
        beside.insert(2, "forward", &[CPU_PORT, 7]);
        beside.insert(3, "flood", &[6]);
        beside.group(6, &[(1, 1), (CPU_PORT, 2)], true);
        beside.drain();
        beside.send(0, [frame(2, 1), frame(1, 2), frame(3, 3)]);
        assert_eq!(beside.receive(1, 1), [left(1, 2, 7)]);
        beside.switch.collect();
        assert_eq!(beside.switch.counters().received, 1);
        let start = Instant::now();
        let mut n_punted = 0;
        while n_punted < 2 {
            assert!(start.elapsed() < TIMEOUT);
            let switch = &mut beside.switch;
            let mut take = |frame: &[u8]| switch.handle_frame(0, PortId(0), frame);
            n_punted += beside.ports[0].receive(0, 64, &mut take).unwrap();
        }
        let mut sent = Vec::new();
        while let Some(it) = beside.switch.poll_transmit(0) {
            let it = it.to_owned();
            sent.push((it.port.0, it.frame));
        }
        let expected = [
            (CPU_PORT, left(2, 1, 7)),
            (1, left(3, 3, 1)),
            (CPU_PORT, left(3, 3, 2)),
        ];
        assert_eq!(sent, expected);
        assert_eq!([1, 2, 3].map(|to| beside.hits(to)), [packets(1); 3]);
        beside.assert_accounted();
    });
}

#[test]
fn taken_away_it_leaves_all_frames_to_the_ports() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.insert(1, "forward", &[1, 7]);
        beside.drain();
        beside.send(0, [frame(1, 1)]);
        assert_eq!(beside.receive(1, 1), [left(1, 1, 7)]);
        beside.switch.set_offload(None);
        beside.send(0, [frame(1, 2)]);
        beside.forward_punted(1);
        assert_eq!(beside.receive(1, 1), [left(1, 2, 7)]);
        assert_eq!(beside.hits(1), packets(2));
        beside.set_offload();
        beside.send(0, [frame(1, 3)]);
        assert_eq!(beside.receive(1, 1), [left(1, 3, 7)]);
        assert_eq!(beside.hits(1), packets(3));
        beside.assert_accounted();
    });
}

#[test]
fn what_a_full_or_closed_port_loses_is_counted() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        let replicas: Vec<_> = (0..900).map(|it| (1, it)).collect();
        beside.group(5, &replicas, true);
        beside.insert(3, "flood", &[5]);
        beside.insert(1, "forward", &[1, 1]);
        beside.drain();
        beside.send(0, [frame(3, 1)]);
        let start = Instant::now();
        let ended = |beside: &mut Beside| {
            let counters = beside.counters();
            counters.transmitted + counters.dropped(DropReason::DeviceRefused)
        };
        while ended(&mut beside) < 900 {
            assert!(start.elapsed() < TIMEOUT);
        }
        assert!(beside.counters().dropped(DropReason::DeviceRefused) > 0);
        beside.assert_accounted();
        ip("link set out1 down");
        beside.send(0, (0..10).map(|n| frame(1, n)).chain([frame(3, 1)]));
        while ended(&mut beside) < 900 + 910 {
            assert!(start.elapsed() < TIMEOUT, "{}", ended(&mut beside));
            std::thread::sleep(Duration::from_millis(5));
        }
        beside.assert_accounted();
        beside.assert_forwards();
    });
}

#[test]
fn a_port_that_would_lose_all_is_refused_with_the_reason() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        ethtool("-K out2 gro off");
        beside.set_offload();
        let Some(OffloadStatus::Refused(reason)) = beside.switch.offload_status() else {
            panic!("{:?}", beside.switch.offload_status());
        };
        for part in ["port 2", "\"in2\"", "gro on"] {
            assert!(reason.contains(part), "{reason}");
        }
        // Now the engine in user space forwards all frames.
        beside.insert(1, "forward", &[1, 7]);
        beside.send(0, [frame(1, 2)]);
        beside.forward_punted(1);
        assert_eq!(beside.receive(1, 1), [left(1, 2, 7)]);
    });
}

#[test]
fn the_default_action_is_changed_like_an_entry() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        for round in 0..4 {
            let action = TableAction::Call(beside.call("forward", &[1 + round % 2, round]));
            beside
                .switch
                .set_default_action(beside.table, Some(action))
                .unwrap();
            beside.drain();
            beside.send(0, [frame(1, 2)]);
            let port = usize::from(1 + round % 2);
            assert_eq!(beside.receive(port, 1), [left(1, 2, round)]);
        }
        beside.assert_accounted();
    });
}

/// How many copies are made of a packet to the large group (`N_COPIES`), and of a packet to the small group
/// (`N_OTHERS`).
const N_COPIES: u64 = 40;
const N_OTHERS: u64 = 2;
/// How many frames a veth's ring holds.
const RING: u64 = 256;

/// What happened to the copies that were to leave through a full port, and how many copies left through another port.
#[derive(Debug)]
struct TooMuch {
    n_made: u64,
    n_sent: u64,
    n_refused: u64,
    n_sent_by_other: u64,
}

impl TooMuch {
    fn so_far(beside: &mut Beside) -> TooMuch {
        let n_made = beside.made_for(1);
        let counters = beside.counters();
        let [n_sent, n_sent_by_other] = [1, 2].map(|port| counters.port(PortId(port)).tx_packets);
        let n_refused = counters.dropped(DropReason::DeviceRefused);
        TooMuch {
            n_made,
            n_sent,
            n_refused,
            n_sent_by_other,
        }
    }

    /// Sends bursts in which three of four packets go to the large group, and returns what happened to the copies.
    fn of_bursts(beside: &mut Beside, n_bursts: u32) -> TooMuch {
        let before = TooMuch::so_far(beside);
        beside.send_bursts(0, &[3, 4, 3, 3], n_bursts);
        let n_due = u64::from(n_bursts) * (N_DUE + N_DUE_BY_OTHER);
        beside.await_ended(before.n_sent + before.n_sent_by_other + before.n_refused + n_due);
        beside.assert_accounted();
        let after = TooMuch::so_far(beside);
        TooMuch {
            n_made: after.n_made - before.n_made,
            n_sent: after.n_sent - before.n_sent,
            n_refused: after.n_refused - before.n_refused,
            n_sent_by_other: after.n_sent_by_other - before.n_sent_by_other,
        }
    }
}

/// How many copies should be made of the packets of one burst: `N_DUE` for the large group, `N_DUE_BY_OTHER` for the
/// small group.
const N_DUE: u64 = burst::FRAMES as u64 / 4 * 3 * N_COPIES;
const N_DUE_BY_OTHER: u64 = burst::FRAMES as u64 / 4 * N_OTHERS;

/// Starts a switch with two groups: packets to the large group get many copies through port 1, packets to the small
/// group get few copies through port 2.
fn with_two_groups() -> Beside {
    burst::stay();
    let mut beside = Beside::start();
    let replicas = |port: u16, n: u64| (0..n as u16).map(|it| (port, it)).collect::<Vec<_>>();
    beside.group(5, &replicas(1, N_COPIES), true);
    beside.group(6, &replicas(2, N_OTHERS), true);
    beside.insert(3, "flood", &[5]);
    beside.insert(4, "flood", &[6]);
    beside.drain();
    beside
}

#[test]
fn packets_whose_copies_a_full_port_would_refuse_are_dropped_before_they_are_made() {
    in_root_namespace(|| {
        let mut beside = with_two_groups();
        // Nobody empties the ring while one processor makes copies.
        let first = TooMuch::of_bursts(&mut beside, 1);
        assert!(
            (RING - N_COPIES..N_DUE / 2).contains(&first.n_sent),
            "{first:?}"
        );
        assert_eq!(first.n_refused, N_DUE - first.n_sent, "{first:?}");
        assert!(first.n_made < first.n_sent + N_COPIES, "{first:?}");
        assert_eq!(first.n_sent_by_other, N_DUE_BY_OTHER);
        // A single packet is forwarded at once.
        let n_received = first.n_sent as usize;
        assert_eq!(beside.receive(1, n_received).len(), n_received);
        beside.send(0, [frame(3, 7)]);
        let copies: Vec<_> = (0..N_COPIES as u16).map(|it| left(3, 7, it)).collect();
        assert_eq!(beside.receive(1, copies.len()), copies);
        // Now the program knows how many copies the port takes, so nearly all copies that it makes also leave.
        let n_bursts = 50;
        let more = TooMuch::of_bursts(&mut beside, n_bursts);
        let n_in_vain = more.n_made - more.n_sent;
        assert!(n_in_vain < more.n_sent / 10, "{more:?}");
        assert!(more.n_sent > RING, "{more:?}");
        let n_due_by_other = u64::from(n_bursts) * N_DUE_BY_OTHER;
        assert_eq!(more.n_sent_by_other, n_due_by_other);
    });
}

#[test]
fn copies_by_a_port_with_room_are_made_though_others_of_the_packet_are_refused() {
    in_root_namespace(|| {
        let mut beside = with_two_groups();
        let mut replicas: Vec<_> = (0..N_COPIES as u16).map(|it| (1, it)).collect();
        replicas.push((2, 9));
        beside.group(7, &replicas, true);
        beside.insert(5, "flood", &[7]);
        beside.drain();
        let n_packets = u64::from(burst::FRAMES);
        // When the second burst is sent, the program already knows which port is full.
        for n_bursts in 1..=2 {
            beside.send_bursts(0, &[5], 1);
            beside.await_ended(n_bursts * n_packets * (N_COPIES + 1));
            let after = TooMuch::so_far(&mut beside);
            assert_eq!(after.n_sent_by_other, n_bursts * n_packets, "{after:?}");
            assert!(after.n_refused > 0, "{after:?}");
        }
        beside.assert_accounted();
    });
}

#[test]
fn what_a_full_port_refused_is_forwarded_again_when_nobody_sees_polls_end() {
    in_root_namespace(|| {
        let mut beside = with_two_groups();
        beside.set_offload_that_leaves(beside.served(), Arc::new(AtomicBool::new(true)));
        beside.assert_forwards();
        let first = TooMuch::of_bursts(&mut beside, 1);
        assert!(first.n_refused > 0, "{first:?}");
        let n_received = first.n_sent as usize;
        assert_eq!(beside.receive(1, n_received).len(), n_received);
        beside.switch.set_offload(None);
        let start = Instant::now();
        let mut copies = Vec::new();
        while copies.len() < N_COPIES as usize {
            assert!(start.elapsed() < TIMEOUT, "{}", copies.len());
            beside.send(0, [frame(3, 7)]);
            copies.extend(beside.receive_now(1));
        }
    });
}
