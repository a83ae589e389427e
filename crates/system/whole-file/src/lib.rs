//! Writes a file completely or not at all: the new contents are written to a temporary file, which then replaces the
//! old file. The temporary file is in the same folder and has an unpredictable name. Symbolic links and a file's
//! permissions are kept. A pipe, or anything else that is not a regular file, is written directly.
//!
//! The crate also reads files up to a size limit, and refuses devices, which may have no end.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

/// Mode of a new file, before the umask.
const NEW_FILE: u32 = 0o666;
const OWNER_ONLY: u32 = 0o600;

/// Writes a file completely or not at all.
///
/// # Errors
/// The system's error; the old contents stay.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Staged::write(path, bytes)?.keep()
}

/// Writes a file with keys completely or not at all: only its owner may read it, and a link in its place is replaced.
/// Once this function has returned, a loss of power does not undo the change of the file.
///
/// # Errors
/// The system's error; or the path leads to a pipe, a device or a socket, which stays as it is. If only the change of
/// the folder could not be written to the disk, the file has the new contents. After any other error, the old contents
/// stay.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Ok(existing) = fs::metadata(path) {
        expect(existing.file_type(), fs::FileType::is_file)?;
    }
    Staged::create(path, Permissions::from_mode(OWNER_ONLY), bytes)?.persist(path)?;
    File::open(folder_of(path))?.sync_all()
}

/// Reads a file that a person has named. The file may be a regular file or a pipe, and may have at most `bytes_max`
/// bytes.
///
/// # Errors
/// The system's error; or the file is of another kind, or longer.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_if(path, bytes_max, |kind| kind.is_file() || kind.is_fifo())
}

/// Reads a file that another file has named. The file may have at most `bytes_max` bytes. It must be a regular file,
/// since a pipe may never end.
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
    expect(fs::metadata(path)?.file_type(), is_taken)?;
    read_to_end(File::open(path)?, bytes_max)
}

/// Reads what is not longer than `bytes_max` bytes.
///
/// # Errors
/// The system's error; or there are more bytes.
pub fn read_to_end(from: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Checks the kind of a file.
fn expect(kind: fs::FileType, is_taken: impl Fn(&fs::FileType) -> bool) -> io::Result<()> {
    if is_taken(&kind) {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let what = if kind.is_fifo() {
        "a pipe"
    } else {
        "a device or socket"
    };
    let message = format!("it is {what}, expected a file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Checks that the bytes are text.
///
/// # Errors
/// The bytes are not UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(bytes);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// New contents of a file. They are in a temporary file in the same folder, which replaces the file when all new
/// contents are on the disk.
pub struct Staged {
    /// `None` if the path did not lead to a regular file. Then the contents were written directly.
    temporary: Option<TempPath>,
    /// The file to replace, after symbolic links were followed.
    target: PathBuf,
}

impl Staged {
    /// Writes the contents to the temporary file. The old contents stay in place. If the path leads to something that
    /// is not a regular file, writes the contents directly.
    ///
    /// # Errors
    /// The system's error; the temporary file is removed.
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
        let temporary = match &existing {
            Some(existing) => {
                // A user without write permission gets an error, although the folder would accept a new file.
                File::options().write(true).open(path)?;
                // Only the owner may read the new contents until they have the old file's permissions.
                let temporary = Staged::create(&target, Permissions::from_mode(OWNER_ONLY), bytes)?;
                // Only root can restore the old owner.
                let _ = chown(temporary.path(), Some(existing.uid()), Some(existing.gid()));
                let file = temporary.as_file();
                file.set_permissions(existing.permissions())?;
                temporary
            }
            None => Staged::create(&target, Permissions::from_mode(NEW_FILE), bytes)?,
        };
        Ok(Staged {
            temporary: Some(temporary.into_temp_path()),
            target,
        })
    }

    fn create(target: &Path, mode: Permissions, bytes: &[u8]) -> io::Result<NamedTempFile> {
        let Some(name) = target.file_name() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".");
        // The file is created with O_EXCL, so no link is followed, and no file is opened that somebody else has put
        // there.
        let temporary = tempfile::Builder::new()
            .prefix(&hidden)
            .suffix(".part")
            .permissions(mode)
            .tempfile_in(folder_of(target))?;
        temporary.as_file().write_all(bytes)?;
        // Some file systems allocate space only now, and may find none.
        temporary.as_file().sync_data()?;
        Ok(temporary)
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// The system's error; the old contents stay.
    pub fn keep(self) -> io::Result<()> {
        match self.temporary {
            Some(temporary) => Ok(temporary.persist(&self.target)?),
            None => Ok(()),
        }
    }
}

fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Follows a path's symbolic links and returns the file that they lead to. This file need not exist yet. It is an error
/// if the links form a ring.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    match (fs::canonicalize(path), fs::read_link(path)) {
        (Err(error), Ok(next)) if error.kind() == io::ErrorKind::NotFound => {
            behind_links(&path.with_file_name("").join(next))
        }
        (Err(error), Err(_)) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        (target, _) => target,
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
    fn a_file_with_keys_replaces_no_pipe_and_no_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
        let refused = write_private(&link, b"keys").expect_err("a device");
        assert_eq!(
            refused.to_string(),
            "it is a device or socket, expected a file"
        );
        assert!(
            fs::symlink_metadata(&link)
                .expect("it is there")
                .is_symlink()
        );
        let socket = folder.path().join("socket");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert!(write_private(&socket, b"keys").is_err());
        assert!(
            fs::metadata(&socket)
                .expect("it is there")
                .file_type()
                .is_socket()
        );
        let file = folder.path().join("file");
        write(&file, b"before").expect("written");
        fs::remove_file(&link).expect("removed");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        write_private(&link, b"keys").expect("a link to a file is replaced");
        assert_eq!(fs::read(&file).expect("read"), b"before");
    }

    /// If the name were predictable, another user could make a link with this name that leads to somebody's file.
    #[test]
    fn new_contents_have_a_name_of_their_own_each_time_and_the_permissions_of_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        write(&path, b"before").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("its own file");
        let first = Staged::write(&path, b"after").expect("staged");
        let second = Staged::write(&path, b"after").expect("staged");
        let names = [&first, &second].map(|it| it.temporary.as_deref().map(Path::to_owned));
        assert_ne!(names[0], names[1]);
        first.keep().expect("kept");
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o640);
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
    fn only_its_owner_may_read_a_private_file_whatever_was_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        for before in [None, Some(0o644)] {
            if let Some(mode) = before {
                fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its own file");
            }
            write_private(&path, b"contents").expect("written");
            assert_eq!(fs::read(&path).expect("read"), b"contents");
            let mode = fs::metadata(&path).expect("it is there").mode();
            assert_eq!(mode & 0o777, OWNER_ONLY);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
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
