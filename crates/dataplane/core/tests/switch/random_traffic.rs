//! Random frames through a program that clones, recirculates, replicates and resubmits as the frame
//! says: every packet is accounted for, nothing panics, and equal seeds give equal output.

use dataplane::{CloneSession, MulticastGroup, PortId, Replica, Switch, SwitchConfig};
use testkit::builder::*;

/// `PKT_INSTANCE_TYPE_RESUBMIT` of simple_switch.
const RESUBMITTED: u64 = 6;

/// SplitMix64, implemented independently of the data plane's implementation.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Makes the program. `kind` is a bit set of things to do in this pass; `left` counts down the passes that remain.
fn program() -> Builder {
    let mut b = Builder::default();
    b.field_list(1, &["m.kept"]);
    let bit = |n: u64| op("!=", op("&", field("pkt.kind"), hex(1 << n)), hex(0));
    b.call(
        INGRESS,
        "start",
        Some("i0"),
        &[
            assign(
                "standard_metadata.egress_spec",
                op("&", field("pkt.value"), hex(0x1ff)),
            ),
            assign("m.kept", op("*", field("pkt.value"), hex(0x1_0000_0001))),
        ],
    );
    let steps = [
        (
            "i0",
            0,
            prim(
                "clone_ingress_pkt_to_egress",
                &[op("&", field("pkt.value"), hex(3)), hex(1)],
            ),
        ),
        (
            "i1",
            1,
            assign(
                "standard_metadata.mcast_grp",
                op("&", field("pkt.left"), hex(3)),
            ),
        ),
        ("i2", 2, mark_to_drop()),
        ("i3", 3, prim("resubmit", &[hex(1)])),
    ];
    chain(&mut b, INGRESS, &steps, bit);
    b.start(INGRESS, "start");
    let live = op("!=", field("pkt.left"), hex(0));
    b.condition(EGRESS, "live", live, Some("down"), None);
    b.call(
        EGRESS,
        "down",
        Some("e0"),
        &[assign("pkt.left", op("-", field("pkt.left"), hex(1)))],
    );
    let steps = [
        (
            "e0",
            4,
            prim(
                "clone_egress_pkt_to_egress",
                &[op("&", field("pkt.value"), hex(3)), hex(1)],
            ),
        ),
        ("e1", 5, prim("recirculate", &[hex(1)])),
        ("e2", 6, mark_to_drop()),
        ("e3", 7, prim("truncate", &[hex(3)])),
    ];
    chain(&mut b, EGRESS, &steps, bit);
    b.start(EGRESS, "live");
    b
}

type Step<'s> = (&'s str, u64, serde_json::Value);

fn chain(
    b: &mut Builder,
    pipeline: usize,
    steps: &[Step<'_>],
    bit: impl Fn(u64) -> serde_json::Value,
) {
    for (i, (name, n, primitive)) in steps.iter().enumerate() {
        let next = steps.get(i + 1).map(|(name, ..)| *name);
        let run = format!("{name}_do");
        let mut is_wanted = bit(*n);
        if *name == "i3" {
            // The program resubmits only a packet that was not resubmitted before: a packet that is resubmitted up to
            // the limit would make 65,536 clones.
            let is_new = op(
                "!=",
                field("standard_metadata.instance_type"),
                hex(RESUBMITTED),
            );
            is_wanted = op("and", is_wanted, is_new);
        }
        b.condition(pipeline, name, is_wanted, Some(&run), next);
        b.call(pipeline, &run, next, std::slice::from_ref(primitive));
    }
}

fn switch(seeded: &mut Seeded) -> Switch {
    let rate = |seeded: &mut Seeded| (seeded.below(2) == 0).then(|| 1 + seeded.below(2_000_000));
    let config = SwitchConfig {
        ingress_queue_packets: 1 + seeded.below(20) as usize,
        recirculation_queue_packets: 1 + seeded.below(20) as usize,
        egress_queue_packets: 1 + seeded.below(20) as usize,
        recirculation_rate_pps: rate(seeded),
        egress_rate_pps: rate(seeded),
        ..SwitchConfig::default()
    };
    let mut switch = program().switch(config);
    let replicas = |seeded: &mut Seeded| {
        (0..seeded.below(5))
            .map(|i| Replica {
                port: PortId(seeded.below(9) as u16),
                instance: i as u16,
            })
            .collect::<Vec<_>>()
    };
    for id in 1..=2 {
        let session = CloneSession {
            id,
            replicas: replicas(seeded),
            truncate_bytes: None,
            class_of_service: 0,
        };
        switch.insert_clone_session(session).unwrap();
        switch
            .insert_multicast_group(MulticastGroup {
                id,
                replicas: replicas(seeded),
                backups: Vec::new(),
            })
            .unwrap();
    }
    switch
}

/// Runs random traffic; returns the frames that left, and how many packets were dropped.
fn run(seed: u64) -> (Vec<(u16, Vec<u8>)>, u64) {
    let mut seeded = Seeded(seed);
    let mut switch = switch(&mut seeded);
    let mut out = Vec::new();
    let mut now = 0;
    let mut tokens = Vec::new();
    for _ in 0..20 {
        now += seeded.below(3_000);
        for _ in 0..seeded.below(4) {
            let mut frame: Vec<u8> = (0..seeded.below(12))
                .map(|_| seeded.next().to_be_bytes()[0])
                .collect();
            // Byte 1 says how many passes the packet makes; they should be few. Bytes 2 and 3 are the port, which
            // should be one of the ports in use.
            if let Some(left) = frame.get_mut(1) {
                *left %= 12;
            }
            if let Some(high) = frame.get_mut(2) {
                *high = 0;
            }
            if let Some(low) = frame.get_mut(3) {
                *low %= 16;
            }
            switch.handle_frame(now, PortId(seeded.below(9) as u16), &frame);
            assert_accounted(&switch);
        }
        for _ in 0..seeded.below(30) {
            let Some(transmit) = switch.poll_transmit(now) else {
                break;
            };
            out.push((transmit.port.0, transmit.to_owned().frame));
            assert_accounted(&switch);
        }
        if seeded.below(8) == 0 {
            tokens.push(switch.begin_drain());
        }
    }
    // Advances the time until no queue holds a packet.
    for _ in 0..200_000 {
        out.extend(brief(&drain(&mut switch, now)));
        match switch.poll_timeout() {
            Some(due) => now = now.max(due),
            None => break,
        }
    }
    assert_eq!(switch.packets_inside(), 0, "seed {seed}");
    assert!(
        tokens.iter().all(|token| switch.is_drained(*token)),
        "seed {seed}"
    );
    assert_accounted(&switch);
    (out, switch.counters().dropped_total())
}

#[test]
fn nothing_vanishes_uncounted() {
    let (mut n_out, mut n_dropped) = (0, 0);
    for seed in 0..20 {
        let (out, dropped) = run(seed);
        n_out += out.len();
        n_dropped += dropped;
    }
    // Makes sure that the traffic was varied enough.
    assert!(
        n_out > 300 && n_dropped > 300,
        "{n_out} out, {n_dropped} dropped"
    );
}

#[test]
fn the_same_input_gives_the_same_output() {
    for seed in [3, 4, 5] {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
