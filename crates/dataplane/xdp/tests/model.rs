//! Tests random tables and random programs against a model of P4_16 in Python (`tests/model`), which knows nothing of
//! this repository's code: every engine (the interpreter and the kernel among them) must do what the model says.
//!
//! The environment variables `TABLES` and `PROGRAMS` say how many random tables and programs are made, and `SEED` says
//! from which seed they are made. If an engine fails on a program, the program is kept below `target`, together with
//! the packet test that shows the failure. This command runs the test again: `reprise stf FILE.p4 FILE.stf`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use conformance::engines::{choices, stf_failures};
use testkit::repository::{files, root};
use testkit::xdp::packets::{self, Class};

/// The most failures that are shown.
const SHOWN_MAX: usize = 10;

/// The results of all programs that have run so far.
#[derive(Default)]
struct Seen {
    n_programs: AtomicUsize,
    n_frames: AtomicUsize,
    n_kernel: AtomicUsize,
    n_refused: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |given| given.parse().unwrap())
}

/// Has the model write programs of one kind, with their tests, into a folder of their own.
fn folder(what: &str, n: u64, seed: u64) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("model-{what}-{}", std::process::id()));
    let made = Command::new("python3")
        .current_dir(root())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-m", "tests.model", "--out"])
        .arg(&folder)
        .args([format!("--{what}={n}"), format!("--seed={seed}")])
        .status()
        .unwrap();
    assert!(made.success(), "the model ended with {made}");
    folder
}

/// Runs a packet test on every engine. Deletes the files of a test that passes.
fn judge(path: &Path, seen: &Seen) {
    let mut failures = Vec::new();
    match packets::run(path) {
        Err(error) => failures.push(format!("interpreter: {error}")),
        Ok(report) => {
            seen.n_frames.fetch_add(report.n_frames, Ordering::Relaxed);
            seen.n_kernel.fetch_add(report.n_kernel, Ordering::Relaxed);
            if Class::of(&report) == Class::Refused {
                seen.n_refused.fetch_add(1, Ordering::Relaxed);
            }
            // The compiler may refuse the program, but if the verifier refuses it, that is a defect.
            let refused = report.refused.iter();
            let refused = refused.filter(|reason| !reason.starts_with("refused: "));
            let found = report.differences.iter().chain(refused);
            failures.extend(found.map(|difference| format!("kernel: {difference}")));
            // Also run the test without any optimisation, and with all optimisations.
            failures.extend(stf_failures(path, &choices()[..2]));
        }
    }
    seen.n_programs.fetch_add(1, Ordering::Relaxed);
    if failures.is_empty() {
        for extension in ["p4", "stf"] {
            std::fs::remove_file(path.with_extension(extension)).unwrap();
        }
        return;
    }
    let failures = failures.into_iter().map(|failure| {
        let lines: Vec<&str> = failure.lines().take(4).collect();
        format!("{}: {}", path.display(), lines.join("\n    "))
    });
    seen.failures.lock().unwrap().extend(failures);
}

fn agree(what: &str, otherwise: u64) {
    let (n, seed) = (number(&what.to_uppercase(), otherwise), number("SEED", 1));
    let folder = folder(what, n, seed);
    let tests = files(folder.to_str().unwrap(), "stf");
    let (queue, seen) = (Mutex::new(tests.iter()), Seen::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(path) = { queue.lock().unwrap().next() } {
                    judge(path, &seen);
                }
            });
        }
    });
    let failures = seen.failures.into_inner().unwrap();
    println!(
        "{n} {what}, seed {seed}: {} programs, {} frames, {} of them in the kernel, {} programs refused there; {} differences",
        seen.n_programs.into_inner(),
        seen.n_frames.into_inner(),
        seen.n_kernel.into_inner(),
        seen.n_refused.into_inner(),
        failures.len()
    );
    if failures.is_empty() {
        std::fs::remove_dir(&folder).unwrap();
    }
    let shown: Vec<&str> = failures
        .iter()
        .take(SHOWN_MAX)
        .map(String::as_str)
        .collect();
    assert!(
        failures.is_empty(),
        "{} differences with SEED={seed} {}={n}\n{}",
        failures.len(),
        what.to_uppercase(),
        shown.join("\n")
    );
}

#[test]
fn random_tables_do_what_the_specification_says() {
    agree("tables", 400);
}

#[test]
fn random_programs_do_what_the_specification_says() {
    agree("programs", 240);
}
