//! Runs `reprise-conformance` as a user does, on a checkout that the tests create in the form of p4c's.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use conformance::engines::choices;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_reprise-conformance");

/// The lists of tests, in the format of p4c's `backends/bmv2/CMakeLists.txt`.
const LISTS: &str = r#"
# Lists of tests.
set (V1_INCLUDE_PATTERNS "include.*v1model.p4")
set (P4TESTS_FOR_V1MODEL "${P4C_SOURCE_DIR}/testdata/p4_16_samples/*-bmv2.p4")
p4c_find_tests("${P4TESTS_FOR_V1MODEL}" v1tests INCLUDE "${V1_INCLUDE_PATTERNS}")
set (V1MODEL_SUITES
  "${P4C_SOURCE_DIR}/testdata/p4_16_bmv_errors/*-bmv2.p4"
  "${P4C_SOURCE_DIR}/testdata/p4_16_samples/deep_*/deep.p4" # of any depth
  ${v1tests}
  )
if (SUPPORT_P4_14)
  list(APPEND V1MODEL_SUITES "${P4C_SOURCE_DIR}/testdata/p4_14_samples/*.p4")
endif()
set(flagsOther "${extra} -a='--target bmv2 --arch psa'")
set (XFAIL_TESTS
  # says (why)
  testdata/p4_16_samples/expected-bmv2.p4
)
set(BMV2_DRIVER ${CMAKE_CURRENT_SOURCE_DIR}/run-bmv2-test.py)
p4c_add_tests("bmv2" ${BMV2_DRIVER} "${V1MODEL_SUITES}" "${XFAIL_TESTS}")
p4c_add_test_with_args("bmv2" ${BMV2_DRIVER} FALSE "alias"
  "testdata/p4_16_samples/own_extern-bmv2.p4"
  "-a=--emit-externs --init=\"cmake\"" "")
p4c_add_tests("bmv2" ${BMV2_DRIVER} "${OTHERS}" "${XFAIL_TESTS}" ${flagsOther})
"#;

/// Returns a program that sends each packet back with its first byte increased by `step`.
fn program(step: &str) -> String {
    format!(
        "#include <core.p4>
#include <v1model.p4>
header first_t {{ bit<8> value; }}
struct headers_t {{ first_t first; }}
struct metadata_t {{}}
parser Read(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    state start {{ packet.extract(hdr.first); transition accept; }}
}}
control Nothing(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control Count(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    apply {{
        hdr.first.value = hdr.first.value + {step};
        standard.egress_spec = standard.ingress_port;
    }}
}}
control Idle(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ apply {{}} }}
control Write(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(Read(), Nothing(), Count(), Idle(), Nothing(), Write()) main;
"
    )
}

/// The line of `program` that contains the step.
const LINE: usize = 12;

struct Checkout(tempfile::TempDir);

