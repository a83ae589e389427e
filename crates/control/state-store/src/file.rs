//! The state file. One switch at a time opens it, and changes it by whole transactions. Only its owner can read it,
//! since it may contain secret keys that controllers have written.

mod header;

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use control::{Kept, Operation, OperationResult, OriginOf, Slot, Store, StoreError, Stored};
use dataplane::PortId;
use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, Table, TableDefinition,
    WriteTransaction,
};

use crate::contents::{self, Contents, OpenTo};
use crate::{cells, key};
use header::{MAGIC, Transactions};

/// The version of the encoding of values. Incremented whenever [`Operation`], or a type in it, changes.
pub const FORMAT: u32 = 3;

const ABOUT: TableDefinition<'_, &str, u32> = TableDefinition::new("reprise-switch state");

/// For each slot (the forwarding pipeline or the saved one): the encoded kind and config of the pipeline, and the state
/// that `control::Origin::learned` returned last.
pub(crate) const PIPELINES: TableDefinition<'_, u8, (&[u8], &[u8])> =
    TableDefinition::new("pipelines");

/// For each [`key`]: the encoded operations of an entity.
pub(crate) const STATE: TableDefinition<'_, &'static [u8], &'static [u8]> =
    TableDefinition::new("state");

/// Numbers of the disabled ports.
pub(crate) const PORTS_DISABLED: TableDefinition<'_, u16, ()> =
    TableDefinition::new("ports disabled");

/// The file's permissions: only the owner may read and write.
const OWNERS: u32 = 0o600;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Redb(#[from] redb::Error),
    #[error("a value in it is not of format {FORMAT}: {0}")]
    Value(#[from] postcard::Error),
}

macro_rules! from_redb {
    ($($error:ident)*) => {$(
        impl From<redb::$error> for Failure {
            fn from(error: redb::$error) -> Self {
                Self::Redb(error.into())
            }
        }
    )*};
}

from_redb! { TransactionError TableError StorageError CommitError DatabaseError }

/// Why a state file cannot be used. The file is left as it is, except that redb may have repaired it after a switch was
/// killed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Two switches would overwrite each other's state.
    #[error("another switch uses the file: give each switch a state file of its own")]
    InUse,
    #[error("expected a state file of reprise-switch, found {0}: name another, or move it away")]
    Foreign(String),
    /// A faulty disk or an incomplete copy has changed the file or cut it short.
    #[error(
        "expected a whole state file of reprise-switch, found one that is damaged or cut short: put a copy in its place, or move it away to begin anew"
    )]
    Damaged,
    /// The file is empty, as mktemp makes it.
    #[error(
        "expected a state file of reprise-switch, found an empty file: remove it, the switch makes its own"
    )]
    Empty,
    #[error(
        "expected format {FORMAT}, found {0}: use the version of reprise-switch that wrote it, or name another file"
    )]
    Format(u32),
    #[error(transparent)]
    System(#[from] io::Error),
}

pub struct StateFile {
    path: PathBuf,
    identity: Identity,
    /// A descriptor for checks whether others have changed the file; redb has a descriptor of its own.
    seen: File,
    opened: Mutex<Opened>,
}

