//! Every `testdata/stf/*.stf` with the program beside it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect, and tells one story"
)]

use std::path::{Path, PathBuf};

use conformance::stf;

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
    let commands = stf::parse(&text)?;
    let program = stf::program_beside(path)?;
    stf::run(program, &commands)
        .map_err(|failure| format!("line {}: {}", failure.line, failure.message))
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
    let with = |line: &str| {
        let commands = format!("mirroring_add 5 7\npacket 2 00000000\n{line}");
        stf::run(program(), &stf::parse(&commands).unwrap())
    };
    assert!(with("expect 7 02000100 $").is_ok(), "what really leaves");
    assert!(with("expect 1 00").is_err(), "no frame on this port");
    assert!(with("no_packet").is_err(), "a frame that nobody expects");
    assert!(with("").is_err(), "a frame that nobody expects at the end");
    assert!(with("expect 7 02000101").is_err(), "other bytes");
    assert!(with("expect 7 020001 $").is_err(), "more bytes");
    assert!(with("add no_such_table f()").is_err(), "no such table");
}
