//! Tests faults that occur between two steps of the offload to the kernel: a writer that fails, more changes than
//! become visible at once, full tables, missing ports. The kernel lets only root outside any user namespace load
//! programs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod groups;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpf::{AttachMode, Instruction, Link, Program, ProgramConfig, ProgramKind};
use dataplane::trace::{TraceEvent, TraceSink};
use dataplane::{
    ActionCall, DropReason, MatchField, OffloadNotice, OffloadStatus, PortId, Switch, TableEntry,
};
use dataplane_xdp::runtime::KernelPort;
use packet_io::{AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, LinkEvent, Port, links};
use testkit::frames::{TIMEOUT, send};
use testkit::namespace::{ethtool, in_root_mount_namespace, in_root_namespace, ip, run, veth_pair};
use testkit::xdp::beside::{Beside, N_PORTS, frame, left, packets};

/// The number of entries of the table `addresses`.
const N_ENTRIES: u8 = 64;

/// How many entries the table `addresses` has room for, including removed entries that are still visible.
const ROOM: usize = 128;

/// A generous time limit for a control call, which should block the event loop for a far shorter time.
const AT_ONCE: Duration = Duration::from_millis(500);

fn has_failed(beside: &Beside) -> bool {
    matches!(
        beside.switch.offload_status(),
        Some(OffloadStatus::Failed(_))
    )
}

#[test]
fn a_failed_writer_ends_no_drain_and_is_reported_when_it_is_asked() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.insert(1, "forward", &[2, 7]);
        beside.drain();
        beside.leave_no_descriptors();
        beside.group(5, &[(1, 1)], true);
        let token = beside.switch.begin_drain();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            assert!(!beside.switch.is_drained(token));
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!has_failed(&beside), "nobody has asked");
        beside.switch.collect();
        assert!(has_failed(&beside), "{:?}", beside.switch.offload_status());
        assert!(beside.switch.is_drained(token));
        // Now the engine in user space forwards.
        beside.send(0, [frame(1, 2)]);
        beside.forward_punted_of(&[0, 2], 1);
        assert_eq!(beside.receive(2, 1), [left(1, 2, 7)]);
        beside.assert_accounted();
    });
}

#[test]
fn an_interface_that_is_gone_before_anybody_was_notified_fails_nothing() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.insert(1, "forward", &[2, 7]);
        beside.drain();
        ip("link del out1");
        beside.group(5, &[(1, 1), (2, 3)], true);
        beside.insert(5, "flood", &[5]);
        beside.drain();
        beside.send(0, [frame(5, 1), frame(1, 2)]);
        assert_eq!(beside.receive(2, 2), [left(5, 1, 3), left(1, 2, 7)]);
        let start = Instant::now();
        while beside.counters().dropped(DropReason::DeviceRefused) < 1 {
            assert!(start.elapsed() < TIMEOUT, "the copy for nobody is counted");
        }
        beside.assert_accounted();
        beside.assert_forwards();
    });
}

#[test]
fn it_stops_at_once_whatever_is_still_to_be_written() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        for to in 0..40 {
            beside.insert(to, "forward", &[1, 1]);
        }
        beside.drain();
        // Inserting a removed key again waits for a grace period each time.
        for to in 0..70 {
            beside.delete(to % 2);
            beside.insert(to % 2, "forward", &[1, 2]);
        }
        let start = Instant::now();
        beside.switch.set_offload(None);
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        beside.send(0, [frame(1, 2)]);
        beside.forward_punted(1);
        assert_eq!(beside.receive(1, 1), [left(1, 2, 2)]);
        beside.set_offload();
        beside.assert_forwards();
        beside.send(0, [frame(1, 3)]);
        assert_eq!(beside.receive(1, 1), [left(1, 3, 2)]);
        beside.assert_accounted();
    });
}

#[test]
fn what_was_written_is_shown_before_a_stop_that_leaves_the_program() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        let leaves = Arc::new(AtomicBool::new(true));
        beside.set_offload_that_leaves(beside.served(), leaves);
        beside.assert_forwards();
        beside.insert(1, "forward", &[1, 1]);
        beside.drain();
        // Inserting a removed key again waits for a grace period each time.
        for instance in 2..=5 {
            beside.delete(1);
            beside.insert(1, "forward", &[2, instance]);
        }
        beside.switch.set_offload(None);
        beside.send(0, [frame(1, 7)]);
        assert_eq!(beside.receive(2, 1), [left(1, 7, 5)]);
    });
}

