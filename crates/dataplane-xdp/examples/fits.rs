//! Which programs fit into the kernel, and why the others do not: `fits [FOLDER]...`, as root.
//!
//! A program fits whole if nothing of it is left to the engine, in part if something is, and not if nothing
//! of it can run or the verifier refuses it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it stops at what it did not expect"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use support::{files, kernel::Kernel, program_at};

/// The places of a reason without their names, so that they can be counted.
fn kind(place: &str) -> &str {
    place.split(" \"").next().unwrap_or(place)
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let folders = match given.is_empty() {
        true => ["p4", "p4/bench", "testdata/realistic", "testdata/stf"]
            .map(str::to_owned)
            .to_vec(),
        false => given,
    };
    println!("| folder | programs | whole | in part | not |\n|---|---:|---:|---:|---:|");
    let mut reasons: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    for folder in folders {
        let [mut whole, mut part, mut not] = [0; 3];
        for path in files(&folder, "p4") {
            // Pieces that are included are no programs.
            let Ok(program) = program_at(&path) else {
                continue;
            };
            match Kernel::new(&program) {
                Ok(kernel) if kernel.image.left.is_empty() => whole += 1,
                Ok(kernel) => {
                    part += 1;
                    let mut of_program: Vec<(String, String)> = kernel
                        .image
                        .left
                        .iter()
                        .map(|left| (kind(&left.place).to_owned(), left.reason.clone()))
                        .collect();
                    of_program.sort();
                    of_program.dedup();
                    for reason in of_program {
                        *reasons.entry(reason).or_default() += 1;
                    }
                }
                Err(reason) => {
                    not += 1;
                    *refusals.entry(reason).or_default() += 1;
                }
            }
        }
        let n = whole + part + not;
        println!("| `{folder}` | {n} | {whole} | {part} | {not} |");
    }
    println!("\n| programs | what is left | why |\n|---:|---|---|");
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    for ((place, reason), n) in reasons {
        println!("| {n} | {place} | {reason} |");
    }
    for (reason, n) in refusals {
        println!("| {n} | all | {reason} |");
    }
}
