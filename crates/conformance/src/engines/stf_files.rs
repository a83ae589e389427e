//! Runs the repository's packet tests on the native engine.

use std::path::{Path, PathBuf};

use dataplane::SwitchConfig;
use dataplane_jit::NativeOptions;

use super::{names_of, native};
use crate::compile::root;

/// Every STF file of the repository.
///
/// # Panics
/// The repository's folders cannot be read.
pub fn stf_files() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for folder in ["testdata/stf", "testdata/realistic"] {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder of the repository");
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.extend(files.filter(|path| path.extension().is_some_and(|it| it == "stf")));
    }
    paths.sort();
    paths
}

/// Runs a file with each set of options; returns the failures, one per line.
pub fn stf_failures(path: &Path, choices: &[NativeOptions]) -> Vec<String> {
    let file = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let commands = text.and_then(|text| stf::parse(&text).map_err(|error| error.to_string()));
    let program = stf::program_beside(path).map_err(|error| error.to_string());
    let (commands, program) = match (commands, program) {
        (Ok(commands), Ok(program)) => (commands, program),
        (Err(error), _) | (_, Err(error)) => return vec![format!("{file}: {error}")],
    };
    let mut failures = Vec::new();
    for options in choices {
        let told = names_of(*options);
        let make = native(*options);
        let mut loaded = make(SwitchConfig::default());
        loaded.set_program(program.clone());
        if let Some(whole) = loaded.interpreted().iter().find(|it| it.place == "program") {
            failures.push(format!("{file}: {told}: {}", whole.reason));
        }
        let switch = make(SwitchConfig::default());
        let (outcome, _) = stf::run_on(switch, program.clone(), &commands, None);
        let found = outcome.failures.into_iter();
        failures.extend(found.map(|failure| format!("{file}: {told}: {failure}")));
    }
    failures
}
