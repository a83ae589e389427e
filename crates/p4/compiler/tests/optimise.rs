//! Checks that the optimiser leaves unchanged what it must not change, and that it terminates.
//! `crates/dev/conformance/tests/conformance/optimised.rs` shows that an optimised program treats packets as the
//! unoptimised program does.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by panicking"
)]

use std::collections::BTreeSet;
use std::fs;
use std::sync::OnceLock;

use bmv2_json::{Program, Table};
use p4_compiler::optimise::{Pass, optimise};
use p4_compiler::{Options, P4Info, compile};
use testkit::repository::{files, root};

fn unoptimised(text: &str) -> (Program, P4Info) {
    let load = |path: &str| fs::read_to_string(root().join("testdata/compiler").join(path)).ok();
    let options = Options {
        optimise: false,
        ..Options::default()
    };
    let output = compile("test.p4", text, &load, &options);
    (output.bmv2_json.unwrap(), output.p4info.unwrap())
}

/// Compiles a program with this ingress; `testdata/compiler/prelude.p4` has the rest of the program.
fn with_ingress(body: &str) -> (Program, P4Info) {
    let text = format!(
        "#include \"prelude.p4\"\nINGRESS {{\n{body}\n}}\nPROGRAM(Tested(), NoEgress());\n"
    );
    unoptimised(&text)
}

fn optimised(body: &str) -> Program {
    let (mut json, p4info) = with_ingress(body);
    optimise(&mut json, Some(&p4info), Pass::ALL);
    json
}

/// Every program of the corpus that compiles, compiled once.
fn corpus() -> &'static [(String, Program, P4Info)] {
    static CORPUS: OnceLock<Vec<(String, Program, P4Info)>> = OnceLock::new();
    CORPUS.get_or_init(compile_corpus)
}

fn compile_corpus() -> Vec<(String, Program, P4Info)> {
    let mut programs = Vec::new();
    for folder in ["testdata/compiler/ok", "testdata/stf"] {
        for path in files(folder, "p4") {
            let load = |path: &str| fs::read_to_string(path).ok();
            let text = fs::read_to_string(&path).unwrap();
            let options = Options {
                optimise: false,
                ..Options::default()
            };
            let name = path.display().to_string();
            let output = compile(&name, &text, &load, &options);
            if let (Some(json), Some(p4info)) = (output.bmv2_json, output.p4info) {
                programs.push((name, json, p4info));
            }
        }
    }
    programs
}

/// Returns, as text, everything that a control plane can see of a table. Ids and successors are left out.
fn seen(json: &Program, table: &Table) -> String {
    let actions: Vec<_> = table
        .actions
        .iter()
        .zip(&table.action_ids)
        .map(|(name, id)| {
            let action = json.actions.iter().find(|action| action.id == *id).unwrap();
            assert_eq!(action.name, *name);
            (name, &action.runtime_data)
        })
        .collect();
    let default = table.default_entry.as_ref().map(|entry| {
        let position = table
            .action_ids
            .iter()
            .position(|id| *id == entry.action_id);
        (position, &entry.action_data, entry.action_const)
    });
    let entries: Vec<_> = table
        .entries
        .iter()
        .flatten()
        .map(|entry| {
            let id = entry.action_entry.action_id;
            let position = table.action_ids.iter().position(|other| *other == id);
            (&entry.match_key, position, &entry.action_entry.action_data)
        })
        .collect();
    format!(
        "{} {:?} {:?} {actions:?} {default:?} {entries:?} {:?}",
        table.name, table.key, table.max_size, table.source_info
    )
}

fn seen_tables(json: &Program, p4info: &P4Info) -> BTreeSet<String> {
    let names: BTreeSet<&str> = p4info
        .tables
        .iter()
        .filter_map(|table| Some(table.preamble.as_ref()?.name.as_str()))
        .collect();
    json.pipelines
        .iter()
        .flat_map(|pipeline| &pipeline.tables)
        .filter(|table| names.contains(table.name.as_str()))
        .map(|table| seen(json, table))
        .collect()
}

#[test]
fn what_a_control_plane_sees_stays() {
    let corpus = corpus();
    assert!(corpus.len() >= 150, "only {} programs", corpus.len());
    for (name, before, p4info) in corpus {
        let mut after = before.clone();
        optimise(&mut after, Some(p4info), Pass::ALL);
        let (old, new) = (seen_tables(before, p4info), seen_tables(&after, p4info));
        assert_eq!(old, new, "{name}");
        assert_eq!(before.counter_arrays, after.counter_arrays, "{name}");
        assert_eq!(before.register_arrays, after.register_arrays, "{name}");
        assert_eq!(before.meter_arrays, after.meter_arrays, "{name}");
        assert_eq!(before.learn_lists, after.learn_lists, "{name}");
        assert_eq!(before.parse_vsets, after.parse_vsets, "{name}");
        assert_eq!(before.errors, after.errors, "{name}");
        for (old, new) in before.pipelines.iter().zip(&after.pipelines) {
            assert_eq!(old.action_profiles, new.action_profiles, "{name}");
        }
    }
}

