//! A store in a file (redb). When a batch of writes is acknowledged, the whole batch is on the disk.
//!
//! After an error of the disk, redb refuses everything until its file is opened again. So the next call closes and opens
//! it. Another service may have had the file in between, which its term shows.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};

use crate::{Existing, StoreError, Write};

const FORMAT: u32 = 1;
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("reprise conference service");
const RECORDS: TableDefinition<'_, &str, &str> = TableDefinition::new("records");

/// A store in a file that only its owner can read, since it has the keys with which participants' sockets sign in.
#[derive(Clone)]
pub struct Embedded {
    file: Arc<OpenFile>,
}

struct OpenFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// `None` after an error of the disk.
    database: Mutex<Option<Database>>,
    term: AtomicU64,
    /// The greatest term that [`Embedded::raise_term`] has tried to write, whether it could or not; 0 at first.
    raised: AtomicU64,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file.path.display())
    }
}

impl Embedded {
    /// Opens the file, or makes it, and begins a new term.
    ///
    /// # Errors
    /// Another service has the file, the file is no store of a service of this version, or the system refuses.
    pub fn open(path: &Path) -> Result<Embedded, StoreError> {
        let name = || path.display().to_string();
        let failed = |error: &dyn std::fmt::Display| {
            StoreError::Failed(format!("{}: {error}", path.display()))
        };
        let options = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o600);
            options
        };
        let is_new = match options().create_new(true).open(path) {
            Ok(_) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed(&error)),
        };
        let about = fs::metadata(path).map_err(|error| failed(&error))?;
        // Opening a pipe would wait for its other end.
        if !about.is_file() {
            let found = "no regular file".to_owned();
            return Err(StoreError::Foreign {
                path: name(),
                found,
            });
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(|error| failed(&error))?;
        let is_empty = about.len() == 0;
        let opened = if is_empty {
            Database::create(path)
        } else {
            Database::open(path)
        };
        let database = opened.map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::InUse(name()),
            DatabaseError::Storage(redb::StorageError::Io(error))
                if error.kind() != std::io::ErrorKind::InvalidData =>
            {
                failed(&error)
            }
            error => StoreError::Foreign {
                path: name(),
                found: format!("something else ({error})"),
            },
        })?;
        let file = OpenFile {
            path: path.to_owned(),
            identity: (about.dev(), about.ino()),
            database: Mutex::new(Some(database)),
            term: AtomicU64::new(0),
            raised: AtomicU64::new(0),
        };
        let term = file
            .begin_term(is_new || is_empty)
            .map_err(|error| match error {
                Trouble::Store(error) => error,
                Trouble::Redb(error) => failed(&error),
            })?;
        file.term.store(term, Ordering::Relaxed);
        let file = Arc::new(file);
        Ok(Embedded { file })
    }

    /// Returns the term: 1 at the first opening of the file, and one more at each later opening, or more if the term
    /// was raised.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.file.term.load(Ordering::Relaxed)
    }

    /// Makes the term at least `at_least`. The next opening of the file begins with a greater term.
    ///
    /// # Errors
    /// The file is gone, or the disk is full.
    pub async fn raise_term(&self, at_least: u64) -> Result<(), StoreError> {
        self.blocking(move |file| {
            file.expect_there()?;
            file.raised.fetch_max(at_least, Ordering::Relaxed);
            file.with(|database| {
                let transaction = database.begin_write()?;
                {
                    let mut about = transaction.open_table(ABOUT)?;
                    let before = about.get("term")?.map_or(0, |it| it.value());
                    about.insert("term", before.max(at_least))?;
                }
                transaction.commit()?;
                Ok(())
            })?;
            file.term.fetch_max(at_least, Ordering::Relaxed);
            Ok(())
        })
        .await
    }

    /// Returns all records, in the order of their keys.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn read_all(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.blocking(|file| {
            file.with(|database| {
                let transaction = database.begin_read()?;
                let table = transaction.open_table(RECORDS)?;
                let mut records = Vec::new();
                for record in table.iter()? {
                    let (key, value) = record?;
                    records.push((key.value().to_owned(), value.value().to_owned()));
                }
                Ok(records)
            })
        })
        .await
    }

    /// Writes groups of writes, in their order and in one transaction: all of them, or nothing.
    ///
    /// # Errors
    /// The file is gone, or the disk is full. Even then the writes may have been done.
    pub async fn write(&self, groups: Vec<Vec<Write>>) -> Result<(), StoreError> {
        self.blocking(move |file| {
            file.expect_there()?;
            file.with(|database| {
                let transaction = database.begin_write()?;
                {
                    let mut table = transaction.open_table(RECORDS)?;
                    for (key, value) in groups.iter().flatten() {
                        match value {
                            Some(value) => table.insert(key.as_str(), value.as_str())?,
                            None => table.remove(key.as_str())?,
                        };
                    }
                }
                transaction.commit()?;
                Ok(())
            })
        })
        .await
    }

    /// Replaces all records of the store by the given ones, in one transaction.
    ///
    /// # Errors
    /// The store has records, and `existing` forbids to replace them. Or the file is gone, or the disk is full.
    pub async fn restore(
        &self,
        records: Vec<(String, String)>,
        existing: Existing,
    ) -> Result<(), StoreError> {
        self.blocking(move |file| {
            file.expect_there()?;
            file.with(|database| {
                let transaction = database.begin_write()?;
                {
                    let mut table = transaction.open_table(RECORDS)?;
                    let n_records = table.iter()?.count();
                    if n_records > 0 && existing == Existing::Refused {
                        return Err(Trouble::Store(StoreError::NotEmpty(n_records)));
                    }
                    table.retain(|_, _| false)?;
                    for (key, value) in &records {
                        table.insert(key.as_str(), value.as_str())?;
                    }
                }
                transaction.commit()?;
                Ok(())
            })
        })
        .await
    }

    /// Checks that the file is still there.
    ///
    /// # Errors
    /// The file was removed, moved or replaced.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.blocking(OpenFile::expect_there).await
    }

    /// Runs a call that waits for the disk on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&OpenFile) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let file = Arc::clone(&self.file);
        let done = tokio::task::spawn_blocking(move || call(&file)).await;
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(Trouble::Store(error))) => Err(error),
            Ok(Err(Trouble::Redb(error))) => Err(StoreError::Failed(error.to_string())),
            Err(error) => Err(StoreError::Failed(error.to_string())),
        }
    }
}

