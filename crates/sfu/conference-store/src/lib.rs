//! Where the conference service keeps its records.
//!
//! A store has texts under keys. One service at a time may write: the one that leads. Its *term* grows with each service
//! that leads, and is its election id at the switch, so a service that has been replaced can write neither here nor
//! there.
#![warn(missing_docs)]

mod embedded;

pub use embedded::Embedded;

/// One write: a key and its new value; `None` deletes.
pub type Write = (String, Option<String>);

/// Why a store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another service has the file.
    #[error("another service uses {0}: end it, or give this one a file of its own")]
    InUse(String),
    /// The file is not one of a conference service.
    #[error(
        "{path}: expected a store of a conference service, found {found}: name another file, or move it away"
    )]
    Foreign {
        /// The file.
        path: String,
        /// What was found.
        found: String,
    },
    /// The file is of another version.
    #[error(
        "{path}: expected a store of format {expected}, found format {found}: use the version that wrote it, or name another file"
    )]
    Format {
        /// The file.
        path: String,
        /// The format that this version has.
        expected: u32,
        /// The format of the file.
        found: u32,
    },
    /// The file was removed or replaced while the service had it.
    #[error(
        "{0} was removed, moved or replaced: nothing that is written to it would be there after a restart. Put it back, or restart the service"
    )]
    Gone(String),
    /// Another service leads now.
    #[error("another service leads now")]
    NoLeader,
    /// The store does not answer, the disk is full, for example. Whether the last write was done is not known.
    #[error("the store failed: {0}")]
    Failed(String),
}
