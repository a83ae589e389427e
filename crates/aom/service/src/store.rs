//! The service's folder: its lock, and its state file, which is replaced atomically.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::state::{State, VERSION};

const STATE: &str = "state.json";
const LOCK: &str = "lock";

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {what}: {source}", path.display())]
    Io {
        path: PathBuf,
        /// The attempted action.
        what: &'static str,
        source: io::Error,
    },
    #[error("{}: expected a folder that only its owner can use, for it holds keys; found mode {mode:03o}: chmod 700 it", path.display())]
    Mode { path: PathBuf, mode: u32 },
    #[error("{}: another configuration service uses this folder: stop it, or give another folder with --state", path.display())]
    Taken { path: PathBuf },
    /// The file does not contain a service's state. The error does not quote the file, since it contains keys.
    #[error("{}: line {line}, column {column}: expected the state of a configuration service (version {VERSION}), found something else: put the right file back, or begin with an empty folder and give the groups new numbers", path.display())]
    NoState {
        path: PathBuf,
        /// The place of the first error.
        line: usize,
        column: usize,
    },
}

/// A locked folder. While this value exists, no other service can open the folder.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    _lock: File,
}

impl Store {
    /// Locks the folder, and creates it if it does not exist.
    pub(crate) fn open(folder: &Path) -> Result<Store, StoreError> {
        let made = DirBuilder::new().mode(0o700).recursive(true).create(folder);
        made.map_err(failed(folder, "making the folder"))?;
        let about = fs::metadata(folder).map_err(failed(folder, "looking at the folder"))?;
        let mode = about.mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = folder.to_owned();
            return Err(StoreError::Mode { path, mode });
        }
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(failed(&path, "making the lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Store {
                folder: folder.to_owned(),
                _lock: lock,
            }),
            Err(fs::TryLockError::WouldBlock) => Err(StoreError::Taken {
                path: folder.to_owned(),
            }),
            Err(fs::TryLockError::Error(error)) => Err(failed(&path, "locking it")(error)),
        }
    }

    /// Returns the last saved state, or `None` if the folder is new.
    pub(crate) fn load(&self) -> Result<Option<State>, StoreError> {
        let path = self.folder.join(STATE);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(failed(&path, "reading it"))?,
        };
        let no_state = |line, column| StoreError::NoState {
            path: path.clone(),
            line,
            column,
        };
        let state = serde_json::from_slice::<State>(&text)
            .map_err(|error| no_state(error.line(), error.column()))?;
        if state.version == VERSION {
            Ok(Some(state))
        } else {
            Err(no_state(1, 1))
        }
    }

    /// Saves the state. Once `save` has returned, the folder has this state even after a loss of power. If the power
    /// fails during `save`, the folder has either this state or the previous one.
    pub(crate) fn save(&self, state: &State) -> Result<(), StoreError> {
        let path = self.folder.join(STATE);
        let text = serde_json::to_vec_pretty(state).map_err(io::Error::from);
        let written = text.and_then(|text| whole_file::write_private(&path, &text));
        written.map_err(failed(&path, "writing it"))
    }
}

fn failed(path: &Path, what: &'static str) -> impl Fn(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io {
        path: path.clone(),
        what,
        source,
    }
}
