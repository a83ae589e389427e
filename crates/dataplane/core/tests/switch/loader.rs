//! The loader: dangling references are clear errors, and no JSON makes it panic.

use dataplane::Program;
use serde_json::{Value, json};
use testkit::builder::*;

/// Asserts that the program is refused with a message that contains these parts.
#[track_caller]
fn refused(b: &Builder, parts: &[&str]) {
    let message = match Program::from_json_str(&b.json.to_string()) {
        Ok(_) => panic!("the program loads"),
        Err(error) => error.to_string(),
    };
    for part in parts {
        assert!(message.contains(part), "\"{part}\" is not in \"{message}\"");
    }
}

fn one_table() -> Builder {
    let mut b = Builder::default();
    let set = b.action("set", &[("left", 8)], &[assign("pkt.left", param(0))]);
    b.table(
        INGRESS,
        "t",
        &[("exact", "pkt.kind")],
        &[("set", set)],
        Some("out"),
    );
    b.call(INGRESS, "out", None, &[output_to(1)]);
    b.condition(
        EGRESS,
        "cond",
        op("==", field("pkt.kind"), hex(1)),
        None,
        None,
    );
    b.start(INGRESS, "t");
    b
}

#[test]
fn names_that_mean_nothing_are_named() {
    let change = |path: &str, value: Value| {
        let mut b = one_table();
        *b.json.pointer_mut(path).expect(path) = value;
        b
    };
    refused(
        &change("/headers/0/header_type", json!("x")),
        &["header \"pkt\"", "header type \"x\""],
    );
    refused(
        &change("/parsers/0/init_state", json!("x")),
        &["parser \"parser\"", "state \"x\""],
    );
    let next = "/parsers/0/parse_states/0/transitions/0/next_state";
    refused(
        &change(next, json!("x")),
        &["parser state \"start\"", "next state \"x\""],
    );
    refused(
        &change("/deparsers/0/order", json!(["x"])),
        &["deparser", "header \"x\""],
    );
    let table = "/pipelines/0/tables/0";
    refused(
        &change(&format!("{table}/action_ids"), json!([77])),
        &["table \"t\"", "action id 77"],
    );
    let next = json!({"set": "x"});
    refused(
        &change(&format!("{table}/next_tables"), next),
        &["table \"t\"", "next node \"x\""],
    );
    let none = json!({});
    refused(
        &change(&format!("{table}/next_tables"), none),
        &["table \"t\"", "action \"set\""],
    );
    let target = json!(["pkt", "x"]);
    refused(
        &change(&format!("{table}/key/0/target"), target),
        &["table \"t\"", "no field \"x\""],
    );
    refused(
        &change("/pipelines/0/init_table", json!("x")),
        &["pipeline \"ingress\"", "\"x\""],
    );
    refused(
        &change("/pipelines/1/name", json!("x")),
        &["pipeline \"egress\"", "not found"],
    );
    let op = "/actions/0/primitives/0/op";
    refused(
        &change(op, json!("x")),
        &["action \"set\"", "primitive 0 \"x\"", "unknown primitive"],
    );
    refused(
        &change(op, json!("execute_meter")),
        &["\"execute_meter\"", "expected [3] parameters, found 2"],
    );
    let value = "/actions/0/primitives/0/parameters/1/value";
    refused(
        &change(value, json!(1)),
        &[
            "action \"set\"",
            "action parameter 1 does not exist: there are 1, counted from 0",
        ],
    );
    refused(
        &change(&format!("{table}/type"), json!("indirect")),
        &["table \"t\"", "expected \"action_profile\""],
    );
    refused(
        &change("/__meta__/version", json!([3, 0])),
        &["expected format version 2.x"],
    );
}

#[test]
fn widths_that_do_not_fit_are_named() {
    let mut b = one_table();
    b.json["header_types"][0]["fields"][0] = json!(["kind", 7, false]);
    refused(&b, &["header \"pkt\"", "multiple of 8 bits", "31"]);
    let mut b = one_table();
    b.json["header_types"][2]["fields"][1] = json!(["egress_spec", 8, false]);
    refused(
        &b,
        &[
            "standard_metadata.egress_spec",
            "expected 9 bits",
            "found 8",
        ],
    );
    let b = one_table();
    let action_id = b.json["actions"][0]["id"].clone();
    let table = b.json["pipelines"][0]["tables"][0].clone();
    let with_entry = |key: &str, data: Value| {
        let mut b = one_table();
        b.json["pipelines"][0]["tables"][0] = table.clone();
        b.json["pipelines"][0]["tables"][0]["entries"] = json!([{
            "match_key": [{"match_type": "exact", "key": key}], "priority": 1,
            "action_entry": {"action_id": action_id, "action_data": data}}]);
        b
    };
    refused(
        &with_entry("0x100", json!(["0x1"])),
        &["table \"t\": entry 0", "0x100", "8 bits"],
    );
    refused(
        &with_entry("0x10", json!(["0x100"])),
        &["\"left\"", "0x100"],
    );
    refused(
        &with_entry("0x10", json!([])),
        &["1 parameters, found 0 arguments"],
    );
}