#[test]
fn a_drain_before_anything_has_changed_waits_for_no_grace_period() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.insert(1, "forward", &[1, 1]);
        beside.drain();
        for number in 0..100 {
            beside.send(0, [frame(1, number)]);
            assert_eq!(beside.receive(1, 1), [left(1, number, 1)]);
            let token = beside.switch.begin_drain();
            assert!(beside.switch.is_drained(token));
        }
        // A lost packet counts as inside the switch until the loss is known.
        ip("link set out1 down");
        beside.send(0, [frame(1, 1)]);
        beside.drain();
        beside.counters();
        beside.drain();
        beside.assert_accounted();
        assert_eq!(beside.counters().dropped(DropReason::DeviceRefused), 1);
    });
}

#[test]
fn a_batch_that_replaces_a_full_table_is_shown_at_once_and_as_a_whole() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.switch.begin_batch();
        (0..N_ENTRIES).for_each(|to| beside.insert(to, "forward", &[1, 1]));
        beside.switch.end_batch();
        beside.drain();
        beside.send(0, [frame(5, 1)]);
        assert_eq!(beside.receive(1, 1), [left(5, 1, 1)]);
        let start = Instant::now();
        beside.switch.begin_batch();
        (0..N_ENTRIES).for_each(|to| beside.delete(to));
        (0..N_ENTRIES).for_each(|to| beside.insert(180 + to, "forward", &[1, 3]));
        // The table is full because the entries removed above are still visible.
        (0..N_ENTRIES).for_each(|to| beside.delete(180 + to));
        (0..N_ENTRIES).for_each(|to| beside.insert(100 + to, "forward", &[2, 2]));
        beside.switch.end_batch();
        beside.drain();
        let taken = start.elapsed();
        assert!(taken < Duration::from_secs(30), "{taken:?}");
        beside.assert_forwards();
        let Some(OffloadNotice::LoadedAnew {
            table,
            n_entries,
            n_entries_max,
            taken_ns,
        }) = beside.switch.poll_offload_notice()
        else {
            panic!("nothing was reported");
        };
        assert_eq!(table, "table \"ExchangeIngress.addresses\"");
        assert_eq!((n_entries, n_entries_max), (64, ROOM));
        assert!(u128::from(taken_ns) < taken.as_nanos() && taken_ns > 1_000_000);
        assert_eq!(beside.switch.poll_offload_notice(), None);
        beside.send(0, (0..N_ENTRIES).map(|to| frame(100 + to, 2)));
        let expected: Vec<_> = (0..N_ENTRIES).map(|to| left(100 + to, 2, 2)).collect();
        assert_eq!(beside.receive(2, usize::from(N_ENTRIES)), expected);
        assert_eq!(beside.hits(105), packets(1));
        let dropped = beside.counters().dropped(DropReason::IngressDrop);
        beside.send(0, [frame(5, 1), frame(185, 1)]);
        let start = Instant::now();
        while beside.counters().dropped(DropReason::IngressDrop) < dropped + 2 {
            assert!(start.elapsed() < TIMEOUT);
        }
        beside.assert_accounted();
    });
}

#[test]
fn entries_that_were_removed_and_come_back_together_wait_for_one_grace_period() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        (0..30).for_each(|to| beside.insert(to, "forward", &[1, 1]));
        beside.drain();
        let start = Instant::now();
        (0..30).for_each(|to| beside.delete(to));
        (0..30).for_each(|to| beside.insert(to, "forward", &[2, 2]));
        beside.drain();
        let taken = start.elapsed();
        assert!(taken < Duration::from_millis(200), "{taken:?}");
        beside.send(0, (0..30).map(|to| frame(to, 2)));
        let expected: Vec<_> = (0..30).map(|to| left(to, 2, 2)).collect();
        assert_eq!(beside.receive(2, 30), expected);
        beside.assert_forwards();
    });
}

