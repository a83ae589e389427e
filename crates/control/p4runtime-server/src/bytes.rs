//! Limits for bytes that the server holds: for each connection and for all connections together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::caller::Caller;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Answers that clients have not taken yet.
    Answers,
    /// Requests that are being received or carried out.
    Requests,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesMax {
    pub of_all: usize,
    pub of_connection: usize,
}

/// A budget of bytes, which clones share.
#[derive(Debug, Clone)]
pub(crate) struct Bytes {
    kind: Kind,
    max: BytesMax,
    free: Arc<Semaphore>,
}

/// Reserved bytes, which are free again when this value is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    _of_connection: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Bytes {
    pub(crate) fn new(kind: Kind, max: BytesMax) -> Self {
        let free = Arc::new(Semaphore::new(max.of_all));
        Self { kind, max, free }
    }

    pub(crate) fn n_held(&self) -> usize {
        self.max.of_all - self.free.available_permits()
    }

    /// Describes the bytes for which this budget has no more room, as the subject of an error message.
    pub(crate) fn described(&self) -> String {
        let BytesMax {
            of_all,
            of_connection,
        } = self.max;
        let mib = |bytes: usize| bytes >> 20;
        match self.kind {
            Kind::Answers => format!(
                "{} MiB of answers to this connection, or {} MiB to all,",
                mib(of_connection),
                mib(of_all)
            ),
            Kind::Requests => format!(
                "{} MiB of requests of this connection, or {} MiB of all,",
                mib(of_connection),
                mib(of_all)
            ),
        }
    }

    /// Reserves bytes for a caller; `None` if there is no room now.
    pub(crate) fn try_hold(&self, caller: &Caller, n_bytes: usize) -> Option<Held> {
        let of_connection = caller.free(self.kind, self.max.of_connection);
        let n_bytes = self.number(n_bytes);
        Some(Held {
            _of_connection: of_connection.try_acquire_many_owned(n_bytes).ok()?,
            _of_all: Arc::clone(&self.free)
                .try_acquire_many_owned(n_bytes)
                .ok()?,
        })
    }

    pub(crate) async fn hold(&self, caller: &Caller, n_bytes: usize) -> Held {
        let of_connection = caller.free(self.kind, self.max.of_connection);
        let n_bytes = self.number(n_bytes);
        let closed = "nobody closes it";
        Held {
            _of_connection: of_connection
                .acquire_many_owned(n_bytes)
                .await
                .expect(closed),
            _of_all: Arc::clone(&self.free)
                .acquire_many_owned(n_bytes)
                .await
                .expect(closed),
        }
    }

    /// The bytes to reserve for a message. A message larger than the whole budget reserves all of it, so that no other
    /// message is held beside it.
    fn number(&self, n_bytes: usize) -> u32 {
        let n_bytes = n_bytes.min(self.max.of_connection).min(self.max.of_all);
        u32::try_from(n_bytes).expect("limits are below 4 GiB")
    }
}
