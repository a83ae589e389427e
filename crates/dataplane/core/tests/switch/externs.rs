//! Meters, parser value sets, idle timeouts, initial entries, hashes with configured parameters.

use dataplane::{
    ActionCall, ControlErrorKind, CrcParameters, MatchField, MeterConfig, MeterUnit, PortId,
    Switch, SwitchConfig, TableEntry, TableId,
};
use serde_json::{Value, json};
use testkit::builder::*;

const MILLISECOND: u64 = 1_000_000;

const RATES: MeterConfig = MeterConfig {
    committed_rate: 1_000,
    committed_burst: 1,
    peak_rate: 1_000,
    peak_burst: 2,
    excess_burst: 0,
};

/// Makes a switch that sets `pkt.left` to the colour of `meter[pkt.kind]`; 0x77 stays there if no such cell exists.
fn metered() -> Switch {
    let mut b = Builder::default();
    let meter = json!({"name": "meter", "id": 0, "is_direct": false, "size": 4, "rate_count": 2,
        "type": "packets"});
    b.push("meter_arrays", meter);
    let array = json!({"type": "meter_array", "value": "meter"});
    let execute = prim(
        "execute_meter",
        &[array, field("pkt.kind"), field("pkt.left")],
    );
    let primitives = [assign("pkt.left", hex(0x77)), execute, output_to(1)];
    b.run(INGRESS, "run", &primitives);
    b.switch(SwitchConfig::default())
}

fn left_at(switch: &mut Switch, now: u64, frame: &[u8]) -> u8 {
    exchange(switch, now, 0, frame)[0].frame[1]
}

#[test]
fn a_meter_without_rates_is_green_and_one_with_rates_marks() {
    let mut switch = metered();
    let meter = switch.program().unwrap().meter("meter").unwrap();
    let found = switch.program().unwrap().meter_unit(meter);
    assert_eq!(found, Some(MeterUnit::Packets));
    assert_eq!(left_at(&mut switch, 0, &[2, 0, 0, 0]), 0);
    switch.set_meter_cell(meter, 2, Some(RATES)).unwrap();
    assert_eq!(switch.meter_cell(meter, 2), Ok(Some(RATES)));
    let colors: Vec<u8> = (0..4)
        .map(|_| left_at(&mut switch, 0, &[2, 0, 0, 0]))
        .collect();
    assert_eq!(colors, [0, 1, 2, 2]);
    assert_eq!(left_at(&mut switch, 0, &[1, 0, 0, 0]), 0, "another cell");
    let later = MILLISECOND;
    assert_eq!(left_at(&mut switch, later, &[2, 0, 0, 0]), 0);
    assert_eq!(left_at(&mut switch, later, &[2, 0, 0, 0]), 2);
    switch.set_meter_cell(meter, 2, None).unwrap();
    assert_eq!(left_at(&mut switch, later, &[2, 0, 0, 0]), 0);
}

#[test]
fn a_meter_beyond_the_end_leaves_the_destination_as_it_was() {
    let mut switch = metered();
    let meter = switch.program().unwrap().meter("meter").unwrap();
    assert_eq!(left_at(&mut switch, 0, &[4, 0, 0, 0]), 0x77);
    let refused = switch.set_meter_cell(meter, 4, None).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::OutOfRange);
    let expected = "meter \"meter\": expected an index below 4, found 4";
    assert_eq!(refused.message, expected);
    let mut wrong = RATES;
    wrong.peak_rate = 999;
    let refused = switch.set_meter_cell(meter, 0, Some(wrong)).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::InvalidArgument);
    let expected = "meter: the peak rate 999 is below the committed rate 1000";
    assert_eq!(refused.message, expected);
}

/// A table `t` on `pkt.kind`: action `copy` sets `pkt.left` to `m.kept`, a miss sets it to 0xff.
fn table(change: impl Fn(&mut Builder, &mut Value)) -> (Switch, TableId, ActionCall) {
    let mut b = Builder::default();
    let copy = b.action("copy", &[], &[assign("pkt.left", field("m.kept"))]);
    let miss = b.action("miss", &[], &[assign("pkt.left", hex(0xff))]);
    let actions = [("copy", copy), ("miss", miss)];
    let mut table = b
        .table(
            INGRESS,
            "t",
            &[("exact", "pkt.kind")],
            &actions,
            Some("out"),
        )
        .take();
    table["default_entry"] = json!({"action_id": miss, "action_const": false, "action_data": [],
        "action_entry_const": false});
    change(&mut b, &mut table);
    b.json["pipelines"][INGRESS]["tables"] = json!([table]);
    b.call(INGRESS, "out", None, &[output_to(1)]);
    b.start(INGRESS, "t");
    let switch = b.switch(SwitchConfig::default());
    let program = switch.program().unwrap();
    let table = program.table("t").unwrap();
    let action = program.action_of(table, "copy").unwrap();
    let call = ActionCall {
        action,
        args: vec![],
    };
    (switch, table, call)
}

