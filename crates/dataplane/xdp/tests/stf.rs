//! Runs every STF test of the repository, and also sends its frames through the kernel.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::collections::BTreeMap;

use dataplane::{PortId, Program, SwitchConfig};
use serde_json::json;
use testkit::repository::{files, root};
use testkit::xdp::{checked, packets};

fn compare(folder: &str) {
    let filter = std::env::var("STF").unwrap_or_default();
    let tests = files(folder, "stf").into_iter();
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

/// p4c does not compile a program whose egress requests a digest. simple_switch loads such a program, but sends only
/// the digests that ingress requests.
#[test]
fn a_digest_that_egress_asks_for_is_not_made() {
    let folder = root().join("testdata/stf");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
    let (name, options) = ("digest_moments.p4", p4_compiler::Options::default());
    let output = p4_compiler::compile(name, &read(name).unwrap(), &read, &options);
    let mut json = serde_json::to_value(output.bmv2_json.unwrap()).unwrap();
    let mut pipelines = json["pipelines"].as_array().unwrap().iter();
    let egress = pipelines.find(|it| it["name"] == "egress").unwrap();
    let action = egress["action_calls"][0]["action_id"].clone();
    let mut actions = json["actions"].as_array_mut().unwrap().iter_mut();
    let action = actions.find(|it| it["id"] == action).unwrap();
    let one = json!({"type": "hexstr", "value": "0x1"});
    let asks = json!({"op": "generate_digest", "parameters": [one.clone(), one]});
    action["primitives"].as_array_mut().unwrap().push(asks);
    let program = Program::from_json_str(&json.to_string()).unwrap();
    let (mut switch, report) = checked::checked_switch(SwitchConfig::default());
    switch.add_port(PortId(0));
    switch.set_program(program);
    for (asks, n_digests) in [(0, 0), (1, 1)] {
        switch.handle_frame(0, PortId(0), &[asks; 15]);
        assert!(switch.poll_transmit(0).is_some());
        let seen = report.lock().unwrap().clone();
        assert_eq!(seen.differences, [""; 0]);
        assert_eq!(seen.n_digests, n_digests);
    }
    assert_eq!(report.lock().unwrap().n_kernel, 2);
}
