//! Loads the PROGRAM of the command line: P4 source, or BMv2 JSON with its P4Info.

use std::fmt;
use std::path::{Path, PathBuf};

use p4_compiler::{Diagnostic, Severity};
use p4runtime_proto::P4RuntimeVersion;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::WriteRequest;
use p4runtime_proto::text_format;
use prost::Message;
use serde_json::Value;

use crate::error::SwitchError;
use crate::options::{Options, UsageError};
use crate::parts::Parts;
use crate::say_lines;

/// Maximum bytes of a program, a P4Info or entries: a program's JSON with 100,000 entries has 60 million.
const FILE_BYTES_MAX: u64 = 1 << 30;

pub(crate) struct LoadedProgram {
    /// The file, for messages.
    pub(crate) path: PathBuf,
    /// BMv2 JSON.
    pub(crate) json: String,
    /// `None` for a .json program without `--p4info`.
    pub(crate) p4info: Option<P4Info>,
}

/// The program that forwards when the switch is ready, and its origin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InForce {
    Nothing,
    CommandLine(PathBuf),
    StateFile {
        /// The path of the P4 source, if the JSON has it.
        source: Option<String>,
        file: PathBuf,
    },
}

impl InForce {
    pub(crate) fn restored(json: &[u8], file: PathBuf) -> InForce {
        let json: Option<Value> = serde_json::from_slice(json).ok();
        let source = json.and_then(|json| Some(json.get("program")?.as_str()?.to_owned()));
        InForce::StateFile { source, file }
    }
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InForce::Nothing => f.write_str("none yet"),
            InForce::CommandLine(path) => write!(f, "{}", path.display()),
            InForce::StateFile { source, file } => {
                // Not every compiler writes the path.
                if let Some(source) = source {
                    write!(f, "{source} ")?;
                }
                write!(f, "of state file {}", file.display())
            }
        }
    }
}

/// Updates to apply at the start.
pub(crate) struct Entries {
    /// The file, for messages.
    pub(crate) path: PathBuf,
    pub(crate) request: WriteRequest,
}

/// Reads a .json program, or compiles a .p4 one.
pub(crate) fn load(
    path: &Path,
    options: &Options,
    parts: &Parts,
) -> Result<LoadedProgram, SwitchError> {
    let p4info = options.p4info.as_deref();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("p4") => compile(path, options, !parts.payload_externs.is_empty()),
        // BMv2's programs take a file of any name.
        extension if extension == Some("json") || options.bmv2.is_some() => Ok(LoadedProgram {
            path: path.to_owned(),
            json: read_text("read the program", path)?,
            p4info: p4info.map(read_p4info).transpose()?,
        }),
        _ => Err(SwitchError::ProgramKind {
            path: path.to_owned(),
        }),
    }
}

/// Refuses a misspelt folder, with which `#include` would find another file or none.
fn expect_folders(include: &[PathBuf]) -> Result<(), SwitchError> {
    match include.iter().find(|folder| !folder.is_dir()) {
        Some(folder) => Err(SwitchError::Usage(UsageError(format!(
            "--include {}: expected a folder, found none",
            folder.display()
        )))),
        None => Ok(()),
    }
}

/// Compiles a program, and prints the compiler's warnings.
fn compile(
    path: &Path,
    options: &Options,
    emit_externs: bool,
) -> Result<LoadedProgram, SwitchError> {
    expect_folders(&options.include)?;
    let text = read_text("read the program", path)?;
    let source = |path: &str| {
        let bytes = whole_file::read_regular(Path::new(path), p4_compiler::limits::SOURCE_BYTES);
        whole_file::text(bytes.ok()?).ok()
    };
    let p4runtime_version = P4RuntimeVersion::of_environment();
    let p4runtime_version = p4runtime_version.map_err(|message| SwitchError::Program {
        path: path.to_owned(),
        message,
    })?;
    let compiler_options = p4_compiler::Options {
        p4runtime_version,
        include_dirs: options
            .include
            .iter()
            .map(|folder| folder.display().to_string())
            .collect(),
        emit_externs,
        ..p4_compiler::Options::default()
    };
    let name = path.display().to_string();
    let output = p4_compiler::compile(&name, &text, &source, &compiler_options);
    let rendered = output
        .diagnostics
        .iter()
        .map(Diagnostic::render)
        .collect::<Vec<_>>()
        .join("\n");
    let is_error = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Error;
    let n_errors = output.diagnostics.iter().filter(is_error).count();
    let (Some(program), Some(p4info)) = (output.bmv2_json, output.p4info) else {
        return Err(SwitchError::Compile {
            path: path.to_owned(),
            n_errors,
            rendered,
        });
    };
    if !rendered.is_empty() {
        say_lines(rendered.trim_end());
    }
    let json = program.to_json().map_err(|error| SwitchError::Program {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    Ok(LoadedProgram {
        path: path.to_owned(),
        json,
        p4info: Some(p4info),
    })
}

/// Reads a P4Info file, protobuf text or binary.
pub(crate) fn read_p4info(path: &Path) -> Result<P4Info, SwitchError> {
    let bytes = whole_file::read(path, FILE_BYTES_MAX).map_err(|source| SwitchError::File {
        operation: "read the P4Info",
        path: path.to_owned(),
        source,
    })?;
    let fail = |message: String| SwitchError::P4Info {
        path: path.to_owned(),
        message,
    };
    match as_text(&bytes) {
        Some(text) => text_format::parse_p4info(text).map_err(|error| fail(error.to_string())),
        None => P4Info::decode(&bytes[..])
            .map_err(|error| fail(format!("not a P4Info in protobuf's binary format: {error}"))),
    }
}

pub(crate) fn read_entries(path: &Path) -> Result<Entries, SwitchError> {
    let text = read_text("read the entries", path)?;
    match text_format::parse_write_request(&text) {
        Ok(request) => Ok(Entries {
            path: path.to_owned(),
            request,
        }),
        Err(error) => Err(SwitchError::Entries {
            path: path.to_owned(),
            message: error.to_string(),
            details: String::new(),
        }),
    }
}

fn read_text(operation: &'static str, path: &Path) -> Result<String, SwitchError> {
    let bytes = whole_file::read(path, FILE_BYTES_MAX);
    bytes
        .and_then(whole_file::text)
        .map_err(|source| SwitchError::File {
            operation,
            path: path.to_owned(),
            source,
        })
}

/// Returns the bytes as text, or `None` if they are a binary message. Text has no control characters but white space. A
/// binary message has others, since its tags and lengths are small numbers.
fn as_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(is_text).then_some(text)
}

#[cfg(test)]
mod tests {
    use p4runtime_proto::p4::config::v1::PkgInfo;

    use super::*;

    #[test]
    fn text_and_binary_are_told_apart() {
        let p4info = P4Info {
            pkg_info: Some(PkgInfo {
                arch: "v1model".to_owned(),
                ..PkgInfo::default()
            }),
            ..P4Info::default()
        };
        assert_eq!(as_text(&p4info.encode_to_vec()), None);
        let text = text_format::print_p4info(&p4info);
        assert_eq!(as_text(text.as_bytes()), Some(&*text));
    }
}
