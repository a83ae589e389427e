//! Tests the contract of offloads, which forward frames in place of the switch's engine. The offload here works in
//! memory and takes part of the frames: a switch with this offload counts, forwards and answers like a switch without
//! an offload.

use std::sync::{Arc, Mutex, MutexGuard};

use dataplane::{
    ActionCall, ControlError, ControlErrorKind, CounterValue, DropReason, MatchField,
    MulticastGroup, Nanos, OffloadStatus, OwnedTransmit, PortId, Replica, Switch, SwitchConfig,
    TableAction, TableEntry, TraceEvent, TraceSink,
};
use testkit::builder::*;
use testkit::offload::{CELLS, Core, Double, Takes, program};

/// Two equal switches, one with an offload.
struct Pair {
    with: Switch,
    core: Arc<Mutex<Core>>,
    alone: Switch,
}

impl Pair {
    fn new(takes: Takes, builder: &Builder) -> Self {
        let mut with = builder.switch(SwitchConfig::default());
        let (offload, core) = Double::new(takes);
        with.set_offload(Some(offload));
        let alone = builder.switch(SwitchConfig::default());
        Self { with, core, alone }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap()
    }

    /// Makes the same call on both switches; their answers must be equal.
    fn both<T: PartialEq + std::fmt::Debug>(&mut self, call: impl Fn(&mut Switch) -> T) -> T {
        let (with, alone) = (call(&mut self.with), call(&mut self.alone));
        assert_eq!(with, alone);
        with
    }

    /// Gives a frame to both switches; returns whether the offload took it.
    fn receive(&mut self, now: Nanos, port: u16, frame: &[u8]) -> bool {
        let port = PortId(port);
        self.alone.handle_frame(now, port, frame);
        let is_taken = self.core().receive(now, port, frame);
        if !is_taken {
            self.with.handle_frame(now, port, frame);
        }
        is_taken
    }

    /// Runs both switches; they must send the same frames, in any order.
    fn run(&mut self, now: Nanos) -> Vec<OwnedTransmit> {
        let mut with = self.core().run(now);
        with.extend(drain(&mut self.with, now));
        let mut alone = drain(&mut self.alone, now);
        let order = |sent: &OwnedTransmit| (sent.port, sent.frame.clone());
        with.sort_by_key(order);
        alone.sort_by_key(order);
        assert_eq!(brief(&with), brief(&alone));
        with
    }

    /// Asserts that counters, entries and latencies of both switches are equal.
    #[track_caller]
    fn assert_equal(&mut self) {
        self.with.collect();
        assert_accounted(&self.with);
        assert_eq!(numbers(&mut self.with), numbers(&mut self.alone));
        assert_eq!(self.with.latency(), self.alone.latency());
        let table =
            |switch: &Switch| switch.entries(switch.program().unwrap().table("l2").unwrap());
        assert_eq!(table(&self.with), table(&self.alone));
    }

    fn forwards(&self) -> bool {
        let status = self.with.offload_status();
        matches!(status, Some(OffloadStatus::Forwarding(_)))
    }
}

/// The counters of a switch, and the cells of its arrays.
fn numbers(switch: &mut Switch) -> Vec<(String, u64)> {
    let mut numbers = Vec::new();
    let mut add = |name: &str, number: u64| numbers.push((name.to_owned(), number));
    let counters = switch.counters();
    add("received", counters.received);
    add("replicated", counters.created_by_replication);
    add("transmitted", counters.transmitted);
    for (port, counted) in counters.ports() {
        add(&format!("{port} {counted:?}"), 0);
    }
    for (reason, count) in counters.drops() {
        add(reason.name(), count);
    }
    let program = switch.program().unwrap();
    let table = counters.table(program.table("l2").unwrap());
    add("hits", table.hits);
    add("misses", table.misses);
    let seen = program.counter("seen").unwrap();
    for cell in 0..CELLS {
        let counted = switch.counter_cell(seen, cell).unwrap();
        add(&format!("seen {cell} {counted:?}"), 0);
    }
    numbers
}

