//! Checks that the native engine, with each of its optimisations, and the interpreter agree on the time that packets
//! have been inside the switch, as P4 programs read this time. The packets run once with a clock that advances between
//! passes, and once with a clock that stands still while many passes run at once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect, and tells one story"
)]

use dataplane::{
    ActionCall, CloneSession, MatchField, MulticastGroup, OwnedTransmit, PortId, Program, Replica,
    Switch, SwitchConfig, TableEntry, Transmit,
};
use dataplane_jit::{NativeFactory, NativeOptions};
use testkit::p4::program_of;

/// A packet leaves with the field `inside` set to the time that it has been inside the switch, and with `before` set to
/// the value that `inside` had when the packet last came to ingress. `kind` says what else happens: 1 a multicast, 2
/// recirculations with a clone each, 3 a resubmission, 4 a clone at ingress, 5 recirculations without a clone.
const PROGRAM: &str = "#define V1MODEL_NANOSECONDS_INSIDE
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; bit<8> left; bit<48> inside; bit<48> before; bit<16> narrow; }
struct headers_t { h_t h; }
struct meta_t { }
parser P(packet_in packet, out headers_t hdr, inout meta_t meta,
    inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.h); transition accept; } }
control N(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 2;
        hdr.h.before = hdr.h.inside;
        hdr.h.narrow = standard_metadata.nanoseconds_inside[15:0] | 0x8000;
        if (hdr.h.kind == 1) { standard_metadata.mcast_grp = 1; }
        if (hdr.h.kind == 3 && standard_metadata.instance_type == 0) {
            resubmit_preserving_field_list(1);
        }
        if (hdr.h.kind == 4) { clone(CloneType.I2E, 5); }
    } }
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard_metadata) {
    action add(bit<48> more) { hdr.h.inside = standard_metadata.nanoseconds_inside + more; }
    table t {
        key = { hdr.h.kind: exact; }
        actions = { add; NoAction; }
        default_action = add(0);
        size = 16;
    }
    apply {
        t.apply();
        if (standard_metadata.nanoseconds_inside > 30) { hdr.h.narrow = hdr.h.narrow + 1; }
        if (standard_metadata.instance_type != 2 && hdr.h.left != 0) {
            hdr.h.left = hdr.h.left - 1;
            if (hdr.h.kind == 2) { clone(CloneType.E2E, 5); }
            recirculate_preserving_field_list(1);
        }
    } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), N(), I(), E(), N(), D()) main;";

fn ready(mut switch: Switch, program: &Program) -> Switch {
    (1..=4).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program.clone());
    let replica = |port, instance| Replica {
        port: PortId(port),
        instance,
    };
    let replicas = (0..20).map(|instance| replica(3, instance)).collect();
    switch
        .insert_multicast_group(MulticastGroup {
            id: 1,
            replicas,
            backups: Vec::new(),
        })
        .unwrap();
    let session = CloneSession {
        id: 5,
        replicas: vec![replica(4, 7)],
        truncate_bytes: None,
        class_of_service: 0,
    };
    switch.insert_clone_session(session).unwrap();
    let program = switch.program().unwrap();
    let table = program.table("E.t").unwrap();
    let action = program.action_of(table, "E.add").unwrap();
    let args = vec![vec![1, 0, 0]];
    let key = vec![MatchField::Exact(vec![7])];
    let entry = TableEntry::new(key, 0, ActionCall { action, args });
    switch.insert_entry(table, entry).unwrap();
    switch
}

fn native(options: NativeOptions, program: &Program) -> Switch {
    let factory = NativeFactory { options };
    let switch = Switch::with_engine(SwitchConfig::default(), Box::new(factory));
    let switch = ready(switch, program);
    let left = switch.interpreted();
    assert!(left.is_empty(), "{left:?}");
    assert!(switch.is_timed());
    switch
}

fn frame(kind: u8, left: u8) -> Vec<u8> {
    let mut frame = vec![0xee; 40];
    frame[..2].copy_from_slice(&[kind, left]);
    frame[2..16].fill(0);
    frame
}

