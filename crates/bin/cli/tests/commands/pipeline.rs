//! `reprise pipeline`, `compile` and `check`, with compiled programs and with P4 source.

use p4runtime_proto::text_format;
use testkit::sfu::programs;
use testkit::text::{assert_has, assert_starts};

use crate::bench::{Bench, text};

#[test]
fn a_compiled_program_is_loaded_with_the_p4info_beside_it() {
    let bench = Bench::new(None);
    bench.file("sfu.json", "{\"program\": 1}");
    let error = bench.fails("pipeline set sfu.json");
    assert_has(&error, "sfu.p4info.txtpb");
    assert_has(&error, "--p4info");
    bench.file(
        "sfu.p4info.txtpb",
        &text_format::print_p4info(&programs::replication(64)),
    );
    let line = bench.ok("pipeline set sfu.json");
    let expected = "sfu.json loaded: replication, no own address and no groups\n";
    assert_eq!(line, expected);
    assert_eq!(bench.server.switch().device_config, b"{\"program\": 1}");
    let shown = bench.json("pipeline show");
    assert_eq!(shown["kind"], "replication");
    let names: Vec<&str> = shown["objects"]
        .as_array()
        .expect("objects")
        .iter()
        .filter_map(|o| o["name"].as_str())
        .collect();
    assert!(
        names.contains(&"streams") && names.contains(&"viewers"),
        "{names:?}"
    );
    bench.file("bad.txtpb", "tables { nonsense: 1 }");
    let error = bench.fails("pipeline set sfu.json --p4info bad.txtpb");
    assert!(error.starts_with("bad.txtpb: "), "{error}");
}

#[test]
fn p4_source_is_compiled_checked_and_loaded() {
    let bench = Bench::new(None);
    for (name, kind) in [
        ("sfu", "replication"),
        ("sfu_recirculation", "recirculation"),
    ] {
        let source = format!("{}/../../../p4/{name}.p4", env!("CARGO_MANIFEST_DIR"));
        let files = bench.json(&format!("compile {source} -o out"));
        assert_eq!(files["files"].as_array().expect("files").len(), 3);
        bench.ok(&format!("check {source}"));
        bench.ok(&format!("pipeline set {source}"));
        assert_eq!(bench.json("pipeline show")["kind"], kind);
        let from_source = bench.server.switch().device_config.clone();
        bench.ok(&format!("pipeline set out/{name}.json"));
        assert_eq!(bench.server.switch().device_config, from_source);
    }
}

#[test]
fn the_conference_services_program_is_known_and_its_state_is_the_services() {
    let bench = Bench::new(None);
    let source = format!("{}/../../../p4/conference.p4", env!("CARGO_MANIFEST_DIR"));
    let line = bench.ok(&format!("pipeline set {source}"));
    assert_has(
        &line,
        "loaded: conference, the conference service writes its entries\n",
    );
    assert_eq!(bench.json("pipeline show")["kind"], "conference");
    let error = bench.fails("show");
    assert_has(
        &error,
        "the program in the switch is the conference service's",
    );
}

#[test]
fn p4_source_with_a_mistake_is_refused_with_its_place() {
    let bench = Bench::new(None);
    bench.file("bad.p4", "parser x( {");
    for words in ["check bad.p4", "compile bad.p4", "pipeline set bad.p4"] {
        let output = bench.run(words);
        assert_eq!(output.status.code(), Some(1), "{words}");
        let error = text(&output.stderr);
        assert!(error.contains("bad.p4:1:11"), "{words}: {error}");
        assert!(
            error.ends_with("reprise: bad.p4: not compiled, 1 error\n"),
            "{words}: {error}"
        );
    }
    let error = bench.fails("check none.p4");
    assert_starts(&error, "none.p4: there is no such file");
}