fn key(kind: u8) -> Vec<MatchField> {
    vec![MatchField::Exact(vec![kind])]
}

fn action(switch: &Switch, name: &str, argument: u16) -> TableAction {
    let program = switch.program().unwrap();
    let table = program.table("l2").unwrap();
    let args = match name {
        "drop" => vec![],
        _ => vec![argument.to_be_bytes().to_vec()],
    };
    let action = program.action_of(table, name).unwrap();
    ActionCall { action, args }.into()
}

fn insert(switch: &mut Switch, kind: u8, name: &str, argument: u16) -> Result<(), ControlError> {
    let table = switch.program().unwrap().table("l2").unwrap();
    let action = action(switch, name, argument);
    switch.insert_entry(table, TableEntry::new(key(kind), 0, action))
}

fn delete(switch: &mut Switch, kind: u8) -> Result<(), ControlError> {
    let table = switch.program().unwrap().table("l2").unwrap();
    switch.delete_entry(table, &key(kind), 0)
}

fn group(id: u32, ports: &[u16]) -> MulticastGroup {
    let replica = |(instance, port): (u16, &u16)| Replica {
        port: PortId(*port),
        instance,
    };
    MulticastGroup {
        id,
        replicas: (1..).zip(ports).map(replica).collect(),
        ..MulticastGroup::default()
    }
}

fn stamp(switch: &mut Switch, value: u16) -> Result<(), ControlError> {
    let register = switch.program().unwrap().register("stamp").unwrap();
    switch.set_register_cell(register, 0, &value.to_be_bytes())
}

/// Makes a random control call; equal random numbers give equal calls.
fn random_call(switch: &mut Switch, random: &mut fastrand::Rng) -> Result<(), ControlError> {
    let (kind, id, port) = (random.u8(0..8), random.u32(1..4), random.u16(0..10));
    let name = random
        .choice(["forward", "forward", "flood", "drop"])
        .unwrap();
    let ports: Vec<u16> = (0..10).filter(|_| random.u8(0..3) == 0).collect();
    let value = CounterValue {
        packets: random.u64(0..100),
        bytes: random.u64(0..100),
    };
    let program = switch.program().unwrap();
    let (table, seen) = (
        program.table("l2").unwrap(),
        program.counter("seen").unwrap(),
    );
    let argument = if name == "flood" { port % 5 } else { port };
    match random.u8(0..12) {
        0..3 => insert(switch, kind, name, argument),
        3 => {
            let action = action(switch, name, argument);
            switch.modify_entry(table, TableEntry::new(key(kind), 0, action))
        }
        4 => delete(switch, kind),
        5 => {
            let default = (port < 5).then(|| action(switch, name, argument));
            switch.set_default_action(table, default)
        }
        6 => switch.insert_multicast_group(group(id, &ports)),
        7 => switch.modify_multicast_group(group(id, &ports)),
        8 => switch.delete_multicast_group(id),
        9 => switch.set_direct_counter(table, &key(kind), 0, value),
        10 => switch.set_counter_cells(seen, 0..u64::from(kind), value),
        _ => stamp(switch, port),
    }
}

/// Runs random frames and control calls, alone and in batches, and compares the two switches. Returns the number of
/// frames that the offload took.
fn random_run(takes: Takes, seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pair = Pair::new(takes, &program(false));
    let (mut now, mut n_taken) = (0, 0);
    for _ in 0..300 {
        now += random.u64(1..5_000);
        for _ in 0..random.usize(0..6) {
            let mut frame: Vec<u8> = (0..random.usize(2..12)).map(|_| random.u8(..)).collect();
            frame[0] %= 9;
            n_taken += u64::from(pair.receive(now, random.u16(0..9), &frame));
        }
        if random.bool() {
            pair.with.collect();
            assert_accounted(&pair.with);
        }
        now += random.u64(0..1_000);
        pair.run(now);
        let (is_batch, seed) = (random.bool(), random.u64(..));
        pair.both(|switch| {
            let mut random = fastrand::Rng::with_seed(seed);
            if is_batch {
                switch.begin_batch();
            }
            let results: Vec<_> = (0..random.usize(0..5))
                .map(|_| random_call(switch, &mut random))
                .collect();
            switch.end_batch();
            results
        });
        if random.u8(0..4) == 0 {
            pair.assert_equal();
        }
    }
    pair.assert_equal();
    assert!(pair.forwards());
    n_taken
}