fn kind(kind: u8) -> Vec<MatchField> {
    vec![MatchField::Exact(vec![kind])]
}

#[test]
fn a_direct_meter_writes_its_colour_before_the_action_runs() {
    let (mut switch, table, call) = table(|b, table| {
        table["direct_meters"] = json!("t_meter");
        let meter = json!({"name": "t_meter", "id": 0, "is_direct": true, "rate_count": 2,
            "type": "bytes", "result_target": ["m", "kept"]});
        b.push("meter_arrays", meter);
    });
    assert_eq!(
        switch.program().unwrap().direct_meter(table),
        Some(("t_meter", MeterUnit::Bytes))
    );
    switch
        .insert_entry(table, TableEntry::new(kind(1), 0, call))
        .unwrap();
    let found = left_at(&mut switch, 0, &[1, 0, 0, 0]);
    assert_eq!(found, 0, "green without rates");
    let config = MeterConfig {
        committed_rate: 1,
        committed_burst: 4,
        peak_rate: 1,
        peak_burst: 8,
        excess_burst: 0,
    };
    switch
        .set_direct_meter(table, &kind(1), 0, Some(config))
        .unwrap();
    let colors: Vec<u8> = (0..3)
        .map(|_| left_at(&mut switch, 0, &[1, 0, 0, 0]))
        .collect();
    assert_eq!(colors, [0, 1, 2], "four bytes a packet");
    assert_eq!(left_at(&mut switch, 0, &[2, 0, 0, 0]), 0xff, "a miss");
    assert_eq!(switch.direct_meter(table, &kind(1), 0), Ok(Some(config)));
    assert_eq!(switch.entries(table)[0].meter, Some(config));
}

#[test]
fn meters_and_idle_timeouts_need_a_table_that_has_them() {
    use ControlErrorKind::*;
    let (mut switch, table, call) = table(|_, _| {});
    let mut entry = TableEntry::new(kind(1), 0, call);
    entry.meter = Some(RATES);
    let refused = switch.insert_entry(table, entry.clone()).unwrap_err();
    assert_eq!(refused.kind, FailedPrecondition);
    entry.meter = None;
    entry.idle_timeout_ns = 5;
    let refused = switch.insert_entry(table, entry.clone()).unwrap_err();
    assert_eq!(refused.kind, InvalidArgument);
    assert_eq!(refused.message, "table \"t\" has no idle timeouts");
    assert_eq!(switch.entry_count(table), 0);
}

#[test]
fn an_entry_that_is_not_hit_is_reported_once_until_the_next_hit() {
    let (mut switch, table, call) = table(|_, table| table["support_timeout"] = json!(true));
    let mut entry = TableEntry::new(kind(1), 0, call.clone());
    entry.idle_timeout_ns = 10 * MILLISECOND;
    switch.handle_timeout(MILLISECOND);
    switch.insert_entry(table, entry).unwrap();
    switch
        .insert_entry(table, TableEntry::new(kind(2), 0, call))
        .unwrap();
    assert_eq!(switch.poll_timeout(), Some(11 * MILLISECOND));
    // A hit postpones the timeout.
    left_at(&mut switch, 5 * MILLISECOND, &[1, 0, 0, 0]);
    switch.handle_timeout(11 * MILLISECOND);
    assert_eq!(switch.poll_idle_timeout(), None);
    assert_eq!(switch.poll_timeout(), Some(15 * MILLISECOND));
    switch.handle_timeout(15 * MILLISECOND);
    let idle = switch.poll_idle_timeout().unwrap();
    assert_eq!((idle.table, &idle.entry.key), (table, &kind(1)));
    assert_eq!(idle.entry.since_last_hit_ns, 10 * MILLISECOND);
    assert_eq!(switch.poll_idle_timeout(), None);
    assert_eq!(switch.poll_timeout(), None);
    switch.handle_timeout(90 * MILLISECOND);
    assert_eq!(switch.poll_idle_timeout(), None, "reported once");
    left_at(&mut switch, 100 * MILLISECOND, &[1, 0, 0, 0]);
    assert_eq!(switch.poll_timeout(), Some(110 * MILLISECOND));
    switch.handle_timeout(110 * MILLISECOND);
    assert!(switch.poll_idle_timeout().is_some(), "reported again");
    assert_eq!(switch.entry_count(table), 2, "the entry is there still");
}

