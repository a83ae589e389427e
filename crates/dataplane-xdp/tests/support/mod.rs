//! Programs in the kernel, run over given frames by `BPF_PROG_TEST_RUN` and compared with the
//! interpreter.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect, and uses what it needs"
)]

pub mod checked;
pub mod counts;
pub mod kernel;
pub mod packets;
pub mod sfu;

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a folder with an extension, in order.
pub fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

/// Compiles and loads a P4 program.
pub fn program_at(path: &Path) -> Result<dataplane::Program, String> {
    stf::load(path, &p4_compiler::Options::default()).map_err(|error| error.to_string())
}
