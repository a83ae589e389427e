//! `reprise apply`: a conference's file.

use std::fs;
use std::net::Ipv4Addr;

use conference::address::Mac;
use p4runtime_proto::text_format;
use serde_json::Value;

use crate::bench::{ADDRESS, Bench, CONFERENCE, recirculation, replication, reprise, text};
use crate::support::programs;

#[test]
fn apply_brings_the_switch_to_the_file_and_a_second_time_changes_nothing() {
    for bench in [replication(), recirculation()] {
        bench.file("c.yaml", CONFERENCE);
        let dry = bench.ok("apply c.yaml --dry-run");
        assert_eq!(
            bench.server.switch().log.len(),
            0,
            "a dry run writes nothing"
        );
        let lines = bench.ok("apply c.yaml");
        assert_eq!(lines, dry);
        let signs: Vec<&str> = lines.lines().map(|line| &line[..1]).collect();
        assert_eq!(signs, ["+"; 5], "{lines}");
        let n = bench.server.switch().log.len();
        assert_eq!(bench.ok("apply c.yaml"), "no change\n");
        assert_eq!(bench.json("apply c.yaml")["changed"], false);
        assert_eq!(bench.server.switch().log.len(), n, "nothing was written");

        let text = CONFERENCE.replace("      - {ip: 10.0.1.5, mac: '02:00:00:00:00:05'}\n", "");
        bench.file("c.yaml", &text.replace("00:06", "00:16"));
        let change = bench.json("apply c.yaml");
        assert_eq!(change["changed"], true);
        let signs: Vec<&Value> = change["changes"]
            .as_array()
            .expect("lines")
            .iter()
            .map(|line| &line["sign"])
            .collect();
        assert_eq!(signs, ["removed", "changed"]);
        assert_eq!(bench.server.switch().violations, [""; 0]);
    }
}

#[test]
fn an_apply_that_fails_leaves_the_own_address_as_it_was() {
    let bench = recirculation();
    let unanswered = CONFERENCE.replace("ip: 10.0.1.6, mac: '02:00:00:00:00:06'", "ip: 10.0.1.6");
    // Refused for what the file says: nothing was written, not even for a moment.
    bench.file(
        "ports.yaml",
        &unanswered.replace("10.0.1.6}", "10.0.1.6, udp_port: 7000}"),
    );
    let error = bench.fails("apply ports.yaml");
    assert!(error.contains("no place for UDP ports"), "{error}");
    assert_eq!(bench.server.switch().log.len(), 0);
    // Nobody answers: the address that was put in force for the question is taken back.
    bench.file("c.yaml", &unanswered);
    let error = bench.fails("apply c.yaml");
    assert!(
        error.starts_with("c.yaml: nobody answers to ARP for 10.0.1.6"),
        "{error}"
    );
    assert_eq!(bench.json("address show")["address"], Value::Null);
    // With one in force, the question comes from it, and a live conference is not disturbed.
    bench.ok(ADDRESS);
    bench.file("c.yaml", &unanswered.replace("10.0.1.100", "10.0.1.200"));
    let n = bench.server.switch().log.len();
    bench.fails("apply c.yaml");
    assert_eq!(bench.server.switch().log.len(), n, "nothing was written");
    assert_eq!(bench.json("address show")["address"]["ip"], "10.0.1.100");
}

#[test]
fn an_own_address_on_a_port_that_the_switch_lacks_is_refused() {
    let bench = replication();
    let error = bench.fails("address set --port 7 --ip 10.0.1.100 --mac 02:00:00:00:01:64");
    assert!(
        error.starts_with("the switch has no port 7, it has 1:"),
        "{error}"
    );
    bench.file("c.yaml", &CONFERENCE.replace("port: 1", "port: 7"));
    for words in ["apply c.yaml", "apply c.yaml --dry-run"] {
        assert!(bench.fails(words).contains("no port 7"), "{words}");
    }
    assert_eq!(bench.server.switch().log.len(), 0);
}

