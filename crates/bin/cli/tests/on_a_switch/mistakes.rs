//! Messages about a wrong file: the place, what was expected and found, and the next step.

use crate::switch::{RUNTIME, Switch};
use testkit::text::{assert_has, assert_starts};

/// Three lines for each mistake: a part of the correct file, the wrong text that replaces it, and the message about the
/// wrong text.
const MISTAKES: &str = r#"-"MyIngress.routes", "match"
+"MyIngress.ruotes", "match"
table_entries[1].table: no table "MyIngress.ruotes", did you mean "MyIngress.routes"?
-"action_name": "MyIngress.forward"
+"action_name": "MyIngress.foward"
table_entries[1].action_name: no action of table "MyIngress.routes" "MyIngress.foward", did you mean "MyIngress.forward"?
-{"hdr.ipv4.dst": ["10.0.1.1", 32]}
+{"hdr.ipv4.dst": "10.0.1.1"}
table_entries[1].match["hdr.ipv4.dst"]: expected a match of key field "hdr.ipv4.dst": [value, prefix length], like ["10.0.1.0", 24], got "10.0.1.1"
-["10.0.1.1", 32]
+["10.0.1.1", 33]
table_entries[1].match["hdr.ipv4.dst"][1]: expected a number from 0 to 32, got 33
-["10.0.1.1", 32]
+["10.0.1.256", 32]
table_entries[1].match["hdr.ipv4.dst"][0]: expected an IPv4 address like "10.0.1.1", or a number of 32 bits, got "10.0.1.256"
-"port": 2
+"port": 512
table_entries[1].action_params.port: expected a number of 9 bits, like 1 or "0x1", got 512
-, "port": 2
+
table_entries[1].action_params: expected a value for parameter "port" of action "MyIngress.forward", it is not there
-, "standard_metadata.ingress_port": [3]
+
table_entries[3].match: expected a value for key field "standard_metadata.ingress_port" of table "MyIngress.hosts", it is not there
-"priority": 10,
+
table_entries[4]: expected "priority": a number from 1, the highest wins, for table "MyIngress.rules" has ternary, range or optional key fields
-"action_name": "multicast"
+"priority": 3, "action_name": "multicast"
table_entries[2].priority: table "MyIngress.routes" has no ternary, range or optional key field: leave the priority out
-["0x800", "0x8ff"]
+["0x8ff", "0x800"]
table_entries[4].match["hdr.ethernet.type"]: expected [low, high], the first is greater
-"MyEgress.source", "default_action": true
+"MyEgress.source"
table_entries[6]: table "MyEgress.source" has no key, expected "default_action": true
-["224.0.0.22", 4]
+["10.0.1.1", 32]
table_entries[2]: table_entries[1] is the same entry: leave one of them out
-"table": "hosts", "match"
+"table": "hosts", "default_action": true, "match"
table_entries[3].match: a default action has none: leave it out, or "default_action"
-{"table": "rules", "match": {}, "priority": 1, "action_name": "NoAction"}
+{"table": "hosts", "default_action": true, "action_name": "drop"}
table_entries[5]: MyIngress.hosts: default is the program's own (const), expected it as it is there: NoAction()
-{"table": "rules", "match": {}, "priority": 1, "action_name": "NoAction"}
+{"table": "types", "match": {"type": "0x86dd"}, "action_name": "NoAction"}
table_entries[5]: MyIngress.types: hdr.ethernet.type=34525 is the program's own (const), expected it as it is there: MyIngress.drop()
-"table_entries"
+"table_entires"
unknown key "table_entires", did you mean "table_entries"?
-"target": "bmv2"
+"target": "tofino"
target: expected "bmv2", the one target there is, got "tofino"
-{"egress_port": 3, "instance": 1}
+{"egress_port": 1, "instance": 1}
multicast_group_entries[0].replicas[1]: port 1 with instance 1 is there already: another copy to the port needs another instance
-{"egress_port": 3, "instance": 1}
+{"egress_port": 3}
multicast_group_entries[0].replicas[1]: expected "instance": a replica's number, it is not there
-"multicast_group_id": 1
+"multicast_group_id": 0
multicast_group_entries[0].multicast_group_id: expected a number from 1 to 65535, got 0
-"clone_session_entries": [
+"clone_session_entries": [[],
clone_session_entries[0]: expected a clone session, got a list of 0"#;

#[test]
fn a_mistake_is_named_with_its_place_and_nothing_is_written() {
    let switch = Switch::with_program();
    let lines: Vec<&str> = MISTAKES.lines().collect();
    for case in lines.chunks(3) {
        let [right, wrong, expected] = case else {
            panic!("three lines a case, got {case:?}")
        };
        let right = right.strip_prefix('-').expect(right);
        let wrong = wrong.strip_prefix('+').expect(wrong);
        assert_eq!(RUNTIME.matches(right).count(), 1, "{right}");
        switch.file("wrong.json", &RUNTIME.replace(right, wrong));
        for words in [
            "entries apply wrong.json",
            "entries apply wrong.json --dry-run",
        ] {
            assert_eq!(switch.fails(words), format!("wrong.json: {expected}"));
        }
    }
    let answer = switch.json("entries apply s1-runtime.json");
    assert_eq!(answer["updates"], 9, "nothing of it was written before");
}

#[test]
fn what_is_no_runtime_file_is_reported() {
    let switch = Switch::with_program();
    switch.file("cut.json", "{\"table_entries\": [\n  {\"table\": ");
    let error = switch.fails("entries apply cut.json");
    assert_starts(&error, "cut.json: expected a runtime file in JSON: ");
    assert_has(&error, "line 2");
    switch.file("list.json", "[]");
    let error = switch.fails("entries apply list.json");
    let expected = "list.json: expected an object with \"table_entries\", got a list of 0";
    assert_eq!(error, expected);
    let error = switch.fails("entries apply none.json");
    assert_starts(&error, "none.json: there is no such file");
    switch.file(
        "own.json",
        "{\"comment\": \"mine\", \"_note\": 1, \"table_entries\": []}",
    );
    assert_eq!(switch.ok("entries apply own.json"), "no change\n");
}
