//! Tests changes of multicast groups: frequent changes, changes while there are no spares (device maps that are made in
//! advance), and changes of groups over several ports. Also measures how soon packets see a change.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use dataplane::OffloadNotice;
use testkit::frames::TIMEOUT;
use testkit::namespace::in_root_namespace;
use testkit::xdp::beside::{Beside, N_PORTS, frame, left};

/// Returns how many file descriptors of BPF maps this process has.
fn n_maps() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|it| fs::read_link(it.unwrap().path()).ok());
    let name = |target: &PathBuf| target.to_string_lossy().contains("bpf-map");
    targets.filter(name).count()
}

/// Waits until all spares for groups of one size exist.
fn await_spares(n_maps_then: usize) {
    let start = Instant::now();
    while n_maps() < n_maps_then {
        assert!(start.elapsed() < TIMEOUT, "{} of {n_maps_then}", n_maps());
        thread::sleep(Duration::from_millis(1));
    }
    // The spares are inserted in a grace period of RCU, after a grace period that is already running.
    (0..4).for_each(|_| bpf::wait_for_programs().unwrap());
}

#[test]
fn without_spare_maps_a_group_changes_all_the_same_and_it_is_reported() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        let n_before = n_maps();
        beside.group(5, &[(1, 0)], true);
        beside.insert(1, "flood", &[5]);
        beside.drain();
        await_spares(n_before + 3);
        let reserve: Vec<_> = (0..32).map(|_| File::open("/dev/null").unwrap()).collect();
        let next = File::open("/dev/null").unwrap().as_raw_fd();
        let limit = Command::new("prlimit")
            .args(["--pid", &std::process::id().to_string()])
            .arg(format!("--nofile={next}:"))
            .status();
        assert!(limit.unwrap().success());
        let assert_copies = |beside: &mut Beside, n: u16| {
            let replicas: Vec<_> = (0..n).map(|instance| (1, instance)).collect();
            beside.group(5, &replicas, false);
            beside.drain();
            beside.send(0, [frame(1, 1)]);
            let expected: Vec<_> = (0..n).map(|it| left(1, 1, it)).collect();
            assert_eq!(beside.receive(1, expected.len()), expected);
        };
        assert_copies(&mut beside, 2);
        let start = Instant::now();
        let notice = loop {
            if let Some(notice) = beside.switch.poll_offload_notice() {
                break notice;
            }
            assert!(start.elapsed() < TIMEOUT);
            beside.switch.check_offload();
            beside.assert_forwards();
            thread::sleep(Duration::from_millis(1));
        };
        let OffloadNotice::DoesWithout { reason, .. } = &notice else {
            panic!("{notice:?}");
        };
        assert!(reason.contains("Too many open files"), "{reason}");
        // The next change creates spares again.
        drop(reserve);
        let n_before = n_maps();
        assert_copies(&mut beside, 3);
        await_spares(n_before + 2);
        assert_copies(&mut beside, 4);
        beside.switch.check_offload();
        beside.assert_forwards();
        beside.assert_accounted();
        assert_eq!(beside.switch.poll_offload_notice(), None);
    });
}

#[test]
fn a_burst_of_changes_of_groups_is_seen_soon() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        let n_groups = 20;
        for group in 1..=n_groups {
            beside.group(group, &[(1, 1)], true);
            beside.insert(group as u8, "flood", &[group as u16]);
        }
        beside.drain();
        let start = Instant::now();
        for round in 0..100_u16 {
            for group in 1..=n_groups {
                let replicas: Vec<_> = (0..=round % 9).map(|it| (1, round + it)).collect();
                beside.group(group, &replicas, false);
            }
        }
        beside.drain();
        let taken = start.elapsed();
        assert!(taken < TIMEOUT, "{taken:?}");
        for group in 1..=n_groups as u8 {
            beside.send(0, [frame(group, 1)]);
            let expected: Vec<_> = (0..=99 % 9).map(|it| left(group, 1, 99 + it)).collect();
            assert_eq!(beside.receive(1, expected.len()), expected);
        }
        beside.assert_forwards();
        beside.assert_accounted();
    });
}

