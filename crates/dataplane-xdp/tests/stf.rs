//! Every STF test of the repository, its frames through the kernel too.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod support;

use std::collections::BTreeMap;

use support::packets;

fn compare(folder: &str) {
    let filter = std::env::var("STF").unwrap_or_default();
    let tests = support::files(folder, "stf").into_iter();
    let tests: Vec<_> = tests
        .filter(|path| path.to_str().unwrap().contains(&filter))
        .collect();
    assert!(!tests.is_empty(), "no test found in {folder}");
    let mut failures = Vec::new();
    let (mut n_frames, mut n_kernel, mut n_copies) = (0, 0, 0);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for path in tests {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let report = match packets::run(&path) {
            Ok(report) => report,
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        n_frames += report.n_frames;
        n_kernel += report.n_kernel;
        n_copies += report.n_copies;
        for left in &report.left {
            *reasons.entry(left.reason.clone()).or_default() += 1;
        }
        let class = packets::Class::of(&report).name();
        *classes.entry(class).or_default() += 1;
        println!(
            "{name}: {class}, {} of {} frames, {} copies, left {}",
            report.n_kernel,
            report.n_frames,
            report.n_copies,
            report.left.len()
        );
        if let Some(reason) = &report.refused {
            println!("    refused: {reason}");
            if !reason.starts_with("refused: ") {
                failures.push(format!("{name}: {reason}"));
            }
        }
        for left in &report.left {
            println!("    {}: {}", left.place, left.reason);
        }
        if let Some(first) = report.differences.first() {
            failures.push(format!(
                "{name}: {} differences, {first}",
                report.differences.len()
            ));
        }
    }
    println!("{classes:?}; {n_kernel} of {n_frames} frames, {n_copies} copies");
    for (reason, n) in reasons {
        println!("{n:5} {reason}");
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn the_kernel_agrees_on_every_realistic_program() {
    compare("testdata/realistic");
}

#[test]
fn the_kernel_agrees_on_the_corpus() {
    compare("testdata/stf");
}
