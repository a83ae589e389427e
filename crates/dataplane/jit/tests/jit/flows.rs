//! Compares the native engine, which has a flow cache, to the interpreter. The packets belong to few flows, and tables
//! are written often between them.

use dataplane::{
    ActionCall, MatchField, MatchKind, Nanos, OwnedTransmit, PortId, Program, Switch, SwitchConfig,
    TableAction, TableEntry, TableId, Transmit,
};
use dataplane_jit::{NativeFactory, NativeOptions};
use fastrand::Rng;
use testkit::p4::{json_of, program_of};

/// The traffic: `steps` steps, of which one in `write_one_in` is a control call (it writes to the switch's tables or
/// value sets, for example) and the others are frames. The frames are of few flows. If `alternates`, they are of many
/// flows for 20,000 steps, then of few flows for 20,000 steps, and so on. Up to `together` frames wait in the switch;
/// some of these frames leave before further frames arrive, or before a control call.
#[derive(Clone, Copy)]
struct Traffic {
    steps: usize,
    write_one_in: usize,
    alternates: bool,
    together: usize,
}

const FEW_FLOWS: Traffic = Traffic {
    steps: 2_500,
    write_one_in: 6,
    alternates: false,
    together: 1,
};

/// Several frames wait in the switch at a time, so they are parsed ahead and their flow records are prefetched.
const TOGETHER: Traffic = Traffic {
    together: 12,
    write_one_in: 20,
    ..FEW_FLOWS
};

/// With many flows, the cache seldom hits. It then sleeps, so that 65,536 packets bypass it, and wakes again.
const MANY_FLOWS: Traffic = Traffic {
    steps: 160_000,
    write_one_in: 200,
    alternates: true,
    together: 12,
};

/// A program whose tables match on fields of the received frame, on computed values, on fields that other tables'
/// actions wrote, and on the value of a register, which no cache may remember.
const TEXT: &str = r"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> d; bit<8> e; bit<8> f; bit<8> len; }
header o_t { bit<8> x; }
struct headers_t { h_t h; o_t o; }
struct meta_t { bit<8> via; bit<8> last; }

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) others;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) { 1: more; others: more; default: accept; }
    }
    state more { packet.extract(hdr.o); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    register<bit<8>>(1) before;
    direct_counter(CounterType.packets) taken;
    action to(bit<8> via) { meta.via = via; hdr.h.b = via; }
    action note(bit<8> value) { hdr.h.e = value; }
    action shrink() { hdr.o.setInvalid(); }
    action deny() { mark_to_drop(sm); }
    action send(bit<9> port) { sm.egress_spec = port; }
    table routes {
        key = { hdr.h.c: lpm; }
        actions = { to; shrink; NoAction; }
        counters = taken;
    }
    table by_via {
        key = { meta.via: exact; hdr.o.isValid(): exact; }
        actions = { note; NoAction; }
    }
    table by_past {
        key = { meta.last: exact; }
        actions = { note; deny; NoAction; }
    }
    table acl {
        key = { hdr.h.b: ternary; hdr.h.d: ternary; hdr.o.x: ternary; hdr.h.f: range; }
        actions = { send; deny; NoAction; }
        default_action = send(3);
    }
    apply {
        routes.apply();
        if (by_via.apply().hit) { hdr.h.d = hdr.h.d + 1; }
        before.read(meta.last, 0);
        before.write(0, hdr.h.a);
        by_past.apply();
        acl.apply();
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { hdr.h.len = sm.packet_length[7:0]; }
}
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.h); packet.emit(hdr.o); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

fn program() -> Program {
    program_of(TEXT)
}

/// The program of `TEXT`, but the parser reads a register that the ingress control wrote for the previous packet. P4
/// cannot express such a parser, but `BMv2`'s JSON can.
fn program_with_stateful_parser() -> Program {
    let mut json = serde_json::to_value(json_of(TEXT)).unwrap();
    let states = json["parsers"][0]["parse_states"].as_array_mut().unwrap();
    let start = states.iter_mut().find(|state| state["name"] == "start");
    let ops = start.unwrap()["parser_ops"].as_array_mut().unwrap();
    let index = serde_json::json!({ "type": "hexstr", "value": "0x0" });
    let register = serde_json::json!({ "type": "register", "value": ["I.before", index] });
    let from = serde_json::json!({ "type": "expression", "value": register });
    let to = serde_json::json!({ "type": "field", "value": ["h", "e"] });
    ops.push(serde_json::json!({ "op": "set", "parameters": [to, from] }));
    Program::from_json(&serde_json::from_value(json).unwrap()).unwrap()
}

