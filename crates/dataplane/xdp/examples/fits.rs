//! Prints which programs fit into the kernel, and why others do not: `fits [--stf] [FOLDER]...`, as root.
//!
//! Some constructs of a program cannot be compiled. Such a construct is punted: packets that reach the construct are
//! left to the engine in user space. A program fits whole if none of its constructs is punted, and in part if some are.
//! A program does not fit if nothing of it can run in the kernel or if the verifier refuses it. With `--stf` only
//! programs with an STF test beside them count. The test's frames then also go through the kernel, and a program does
//! not fit if all these frames are punted. If the kernel treats a frame differently from the interpreter, `fits` prints
//! the difference and exits with code 1.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it stops at what it did not expect"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use dataplane::engine::Interpreted;
use testkit::repository::files;
use testkit::xdp::kernel::Kernel;
use testkit::xdp::packets::{self, Class};
use testkit::xdp::program_at;

/// Returns the description of a punted construct without the construct's name, so that constructs can be counted by
/// kind.
fn kind(place: &str) -> &str {
    place.split(" \"").next().unwrap_or(place)
}

fn in_words(left: &[Interpreted]) -> String {
    let left = left.iter();
    let left = left.map(|left| format!("{}: {}", left.place, left.reason));
    left.collect::<Vec<_>>().join("; ")
}

/// Totals over the programs of all folders.
#[derive(Default)]
struct Found {
    /// For each pair of a kind of punted construct and a reason for the punt, the number of programs that have this
    /// pair.
    reasons: BTreeMap<(String, String), usize>,
    /// For each reason, the number of programs that have no other reason for punts.
    only: BTreeMap<String, usize>,
    refusals: BTreeMap<String, usize>,
    tests: BTreeMap<Class, usize>,
    n_frames: usize,
    n_kernel: usize,
    n_copies: usize,
    differences: Vec<String>,
}

/// How much of a program fits.
enum Fit {
    Whole,
    Part,
    Not,
}

impl Found {
    fn left(&mut self, left: &[Interpreted]) -> Fit {
        let named: BTreeSet<(String, String)> = left
            .iter()
            .map(|left| (kind(&left.place).to_owned(), left.reason.clone()))
            .collect();
        let reasons: BTreeSet<&String> = named.iter().map(|(_, reason)| reason).collect();
        if let [reason] = reasons.into_iter().collect::<Vec<_>>()[..] {
            *self.only.entry(reason.clone()).or_default() += 1;
        }
        let fit = if named.is_empty() {
            Fit::Whole
        } else {
            Fit::Part
        };
        for reason in named {
            *self.reasons.entry(reason).or_default() += 1;
        }
        fit
    }

    fn refused(&mut self, reason: String) -> Fit {
        *self.refusals.entry(reason).or_default() += 1;
        Fit::Not
    }

    /// Returns how much of a program fits, judged by its punted constructs; `None` if the file is skipped.
    fn program(&mut self, path: &Path) -> Option<Fit> {
        // Some files are not programs of their own, because other files include them. They are skipped.
        let program = program_at(path).ok()?;
        Some(match Kernel::new(&program) {
            Ok(kernel) => {
                println!("{}: {}", path.display(), in_words(&kernel.image.left));
                self.left(&kernel.image.left)
            }
            Err(reason) => self.refused(reason),
        })
    }

    /// Returns how much of a program fits, judged by its punted constructs and by whether all frames of its STF test
    /// are punted; `None` if the file or its test is skipped.
    fn test(&mut self, path: &Path) -> Option<Fit> {
        program_at(path).ok()?;
        let name = path.display();
        let report = match packets::run(&path.with_extension("stf")) {
            Ok(report) => report,
            Err(error) => {
                println!("{name}: {}", error.trim());
                return None;
            }
        };
        let class = Class::of(&report);
        *self.tests.entry(class).or_default() += 1;
        self.n_frames += report.n_frames;
        self.n_kernel += report.n_kernel;
        self.n_copies += report.n_copies;
        for difference in &report.differences {
            self.differences.push(format!("{name}: {difference}"));
        }
        println!("{name}: {}; {}", class.name(), in_words(&report.left));
        if let Some(reason) = report.refused {
            return Some(self.refused(reason));
        }
        let fit = self.left(&report.left);
        Some(match class {
            Class::AllPunted => Fit::Not,
            _ => fit,
        })
    }
}

fn main() -> ExitCode {
    let mut given: Vec<String> = std::env::args().skip(1).collect();
    let with_tests = given.iter().any(|it| it == "--stf");
    given.retain(|it| it != "--stf");
    let folders = if given.is_empty() {
        ["p4", "p4/bench", "testdata/realistic", "testdata/stf"]
            .map(str::to_owned)
            .to_vec()
    } else {
        given
    };
    let mut found = Found::default();
    let mut lines = Vec::new();
    for folder in folders {
        let [mut whole, mut part, mut not] = [0; 3];
        for path in files(&folder, "p4") {
            let fit = match with_tests {
                true if !path.with_extension("stf").exists() => None,
                true => found.test(&path),
                false => found.program(&path),
            };
            match fit {
                Some(Fit::Whole) => whole += 1,
                Some(Fit::Part) => part += 1,
                Some(Fit::Not) => not += 1,
                None => {}
            }
        }
        let n = whole + part + not;
        lines.push(format!("| `{folder}` | {n} | {whole} | {part} | {not} |"));
    }
    println!("| folder | programs | whole | in part | not |\n|---|---:|---:|---:|---:|");
    lines.iter().for_each(|line| println!("{line}"));
    print(&found, with_tests)
}

fn print(found: &Found, with_tests: bool) -> ExitCode {
    println!("\n| programs | what is left | why |\n|---:|---|---|");
    let mut reasons: Vec<_> = found.reasons.iter().collect();
    reasons.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    for ((place, reason), n) in reasons {
        println!("| {n} | {place} | {reason} |");
    }
    for (reason, n) in &found.refusals {
        println!("| {n} | all | {reason} |");
    }
    println!("\n| programs | the only reason |\n|---:|---|");
    let mut only: Vec<_> = found.only.iter().collect();
    only.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    for (reason, n) in only {
        println!("| {n} | {reason} |");
    }
    if with_tests {
        let tests = found.tests.iter();
        let tests: Vec<String> = tests
            .map(|(class, n)| format!("{n} {}", class.name()))
            .collect();
        println!(
            "\ntests: {}; {} of {} frames in the kernel, {} copies; {} differences",
            tests.join(", "),
            found.n_kernel,
            found.n_frames,
            found.n_copies,
            found.differences.len()
        );
    }
    for difference in &found.differences {
        println!("{difference}");
    }
    if found.differences.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
