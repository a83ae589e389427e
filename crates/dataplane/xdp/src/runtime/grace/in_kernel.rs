//! Tests of grace periods that the running kernel's NAPI polls end.

use std::collections::BTreeSet;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpf::{Program, ProgramConfig, ProgramKind, n_possible_processors};
use dataplane::{
    ActionCall, MatchField, MulticastGroup, OffloadStatus, PortId, Replica, Switch, SwitchConfig,
    TableEntry, TableId,
};
use packet_io::{AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, Port};
use testkit::namespace::{ethtool, in_root_namespace, ip, veth_pair};

use super::{Graces, ReadPolls};
use crate::image::{Image, Interface, MapRole};
use crate::runtime::maps::Maps;
use crate::runtime::testing;
use crate::runtime::transmit::PollEnds;
use crate::runtime::{KernelOffload, KernelPort};

const LOOPBACK: u32 = 1;
const TIMEOUT: Duration = Duration::from_secs(5);

/// A frame to the address in the tests' table entry.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.resize(100, 0xab);
    frame
}

/// Loads the program for frames that ports receive, but attaches it to no port: `BPF_PROG_TEST_RUN` sends it frames.
fn program(image: &Image, maps: &Maps) -> Program {
    let interface = Interface {
        port: Some(PortId(0)),
        sockets: 0,
    };
    let at = image.heap.interface(LOOPBACK).expect("a low number");
    maps.store_bytes(at, &interface.to_bytes());
    let loaded = Program::load(&ProgramConfig {
        name: "test",
        kind: ProgramKind::Xdp,
        has_fragments: false,
        instructions: &maps.link(&image.ingress),
    });
    loaded.expect("the verifier takes it")
}

fn read(image: &Image, maps: &Arc<Maps>) -> ReadPolls {
    let (heap, maps) = (image.heap, Arc::clone(maps));
    let load = move |at| maps.load_u64(at).expect("a word");
    Box::new(move || heap.polls().map(&load).collect())
}

/// Keeps all processors polling until `is_so` holds.
fn poll_until(is_so: impl Fn() -> bool + Sync) {
    let start = Instant::now();
    let n_threads = n_possible_processors().expect("processors");
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                let to = socket.local_addr().expect("an address");
                while !is_so() && start.elapsed() < TIMEOUT {
                    socket.send_to(&[1], to).expect("sent");
                }
            });
        }
    });
    assert!(is_so(), "polls change nothing");
}

#[test]
fn a_processor_is_within_a_poll_from_its_first_packet_until_a_poll_has_ended() {
    in_root_namespace(|| {
        ip("link set lo up");
        let image = testing::image();
        let maps = Arc::new(Maps::create(&image, 1).expect("maps"));
        let program = program(&image, &maps);
        let read_words = read(&image, &maps);
        assert!(read_words().iter().all(|word| *word == 0));
        let run = || program.test_run(&frame(), 50).expect("it runs");
        run();
        // A test run is outside of any poll, and no tracepoint program reports the end of polls yet.
        let words = read_words();
        assert!(words.iter().all(|word| *word < 2), "{words:?}");
        assert!(words.contains(&1), "{words:?}");
        let graces = Arc::new(Graces::new(
            bpf::wait_for_programs,
            Some(read(&image, &maps)),
        ));
        let thread = graces.start(|| ()).expect("a thread");
        let moment = graces.now();
        graces.ask(moment);
        assert!(!graces.look().has_ended && !graces.is_past(moment));
        graces.wait_past(moment).expect("RCU ends it");
        assert!(read_words().contains(&1), "no poll has");
        let heap = image.map(MapRole::Heap).expect("a heap");
        let heap = maps.get(heap).expect("a heap");
        let _poll_ends = PollEnds::new(heap, image.heap, None).expect("a tracepoint");
        poll_until(|| read_words().iter().all(|word| word % 2 == 0));
        let words = read_words();
        assert!(words.iter().all(|word| *word <= 2), "{words:?}");
        graces.stop();
        thread.join().expect("no panic");
    });
}

fn send(port: &mut AfPacketPort, n_frames: usize) {
    let frame = frame();
    for _ in 0..n_frames {
        port.transmit(0, frame[..].into()).expect("there is room");
    }
    port.flush().expect("sent");
}

/// Receives copies, and appends the instance (`egress_rid`) of each to `instances`.
fn take(port: &mut AfPacketPort, instances: &mut Vec<u16>) {
    let mut take = |copy: &[u8]| instances.push(u16::from_be_bytes([copy[18], copy[19]]));
    port.receive(0, 64, &mut take).expect("received");
}