impl OpenFile {
    /// Makes a call with the database. Opens the file again if the last call ended with an error of redb.
    fn with<T>(&self, call: impl FnOnce(&Database) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let mut held = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let database = match held.take() {
            Some(database) => database,
            None => self.open_again()?,
        };
        let done = call(&database);
        if !matches!(done, Err(Trouble::Redb(_))) {
            *held = Some(database);
        }
        done
    }

    fn open_again(&self) -> Result<Database, Trouble> {
        self.expect_there()?;
        let database = Database::open(&self.path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => {
                Trouble::Store(StoreError::InUse(self.path.display().to_string()))
            }
            error => Trouble::Redb(error.into()),
        })?;
        let about = database.begin_read()?.open_table(ABOUT)?;
        let term = about.get("term")?.map_or(0, |it| it.value());
        let own = [&self.term, &self.raised].map(|it| it.load(Ordering::Relaxed));
        if !own.contains(&term) {
            return Err(Trouble::Store(StoreError::NoLeader));
        }
        drop(about);
        Ok(database)
    }

    fn begin_term(&self, is_new: bool) -> Result<u64, Trouble> {
        self.with(|database| self.begin_term_of(database, is_new))
    }

    fn begin_term_of(&self, database: &Database, is_new: bool) -> Result<u64, Trouble> {
        let transaction = database.begin_write()?;
        let mut term = 0;
        {
            let mut about = transaction.open_table(ABOUT)?;
            let format = about.get("format")?.map(|it| it.value());
            match format {
                None if is_new => {
                    about.insert("format", u64::from(FORMAT))?;
                }
                None => {
                    return Err(Trouble::Store(StoreError::Foreign {
                        path: self.path.display().to_string(),
                        found: "a database of something else".to_owned(),
                    }));
                }
                Some(format) if format == u64::from(FORMAT) => {}
                Some(format) => {
                    return Err(Trouble::Store(StoreError::Format {
                        path: self.path.display().to_string(),
                        expected: FORMAT,
                        found: u32::try_from(format).unwrap_or(u32::MAX),
                    }));
                }
            }
            term += about.get("term")?.map_or(0, |it| it.value()) + 1;
            about.insert("term", term)?;
            transaction.open_table(RECORDS)?;
        }
        transaction.commit()?;
        Ok(term)
    }

    fn expect_there(&self) -> Result<(), Trouble> {
        let found = fs::metadata(&self.path).map(|it| (it.dev(), it.ino()));
        if found.is_ok_and(|found| found == self.identity) {
            return Ok(());
        }
        Err(Trouble::Store(StoreError::Gone(
            self.path.display().to_string(),
        )))
    }
}

enum Trouble {
    Store(StoreError),
    Redb(redb::Error),
}

macro_rules! from_redb {
    ($($error:ident)*) => {$(
        impl From<redb::$error> for Trouble {
            fn from(error: redb::$error) -> Self {
                Self::Redb(error.into())
            }
        }
    )*};
}

