//! Tests that the native engine agrees with the interpreter on random frames, entries and control calls, and on
//! conferences that the real controller sets up, with viewers who join and leave. Every STF file passes on the native
//! engine. Each test of the native engine runs with no optimisations, with all optimisations, and with one choice of
//! optimisations that changes from case to case.

use std::path::Path;
use std::sync::Mutex;

use conformance::{
    compile::program_at,
    engines::{
        Case, Script, choices, conference, names_of, native, programs, stf_failures, stf_files,
    },
    sfu::SfuProgram,
};
use dataplane::{Program, Switch};
use dataplane_jit::NativeOptions;
use testkit::repository::root;

const SEED: u64 = 0x0e49_2026;
const FRAMES: usize = 60;
const CASES: u64 = 2;
/// The number of conferences per SFU program. `CONFERENCE_FRAMES` is the number of frames per conference.
const CONFERENCES: u64 = 3;
const CONFERENCE_FRAMES: usize = 400;

fn load(path: &Path) -> Result<Program, String> {
    let program = stf::load(path, &p4_compiler::Options::default());
    program.map_err(|error| error.to_string())
}

/// Runs a check for each item, on all cores. Returns the failures in the order of the items.
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

/// Returns three choices: no optimisations, all optimisations, and a choice that depends on the number.
fn three_choices(number: usize) -> [NativeOptions; 3] {
    let choices = choices();
    let own = choices[number % choices.len()];
    [NativeOptions::NAIVE, NativeOptions::ALL, own]
}

/// Compares the interpreter with native engines, one for each choice. Returns the first difference.
fn different(case: &Case, program: &Program, choices: [NativeOptions; 3]) -> Option<String> {
    let [one, two, three] = choices.map(native);
    let compared = case.compare_each(program, &Switch::new, &[&one, &two, &three]);
    let difference = compared.err()?;
    let names = names_of(choices[difference.engine]);
    Some(format!("{names}: {}", difference.description))
}

#[test]
fn every_stf_file_passes_on_the_native_engine() {
    let files = stf_files();
    assert!(files.len() > 60, "only {} files", files.len());
    let failures = failures(&files, |position, path| {
        let failures = stf_failures(path, &three_choices(position));
        (!failures.is_empty()).then(|| failures.join("\n"))
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn conferences_whose_viewers_join_and_leave_get_the_same_from_the_native_engine() {
    let scripts: Vec<(SfuProgram, u64)> = SfuProgram::ALL
        .into_iter()
        .flat_map(|program| (0..CONFERENCES).map(move |number| (program, SEED + number)))
        .collect();
    let failures = failures(&scripts, |position, (of, seed)| {
        let program = program_at(of.path());
        let script = Script::record(*of, *seed);
        let case = conference(&program, &script, *seed, CONFERENCE_FRAMES);
        let difference = different(&case, &program, three_choices(position))?;
        Some(format!("{of:?}: seed {seed:#x}: {difference}"))
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn random_traffic_gets_the_same_from_the_native_engine() {
    let programs = programs();
    assert!(programs.len() > 60, "only {} programs", programs.len());
    let failures = failures(&programs, |position, path| {
        let program = match load(path) {
            Ok(program) => program,
            Err(error) => return Some(error),
        };
        (0..CASES).find_map(|number| {
            let case = Case::random(&program, SEED + number, FRAMES);
            let own = position * CASES as usize + number as usize;
            let difference = different(&case, &program, three_choices(own))?;
            let (path, seed) = (path.display(), SEED + number);
            Some(format!("{path}: seed {seed:#x}: {difference}"))
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
    // This program stands for an engine that adds wrongly.
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
