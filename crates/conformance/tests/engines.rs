//! Engines agree: random frames, entries and control calls give the same from every engine, in
//! every choice of its optimisations; every STF file passes on each.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use conformance::{
    compile::root,
    engines::{Case, choices, native, programs},
};
use dataplane::{Program, Switch, SwitchConfig};
use dataplane_jit::NativeOptions;

const SEED: u64 = 0x0e49_2026;
/// Frames of one case.
const FRAMES: usize = 60;
/// Cases of each program.
const CASES: u64 = 2;

fn load(path: &Path) -> Result<Program, String> {
    let program = stf::load(path, &p4_compiler::Options::default());
    program.map_err(|error| error.to_string())
}

/// Does something for each of a list on every core; what went wrong, in order.
fn failures<T: Sync>(list: &[T], run: impl Fn(usize, &T) -> Option<String> + Sync) -> Vec<String> {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(list.iter().enumerate());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let Some((position, item)) = queue.lock().unwrap().next() else {
                        return;
                    };
                    if let Some(failure) = run(position, item) {
                        failures.lock().unwrap().push((position, failure));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    failures.into_iter().map(|(_, failure)| failure).collect()
}

fn stf_files() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for folder in ["testdata/stf", "testdata/realistic"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|it| it == "stf")));
    }
    paths.sort();
    paths
}

#[test]
fn every_stf_file_passes_on_the_native_engine() {
    let files = stf_files();
    assert!(files.len() > 60, "only {} files", files.len());
    let failures = failures(&files, |_, path| {
        let commands = stf::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        let program = match stf::program_beside(path) {
            Ok(program) => program,
            Err(error) => return Some(error.to_string()),
        };
        let mut failed = String::new();
        for options in [NativeOptions::NAIVE, NativeOptions::ALL] {
            let mut loaded = native(options)(SwitchConfig::default());
            loaded.set_program(program.clone());
            if let Some(whole) = loaded.interpreted().iter().find(|it| it.place == "program") {
                failed += &format!("{}: {}\n", path.display(), whole.reason);
            }
            let switch = native(options)(SwitchConfig::default());
            let (outcome, _) = stf::run_on(switch, program.clone(), &commands, None);
            for failure in outcome.failures {
                failed += &format!("{}: {options:?}: {failure}\n", path.display());
            }
        }
        (!failed.is_empty()).then_some(failed)
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn random_traffic_gets_the_same_from_the_native_engine() {
    let programs = programs();
    let choices = choices();
    assert!(programs.len() > 60, "only {} programs", programs.len());
    let failures = failures(&programs, |position, path| {
        let program = match load(path) {
            Ok(program) => program,
            Err(error) => return Some(error),
        };
        (0..CASES).find_map(|number| {
            let case = Case::random(&program, SEED + number, FRAMES);
            // Each program with everything and with nothing, and with one choice of its own.
            let own = choices[(position * CASES as usize + number as usize) % choices.len()];
            [NativeOptions::NAIVE, NativeOptions::ALL, own]
                .into_iter()
                .find_map(|options| {
                    let difference = case.compare(&program, &Switch::new, &native(options))?;
                    let seed = SEED + number;
                    Some(format!(
                        "{}: {options:?}, seed {seed:#x}: {difference}",
                        path.display()
                    ))
                })
        })
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_wrong_engine_is_found_and_the_case_shrunk() {
    let path = root().join("testdata/stf/compound_assignment_operators.p4");
    let text = std::fs::read_to_string(&path).unwrap();
    let json = conformance::compile::bmv2_json(&path, &text).unwrap();
    let program = Program::from_json_str(&json).unwrap();
    // An engine that loses an addition.
    let wrong = json.replacen("\"+\"", "\"-\"", 1);
    assert_ne!(json, wrong);
    let wrong = Program::from_json_str(&wrong).unwrap();
    let case = Case::random(&program, SEED, FRAMES);
    let makes: [conformance::engines::Make<'_>; 2] = [&Switch::new, &Switch::new];
    assert_eq!(case.compare_programs([&program, &program], makes), None);
    let difference = case.compare_programs([&program, &wrong], makes);
    let difference = difference.expect("a difference");
    let n_packets = difference.matches("packet ").count();
    assert!(n_packets <= 2, "{difference}");
}
