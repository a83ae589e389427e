//! The file of a Unix socket. At no time can a user without permission connect to it. If a dead process has left a file
//! of this name, the new file replaces that file. The new file is removed when this process stops listening.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::umask;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::address::expect_short;

/// Permissions of a socket from its creation until its final mode is set.
const OWNERS: u32 = 0o600;

/// How long to wait for other processes that create or remove a socket in the same folder.
const FOLDER_MS: u64 = 2_000;
const FOLDER_POLL_MS: u64 = 5;

/// The file of a socket on which this process listens. Removed when dropped, unless another socket has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Identity,
    /// Whether the file belongs to another process.
    is_left: bool,
}

/// Why a socket cannot be listened on.
#[derive(Debug)]
pub enum BindError {
    /// Another process listens on the file.
    InUse,
    /// The file is no socket; the text describes what it is.
    Foreign(&'static str),
    System(io::Error),
}

impl From<io::Error> for BindError {
    fn from(error: io::Error) -> Self {
        BindError::System(error)
    }
}

impl SocketFile {
    /// Listens on a file, in non-blocking mode. From the first moment, only users permitted by `mode` can connect. The
    /// process's umask is changed for a moment, so files that other threads create meanwhile get narrow permissions.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), BindError> {
        expect_short(path).map_err(io::Error::other)?;
        let _folder = lock_folder(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(
                io::ErrorKind::NotFound,
                "its folder is not there: make that first",
            ),
            _ => error,
        })?;
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
            Ok(found) => remove_dead(path, &found)?,
        }
        let listener = bind(path).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse,
            _ => error.into(),
        })?;
        let made = fs::symlink_metadata(path)?;
        let file = SocketFile {
            path: path.to_owned(),
            identity: identity(&made),
            is_left: false,
        };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        listener.set_nonblocking(true)?;
        Ok((listener, file))
    }

    /// Returns the file of a socket that another process has passed. The file belongs to that process until
    /// [`SocketFile::own`] is called.
    ///
    /// # Errors
    /// The file is not there any more, or is no socket.
    pub fn passed(path: &Path) -> io::Result<SocketFile> {
        let found = fs::symlink_metadata(path)?;
        if !found.file_type().is_socket() {
            return Err(io::Error::other("expected a socket, found another file"));
        }
        Ok(SocketFile {
            path: path.to_owned(),
            identity: identity(&found),
            is_left: true,
        })
    }

    /// Makes the file belong to this process, which from now on is the only process that listens. The file is then
    /// removed when this value is dropped.
    #[must_use]
    pub fn own(mut self) -> SocketFile {
        self.is_left = false;
        self
    }

    /// Leaves the file to the process to which the socket was passed.
    pub fn leave(mut self) {
        self.is_left = true;
    }
}

/// Device, inode, and modification time in seconds and nanoseconds.
type Identity = (u64, u64, i64, i64);

/// Distinguishes a socket from a later socket of the same name. The inode number alone is not enough, since the file
/// system may use the number again at once.
fn identity(found: &fs::Metadata) -> Identity {
    (found.dev(), found.ino(), found.mtime(), found.mtime_nsec())
}

/// Binds a socket, in one thread at a time, since the umask belongs to the whole process.
fn bind(path: &Path) -> io::Result<UnixListener> {
    static MASK: Mutex<()> = Mutex::new(());
    let _mask = MASK.lock().unwrap_or_else(PoisonError::into_inner);
    let before = umask(Mode::from_raw_mode(0o777 & !OWNERS));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        let _folder = lock_folder(&self.path);
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| identity(&found) == self.identity) {
            // If the removal fails, the next process treats the file as that of a dead process.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Locks the folder. So no other process with this code changes the file after this process has examined it and before
/// this process has replaced it.
fn lock_folder(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    let until = Instant::now() + Duration::from_millis(FOLDER_MS);
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(folder),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(FOLDER_POLL_MS));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes a socket on which nobody listens; refuses anything else.
fn remove_dead(path: &Path, found: &Metadata) -> Result<(), BindError> {
    if !found.file_type().is_socket() {
        return Err(BindError::Foreign(match found.file_type() {
            kind if kind.is_dir() => "a folder",
            kind if kind.is_symlink() => "a symbolic link",
            _ => "a file that is no socket",
        }));
    }
    if is_listened_on(path)? {
        Err(BindError::InUse)
    } else {
        Ok(fs::remove_file(path)?)
    }
}

/// Whether somebody listens on a socket's file. A listener whose backlog is full counts as well. This function never
/// blocks; a blocking connect(2) would wait forever for a listener with a full backlog.
///
/// # Errors
/// The system does not let this process connect.
pub fn is_listened_on(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(in_words(error)),
    }
}

/// Explains an error of connect(2) if the system's message does not say what is wrong with the file.
pub fn in_words(error: io::Error) -> io::Error {
    let words = match Errno::from_io_error(&error) {
        Some(Errno::PROTOTYPE) => {
            "expected a socket of streams, found one of another type: name another file"
        }
        Some(Errno::AGAIN) => "somebody listens there, and has no room for another connection",
        _ => return error,
    };
    io::Error::new(error.kind(), words)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o777
    }

    #[test]
    fn a_socket_has_its_permissions_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s1.sock");
        let (listener, file) = SocketFile::listen(&path, 0o660).expect("a socket");
        assert_eq!(mode(&path), 0o660);
        UnixStream::connect(&path).expect("somebody listens");
        drop((listener, file));
        assert!(!path.exists());
    }

    #[test]
    fn a_living_process_keeps_its_socket_and_a_dead_ones_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s1.sock");
        let (listener, file) = SocketFile::listen(&path, OWNERS).expect("a socket");
        let refused = SocketFile::listen(&path, OWNERS);
        assert!(matches!(refused, Err(BindError::InUse)), "{refused:?}");
        // The file stays, as after kill -9.
        drop(listener);
        let (listener, later) = SocketFile::listen(&path, OWNERS).expect("a dead one's place");
        // The file belongs to the later `SocketFile`, so dropping the earlier one leaves the file in place.
        drop(file);
        UnixStream::connect(&path).expect("somebody listens");
        drop((listener, later));
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_without_room_for_another_connection_is_in_use() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s1.sock");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        let address = SockAddr::unix(&path).expect("an address");
        socket.bind(&address).expect("bound");
        socket.listen(0).expect("listens");
        let _waits = UnixStream::connect(&path).expect("the only place");
        let refused = SocketFile::listen(&path, OWNERS);
        assert!(matches!(refused, Err(BindError::InUse)), "{refused:?}");
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_reported_with_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let long = folder.path().join("s".repeat(100));
        let missing = folder.path().join("nowhere/s1.sock");
        let datagrams = folder.path().join("datagrams");
        let _datagrams = std::os::unix::net::UnixDatagram::bind(&datagrams).expect("a socket");
        for (path, expected) in [
            (long, "107 bytes at most"),
            (missing, "make that first"),
            (datagrams, "found one of another type"),
        ] {
            match SocketFile::listen(&path, OWNERS) {
                Err(BindError::System(error)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                }
                other => unreachable!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_is_no_socket_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, b"precious").expect("written");
        let refused = SocketFile::listen(&path, OWNERS);
        assert!(matches!(refused, Err(BindError::Foreign(_))), "{refused:?}");
        assert_eq!(fs::read(&path).expect("it stays"), b"precious");
    }
}
