//! Tests that fan-out fusion (egress of many copies in one call) changes nothing. Output and counts must be the same as
//! in the interpreter, which queues every copy separately. The cases have groups with more copies than a queue holds,
//! queues with rates, priorities, truncated clones, and copies that the program drops, recirculates, resubmits and
//! clones again. The test's program writes into each copy the queue depths and the waiting time that egress read.

use conformance::{
    beside::all_of,
    compile::program_at,
    engines::{Case, Step, Write, native},
    packet::presenter_frame,
    sfu::{SFU_PORT, Sfu, SfuProgram, Viewer},
};
use control::Update;
use dataplane::{CloneSession, MulticastGroup, PortId, Replica, Switch, SwitchConfig};
use dataplane_jit::NativeOptions;
use fastrand::Rng;

const SEED: u64 = 0xfa_0057;
const CASES: u64 = 60;
const FRAMES: usize = 60;
const N_PORTS: u16 = 4;

fn options() -> [NativeOptions; 3] {
    let [mut alone, mut without] = [NativeOptions::NAIVE, NativeOptions::ALL];
    alone.fanout_fusion = true;
    without.fanout_fusion = false;
    [alone, without, NativeOptions::ALL]
}

fn random_config(rng: &mut Rng) -> SwitchConfig {
    let mut config = SwitchConfig {
        recirculation_rate_pps: rng.bool().then_some(200_000),
        ..SwitchConfig::default()
    };
    if rng.u8(..4) == 0 {
        config.egress_rate_pps = Some(50_000);
    }
    match rng.u8(..4) {
        0 => config.egress_queue_packets = rng.usize(1..5),
        1 => config.egress_queue_packets = rng.usize(5..40),
        _ => {}
    }
    if rng.u8(..4) == 0 {
        config.recirculation_queue_packets = rng.usize(1..8);
    }
    config
}

/// Makes up to `most` replicas, at one port or at several ports.
fn replicas(rng: &mut Rng, most: u16) -> Vec<Replica> {
    let n_ports = if rng.bool() { 1 } else { N_PORTS };
    let n_replicas = rng.u16(1..=most);
    let replica = |instance| Replica {
        port: PortId(rng.u16(..n_ports)),
        instance,
    };
    (1..=n_replicas).map(replica).collect()
}

fn set_up(rng: &mut Rng) -> Vec<Step> {
    let mut writes = Vec::new();
    for id in 1..=3 {
        let replicas_of_group = replicas(rng, 30);
        writes.push(Write::of(Update::Insert(MulticastGroup {
            id,
            replicas: replicas_of_group,
            backups: Vec::new(),
        })));
        writes.push(Write::of(Update::Insert(CloneSession {
            id,
            replicas: replicas(rng, 3),
            truncate_bytes: rng.bool().then(|| rng.u32(1..40)),
            class_of_service: u32::from(rng.u8(..3)),
        })));
    }
    writes.into_iter().map(Step::Write).collect()
}

fn random_frame(rng: &mut Rng) -> Vec<u8> {
    // A frame asks for few of the possible operations, so that not everything is dropped.
    let mut choice = |n: u8| (0..n).fold(0_u8, |bits, _| bits | 1_u8 << rng.u8(..6));
    let (ingress, egress) = (choice(1), choice(2));
    let place = rng.u8(..4) << 4 | rng.u8(..u8::try_from(N_PORTS).unwrap() + 1);
    // A frame asks for few passes through the pipeline, because each pass may create many copies.
    let urgency = rng.u8(..8) << 5 | rng.u8(..3);
    let mut frame = vec![place, urgency, ingress & !16, egress];
    frame.extend((0..rng.usize(..60)).map(|_| rng.u8(..)));
    frame
}

fn random_case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let config = random_config(&mut rng);
    let mut steps = set_up(&mut rng);
    for _ in 0..FRAMES {
        let port = PortId(rng.u16(..N_PORTS));
        let frame = random_frame(&mut rng);
        steps.push(match rng.u8(..3) {
            0 => Step::Queue(port, frame),
            _ => Step::Frame(port, frame),
        });
        match rng.u8(..8) {
            0..=2 => steps.push(Step::Wait(rng.u64(..300_000))),
            3 => {
                // A group changes while its copies may be queued.
                let group = MulticastGroup {
                    id: rng.u32(1..=3),
                    replicas: replicas(&mut rng, 30),
                    backups: Vec::new(),
                };
                steps.push(Step::Write(Write::of(Update::Modify(group))));
            }
            _ => {}
        }
    }
    Case::new(config, steps)
}

#[test]
fn copies_of_copies_get_the_same_fused_and_one_by_one() {
    let program = program_at("crates/dev/conformance/tests/programs/fanout_queues.p4");
    for seed in SEED..SEED + CASES {
        if let Some(difference) = random_case(seed).compare(&program, &options()) {
            panic!("seed {seed:#x}, {difference}");
        }
    }
}

#[test]
fn both_sfu_programs_send_the_same_fused_and_one_by_one() {
    for program in SfuProgram::ALL {
        for n_viewers in [1, 2, 64, 500] {
            let viewers: Vec<Viewer> = (0..n_viewers).map(Viewer::nth).collect();
            let mut reference = Sfu::on(Switch::new(SwitchConfig::default()), program);
            reference.set_viewers(&viewers);
            let mut engines = options().map(|options| {
                let mut sfu = Sfu::on(native(options)(SwitchConfig::default()), program);
                sfu.set_viewers(&viewers);
                sfu
            });
            for round in 0..3_u8 {
                let frame = presenter_frame(64, &[round; 200]);
                // Two frames wait for ingress when the copies of the first frame leave.
                reference
                    .switches
                    .reference
                    .handle_frame(0, SFU_PORT, &frame);
                let expected = reference.send(&frame);
                assert_eq!(expected.len(), 2 * usize::from(n_viewers));
                for engine in &mut engines {
                    engine.switches.reference.handle_frame(0, SFU_PORT, &frame);
                    engine.switches.reference.handle_frame(0, SFU_PORT, &frame);
                    let left = all_of(&mut engine.switches.reference);
                    assert!(left == expected, "{program:?}, {n_viewers} viewers");
                }
            }
            for engine in &mut engines {
                assert_eq!(
                    engine.switches.reference.counters(),
                    reference.switches.reference.counters()
                );
                assert_eq!(
                    engine.switches.reference.latency(),
                    reference.switches.reference.latency()
                );
            }
        }
    }
}
