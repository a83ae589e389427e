//! Finds and compiles the P4 programs of this repository.

use std::path::{Path, PathBuf};

use dataplane::Program;
use p4_compiler::Options;
use testkit::repository::files;

/// The programs of a folder below the repository's root, in order.
pub fn programs(folder: &str) -> Vec<PathBuf> {
    files(folder, "p4")
}

/// Compiles a program; `None` if the compiler refuses it.
pub fn load(path: &Path) -> Option<Program> {
    let provider = |name: &str| std::fs::read_to_string(name).ok();
    let text = std::fs::read_to_string(path).ok()?;
    let name = path.display().to_string();
    let output = p4_compiler::compile(&name, &text, &provider, &Options::default());
    Some(Program::from_json(&output.bmv2_json?).expect("the compiler's JSON can be loaded"))
}
