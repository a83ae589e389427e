//! Every `testdata/stf/*.stf` with the program beside it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect, and tells one story"
)]

use std::path::{Path, PathBuf};

/// The corpus.
fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/stf");
    let mut tests: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "stf"))
        .collect();
    tests.sort();
    tests
}

fn run(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let commands = stf::parse(&text).map_err(|error| error.to_string())?;
    let program = stf::program_beside(path).map_err(|error| error.to_string())?;
    let failures = stf::run(program, &commands, None).failures;
    let failures: String = failures.iter().map(ToString::to_string).collect();
    failures.is_empty().then_some(()).ok_or(failures)
}

#[test]
fn every_test_of_the_corpus_passes() {
    let tests = corpus();
    assert!(!tests.is_empty(), "no test found");
    let failures: Vec<String> = tests
        .iter()
        .filter_map(|path| {
            run(path)
                .err()
                .map(|error| format!("{}: {error}", path.display()))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_wrong_expectation_fails() {
    let is_wanted = |path: &PathBuf| path.ends_with("recirculation.stf");
    let path = corpus().into_iter().find(is_wanted).unwrap();
    let program = || stf::program_beside(&path).unwrap();
    // One pass of the recirculating program: one clone to port 7.
    let passes = |line: &str| {
        let commands = format!("mirroring_add 5 7\npacket 2 00000000\n{line}");
        let outcome = stf::run(program(), &stf::parse(&commands).unwrap(), None);
        outcome.failures.is_empty()
    };
    assert!(passes("expect 7 02000100 $"), "what really leaves");
    assert!(!passes("expect 1 00"), "no frame on this port");
    assert!(!passes("no_packet"), "a frame that nobody expects");
    assert!(!passes(""), "a frame that nobody expects at the end");
    assert!(!passes("expect 7 02000101"), "other bytes");
    assert!(!passes("expect 7 020001 $"), "more bytes");
    assert!(!passes("add no_such_table f()"), "no such table");
}