#[test]
fn a_change_of_a_group_is_seen_within_20_ms() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.group(5, &[(1, 0)], true);
        beside.insert(1, "flood", &[5]);
        beside.drain();
        let mut taken = Vec::new();
        for n in 1..=30_u16 {
            // Wait until nothing else happens, as is usual when a viewer joins.
            thread::sleep(Duration::from_millis(100));
            let replicas: Vec<_> = (0..=n).map(|it| (1, it)).collect();
            let start = Instant::now();
            beside.group(5, &replicas, false);
            loop {
                beside.send(0, [frame(1, 1)]);
                let mut copies = beside.receive(1, usize::from(n));
                thread::sleep(Duration::from_micros(500));
                copies.extend(beside.receive_now(1));
                let expected = (0..copies.len() as u16).map(|it| left(1, 1, it));
                assert!(copies.iter().cloned().eq(expected), "{n}: {copies:?}");
                assert!(start.elapsed() < TIMEOUT);
                if copies.len() > usize::from(n) {
                    break;
                }
            }
            taken.push(start.elapsed());
        }
        taken.sort();
        println!("from the call to the first copy: {taken:?}");
        assert!(taken[taken.len() / 2] < Duration::from_millis(20));
        beside.assert_forwards();
    });
}

/// Changes one entry about a thousand times a second.
struct Busy {
    next: Instant,
    n: u16,
}

impl Busy {
    fn go_on(&mut self, beside: &mut Beside) {
        if self.next <= Instant::now() {
            self.next += Duration::from_millis(1);
            self.n = self.n.wrapping_add(1);
            beside.modify(2, "forward", &[2, self.n]);
        }
        thread::sleep(Duration::from_micros(100));
    }

    fn rest(&mut self, beside: &mut Beside, duration: Duration) {
        let until = Instant::now() + duration;
        while Instant::now() < until {
            self.go_on(beside);
        }
    }
}

#[test]
fn a_change_of_a_group_is_seen_soon_while_an_entry_changes_all_the_time() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        beside.group(5, &[(1, 0)], true);
        beside.insert(1, "flood", &[5]);
        beside.insert(2, "forward", &[2, 0]);
        beside.drain();
        let next = Instant::now();
        let mut busy = Busy { next, n: 0 };
        let (mut drained, mut seen) = (Vec::new(), Vec::new());
        for n in 1..=40_u16 {
            busy.rest(&mut beside, Duration::from_millis(53));
            // Wait for a drain, as the command `reprise viewer add` does.
            let start = Instant::now();
            let token = beside.switch.begin_drain();
            while !beside.switch.is_drained(token) {
                busy.go_on(&mut beside);
                assert!(start.elapsed() < TIMEOUT);
            }
            drained.push(start.elapsed());
            busy.rest(&mut beside, Duration::from_millis(1));
            beside.insert(100 + n as u8, "forward", &[2, n]);
            busy.rest(&mut beside, Duration::from_millis(1));
            let replicas: Vec<_> = (0..=n).map(|it| (1, it)).collect();
            beside.group(5, &replicas, false);
            loop {
                beside.send(0, [frame(1, 1)]);
                busy.go_on(&mut beside);
                let copies = std::iter::from_fn(|| beside.receive_now(1)).count();
                assert!(start.elapsed() < TIMEOUT);
                if copies > usize::from(n) {
                    break;
                }
            }
            seen.push(start.elapsed());
        }
        for (what, taken) in [("drained", &mut drained), ("the first copy", &mut seen)] {
            taken.sort();
            let [median, longest] = [taken.len() / 2, taken.len() - 1].map(|it| taken[it]);
            println!("from the call to {what}: median {median:?}, longest {longest:?}");
            // The limit allows for two grace periods on a busy machine.
            assert!(median < Duration::from_millis(100), "{taken:?}");
        }
        beside.assert_forwards();
    });
}

#[test]
fn versions_of_a_group_of_several_ports_take_each_other_s_places() {
    in_root_namespace(|| {
        let mut beside = Beside::start();
        let all: Vec<_> = (0..N_PORTS).map(|port| (port, port)).collect();
        beside.group(5, &all, true);
        beside.insert(1, "flood", &[5]);
        beside.drain();
        for round in 0..20 {
            let mut replicas = all.clone();
            replicas.rotate_left(round % 3);
            replicas.truncate(1 + round % 3);
            beside.group(5, &replicas, false);
            beside.drain();
            beside.send(0, [frame(1, 1)]);
            for (port, instance) in replicas {
                let copies = beside.receive(usize::from(port), 1);
                assert_eq!(copies, [left(1, 1, instance)], "{round}");
            }
        }
        beside.assert_forwards();
        beside.assert_accounted();
    });
}
