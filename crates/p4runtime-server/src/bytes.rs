//! Bytes that are held for others: so many for a connection, and so many for all of them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connections::Caller;

/// What is held in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Answers that wait for whoever asked.
    Answers,
    /// Requests that are being sent, or carried out.
    Requests,
}

/// Bytes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesMax {
    /// For all connections.
    pub of_all: usize,
    /// For one of them.
    pub of_connection: usize,
}

/// Room for bytes. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Bytes {
    kind: Kind,
    max: BytesMax,
    free: Arc<Semaphore>,
}

/// Bytes that are held until this is dropped.
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

    /// Bytes that are held now.
    pub(crate) fn n_held(&self) -> usize {
        self.max.of_all - self.free.available_permits()
    }

    /// For messages: what is full.
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

    /// Where there is room.
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

    /// When there is room.
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

    /// One thing that is larger than all room takes all of it, and goes alone.
    fn number(&self, n_bytes: usize) -> u32 {
        let n_bytes = n_bytes.min(self.max.of_connection).min(self.max.of_all);
        u32::try_from(n_bytes).expect("limits are below 4 GiB")
    }
}