impl Checkout {
    fn new() -> Self {
        let checkout = Self(tempfile::tempdir().expect("a folder"));
        checkout.file("backends/bmv2/CMakeLists.txt", LISTS);
        for folder in ["p4_16_errors", "p4_16_bmv_errors", "p4_16_samples"] {
            fs::create_dir_all(checkout.0.path().join("testdata").join(folder)).expect("made");
        }
        checkout
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn sample(&self, name: &str, text: &str) {
        self.file(&format!("testdata/{name}"), text);
    }

    fn golden(&self, name: &str, text: &str) {
        self.file(
            &format!("testdata/p4_16_errors_outputs/{name}.p4-stderr"),
            text,
        );
    }

    /// Runs the command; `known` are rows of the table of known failures.
    fn run(&self, words: &[&str], known: &str) -> Output {
        let table =
            format!("## Known failures\n\n| check | sample | reason |\n|---|---|---|\n{known}");
        self.file("known.md", &table);
        let path = |name: &str| self.0.path().join(name).display().to_string();
        let mut command = Command::new(PROGRAM);
        command.args(["--p4c", &path(""), "--known", &path("known.md")]);
        command.args(words).output().expect("it runs")
    }

    /// Runs the command and returns its report, and each sample's name with its result.
    fn results(&self, words: &[&str], known: &str) -> (Value, Vec<(String, String)>) {
        let output = self.run(&[words, &["--json"]].concat(), known);
        let text = String::from_utf8(output.stdout).expect("text");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let word = |sample: &Value, key: &str| sample[key].as_str().expect("a word").to_owned();
        let samples = report["samples"].as_array().expect("a list").iter();
        let results = samples.map(|sample| (word(sample, "sample"), word(sample, "result")));
        let results = results.collect();
        (report, results)
    }
}

fn pairs(results: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(name, result): &(&str, &str)| ((*name).to_owned(), (*result).to_owned());
    results.iter().map(pair).collect()
}

#[test]
fn programs_that_p4c_lists_are_compiled_and_expected_failures_are_left_out() {
    let checkout = Checkout::new();
    checkout.sample("p4_16_samples/right-bmv2.p4", &program("1"));
    checkout.sample("p4_16_samples/wrong-bmv2.p4", &program("nothing"));
    checkout.sample("p4_16_samples/expected-bmv2.p4", &program("nothing"));
    checkout.sample("p4_16_samples/other-bmv2.p4", "#include <psa.p4>\n");
    checkout.sample("p4_16_samples/unlisted.p4", &program("nothing"));
    let own_extern = |step| format!("extern void count(inout bit<8> value);\n{}", program(step));
    let calling = own_extern("1; count(hdr.first.value)");
    checkout.sample("p4_16_samples/own_extern-bmv2.p4", &calling);
    checkout.sample("p4_16_samples/deep_1/deep.p4", &program("1"));
    let (report, results) = checkout.results(&["--only", "accepted"], "");
    assert_eq!(
        results,
        pairs(&[
            ("p4_16_samples/deep_1/deep.p4", "pass"),
            ("p4_16_samples/own_extern-bmv2.p4", "pass"),
            ("p4_16_samples/right-bmv2.p4", "pass"),
            ("p4_16_samples/wrong-bmv2.p4", "fail"),
        ])
    );
    assert_eq!(report["totals"]["accepted"]["unexpected"], 1);
    let output = checkout.run(&["--only", "accepted"], "");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains(&format!(
            "FAIL      accepted p4_16_samples/wrong-bmv2.p4: wrong-bmv2.p4:{LINE}: "
        )),
        "{text}"
    );
    assert!(
        text.contains("accepted 3 of 4 (75.0 %) programs compile and load"),
        "{text}"
    );
}

#[test]
fn programs_that_p4c_lists_are_loaded_with_their_p4info() {
    let checkout = Checkout::new();
    checkout.sample("p4_16_samples/right-bmv2.p4", &program("1"));
    let large = program("1").replace(
        "    apply {\n        hdr",
        "    register<bit<8>>(0xffffffff) large;\n    apply {\n        large.write(0, 1);\n        hdr",
    );
    checkout.sample("p4_16_samples/large-bmv2.p4", &large);
    let (report, results) = checkout.results(&["--only", "accepted"], "");
    assert_eq!(
        results,
        pairs(&[
            ("p4_16_samples/large-bmv2.p4", "fail"),
            ("p4_16_samples/right-bmv2.p4", "pass"),
        ])
    );
    let message = report["samples"][0]["message"].as_str().expect("a message");
    assert!(
        message.contains("E0503: 4294967295 is not a size"),
        "{message}"
    );
}

#[test]
fn wrong_programs_are_held_against_the_lines_of_p4cs_messages() {
    let checkout = Checkout::new();
    let error = |name: &str, line: usize| {
        format!(
            "{name}.p4({line}): [--Werror=not-found] error: nothing: no such name\n    source\n    ^^^^\n\
             [--Werror=overlimit] error: 1 errors encountered, aborting compilation\n"
        )
    };
    for (name, text, golden) in [
        ("there", program("nothing"), error("there", LINE)),
        ("elsewhere", program("nothing"), error("elsewhere", 1)),
        ("accepted", program("1"), error("accepted", LINE)),
        (
            "nowhere",
            program("nothing"),
            "error: something\n".to_owned(),
        ),
        (
            "warned",
            program("1"),
            "warned.p4(3): [--Wwarn=x] warning: y\n".to_owned(),
        ),
        (
            "psa",
            format!("#include <psa.p4>\n{}", program("1")),
            error("psa", 1),
        ),
    ] {
        checkout.sample(&format!("p4_16_errors/{name}.p4"), &text);
        checkout.golden(name, &golden);
    }
    checkout.sample("p4_16_bmv_errors/target-bmv2.p4", &program("nothing"));
    checkout.sample("p4_16_samples/right-bmv2.p4", &program("1"));
    let (report, results) = checkout.results(&["--only", "errors"], "");
    assert_eq!(
        results,
        pairs(&[
            ("p4_16_errors/accepted.p4", "fail"),
            ("p4_16_errors/elsewhere.p4", "elsewhere"),
            ("p4_16_errors/nowhere.p4", "pass"),
            ("p4_16_errors/there.p4", "pass"),
            ("p4_16_bmv_errors/target-bmv2.p4", "pass"),
        ])
    );
    let totals = &report["totals"]["errors"];
    for (key, n) in [
        ("samples", 5),
        ("passed", 4),
        ("with_place", 3),
        ("on_line", 2),
        ("on_first", 2),
    ] {
        assert_eq!(totals[key], n, "{key}");
    }
}

