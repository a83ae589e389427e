//! Reads and writes files for the commands. An error states what is wrong with the file and what was expected, not the
//! system's error number.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use whole_file::Staged;

use crate::failure::Failure;
use crate::output;

pub enum Unreadable {
    Missing,
    Directory,
    /// Line, from 1, of the first byte that is not UTF-8.
    NotText(usize),
    Other(io::Error),
}

impl Unreadable {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Unreadable::Missing,
            io::ErrorKind::IsADirectory => Unreadable::Directory,
            _ => Unreadable::Other(error),
        }
    }

    /// The failure of a command that needs the file. `what` names the expected content.
    fn failure(&self, path: &Path, what: &str) -> Failure {
        let next = match self {
            Unreadable::Missing => match with_extension_left_out(path) {
                Some(meant) => format!("; did you mean {}?", meant.display()),
                None => format!(", expected {what}"),
            },
            Unreadable::Directory => format!(", expected {what}"),
            Unreadable::NotText(_) | Unreadable::Other(_) => String::new(),
        };
        Failure::in_file(path, &format!("{self}{next}"))
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Missing => f.write_str("there is no such file"),
            Unreadable::Directory => f.write_str("it is a folder"),
            Unreadable::NotText(line) => write!(
                f,
                "line {line} is not UTF-8, expected text; `iconv -t UTF-8` converts it"
            ),
            Unreadable::Other(error) => write!(f, "cannot be read: {}", why(error)),
        }
    }
}

/// Finds `prog.p4` if the user wrote `prog`.
fn with_extension_left_out(path: &Path) -> Option<PathBuf> {
    let mut candidates = ["p4", "stf", "json"]
        .into_iter()
        .map(|extension| path.with_added_extension(extension));
    candidates.find(|candidate| candidate.is_file())
}

/// The system's error as text, without its number.
pub fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotADirectory => "part of the path is a file, not a folder".to_owned(),
        io::ErrorKind::AlreadyExists => "there is a file of this name".to_owned(),
        io::ErrorKind::StorageFull => "no space left".to_owned(),
        _ => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            text.to_lowercase()
        }
    }
}

pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Maximum bytes of a file or of standard input: a program's JSON with 100,000 entries has 60 MB.
const FILE_BYTES_MAX: u64 = 1 << 30;

fn read(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let bytes = if is_standard(path) {
        whole_file::read_to_end(io::stdin(), FILE_BYTES_MAX)
    } else {
        whole_file::read(path, FILE_BYTES_MAX)
    };
    bytes.map_err(Unreadable::of)
}

/// Reads a text file; `-` is standard input.
///
/// # Errors
/// The file cannot be read, or is not text.
pub fn read_text(path: &Path) -> Result<String, Unreadable> {
    as_text(read(path)?)
}

/// Reads a text file that another file has named, of at most `bytes_max` bytes.
///
/// # Errors
/// As [`read_text`], or the file is not a regular file.
pub fn read_included(path: &Path, bytes_max: u64) -> Result<String, Unreadable> {
    let bytes = whole_file::read_regular(path, bytes_max);
    as_text(bytes.map_err(Unreadable::of)?)
}

fn as_text(bytes: Vec<u8>) -> Result<String, Unreadable> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        Unreadable::NotText(valid.iter().filter(|byte| **byte == b'\n').count() + 1)
    })
}

/// Reads a text file that a command needs; `what` names the expected content.
///
/// # Errors
/// As [`read_text`].
pub fn text(path: &Path, what: &str) -> Result<String, Failure> {
    read_text(path).map_err(|error| error.failure(path, what))
}

/// Reads a file that a command needs; `what` names the expected content.
///
/// # Errors
/// The file cannot be read.
pub fn bytes(path: &Path, what: &str) -> Result<Vec<u8>, Failure> {
    read(path).map_err(|error| error.failure(path, what))
}

/// Writes one output file, as a whole or not at all; `-` is standard output.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_all(&[(path, bytes)])
}

/// Writes output files that belong together: if one cannot be written, all keep their old content.
///
/// # Errors
/// A file cannot be written.
pub fn write_all(files: &[(impl AsRef<Path>, impl AsRef<[u8]>)]) -> Result<(), Failure> {
    let mut staged = Vec::with_capacity(files.len());
    for (path, bytes) in files {
        let path = path.as_ref();
        if is_standard(path) {
            continue;
        }
        let file = Staged::write(path, bytes.as_ref());
        staged.push((path, file.map_err(|error| unwritable(path, &error))?));
    }
    for (path, file) in staged {
        file.keep().map_err(|error| unwritable(path, &error))?;
    }
    let printed = files.iter().filter(|(path, _)| is_standard(path.as_ref()));
    printed.for_each(|(_, bytes)| output::bytes_as_they_are(bytes.as_ref()));
    Ok(())
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.exists() => Failure::in_file(
            path,
            &format!("there is no folder {}: make it first", folder.display()),
        ),
        _ if path.is_dir() => {
            Failure::in_file(path, &"is a folder, expected the name of a file to write")
        }
        _ => Failure::in_file(path, &format!("cannot be written: {}", why(error))),
    }
}

/// Creates an output folder and its parents.
///
/// # Errors
/// The folder cannot be made.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| {
        Failure::in_file(path, &format!("the folder cannot be made: {}", why(&error)))
    })
}
