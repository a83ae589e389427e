//! Loads programs from files.

use std::path::{Path, PathBuf};

use command_line::files::{self, Unreadable};
use dataplane::{LoadError, Program};
use p4_compiler::{Diagnostic, Options, Severity, SourceProvider, limits};
use thiserror::Error;

/// How messages describe a P4 file.
pub const P4_SOURCE: &str = "a P4 source file";
/// Maximum size of a program file. For comparison, JSON with 100,000 entries has 60 million bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, Error)]
pub enum ProgramError {
    #[error("{path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: not compiled, {}", summary(.diagnostics))]
    Compile {
        path: PathBuf,
        diagnostics: Vec<Diagnostic>,
    },
    #[error("{path}: {source}")]
    Load { path: PathBuf, source: LoadError },
}

fn summary(diagnostics: &[Diagnostic]) -> String {
    let mut errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error);
    errors.next().map_or_else(String::new, |first| {
        let Diagnostic {
            line,
            column,
            code,
            message,
            ..
        } = first;
        format!("{line}:{column}: {code}: {message}")
    })
}

/// Reads the files that a program includes, by their paths.
pub struct SourceFiles;

impl SourceProvider for SourceFiles {
    fn load(&self, path: &str) -> Option<String> {
        files::read_included(Path::new(path), limits::SOURCE_BYTES).ok()
    }

    fn unusable(&self, path: &str) -> Option<String> {
        match files::read_included(Path::new(path), limits::SOURCE_BYTES) {
            Err(Unreadable::Missing) | Ok(_) => None,
            Err(folder @ Unreadable::Directory) => Some(format!("{folder}, expected {P4_SOURCE}")),
            Err(other) => Some(other.to_string()),
        }
    }
}

/// Reads and loads BMv2 JSON (`.json`), or compiles and loads P4 source.
///
/// # Errors
/// The file cannot be read, compiled or loaded.
pub fn load(path: &Path, options: &Options) -> Result<Program, ProgramError> {
    let bytes = whole_file::read(path, FILE_BYTES_MAX);
    let text = bytes.and_then(whole_file::text);
    let text = text.map_err(|source| ProgramError::Read {
        path: path.into(),
        source,
    })?;
    let loaded = if path
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        Program::from_json_str(&text)
    } else {
        Program::from_json_str(&compile(path, &text, options)?)
    };
    loaded.map_err(|source| ProgramError::Load {
        path: path.into(),
        source,
    })
}

/// Compiles a program. Returns the JSON as text, so that it is parsed as a switch would parse it.
fn compile(path: &Path, text: &str, options: &Options) -> Result<String, ProgramError> {
    let name = path.display().to_string();
    let output = p4_compiler::compile(&name, text, &SourceFiles, options);
    let json = output.bmv2_json.and_then(|json| json.to_json().ok());
    json.ok_or_else(|| ProgramError::Compile {
        path: path.into(),
        diagnostics: output.diagnostics,
    })
}

/// Loads the program next to a test: compiles the `.p4` file, or loads the `.json` file if there is no `.p4` file.
///
/// # Errors
/// As [`load`].
pub fn program_beside(stf: &Path) -> Result<Program, ProgramError> {
    let p4 = stf.with_extension("p4");
    let path = if p4.exists() {
        p4
    } else {
        stf.with_extension("json")
    };
    load(&path, &Options::default())
}
