//! A file that is written whole or not at all: its new contents stand beside it until they take its place.
//! Symbolic links stay, and so do a file's permissions; what is no file, such as a pipe, is written directly.
//!
//! And a file that is read up to a limit: a device, which may have no end, is none.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, chown};
use std::path::{Path, PathBuf};

/// Writes a file, whole or not at all.
///
/// # Errors
/// The system's; what was there before stays.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Staged::write(path, bytes)?.keep()
}

/// Reads a file that a person has named, of so many bytes at most: a regular file or a pipe.
///
/// # Errors
/// The system's; it is something else, or longer.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_if(path, bytes_max, |kind| kind.is_file() || kind.is_fifo())
}

/// Reads a file that another file has named, of so many bytes at most: a regular file, since a pipe may never end.
///
/// # Errors
/// As [`read`].
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_if(path, bytes_max, fs::FileType::is_file)
}

fn read_if(
    path: &Path,
    bytes_max: u64,
    is_taken: impl Fn(&fs::FileType) -> bool,
) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !is_taken(&kind) {
        let what = if kind.is_fifo() {
            "a pipe"
        } else {
            "a device or socket"
        };
        let message = format!("it is {what}, expected a file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The text of such bytes.
///
/// # Errors
/// They are not UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(bytes);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// A file's new contents beside it, which take its place when all of them are on the disk.
pub struct Staged {
    /// None for an object that is no file, such as a pipe, which was written directly.
    temporary: Option<PathBuf>,
    /// The file to replace, behind any symbolic link.
    target: PathBuf,
}

impl Staged {
    /// Writes the contents; under its name there is what was there before.
    ///
    /// # Errors
    /// The system's; nothing is left.
    pub fn write(path: &Path, bytes: &[u8]) -> io::Result<Staged> {
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

    /// Puts the contents under the name.
    ///
    /// # Errors
    /// The system's; under the name there is what was there before.
    pub fn keep(mut self) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_leaves_nothing_and_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        write(&path, b"before").expect("written");
        drop(Staged::write(&path, b"after").expect("staged"));
        assert_eq!(fs::read(&path).expect("read"), b"before");
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
        write(&path, b"after").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"after");
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn the_file_behind_a_link_is_written_and_the_link_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        std::os::unix::fs::symlink("file", &link).expect("linked");
        write(&link, b"contents").expect("written");
        assert_eq!(fs::read(&file).expect("read"), b"contents");
        assert!(link.is_symlink());
    }

    #[test]
    fn devices_and_longer_files_are_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, b"12345").expect("write");
        assert_eq!(read(&file, 5).expect("read"), b"12345");
        let too_long = read(&file, 4).expect_err("longer");
        assert_eq!(too_long.kind(), io::ErrorKind::FileTooLarge);
        for read in [read, read_regular] {
            let device = read(Path::new("/dev/zero"), 4).expect_err("a device");
            assert_eq!(device.kind(), io::ErrorKind::InvalidInput);
            let folder = read(folder.path(), 4).expect_err("a folder");
            assert_eq!(folder.kind(), io::ErrorKind::IsADirectory);
        }
    }
}