fn value(random: &mut Rng) -> u8 {
    random.u8(0..4)
}

fn matcher(random: &mut Rng, kind: MatchKind, bits: u32) -> MatchField {
    let number = match bits {
        1 => vec![random.u8(0..2)],
        _ => vec![value(random)],
    };
    match kind {
        MatchKind::Exact | MatchKind::Optional => MatchField::Exact(number),
        MatchKind::Lpm => {
            let prefix_len = random.u32(12..=bits);
            let ones = u16::MAX << (16 - prefix_len);
            let prefix = u16::from(number[0]) & ones;
            let prefix = u8::try_from(prefix).unwrap();
            MatchField::Lpm {
                value: vec![prefix],
                prefix_len,
            }
        }
        MatchKind::Ternary => {
            let mask = [0, 1, 3, 255][random.usize(0..4)];
            MatchField::Ternary {
                value: vec![number[0] & mask],
                mask: vec![mask],
            }
        }
        MatchKind::Range => {
            let high = random.u8(number[0]..=3);
            MatchField::Range {
                low: number,
                high: vec![high],
            }
        }
    }
}

fn call(random: &mut Rng, program: &Program, table: TableId) -> TableAction {
    let actions = &program.table_info(table).unwrap().actions;
    let action = actions[random.usize(0..actions.len())];
    let params = &program.action_info(action).unwrap().params;
    TableAction::Call(ActionCall {
        action,
        args: params.iter().map(|_| vec![value(random)]).collect(),
    })
}

fn entry(random: &mut Rng, program: &Program, table: TableId) -> TableEntry {
    let info = program.table_info(table).unwrap();
    let key = info.key.iter();
    let key = key.map(|field| matcher(random, field.kind, field.width_bits));
    let key = key.collect();
    let priority = if info.has_priority() {
        random.i32(1..4)
    } else {
        0
    };
    TableEntry::new(key, priority, call(random, program, table))
}

/// Makes the same random control call on both switches.
fn write(random: &mut Rng, program: &Program, switches: &mut [Switch; 2]) {
    if random.u8(0..8) == 0 {
        let set = program.value_sets().next().unwrap().0;
        let members: Vec<_> = (0..random.usize(0..3))
            .map(|_| vec![MatchField::Exact(vec![value(random)])])
            .collect();
        for switch in switches {
            switch.set_value_set(set, members.clone()).unwrap();
        }
        return;
    }
    let tables: Vec<TableId> = program.tables().map(|(id, _)| id).collect();
    let table = tables[random.usize(0..tables.len())];
    let there = switches[0].entries(table);
    let new = entry(random, program, table);
    let some = random.usize(0..there.len().max(1));
    let kind = random.u8(0..8);
    let done = switches
        .each_mut()
        .map(|switch| match (kind, there.get(some)) {
            (0..=3, _) | (_, None) => switch.insert_entry(table, new.clone()).is_ok(),
            (4 | 5, Some(old)) => switch.delete_entry(table, &old.key, old.priority).is_ok(),
            (6, Some(old)) => {
                let mut changed = old.clone();
                changed.action = new.action.clone();
                switch.modify_entry(table, changed).is_ok()
            }
            _ => {
                let action = Some(new.action.clone());
                switch.set_default_action(table, action).is_ok()
            }
        });
    assert_eq!(done[0], done[1], "table {table:?}");
}

fn switch(options: Option<NativeOptions>, program: &Program) -> Switch {
    let config = SwitchConfig::default();
    let mut switch = match options {
        Some(options) => Switch::with_engine(config, Box::new(NativeFactory { options })),
        None => Switch::new(config),
    };
    (0..8).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program.clone());
    switch
}

/// Takes the next `max_frames` frames that leave each switch: one by one from the interpreter, many at once from the
/// native engine.
fn leave(switches: &mut [Switch; 2], now: Nanos, max_frames: usize) -> [Vec<OwnedTransmit>; 2] {
    let [reference, native] = switches;
    let next = || Some(reference.poll_transmit(now)?.to_owned());
    let expected = std::iter::from_fn(next).take(max_frames).collect();
    let mut found = Vec::new();
    let mut is_idle = false;
    while !is_idle && found.len() < max_frames {
        let n_left = max_frames - found.len();
        let mut take = |sent: Transmit<'_>| found.push(sent.to_owned());
        is_idle = native.transmit(now, n_left, &mut take).is_idle;
    }
    [expected, found]
}