#[test]
fn a_control_that_comes_back_to_a_node_is_refused() {
    let mut b = one_table();
    b.json["pipelines"][0]["action_calls"][0]["next_node"] = json!("t");
    refused(&b, &["control graph", "leads from this node back to it"]);
}

#[test]
fn jumps_stay_in_the_action() {
    let mut b = Builder::default();
    b.call(
        INGRESS,
        "in",
        None,
        &[prim("no_op", &[]), prim("_jump", &[hex(3)])],
    );
    refused(
        &b,
        &["primitive 1 \"_jump\"", "expected a jump to at most 2"],
    );
    let mut b = Builder::default();
    b.run(
        INGRESS,
        "in",
        &[
            output_to(1),
            prim("_jump_if_zero", &[field("pkt.kind"), hex(3)]),
            output_to(2),
            assign("pkt.left", hex(5)),
        ],
    );
    let mut switch = b.switch(dataplane::SwitchConfig::default());
    let sent = brief(&exchange(&mut switch, 0, 0, &[0; 4]));
    assert_eq!(sent, [(1, vec![0, 5, 0, 0])]);
    let sent = brief(&exchange(&mut switch, 0, 0, &[1, 0, 0, 0]));
    assert_eq!(sent, [(2, vec![1, 5, 0, 0])]);
}

#[test]
fn a_loop_in_an_action_ends_with_its_condition_or_at_the_limit() {
    let mut b = Builder::default();
    let counted_down = assign("pkt.kind", op("-", field("pkt.kind"), hex(1)));
    b.run(
        INGRESS,
        "in",
        &[
            output_to(1),
            prim("_jump_if_zero", &[field("pkt.kind"), hex(5)]),
            counted_down,
            assign("pkt.left", op("+", field("pkt.left"), hex(2))),
            prim("_jump", &[hex(1)]),
            prim("_jump_if_zero", &[field("pkt.left"), hex(5)]),
        ],
    );
    let mut switch = b.switch(dataplane::SwitchConfig::default());
    let sent = brief(&exchange(&mut switch, 0, 0, &[3, 1, 0, 0]));
    assert_eq!(sent, [(1, vec![0, 7, 0, 0])]);
    assert_eq!(brief(&exchange(&mut switch, 0, 0, &[0; 4])), []);
    let limit = dataplane::DropReason::LoopLimit;
    assert_eq!(switch.counters().dropped(limit), 1);
}

#[test]
fn expressions_have_types() {
    let with = |expression: Value| {
        let mut b = one_table();
        b.json["pipelines"][1]["conditionals"][0]["expression"] = expression;
        b
    };
    let header = json!({"type": "header", "value": "pkt"});
    refused(
        &with(op("+", header.clone(), hex(1))),
        &["conditional \"cond\"", "found a header"],
    );
    refused(
        &with(op("==", header, hex(1))),
        &["a header cannot be compared with a number"],
    );
    refused(
        &with(op("@@", hex(1), hex(1))),
        &["unknown operation \"@@\""],
    );
    refused(
        &with(op("not", Value::Null, Value::Null)),
        &["operand \"right\" is missing"],
    );
    let mut deep = hex(1);
    for _ in 0..60 {
        deep = op("+", hex(1), deep);
    }
    let b = with(op("==", deep.clone(), deep));
    // It does not matter whether the JSON reader or the loader refuses the program: there must be no stack overflow and
    // no panic.
    let _ = Program::from_json_str(&b.json.to_string());
}

/// Loads the program once for each value in its JSON and each of some wrong values that replace it.
#[test]
fn no_json_makes_the_loader_panic() {
    let mut b = one_table();
    b.push(
        "register_arrays",
        json!({"name": "r", "id": 0, "size": 4, "bitwidth": 12}),
    );
    b.field_list(1, &["m.kept"]);
    let mut paths = Vec::new();
    collect(&b.json, String::new(), &mut paths);
    assert!(paths.len() > 200);
    let wrong = [
        json!(null),
        json!(-1),
        json!(4_000_000_000u32),
        json!("x"),
        json!([]),
        json!({}),
    ];
    let mut n_refused = 0;
    for path in &paths {
        for value in &wrong {
            let mut json = b.json.clone();
            *json.pointer_mut(path).expect("the path is there") = value.clone();
            n_refused += usize::from(Program::from_json_str(&json.to_string()).is_err());
        }
    }
    assert!(
        n_refused > paths.len(),
        "{n_refused} of {}",
        paths.len() * wrong.len()
    );
}

fn collect(json: &Value, path: String, paths: &mut Vec<String>) {
    match json {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                collect(item, format!("{path}/{i}"), paths);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                collect(member, format!("{path}/{name}"), paths);
            }
        }
        _ => {}
    }
    paths.push(path);
}
