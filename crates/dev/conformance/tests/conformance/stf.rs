//! Runs every `testdata/{stf,realistic}/*.stf` with the program next to it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use testkit::repository::{files, root};

fn run(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let commands = stf::parse(&text).map_err(|error| error.to_string())?;
    let program = stf::program_beside(path).map_err(|error| error.to_string())?;
    let failures = stf::run(program, &commands, None).failures;
    let failures: String = failures.iter().map(ToString::to_string).collect();
    failures.is_empty().then_some(()).ok_or(failures)
}

/// Runs the tests of a folder on every core. Returns all failures, in the order of the files.
fn failures(folder: &str) -> Vec<String> {
    let tests = files(folder, "stf");
    assert!(!tests.is_empty(), "no test found in {folder}");
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(tests.iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let Some(path) = queue.lock().unwrap().next() else {
                        return;
                    };
                    if let Err(error) = run(path) {
                        let failure = format!("{}: {error}", path.display());
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    failures
}

#[test]
fn every_test_of_the_corpus_passes() {
    let failures = failures("testdata/stf");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_realistic_program_passes() {
    let failures = failures("testdata/realistic");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_table_of_contents_names_every_program_and_each_has_a_test() {
    let contents = std::fs::read_to_string(root().join("testdata/README.md")).unwrap();
    for folder in ["stf", "realistic"] {
        for program in files(&format!("testdata/{folder}"), "p4") {
            let name = program.file_name().unwrap().to_str().unwrap();
            assert!(
                contents.contains(&format!("]({folder}/{name})")),
                "testdata/README.md: no line for {folder}/{name}"
            );
            assert!(
                program.with_extension("stf").exists(),
                "no test beside {folder}/{name}"
            );
        }
    }
}

#[test]
fn a_wrong_expectation_fails() {
    let is_wanted = |path: &PathBuf| path.ends_with("recirculation.stf");
    let path = files("testdata/stf", "stf")
        .into_iter()
        .find(is_wanted)
        .unwrap();
    let program = || stf::program_beside(&path).unwrap();
    // In one pass, the recirculating program makes one clone, which leaves at port 7.
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