#[test]
fn what_was_forwarded_until_a_port_refused_the_program_is_counted() {
    in_root_mount_namespace(|| {
        let folder = PathBuf::from(format!("/tmp/reprise-refusing-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        run(&format!("mount -t bpf bpf {}", folder.display()));
        let mut beside = Beside::start();
        beside.insert(1, "forward", &[1, 7]);
        beside.switch.set_offload(None);
        veth_pair("last", "other");
        ethtool("-K other gro on");
        run_earlier("last", &folder);
        let config = AfXdpConfig {
            kept: Some(folder.clone()),
            ..AfXdpConfig::default()
        };
        let refusing = AfXdpPort::open("last", &config).unwrap();
        let mut served = beside.served();
        // The switch does not have this port. The driver of the port's interface refuses the program, because the
        // program does not accept frames in several buffers.
        served.push(KernelPort {
            id: PortId(50),
            interface: refusing.interface(),
        });
        ip("link set other mtu 9000");
        let is_over = Arc::new(AtomicBool::new(false));
        let mut outside = beside.outside.remove(0);
        let sender = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                let mut n_sent = 0;
                while !is_over.load(Ordering::Relaxed) {
                    send(&mut outside, (0..16).map(|n| frame(1, n)));
                    n_sent += 16;
                    thread::sleep(Duration::from_micros(100));
                }
                n_sent
            }
        });
        let start = Instant::now();
        while beside.switch.counters().received == 0 {
            beside.set_offload_on(served.clone());
            let Some(OffloadStatus::Refused(reason)) = beside.switch.offload_status() else {
                panic!("{:?}", beside.switch.offload_status());
            };
            assert!(reason.starts_with("port 50: "), "{reason}");
            assert!(start.elapsed() < TIMEOUT, "nothing was counted");
            drain_port(&mut beside.ports[0], &mut beside.n_punted);
        }
        is_over.store(true, Ordering::Relaxed);
        let n_sent: u64 = sender.join().unwrap();
        // While a program is being loaded, nobody reads the port's socket, which may then lose frames.
        let seen = |beside: &mut Beside| {
            drain_port(&mut beside.ports[0], &mut beside.n_punted);
            let n_lost = beside.ports[0].statistics().rx_dropped();
            beside.n_punted + n_lost + beside.switch.counters().received
        };
        while seen(&mut beside) < n_sent {
            assert!(start.elapsed() < 2 * TIMEOUT);
        }
        assert_eq!(seen(&mut beside), n_sent);
        beside.assert_accounted();
        drop(refusing);
        run(&format!("umount {}", folder.display()));
        fs::remove_dir(&folder).unwrap();
    });
}

#[test]
fn a_port_that_goes_and_comes_leaves_the_others_and_their_groups_in_the_kernel() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.insert(1, "forward", &[1, 7]);
        beside.insert(5, "flood", &[5]);
        beside.group(5, &[(1, 11), (2, 12), (1, 13)], true);
        beside.drain();
        let mut number = 0;
        for round in 1..=3 {
            beside.lose_port(2);
            beside.assert_forwards();
            // A group that is written while port 2 is missing makes no copies for that port either.
            let id = 5 + round;
            let to = u8::try_from(id).unwrap();
            beside.insert(to, "flood", &[id as u16]);
            beside.group(id, &[(2, 21), (1, 22)], true);
            beside.drain();
            for (to, instances) in [(5, &[11, 13][..]), (1, &[7]), (to, &[22])] {
                number += 1;
                beside.send(0, [frame(to, number)]);
                let expected = instances.iter().map(|it| left(to, number, *it));
                let expected: Vec<_> = expected.collect();
                assert_eq!(beside.receive(1, expected.len()), expected);
            }
            beside.find_port(2);
            for (to, port, instance) in [(5, 2, 12), (to, 2, 21)] {
                number += 1;
                beside.send(0, [frame(to, number)]);
                assert_eq!(beside.receive(port, 1), [left(to, number, instance)]);
            }
            assert_eq!(beside.receive(1, 3).len(), 3);
            // The frames that the new interface receives belong to the port.
            beside.send(2, [frame(1, number)]);
            assert_eq!(beside.receive(1, 1), [left(1, number, 7)]);
            let start = Instant::now();
            let refused =
                |beside: &mut Beside| beside.counters().dropped(DropReason::DeviceRefused);
            while refused(&mut beside) < 2 * u64::from(round) {
                assert!(start.elapsed() < TIMEOUT, "copies for nobody are counted");
            }
            beside.assert_accounted();
        }
        let mut n_punted = 0;
        let ports = beside.ports.iter_mut();
        ports.for_each(|port| drain_port(port, &mut n_punted));
        assert_eq!(n_punted, 0);
        beside.assert_forwards();
    });
}

/// Attaches a program that returns `XDP_PASS` to an interface before the interface's port is opened, and pins it in a
/// folder. The program accepts frames in several buffers, so that the other end of the veth pair may have an MTU that
/// the port's own program does not accept.
fn run_earlier(interface: &str, folder: &Path) {
    let instruction = |code, immediate| Instruction {
        code,
        registers: 0,
        offset: 0,
        immediate,
    };
    let program = Program::load(&ProgramConfig {
        name: "earlier",
        kind: ProgramKind::Xdp,
        has_fragments: true,
        instructions: &[instruction(0xb7, 2), instruction(0x95, 0)],
    });
    let index = |event| match event {
        LinkEvent::Present(link) if link.name == interface => Some(link.index.cast_unsigned()),
        _ => None,
    };
    let index = links().unwrap().into_iter().find_map(index).unwrap();
    let link = Link::attach_xdp(&program.unwrap(), index, AttachMode::Native).unwrap();
    let path = packet_io::kept_path(folder, index.cast_signed()).unwrap();
    link.pin(&path).unwrap();
}

