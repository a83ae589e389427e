//! The parser: errors, lookahead, stacks, varbit fields, checksums.

use dataplane::SwitchConfig;
use serde_json::{Value, json};
use testkit::builder::*;

/// Replaces the parser's states.
fn states(b: &mut Builder, states: Value) {
    b.json["parsers"][0]["parse_states"] = states;
}

fn default_to(next: Option<&str>) -> Value {
    json!({"type": "default", "value": null, "mask": null, "next_state": next})
}

/// Makes a program that sends packets to port 1, with a header `note` in front that holds the parser error.
fn with_note() -> Builder {
    let mut b = Builder::default();
    b.push(
        "header_types",
        json!({"name": "note_t", "id": 9, "fields": [["error", 8, false]]}),
    );
    let note = json!({"name": "note", "id": 9, "header_type": "note_t", "metadata": false});
    b.push("headers", note);
    b.json["deparsers"][0]["order"] = json!(["note", "pkt"]);
    b.run(
        INGRESS,
        "in",
        &[
            prim("add_header", &[json!({"type": "header", "value": "note"})]),
            assign("note.error", field("standard_metadata.parser_error")),
            output_to(1),
        ],
    );
    b
}

#[test]
fn a_frame_that_is_too_short_runs_ingress_with_the_error() {
    let mut switch = with_note().switch(SwitchConfig::default());
    let sent = brief(&exchange(&mut switch, 0, 0, &[1, 2, 3]));
    assert_eq!(sent, [(1, vec![1, 1, 2, 3])]);
    let sent = brief(&exchange(&mut switch, 0, 0, &[1, 2, 3, 4]));
    assert_eq!(sent, [(1, vec![0, 1, 2, 3, 4])]);
    assert_eq!(brief(&exchange(&mut switch, 0, 0, &[])), [(1, vec![1])]);
}

#[test]
fn verify_sets_the_programs_error() {
    let mut b = with_note();
    let condition = op("!=", field("pkt.kind"), hex(9));
    states(
        &mut b,
        json!([{"name": "start", "id": 0, "parser_ops": [
            {"op": "extract", "parameters": [{"type": "regular", "value": "pkt"}]},
            {"op": "verify", "parameters": [condition, hex(2)]}],
        "transition_key": [], "transitions": [default_to(None)]}]),
    );
    let mut switch = b.switch(SwitchConfig::default());
    assert_eq!(
        exchange(&mut switch, 0, 0, &[9, 0, 0, 0])[0].frame,
        [2, 9, 0, 0, 0]
    );
    assert_eq!(
        exchange(&mut switch, 0, 0, &[8, 0, 0, 0])[0].frame,
        [0, 8, 0, 0, 0]
    );
}

#[test]
fn a_parser_that_turns_in_a_circle_times_out() {
    let mut b = with_note();
    states(
        &mut b,
        json!([{"name": "start", "id": 0, "parser_ops": [],
        "transition_key": [], "transitions": [default_to(Some("start"))]}]),
    );
    let mut switch = b.switch(SwitchConfig::default());
    assert_eq!(exchange(&mut switch, 0, 0, &[7])[0].frame, [5, 7]);
}

#[test]
fn transitions_match_sub_byte_keys_under_masks() {
    let mut b = with_note();
    let extract = json!([{"op": "extract", "parameters": [{"type": "regular", "value": "pkt"}]}]);
    let key =
        json!([{"type": "lookahead", "value": [4, 3]}, {"type": "lookahead", "value": [8, 9]}]);
    states(
        &mut b,
        json!([
        {"name": "start", "id": 0, "parser_ops": [], "transition_key": key, "transitions": [
            {"type": "hexstr", "value": "0x050000", "mask": "0xff0001", "next_state": "wanted"},
            default_to(None)]},
        {"name": "wanted", "id": 1, "parser_ops": extract, "transition_key": [],
         "transitions": [default_to(None)]}]),
    );
    // Clearing `value` shows whether the header was extracted.
    b.call(INGRESS, "in2", None, &[assign("pkt.value", hex(0))]);
    b.json["pipelines"][0]["action_calls"][0]["next_node"] = json!("in2");
    let mut switch = b.switch(SwitchConfig::default());
    // Bits 4 to 6 are 101, and the 9-bit number from bit 8 on is even.
    let found = exchange(&mut switch, 0, 0, &[0x0a, 0x00, 0x7f, 0xff]);
    assert_eq!(found[0].frame, [0, 0x0a, 0, 0, 0]);
    let other = exchange(&mut switch, 0, 0, &[0x0a, 0x00, 0x80, 0xff]);
    assert_eq!(other[0].frame, [0, 0x0a, 0, 0x80, 0xff]);
    let short = exchange(&mut switch, 0, 0, &[0x0a, 0x00]);
    assert_eq!(short[0].frame, [1, 0x0a, 0]);
}

