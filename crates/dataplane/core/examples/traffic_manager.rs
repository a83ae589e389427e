//! Measures the cost of the switch itself per copy, with an engine that does nothing: a packet
//! arrives, a multicast group copies it, all copies leave. The copies are queued one by one, or as
//! one item as with `--optimise fanout-fusion`. With the argument 0 there are no copies: 32 frames
//! at a time go to one port.
//!
//! `cargo run --release -p dataplane --example traffic_manager -- [COPIES]...`
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "it measures time, and stops at what it did not expect"
)]

use std::{hint::black_box, time::Instant};

use dataplane::{
    Digest, DropReason, MulticastGroup, PortId, Program, Replica, Switch, SwitchConfig,
    engine::{
        CloneCopies, Clones, EgressInput, EgressOutcome, EgressVerdict, Engine, EngineFactory,
        Frame, IngressInput, IngressOutcome, IngressVerdict, PacketHandle, State,
    },
};

const COPIES_PER_ROUND: u32 = 50_000;
const ROUNDS: usize = 200;

#[derive(Clone, Copy)]
struct Nothing {
    fuses_fanout: bool,
    verdict: IngressVerdict,
}

impl EngineFactory for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn load(&self, _state: &mut State) -> Box<dyn Engine> {
        Box::new(*self)
    }
}

/// An engine with a single packet, whatever the handle.
impl Engine for Nothing {
    fn fuses_fanout(&self) -> bool {
        self.fuses_fanout
    }

    fn receive(&mut self, _frame: &[u8]) -> PacketHandle {
        PacketHandle(0)
    }

    fn ingress(
        &mut self,
        _state: &mut State,
        _input: &IngressInput,
        _packet: PacketHandle,
    ) -> IngressOutcome {
        IngressOutcome {
            verdict: self.verdict,
            clone_session: None,
            has_digest: false,
            priority: 0,
        }
    }

    fn digest(&mut self, _state: &mut State, _packet: PacketHandle) -> Digest {
        Digest {
            name: String::new(),
            members: Vec::new(),
        }
    }

    fn clone_ingress(
        &mut self,
        _state: &mut State,
        _input: &IngressInput,
        packet: PacketHandle,
        _copies: CloneCopies,
    ) -> Clones {
        Clones {
            packet,
            priority: 0,
        }
    }

    fn replicate(&mut self, _packet: PacketHandle, _copies: u32) {}

    fn resubmit(&mut self, _packet: PacketHandle) {}

    fn egress(
        &mut self,
        _state: &mut State,
        input: &EgressInput,
        packet: PacketHandle,
    ) -> EgressOutcome {
        black_box(input);
        EgressOutcome {
            packet,
            verdict: EgressVerdict::Transmit,
            clone_session: None,
            frame_len_bytes: input.is_deparsed.then_some(1_400),
        }
    }

    fn clone_egress(
        &mut self,
        _state: &mut State,
        packet: PacketHandle,
        _copies: CloneCopies,
    ) -> Clones {
        Clones {
            packet,
            priority: 0,
        }
    }

    fn deparse(&mut self, _state: &mut State, _packet: PacketHandle) -> Result<usize, DropReason> {
        Ok(1_400)
    }

    fn recirculate(&mut self, _packet: PacketHandle) {}

    fn frame(&self, _packet: PacketHandle) -> Frame<'_> {
        Frame {
            head: &[],
            payload: &[],
            payload_id: 0,
        }
    }

    fn discard(&mut self, _packet: PacketHandle) {}
}

fn switch(n_copies: u16, fuses_fanout: bool) -> Switch {
    let json = include_str!("../../../bin/switch/tests/programs/forward.json");
    let engine = Nothing {
        fuses_fanout,
        verdict: match n_copies {
            0 => IngressVerdict::Unicast(PortId(1)),
            _ => IngressVerdict::Multicast(1),
        },
    };
    let mut switch = Switch::with_engine(SwitchConfig::default(), Box::new(engine));
    switch.add_port(PortId(1));
    switch.set_program(Program::from_json_str(json).unwrap());
    let replica = |instance| Replica {
        port: PortId(1),
        instance,
    };
    let replicas = (0..n_copies).map(replica).collect();
    let group = MulticastGroup {
        id: 1,
        replicas,
        backups: Vec::new(),
    };
    switch.insert_multicast_group(group).unwrap();
    switch
}

/// Nanoseconds per copy, the best of some rounds.
fn measure(n_copies: u16, fuses_fanout: bool) -> f64 {
    let mut switch = switch(n_copies, fuses_fanout);
    let (n_copies, n_frames) = match n_copies {
        0 => (1, 32),
        _ => (n_copies, 1),
    };
    let n_packets = COPIES_PER_ROUND / u32::from(n_copies) / n_frames;
    let round = |switch: &mut Switch| {
        let start = Instant::now();
        for now in 0..n_packets {
            let now = u64::from(now) * 1_000;
            for _ in 0..n_frames {
                switch.handle_frame(now, PortId(1), &[]);
            }
            // Like the event loop: the time advances now and then.
            let mut n_sent = 0;
            while let Some(transmit) = switch.poll_transmit(now + n_sent / 16) {
                black_box(transmit);
                n_sent += 1;
            }
        }
        start.elapsed().as_nanos() as f64 / f64::from(n_packets * n_frames * u32::from(n_copies))
    };
    let rounds = (0..ROUNDS).map(|_| round(&mut switch));
    let best = rounds.fold(f64::INFINITY, f64::min);
    let latency = switch.latency();
    let counted: u64 = latency.ports.iter().map(|(_, times)| times.packets).sum();
    assert_eq!(counted, switch.counters().transmitted);
    best
}

fn main() {
    println!("copies  ns/copy    fused");
    let wanted: Vec<u16> = std::env::args()
        .skip(1)
        .map(|it| it.parse().unwrap())
        .collect();
    let all = [0, 1, 4, 16, 64, 256];
    for &n_copies in if wanted.is_empty() { &all[..] } else { &wanted } {
        let [apart, fused] = [false, true].map(|fuses_fanout| measure(n_copies, fuses_fanout));
        println!("{n_copies:>6} {apart:>8.1} {fused:>8.1}");
    }
}