#[test]
fn accounts_add_up_and_are_those_of_a_switch_alone() {
    for takes in [Takes::Half, Takes::EvenPorts, Takes::All] {
        let n_taken: u64 = (0..10).map(|seed| random_run(takes, seed)).sum();
        assert!(n_taken > 1_000, "{takes:?}: {n_taken} frames");
    }
}

#[test]
fn it_is_notified_of_every_write_in_order_and_of_no_refused_one() {
    let mut pair = Pair::new(Takes::All, &program(false));
    let switch = &mut pair.with;
    insert(switch, 1, "forward", 2).unwrap();
    let refused = insert(switch, 1, "forward", 2).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::AlreadyExists);
    switch.begin_batch();
    switch.insert_multicast_group(group(3, &[1, 2])).unwrap();
    stamp(switch, 7).unwrap();
    insert(switch, 2, "flood", 3).unwrap();
    delete(switch, 1).unwrap();
    switch.delete_multicast_group(9).unwrap_err();
    switch.end_batch();
    switch.end_batch();
    switch.add_port(PortId(8));
    let log = pair.core().log.join(", ");
    assert_eq!(
        log,
        "load, insert entry, commit, group 3, register 0 0..1, insert entry, remove entry, commit, \
         port 8, commit"
    );
}

#[test]
fn a_batch_becomes_visible_as_a_whole() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    let ask = |pair: &mut Pair| {
        let mut core = pair.core();
        assert!(core.receive(0, PortId(0), &[1, 0, 0, 0]));
        brief(&core.run(0))
    };
    assert_eq!(ask(&mut pair), [(2, vec![1, 0, 0, 0])]);
    pair.with.begin_batch();
    stamp(&mut pair.with, 5).unwrap();
    assert_eq!(ask(&mut pair), [(2, vec![1, 0, 0, 0])]);
    delete(&mut pair.with, 1).unwrap();
    insert(&mut pair.with, 1, "forward", 3).unwrap();
    assert_eq!(ask(&mut pair), [(2, vec![1, 0, 0, 0])]);
    pair.with.end_batch();
    assert_eq!(ask(&mut pair), [(3, vec![1, 0, 0, 5])]);
}

#[test]
fn a_program_that_is_set_in_a_batch_becomes_visible_with_it() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.with.begin_batch();
    pair.with.set_program(program(false).program());
    insert(&mut pair.with, 1, "forward", 2).unwrap();
    let ask = |pair: &mut Pair| {
        let mut core = pair.core();
        core.receive(0, PortId(0), &[1, 0, 0, 0])
    };
    assert!(!ask(&mut pair), "all are punted meanwhile");
    pair.with.end_batch();
    assert!(ask(&mut pair));
    assert_eq!(brief(&pair.core().run(0)), [(2, vec![1, 0, 0, 0])]);
    let log = pair.core().log.join(", ");
    assert_eq!(log, "load, stop, load");
}

#[test]
fn a_hit_is_of_the_entry_that_was_hit_and_of_no_later_one() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    pair.receive(0, 0, &[1, 0, 0, 0]);
    pair.run(0);
    pair.both(|switch| delete(switch, 1)).unwrap();
    pair.both(|switch| insert(switch, 2, "forward", 2)).unwrap();
    pair.receive(0, 0, &[2, 0, 0, 0]);
    pair.run(0);
    pair.assert_equal();
    let table = pair.with.program().unwrap().table("l2").unwrap();
    let counter = pair.with.direct_counter(table, &key(2), 0).unwrap();
    assert_eq!(counter.packets, 1);
}

