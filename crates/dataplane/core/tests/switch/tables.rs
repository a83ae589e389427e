//! Tables: the match kinds, entries, default actions, next nodes, direct counters.

use dataplane::{
    ActionCall, ControlErrorKind, CounterValue, MatchField, Switch, SwitchConfig, TableEntry,
    TableId,
};
use serde_json::json;
use testkit::builder::*;

/// A table `t` over the key fields; a hit writes `pkt.left`, a miss writes 0xff there.
fn matcher(key: &[(&str, &str)]) -> Builder {
    let mut b = Builder::default();
    let set = b.action("set", &[("left", 8)], &[assign("pkt.left", param(0))]);
    let miss = b.action("miss", &[], &[assign("pkt.left", hex(0xff))]);
    let table = b.table(
        INGRESS,
        "t",
        key,
        &[("set", set), ("miss", miss)],
        Some("out"),
    );
    table["default_entry"] = json!({"action_id": miss, "action_const": false, "action_data": [],
        "action_entry_const": false});
    b.call(INGRESS, "out", None, &[output_to(1)]);
    b.start(INGRESS, "t");
    b
}

fn entry(switch: &Switch, key: Vec<MatchField>, priority: i32, left: u8) -> (TableId, TableEntry) {
    let program = switch.program().unwrap();
    let table = program.table("t").unwrap();
    let action = program.action_of(table, "set").unwrap();
    let action = ActionCall {
        action,
        args: vec![vec![left]],
    };
    (table, TableEntry::new(key, priority, action))
}

fn insert(switch: &mut Switch, key: Vec<MatchField>, priority: i32, left: u8) {
    let (table, entry) = entry(switch, key, priority, left);
    switch.insert_entry(table, entry).unwrap();
}

fn left_of(switch: &mut Switch, frame: &[u8]) -> u8 {
    exchange(switch, 0, 0, frame)[0].frame[1]
}

fn ternary(value: u16, mask: u16) -> MatchField {
    MatchField::Ternary {
        value: value.to_be_bytes().into(),
        mask: mask.to_be_bytes().into(),
    }
}

#[test]
fn an_exact_entry_is_hit_by_its_value_only() {
    let key = [("exact", "pkt.kind"), ("exact", "pkt.value")];
    let mut switch = matcher(&key).switch(SwitchConfig::default());
    let key = || vec![MatchField::Exact(vec![0, 7]), MatchField::Exact(vec![5])];
    insert(&mut switch, key(), 0, 1);
    assert_eq!(left_of(&mut switch, &[7, 0, 0, 5]), 1);
    assert_eq!(left_of(&mut switch, &[7, 0, 5, 0]), 0xff);
    assert_eq!(left_of(&mut switch, &[5, 0, 0, 7]), 0xff);
    let table = switch.program().unwrap().table("t").unwrap();
    assert_eq!(switch.counters().table(table).hits, 1);
    assert_eq!(switch.counters().table(table).misses, 2);
    let counter = switch.direct_counter(table, &key(), 0).unwrap();
    assert_eq!(
        counter,
        CounterValue {
            packets: 1,
            bytes: 4
        }
    );
    // The value is in canonical form, which has no leading zero byte.
    assert_eq!(switch.entries(table)[0].key[0], MatchField::Exact(vec![7]));
}

/// The handle of each entry with the value of its only key field.
fn handles(switch: &Switch, table: TableId) -> Vec<(u32, u8)> {
    let all = switch.entries_with_handles_in(table, 0..usize::MAX);
    let of = |(handle, entry): (dataplane::EntryHandle, TableEntry)| match &entry.key[..] {
        [MatchField::Exact(value)] => (handle.0, value[0]),
        other => panic!("{other:?}"),
    };
    all.into_iter().map(of).collect()
}

