//! What the flow cache saves and costs: a switch, router and access list of six tables, with it and
//! without it, by the number of flows.
//!
//! `taskset -c 1 cargo bench -p dataplane-jit --bench flow_cache` prints CSV: nanoseconds a frame of
//! 64 bytes through the whole switch without ports, the median of the rounds, in which the choices
//! take turns. 1,000 routes of 32 bits; 1,000 ternary entries, of which the last matches. A flow
//! has its own source address and port, so the wildcard cache, which leaves out what no entry looks
//! at, has a record a route.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a measurement stops at what it did not expect"
)]

use std::{path::Path, time::Instant};

use dataplane::{
    ActionCall, MatchField, PortId, Program, Switch, SwitchConfig, TableAction, TableEntry,
};
use dataplane_jit::{NativeFactory, NativeOptions};
use p4_compiler::Options;

const ROUNDS: usize = 9;
const FRAMES: usize = 100_000;
const ROUTES: u32 = 1_000;
const RULES: u16 = 1_000;

const TEXT: &str = r"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t {
    bit<16> start; bit<16> len; bit<32> fragment; bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
}
header ports_t { bit<16> src; bit<16> dst; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; ports_t ports; }
struct meta_t { }

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { 0x800: ip; default: accept; }
    }
    state ip {
        packet.extract(hdr.ipv4);
        packet.extract(hdr.ports);
        transition accept;
    }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action known() { }
    action next_hop(bit<48> src, bit<48> dst) {
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action forward(bit<9> port) { sm.egress_spec = port; }
    table ports {
        key = { sm.ingress_port: exact; }
        actions = { known; drop; }
        const default_action = drop();
    }
    table sources {
        key = { hdr.ethernet.src: exact; }
        actions = { known; drop; }
        const default_action = drop();
    }
    table routable {
        key = { hdr.ethernet.src: exact; hdr.ethernet.dst: exact; }
        actions = { known; drop; }
        const default_action = drop();
    }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { next_hop; drop; }
        const default_action = drop();
        size = 2048;
    }
    table destinations {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; drop; }
        const default_action = drop();
        size = 2048;
    }
    table acl {
        key = {
            hdr.ipv4.src: ternary;
            hdr.ipv4.dst: ternary;
            hdr.ipv4.protocol: ternary;
            hdr.ports.src: ternary;
            hdr.ports.dst: ternary;
        }
        actions = { known; drop; }
        const default_action = drop();
        size = 2048;
    }
    apply {
        ports.apply();
        sources.apply();
        if (routable.apply().hit) { routes.apply(); }
        destinations.apply();
        acl.apply();
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); packet.emit(hdr.ports); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

fn program() -> Program {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include");
    let options = Options {
        include_dirs: vec![include.display().to_string()],
        ..Options::default()
    };
    let provider = |name: &str| std::fs::read_to_string(name).ok();
    let output = p4_compiler::compile("flow_cache.p4", TEXT, &provider, &options);
    Program::from_json(&output.bmv2_json.unwrap()).unwrap()
}

const STATION: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn next_hop(route: u32) -> [u8; 6] {
    let [_, _, high, low] = route.to_be_bytes();
    [2, 1, 0, 0, high, low]
}

fn route(number: u32) -> [u8; 4] {
    (0x0a80_0000 + number * 7).to_be_bytes()
}

fn insert(
    switch: &mut Switch,
    table: &str,
    entry: (Vec<MatchField>, i32),
    action: &str,
    args: &[&[u8]],
) {
    let program = switch.program().unwrap();
    let id = program.table(&format!("I.{table}")).unwrap();
    let action = program.action_of(id, &format!("I.{action}")).unwrap();
    let args = args.iter().map(|arg| arg.to_vec()).collect();
    let call = TableAction::Call(ActionCall { action, args });
    let (key, priority) = entry;
    switch
        .insert_entry(id, TableEntry::new(key, priority, call))
        .unwrap();
}