#[test]
fn a_refused_program_is_the_engine_s_and_the_next_one_is_offered_again() {
    let mut pair = Pair::new(Takes::Half, &program(true));
    let reason = "register \"last\": offload and engine would both write it".to_owned();
    let refused = OffloadStatus::Refused(reason);
    assert_eq!(pair.with.offload_status(), Some(&refused));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    for value in 0..64 {
        assert!(!pair.receive(0, 0, &[1, 0, 0, value]));
    }
    assert_eq!(pair.run(0).len(), 64);
    pair.assert_equal();
    pair.both(|switch| switch.set_program(program(false).program()));
    assert!(pair.forwards());
}

#[test]
fn an_offload_that_fails_is_taken_out_and_the_call_holds() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    assert!(pair.receive(0, 0, &[1, 0, 0, 1]));
    pair.run(0);
    // One packet is inside the offload when the commit at the end of the batch fails.
    let frame = [1, 0, 0, 2];
    assert!(pair.core().receive(0, PortId(0), &frame));
    pair.core().fails = Some("map \"l2\": no memory");
    pair.both(|switch| {
        switch.begin_batch();
        insert(switch, 2, "forward", 3).unwrap();
        switch.end_batch();
    });
    let failed = OffloadStatus::Failed("map \"l2\": no memory".to_owned());
    assert_eq!(pair.with.offload_status(), Some(&failed));
    assert_eq!(pair.with.counters().dropped(DropReason::OffloadStopped), 1);
    assert_eq!(pair.with.packets_inside(), 0);
    assert_accounted(&pair.with);
    // The offload's counts stay; the engine continues with everything written.
    pair.both(|switch| insert(switch, 4, "forward", 5)).unwrap();
    for kind in [1, 2, 4] {
        assert!(!pair.receive(10, 0, &[kind, 0, 0, 0]));
    }
    assert_eq!(pair.run(10).len(), 3);
    let table = pair.with.program().unwrap().table("l2").unwrap();
    let counter = pair.with.direct_counter(table, &key(1), 0).unwrap();
    assert_eq!(counter.packets, 2);
    assert_eq!(pair.core().log.last().unwrap(), "stop");
    // Setting and removing a trace sink does not reload the failed offload; a new program does.
    pair.with.set_trace(Some(Box::new(Silent)));
    pair.with.set_trace(None);
    assert!(!pair.forwards());
    pair.with.set_program(program(false).program());
    assert!(pair.forwards());
}

#[test]
fn an_offload_that_is_full_is_loaded_anew_with_all_that_is_written() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    assert!(pair.receive(0, 0, &[1, 0, 0, 1]));
    pair.run(0);
    pair.core().log.clear();
    pair.core().is_full = true;
    pair.both(|switch| {
        switch.begin_batch();
        insert(switch, 2, "forward", 3).unwrap();
        insert(switch, 4, "forward", 5).unwrap();
        // `collect` within the batch must not show half of the batch.
        switch.collect();
        switch.end_batch();
    });
    let log = pair.core().log.clone();
    let expected = ["insert entry", "insert entry", "commit", "stop", "load"];
    assert_eq!(log, expected);
    assert!(pair.forwards());
    for kind in [1, 2, 4] {
        assert!(pair.receive(10, 0, &[kind, 0, 0, 0]));
    }
    assert_eq!(pair.run(10).len(), 3);
    pair.assert_equal();
}

#[test]
fn a_program_is_forgotten_when_it_is_replaced_and_not_when_it_is_loaded_anew() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.core().is_full = true;
    insert(&mut pair.with, 1, "forward", 2).unwrap();
    pair.with.set_trace(Some(Box::new(Silent)));
    pair.with.set_trace(None);
    assert!(pair.forwards());
    let n_before = pair.core().n_forgotten;
    // The switch makes the offload forget a program even while the offload does not forward.
    pair.with.begin_batch();
    pair.with.set_program(program(false).program());
    pair.with.set_program(program(false).program());
    assert_eq!(pair.core().n_forgotten, n_before + 2);
    pair.with.end_batch();
    assert!(pair.forwards());
    assert_eq!(pair.core().n_forgotten, n_before + 2);
}