#[test]
fn a_handle_is_the_lowest_free_place_and_how_often_it_was_used() {
    let mut switch = matcher(&[("exact", "pkt.kind")]).switch(SwitchConfig::default());
    let table = switch.program().unwrap().table("t").unwrap();
    let key = |value: u8| vec![MatchField::Exact(vec![value])];
    for value in 0..4 {
        insert(&mut switch, key(value), 0, value);
    }
    for value in [3, 1, 2] {
        switch.delete_entry(table, &key(value), 0).unwrap();
    }
    for value in [7, 8] {
        insert(&mut switch, key(value), 0, value);
    }
    let expected = [(0, 0), (0x0100_0001, 7), (0x0100_0002, 8)];
    assert_eq!(handles(&switch, table), expected);
    let handle = switch.entry_handle(table, &key(8), 0).unwrap();
    assert_eq!((handle.0, handle.place()), (0x0100_0002, 2));
    assert_eq!(switch.entry_handle(table, &key(1), 0), None);
    // The numbering of handles does not restart while the table has entries.
    switch.forget_handles(table).unwrap();
    assert_eq!(handles(&switch, table), expected);
    for value in [0, 7, 8] {
        switch.delete_entry(table, &key(value), 0).unwrap();
    }
    switch.forget_handles(table).unwrap();
    insert(&mut switch, key(5), 0, 5);
    assert_eq!(handles(&switch, table), [(0, 5)]);
}

#[test]
fn the_longest_prefix_wins() {
    let key = [("lpm", "pkt.value"), ("exact", "pkt.kind")];
    let mut switch = matcher(&key).switch(SwitchConfig::default());
    let prefix = |value: u16, prefix_len| {
        let value = value.to_be_bytes().into();
        vec![
            MatchField::Lpm { value, prefix_len },
            MatchField::Exact(vec![1]),
        ]
    };
    insert(&mut switch, prefix(0, 0), 0, 10);
    insert(&mut switch, prefix(0x1200, 8), 0, 11);
    insert(&mut switch, prefix(0x1230, 12), 0, 12);
    insert(&mut switch, prefix(0x1234, 16), 0, 13);
    for (value, left) in [(0x1234, 13), (0x1235, 12), (0x1299, 11), (0x9999, 10)] {
        let [high, low] = u16::to_be_bytes(value);
        assert_eq!(left_of(&mut switch, &[1, 0, high, low]), left, "{value:#x}");
    }
    let found = left_of(&mut switch, &[2, 0, 0x12, 0x34]);
    assert_eq!(found, 0xff, "the exact field differs");
    let table = switch.program().unwrap().table("t").unwrap();
    switch.delete_entry(table, &prefix(0x1230, 12), 0).unwrap();
    assert_eq!(left_of(&mut switch, &[1, 0, 0x12, 0x35]), 11);
}

#[test]
fn the_highest_priority_wins_in_a_ternary_table() {
    let mut switch = matcher(&[("ternary", "pkt.value")]).switch(SwitchConfig::default());
    insert(&mut switch, vec![ternary(0, 0)], 1, 1);
    insert(&mut switch, vec![ternary(0x1200, 0xff00)], 30, 3);
    insert(&mut switch, vec![ternary(0x0034, 0x00ff)], 20, 2);
    insert(
        &mut switch,
        vec![MatchField::Optional(Some(vec![0x99]))],
        40,
        4,
    );
    for (value, left) in [(0x1234, 3), (0x5634, 2), (0x5678, 1), (0x0099, 4)] {
        let [high, low] = u16::to_be_bytes(value);
        assert_eq!(left_of(&mut switch, &[0, 0, high, low]), left, "{value:#x}");
    }
}

#[test]
fn ranges_are_closed_at_both_ends() {
    let mut switch = matcher(&[("range", "pkt.value")]).switch(SwitchConfig::default());
    let range = |low: u8, high: u8| {
        vec![MatchField::Range {
            low: vec![low],
            high: vec![high],
        }]
    };
    insert(&mut switch, range(10, 20), 1, 1);
    insert(&mut switch, range(20, 30), 2, 2);
    for (value, left) in [(9, 0xff), (10, 1), (19, 1), (20, 2), (30, 2), (31, 0xff)] {
        assert_eq!(left_of(&mut switch, &[0, 0, 0, value]), left, "{value}");
    }
}

#[test]
fn validity_can_be_a_key() {
    let mut switch = matcher(&[("exact", "pkt.$valid$")]).switch(SwitchConfig::default());
    insert(&mut switch, vec![MatchField::Exact(vec![1])], 0, 5);
    assert_eq!(left_of(&mut switch, &[0, 0, 0, 0]), 5);
}

