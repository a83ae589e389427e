//! Overload: more frames arrive than can be sent. Simulates, in virtual time, a machine on which every pass takes time
//! and a full receive ring loses frames.

use std::collections::VecDeque;

use dataplane::{
    CloneSession, DropReason, MulticastGroup, PortId, Replica, Stream, Switch, SwitchConfig,
};
use testkit::builder::*;

const SECOND: u64 = 1_000_000_000;
/// Long enough to send many times the packets that the queues hold.
const DURATION_NS: u64 = SECOND / 8;
/// Duration of a pass, ingress or egress.
const PASS_NS: u64 = 1_000;
/// Frames that the kernel buffers while the switch is busy.
const RING_FRAMES: usize = 1_024;
const BATCH_FRAMES: usize = 64;

/// Makes a program that multicasts packets. The header field `kind` is the multicast group, and `left` is the priority
/// if `gives_priorities` is set. Each copy gets the number of its viewer (its replica's instance) in `value`.
fn program(gives_priorities: bool) -> Builder {
    let mut b = Builder::default();
    let mut steps = vec![assign("standard_metadata.mcast_grp", field("pkt.kind"))];
    if gives_priorities {
        steps.push(assign("standard_metadata.priority", field("pkt.left")));
    }
    b.run(INGRESS, "in", &steps);
    let whose = assign("pkt.value", field("standard_metadata.egress_rid"));
    b.run(EGRESS, "out", &[whose]);
    b
}

fn replicas(n: u16, port: impl Fn(u16) -> u16) -> Vec<Replica> {
    let replica = |instance| Replica {
        port: PortId(port(instance)),
        instance,
    };
    (0..n).map(replica).collect()
}

fn switch(gives_priorities: bool, config: SwitchConfig, replicas: Vec<Replica>) -> Switch {
    let mut switch = program(gives_priorities).switch(config);
    let group = MulticastGroup {
        id: 1,
        replicas,
        backups: Vec::new(),
    };
    switch.insert_multicast_group(group).unwrap();
    switch
}

/// Counts and the latency of the frames of one priority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Class {
    offered: u64,
    /// Number of copies sent to each viewer, indexed by viewer.
    copies: Vec<u64>,
    /// The longest time that a copy spends in the switch.
    latency_ns: u64,
}

/// A machine with one processor.
struct Machine {
    switch: Switch,
    n_viewers: u64,
    now: u64,
    ring: VecDeque<u8>,
    ring_lost: u64,
    n_passes: u64,
    classes: [Class; 2],
}

impl Machine {
    fn new(gives_priorities: bool, n_viewers: u16) -> Self {
        let config = SwitchConfig::default();
        let class = Class {
            copies: vec![0; usize::from(n_viewers)],
            ..Class::default()
        };
        Self {
            switch: switch(gives_priorities, config, replicas(n_viewers, |_| 1)),
            n_viewers: u64::from(n_viewers),
            now: 0,
            ring: VecDeque::new(),
            ring_lost: 0,
            n_passes: 0,
            classes: [class.clone(), class],
        }
    }

    /// The highest packet rate at which every copy can be made.
    fn capacity(&self) -> u64 {
        SECOND / (PASS_NS * (1 + self.n_viewers))
    }

    fn arrive(&mut self, priority: u8) {
        self.classes[usize::from(priority)].offered += 1;
        if self.ring.len() < RING_FRAMES {
            self.ring.push_back(priority);
        } else {
            self.ring_lost += 1;
        }
    }

    fn receive(&mut self, most: usize) {
        for _ in 0..most {
            let Some(priority) = self.ring.pop_front() else {
                return;
            };
            let frame = [1, priority, 0, 0];
            self.switch.handle_frame(self.now, PortId(0), &frame);
        }
    }