#[test]
fn packet_tests_run_and_the_table_of_known_failures_is_held_against_them() {
    let checkout = Checkout::new();
    let passes = "packet 1 07ff\nexpect 1 08ff $\n";
    checkout.sample("p4_16_samples/right-bmv2.p4", &program("1"));
    checkout.sample("p4_16_samples/right-bmv2.stf", passes);
    checkout.sample("p4_16_samples/plain.p4", &program("1"));
    checkout.sample("p4_16_samples/plain.stf", passes);
    checkout.sample("p4_16_samples/differs-bmv2.p4", &program("2"));
    checkout.sample("p4_16_samples/differs-bmv2.stf", passes);
    checkout.sample("p4_16_samples/alone.stf", passes);
    let known = "| stf | `p4_16_samples/differs-bmv2.stf` | a reason |\n\
                 | stf | `p4_16_samples/plain.stf` | a reason |\n\
                 | stf | `p4_16_samples/gone.stf` | a reason |\n";
    let (report, results) = checkout.results(&["--only", "stf"], known);
    assert_eq!(
        results,
        pairs(&[
            ("p4_16_samples/differs-bmv2.stf", "known"),
            ("p4_16_samples/plain.stf", "pass"),
            ("p4_16_samples/right-bmv2.stf", "pass"),
        ])
    );
    let stale = [
        "stf p4_16_samples/plain.stf",
        "stf p4_16_samples/gone.stf (no such sample)",
    ];
    assert_eq!(report["stale"], Value::from(stale.to_vec()));
    let output = checkout.run(&["--only", "stf"], known);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert_eq!(checkout.run(&["--only", "stf"], "").status.code(), Some(1));
    let (report, results) = checkout.results(&["--filter", "plain"], known);
    assert_eq!(results, pairs(&[("p4_16_samples/plain.stf", "pass")]));
    assert_eq!(report["stale"], Value::from(vec![stale[0]]));
}

#[test]
fn a_sample_that_takes_too_long_fails_and_the_next_one_is_run() {
    let checkout = Checkout::new();
    checkout.sample("p4_16_samples/a-bmv2.p4", &program("1"));
    checkout.sample("p4_16_samples/b-bmv2.p4", &program("1"));
    let (report, results) = checkout.results(&["--time-limit", "0", "--jobs", "1"], "");
    assert_eq!(results.len(), 2);
    for sample in report["samples"].as_array().expect("a list") {
        assert_eq!(sample["message"], "not done after 0 s");
    }
}

#[test]
fn what_is_no_checkout_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for (option, path, said) in [
        (
            "--p4c",
            folder.path().to_owned(),
            "expected the root of a checkout of p4c (p4lang/p4c), found no backends/bmv2/CMakeLists.txt below it",
        ),
        (
            "--tree",
            folder.path().join("missing"),
            "cannot be read: no such file or folder",
        ),
    ] {
        let output = Command::new(PROGRAM)
            .args(["--json", option])
            .arg(&path)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let error = format!("{}: {said}", path.display());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(errors, format!("reprise-conformance: {error}\n"));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["error"], error);
    }
}

#[test]
fn a_packet_test_runs_on_the_native_engine_with_every_choice() {
    let root = tree(&[
        ("prog.p4", &program("1")),
        ("right.stf", "packet 1 07ff\nexpect 1 08ff $\n"),
        ("wrong.stf", "packet 1 07ff\nexpect 1 09ff $\n"),
    ]);
    let stf = |test: &str, words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command
            .current_dir(root.path())
            .args(["stf", "prog.p4", test]);
        let output = command.args(words).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, out, error) = stf("right.stf", &[]);
    assert_eq!(code, Some(0), "{error}");
    let n_choices = choices().len();
    let expected = format!("right.stf: ok with {n_choices} choices of optimisations\n");
    assert_eq!(out, expected);
    let (code, out, error) = stf("wrong.stf", &["--json"]);
    assert_eq!(code, Some(1), "{error}");
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["failures"].as_array().map(Vec::len), Some(n_choices));
}

#[test]
fn a_random_case_is_shown_and_run_alone() {
    for words in [["fuzz", "--show", "3"], ["fuzz", "--case", "3"]] {
        let output = Command::new(PROGRAM).args(words).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        assert!(!output.stdout.is_empty(), "{words:?}");
    }
}

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    root
}