struct Silent;

impl TraceSink for Silent {
    fn event(&mut self, _: &TraceEvent) {}
}

#[test]
fn a_port_whose_own_program_the_driver_refuses_is_the_host_s_until_the_next_program() {
    in_root_mount_namespace(|| {
        let folder = PathBuf::from(format!("/tmp/reprise-refused-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        run(&format!("mount -t bpf bpf {}", folder.display()));
        let mut beside = Beside::start();
        veth_pair("last", "other");
        ethtool("-K other gro on");
        run_earlier("last", &folder);
        let config = AfXdpConfig {
            kept: Some(folder.clone()),
            ..AfXdpConfig::default()
        };
        let last = AfXdpPort::open("last", &config).unwrap();
        let mut outside = AfPacketPort::open("other", AfPacketConfig::default()).unwrap();
        let id = PortId(N_PORTS);
        beside.switch.add_port(id);
        beside.insert(1, "forward", &[1, 7]);
        let mut served = beside.served();
        let interface = last.interface();
        served.push(KernelPort { id, interface });
        beside.set_offload_on(served);
        beside.assert_forwards();
        send(&mut outside, [frame(1, 1)]);
        assert_eq!(beside.receive(1, 1), [left(1, 1, 7)]);
        ip("link set other mtu 9000");
        // A trace stops the offload.
        beside.switch.set_trace(Some(Box::new(Silent)));
        let Some(OffloadStatus::Failed(reason)) = beside.switch.offload_status() else {
            panic!("{:?}", beside.switch.offload_status());
        };
        let expected = "port 3: interface \"last\" is the host's now";
        assert!(reason.starts_with(expected), "{reason}");
        send(&mut outside, [frame(1, 2)]);
        beside.send(0, [frame(1, 3)]);
        beside.forward_punted(1);
        assert_eq!(beside.receive(1, 1), [left(1, 3, 7)]);
        beside.assert_accounted();
        assert_eq!(beside.counters().received, 2, "none of port 3");
        ip("link set other mtu 1500");
        beside.switch.set_trace(None);
        beside.set_program("exchange.p4");
        beside.insert(1, "forward", &[2, 8]);
        beside.drain();
        send(&mut outside, [frame(1, 4)]);
        assert_eq!(beside.receive(2, 1), [left(1, 4, 8)]);
        beside.assert_accounted();
        beside.switch.set_offload(None);
        run(&format!("umount {}", folder.display()));
        fs::remove_dir(&folder).unwrap();
    });
}

/// Discards the frames that a port has received, and counts them.
fn drain_port(port: &mut AfXdpPort, n: &mut u64) {
    while let Ok(1..) = port.receive(0, 64, &mut |_| *n += 1) {}
}

/// Returns an entry of the table `classes` that sends frames to `port`.
fn class(switch: &Switch, mask: [u8; 6], priority: i32, port: u16) -> TableEntry {
    let program = switch.program().unwrap();
    let table = program.table("ExchangeIngress.classes").unwrap();
    let action = program.action_of(table, "ExchangeIngress.send").unwrap();
    let key = MatchField::Ternary {
        value: vec![0; 6],
        mask: mask.to_vec(),
    };
    let args = vec![port.to_be_bytes().to_vec()];
    TableEntry::new(vec![key], priority, ActionCall { action, args })
}

#[test]
fn a_table_with_entries_that_do_not_fit_is_left_and_the_others_are_not() {
    in_root_namespace(|| {
        let mut beside = Beside::with("classes.p4", |_| {});
        beside.insert(1, "forward", &[2, 9]);
        let program = beside.switch.program().unwrap();
        let table = program.table("ExchangeIngress.classes").unwrap();
        let with_mask = |n: u32| {
            let [_, _, high, low] = (n + 1).to_be_bytes();
            [0, 0, 0, high, low, 0]
        };
        let mut classified = frame(0, 1);
        classified[13] = 0xb6;
        classified[..6].fill(0);
        for n in 0..17 {
            let entry = class(&beside.switch, with_mask(n), n as i32 + 1, 1);
            beside.switch.insert_entry(table, entry).unwrap();
            let Some(OffloadStatus::Forwarding(left)) = beside.switch.offload_status() else {
                panic!("{:?}", beside.switch.offload_status());
            };
            let left = left.iter().find(|it| it.place.contains("classes"));
            let reason = left.map(|it| it.reason.as_str());
            let expected = (n == 16).then_some("its entries have more than 16 masks");
            assert_eq!(reason, expected, "{n}");
            if n < 16 {
                beside.drain();
                beside.send(0, [classified.clone()]);
                assert_eq!(beside.receive(1, 1), [classified.clone()]);
            }
        }
        // The same holds after the program is loaded again.
        for _ in 0..2 {
            beside.send(0, [classified.clone(), frame(1, 3)]);
            assert_eq!(beside.receive(2, 1), [left(1, 3, 9)]);
            beside.forward_punted(1);
            assert_eq!(beside.receive(1, 1), [classified.clone()]);
            beside.set_offload();
            beside.assert_forwards();
        }
        beside.assert_accounted();
    });
}

#[test]
fn what_did_not_fit_in_a_batch_is_not_the_next_program_s_that_is_set_in_it() {
    in_root_namespace(|| {
        let mut beside = Beside::with("classes.p4", |_| {});
        let program = beside.switch.program().unwrap();
        let table = program.table("ExchangeIngress.classes").unwrap();
        beside.switch.begin_batch();
        for n in 0..17 {
            let entry = class(&beside.switch, [0, 0, 0, 0, n + 1, 0], 1, 1);
            beside.switch.insert_entry(table, entry).unwrap();
        }
        // Read the counters, as the switch does before it writes a counter.
        beside.switch.collect();
        let waiting = OffloadStatus::Waiting;
        assert_eq!(beside.switch.offload_status(), Some(&waiting));
        beside.set_program("classes.p4");
        beside.insert(1, "forward", &[2, 9]);
        beside.switch.end_batch();
        let forwarding = OffloadStatus::Forwarding(Vec::new());
        assert_eq!(beside.switch.offload_status(), Some(&forwarding));
        let mut classified = frame(0, 1);
        classified[13] = 0xb6;
        let entry = class(&beside.switch, [0; 6], 1, 1);
        beside.switch.insert_entry(table, entry).unwrap();
        beside.drain();
        beside.send(0, [classified.clone(), frame(1, 3)]);
        assert_eq!(beside.receive(1, 1), [classified]);
        assert_eq!(beside.receive(2, 1), [left(1, 3, 9)]);
        beside.assert_accounted();
    });
}

#[test]
fn masks_that_come_and_go_are_never_too_many() {
    in_root_namespace(|| {
        let mut beside = Beside::with("classes.p4", |_| {});
        let program = beside.switch.program().unwrap();
        let table = program.table("ExchangeIngress.classes").unwrap();
        let mut classified = frame(0, 1);
        classified[13] = 0xb6;
        classified[..6].fill(0);
        for n in 0..100_u32 {
            let [_, _, high, low] = (n + 1).to_be_bytes();
            let mask = [0, 0, 0, high, low, 0];
            let entry = class(&beside.switch, mask, 1, (n % 2) as u16 + 1);
            beside.switch.insert_entry(table, entry.clone()).unwrap();
            if n % 10 == 0 {
                beside.drain();
                beside.send(0, [classified.clone()]);
                let port = (n % 2) as usize + 1;
                assert_eq!(beside.receive(port, 1), [classified.clone()]);
            }
            let removed = beside.switch.delete_entry(table, &entry.key, 1);
            removed.unwrap();
        }
        beside.drain();
        beside.switch.collect();
        let Some(OffloadStatus::Forwarding(left)) = beside.switch.offload_status() else {
            panic!("{:?}", beside.switch.offload_status());
        };
        assert!(
            !left.iter().any(|it| it.place.contains("classes")),
            "{left:?}"
        );
        beside.assert_accounted();
    });
}

#[test]
fn what_was_lost_on_the_way_is_known_while_packets_come() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.insert(1, "forward", &[1, 1]);
        beside.insert(2, "forward", &[2, 2]);
        beside.drain();
        ip("link set out1 down");
        beside.send(0, (0..100).map(|n| frame(1, n)));
        let start = Instant::now();
        let refused = |beside: &mut Beside| {
            let counters = beside.counters();
            counters.dropped(DropReason::DeviceRefused)
        };
        let mut n_sent = 0;
        while refused(&mut beside) < 100 {
            // Packets keep coming.
            beside.send(0, [frame(2, 1)]);
            assert_eq!(beside.receive(2, 1).len(), 1);
            n_sent += 1;
            assert!(start.elapsed() < TIMEOUT);
        }
        assert_eq!(refused(&mut beside), 100);
        beside.assert_accounted();
        assert_eq!(beside.counters().transmitted, n_sent);
    });
}
