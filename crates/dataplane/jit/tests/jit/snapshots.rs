//! Undoes control calls (changes to tables and action profiles, for example), and checks that the native engine and the
//! interpreter then forward as if the calls had never been made. Takes ports down and disables them, and checks that
//! both engines forward alike.

use std::collections::BTreeSet;
use std::path::Path;

use dataplane::{
    ActionCall, ActionProfileId, MatchField, MulticastGroup, OwnedTransmit, PortId, ProfileGroup,
    ProfileMember, Program, Replica, Switch, SwitchConfig, TableAction, TableEntry, TableId,
};
use dataplane_jit::{NativeFactory, NativeOptions};
use fastrand::Rng;
use p4_compiler::Options;

const N_PORTS: u16 = 4;
/// Id of the group of action profile `I.spread`, and of the multicast group.
const GROUP: u32 = 1;

fn program() -> Program {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let load = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let path = "testdata/compiler/ok/every_entity.p4";
    let text = load(path).unwrap();
    let output = p4_compiler::compile(path, &text, &load, &Options::default());
    Program::from_json(&output.bmv2_json.unwrap()).unwrap()
}

fn interpreted(program: &Program) -> Switch {
    ready(Switch::new(SwitchConfig::default()), program)
}

fn native(program: &Program) -> Switch {
    let options = NativeOptions::default();
    let factory = Box::new(NativeFactory { options });
    let switch = Switch::with_engine(SwitchConfig::default(), factory);
    ready(switch, program)
}

/// A switch with a group of an action profile whose members watch ports, entries that lead to the group, and a
/// multicast group with a backup replica.
fn ready(mut switch: Switch, program: &Program) -> Switch {
    (0..N_PORTS).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program.clone());
    set_up(&mut switch);
    switch
}

fn table(switch: &Switch, name: &str) -> TableId {
    switch.program().unwrap().table(name).unwrap()
}

fn profile(switch: &Switch) -> ActionProfileId {
    let program = switch.program().unwrap();
    program.action_profile("I.spread").unwrap()
}

fn call(switch: &Switch, table: TableId, name: &str, arg: u8) -> ActionCall {
    ActionCall {
        action: switch.program().unwrap().action_of(table, name).unwrap(),
        args: vec![vec![arg]],
    }
}

fn member(switch: &Switch, id: u32, mark: u8) -> ProfileMember {
    let action = call(switch, table(switch, "I.many"), "I.mark", mark);
    ProfileMember { id, action }
}

/// An entry of `I.ordered` that matches one bit of the address; entries overlap.
fn ordered(switch: &Switch, rng: &mut Rng) -> TableEntry {
    let of = table(switch, "I.ordered");
    let bit = vec![1 << rng.u8(..4)];
    let key = vec![MatchField::Ternary {
        value: bit.clone(),
        mask: bit,
    }];
    TableEntry::new(key, rng.i32(1..3), call(switch, of, "I.mark", rng.u8(..)))
}

/// A frame whose address decides which entries it hits.
fn frame(dst: u8, ether_type: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[5] = dst;
    frame[11] = dst.wrapping_mul(37);
    frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
    frame
}

fn forward(switch: &mut Switch, frame: &[u8]) -> Vec<OwnedTransmit> {
    switch.handle_frame(0, PortId(0), frame);
    let mut sent = Vec::new();
    while let Some(transmit) = switch.poll_transmit(0) {
        sent.push(transmit.to_owned());
    }
    sent
}

fn set_up(switch: &mut Switch) {
    let (of, many) = (profile(switch), table(switch, "I.many"));
    for (id, mark) in [(1, 101), (2, 102), (3, 103)] {
        let member = member(switch, id, mark);
        switch.insert_member(of, member).unwrap();
    }
    let group = ProfileGroup {
        id: GROUP,
        members: vec![(1, 1), (2, 2), (3, 1)],
        watched: vec![(1, PortId(2)), (2, PortId(3)), (3, PortId(1))],
        ..ProfileGroup::default()
    };
    switch.insert_group(of, group).unwrap();
    // Frames to other addresses keep the mark that `I.ordered` gives them.
    for dst in 8..16 {
        let key = vec![MatchField::Exact(vec![dst])];
        let entry = TableEntry::new(key, 0, TableAction::Group(GROUP));
        switch.insert_entry(many, entry).unwrap();
    }
    let replica = |port, instance| Replica {
        port: PortId(port),
        instance,
    };
    let group = MulticastGroup {
        id: GROUP,
        replicas: vec![replica(1, 1), replica(2, 2)],
        backups: vec![Vec::new(), vec![replica(3, 3)]],
    };
    switch.insert_multicast_group(group).unwrap();
    let replicated = table(switch, "I.replicated");
    let key = vec![MatchField::Exact(vec![9])];
    let to_group = call(switch, replicated, "I.to_group", 1);
    let entry = TableEntry::new(key, 0, to_group);
    switch.insert_entry(replicated, entry).unwrap();
}

