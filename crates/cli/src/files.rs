//! Reads and writes files for the commands. An error says what is wrong with the file and what was
//! expected, not the system's error number.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// The content of a file, for the messages.
pub const P4_SOURCE: &str = "a P4 source file";
pub const PACKET_TEST: &str = "a packet test (.stf)";

/// Why a file is not read.
pub enum Unreadable {
    Missing,
    Directory,
    /// The line of the first byte that is no UTF-8, from 1.
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

/// `prog` where `prog.p4` is meant.
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

/// Where a file is named, `-` is standard input or standard output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

fn read(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let bytes = if is_standard(path) {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    bytes.map_err(Unreadable::of)
}

/// A file's text; `-` is standard input.
pub fn read_text(path: &Path) -> Result<String, Unreadable> {
    String::from_utf8(read(path)?).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        Unreadable::NotText(valid.iter().filter(|byte| **byte == b'\n').count() + 1)
    })
}

/// The text of a file that a command needs; `what` names the expected content.
pub fn text(path: &Path, what: &str) -> Result<String, Failure> {
    read_text(path).map_err(|error| error.failure(path, what))
}

/// The bytes of a file that a command needs; `what` names the expected content.
pub fn bytes(path: &Path, what: &str) -> Result<Vec<u8>, Failure> {
    read(path).map_err(|error| error.failure(path, what))
}

/// Writes one output file, whole or not at all; `-` is standard output.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_all(&[(path, bytes)])
}

/// Writes output files that belong together: where one cannot be written, all are left as they were.
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

/// A file's new contents beside it, which take its place when all of them are on the disk.
struct Staged {
    /// None for an object that is no file, such as a pipe, which was written directly.
    temporary: Option<PathBuf>,
    /// The file to replace, behind any symbolic link.
    target: PathBuf,
}

impl Staged {
    fn write(path: &Path, bytes: &[u8]) -> io::Result<Staged> {
        let existing = fs::metadata(path).ok();
        if existing.as_ref().is_some_and(|file| !file.is_file()) {
            fs::write(path, bytes)?;
            return Ok(Staged {
                temporary: None,
                target: path.to_owned(),
            });
        }
        let target = behind_links(path)?;
        let Some(name) = target.file_name() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let temporary = target.with_file_name(hidden);
        let staged = Staged {
            temporary: Some(temporary.clone()),
            target,
        };
        if let Some(existing) = &existing {
            // A user without write permission gets an error, although the folder would accept a new
            // file.
            File::options().write(true).open(path)?;
            Staged::create(&temporary, bytes)?;
            fs::set_permissions(&temporary, existing.permissions())?;
            // Only root can give it to the owner that it had.
            let _ = chown(&temporary, Some(existing.uid()), Some(existing.gid()));
        } else {
            Staged::create(&temporary, bytes)?;
        }
        Ok(staged)
    }

    fn create(temporary: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(temporary)?;
        file.write_all(bytes)?;
        // Some file systems find room for it, or none, only now.
        file.sync_data()
    }

    fn keep(mut self) -> io::Result<()> {
        match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.target)?,
            None => return Ok(()),
        }
        self.temporary = None;
        Ok(())
    }
}

/// The target of a path, which need not exist yet. A ring of links has no target.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    match (fs::canonicalize(path), fs::read_link(path)) {
        (Err(error), Ok(next)) if error.kind() == io::ErrorKind::NotFound => {
            behind_links(&path.with_file_name("").join(next))
        }
        (Err(error), Err(_)) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        (target, _) => target,
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // It is not there if it could not be made.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Makes a folder to write to, and those above it.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| {
        Failure::in_file(path, &format!("the folder cannot be made: {}", why(&error)))
    })
}