fn run_tree(root: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["--packets", "200", "--tree"]);
    command.arg(root).args(words).output().expect("it runs")
}

/// Runs the command and returns its report, and each program's name with its result.
fn tree_results(root: &Path, words: &[&str]) -> (Value, Vec<(String, String)>) {
    let output = run_tree(root, &[words, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let word = |program: &Value, key: &str| program[key].as_str().expect("a word").to_owned();
    let programs = report["programs"].as_array().expect("a list").iter();
    let results = programs.map(|program| (word(program, "program"), word(program, "result")));
    let results = results.collect();
    (report, results)
}

/// Actions, and tables with exact, LPM, ternary and range keys, for the control of `program`.
const TABLES: &str = r"
    action set(bit<8> value) { hdr.first.value = value; standard.egress_spec = 1; }
    action back() { standard.egress_spec = standard.ingress_port; }
    table exact_key { key = { hdr.first.value : exact; } actions = { set; back; NoAction; } }
    table other_keys {
        key = { hdr.first.value : lpm; standard.ingress_port : ternary; standard.packet_length : range; }
        actions = { set; back; }
    }
    table fixed {
        key = { hdr.first.value : exact; }
        actions = { back; NoAction; }
        const entries = { 7 : back(); }
    }
";

#[test]
fn every_program_of_a_tree_is_compiled_loaded_filled_and_run() {
    let filled = program("1; exact_key.apply(); other_keys.apply(); fixed.apply()").replace(
        "    apply {\n        hdr",
        &format!("{TABLES}    apply {{\n        hdr"),
    );
    let root = tree(&[
        ("a/plain.p4", &program("1")),
        ("a/tables.p4", &filled),
        ("b/wrong.p4", &program("nothing")),
        (
            "c/psa.p4",
            "#include <psa.p4>\nPSA_Switch(P(), C()) main;\n",
        ),
        (
            "c/own.p4",
            "control C(); package top(C c);\ncontrol D() { apply {} }\ntop(D()) main;\n",
        ),
        ("c/part.p4", "const bit<8> STEP = 1;\n"),
        (
            "d/old.p4",
            "header_type h_t { fields { value : 8; } }\nparser start { return ingress; }\n",
        ),
        (
            "e/lost.p4",
            &format!("#include \"gone.p4\"\n{}", program("1")),
        ),
        (
            "e/extern.p4",
            &format!(
                "extern void count(inout bit<8> value);\n{}",
                program("1; count(hdr.first.value)")
            ),
        ),
    ]);
    let (report, results) = tree_results(root.path(), &[]);
    let expected = [
        ("a/plain.p4", "passed"),
        ("a/tables.p4", "passed"),
        ("b/wrong.p4", "refused"),
        ("c/own.p4", "other_architecture"),
        ("c/psa.p4", "other_architecture"),
        ("d/old.p4", "p4_14"),
        ("e/extern.p4", "own_extern"),
        ("e/lost.p4", "missing_include"),
    ];
    assert_eq!(results, pairs(&expected));
    let tables = &report["programs"][1];
    assert_eq!(
        (&tables["tables"], &tables["filled"]),
        (&3.into(), &2.into())
    );
    assert_eq!(tables["packets"], 200);
    assert!(tables["entries"].as_u64() >= Some(10), "{tables}");
    assert!(tables["transmitted"].as_u64() > Some(0), "{tables}");
    assert_eq!(report["totals"]["refused"]["E0301"], 1);
    assert!(
        run_tree(root.path(), &[]).status.success(),
        "a refusal is no fault of ours by itself"
    );
}

#[test]
fn folders_and_macros_for_a_program_come_from_the_tree() {
    let step = "STEP_OF_MAKE + STEP_OF_FILE";
    let including = format!("#include \"step.p4\"\n{}", program(step));
    let searching = format!("#include \"far/other.p4\"\n{}", program("FAR"));
    let root = tree(&[
        (
            "Makefile",
            "WIDTH = 8\nall:\n\tp4c-bm2-ss -I headers -DSTEP_OF_MAKE=$(WIDTH)w2 p4/a.p4\n",
        ),
        ("headers/step.p4", "#define STEP_OF_FILE 1\n"),
        ("p4/a.p4", &including),
        ("p4/b.p4", &searching),
        ("p4/c.p4", &program("OWN")),
        ("library/far/other.p4", "#define FAR 3\n"),
        // `half.p4` compiles only where `whole.p4` includes it, because only `whole.p4` defines the macro `HALF`.
        ("p4/whole.p4", "#define HALF 1\n#include \"half.p4\"\n"),
        ("p4/half.p4", &program("HALF")),
    ]);
    let (report, results) = tree_results(root.path(), &["--define", "OWN=4"]);
    let expected = [
        ("p4/a.p4", "passed"),
        ("p4/b.p4", "passed"),
        ("p4/c.p4", "passed"),
        ("p4/whole.p4", "passed"),
    ];
    assert_eq!(results, pairs(&expected));
    assert_eq!(report["programs"][1]["searched"][0], "library");
}

#[test]
fn a_program_that_is_too_large_for_the_memory_fails_alone_and_the_exit_code_says_so() {
    // The cells take more than a gibibyte of memory in total.
    let arrays: String = (0..4)
        .map(|at| format!("    register<bit<64>>(0x1000000) cells{at};\n"))
        .collect();
    let writes = (0..4).map(|at| format!("; cells{at}.write(0, 1)"));
    let large = program(&format!("1{}", writes.collect::<String>())).replace(
        "    apply {\n        hdr",
        &format!("{arrays}    apply {{\n        hdr"),
    );
    let root = tree(&[
        ("a.p4", &program("1")),
        ("b.p4", &large),
        ("c.p4", &program("2")),
    ]);
    let words = ["--memory-limit", "1024"];
    let (_, results) = tree_results(root.path(), &words);
    let expected = [("a.p4", "passed"), ("b.p4", "crashed"), ("c.p4", "passed")];
    assert_eq!(results, pairs(&expected));
    let output = run_tree(root.path(), &words);
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("1 fault of Reprise"), "{errors}");
}

/// Returns this compiler's P4Info, which stands for the P4Info in p4c's checkout.
fn p4info_of(program: &str) -> String {
    let options = p4_compiler::Options::default();
    let output = p4_compiler::compile("prog.p4", program, &|_: &str| None, &options);
    p4_compiler::p4info_text(&output.p4info.expect("P4Info"))
}

/// A program with two registers, which P4Info lists in the order of declaration.
fn with_registers(step: &str) -> String {
    program(step).replace(
        "    apply {\n        hdr",
        "    register<bit<8>>(4) one;\n    register<bit<8>>(4) two;\n    apply {\n        hdr",
    )
}

#[test]
fn p4info_is_compared_with_p4cs_the_order_included() {
    let checkout = Checkout::new();
    let golden = |name: &str, text: &str| {
        let path = format!("testdata/p4_16_samples_outputs/{name}.p4.p4info.txtpb");
        checkout.file(&path, text);
    };
    let right = p4info_of(&with_registers("1"));
    let swapped = right
        .replace("one", "TWO")
        .replace("two", "one")
        .replace("TWO", "two");
    assert_ne!(right, swapped);
    for (name, step, text) in [
        ("right-bmv2", "1", right.as_str()),
        ("swapped-bmv2", "1", swapped.as_str()),
        ("refused-bmv2", "nothing", right.as_str()),
        ("unlisted", "1", right.as_str()),
        ("unlisted_refused", "nothing", right.as_str()),
    ] {
        checkout.sample(&format!("p4_16_samples/{name}.p4"), &with_registers(step));
        golden(name, &format!("# proto-file: p4info.proto\n\n{text}"));
    }
    checkout.sample("p4_16_samples/without_golden-bmv2.p4", &program("1"));
    checkout.sample("p4_16_samples/psa.p4", "#include <psa.p4>\n");
    golden("psa", &right);
    let (report, results) = checkout.results(&["--only", "p4info"], "");
    assert_eq!(
        results,
        pairs(&[
            ("p4_16_samples/refused-bmv2.p4", "fail"),
            ("p4_16_samples/right-bmv2.p4", "pass"),
            ("p4_16_samples/swapped-bmv2.p4", "fail"),
            ("p4_16_samples/unlisted.p4", "pass"),
            ("p4_16_samples/unlisted_refused.p4", "left out"),
        ])
    );
    let total = &report["totals"]["p4info"];
    assert_eq!(
        (&total["samples"], &total["left_out"]),
        (&4.into(), &1.into())
    );
    let output = checkout.run(&["--only", "p4info"], "");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("FAIL      p4info   p4_16_samples/swapped-bmv2.p4: first"),
        "{text}"
    );
    assert!(
        text.contains(
            "p4info   2 of 4 (50.0 %) P4Info messages are p4c's; 0 known failures, 2 unexpected"
        ),
        "{text}"
    );
}