#[test]
fn a_table_is_not_searched_for_each_of_many_idle_entries() {
    const N_ENTRIES: u8 = 200;
    let (mut switch, table, call) = table(|_, table| {
        table["support_timeout"] = json!(true);
        table["max_size"] = json!(N_ENTRIES);
    });
    for number in 0..N_ENTRIES {
        let mut entry = TableEntry::new(kind(number), 0, call.clone());
        entry.idle_timeout_ns = MILLISECOND + 1_000 * u64::from(number);
        switch.insert_entry(table, entry).unwrap();
    }
    let (mut n_searches, mut n_reported) = (0, 0);
    while let Some(at) = switch.poll_timeout() {
        switch.handle_timeout(at);
        n_searches += 1;
        while let Some(idle) = switch.poll_idle_timeout() {
            n_reported += 1;
            let late = idle.entry.since_last_hit_ns - idle.entry.idle_timeout_ns;
            assert!(late <= 100 * u64::from(N_ENTRIES), "{late} ns late");
        }
    }
    assert_eq!(n_reported, N_ENTRIES);
    assert!(n_searches < N_ENTRIES / 10, "{n_searches} searches");
}

#[test]
fn entries_of_the_program_are_fixed_unless_it_says_otherwise() {
    let entry = |key: &str| {
        json!({"match_key": [{"match_type": "exact", "key": key}], "priority": 1,
            "action_entry": {"action_id": 2, "action_data": []}})
    };
    let fixed = |_: &mut Builder, table: &mut Value| table["entries"] = json!([entry("0x01")]);
    let (mut switch, t, call) = table(fixed);
    let refused = switch.delete_entry(t, &kind(1), 0).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::PermissionDenied);
    let more = TableEntry::new(kind(2), 0, call);
    let refused = switch.insert_entry(t, more.clone()).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::PermissionDenied);

    let initial = |_: &mut Builder, table: &mut Value| {
        let mut second = entry("0x03");
        second["is_const"] = json!(true);
        table["entries"] = json!([entry("0x01"), second]);
        table["const_entries"] = json!(false);
    };
    let (mut switch, t, _) = table(initial);
    assert_eq!(left_at(&mut switch, 0, &[1, 9, 0, 0]), 0);
    switch.delete_entry(t, &kind(1), 0).unwrap();
    assert_eq!(left_at(&mut switch, 0, &[1, 9, 0, 0]), 0xff);
    switch.insert_entry(t, more).unwrap();
    let refused = switch.delete_entry(t, &kind(3), 0).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::PermissionDenied);
    let expected = "table \"t\" has this entry as a constant entry of the program";
    assert_eq!(refused.message, expected);
    let is_const: Vec<bool> = switch
        .entries(t)
        .iter()
        .map(|entry| entry.is_const)
        .collect();
    assert_eq!(is_const, [false, true]);
}

#[test]
fn a_key_field_of_a_header_that_is_not_there_is_zero() {
    let mut b = Builder::default();
    let hit = b.action("hit", &[], &[assign("m.kept", hex(1))]);
    b.call(
        INGRESS,
        "gone",
        Some("t"),
        &[prim(
            "remove_header",
            &[json!({"type": "header", "value": "pkt"})],
        )],
    );
    b.table(
        INGRESS,
        "t",
        &[("exact", "pkt.kind")],
        &[("hit", hit)],
        Some("out"),
    );
    b.call(INGRESS, "out", None, &[output_to(1)]);
    b.start(INGRESS, "gone");
    let mut switch = b.switch(SwitchConfig::default());
    let program = switch.program().unwrap();
    let table = program.table("t").unwrap();
    let action = program.action_of(table, "hit").unwrap();
    let call = ActionCall {
        action,
        args: vec![],
    };
    switch
        .insert_entry(table, TableEntry::new(kind(0), 0, call))
        .unwrap();
    exchange(&mut switch, 0, 0, &[7, 0, 0, 0]);
    assert_eq!(switch.counters().table(table).hits, 1);
}

