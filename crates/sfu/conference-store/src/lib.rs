//! Where the conference service keeps its records.
//!
//! A store has texts under keys. One service at a time may write: the one that leads. The store's *term* grows with
//! each service that leads. The leading service uses the term as its election id at the switch, so a service that has
//! been replaced can write neither to the store nor to the switch.

mod embedded;
mod etcd;

pub use embedded::Embedded;
pub use etcd::{Etcd, EtcdConfig, EtcdTls};

/// One write: a key and its new value; `None` deletes the key.
pub type Write = (String, Option<String>);

/// What a restore does with records that the store already has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// The restore keeps them, and writes nothing.
    Refused,
    /// The restore replaces all of them.
    Replaced,
}

/// A store. All clones share one store.
#[derive(Clone, Debug)]
pub enum Store {
    Embedded(Embedded),
    Etcd(Etcd),
}

impl From<Embedded> for Store {
    fn from(store: Embedded) -> Store {
        Store::Embedded(store)
    }
}

impl From<Etcd> for Store {
    fn from(store: Etcd) -> Store {
        Store::Etcd(store)
    }
}

impl Store {
    /// Returns the term, a number that is greater with each service that leads.
    #[must_use]
    pub fn term(&self) -> u64 {
        match self {
            Store::Embedded(store) => store.term(),
            Store::Etcd(store) => store.term(),
        }
    }

    /// Makes the term at least `at_least`; later services get greater terms. This is needed because a switch may have
    /// seen greater election ids than a store that was restored from a backup.
    ///
    /// # Errors
    /// Another service leads, or the store does not answer. Then the term is unchanged.
    pub async fn raise_term(&self, at_least: u64) -> Result<(), StoreError> {
        match self {
            Store::Embedded(store) => store.raise_term(at_least).await,
            Store::Etcd(store) => store.raise_term(at_least).await,
        }
    }

    /// Reads all records, in the order of their keys. A write that began before this call cannot take effect after it.
    ///
    /// # Errors
    /// The store does not answer, or another service leads.
    pub async fn read_all(&self) -> Result<Vec<(String, String)>, StoreError> {
        match self {
            Store::Embedded(store) => store.read_all().await,
            Store::Etcd(store) => store.read_all().await,
        }
    }

    /// Writes groups of writes, in their order. All writes of a group are done, or none.
    ///
    /// # Errors
    /// Another service leads, or a group is too large: then nothing was written. Or the store does not answer: then
    /// nobody knows what was done, and [`read_all`](Self::read_all) must be the next call.
    pub async fn write(&self, groups: Vec<Vec<Write>>) -> Result<(), StoreError> {
        match self {
            Store::Embedded(store) => store.write(groups).await,
            Store::Etcd(store) => store.write(groups).await,
        }
    }

    /// Refuses a group that the store cannot write at once.
    ///
    /// # Errors
    /// The group is too large.
    pub fn check_group(&self, group: &[Write]) -> Result<(), StoreError> {
        match self {
            Store::Embedded(_) => Ok(()),
            Store::Etcd(store) => store.check_group(group),
        }
    }

    /// Replaces all records by those of a backup. If the restore is cut off, it has written nothing that a service
    /// would use.
    ///
    /// # Errors
    /// The store has records, and `existing` forbids to replace them. Or the store does not answer: then the restore
    /// must be made again.
    pub async fn restore(
        &self,
        records: Vec<(String, String)>,
        existing: Existing,
    ) -> Result<(), StoreError> {
        match self {
            Store::Embedded(store) => store.restore(records, existing).await,
            Store::Etcd(store) => store.restore(records, existing).await,
        }
    }

    /// Asks the store whether it would take a write.
    ///
    /// # Errors
    /// The store would not take a write.
    pub async fn check(&self) -> Result<(), StoreError> {
        match self {
            Store::Embedded(store) => store.check().await,
            Store::Etcd(store) => store.check().await,
        }
    }

    /// Waits until this service does not lead any more. A service with a store in a file leads as long as it has the
    /// file open, so this method then waits for ever.
    pub async fn lost(&self) {
        match self {
            Store::Embedded(_) => std::future::pending().await,
            Store::Etcd(store) => store.lost().await,
        }
    }

    /// Stops leading, so that another service leads at once.
    pub async fn resign(&self) {
        if let Store::Etcd(store) = self {
            store.resign().await;
        }
    }
}

/// Why a store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("another service uses {0}: end it, or give this one a file of its own")]
    InUse(String),
    /// The file is no store of a conference service.
    #[error(
        "{path}: expected a store of a conference service, found {found}: name another file, or move it away"
    )]
    Foreign { path: String, found: String },
    /// The file has the format of another version.
    #[error(
        "{path}: expected a store of format {expected}, found format {found}: use the version that wrote it, or name another file"
    )]
    Format {
        path: String,
        /// The format that this version has.
        expected: u32,
        found: u32,
    },
    /// The file was removed or replaced while the service had it.
    #[error(
        "{0} was removed, moved or replaced: nothing that is written to it would be there after a restart. Put it back, or restart the service"
    )]
    Gone(String),
    /// The settings cannot be used.
    #[error("{0}")]
    Settings(String),
    /// One request has more writes than the store takes at once. Nothing was written.
    #[error(
        "the request changes {n_writes} records with {n_bytes} bytes, but etcd takes {writes_max} with {bytes_max} at once: split it, or make the conference smaller"
    )]
    TooLarge {
        /// How many writes the request has.
        n_writes: usize,
        /// How many bytes these writes have, including their keys and the message around them.
        n_bytes: usize,
        writes_max: usize,
        bytes_max: usize,
    },
    /// A restore needs an empty store.
    #[error(
        "expected a store without records, found {0}: restore with --replace, which removes them, or name another store"
    )]
    NotEmpty(usize),
    /// A restore was stopped in the middle.
    #[error(
        "{0}: a restore was not finished, so the records are not whole: run `reprise restore --replace` again"
    )]
    HalfRestored(String),
    /// A restore needs to lead, but a service leads.
    #[error("{0} leads: end all services with this store first")]
    Led(String),
    #[error("another service leads now")]
    NoLeader,
    /// The store failed; for example, it does not answer, or the disk is full. Whether the last write was done is not
    /// known.
    #[error("the store failed: {0}")]
    Failed(String),
}
