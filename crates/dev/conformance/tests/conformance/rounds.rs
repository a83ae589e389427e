//! Tests rounds, in which packets recirculate and create a clone in each pass through the pipeline. The native
//! engine runs several rounds in one call until something in a pass stops it (a clone to another session; a clone that
//! is truncated, dropped or recirculates itself; a drop, a group, a digest, a missing queue). Output and counts must be
//! the same as in the interpreter, which runs each pass separately.

use conformance::{
    compile::program_at,
    engines::{Case, Step, Write, native},
};
use control::Update;
use dataplane::{
    CloneSession, DropReason, MulticastGroup, PortId, Replica, Switch, SwitchConfig, limits,
};
use dataplane_jit::NativeOptions;
use fastrand::Rng;

const SEED: u64 = 0x0040_11d5;
const CASES: u64 = 60;
const FRAMES: usize = 60;
/// Clone sessions use ports below this number. Frames arrive at the same ports except the last.
const N_PORTS: u16 = 5;
/// Maximum number of passes of a frame.
const PASSES: u8 = 24;

const NO_CLONE: u8 = 4;
const SELDOM: u8 = 128;

fn options() -> [NativeOptions; 3] {
    let mut without = NativeOptions::ALL;
    without.parser_specialisation = false;
    [NativeOptions::NAIVE, without, NativeOptions::ALL]
}

fn random_config(rng: &mut Rng) -> SwitchConfig {
    SwitchConfig {
        recirculation_rate_pps: (rng.u8(..8) == 0).then_some(200_000),
        cpu_port: (rng.u8(..4) == 0).then_some(PortId(2)),
        egress_queue_packets: if rng.u8(..8) == 0 { 2 } else { 1_000 },
        ..SwitchConfig::default()
    }
}

fn set_up(rng: &mut Rng) -> Vec<Step> {
    let mut writes = vec![Write::of(Update::Insert(MulticastGroup {
        id: 1,
        replicas: vec![replica(1, 1), replica(1, 2), replica(3, 3)],
        backups: Vec::new(),
    }))];
    // There is no session 0.
    for id in 1..=3 {
        let is_usual = rng.u8(..4) != 0;
        let n_replicas = if is_usual { 1 } else { rng.u16(1..4) };
        let replicas = (1..=n_replicas).map(|instance| replica(rng.u16(..N_PORTS), instance));
        writes.push(Write::of(Update::Insert(CloneSession {
            id,
            replicas: replicas.collect(),
            truncate_bytes: (rng.u8(..6) == 0).then(|| rng.u32(1..60)),
            class_of_service: u32::from(rng.u8(..3)),
        })));
    }
    writes.into_iter().map(Step::Write).collect()
}

fn replica(port: u16, instance: u16) -> Replica {
    Replica {
        port: PortId(port),
        instance,
    }
}

/// Returns the byte that controls one pass of a packet (`tests/programs/rounds.p4` reads it). It is mostly `usual`.
fn step(rng: &mut Rng, usual: u8) -> u8 {
    match rng.u8(..24) {
        0 => rng.u8(..) & !SELDOM,
        1 => usual | SELDOM,
        2 => usual | NO_CLONE,
        _ => usual,
    }
}

fn random_frame(rng: &mut Rng) -> Vec<u8> {
    let usual = [1, 1, 1, 2, 3, 32 | 1, 64 | 1][rng.usize(..7)];
    let clone = if rng.bool() { 0 } else { rng.u8(..16) };
    let mut frame = vec![rng.u8(..PASSES), clone];
    frame.extend((0..8).map(|_| step(rng, usual)));
    frame.extend([rng.u8(..), rng.u8(..), 0, 0]);
    let len = match rng.u8(..8) {
        0 => 1_400,
        _ => rng.usize(..70),
    };
    frame.extend((0..len).map(|_| rng.u8(..)));
    frame
}

fn random_case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let config = random_config(&mut rng);
    let mut steps = set_up(&mut rng);
    for _ in 0..FRAMES {
        let port = PortId(rng.u16(..N_PORTS - 1));
        let frame = random_frame(&mut rng);
        steps.push(match rng.u8(..6) {
            0 => Step::Queue(port, frame),
            _ => Step::Frame(port, frame),
        });
        if rng.u8(..4) == 0 {
            steps.push(Step::Wait(rng.u64(..300_000)));
        }
    }
    Case::new(config, steps)
}

#[test]
fn rounds_in_one_call_are_those_pass_by_pass() {
    let program = program_at("crates/dev/conformance/tests/programs/rounds.p4");
    for seed in SEED..SEED + CASES {
        if let Some(difference) = random_case(seed).compare(&program, &options()) {
            panic!("seed {seed:#x}, {difference}");
        }
    }
}

/// Makes a switch with `clone_chain.p4` and gives it one frame, of which nothing may leave.
fn chain(make: impl FnOnce(SwitchConfig) -> Switch, drops_clones: u8) -> Switch {
    let mut switch = make(SwitchConfig::default());
    (0..N_PORTS - 1).for_each(|port| switch.add_port(PortId(port)));
    let program = program_at("crates/dev/conformance/tests/programs/clone_chain.p4");
    switch.set_program(program);
    let session = CloneSession {
        id: 1,
        replicas: vec![replica(1, 1)],
        truncate_bytes: None,
        class_of_service: 0,
    };
    switch.insert_clone_session(session).unwrap();
    switch.handle_frame(0, PortId(0), &[0, drops_clones, 7, 7]);
    let all = switch.transmit(0, usize::MAX, &mut |_| {});
    assert_eq!((all.n_frames, all.is_idle), (0, true));
    switch
}

#[test]
fn a_clone_that_ends_the_rounds_has_recirculated_as_often_as_its_parent_had() {
    let mut engines = [chain(Switch::new, 0), chain(native(NativeOptions::ALL), 0)];
    let [reference, native] = &mut engines;
    assert_eq!(reference.counters(), native.counters());
    let limit = u64::from(limits::RECIRCULATIONS_PER_PACKET_MAX);
    assert_eq!(native.counters().created_by_clone, limit + 1);
    assert_eq!(native.counters().dropped(DropReason::RecirculationLimit), 1);
}

#[test]
fn where_no_clone_leaves_no_port_has_a_latency() {
    let [mut reference, mut native] = [chain(Switch::new, 1), chain(native(NativeOptions::ALL), 1)];
    assert_eq!(reference.counters(), native.counters());
    assert_eq!(native.counters().created_by_clone, 3);
    assert!(native.latency().ports.is_empty());
    assert_eq!(reference.latency(), native.latency());
}