fn compare(program: &Program, options: NativeOptions, traffic: Traffic, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut switches = [switch(None, program), switch(Some(options), program)];
    let (mut now, mut sent, mut waiting) = (0, 0, 0);
    for step in 0..traffic.steps {
        now += 1_000;
        if random.usize(0..traffic.write_one_in) == 0 {
            write(&mut random, program, &mut switches);
            continue;
        }
        let mut frame = vec![value(&mut random), value(&mut random), 0];
        let len = random.usize(6..12);
        frame.extend((0..len).map(|_| value(&mut random)));
        if traffic.alternates && step / 20_000 % 2 == 0 {
            frame[1..].fill_with(|| random.u8(..));
        }
        for switch in &mut switches {
            switch.handle_frame(now, PortId(1), &frame);
        }
        waiting += 1;
        let max_frames = match random.usize(0..traffic.together) {
            0 => usize::MAX,
            some if waiting >= traffic.together => some,
            _ => continue,
        };
        waiting = 0;
        let [expected, found] = leave(&mut switches, now, max_frames);
        assert_eq!(expected, found, "step {step} of seed {seed}, {options:?}");
        sent += found.len();
    }
    assert!(sent > traffic.steps / 10, "only {sent} frames left");
    for (table, info) in program.tables() {
        let [wanted, found] = switches
            .each_ref()
            .map(|switch| (switch.counters().table(table), switch.entries(table)));
        assert_eq!(wanted, found, "{}, {options:?}", info.name);
        let has_hits = wanted.0.hits > 0 || info.key.is_empty();
        assert!(has_hits, "{} has no hits", info.name);
    }
}

fn options() -> [NativeOptions; 3] {
    let micro = NativeOptions {
        microflow_cache: true,
        ..NativeOptions::NAIVE
    };
    let mega = NativeOptions {
        megaflow_cache: true,
        ..NativeOptions::NAIVE
    };
    [micro, mega, NativeOptions::ALL]
}

#[test]
fn cached_flows_find_what_the_tables_hold_now() {
    let program = program();
    for seed in 0..4 {
        for options in options() {
            compare(&program, options, FEW_FLOWS, seed);
            compare(&program, options, TOGETHER, seed);
        }
    }
}

#[test]
fn a_cache_that_slept_finds_what_the_tables_hold_now() {
    for options in options() {
        compare(&program(), options, MANY_FLOWS, 5);
    }
}

#[test]
fn a_parser_that_reads_what_packets_leave_does_not_run_early() {
    let program = program_with_stateful_parser();
    for seed in 0..4 {
        compare(&program, NativeOptions::ALL, TOGETHER, seed);
    }
}

#[test]
fn verification_that_draws_random_numbers_does_not_run_early() {
    let verify = "verify_checksum(true, { hdr.h.a }, hdr.h.c, HashAlgorithm.random);";
    let text = TEXT
        .replace(
            "meta) { apply { } }\ncontrol I",
            &format!("meta) {{ apply {{ {verify} }} }}\ncontrol I"),
        )
        .replace("acl.apply();", "acl.apply(); random(hdr.h.e, 0, 255);");
    assert!(text.contains(verify) && text.contains("random(hdr"));
    let program = program_of(&text);
    for seed in 0..4 {
        compare(&program, NativeOptions::ALL, TOGETHER, seed);
    }
}

#[test]
fn tables_whose_keys_never_differ_need_no_cache() {
    let tables = "table always { actions = { to; } default_action = to(1); }
        table same { key = { meta.via: ternary; } actions = { note; NoAction; } }
        apply { always.apply(); same.apply(); sm.egress_spec = 2; }";
    let before = TEXT.split_once("    table routes").unwrap().0;
    let after = TEXT.split_once("control E").unwrap().1;
    let text = format!("{before}{tables}\n}}\ncontrol E{after}");
    let text = text.replace("    direct_counter(CounterType.packets) taken;\n", "");
    let program = program_of(&text);
    for options in options() {
        compare(&program, options, TOGETHER, 0);
    }
}