#[test]
fn a_second_run_finds_nothing_more() {
    for (name, json, p4info) in corpus() {
        let mut once = json.clone();
        optimise(&mut once, Some(p4info), Pass::ALL);
        let mut twice = once.clone();
        optimise(&mut twice, Some(p4info), Pass::ALL);
        assert!(once == twice, "{name} changes again");
    }
}

#[test]
fn ids_have_no_gaps_and_edges_lead_somewhere() {
    for (name, json, p4info) in corpus() {
        let mut json = json.clone();
        optimise(&mut json, Some(p4info), Pass::ALL);
        let headers = json.headers.iter().map(|header| header.id);
        assert!(headers.eq(0..json.headers.len() as u32), "{name}");
        let actions = json.actions.iter().map(|action| action.id);
        assert!(actions.eq(0..json.actions.len() as u32), "{name}");
        for pipeline in &json.pipelines {
            let tables = pipeline.tables.iter().map(|it| &it.name);
            let ifs = pipeline.conditionals.iter().map(|it| &it.name);
            let calls = pipeline.action_calls.iter().map(|it| &it.name);
            let nodes: BTreeSet<&String> = tables.chain(ifs).chain(calls).collect();
            let by_tables = pipeline.tables.iter();
            let edges = by_tables
                .flat_map(|table| table.next_tables.values().chain([&table.base_default_next]))
                .chain(pipeline.conditionals.iter().map(|it| &it.true_next))
                .chain(pipeline.conditionals.iter().map(|it| &it.false_next))
                .chain(pipeline.action_calls.iter().map(|it| &it.next_node))
                .chain([&pipeline.init_table]);
            for edge in edges.flatten() {
                assert!(nodes.contains(edge), "{name}: {edge}");
            }
        }
    }
}

fn primitives(json: &Program) -> Vec<&str> {
    let actions = json.actions.iter().flat_map(|action| &action.primitives);
    actions.map(|primitive| primitive.op.as_str()).collect()
}

#[test]
fn a_temporary_that_is_only_passed_on_goes() {
    let json = optimised("apply { bit<32> a = meta.x + 1; bit<32> b = a; hdr.word.a = b; }");
    assert_eq!(primitives(&json), ["assign"]);
    assert!(json.header_types[0].fields.iter().all(|field| field.name.starts_with("metadata_t")
        || field.name.starts_with("_padding")));
}

#[test]
fn metadata_that_nothing_wrote_is_zero_and_decides_branches() {
    let json = optimised("apply { if (meta.x == 1) { hdr.word.a = 7; } }");
    assert!(json.pipelines[0].conditionals.is_empty());
    assert_eq!(primitives(&json), Vec::<&str>::new());
}

#[test]
fn a_branch_that_was_decided_is_not_asked_again() {
    let json = optimised(
        "apply { if (hdr.word.isValid()) { hdr.word.a = 1; } \
         if (hdr.word.isValid()) { hdr.word.b = 2; } }",
    );
    // On both paths the condition of the second branch is known.
    assert_eq!(json.pipelines[0].conditionals.len(), 1);
}

#[test]
fn hashes_of_an_action_that_a_control_calls_are_there_once() {
    let (_, p4info) = with_ingress(HASHES);
    let action = |action: &p4runtime_proto::p4::config::v1::Action| {
        let preamble = action.preamble.as_ref();
        preamble.is_some_and(|preamble| preamble.name == "Tested.both")
    };
    assert!(p4info.actions.iter().any(action));
    let json = optimised(HASHES);
    let names = json
        .calculations
        .iter()
        .map(|calculation| &calculation.name);
    assert_eq!(names.collect::<Vec<_>>(), ["calc", "calc_0"]);
    let used = json.actions.iter().flat_map(|action| &action.primitives);
    let used = used.flat_map(|primitive| &primitive.parameters);
    let used = used.filter_map(|value| match value {
        bmv2_json::Value::Calculation(name) => Some(name.as_str()),
        _ => None,
    });
    assert_eq!(used.collect::<Vec<_>>(), ["calc", "calc_0"]);
    let of_name = json
        .actions
        .iter()
        .filter(|action| action.name == "Tested.both");
    assert_eq!(of_name.count(), 1, "the P4Info has its name");
}

const HASHES: &str = "
    action both() {
        hash(meta.x, HashAlgorithm.crc32_custom, 16w0, { hdr.ethernet.dst_addr }, 32w28);
        hash(meta.y, HashAlgorithm.crc32_custom, 16w0, { hdr.ethernet.dst_addr }, 32w28);
    }
    apply {
        both();
        hdr.ethernet.src_addr = meta.y ++ meta.x;
    }
";

#[test]
fn random_numbers_are_drawn_though_nobody_reads_them() {
    let json = optimised("apply { bit<32> a; random(a, 0, 9); }");
    assert_eq!(primitives(&json), ["modify_field_rng_uniform"]);
}

#[test]
fn code_behind_an_exit_is_not_joined_with_what_follows() {
    let json = optimised(
        "apply { if (hdr.word.a == 1) { hdr.word.b = 2; exit; } hdr.word.b = 3; meta.x = 1; }",
    );
    assert_eq!(json.pipelines[0].conditionals.len(), 1);
    assert_eq!(json.pipelines[0].action_calls.len(), 2);
}
