//! Runs packet tests on the native engine.

use std::path::{Path, PathBuf};

use dataplane::{Program, SwitchConfig};
use dataplane_jit::NativeOptions;
use testkit::repository::files;

use super::{names_of, native};

/// Returns every STF file of the repository.
///
/// # Panics
/// The repository's folders cannot be read.
pub fn stf_files() -> Vec<PathBuf> {
    let mut paths = files("testdata/realistic", "stf");
    paths.extend(files("testdata/stf", "stf"));
    paths
}

/// Runs an STF file on the program next to it, like [`native_failures`].
pub fn stf_failures(path: &Path, choices: &[NativeOptions]) -> Vec<String> {
    match stf::program_beside(path) {
        Ok(program) => native_failures(&program, path, choices),
        Err(error) => vec![format!("{}: {error}", path.display())],
    }
}

/// Runs an STF file on a program with each choice of optimisations. Returns the failures, one per line.
pub fn native_failures(program: &Program, path: &Path, choices: &[NativeOptions]) -> Vec<String> {
    let file = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let commands = text.and_then(|text| stf::parse(&text).map_err(|error| error.to_string()));
    let commands = match commands {
        Ok(commands) => commands,
        Err(error) => return vec![format!("{file}: {error}")],
    };
    let mut failures = Vec::new();
    for options in choices {
        let names = names_of(*options);
        let make = native(*options);
        let mut loaded = make(SwitchConfig::default());
        loaded.set_program(program.clone());
        if let Some(whole) = loaded.interpreted().iter().find(|it| it.place == "program") {
            failures.push(format!("{file}: {names}: {}", whole.reason));
        }
        let switch = make(SwitchConfig::default());
        let (outcome, _) = stf::run_on(switch, program.clone(), &commands, None);
        let found = outcome.failures.into_iter();
        failures.extend(found.map(|failure| format!("{file}: {names}: {failure}")));
    }
    failures
}