    /// Offers packets for a while, every `audio`th with priority 1; returns the number of copies
    /// sent.
    fn run(&mut self, packets_per_second: u64, audio: u64) -> u64 {
        let interval = SECOND / packets_per_second;
        let (mut next, mut n_arrived, mut n_copies) = (0, 0, 0u64);
        while self.now < DURATION_NS {
            while next <= self.now {
                n_arrived += 1;
                self.arrive(u8::from(n_arrived % audio == 0));
                next += interval;
            }
            let Some(sent) = self.switch.poll_transmit(self.now) else {
                if self.ring.is_empty() {
                    self.now = next;
                }
                self.receive(BATCH_FRAMES);
                continue;
            };
            let [_, priority, _, viewer] = sent.frame.head.try_into().unwrap();
            let class = &mut self.classes[usize::from(priority)];
            class.copies[usize::from(viewer)] += 1;
            n_copies += 1;
            // An ingress pass counts all copies of its packet but one as replicas, whether they are sent or not.
            let counters = self.switch.counters();
            let n_ingress = counters.created_by_replication / (self.n_viewers - 1);
            let passes = n_ingress + n_copies;
            self.now += (passes - self.n_passes) * PASS_NS;
            self.n_passes = passes;
            if n_copies % 16 == 0 {
                self.receive(self.switch.n_frames_wanted());
            }
        }
        let latency = self.switch.latency();
        self.classes[0].latency_ns = latency.ports[0].1.max_ns;
        assert_accounted(&self.switch);
        n_copies
    }
}

#[test]
fn the_rate_of_copies_rises_and_stays() {
    for gives_priorities in [false, true] {
        for n_viewers in [8, 64] {
            let capacity = Machine::new(gives_priorities, n_viewers).capacity();
            let rate = |tenths: u64| {
                let mut machine = Machine::new(gives_priorities, n_viewers);
                machine.run(capacity * tenths / 10, 10)
            };
            let below = rate(1);
            let offered = capacity * DURATION_NS / SECOND / 10 * u64::from(n_viewers);
            assert!(
                below.abs_diff(offered) <= offered / 20,
                "{below} of {offered}"
            );
            let peak = [8, 10, 12].map(rate).into_iter().max().unwrap();
            for tenths in [15, 20, 50, 100] {
                let copies = rate(tenths);
                assert!(
                    copies * 100 >= peak * 95,
                    "{n_viewers} viewers, {tenths} tenths offered: {copies} copies, peak {peak}"
                );
            }
        }
    }
}

#[test]
fn every_viewer_of_a_group_loses_the_same() {
    for gives_priorities in [false, true] {
        let mut machine = Machine::new(gives_priorities, 64);
        machine.run(machine.capacity() * 10, u64::MAX);
        let copies = &machine.classes[0].copies;
        let (least, most) = (copies.iter().min().unwrap(), copies.iter().max().unwrap());
        assert!(*least > 10 && most - least <= 1, "{least} to {most}");
    }
}

#[test]
fn a_high_priority_at_a_tenth_of_the_load_loses_nothing() {
    // At higher loads the receive ring loses frames that had no look-ahead.
    for (n_viewers, tenths) in [(8, 12), (64, 15), (64, 30)] {
        let mut machine = Machine::new(true, n_viewers);
        machine.run(machine.capacity() * tenths / 10, 10);
        assert_eq!(machine.ring_lost, 0, "{n_viewers} viewers, {tenths} tenths");
        let dropped = machine
            .switch
            .counters()
            .dropped(DropReason::EgressQueueFull);
        assert!(dropped > 0 && dropped.is_multiple_of(u64::from(n_viewers)));
        let audio = &machine.classes[1];
        let waiting = audio.offered - audio.copies.iter().min().unwrap();
        // The last frames may still be in the switch or in the ring.
        assert!(
            waiting <= 1 + machine.ring.len() as u64,
            "{n_viewers} viewers, {tenths} tenths: {waiting} of {} are missing",
            audio.offered
        );
    }
}

