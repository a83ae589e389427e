//! A runtime file applied to a switch: once, again, changed, and as a replacement of all other
//! entries.

use serde_json::{Value, json};

use crate::switch::{RUNTIME, Switch};

const ADDED: &str = "\
+ multicast group 1 -> ports 1:1 3:1
+ clone session 5 -> ports 1, 64 bytes each
~ MyIngress.routes: default -> MyIngress.drop() (was NoAction())
+ MyIngress.routes: hdr.ipv4.dst=10.0.1.1/32 -> MyIngress.forward(dst=08:00:00:00:01:11, port=2)
+ MyIngress.routes: hdr.ipv4.dst=224.0.0.0/4 -> MyIngress.multicast(group=1)
+ MyIngress.hosts: hdr.ethernet.src=08:00:00:00:02:22 standard_metadata.ingress_port=3 -> MyIngress.drop()
+ MyIngress.rules: hdr.ipv4.src=10.0.9.0&&&0xffffff00 hdr.ethernet.type=2048..2303 meta.address=2001:db8::1 priority 10 -> MyIngress.drop()
+ MyIngress.rules: any priority 1 -> NoAction()
~ MyEgress.source: default -> MyEgress.set_source(src=08:00:00:00:00:01) (was NoAction())
";

/// An Ethernet frame with an IPv4 packet to this address.
fn frame(to: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    frame.extend([0; 12]);
    frame.extend([10, 0, 0, 1]);
    frame.extend(to);
    frame
}

#[test]
fn a_file_is_applied_once_and_packets_go_by_it() {
    let switch = Switch::with_program();
    let dry = switch.ok("entries apply s1-runtime.json --dry-run");
    assert_eq!(dry, ADDED);
    assert_eq!(switch.ok("entries apply s1-runtime.json"), ADDED);
    for again in ["", " --dry-run", " --replace", " --pipeline"] {
        let line = switch.ok(&format!("entries apply s1-runtime.json{again}"));
        assert_eq!(line, "no change\n", "{again}");
    }
    let answer = switch.json("entries apply s1-runtime.json");
    let expected =
        json!({"changed": false, "dry_run": false, "pipeline": null, "changes": [], "updates": 0});
    assert_eq!(answer, expected);

    let sent = |to| {
        switch.frames.receive(2, &frame(to));
        let sent = switch.frames.transmitted().into_iter();
        let sent = sent.map(|it| (it.port.0, it.frame[..12].to_vec()));
        sent.collect::<Vec<(u16, Vec<u8>)>>()
    };
    let head = |dst: [u8; 6]| [dst, [8, 0, 0, 0, 0, 1]].concat();
    assert_eq!(sent([10, 0, 1, 1]), [(2, head([8, 0, 0, 0, 1, 0x11]))]);
    let copy = head([2, 0, 0, 0, 0, 9]);
    assert_eq!(sent([230, 1, 1, 1]), [(1, copy.clone()), (3, copy)]);
    assert_eq!(sent([10, 0, 1, 2]), []);
}

#[test]
fn what_is_otherwise_is_modified_and_what_is_not_in_the_file_stays_unless_replaced() {
    let switch = Switch::with_program();
    switch.ok("entries apply s1-runtime.json");
    let other = RUNTIME
        .replace("\"port\": 2", "\"port\": 4")
        .replace("\"egress_port\": 3", "\"egress_port\": 2")
        .replace("10.0.9.0", "10.0.8.0")
        .replace("\"packet_length_bytes\": 64", "\"packet_length_bytes\": 0");
    switch.file("other.json", &other);
    let expected = "\
~ multicast group 1 -> ports 1:1 2:1 (was ports 1:1 3:1)
~ clone session 5 -> ports 1 (was ports 1, 64 bytes each)
~ MyIngress.routes: hdr.ipv4.dst=10.0.1.1/32 -> MyIngress.forward(dst=08:00:00:00:01:11, port=4) (was MyIngress.forward(dst=08:00:00:00:01:11, port=2))
+ MyIngress.rules: hdr.ipv4.src=10.0.8.0&&&0xffffff00 hdr.ethernet.type=2048..2303 meta.address=2001:db8::1 priority 10 -> MyIngress.drop()
";
    assert_eq!(switch.ok("entries apply other.json"), expected);
    assert_eq!(switch.ok("entries apply other.json"), "no change\n");

    let less =
        r#"{"table_entries": [{"table": "rules", "priority": 1, "action_name": "NoAction"}]}"#;
    switch.file("less.json", less);
    assert_eq!(switch.ok("entries apply less.json"), "no change\n");
    let answer = switch.json("entries apply less.json --replace");
    let changes = answer["changes"].as_array().expect("changes");
    let removed = |change: &&Value| change["sign"] == "removed";
    assert_eq!(changes.iter().filter(removed).count(), 7, "{changes:#?}");
    assert_eq!(changes.len(), 7);
    let texts: Vec<&str> = changes
        .iter()
        .filter_map(|it| it["text"].as_str())
        .collect();
    let group = texts
        .iter()
        .position(|it| it.starts_with("multicast group 1"));
    let entry = texts
        .iter()
        .position(|it| it.contains("multicast(group=1)"));
    assert!(
        entry < group,
        "an entry goes before what it points to: {texts:?}"
    );
    let printed = switch.ok("entries apply less.json --replace");
    assert_eq!(printed, "no change\n");
}