/// Identifies the file, whatever its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Identity> {
        let found = fs::metadata(path)?;
        Ok(Identity {
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

/// The properties of the file that change if another process writes to it in place. redb itself would overwrite such
/// changes, and notice them only when it opens the file again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    bytes: u64,
    /// The transaction numbers, which are different in an earlier copy of the file.
    transactions: Option<Transactions>,
}

impl Left {
    fn of(file: &File) -> io::Result<Left> {
        Ok(Left {
            bytes: file.metadata()?.len(),
            transactions: Transactions::of_file(file),
        })
    }
}

struct Opened {
    /// The properties that the file had when this process last wrote to it.
    left: Left,
    /// `None` after a failure, until the file can be opened again.
    database: Option<Database>,
    /// Changes that could not be stored; the next call stores them first.
    behind: Vec<Kept>,
    /// For each slot, the number that `Origin::learned` returned with the learned state that was stored last.
    learned: [u64; 2],
}

impl StateFile {
    /// Opens a state file, or creates it if there is none, and reads it.
    ///
    /// # Errors
    /// Another switch uses the file, the file is no intact state file, or the system refuses.
    pub fn open(path: &Path) -> std::result::Result<(Self, Contents), OpenError> {
        if !path.try_exists()? {
            make(path)?;
        }
        // Opening a named pipe would block until another process opens its other end.
        if !fs::metadata(path)?.is_file() {
            return Err(OpenError::Foreign("no regular file".to_owned()));
        }
        let before = Transactions::of(path);
        let database = open_whole(path)?;
        let opened = Transactions::of(path);
        expect_format(path, &database)?;
        let was_open_to = keep_to_owner(path);
        let mut contents = contents::read(&database).map_err(|error| match error {
            Failure::Redb(redb::Error::Io(error)) => OpenError::System(error),
            _ => OpenError::Damaged,
        })?;
        contents.is_rolled_back = before
            .zip(opened)
            .is_some_and(|(before, opened)| before.is_rolled_back(opened));
        contents.was_open_to = was_open_to;
        let (identity, seen) = (Identity::of(path)?, File::open(path)?);
        let opened = Mutex::new(Opened {
            left: Left::of(&seen)?,
            database: Some(database),
            behind: Vec::new(),
            learned: [0; 2],
        });
        let path = path.to_owned();
        let file = Self {
            path,
            identity,
            seen,
            opened,
        };
        Ok((file, contents))
    }

    /// Reads the file's contents again, with every change so far.
    ///
    /// # Errors
    /// An earlier change could not be stored, or the file cannot be read.
    pub fn contents(&self) -> std::result::Result<Contents, StoreError> {
        let opened = &mut *self.opened();
        self.store(opened)?;
        let failed = |why: String| StoreError(format!("state file {}: {why}", self.path.display()));
        match &opened.database {
            Some(database) => contents::read(database).map_err(|error| failed(error.to_string())),
            None => Err(failed(
                "it could not be written, so it may lack changes".to_owned(),
            )),
        }
    }

    /// Checks that a restarted switch would find what this process writes. Fails if the file was removed, moved,
    /// replaced or overwritten.
    fn expect_there(&self, left: Left) -> std::result::Result<(), StoreError> {
        let path = self.path.display();
        let why = match Identity::of(&self.path) {
            Ok(found) if found == self.identity => return self.expect_as_left(left),
            Ok(_) => "is another file than the switch has opened".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "was removed or moved away".to_owned()
            }
            Err(error) => format!("cannot be looked at: {error}"),
        };
        Err(StoreError(format!(
            "state file {path} {why}: put the former one back, or start the switch anew"
        )))
    }

    fn expect_as_left(&self, left: Left) -> std::result::Result<(), StoreError> {
        let why = match Left::of(&self.seen) {
            Ok(found) if found == left => return Ok(()),
            Ok(found) if found.bytes < left.bytes => "was cut short".to_owned(),
            Ok(_) => "was written to by somebody else".to_owned(),
            Err(error) => format!("cannot be looked at: {error}"),
        };
        Err(StoreError(format!(
            "state file {} {why}: the file's contents are lost. The switch itself still has everything: read from the switch what you need, put a copy of the file in its place or move it away, and start the switch anew",
            self.path.display()
        )))
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        // A panic leaves no transaction open.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores all pending changes in one transaction.
    fn store(&self, opened: &mut Opened) -> std::result::Result<(), StoreError> {
        self.expect_there(opened.left)?;
        if opened.behind.is_empty() {
            return Ok(());
        }
        let stored = self.store_behind(opened);
        // A failure may have changed the file, too.
        match Left::of(&self.seen) {
            Ok(left) => opened.left = left,
            Err(error) => return stored.and(Err(StoreError(error.to_string()))),
        }
        stored?;
        // The transaction is in the file, but the file may have been removed meanwhile.
        self.expect_there(opened.left)
    }

    fn store_behind(&self, opened: &mut Opened) -> std::result::Result<(), StoreError> {
        let failed = |why: String| StoreError(format!("state file {}: {why}", self.path.display()));
        let database = match opened.database.take() {
            Some(database) => database,
            None => open_there(&self.path).map_err(|error| failed(error.to_string()))?,
        };
        // After a failure redb requires that the file is opened again, so the database is put back only after a
        // success.
        let learned = transact(&database, &opened.behind, opened.learned);
        opened.learned = learned.map_err(|error| failed(error.to_string()))?;
        opened.database = Some(database);
        opened.behind.clear();
        Ok(())
    }
}

impl Store for StateFile {
    fn catch_up(&self) -> std::result::Result<(), StoreError> {
        self.store(&mut self.opened())
    }

    fn keep(&self, kept: Kept) -> std::result::Result<(), StoreError> {
        let opened = &mut *self.opened();
        opened.behind.push(kept);
        self.store(opened)
    }

    fn is_current(&self) -> bool {
        let opened = self.opened();
        opened.behind.is_empty() && self.expect_there(opened.left).is_ok()
    }
}

/// Creates a state file without state. The file is written under a temporary name that nobody can predict, and then
/// renamed, so it is complete as soon as `path` exists. A process that is killed before the renaming leaves only the
/// temporary file.
fn make(path: &Path) -> std::result::Result<(), OpenError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    let new = tempfile::Builder::new()
        .prefix(&name)
        .suffix(".new")
        .permissions(Permissions::from_mode(OWNERS))
        .tempfile_in(folder)?;
    let foreign = |error: Failure| OpenError::System(io::Error::other(error.to_string()));
    FileBackend::new(new.reopen()?)
        .and_then(|backend| Database::builder().create_with_backend(backend))
        .map_err(Failure::from)
        .and_then(|database| begin(&database))
        .map_err(foreign)?;
    // Never replaces an existing file, because another switch may have created the file meanwhile.
    match new.into_temp_path().persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error.error.into());
        }
        _ => {}
    }
    Ok(File::open(folder)?.sync_all()?)
}

