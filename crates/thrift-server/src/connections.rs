//! Limits the number of connections. If there are too many, the connection that has been idle for longest is closed.
//! If all have a call in progress, the new one is closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use stream_socket::Stream;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::limits::{CONNECTIONS_MAX, KEEPALIVE_S};

#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    n_admitted: u64,
    by_number: BTreeMap<u64, One>,
}

struct One {
    /// `None` while a call is in progress.
    silent_since: Option<Instant>,
    cut: Option<oneshot::Sender<()>>,
}

/// A connection's entry, which is removed when this is dropped.
pub(crate) struct Place {
    connections: Connections,
    number: u64,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection. The receiver fires when the connection must make room for another one. `None` if all
    /// connections are busy.
    pub(crate) fn admit(&self) -> Option<(Place, oneshot::Receiver<()>)> {
        let mut open = self.open();
        if open.by_number.len() >= CONNECTIONS_MAX && !open.cut_one() {
            return None;
        }
        open.n_admitted += 1;
        let number = open.n_admitted;
        let (cut, is_cut) = oneshot::channel();
        let one = One {
            silent_since: Some(Instant::now()),
            cut: Some(cut),
        };
        open.by_number.insert(number, one);
        let connections = self.clone();
        Some((
            Place {
                connections,
                number,
            },
            is_cut,
        ))
    }
}

impl Open {
    /// Closes an idle connection and removes its entry. False if there is none.
    fn cut_one(&mut self) -> bool {
        let silent = self.by_number.iter();
        let silent = silent.filter_map(|(number, one)| Some((one.silent_since?, *number)));
        let Some((_, number)) = silent.min() else {
            return false;
        };
        let cut = self.by_number.remove(&number).and_then(|one| one.cut);
        // The connection may have ended on its own just now.
        cut.is_some_and(|cut| cut.send(()).is_ok()) || self.by_number.len() < CONNECTIONS_MAX
    }
}

impl Place {
    /// Marks the connection as busy when a call begins to arrive, and as idle after the answer.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        if let Some(one) = self.connections.open().by_number.get_mut(&self.number) {
            one.silent_since = (!is_busy).then(Instant::now);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open().by_number.remove(&self.number);
    }
}

/// Disables Nagle's algorithm, since clients wait for short answers. Enables keepalive on TCP.
pub(crate) fn prepare(stream: &Stream) {
    stream.set_nodelay();
    // On a Unix socket the kernel reports a dead peer at once.
    let Stream::Tcp(stream) = stream else { return };
    keep_alive(stream);
}

/// Detects machines that have gone.
pub(crate) fn keep_alive(stream: &TcpStream) {
    let silence = Duration::from_secs(KEEPALIVE_S);
    let keepalive = TcpKeepalive::new()
        .with_time(silence)
        .with_interval(silence);
    // The connection also works without keepalive.
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_silent_for_longest_makes_room_and_a_busy_one_does_not() {
        let connections = Connections::default();
        let all: Vec<_> = (0..CONNECTIONS_MAX)
            .filter_map(|_| connections.admit())
            .collect();
        assert_eq!(all.len(), CONNECTIONS_MAX);
        let mut all = all.into_iter();
        let (busy, mut busy_is_cut) = all.next().unwrap();
        busy.set_busy(true);
        let (_silent, mut silent_is_cut) = all.next().unwrap();
        let (_lately, mut lately_is_cut) = all.next().unwrap();
        let new = connections.admit();
        assert!(new.is_some());
        assert!(silent_is_cut.try_recv().is_ok());
        assert!(busy_is_cut.try_recv().is_err() && lately_is_cut.try_recv().is_err());
        drop(new);
        assert_eq!(connections.open().by_number.len(), CONNECTIONS_MAX - 1);
    }

    #[test]
    fn where_all_are_busy_a_new_one_finds_no_place() {
        let connections = Connections::default();
        let all: Vec<_> = (0..CONNECTIONS_MAX)
            .filter_map(|_| connections.admit())
            .collect();
        all.iter().for_each(|(place, _)| place.set_busy(true));
        assert!(connections.admit().is_none());
        all[5].0.set_busy(false);
        assert!(connections.admit().is_some());
    }
}
