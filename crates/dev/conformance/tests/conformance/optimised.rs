//! Tests that unoptimised and optimised JSON do the same for random packets and entries, with each pass of the
//! optimiser alone and with all passes.
//!
//! The test compares frames in their order, packet-ins, digests, drops by reason, port counters, hits and misses of the
//! program's tables, entries with their counters, registers and counters. If there is a difference, the test leaves out
//! the packets and entries without which the difference still occurs.
//!
//! With `AGREEMENT_PROGRAMS=FOLDER` (a path from the repository's root) the test uses the P4 programs and BMv2 JSON
//! files of that folder instead of the repository's, for example p4c's `testdata/p4_16_samples` or p4c's output for
//! these samples.

use std::path::{Path, PathBuf};

use crate::agreement::{Case, Subject};
use bmv2_json::Value;
use p4_compiler::optimise::{Pass, optimise};
use testkit::repository::{files, root};

const SEED: u64 = 0x0971_2026;
/// Number of packets for each program and choice of passes.
const PACKETS: usize = 40;
/// Number of random setups per program. For more setups of the whole corpus, the interpreter in a debug build is too
/// slow.
const SETUPS: u64 = 2;

/// Returns the folder of other programs than the repository's, if the user has named one.
fn elsewhere() -> Option<String> {
    std::env::var("AGREEMENT_PROGRAMS").ok()
}

fn corpus() -> Vec<PathBuf> {
    let mut paths = match elsewhere() {
        Some(folder) => [files(&folder, "p4"), files(&folder, "json")].concat(),
        None => ["testdata/compiler/ok", "testdata/stf", "p4"]
            .iter()
            .flat_map(|folder| files(folder, "p4"))
            .collect(),
    };
    paths.sort();
    paths
}

/// Returns a program before optimisation, and its P4Info. For a JSON file there is no P4Info.
fn unoptimised(path: &Path) -> Option<(bmv2_json::Program, Option<p4_compiler::P4Info>)> {
    let text = std::fs::read_to_string(path).unwrap();
    if path.extension().is_some_and(|it| it == "json") {
        return Some((serde_json::from_str(&text).ok()?, None));
    }
    let load = |path: &str| std::fs::read_to_string(path).ok();
    let options = p4_compiler::Options {
        optimise: false,
        ..p4_compiler::Options::default()
    };
    let output = p4_compiler::compile(&path.display().to_string(), &text, &load, &options);
    Some((output.bmv2_json?, Some(output.p4info?)))
}

fn choices() -> Vec<(String, Vec<Pass>)> {
    let mut choices: Vec<(String, Vec<Pass>)> = Pass::ALL
        .iter()
        .map(|pass| (pass.name().to_owned(), vec![*pass]))
        .collect();
    choices.push(("all".to_owned(), Pass::ALL.to_vec()));
    choices
}

#[test]
fn optimised_programs_do_the_same() {
    let (mut n_programs, mut n_compared, mut n_sent) = (0, 0, 0);
    let mut failures = Vec::new();
    for path in corpus() {
        let Some((json, p4info)) = unoptimised(&path) else {
            continue;
        };
        let Ok(plain) = Subject::new(&json) else {
            continue;
        };
        n_programs += 1;
        for (name, passes) in choices() {
            let mut changed = json.clone();
            optimise(&mut changed, p4info.as_ref(), &passes);
            if changed == json {
                continue;
            }
            let other = match Subject::new(&changed) {
                Ok(other) => other,
                Err(error) => {
                    failures.push(format!("{}: {name}: {error}", path.display()));
                    continue;
                }
            };
            for setup in 0..SETUPS {
                let case = Case::random(SEED + setup, &plain, PACKETS);
                n_compared += 1;
                n_sent += case.packets.len();
                if let Some(difference) = case.shrunk(&plain, &other) {
                    failures.push(format!(
                        "{}: {name}, seed {:#x}: {difference}",
                        path.display(),
                        SEED + setup
                    ));
                }
            }
        }
    }
    println!("{n_programs} programs, {n_compared} comparisons, {n_sent} packets, seed {SEED:#x}");
    if elsewhere().is_none() {
        assert!(n_programs >= 150, "only {n_programs} programs");
        assert!(n_compared >= 600, "only {n_compared} comparisons");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_wrong_pass_is_found() {
    let path = root().join("testdata/stf/compound_assignment_operators.p4");
    let (json, _) = unoptimised(&path).unwrap();
    let plain = Subject::new(&json).unwrap();
    let case = Case::random(SEED, &plain, PACKETS);
    assert_eq!(case.shrunk(&plain, &plain), None);
    // This stands for a wrong pass: every assignment of an action assigns 1.
    let mut wrong = json;
    for action in &mut wrong.actions {
        for primitive in &mut action.primitives {
            if primitive.op == "assign" {
                primitive.parameters[1] = Value::Hexstr("0x01".to_owned());
            }
        }
    }
    let wrong = Subject::new(&wrong).unwrap();
    let difference = case.shrunk(&plain, &wrong).expect("a difference");
    assert!(difference.contains("packet"), "{difference}");
}
