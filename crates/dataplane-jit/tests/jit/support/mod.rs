//! The project's own programs, for tests and for the example that measures compiling.

use std::path::{Path, PathBuf};

use dataplane::Program;
use p4_compiler::Options;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The programs of a folder below the repository's root, in order.
pub fn programs(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder of the repository");
    let mut paths: Vec<PathBuf> = entries.filter_map(|it| Some(it.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "p4"));
    paths.sort();
    paths
}

/// A program, where the compiler takes it.
pub fn load(path: &Path) -> Option<Program> {
    let provider = |name: &str| std::fs::read_to_string(name).ok();
    let options = Options {
        include_dirs: vec![root().join("p4/include").display().to_string()],
        ..Options::default()
    };
    let text = std::fs::read_to_string(path).ok()?;
    let output = p4_compiler::compile(&path.display().to_string(), &text, &provider, &options);
    Some(Program::from_json(&output.bmv2_json?).expect("the compiler's JSON can be loaded"))
}