#[test]
fn an_offload_that_cannot_be_asked_is_taken_out_before_the_numbers_are_read() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    pair.receive(0, 0, &[1, 0, 0, 1]);
    pair.run(0);
    pair.core().is_gone = true;
    pair.assert_equal();
    let failed = OffloadStatus::Failed("port 1: the interface is gone".to_owned());
    assert_eq!(pair.with.offload_status(), Some(&failed));
    assert!(!pair.receive(1, 0, &[1, 0, 0, 1]));
    assert_eq!(pair.run(1).len(), 1);
    pair.assert_equal();
}

#[test]
fn a_drain_waits_for_what_is_inside_and_for_what_is_not_shown_yet() {
    let mut pair = Pair::new(Takes::All, &program(false));
    let shared = pair.core.clone();
    let core = || shared.lock().unwrap();
    let switch = &mut pair.with;
    insert(switch, 1, "forward", 2).unwrap();
    core().is_slow = true;
    assert!(core().receive(0, PortId(0), &[1, 0, 0, 0]));
    stamp(switch, 5).unwrap();
    let first = switch.begin_drain();
    assert!(!switch.is_drained(first));
    assert_eq!(core().run(0).len(), 1);
    assert!(!switch.is_drained(first), "packets see what was before");
    core().show();
    assert!(switch.is_drained(first));
    // A packet that arrives after the drain began does not delay it.
    assert!(core().receive(0, PortId(0), &[1, 0, 0, 0]));
    assert!(switch.is_drained(first));
    let second = switch.begin_drain();
    assert!(switch.is_drained(first) && !switch.is_drained(second));
    // A packet that is in the engine when a drain begins delays it.
    core().run(0);
    switch.handle_frame(0, PortId(0), &[1, 0, 0, 0]);
    let third = switch.begin_drain();
    assert!(switch.is_drained(second) && !switch.is_drained(third));
    drain(switch, 0);
    assert!(switch.is_drained(third));
}

#[test]
fn a_program_is_replaced_while_frames_are_inside() {
    let mut pair = Pair::new(Takes::EvenPorts, &program(false));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    for port in 0..8 {
        pair.receive(0, port, &[1, 0, 0, 0]);
    }
    assert_eq!(pair.core().n_inside(), 4);
    pair.both(|switch| switch.set_program(program(false).program()));
    assert_eq!(pair.with.counters().dropped(DropReason::PipelineChanged), 8);
    pair.assert_equal();
    // Nothing is left of the old program.
    pair.both(|switch| insert(switch, 2, "forward", 3)).unwrap();
    for port in 0..8 {
        pair.receive(0, port, &[1, 0, 0, 0]);
        pair.receive(0, port, &[2, 0, 0, 0]);
    }
    assert_eq!(pair.run(0).len(), 8);
    pair.assert_equal();
    // Once the offload is removed, the engine serves all ports.
    pair.with.set_offload(None);
    assert!(!pair.receive(1, 0, &[2, 0, 0, 0]));
    assert_eq!(pair.run(1).len(), 1);
    pair.assert_equal();
}

#[test]
fn a_port_is_taken_over_when_it_is_added() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.both(|switch| insert(switch, 1, "forward", 8)).unwrap();
    assert!(!pair.receive(0, 8, &[1, 0, 0, 0]), "nobody has that port");
    assert!(pair.receive(0, 0, &[1, 0, 0, 0]));
    assert_eq!(pair.run(0), []);
    assert_eq!(pair.with.counters().dropped(DropReason::PortUnknown), 1);
    pair.both(|switch| switch.add_port(PortId(8)));
    assert!(pair.receive(0, 8, &[1, 0, 0, 0]));
    assert_eq!(pair.run(0).len(), 1);
    pair.assert_equal();
}

/// A trace sink that discards all events.
struct Silent;