#[test]
fn without_priorities_the_same_audio_is_lost_in_the_ring() {
    let mut machine = Machine::new(false, 64);
    machine.run(machine.capacity() * 3, 10);
    assert!(machine.ring_lost > 0);
    let audio = &machine.classes[1];
    assert!(audio.copies[0] < audio.offered / 2);
}

#[test]
fn latency_is_bounded_by_the_queues() {
    let mut machine = Machine::new(true, 64);
    machine.run(machine.capacity() * 10, u64::MAX);
    let queue = SwitchConfig::default().egress_queue_packets as u64;
    // The time until all packets of a full queue have left, with the ingress passes in between.
    let bound = queue * PASS_NS * 11 / 10;
    let latency = machine.classes[0].latency_ns;
    assert!(
        latency > bound / 2 && latency <= bound,
        "{latency} of {bound}"
    );
}

#[test]
fn a_packet_comes_to_all_viewers_at_a_port_or_to_none() {
    let config = SwitchConfig {
        egress_queue_packets: 8,
        egress_rate_pps: Some(1),
        ..SwitchConfig::default()
    };
    // Five viewers at port 1, one at port 2.
    let port = |viewer| if viewer == 2 { 2 } else { 1 };
    let mut switch = switch(false, config, replicas(6, port));
    for _ in 0..3 {
        switch.handle_frame(0, PortId(0), &[1, 0, 0, 0]);
    }
    let mut sent = drain(&mut switch, 0);
    sent.extend(drain(&mut switch, 100 * SECOND));
    let of_viewer = |viewer| sent.iter().filter(|it| it.frame[3] == viewer).count();
    let counts: Vec<usize> = (0..6).map(of_viewer).collect();
    assert_eq!(counts, [1, 1, 3, 1, 1, 1]);
    assert_eq!(switch.counters().dropped(DropReason::EgressQueueFull), 10);
    assert_accounted(&switch);
}

#[test]
fn what_waits_of_one_priority_takes_no_room_from_another() {
    let config = SwitchConfig {
        egress_queue_packets: 2,
        egress_rate_pps: Some(1),
        ..SwitchConfig::default()
    };
    let mut switch = switch(true, config, replicas(1, |_| 1));
    // The first packet of each priority leaves at once.
    for priority in [0, 0, 0, 0, 3, 3, 3] {
        switch.handle_frame(0, PortId(0), &[1, priority, 0, 0]);
    }
    let sent: Vec<u8> = drain(&mut switch, 0).iter().map(|it| it.frame[1]).collect();
    assert_eq!(sent, [0, 3]);
    assert_eq!(switch.counters().dropped(DropReason::EgressQueueFull), 1);
    assert_eq!(switch.packets_inside(), 4);
}

#[test]
fn times_in_the_switch_are_kept_by_port_and_stream() {
    let config = config_with(|it| it.egress_rate_pps = Some(1_000));
    let mut switch = switch(false, config, replicas(3, |_| 5));
    let replicas = replicas(1, |_| 6);
    let session = CloneSession {
        id: 7,
        replicas,
        truncate_bytes: None,
        class_of_service: 0,
    };
    switch.insert_clone_session(session).unwrap();
    exchange(&mut switch, 1_000, 0, &[1, 0, 0, 0]);
    while let Some(due) = switch.poll_timeout() {
        drain(&mut switch, due);
    }
    let latency = switch.latency();
    let [(PortId(5), summary)] = latency.ports[..] else {
        panic!("{latency:?}");
    };
    assert_eq!(summary.packets, 3);
    // One copy leaves per millisecond: after 0, 1 and 2 ms.
    assert_eq!(summary.sum_ns, 3_000_000);
    assert!(summary.max_ns.abs_diff(2_000_000) < 20_000, "{summary:?}");
    assert_eq!(latency.streams, [(Stream::MulticastGroup(1), summary)]);
}