from_redb! { TransactionError TableError StorageError CommitError }

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Write {
        (key.to_owned(), Some(value.to_owned()))
    }

    fn owned(records: &[(&str, &str)]) -> Vec<(String, String)> {
        let records = records.iter();
        records
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[tokio::test]
    async fn a_restore_replaces_all_records_or_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(&folder.path().join("store")).expect("it opens");
        let records = |records: &[(&str, &str)]| owned(records);
        store
            .restore(records(&[("a", "1"), ("b", "2")]), Existing::Refused)
            .await
            .expect("it is empty");
        let refused = store
            .restore(records(&[("c", "3")]), Existing::Refused)
            .await;
        assert!(
            matches!(refused, Err(StoreError::NotEmpty(2))),
            "{refused:?}"
        );
        let there = store.read_all().await.expect("read");
        assert_eq!(there, owned(&[("a", "1"), ("b", "2")]));
        store
            .restore(records(&[("b", "4"), ("c", "3")]), Existing::Replaced)
            .await
            .expect("replaced");
        let there = store.read_all().await.expect("read");
        assert_eq!(there, owned(&[("b", "4"), ("c", "3")]));
    }

    #[tokio::test]
    async fn what_was_written_is_there_in_the_next_term() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let store = Embedded::open(&path).expect("it opens");
        assert_eq!(store.term(), 1);
        store
            .write(vec![vec![put("b", "2"), put("a", "1")]])
            .await
            .expect("written");
        store
            .write(vec![vec![put("a", "3")], vec![("b".to_owned(), None)]])
            .await
            .expect("written");
        let in_use = Embedded::open(&path).expect_err("in use").to_string();
        assert!(in_use.starts_with("another service uses "), "{in_use}");
        store.raise_term(40).await.expect("raised");
        store.raise_term(7).await.expect("it is more already");
        assert_eq!(store.term(), 40);
        drop(store);
        let store = Embedded::open(&path).expect("it opens");
        assert_eq!(store.term(), 41);
        assert_eq!(store.read_all().await.expect("read"), owned(&[("a", "3")]));
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_file_that_was_replaced_takes_no_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let store = Embedded::open(&path).expect("it opens");
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("moved");
        let gone = store
            .write(vec![vec![put("a", "1")]])
            .await
            .expect_err("gone");
        assert!(matches!(gone, StoreError::Gone(_)), "{gone}");
        fs::write(&path, "").expect("another file");
        let gone = store
            .write(vec![vec![put("a", "1")]])
            .await
            .expect_err("gone");
        assert!(matches!(gone, StoreError::Gone(_)), "{gone}");
        fs::rename(&elsewhere, &path).expect("moved back");
        store
            .write(vec![vec![put("a", "1")]])
            .await
            .expect("it is back");
    }

    /// Lets a call end as redb ends it when the disk fails.
    fn fail(store: &Embedded) {
        let failed: Result<(), Trouble> = store
            .file
            .with(|_| Err(Trouble::Redb(redb::Error::PreviousIo)));
        assert!(failed.is_err());
    }

    #[tokio::test]
    async fn a_store_goes_on_after_an_error_of_the_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(&folder.path().join("store")).expect("it opens");
        let a = vec![vec![put("a", "1")]];
        store.write(a).await.expect("written");
        fail(&store);
        assert_eq!(store.read_all().await.expect("read"), owned(&[("a", "1")]));
        fail(&store);
        let b = vec![vec![put("b", "2")]];
        store.write(b).await.expect("written");
        store.raise_term(9).await.expect("raised");
        fail(&store);
        let there = store.read_all().await.expect("read");
        assert_eq!(there, owned(&[("a", "1"), ("b", "2")]));
        assert_eq!(store.term(), 9);
    }

    #[tokio::test]
    async fn a_store_that_another_service_had_in_between_is_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let store = Embedded::open(&path).expect("it opens");
        fail(&store);
        let other = Embedded::open(&path).expect("it is free");
        let in_use = store.read_all().await.expect_err("in use");
        assert!(matches!(in_use, StoreError::InUse(_)), "{in_use}");
        drop(other);
        let lost = store.write(Vec::new()).await.expect_err("another term");
        assert!(matches!(lost, StoreError::NoLeader), "{lost}");
    }

    #[test]
    fn what_is_no_store_is_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        fs::write(&path, "something else").expect("a file");
        let foreign = Embedded::open(&path).expect_err("no store");
        assert!(matches!(foreign, StoreError::Foreign { .. }), "{foreign}");
        assert_eq!(fs::read(&path).expect("it is there"), b"something else");
        let foreign = Embedded::open(folder.path()).expect_err("a folder");
        assert!(matches!(foreign, StoreError::Foreign { .. }), "{foreign}");
        let other = folder.path().join("other");
        let database = Database::create(&other).expect("a database");
        drop(database);
        let foreign = Embedded::open(&other).expect_err("no store");
        assert!(matches!(foreign, StoreError::Foreign { .. }), "{foreign}");
    }
}