/// Makes a switch that sends a packet to port 2 if (kind, left) is in the value set, otherwise to port 1.
fn with_value_set(mask: Value) -> Switch {
    let mut b = Builder::default();
    let set = json!({"name": "set", "id": 0, "compressed_bitwidth": 16, "max_size": 2});
    b.json["parse_vsets"] = json!([set]);
    let state = &mut b.json["parsers"][0]["parse_states"][0];
    state["transition_key"] = json!([field("pkt.kind"), field("pkt.left")]);
    let member =
        json!({"type": "parse_vset", "value": "set", "mask": mask, "next_state": "member"});
    state["transitions"]
        .as_array_mut()
        .unwrap()
        .insert(0, member);
    let found = json!({"name": "member", "id": 1, "transition_key": [], "parser_ops": [
        {"op": "set", "parameters": [field("m.kept"), hex(1)]}],
        "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}]});
    b.json["parsers"][0]["parse_states"]
        .as_array_mut()
        .unwrap()
        .push(found);
    let port = op("+", field("m.kept"), hex(1));
    let out = prim(
        "assign",
        &[
            field("standard_metadata.egress_spec"),
            json!({"type": "expression", "value": port}),
        ],
    );
    b.run(INGRESS, "out", &[out]);
    b.switch(SwitchConfig::default())
}

fn port_of(switch: &mut Switch, kind: u8, left: u8) -> u16 {
    exchange(switch, 0, 0, &[kind, left, 0, 0])[0].port.0
}

#[test]
fn a_value_set_is_what_the_control_plane_says() {
    let mut switch = with_value_set(json!(null));
    let program = switch.program().unwrap();
    let set = program.value_set("set").unwrap();
    assert_eq!(program.value_set_parts(set), [8, 8]);
    assert_eq!(port_of(&mut switch, 1, 2), 1, "empty at first");
    let exact = |value: u8| MatchField::Exact(vec![value]);
    let high_bits = MatchField::Ternary {
        value: vec![0x30],
        mask: vec![0xf0],
    };
    let members = vec![vec![exact(1), exact(2)], vec![exact(5), high_bits]];
    switch.set_value_set(set, members.clone()).unwrap();
    assert_eq!(switch.value_set(set), members);
    for (kind, left, port) in [(1, 2, 2), (2, 1, 1), (5, 0x3f, 2), (5, 0x4f, 1)] {
        assert_eq!(port_of(&mut switch, kind, left), port, "{kind} {left:#x}");
    }
    switch.set_value_set(set, Vec::new()).unwrap();
    assert_eq!(port_of(&mut switch, 1, 2), 1);
    let refuse =
        |switch: &mut Switch, members| switch.set_value_set(set, members).unwrap_err().kind;
    use ControlErrorKind::*;
    let found = refuse(&mut switch, vec![vec![exact(1), exact(2)]; 3]);
    assert_eq!(found, ResourceExhausted);
    assert_eq!(refuse(&mut switch, vec![vec![exact(1)]]), InvalidArgument);
    let range = MatchField::Range {
        low: vec![0],
        high: vec![9],
    };
    let found = refuse(&mut switch, vec![vec![exact(1), range]]);
    assert_eq!(found, InvalidArgument);
}

#[test]
fn a_mask_of_the_case_leaves_bits_of_the_value_set_out() {
    let mut switch = with_value_set(json!("0xff0f"));
    let set = switch.program().unwrap().value_set("set").unwrap();
    let member = vec![MatchField::Exact(vec![1]), MatchField::Exact(vec![0x12])];
    switch.set_value_set(set, vec![member]).unwrap();
    assert_eq!(port_of(&mut switch, 1, 0x92), 2);
    assert_eq!(port_of(&mut switch, 1, 0x13), 1);
}

#[test]
fn a_custom_crc_takes_the_parameters_it_is_given() {
    let mut b = Builder::default();
    let calculation = json!({"name": "calc", "id": 0, "algo": "crc16_custom",
        "input": [field("pkt.kind"), field("pkt.left")]});
    b.push("calculations", calculation);
    let calc = json!({"type": "calculation", "value": "calc"});
    let hash = prim(
        "modify_field_with_hash_based_offset",
        &[field("pkt.value"), hex(0), calc, hex(0x1_0000)],
    );
    b.run(INGRESS, "out", &[hash, output_to(1)]);
    let mut switch = b.switch(SwitchConfig::default());
    let value = |switch: &mut Switch| {
        let frame = exchange(switch, 0, 0, &[1, 2, 0, 0])[0].frame.clone();
        u16::from_be_bytes([frame[2], frame[3]])
    };
    let before = value(&mut switch);
    // With polynomial 0, two bytes shift out the whole initial remainder.
    let parameters = CrcParameters {
        polynomial: 0,
        initial: 0,
        xor_out: 0xabcd,
        reflect_in: false,
        reflect_out: false,
    };
    switch.set_crc_parameters("calc", parameters).unwrap();
    assert_eq!(value(&mut switch), 0xabcd);
    assert_ne!(before, 0xabcd);
    let wide = CrcParameters {
        initial: 0x1_0000,
        ..parameters
    };
    let refused = switch.set_crc_parameters("calc", wide).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::InvalidArgument);
    let refused = switch.set_crc_parameters("x", parameters).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::NotFound);
}