#[test]
fn entries_of_a_full_table_go_before_new_ones_come_and_those_of_others_after() {
    let switch = Switch::with_program();
    let entry = |table: &str, key: &str| {
        format!(r#"{{"table": "{table}", "match": {key}, "action_name": "drop"}}"#)
    };
    let routes = |net: u8| {
        let route = |host| {
            entry(
                "routes",
                &format!(r#"{{"dst": ["10.0.{net}.{host}", 32]}}"#),
            )
        };
        (1..=4).map(route).collect::<Vec<_>>()
    };
    let host = |port: u8| entry("hosts", &format!(r#"{{"src": 1, "ingress_port": {port}}}"#));
    let file = |net, port| {
        let entries = [routes(net), vec![host(port)]].concat().join(",\n");
        format!(r#"{{"table_entries": [{entries}]}}"#)
    };
    switch.file("one.json", &file(1, 1));
    switch.file("two.json", &file(2, 2));
    switch.ok("entries apply one.json");
    let lines = switch.ok("entries apply two.json --replace");
    let signs: String = lines.lines().map(|line| &line[..1]).collect();
    assert_eq!(signs, "----+++++-", "{lines}");
    assert!(
        lines
            .lines()
            .last()
            .is_some_and(|line| line.contains("ingress_port=1"))
    );
    assert_eq!(switch.ok("entries apply two.json --replace"), "no change\n");
}

#[test]
fn the_program_is_loaded_when_asked_and_only_if_it_is_another() {
    let switch = Switch::new();
    let error = switch.fails("entries apply s1-runtime.json");
    assert_eq!(
        error,
        "s1-runtime.json: the switch has no pipeline yet: add --pipeline to load the one that the file names"
    );
    let loaded =
        format!("~ program build/prog.json: all state of the previous program is lost\n{ADDED}");
    let dry = switch.ok("entries apply s1-runtime.json --pipeline --dry-run");
    let dry: Vec<&str> = dry.lines().collect();
    assert_eq!(dry.len(), loaded.lines().count(), "{dry:?}");
    assert!(
        switch.fails("pipeline show").contains("no pipeline"),
        "a dry run loads nothing"
    );
    let printed = switch.ok("entries apply s1-runtime.json --pipeline");
    assert_eq!(printed, loaded);
    let answer = switch.json("entries apply s1-runtime.json --pipeline");
    assert_eq!(answer["changed"], json!(false));
    assert_eq!(answer["pipeline"], Value::Null);

    switch.file(
        "other.p4",
        &crate::switch::PROGRAM
            .replace("bit<9> port", "bit<9> to")
            .replace("= port", "= to"),
    );
    switch.ok("pipeline set other.p4");
    let error = switch.fails("entries apply s1-runtime.json");
    assert_eq!(
        error,
        "s1-runtime.json: the switch does not run the program of build/prog.p4info.txtpb, its program has no action \"MyIngress.forward\" with the same id and parameters: add --pipeline to load the program that the file names"
    );
    let printed = switch.ok("entries apply s1-runtime.json --pipeline");
    assert_eq!(printed, loaded);
}

#[test]
fn a_program_is_found_from_the_files_folder_and_from_the_current_one() {
    let switch = Switch::new();
    std::fs::create_dir(switch.folder.path().join("topo")).expect("a folder");
    switch.file("topo/s1-runtime.json", RUNTIME);
    switch.ok("entries apply topo/s1-runtime.json --pipeline");
    switch.file(
        "topo/lost.json",
        &RUNTIME.replace("build/prog.json", "built/prog.json"),
    );
    let error = switch.fails("entries apply topo/lost.json --pipeline");
    assert!(
        error.starts_with("topo/lost.json: bmv2_json: there is no \"built/prog.json\", neither beside the file nor in the current folder"),
        "{error}"
    );
    switch.file("none.json", "{\"table_entries\": []}");
    let error = switch.fails("entries apply none.json --pipeline");
    assert!(error.contains("expected \"bmv2_json\""), "{error}");
    assert_eq!(switch.ok("entries apply none.json"), "no change\n");
}
