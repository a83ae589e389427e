//! The client of a connection, with the bytes that the server holds for it and the rate of its messages.

use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::bytes::Kind;
use crate::device::lock;
use crate::pace::{Pace, PerSecond};

#[derive(Debug, Clone, Default)]
pub(crate) struct Caller(Arc<State>);

#[derive(Debug, Default)]
struct State {
    connection: stream_socket::Caller,
    free_for_answers: OnceLock<Arc<Semaphore>>,
    free_for_requests: OnceLock<Arc<Semaphore>>,
    pace: Mutex<Pace>,
}

impl Caller {
    pub(crate) fn of(connection: &stream_socket::Connection) -> Self {
        Self(Arc::new(State {
            connection: connection.caller().clone(),
            ..State::default()
        }))
    }

    pub(crate) fn connection(&self) -> &stream_socket::Caller {
        &self.0.connection
    }

    /// Returns the caller's free bytes of one kind. At first `max` bytes are free; `max` must be the same in each call.
    pub(crate) fn free(&self, kind: Kind, max: usize) -> Arc<Semaphore> {
        let free = match kind {
            Kind::Answers => &self.0.free_for_answers,
            Kind::Requests => &self.0.free_for_requests,
        };
        Arc::clone(free.get_or_init(|| Arc::new(Semaphore::new(max))))
    }

    /// The earliest time at which a message that arrives now may be processed.
    pub(crate) fn admit_at(&self, rate: PerSecond) -> Instant {
        lock(&self.0.pace).admit_at(Instant::now(), rate)
    }
}