/// Makes a switch in which packets of kind 0 leave by port 1, packets of kind 1 are multicast to port 2, and packets of
/// kind 2 are recirculated; all are truncated to 6 bytes.
fn truncating() -> Switch {
    let mut b = Builder::default();
    b.field_list(1, &["m.kept"]);
    let cut = prim("truncate", &[hex(6)]);
    b.call(INGRESS, "cut", Some("is_group"), &[cut, output_to(1)]);
    let is = |kind| op("==", field("pkt.kind"), hex(kind));
    b.condition(INGRESS, "is_group", is(1), Some("group"), None);
    let group = assign("standard_metadata.mcast_grp", hex(4));
    b.call(INGRESS, "group", None, &[group]);
    b.start(INGRESS, "cut");
    let is_new = op("==", field("standard_metadata.instance_type"), hex(0));
    let wanted = op("and", is(2), is_new);
    b.condition(EGRESS, "is_back", wanted, Some("back"), None);
    let back = [assign("pkt.kind", hex(0)), prim("recirculate", &[hex(1)])];
    b.call(EGRESS, "back", None, &back);
    b.start(EGRESS, "is_back");
    let mut switch = b.switch(SwitchConfig::default());
    let replicas = vec![dataplane::Replica {
        port: PortId(2),
        instance: 0,
    }];
    switch
        .insert_multicast_group(dataplane::MulticastGroup {
            id: 4,
            replicas,
            ..dataplane::MulticastGroup::default()
        })
        .unwrap();
    switch
}

#[test]
fn a_packet_is_cut_where_it_leaves_and_its_copies_are_whole() {
    let mut switch = truncating();
    let frame = |kind| [kind, 0, 0, 0, 11, 12, 13, 14, 15, 16, 17, 18];
    let sent = brief(&exchange(&mut switch, 0, 0, &frame(0)));
    assert_eq!(sent, [(1, vec![0, 0, 0, 0, 11, 12])]);
    let sent = brief(&exchange(&mut switch, 0, 0, &frame(1)));
    assert_eq!(sent, [(2, frame(1).to_vec())]);
    let sent = brief(&exchange(&mut switch, 0, 0, &frame(2)));
    assert_eq!(sent, [(1, vec![0, 0, 0, 0, 11, 12])]);
}

#[test]
fn a_program_keeps_between_packets_what_they_write_and_read_and_meters() {
    let mut b = Builder::default();
    for (id, name) in [(0, "seen"), (1, "given")] {
        let array = json!({"name": name, "id": id, "bitwidth": 8, "size": 4});
        b.push("register_arrays", array);
    }
    let array = |name| json!({"type": "register_array", "value": name});
    let read = prim(
        "register_read",
        &[field("pkt.left"), array("given"), hex(0)],
    );
    let write = prim(
        "register_write",
        &[array("seen"), hex(0), field("pkt.left")],
    );
    let read_back = prim("register_read", &[field("pkt.left"), array("seen"), hex(0)]);
    let (seen, seen_back) = (write.clone(), read_back.clone());
    let kept = |switch: &Switch| switch.program().unwrap().kept_between_packets();
    let kept_by = |primitives: &[_]| {
        let mut b = b.clone();
        b.run(INGRESS, "run", primitives);
        kept(&b.switch(SwitchConfig::default()))
    };
    let notes = [read.clone(), write.clone(), output_to(1)];
    assert_eq!(kept_by(&notes), [""; 0], "no packet reads them");
    let found = kept_by(&[read, write, read_back, output_to(1)]);
    assert_eq!(found, ["register \"seen\""]);
    assert_eq!(kept(&metered()), ["meter \"meter\""]);
    // `@shared`: the register must not be split among several switches.
    for shared in [false, true] {
        let mut b = Builder::default();
        b.push(
            "register_arrays",
            json!({"name": "seen", "id": 0, "bitwidth": 8, "size": 4, "shared": shared}),
        );
        b.run(INGRESS, "run", &[seen_back.clone(), seen.clone()]);
        let switch = b.switch(SwitchConfig::default());
        let expected: &[&str] = if shared { &["register \"seen\""] } else { &[] };
        assert_eq!(switch.program().unwrap().shared_between_packets(), expected);
    }
}
