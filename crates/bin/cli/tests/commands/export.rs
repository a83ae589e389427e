//! `reprise export`: exports the state to a file, and applies the file again.

use std::fs;

use conference::address::Mac;
use p4runtime_client::entities;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::text_format;
use testkit::sfu::programs;
use testkit::text::assert_has;

use crate::bench::{ADDRESS, Bench, CONFERENCE, recirculation, replication, reprise, text};

/// The words of a command that exports the conference in `c.yaml` for the program `sfu.json`.
const EXPORT: &str = "export c.yaml --program sfu.json --format p4runtime -o entries.txtpb";

fn both() -> [P4Info; 2] {
    [
        programs::replication(131_072),
        programs::recirculation(131_072, 65_536),
    ]
}

fn read(bench: &Bench, name: &str) -> String {
    fs::read_to_string(bench.folder.path().join(name)).expect("written")
}

#[test]
fn what_is_exported_is_the_same_after_a_fresh_switch_has_it() {
    for p4info in both() {
        let bench = Bench::new(Some(p4info.clone()));
        bench.file("c.yaml", CONFERENCE);
        bench.ok("apply c.yaml");
        bench.ok("group add --group 7 --ip 10.0.1.7 --mac 02:00:00:00:00:07");
        bench.ok("viewer add --group 7 --ip 10.0.1.9 --mac 02:00:00:00:00:09");
        bench.ok("viewer add --group 7 --ip 10.0.1.8 --mac 02:00:00:00:00:08");
        let line = bench.ok("export -o saved.yaml");
        assert_eq!(line, "3 groups with 4 viewers written to saved.yaml\n");
        let saved = read(&bench, "saved.yaml");
        assert_eq!(bench.ok("export"), saved, "to standard output the same");
        assert_eq!(bench.ok("export -o -"), saved);
        assert!(!bench.folder.path().join("-").exists());
        assert_eq!(bench.json("export -o -"), bench.json("export"));

        let fresh = Bench::new(Some(p4info.clone()));
        fresh.file("saved.yaml", &saved);
        fresh.ok("apply saved.yaml");
        assert_eq!(fresh.ok("export"), saved);
        assert_eq!(fresh.ok("apply saved.yaml"), "no change\n");

        bench.ok("export --format p4runtime -o saved.txtpb");
        let request = text_format::parse_write_request(&read(&bench, "saved.txtpb"));
        let third = Bench::new(Some(p4info));
        for update in &request.expect("a WriteRequest").updates {
            third.server.switch().update(update).expect("in order");
        }
        assert_eq!(third.ok("export"), saved);
    }
}

#[test]
fn what_is_not_understood_is_named_by_show_and_export_and_the_rest_is_there() {
    let bench = replication();
    bench.file("c.yaml", CONFERENCE);
    bench.ok("apply c.yaml");
    let whole = bench.ok("export");
    let foreign = entities::modify(entities::multicast_group(4, [(1, 1), (1, 2), (1, 9)]));
    bench.server.switch().update(&foreign).expect("there");
    let said = "group 4: no entry of its own in \"viewers\" for replica 9";
    let shown = bench.ok("show");
    assert_has(&shown, said);
    assert_has(&shown, "10.0.1.6");
    assert_eq!(bench.json("show")["foreign"][0], said);

    let output = bench.run("export");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), whole);
    assert!(text(&output.stderr).contains(said), "{:?}", output.stderr);
    let error = bench.fails("group delete --group 5");
    assert_has(&error, said);
    assert_has(&error, "reprise export");
    assert!(bench.ok("show").contains("5 from 10.0.1.5"));
}

#[test]
fn a_switch_without_an_own_address_has_no_file() {
    let bench = recirculation();
    let error = bench.fails("export");
    assert_has(&error, "reprise address set");
    let mac = Mac([2, 0, 0, 0, 1, 0x64]);
    bench.ok(&format!("address set --port 1 --ip 10.0.1.100 --mac {mac}"));
    let expected = format!("sfu: {{port: 1, ip: 10.0.1.100, mac: '{mac}'}}\n");
    assert_eq!(bench.ok("export"), expected);
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
        bench.ok(&format!("{EXPORT} --switch 127.0.0.1:1"));
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
        let error = bench.fails(EXPORT);
        assert_has(&error, "viewer 10.0.1.6 of group 4 has no `mac:`");
    }
}

/// Exports the conferences in testdata/trace, and checks that each result equals the `.txtpb` file there, with which
/// the conference's trace begins. With `UPDATE_EXPECT=1`, rewrites these files.
#[test]
fn the_exported_conferences_of_the_traces_are_current() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    for name in ["sfu", "sfu_recirculation"] {
        let golden = format!("{root}/testdata/trace/{name}.txtpb");
        let words = format!(
            "export {root}/testdata/trace/{name}.yaml --program {root}/p4/{name}.p4 --format p4runtime -o new.txtpb"
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

#[test]
fn one_group_with_one_viewer_is_no_plural() {
    let bench = replication();
    bench.ok(ADDRESS);
    bench.ok("group add --group 4 --ip 10.0.1.4");
    bench.ok("viewer add --group 4 --ip 10.0.1.5 --mac 02:00:00:00:00:05");
    let line = bench.ok("export -o saved.yaml");
    assert_eq!(line, "1 group with 1 viewer written to saved.yaml\n");
}
