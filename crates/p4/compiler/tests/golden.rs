//! Compares the output for every program under `testdata/compiler` with its golden files.
//!
//! Each `ok/*.p4` has a `.json` (not optimised, so that it shows the lowering) and a `.p4info.txtpb` beside it, some
//! also an `.optimised.json`; each `err/*.p4` has a `.stderr`. `UPDATE_EXPECT=1 cargo test -p p4-compiler` writes these
//! files again; read the difference before you commit it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by panicking"
)]

use std::fs;
use std::path::PathBuf;

use p4_compiler::{Options, Output, Severity, compile, p4info_text};
use testkit::repository::{files, root};

/// Programs for which there is also a golden file of the optimised JSON. The optimiser leaves little of most other
/// programs, because nothing reads what they compute.
const OPTIMISED: &[&str] = &[
    "control_applied_twice",
    "exit_return",
    "header_validity",
    "hit_miss",
    "if_in_action",
    "lookahead",
    "sub_controls",
    "sub_parser",
    "switch_value",
    "verify_and_if",
];

/// Compiles a file. Messages show its path relative to the root of the repository.
fn compile_file(path: &str) -> Output {
    let options = Options {
        optimise: false,
        ..Options::default()
    };
    compile_with(path, &options)
}

fn compile_with(path: &str, options: &Options) -> Output {
    let load = |path: &str| fs::read_to_string(root().join(path)).ok();
    let text = load(path).unwrap_or_else(|| panic!("cannot read {path}"));
    compile(path, &text, &load, options)
}

fn programs(folder: &str) -> Vec<String> {
    let paths = files(folder, "p4").into_iter();
    let from_root = |path: PathBuf| path.strip_prefix(root()).unwrap().display().to_string();
    paths.map(from_root).collect()
}

/// Compares `found` with a golden file and returns the file's name if they differ. If `UPDATE_EXPECT` is set, writes
/// `found` to the file instead.
fn check(golden: &str, found: &str) -> Option<String> {
    let path = root().join(golden);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, found).unwrap();
        return None;
    }
    let wanted = fs::read_to_string(path).unwrap_or_default();
    (wanted != found).then(|| golden.to_owned())
}

fn rendered(output: &Output) -> String {
    let texts: Vec<String> = output
        .diagnostics
        .iter()
        .map(p4_compiler::Diagnostic::render)
        .collect();
    texts.join("\n")
}

fn assert_none(differing: &[String]) {
    assert!(
        differing.is_empty(),
        "these differ (UPDATE_EXPECT=1 writes them):\n{}",
        differing.join("\n")
    );
}

#[test]
fn programs_compile_to_their_golden_json_and_p4info() {
    let programs = programs("testdata/compiler/ok");
    assert!(
        programs.len() >= 40,
        "only {} programs were found",
        programs.len()
    );
    let mut differing = Vec::new();
    for path in programs {
        let output = compile_file(&path);
        let errors = output
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error);
        assert!(!errors, "{path} does not compile:\n{}", rendered(&output));
        let stem = path.trim_end_matches(".p4");
        let json = output.bmv2_json.unwrap().to_json_pretty().unwrap() + "\n";
        differing.extend(check(&format!("{stem}.json"), &json));
        differing.extend(check(
            &format!("{stem}.p4info.txtpb"),
            &p4info_text(&output.p4info.unwrap()),
        ));
    }
    assert_none(&differing);
}

#[test]
fn some_programs_compile_to_their_golden_optimised_json() {
    let mut differing = Vec::new();
    for name in OPTIMISED {
        let stem = format!("testdata/compiler/ok/{name}");
        let output = compile_with(&format!("{stem}.p4"), &Options::default());
        let json = output.bmv2_json.unwrap().to_json_pretty().unwrap() + "\n";
        differing.extend(check(&format!("{stem}.optimised.json"), &json));
    }
    assert_none(&differing);
}

#[test]
fn mistakes_give_their_golden_messages() {
    let programs = programs("testdata/compiler/err");
    assert!(
        programs.len() >= 25,
        "only {} programs were found",
        programs.len()
    );
    let mut differing = Vec::new();
    for path in programs {
        let output = compile_file(&path);
        assert!(output.bmv2_json.is_none(), "{path} compiles");
        let stem = path.trim_end_matches(".p4");
        differing.extend(check(&format!("{stem}.stderr"), &rendered(&output)));
    }
    assert_none(&differing);
}

#[test]
fn questionable_programs_give_their_golden_warnings() {
    let programs = programs("testdata/compiler/warn");
    assert!(
        programs.len() >= 60,
        "only {} programs were found",
        programs.len()
    );
    let mut differing = Vec::new();
    for path in programs {
        let output = compile_file(&path);
        let text = rendered(&output);
        assert!(
            output.bmv2_json.is_some(),
            "{path} does not compile:\n{text}"
        );
        assert!(!text.is_empty(), "{path} gives no warning");
        let stem = path.trim_end_matches(".p4");
        differing.extend(check(&format!("{stem}.stderr"), &text));
    }
    assert_none(&differing);
}

#[test]
fn sound_programs_give_no_warning() {
    let programs = programs("testdata/compiler/nowarn");
    assert!(
        programs.len() >= 14,
        "only {} programs were found",
        programs.len()
    );
    for path in programs {
        let output = compile_file(&path);
        assert_eq!(rendered(&output), "", "{path}");
        assert!(output.bmv2_json.is_some(), "{path} does not compile");
    }
}

#[test]
fn the_forwarding_programs_compile_without_a_message() {
    for path in [
        "p4/sfu.p4",
        "p4/sfu_recirculation.p4",
        "p4/sfu_multicast_one_stream.p4",
        "p4/sfu_multicast_two_streams.p4",
    ] {
        let output = compile_file(path);
        assert_eq!(rendered(&output), "", "{path}");
        assert!(output.bmv2_json.is_some() && output.p4info.is_some());
    }
}

#[test]
fn compiling_twice_gives_the_same_bytes() {
    let once = |path: &str| {
        let output = compile_file(path);
        let json = output.bmv2_json.unwrap().to_json().unwrap();
        (json, p4_compiler::p4info_binary(&output.p4info.unwrap()))
    };
    assert_eq!(
        once("p4/sfu_recirculation.p4"),
        once("p4/sfu_recirculation.p4")
    );
}