impl TraceSink for Silent {
    fn event(&mut self, _: &TraceEvent) {}
}

#[test]
fn all_frames_are_punted_while_somebody_listens_to_a_trace() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    assert!(pair.receive(0, 0, &[1, 0, 0, 0]));
    pair.run(0);
    pair.with.set_trace(Some(Box::new(Silent)));
    assert_eq!(pair.with.offload_status(), Some(&OffloadStatus::Waiting));
    assert!(!pair.receive(0, 0, &[1, 0, 0, 0]));
    // When the offload is loaded again, it gets everything that was written meanwhile.
    pair.both(|switch| {
        insert(switch, 2, "flood", 3).unwrap();
        switch.insert_multicast_group(group(3, &[4, 5])).unwrap();
        switch.add_port(PortId(9));
        stamp(switch, 6)
    })
    .unwrap();
    pair.run(0);
    pair.with.set_trace(None);
    for kind in [1, 2] {
        assert!(pair.receive(5, 9, &[kind, 0, 0, 0]));
    }
    assert_eq!(pair.run(6).len(), 3);
    pair.assert_equal();
}

#[test]
fn all_frames_are_punted_while_a_port_is_disabled() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    assert!(pair.receive(0, 0, &[1, 0, 0, 0]));
    assert_eq!(pair.run(0).len(), 1);
    for port in [2, 3] {
        pair.both(|switch| switch.set_port_enabled(PortId(port), false));
    }
    assert_eq!(pair.with.offload_status(), Some(&OffloadStatus::Waiting));
    assert!(!pair.receive(0, 0, &[1, 0, 0, 0]));
    assert_eq!(pair.run(0), []);
    pair.both(|switch| switch.set_port_enabled(PortId(2), true));
    assert!(!pair.receive(0, 0, &[1, 0, 0, 0]), "another is still");
    pair.both(|switch| switch.set_port_enabled(PortId(3), true));
    assert!(pair.receive(0, 0, &[1, 0, 0, 0]));
    assert_eq!(pair.run(1).len(), 2);
    pair.assert_equal();
}

#[test]
fn a_register_of_its_own_reads_as_packets_and_control_calls_have_written_it() {
    let mut pair = Pair::new(Takes::All, &program(true));
    pair.both(|switch| insert(switch, 1, "forward", 2)).unwrap();
    let read = |switch: &mut Switch| {
        switch.collect();
        let last = switch.program().unwrap().register("last").unwrap();
        switch.register_cell(last, 2)
    };
    let write = |switch: &mut Switch| {
        let last = switch.program().unwrap().register("last").unwrap();
        switch.set_register_cells(last, 0..CELLS, &[9])
    };
    pair.receive(0, 0, &[1, 0, 0, 77]);
    pair.run(0);
    assert_eq!(pair.both(read), Ok(vec![77]));
    pair.receive(0, 0, &[1, 0, 0, 78]);
    pair.run(0);
    pair.both(write).unwrap();
    let found = pair.both(read);
    assert_eq!(found, Ok(vec![9]), "the last to write it was a call");
    pair.receive(0, 0, &[1, 0, 0, 79]);
    pair.run(0);
    assert_eq!(pair.both(read), Ok(vec![79]));
}

#[test]
fn an_entry_that_only_the_offload_hits_does_not_become_idle() {
    let mut pair = Pair::new(Takes::All, &program(false));
    pair.both(|switch| {
        let table = switch.program().unwrap().table("l2").unwrap();
        let mut entry = TableEntry::new(key(1), 0, action(switch, "forward", 2));
        entry.idle_timeout_ns = 1_000;
        switch.insert_entry(table, entry)
    })
    .unwrap();
    pair.receive(900, 0, &[1, 0, 0, 0]);
    pair.run(900);
    let idle = |now| {
        move |switch: &mut Switch| {
            switch.handle_timeout(now);
            switch.poll_idle_timeout()
        }
    };
    assert_eq!(pair.both(idle(1_000)), None);
    assert!(pair.both(idle(1_900)).is_some());
}