#[test]
fn apply_looks_macs_up_and_takes_them_from_the_switch_the_next_time() {
    let bench = replication();
    bench.file(
        "c.yaml",
        &CONFERENCE.replace("ip: 10.0.1.6, mac: '02:00:00:00:00:06'", "ip: 10.0.1.6"),
    );
    let error = bench.fails("apply c.yaml --dry-run");
    assert!(
        error.contains("10.0.1.6") && error.contains("a dry run sends no ARP request"),
        "{error}"
    );
    bench
        .server
        .switch()
        .hosts
        .insert(Ipv4Addr::new(10, 0, 1, 6), Mac([2, 0, 0, 0, 0, 6]));
    let lines = bench.ok("apply c.yaml");
    assert!(lines.contains("+ own address 10.0.1.100"), "{lines}");
    assert!(
        lines.contains("+ group 4: viewer 10.0.1.6:5004 02:00:00:00:00:06"),
        "{lines}"
    );
    bench.server.switch().hosts.clear();
    assert_eq!(bench.ok("apply c.yaml"), "no change\n");
    assert_eq!(bench.ok("apply c.yaml --dry-run"), "no change\n");
}

#[test]
fn a_file_with_a_mistake_is_refused_with_file_line_and_key() {
    let bench = replication();
    bench.file(
        "c.yaml",
        &CONFERENCE.replace("    ip: 10.0.1.4", "    ipv4: 10.0.1.4"),
    );
    let error = bench.fails("apply c.yaml");
    assert!(
        error.starts_with("c.yaml: ") && error.contains("ipv4") && error.contains("line 4"),
        "{error}"
    );
    bench.file("c.yaml", &CONFERENCE.replace("10.0.1.6", "10.0.1.5"));
    assert_eq!(
        bench.fails("apply c.yaml"),
        "c.yaml: 10.0.1.5:5004 is a viewer of group 4 already"
    );
    assert!(
        bench
            .fails("apply d.yaml")
            .starts_with("d.yaml: there is no such file")
    );
    assert_eq!(bench.server.switch().log.len(), 0);
}

#[test]
fn export_writes_the_entries_for_an_empty_switch_without_one() {
    for p4info in [
        programs::replication(131_072),
        programs::recirculation(131_072, 65_536),
    ] {
        let bench = Bench::new(Some(p4info.clone()));
        bench.file("sfu.json", "{}");
        bench.file("sfu.p4info.txtpb", &text_format::print_p4info(&p4info));
        bench.file("c.yaml", CONFERENCE);
        bench.ok("apply c.yaml --program sfu.json --export entries.txtpb --switch 127.0.0.1:1");
        let text = fs::read_to_string(bench.folder.path().join("entries.txtpb")).expect("written");
        let request = text_format::parse_write_request(&text).expect("a WriteRequest");
        {
            let mut switch = bench.server.switch();
            for update in &request.updates {
                switch
                    .update(update)
                    .expect("an empty switch takes every update in order");
            }
        }
        assert_eq!(bench.ok("apply c.yaml"), "no change\n");

        bench.file(
            "c.yaml",
            &CONFERENCE.replace(", mac: '02:00:00:00:00:06'", ""),
        );
        let error = bench.fails("apply c.yaml --program sfu.json --export entries.txtpb");
        assert!(
            error.contains("viewer 10.0.1.6 of group 4 has no `mac:`"),
            "{error}"
        );
    }
}

/// The trace that docs/trace.md shows begins with these; `UPDATE_EXPECT=1` writes them anew.
#[test]
fn the_exported_conferences_of_the_traces_are_current() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for name in ["sfu", "sfu_recirculation"] {
        let golden = format!("{root}/testdata/trace/{name}.txtpb");
        let words = format!(
            "apply {root}/testdata/trace/{name}.yaml --program {root}/p4/{name}.p4 --export new.txtpb"
        );
        let output = reprise("127.0.0.1:1", &words, &folder);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let exported = fs::read_to_string(folder.path().join("new.txtpb")).expect("written");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&golden, &exported).expect("written");
        }
        let current = fs::read_to_string(&golden).expect("the golden file");
        assert_eq!(current, exported, "{golden}: UPDATE_EXPECT=1 refreshes it");
    }
}