#[test]
fn const_entries_are_looked_at_in_bmv2s_order_and_cannot_be_changed() {
    let mut b = matcher(&[("ternary", "pkt.value")]);
    let action_id = b.json["actions"][0]["id"].clone();
    let entry = |value: &str, mask: &str, priority: u32, left: &str| {
        json!({"match_key": [{"match_type": "ternary", "key": value, "mask": mask}],
            "action_entry": {"action_id": action_id, "action_data": [left]}, "priority": priority})
    };
    b.json["pipelines"][0]["tables"][0]["entries"] = json!([
        entry("0x0000", "0x0000", 9, "0x1"),
        entry("0x1200", "0xff00", 2, "0x2")
    ]);
    let mut switch = b.switch(SwitchConfig::default());
    assert_eq!(left_of(&mut switch, &[0, 0, 0x12, 0]), 2);
    assert_eq!(left_of(&mut switch, &[0, 0, 0x13, 0]), 1);
    let table = switch.program().unwrap().table("t").unwrap();
    let entries = switch.entries(table);
    assert!(entries.iter().all(|entry| entry.is_const));
    assert!(
        entries[1].priority > entries[0].priority,
        "P4Runtime: the higher wins"
    );
    let refused = switch.insert_entry(table, entries[0].clone()).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::PermissionDenied);
    let refused = switch
        .delete_entry(table, &entries[0].key, entries[0].priority)
        .unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::PermissionDenied);
}

#[test]
fn the_default_action_can_be_changed_and_comes_back() {
    let mut switch = matcher(&[("exact", "pkt.kind")]).switch(SwitchConfig::default());
    let program = switch.program().unwrap();
    let table = program.table("t").unwrap();
    let set = program.action_of(table, "set").unwrap();
    let before = switch.default_action(table);
    let call = ActionCall {
        action: set,
        args: vec![vec![0x42]],
    };
    switch
        .set_default_action(table, Some(call.clone().into()))
        .unwrap();
    assert_eq!(switch.default_action(table), Some(call.into()));
    assert_eq!(left_of(&mut switch, &[0; 4]), 0x42);
    switch.set_default_action(table, None).unwrap();
    assert_eq!(switch.default_action(table), before);
    assert_eq!(left_of(&mut switch, &[0; 4]), 0xff);
}

#[test]
fn hit_and_miss_choose_the_next_node() {
    let mut b = Builder::default();
    let nop = b.action("nop", &[], &[]);
    let table = b.table(
        INGRESS,
        "t",
        &[("exact", "pkt.kind")],
        &[("set", nop)],
        None,
    );
    table["actions"] = json!(["nop"]);
    table["next_tables"] = json!({"__HIT__": "yes", "__MISS__": "no"});
    b.call(INGRESS, "yes", None, &[output_to(1)]);
    b.call(INGRESS, "no", None, &[output_to(2)]);
    b.start(INGRESS, "t");
    let mut switch = b.switch(SwitchConfig::default());
    let program = switch.program().unwrap();
    let table = program.table("t").unwrap();
    let action = program.action_of(table, "nop").unwrap();
    switch
        .insert_entry(
            table,
            TableEntry::new(
                vec![MatchField::Exact(vec![3])],
                0,
                ActionCall {
                    action,
                    args: vec![],
                },
            ),
        )
        .unwrap();
    assert_eq!(exchange(&mut switch, 0, 0, &[3, 0, 0, 0])[0].port.0, 1);
    assert_eq!(exchange(&mut switch, 0, 0, &[4, 0, 0, 0])[0].port.0, 2);
}