fn exact(values: &[&[u8]]) -> (Vec<MatchField>, i32) {
    let fields = values.iter().map(|value| MatchField::Exact(value.to_vec()));
    (fields.collect(), 0)
}

fn switch(program: &Program, options: NativeOptions) -> Switch {
    let factory = Box::new(NativeFactory { options });
    let mut switch = Switch::with_engine(SwitchConfig::default(), factory);
    (0..4).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program.clone());
    let it = &mut switch;
    insert(it, "ports", exact(&[&[1]]), "known", &[]);
    insert(it, "sources", exact(&[&STATION]), "known", &[]);
    insert(it, "routable", exact(&[&STATION, &ROUTER]), "known", &[]);
    for number in 0..ROUTES {
        let key = MatchField::Lpm {
            value: route(number).to_vec(),
            prefix_len: 32,
        };
        let hop = next_hop(number);
        insert(it, "routes", (vec![key], 0), "next_hop", &[&ROUTER, &hop]);
        insert(it, "destinations", exact(&[&hop]), "forward", &[&[2]]);
    }
    let any = |bytes: usize| MatchField::Ternary {
        value: vec![0; bytes],
        mask: vec![0; bytes],
    };
    for rule in 1..RULES {
        let port = MatchField::Ternary {
            value: (10_000 + rule).to_be_bytes().to_vec(),
            mask: vec![0xff; 2],
        };
        let udp = MatchField::Ternary {
            value: vec![6],
            mask: vec![0xff],
        };
        let key = vec![any(4), any(4), udp, any(2), port];
        insert(it, "acl", (key, i32::from(rule) + 1), "drop", &[]);
    }
    let key = vec![any(4), any(4), any(1), any(2), any(2)];
    insert(it, "acl", (key, 1), "known", &[]);
    switch
}

fn frame(flow: u32) -> Vec<u8> {
    let mut frame = [&ROUTER[..], &STATION, &[8, 0]].concat();
    frame.extend([0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend((0x0a00_0000 + flow).to_be_bytes());
    frame.extend(route(flow % ROUTES));
    let [_, _, high, low] = (flow % 50_000 + 1_024).to_be_bytes();
    frame.extend([high, low, 0x13, 0x88]);
    frame.resize(64, 0);
    frame
}

/// Nanoseconds a frame.
fn round(switch: &mut Switch, frames: &[Vec<u8>], now: &mut u64) -> f64 {
    let begin = Instant::now();
    let mut sent = 0;
    for frame in frames.iter().cycle().take(FRAMES) {
        *now += 1_000;
        switch.handle_frame(*now, PortId(1), frame);
        while switch.poll_transmit(*now).is_some() {
            sent += 1;
        }
    }
    assert_eq!(sent, FRAMES, "every frame leaves");
    begin.elapsed().as_secs_f64() * 1e9 / FRAMES as f64
}

fn main() {
    let program = program();
    let without = NativeOptions {
        microflow_cache: false,
        megaflow_cache: false,
        ..NativeOptions::ALL
    };
    let choices = [
        ("none", NativeOptions::NAIVE),
        ("all but flow caches", without),
        (
            "microflow cache",
            NativeOptions {
                microflow_cache: true,
                ..without
            },
        ),
        (
            "megaflow cache",
            NativeOptions {
                megaflow_cache: true,
                ..without
            },
        ),
    ];
    println!("optimisations,flows,ns_per_packet");
    for flows in [1, 100, 10_000, 100_000] {
        let mut frames: Vec<Vec<u8>> = (0..flows).map(frame).collect();
        fastrand::Rng::with_seed(3).shuffle(&mut frames);
        let mut switches = choices.map(|(_, options)| switch(&program, options));
        let mut now = 0;
        let mut times = choices.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (switch, times) in switches.iter_mut().zip(&mut times) {
                times.push(round(switch, &frames, &mut now));
            }
        }
        for ((name, _), times) in choices.iter().zip(&mut times) {
            times.sort_by(f64::total_cmp);
            println!("{name},{flows},{:.1}", times[ROUNDS / 2]);
        }
    }
}