/// Removes other users' permissions from the file. An older version or a careless copy may have left such permissions.
/// Returns the former permissions, or `None` if the file was private already.
fn keep_to_owner(path: &Path) -> Option<OpenTo> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    if mode & !OWNERS == 0 {
        return None;
    }
    let taken = fs::set_permissions(path, Permissions::from_mode(mode & OWNERS));
    Some(OpenTo {
        mode,
        still: taken.err().map(|error| error.to_string()),
    })
}

fn begin(database: &Database) -> Result<()> {
    let transaction = database.begin_write()?;
    transaction.open_table(ABOUT)?.insert("format", FORMAT)?;
    transaction.open_table(PIPELINES)?;
    transaction.open_table(STATE)?;
    transaction.open_table(PORTS_DISABLED)?;
    Ok(transaction.commit()?)
}

/// Reopens a file that this process has opened before. Does not check the file's pages.
fn open_there(path: &Path) -> std::result::Result<Database, OpenError> {
    Database::open(path).map_err(|error| not_opened(path, error))
}

/// Opens a file for the first time. Checks every page's checksum, because anybody may have changed the file.
fn open_whole(path: &Path) -> std::result::Result<Database, OpenError> {
    let mut builder = Database::builder();
    builder.set_check_integrity_on_open(true);
    builder.open(path).map_err(|error| not_opened(path, error))
}

fn not_opened(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse,
        DatabaseError::Storage(redb::StorageError::Io(error))
            if !matches!(
                error.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            OpenError::System(error)
        }
        _ => not_whole(path),
    }
}

/// The error for a file that redb cannot open, chosen by the file's first bytes.
fn not_whole(path: &Path) -> OpenError {
    let mut first = Vec::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut first));
    match read {
        Err(error) => OpenError::System(error),
        Ok(0) => OpenError::Empty,
        Ok(_) if first == MAGIC => OpenError::Damaged,
        Ok(_) => OpenError::Foreign("something else".to_owned()),
    }
}

fn expect_format(path: &Path, database: &Database) -> std::result::Result<(), OpenError> {
    let found = || -> Result<Option<u32>> {
        let about = database.begin_read()?.open_table(ABOUT)?;
        Ok(about.get("format")?.map(|format| format.value()))
    };
    match found() {
        Ok(Some(FORMAT)) => Ok(()),
        Ok(Some(other)) => Err(OpenError::Format(other)),
        Ok(None) => Err(OpenError::Foreign("one without a format".to_owned())),
        Err(Failure::Redb(redb::Error::TableDoesNotExist(_))) => Err(OpenError::Foreign(
            "a database of another program".to_owned(),
        )),
        Err(_) => Err(not_whole(path)),
    }
}