/// Frames of every kind: each in a batch of its own, and all in one batch.
fn batches() -> Vec<Vec<Vec<u8>>> {
    let kinds = [
        (0, 0),
        (7, 0),
        (1, 0),
        (2, 5),
        (3, 0),
        (4, 0),
        (5, 3),
        (3, 2),
        (1, 1),
    ];
    let mut batches: Vec<_> = kinds
        .iter()
        .map(|(kind, left)| vec![frame(*kind, *left)])
        .collect();
    batches.push(
        kinds
            .iter()
            .map(|(kind, left)| frame(*kind, *left))
            .collect(),
    );
    // The batches come twice, so that packets also hit records of the flow cache.
    [batches.clone(), batches].concat()
}

/// Runs the batches with a clock that advances before each step.
fn step_by_step(switch: &mut Switch) -> Vec<OwnedTransmit> {
    let (mut now, mut left) = (1_000, Vec::new());
    for batch in batches() {
        for frame in batch {
            now += 3;
            switch.handle_frame(now, PortId(1), &frame);
        }
        let mut send = |transmit: Transmit<'_>| left.push(transmit.to_owned());
        loop {
            now += 7;
            if switch.transmit_step(now, &mut send).is_idle {
                break;
            }
        }
    }
    left
}

/// Runs the batches with a clock that stands still while the switch transmits a batch.
fn at_once(switch: &mut Switch) -> Vec<OwnedTransmit> {
    let (mut now, mut left) = (1_000, Vec::new());
    for batch in batches() {
        for frame in batch {
            now += 3;
            switch.handle_frame(now, PortId(1), &frame);
        }
        now += 20;
        let mut send = |transmit: Transmit<'_>| left.push(transmit.to_owned());
        while !switch.transmit(now, 4, &mut send).is_idle {}
    }
    left
}

/// Returns combinations of the optimisations: none, each alone, and all.
fn choices() -> Vec<NativeOptions> {
    let alone = NativeOptions::NAMES.iter().map(|name| {
        let mut options = NativeOptions::NAIVE;
        *options.by_name_mut(name).unwrap() = true;
        options
    });
    [NativeOptions::NAIVE, NativeOptions::ALL]
        .into_iter()
        .chain(alone)
        .collect()
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[test]
fn engines_agree_about_the_time_inside() {
    let program = program_of(PROGRAM);
    for options in choices() {
        for run in [step_by_step, at_once] {
            let mut interpreter = ready(Switch::new(SwitchConfig::default()), &program);
            let wanted = run(&mut interpreter);
            let mut native = native(options, &program);
            assert_eq!(run(&mut native), wanted, "{options:?}");
            assert_eq!(native.counters(), interpreter.counters(), "{options:?}");
            assert!(wanted.len() > 100, "{}", wanted.len());
        }
    }
}

#[test]
fn the_time_goes_on_through_all_kinds_of_passes_and_is_0_before_egress() {
    let program = program_of(PROGRAM);
    let mut switch = native(NativeOptions::ALL, &program);
    let mut now = 1_000_000;
    let mut run = |frame: &[u8]| {
        let mut left = Vec::new();
        switch.handle_frame(now, PortId(1), frame);
        let mut send = |transmit: Transmit<'_>| left.push(transmit.to_owned().frame);
        loop {
            now += 10;
            if switch.transmit_step(now, &mut send).is_idle {
                break;
            }
        }
        // The time in the switch, and the time that the ingress control read.
        let times = |frame: Vec<u8>| (number(&frame[2..8]), number(&frame[14..16]) & 0x7ff0);
        left.into_iter().map(times).collect::<Vec<_>>()
    };
    assert_eq!(run(&frame(0, 0)), [(20, 0)]);
    // The action of an entry adds 65,536.
    assert_eq!(run(&frame(7, 0)), [(20 + 65_536, 0)]);
    let replicas: Vec<_> = (2..22).map(|step| (10 * step, 0)).collect();
    assert_eq!(run(&frame(1, 0)), replicas);
    // Each pass takes 10 ns. The passes are ingress, egress, the clone's egress, ingress, and so on.
    assert_eq!(run(&frame(2, 2)), [(30, 0), (60, 0), (80, 0)]);
    assert_eq!(run(&frame(3, 0)), [(30, 0)]);
    assert_eq!(run(&frame(4, 0)), [(20, 0), (30, 0)]);
    assert_eq!(run(&frame(5, 2)), [(60, 0)]);
}
