//! Measures the cost of a payload extern's call per copy. The native engine makes 64 copies of each packet. One
//! switch calls no extern for its copies; the other switch calls, for each copy, an extern that leaves the payload as
//! it is. Each round runs both switches, so that other load on the machine affects both.
//!
//! `cargo run --release -p conformance --example payload` prints CSV. `-- 501` sets the number of rounds.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "it measures time, and stops at what it did not expect"
)]

use std::{hint::black_box, time::Instant};

use conformance::{
    beside::Beside,
    engines::native,
    payload::{Nothing, program, register},
};
use dataplane::{MulticastGroup, PortId, Replica, SwitchConfig};
use dataplane_jit::NativeOptions;

const PORT: PortId = PortId(1);
const STREAM: [u8; 2] = [0, 3];
const GROUP: u16 = 7;
const COPIES: u16 = 64;
const PAYLOAD_BYTES: usize = 1_200;
const PACKETS: u32 = 200;
const ROUNDS: usize = 201;

/// Makes a switch in which every copy of a packet runs this action with these arguments.
fn switch(action: &str, args: &[&[u8]]) -> Beside {
    let mut switch = native(NativeOptions::ALL)(SwitchConfig::default());
    register(
        &mut switch,
        Nothing { seals: false },
        Nothing { seals: true },
    );
    let program = program(&switch);
    let mut switch = Beside::alone(switch);
    switch.add_port(PORT);
    switch.set_program(&program);
    switch.insert_exact(
        "streams",
        "to_group",
        &[&STREAM, &[0]],
        &[&GROUP.to_be_bytes()],
    );
    for viewer in 1..=COPIES {
        switch.insert_exact("viewers", action, &[&viewer.to_be_bytes()], args);
    }
    switch.insert_group(&MulticastGroup {
        id: GROUP.into(),
        replicas: (1..=COPIES)
            .map(|instance| Replica {
                port: PORT,
                instance,
            })
            .collect(),
        backups: Vec::new(),
    });
    switch
}

fn frame() -> Vec<u8> {
    let mut frame = vec![0; 14];
    frame[12..].copy_from_slice(&[0x88, 0xb5]);
    frame.extend_from_slice(&STREAM);
    frame.extend_from_slice(&[0; 6]);
    frame.resize(frame.len() + PAYLOAD_BYTES, 0x5a);
    frame
}

/// Sends the packets of one round to a switch and returns the nanoseconds per copy.
fn round(switch: &mut Beside, frame: &[u8], now: &mut u64) -> f64 {
    let start = Instant::now();
    let mut n_copies = 0;
    for _ in 0..PACKETS {
        *now += 1_000;
        switch.reference.handle_frame(*now, PORT, frame);
        let mut take = |sent: dataplane::Transmit<'_>| {
            black_box(sent);
            n_copies += 1;
        };
        let max = usize::from(COPIES);
        while !switch.reference.transmit(*now, max, &mut take).is_idle {}
    }
    assert_eq!(n_copies, PACKETS * u32::from(COPIES));
    start.elapsed().as_nanos() as f64 / f64::from(n_copies)
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

fn main() {
    let rounds = std::env::args().nth(1);
    let rounds = rounds.map_or(ROUNDS, |text| text.parse().unwrap());
    let key = 1u32.to_be_bytes();
    let mut plain = switch("send", &[&[2; 6]]);
    let mut changed = switch("send_xored", &[&[2; 6], &key]);
    let (frame, mut now) = (frame(), 0);
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        let without = round(&mut plain, &frame, &mut now);
        let with = round(&mut changed, &frame, &mut now);
        for (times, time) in times.iter_mut().zip([without, with, with - without]) {
            times.push(time);
        }
    }
    println!("what,ns_per_copy_median,ns_per_copy_p10,ns_per_copy_p90");
    for (name, times) in ["without,", "with,", "difference,"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let [p10, median, p90] = [0.1, 0.5, 0.9].map(|part| quantile(times, part));
        println!("{name}{median:.1},{p10:.1},{p90:.1}");
    }
}