/// Once true, `until_over` returns.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// A wait for RCU that lasts until the test is over, as if some program kept running, or until a timeout.
fn until_over() -> io::Result<()> {
    let start = Instant::now();
    while !IS_OVER.load(Ordering::SeqCst) && start.elapsed() < 6 * TIMEOUT {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A switch with one port, whose grace periods only NAPI polls end.
struct WithoutRcu {
    switch: Switch,
    table: TableId,
    outside: AfPacketPort,
    _port: AfXdpPort,
}

impl WithoutRcu {
    fn new() -> WithoutRcu {
        veth_pair("in0", "out0");
        // With GRO the other end of the veth pair accepts redirected frames although it has no XDP program.
        ethtool("-K out0 gro on");
        let port = AfXdpPort::open("in0", &AfXdpConfig::default()).expect("a port");
        let outside = AfPacketPort::open("out0", AfPacketConfig::default()).expect("a port");
        let mut switch = Switch::new(SwitchConfig::default());
        switch.add_port(PortId(0));
        let program = testing::program();
        let table = program.table("ExchangeIngress.addresses").expect("a table");
        switch.set_program(program);
        let ports = vec![KernelPort {
            id: PortId(0),
            interface: port.interface(),
        }];
        let clock = Box::new(bpf::kernel_clock_ns);
        let offload = KernelOffload::new(ports, clock).waiting(until_over);
        switch.set_offload(Some(Box::new(offload)));
        WithoutRcu {
            switch,
            table,
            outside,
            _port: port,
        }
    }

    /// Returns a table entry for the address of [`frame`].
    fn entry(&self, action: &str, args: &[u16]) -> TableEntry {
        let program = self.switch.program().expect("a program");
        let action = program.action_of(self.table, &format!("ExchangeIngress.{action}"));
        let args = args.iter().map(|arg| arg.to_be_bytes().to_vec());
        let call = ActionCall {
            action: action.expect("an action"),
            args: args.collect(),
        };
        let key = vec![MatchField::Exact(vec![2, 0, 0, 0, 0, 2])];
        TableEntry::new(key, 0, call)
    }

    fn drain(&mut self) {
        let token = self.switch.begin_drain();
        let start = Instant::now();
        while !self.switch.is_drained(token) {
            assert!(start.elapsed() < TIMEOUT, "polls end no period");
            thread::yield_now();
        }
    }

    /// Sends a frame and returns the instances of its copies.
    fn instances(&mut self, n_copies: usize) -> Vec<u16> {
        send(&mut self.outside, 1);
        let mut instances = Vec::new();
        let start = Instant::now();
        while instances.len() < n_copies && start.elapsed() < TIMEOUT {
            take(&mut self.outside, &mut instances);
        }
        instances
    }
}

fn group(first: u16) -> MulticastGroup {
    let replicas = (first..first + 2).map(|instance| Replica {
        port: PortId(0),
        instance,
    });
    MulticastGroup {
        id: 5,
        replicas: replicas.collect(),
        ..MulticastGroup::default()
    }
}

#[test]
fn changes_behind_each_other_are_seen_within_polls_whatever_rcu_waits_for() {
    in_root_namespace(|| {
        let mut beside = WithoutRcu::new();
        let entry = beside.entry("flood", &[5]);
        beside
            .switch
            .insert_entry(beside.table, entry)
            .expect("room");
        beside
            .switch
            .insert_multicast_group(group(0))
            .expect("room");
        beside.drain();
        assert_eq!(beside.instances(2), [0, 1]);
        let mut taken = Vec::new();
        for n in 1..=40 {
            let start = Instant::now();
            beside
                .switch
                .modify_multicast_group(group(2 * n))
                .expect("it is there");
            beside.drain();
            taken.push(start.elapsed());
            assert_eq!(beside.instances(2), [2 * n, 2 * n + 1]);
        }
        taken.sort();
        println!("until a group's change is seen: {taken:?}");
        for n in 1..=40 {
            let entry = beside.entry("forward", &[0, n]);
            beside
                .switch
                .modify_entry(beside.table, entry)
                .expect("it is there");
            if n % 2 == 0 {
                beside.drain();
                assert_eq!(beside.instances(1), [n]);
            }
        }
        let status = beside.switch.offload_status();
        assert!(
            matches!(status, Some(OffloadStatus::Forwarding(_))),
            "{status:?}"
        );
        IS_OVER.store(true, Ordering::SeqCst);
        beside.switch.set_offload(None);
    });
}

/// How many frames are sent at once, so that one poll handles several frames.
const BURST: usize = 32;

/// Sends frames until `is_over`, and returns the instances of all copies, two for each frame.
fn copies_until(outside: &mut AfPacketPort, is_over: &AtomicBool) -> Vec<u16> {
    let (mut instances, mut n_sent) = (Vec::new(), 0);
    while !is_over.load(Ordering::SeqCst) {
        send(outside, BURST);
        n_sent += BURST;
        let start = Instant::now();
        while instances.len() < 2 * n_sent {
            assert!(start.elapsed() < TIMEOUT, "{} copies", instances.len());
            take(outside, &mut instances);
        }
    }
    instances
}

#[test]
fn no_packet_sees_a_mix_of_versions_that_change_all_the_time() {
    in_root_namespace(|| {
        let mut beside = WithoutRcu::new();
        let entry = beside.entry("flood", &[5]);
        let inserted = beside.switch.insert_entry(beside.table, entry);
        inserted.expect("room");
        beside
            .switch
            .insert_multicast_group(group(0))
            .expect("room");
        beside.drain();
        let is_over = AtomicBool::new(false);
        let WithoutRcu {
            switch, outside, ..
        } = &mut beside;
        let mut n_changes = 0_u32;
        let copies = thread::scope(|scope| {
            let copies = scope.spawn(|| copies_until(outside, &is_over));
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(2) && !copies.is_finished() {
                n_changes += 1;
                let next = group((2 * (n_changes % 16_384)) as u16);
                switch.modify_multicast_group(next).expect("it is there");
            }
            is_over.store(true, Ordering::SeqCst);
            copies.join().expect("copies of all frames")
        });
        let mut versions = BTreeSet::new();
        for pair in copies.chunks_exact(2) {
            assert!(pair[0] % 2 == 0 && pair[1] == pair[0] + 1, "{pair:?}");
            versions.insert(pair[0]);
        }
        println!(
            "{} of {n_changes} versions, {} copies",
            versions.len(),
            copies.len()
        );
        // If polls ended no period, only the first few versions would be seen.
        assert!(versions.len() > 20, "{} of {n_changes}", versions.len());
        IS_OVER.store(true, Ordering::SeqCst);
        beside.switch.set_offload(None);
    });
}
