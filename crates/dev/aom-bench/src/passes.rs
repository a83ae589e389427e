//! Measures the cost of a request inside the switch, without ports, in three cases: requests are tagged but not copied,
//! requests are tagged and copied to all receivers, and plain frames are multicast with the same number of copies. The
//! engines are measured in alternation.

use std::time::Instant;

use aom::wire::{UDP_PORT, Variant};
use clap::Args;
use conformance::aom::{Group, RECEIVERS_PORT, SENDER_PORT, Sequencers};
use conformance::beside::Beside;
use conformance::compile::program_at;
use conformance::engines::native;
use dataplane::{MulticastGroup, Replica, Switch, SwitchConfig};
use dataplane_jit::NativeOptions;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::frames::{self, PLAIN_UDP_PORT};

/// The multicast group of `p4/lib/stations.p4` for frames to unknown MAC addresses.
const FLOOD_GROUP: u32 = 0xffff;
const ENGINES: [&str; 4] = [
    "interpreter",
    "native",
    "native without lane-vectorisation",
    "naive",
];

#[derive(Debug, Args)]
pub(crate) struct Passes {
    /// Sizes of the group
    #[arg(long, num_args = 1.., value_name = "N", default_values_t = [4, 8, 16, 32, 64])]
    receivers: Vec<u8>,
    /// The approximate length of one measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 20)]
    turn_ms: u64,
    /// Measurements of each engine
    #[arg(long, value_name = "N", default_value_t = 9)]
    turns: usize,
}

/// The kind of frames that are sent.
#[derive(Debug, Clone, Copy)]
enum What {
    /// Requests to a group without receivers, so that no copies are made.
    Tags,
    /// Requests with all copies.
    Whole,
    /// Plain frames with the same number of copies.
    Plain,
}

impl Passes {
    pub(crate) fn run(&self) -> Value {
        let rows = self.receivers.iter().map(|n| self.of_size(*n));
        json!({ "passes": rows.flatten().collect::<Vec<Value>>() })
    }

    fn of_size(&self, n_receivers: u8) -> Vec<Value> {
        let mut contestants: Vec<(&str, What, Contestant)> = Vec::new();
        for what in [What::Tags, What::Whole, What::Plain] {
            for (engine, switch) in ENGINES.into_iter().zip(switches(n_receivers, what)) {
                contestants.push((engine, what, Contestant::new(switch, what)));
            }
        }
        for _ in 0..self.turns {
            for (.., contestant) in &mut contestants {
                contestant.turn(self.turn_ms);
            }
        }
        let row = |(engine, what, contestant): (&str, What, Contestant)| {
            json!({
                "receivers": n_receivers,
                "engine": engine,
                "what": match what {
                    What::Tags => "tags",
                    What::Whole => "whole",
                    What::Plain => "plain",
                },
                "copies": contestant.n_copies,
                "ns_per_request": contestant.ns_per_request,
            })
        };
        contestants.into_iter().map(row).collect()
    }
}

/// Makes one switch per engine, with the program and a group.
fn switches(n_receivers: u8, what: What) -> Vec<Switch> {
    let without_lanes = NativeOptions {
        lane_vectorisation: false,
        ..NativeOptions::ALL
    };
    let config = SwitchConfig::default;
    let engines = [
        [Switch::new(config()), native(NativeOptions::ALL)(config())],
        [
            native(without_lanes)(config()),
            native(NativeOptions::NAIVE)(config()),
        ],
    ];
    let program = program_at("p4/aom_hm.p4");
    let group = Group::random(&mut Rng::with_seed(1), 1, 0, n_receivers);
    let n_copies = u16::from(n_receivers) * group.n_shards();
    let mut switches = Vec::new();
    for pair in engines {
        let forms = pair.map(|switch| {
            let mut alone = Beside::alone(switch);
            alone.add_port(SENDER_PORT);
            alone.add_port(RECEIVERS_PORT);
            alone.set_program(&program);
            alone.insert_group(&flood(n_copies));
            alone
        });
        let mut sequencers = Sequencers { forms };
        sequencers.add(&mut Rng::with_seed(2), &group);
        switches.extend(sequencers.forms.map(|form| form.reference));
    }
    if let What::Tags = what {
        for switch in &mut switches {
            let emptied = switch.modify_multicast_group(MulticastGroup {
                id: u32::from(group.receivers_group()),
                replicas: Vec::new(),
                backups: Vec::new(),
            });
            assert!(emptied.is_ok(), "the group is there: {emptied:?}");
        }
    }
    switches
}

fn flood(n_copies: u16) -> MulticastGroup {
    let replica = |instance| Replica {
        port: RECEIVERS_PORT,
        instance,
    };
    MulticastGroup {
        id: FLOOD_GROUP,
        replicas: (0..n_copies).map(replica).collect(),
        ..MulticastGroup::default()
    }
}

struct Contestant {
    switch: Switch,
    frame: Vec<u8>,
    now: u64,
    n_copies: usize,
    ns_per_request: Vec<f64>,
}

impl Contestant {
    fn new(switch: Switch, what: What) -> Contestant {
        let udp_port = match what {
            What::Tags | What::Whole => UDP_PORT,
            What::Plain => PLAIN_UDP_PORT,
        };
        let addresses = ([10, 0, 9, 9].into(), [239, 1, 0, 0].into());
        let mut it = Contestant {
            switch,
            frame: frames::frame(Variant::Tagged, addresses, udp_port, 0, 14),
            now: 0,
            n_copies: 0,
            ns_per_request: Vec::new(),
        };
        it.n_copies = it.request();
        it
    }

    /// Sends one request. Returns the number of copies.
    fn request(&mut self) -> usize {
        self.now += 1_000;
        self.switch.handle_frame(self.now, SENDER_PORT, &self.frame);
        let mut n_copies = 0;
        while !self
            .switch
            .transmit(self.now, 64, &mut |_| n_copies += 1)
            .is_idle
        {}
        n_copies
    }

    fn turn(&mut self, turn_ms: u64) {
        let began = Instant::now();
        let mut n_requests = 0;
        while began.elapsed().as_millis() < u128::from(turn_ms) {
            for _ in 0..16 {
                self.request();
            }
            n_requests += 16;
        }
        let ns = began.elapsed().as_nanos() as f64;
        self.ns_per_request.push(ns / f64::from(n_requests));
    }
}
