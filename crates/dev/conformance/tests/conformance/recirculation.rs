//! Tests packets that recirculate without being deparsed and parsed. The outcome must be as if they were deparsed and
//! parsed. Headers appear, disappear, move, occur twice, are truncated, read by `lookahead` or written by the parser,
//! and there are clones, copies and resubmissions of the frame as it arrived at ingress.

use conformance::{
    compile::program_at,
    engines::{Case, Step, Write},
};
use control::Update;
use dataplane::{CloneSession, MulticastGroup, PortId, Program, Replica, SwitchConfig};
use dataplane_jit::NativeOptions;
use fastrand::Rng;

const SEED: u64 = 0x0ec1_0c00;
const CASES: u64 = 60;
const FRAMES: usize = 80;
const N_PORTS: u16 = 4;
/// Number of operations for which a frame can ask egress, one bit each.
const EGRESS_BITS: u16 = 12;
/// The number of the bit that asks egress to recirculate the packet.
const RECIRCULATE: u16 = 2;
/// Bound of the random `next` fields, which select the parser's transition. A few values match no transition.
const NEXT: u8 = 20;

fn options() -> [NativeOptions; 3] {
    let [mut alone, mut packed] = [NativeOptions::NAIVE; 2];
    for options in [&mut alone, &mut packed] {
        options.fanout_fusion = true;
    }
    packed.parser_specialisation = true;
    packed.inline_editing = true;
    [alone, packed, NativeOptions::ALL]
}

fn set_up(rng: &mut Rng) -> Vec<Step> {
    let mut writes = Vec::new();
    let replicas = |rng: &mut Rng| {
        let replica = |instance| Replica {
            port: PortId(rng.u16(..N_PORTS)),
            instance,
        };
        (1..=3).map(replica).collect::<Vec<Replica>>()
    };
    for id in 1..=3 {
        let group = MulticastGroup {
            id,
            replicas: replicas(rng),
            backups: Vec::new(),
        };
        let session = CloneSession {
            id,
            replicas: replicas(rng),
            truncate_bytes: (rng.u8(..4) == 0).then(|| rng.u32(1..40)),
            class_of_service: 0,
        };
        writes.push(Write::of(Update::Insert(group)));
        writes.push(Write::of(Update::Insert(session)));
    }
    writes.into_iter().map(Step::Write).collect()
}

/// Sets the bits of a few random operations, so that not everything is dropped or truncated.
fn some_bits(rng: &mut Rng, n_bits: u16, most: usize) -> u16 {
    (0..rng.usize(..=most)).fold(0, |bits, _| bits | 1 << rng.u16(..n_bits))
}

fn random_frame(rng: &mut Rng) -> Vec<u8> {
    let ingress = some_bits(rng, 6, 1) as u8;
    let egress = some_bits(rng, EGRESS_BITS, 4) | RECIRCULATE;
    let mut frame = vec![rng.u8(..NEXT), rng.u8(..5), ingress];
    frame.extend(egress.to_be_bytes());
    frame.push(rng.u8(..));
    let len = match rng.u8(..8) {
        0 => 450,
        _ => rng.usize(..70),
    };
    let small = rng.bool();
    frame.extend((0..len).map(|_| if small { rng.u8(..NEXT) } else { rng.u8(..) }));
    frame
}

fn random_case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let config = SwitchConfig {
        recirculation_rate_pps: rng.bool().then_some(200_000),
        recirculation_queue_packets: if rng.u8(..4) == 0 { 2 } else { 1_000 },
        ..SwitchConfig::default()
    };
    let mut steps = set_up(&mut rng);
    for _ in 0..FRAMES {
        let port = PortId(rng.u16(..N_PORTS));
        let frame = random_frame(&mut rng);
        steps.push(match rng.u8(..4) {
            0 => Step::Queue(port, frame),
            _ => Step::Frame(port, frame),
        });
        if rng.u8(..4) == 0 {
            steps.push(Step::Wait(rng.u64(..300_000)));
        }
    }
    Case::new(config, steps)
}

fn program() -> Program {
    program_at("crates/dev/conformance/tests/programs/recirculated_headers.p4")
}

#[test]
fn headers_that_recirculate_are_those_that_the_parser_would_come_to() {
    let program = program();
    for seed in SEED..SEED + CASES {
        if let Some(difference) = random_case(seed).compare(&program, &options()) {
            panic!("seed {seed:#x}, {difference}");
        }
    }
}