/// Makes a change that is not undone.
fn change(switch: &mut Switch, rng: &mut Rng) {
    let (of, entry) = (table(switch, "I.ordered"), ordered(switch, rng));
    // A refused call changes nothing.
    let _ = match rng.u8(..4) {
        0 | 1 => switch.insert_entry(of, entry),
        2 => switch.modify_entry(of, entry),
        _ => switch.delete_entry(of, &entry.key, entry.priority),
    };
}

/// Makes random changes and undoes them.
fn change_and_take_back(switch: &mut Switch, rng: &mut Rng) {
    let (of, profile) = (table(switch, "I.ordered"), profile(switch));
    let members = switch.profile_snapshot(profile).unwrap();
    let mut steps = Vec::new();
    for _ in 0..rng.usize(1..12) {
        let entry = ordered(switch, rng);
        let was = switch.entry_snapshot(of, &entry.key, entry.priority);
        steps.push(was.unwrap());
        let _ = match rng.u8(..3) {
            0 => switch.insert_entry(of, entry),
            1 => switch.modify_entry(of, entry),
            _ => switch.delete_entry(of, &entry.key, entry.priority),
        };
        let member = member(switch, rng.u32(1..=3), rng.u8(..));
        switch.modify_member(profile, member).unwrap();
    }
    for step in steps.iter().rev() {
        switch.restore_entry(step).unwrap();
    }
    switch.restore_profile(members);
}

#[test]
fn what_is_taken_back_is_forwarded_as_if_it_had_never_been() {
    let program = program();
    let mut never = interpreted(&program);
    let mut others = [interpreted(&program), native(&program)];
    let mut seeds = Rng::with_seed(7);
    let mut marks = BTreeSet::new();
    for _ in 0..300 {
        let (seed, undone) = (seeds.u64(..), seeds.u64(..));
        change(&mut never, &mut Rng::with_seed(seed));
        for switch in &mut others {
            change(switch, &mut Rng::with_seed(seed));
            change_and_take_back(switch, &mut Rng::with_seed(undone));
        }
        for dst in 0..16 {
            let frame = frame(dst, 0x0800);
            let expected = forward(&mut never, &frame);
            for switch in &mut others {
                let name = switch.engine_name();
                assert_eq!(forward(switch, &frame), expected, "{name}");
            }
            marks.extend(expected.iter().map(|sent| sent.frame[16]));
        }
        let of = table(&never, "I.ordered");
        for switch in &others {
            assert_eq!(switch.entries(of), never.entries(of));
        }
    }
    assert!(
        marks.len() > 20,
        "entries of several kinds were hit: {marks:?}"
    );
}

#[test]
fn ports_that_go_down_and_come_up_are_followed_alike() {
    let program = program();
    let (mut reference, mut compiled) = (interpreted(&program), native(&program));
    let mut rng = Rng::with_seed(8);
    let mut ways = BTreeSet::new();
    for _ in 0..200 {
        let (port, is_up) = (PortId(rng.u16(1..4)), rng.bool());
        reference.set_port_up(port, is_up);
        compiled.set_port_up(port, is_up);
        for dst in 0..16 {
            for ether_type in [0x0800, 9] {
                let frame = frame(dst, ether_type);
                let expected = forward(&mut reference, &frame);
                assert_eq!(forward(&mut compiled, &frame), expected);
                let way = expected.iter().map(|sent| (sent.port.0, sent.frame[16]));
                ways.insert(way.collect::<Vec<_>>());
            }
        }
    }
    // A frame leaves with the mark of one of three members, with the mark of none, or as copies with or without the
    // backup.
    assert_eq!(ways.len(), 6, "{ways:?}");
}

#[test]
fn ports_that_are_disabled_are_followed_alike() {
    let program = program();
    let (mut reference, mut compiled) = (interpreted(&program), native(&program));
    let mut rng = Rng::with_seed(9);
    for _ in 0..200 {
        let (port, is_enabled) = (PortId(rng.u16(0..4)), rng.bool());
        reference.set_port_enabled(port, is_enabled);
        compiled.set_port_enabled(port, is_enabled);
        for dst in 0..16 {
            for ether_type in [0x0800, 9] {
                let frame = frame(dst, ether_type);
                let expected = forward(&mut reference, &frame);
                assert_eq!(forward(&mut compiled, &frame), expected);
            }
        }
    }
    assert_eq!(reference.counters(), compiled.counters());
    let dropped = reference
        .counters()
        .dropped(dataplane::DropReason::PortDisabled);
    assert!(dropped > 500, "{dropped}");
}