#[test]
fn wrong_calls_are_refused_and_change_nothing() {
    let mut switch = matcher(&[("lpm", "pkt.value")]).switch(SwitchConfig::default());
    let prefix = |value: &[u8], prefix_len| {
        vec![MatchField::Lpm {
            value: value.to_vec(),
            prefix_len,
        }]
    };
    let mut check = |key: Vec<MatchField>, priority, kind| {
        let (table, entry) = entry(&switch, key, priority, 1);
        assert_eq!(switch.insert_entry(table, entry).unwrap_err().kind, kind);
    };
    use ControlErrorKind::*;
    check(vec![], 0, InvalidArgument);
    check(vec![MatchField::Exact(vec![1])], 0, InvalidArgument);
    check(prefix(&[0x12, 0x34], 8), 0, InvalidArgument);
    check(prefix(&[0x12, 0], 17), 0, InvalidArgument);
    check(prefix(&[1, 0, 0], 8), 0, InvalidArgument);
    check(prefix(&[], 8), 0, InvalidArgument);
    check(prefix(&[0x12, 0], 8), 5, InvalidArgument);
    let (table, mut good) = entry(&switch, prefix(&[0x12, 0], 8), 0, 1);
    assert_eq!(refusal(switch.modify_entry(table, good.clone())), NotFound);
    assert_eq!(refusal(switch.delete_entry(table, &good.key, 0)), NotFound);
    assert_eq!(switch.entry_count(table), 0);
    switch.insert_entry(table, good.clone()).unwrap();
    let refused = refusal(switch.insert_entry(table, good.clone()));
    assert_eq!(refused, AlreadyExists);
    let action = good.action.call().unwrap().action;
    let with_args = |args| ActionCall { action, args }.into();
    good.action = with_args(vec![vec![1, 0]]);
    let refused = refusal(switch.modify_entry(table, good.clone()));
    assert_eq!(refused, InvalidArgument);
    good.action = with_args(vec![]);
    assert_eq!(refusal(switch.modify_entry(table, good)), InvalidArgument);
    for value in 0..63u8 {
        insert(&mut switch, prefix(&[value, 0xff], 16), 0, 1);
    }
    let (table, more) = entry(&switch, prefix(&[0x77, 0x77], 16), 0, 1);
    assert_eq!(refusal(switch.insert_entry(table, more)), ResourceExhausted);
}

#[test]
fn registers_and_counters_are_read_and_written_by_index() {
    let mut b = Builder::default();
    b.push(
        "register_arrays",
        json!({"name": "r", "id": 0, "size": 4, "bitwidth": 12}),
    );
    b.push(
        "register_arrays",
        json!({"name": "wide", "id": 1, "size": 2, "bitwidth": 200}),
    );
    b.push(
        "counter_arrays",
        json!({"name": "c", "id": 0, "size": 4, "is_direct": false}),
    );
    let register = json!({"type": "register_array", "value": "r"});
    let counter = json!({"type": "counter_array", "value": "c"});
    let index = field("pkt.kind");
    b.run(
        INGRESS,
        "in",
        &[
            prim(
                "register_read",
                &[field("pkt.value"), register.clone(), index.clone()],
            ),
            prim(
                "register_write",
                &[
                    register,
                    index.clone(),
                    op("+", field("pkt.value"), hex(0xfff)),
                ],
            ),
            prim("count", &[counter, index]),
            output_to(1),
        ],
    );
    let mut switch = b.switch(SwitchConfig::default());
    let program = switch.program().unwrap();
    let (r, wide) = (
        program.register("r").unwrap(),
        program.register("wide").unwrap(),
    );
    let c = program.counter("c").unwrap();
    switch.set_register_cell(r, 2, &[0x01, 0x23]).unwrap();
    let out = exchange(&mut switch, 0, 0, &[2, 0, 0, 0, 1]);
    assert_eq!(out[0].frame, [2, 0, 0x01, 0x23, 1]);
    let found = switch.register_cell(r, 2).unwrap();
    assert_eq!(found, [0x01, 0x22], "cut to 12 bits");
    assert_eq!(
        switch.counter_cell(c, 2).unwrap(),
        CounterValue {
            packets: 1,
            bytes: 5
        }
    );
    // With an index beyond the end, nothing is read, written or counted.
    let out = exchange(&mut switch, 0, 0, &[9, 0, 0xab, 0xcd]);
    assert_eq!(out[0].frame, [9, 0, 0xab, 0xcd]);
    for (refused, message) in [
        (
            switch.register_cell(r, 4).unwrap_err(),
            "register \"r\": expected an index below 4, found 4",
        ),
        (
            switch.counter_cell(c, 4).unwrap_err(),
            "counter \"c\": expected an index below 4, found 4",
        ),
    ] {
        assert_eq!(refused.kind, ControlErrorKind::OutOfRange);
        assert_eq!(refused.message, message);
    }
    let refused = switch.set_register_cell(r, 0, &[0x10, 0]).unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::InvalidArgument);
    let value: Vec<u8> = (1..=25).collect();
    switch.set_register_cell(wide, 1, &value).unwrap();
    assert_eq!(switch.register_cell(wide, 1).unwrap(), value);
    assert_eq!(switch.register_size(wide), 2);
    assert_eq!(switch.register_width_bits(wide), 200);
}