/// Stores changes in one transaction. Returns, for each slot, the number that `Origin::learned` returned with the
/// learned state that is stored now.
fn transact(database: &Database, changes: &[Kept], mut learned: [u64; 2]) -> Result<[u64; 2]> {
    let transaction = database.begin_write()?;
    {
        let mut pipelines = transaction.open_table(PIPELINES)?;
        let mut state = transaction.open_table(STATE)?;
        for kept in changes {
            let (slot, origin, batch, results) = match kept {
                Kept::Pipeline(slot, origin, batch, results) => {
                    clear(&mut pipelines, &mut state, *slot)?;
                    learned[usize::from(key::slot_byte(*slot))] = 0;
                    if let Some(origin) = origin {
                        let config = encode_pipeline(origin.kind(), &origin.config());
                        pipelines.insert(key::slot_byte(*slot), (&config[..], &[][..]))?;
                    }
                    (*slot, origin, batch, results)
                }
                Kept::Written(slot, origin, batch, results) => (*slot, origin, batch, results),
                Kept::Ports(ports) => {
                    set_ports(&transaction, ports)?;
                    continue;
                }
            };
            write(&mut state, slot, &batch.operations, results)?;
            let last = &mut learned[usize::from(key::slot_byte(slot))];
            learn(&mut pipelines, slot, origin, last)?;
        }
    }
    transaction.commit()?;
    Ok(learned)
}

fn set_ports(transaction: &WriteTransaction, ports: &[(PortId, bool)]) -> Result<()> {
    let mut disabled = transaction.open_table(PORTS_DISABLED)?;
    for (port, is_enabled) in ports {
        if *is_enabled {
            disabled.remove(port.0)?.map(drop)
        } else {
            disabled.insert(port.0, ())?.map(drop)
        };
    }
    Ok(())
}

/// Removes the pipeline in a slot, since a new pipeline replaces it. A new pipeline that forwards also discards the
/// saved pipeline.
fn clear(
    pipelines: &mut Table<'_, u8, (&[u8], &[u8])>,
    state: &mut Table<'_, &'static [u8], &'static [u8]>,
    slot: Slot,
) -> Result<()> {
    let slots = match slot {
        Slot::Forwards => &[Slot::Forwards, Slot::Saved][..],
        Slot::Saved => &[Slot::Saved],
    };
    for slot in slots {
        let (from, to) = key::slot_range(*slot);
        state.retain_in(&from[..]..&to[..], |_, _| false)?;
        pipelines.remove(key::slot_byte(*slot))?;
    }
    Ok(())
}

fn write(
    state: &mut Table<'_, &'static [u8], &'static [u8]>,
    slot: Slot,
    operations: &[Operation],
    results: &[OperationResult],
) -> Result<()> {
    let attempted = operations.iter().zip(results);
    for (operation, _) in attempted.filter(|(_, result)| result.is_ok()) {
        match operation.stored() {
            Stored::Replaced(entity, operation) => {
                let key = key::of(slot, &entity);
                state.insert(&key[..], &encode(&[*operation])[..])?;
            }
            Stored::Removed(entity) => {
                state.remove(&key::of(slot, &entity)[..])?;
            }
            Stored::Combined(entity) => combine(state, &key::of(slot, &entity), operation)?,
            Stored::Cells => {
                if let Operation::Cells(value, cells) = operation {
                    cells::put(state, slot, value, cells)?;
                }
            }
            Stored::Unchanged => {}
        }
    }
    Ok(())
}

fn combine(
    state: &mut Table<'_, &'static [u8], &'static [u8]>,
    key: &[u8],
    operation: &Operation,
) -> Result<()> {
    let before = match state.get(key)? {
        Some(kept) => decode(kept.value())?,
        None => Vec::new(),
    };
    let after = operation.combined(before);
    if after.is_empty() {
        state.remove(key)?.map(drop)
    } else {
        state.insert(key, &encode(&after)[..])?.map(drop)
    };
    Ok(())
}

fn learn(
    pipelines: &mut Table<'_, u8, (&[u8], &[u8])>,
    slot: Slot,
    origin: &OriginOf,
    last: &mut u64,
) -> Result<()> {
    let news = origin.as_ref().and_then(|origin| origin.learned(*last));
    let Some((number, learned)) = news else {
        return Ok(());
    };
    let slot = key::slot_byte(slot);
    let config = pipelines.get(slot)?.map(|kept| kept.value().0.to_vec());
    if let Some(config) = config {
        pipelines.insert(slot, (&config[..], &learned[..]))?;
    }
    *last = number;
    Ok(())
}

pub(crate) fn encode(operations: &[Operation]) -> Vec<u8> {
    postcard::to_stdvec(operations).expect("operations are written to memory")
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Operation>> {
    Ok(postcard::from_bytes(bytes)?)
}

fn encode_pipeline(kind: &str, config: &[u8]) -> Vec<u8> {
    postcard::to_stdvec(&(kind, config)).expect("bytes are written to memory")
}

pub(crate) fn decode_pipeline(bytes: &[u8]) -> Result<(String, Vec<u8>)> {
    Ok(postcard::from_bytes(bytes)?)
}

#[cfg(test)]
mod tests;