#[test]
fn a_stack_takes_what_fits_and_shifts() {
    let mut b = Builder::default();
    b.push(
        "header_types",
        json!({"name": "el_t", "id": 5,
        "fields": [["bos", 1, false], ["label", 7, false]]}),
    );
    for i in 0..3 {
        b.push(
            "headers",
            json!({"name": format!("st[{i}]"), "id": 10 + i,
            "header_type": "el_t", "metadata": false}),
        );
    }
    b.push(
        "header_stacks",
        json!({"name": "st", "id": 0, "header_type": "el_t", "size": 3,
        "header_ids": [10, 11, 12]}),
    );
    b.json["deparsers"][0]["order"] = json!(["st[0]", "st[1]", "st[2]"]);
    states(
        &mut b,
        json!([{"name": "start", "id": 0,
        "parser_ops": [{"op": "extract", "parameters": [{"type": "stack", "value": "st"}]}],
        "transition_key": [{"type": "stack_field", "value": ["st", "bos"]}],
        "transitions": [
            {"type": "hexstr", "value": "0x01", "mask": null, "next_state": null},
            default_to(Some("start"))]}]),
    );
    let stack = json!({"type": "header_stack", "value": "st"});
    let element = json!({"op": "dereference_header_stack", "left": stack, "right": hex(1)});
    let label = json!({"type": "expression", "value": {"op": "access_field",
        "left": {"type": "expression", "value": element}, "right": 1}});
    let failed = op("!=", field("standard_metadata.parser_error"), hex(0));
    b.condition(INGRESS, "failed", failed, Some("full"), Some("in"));
    b.call(INGRESS, "full", None, &[output_to(2)]);
    b.call(
        INGRESS,
        "in",
        None,
        &[
            prim("pop", &[stack, hex(1)]),
            prim("assign", &[label, hex(0x11)]),
            output_to(1),
        ],
    );
    b.start(INGRESS, "failed");
    let mut switch = b.switch(SwitchConfig::default());
    let out = exchange(&mut switch, 0, 0, &[0x01, 0x02, 0x83, 0xee]);
    assert_eq!(brief(&out), [(1, vec![0x02, 0x91, 0xee])]);
    let out = exchange(&mut switch, 0, 0, &[0x01, 0x02, 0x03, 0x84]);
    assert_eq!(brief(&out), [(2, vec![0x01, 0x02, 0x03, 0x84])]);
}

#[test]
fn a_varbit_field_has_the_width_that_the_packet_says() {
    let mut b = Builder::default();
    b.push(
        "header_types",
        json!({"name": "opt_t", "id": 5, "max_length": 5,
        "fields": [["len", 8, false], ["data", "*"]]}),
    );
    for (name, id) in [("opt", 10), ("copy", 11)] {
        let header = json!({"name": name, "id": id, "header_type": "opt_t", "metadata": false});
        b.push("headers", header);
    }
    b.json["deparsers"][0]["order"] = json!(["copy", "opt"]);
    let bits = op("<<", field("m.kept"), hex(3));
    states(
        &mut b,
        json!([{"name": "start", "id": 0, "parser_ops": [
            {"op": "set", "parameters": [field("m.kept"), {"type": "lookahead", "value": [0, 8]}]},
            {"op": "extract_VL", "parameters": [{"type": "regular", "value": "opt"},
                {"type": "expression", "value": bits}]}],
        "transition_key": [], "transitions": [default_to(None)]}]),
    );
    let header = |name: &str| json!({"type": "header", "value": name});
    b.run(
        INGRESS,
        "in",
        &[
            prim("assign_header", &[header("copy"), header("opt")]),
            assign("opt.len", field("standard_metadata.parser_error")),
            output_to(1),
        ],
    );
    let mut switch = b.switch(SwitchConfig::default());
    let out = exchange(&mut switch, 0, 0, &[2, 0xaa, 0xbb, 0xcc]);
    assert_eq!(out[0].frame, [2, 0xaa, 0xbb, 0, 0xaa, 0xbb, 0xcc]);
    let out = exchange(&mut switch, 0, 0, &[0, 0xcc]);
    assert_eq!(out[0].frame, [0, 0, 0xcc]);
    let too_long = exchange(&mut switch, 0, 0, &[5, 1, 2, 3, 4, 5]);
    let expected = [5, 1, 2, 3, 4, 5];
    assert_eq!(too_long[0].frame, expected, "not extracted, so not copied");
}

#[test]
fn checksums_are_verified_and_updated() {
    let mut b = with_note();
    b.push(
        "calculations",
        json!({"name": "sum", "id": 0, "algo": "csum16", "input": [
        field("pkt.kind"), field("pkt.left"), {"type": "payload", "value": null}]}),
    );
    b.push(
        "checksums",
        json!({"name": "ck", "id": 0, "target": ["pkt", "value"],
        "type": "generic", "calculation": "sum", "verify": true, "update": true,
        "if_cond": op("==", field("pkt.kind"), hex(1))}),
    );
    let wrong = field("standard_metadata.checksum_error");
    b.json["actions"][0]["primitives"][1] = assign("note.error", wrong);
    let mut switch = b.switch(SwitchConfig::default());
    let sum = !(0x0100u16 + 0x0203);
    let [high, low] = sum.to_be_bytes();
    let right = [1, 0, high, low, 2, 3];
    assert_eq!(
        exchange(&mut switch, 0, 0, &right)[0].frame,
        [&[0][..], &right].concat()
    );
    let wrong = exchange(&mut switch, 0, 0, &[1, 0, 0, 0, 2, 3]);
    let expected = [1, 1, 0, high, low, 2, 3];
    assert_eq!(wrong[0].frame, expected, "marked and put right");
    let other = exchange(&mut switch, 0, 0, &[2, 0, 9, 9, 2, 3]);
    let expected = [0, 2, 0, 9, 9, 2, 3];
    assert_eq!(other[0].frame, expected, "the condition does not hold");
}
