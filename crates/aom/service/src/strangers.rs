//! Bounds the number of strangers: connections that have not joined yet. Anybody can open a connection. If all places
//! are taken, a new connection replaces the oldest connection of the address that has the most connections. So a peer
//! that opens many connections displaces its own connections first. (The switch's limiter,
//! `stream-socket/src/connections.rs`, instead closes the oldest connection on which no call was made, whatever its
//! address. Connections here make no calls.)

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The open connections, at most `max`.
#[derive(Clone)]
pub(crate) struct Strangers {
    max: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    n_admitted: u64,
    /// The connections by number of admission, so the oldest comes first.
    connections: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
}

/// A place for one connection, which is released on drop.
pub(crate) struct Stranger {
    number: u64,
    cut: oneshot::Receiver<()>,
    strangers: Strangers,
}

impl Strangers {
    pub(crate) fn new(max: usize) -> Strangers {
        Strangers {
            max,
            open: Arc::default(),
        }
    }

    /// Admits a new connection. If all places are taken, another connection loses its place.
    pub(crate) fn admit(&self, peer: IpAddr) -> Stranger {
        let mut open = self.open();
        if open.connections.len() >= self.max {
            open.cut_one_for(peer);
        }
        open.n_admitted += 1;
        let number = open.n_admitted;
        let (sender, cut) = oneshot::channel();
        open.connections.insert(number, (peer, sender));
        Stranger {
            number,
            cut,
            strangers: self.clone(),
        }
    }

    /// Locks the list of open connections, and ignores poisoning: a panic elsewhere leaves this data consistent.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn cut_one_for(&mut self, newcomer: IpAddr) {
        let mut n_of: BTreeMap<IpAddr, usize> = BTreeMap::from([(newcomer, 1)]);
        for (peer, _) in self.connections.values() {
            *n_of.entry(*peer).or_default() += 1;
        }
        let most = n_of.values().copied().max().unwrap_or(0);
        let of_many = |connection: &(IpAddr, _)| n_of.get(&connection.0) == Some(&most);
        let mut connections = self.connections.iter();
        let oldest = connections.find(|(_, connection)| of_many(connection));
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some((_, cut)) = self.connections.remove(&number)
        {
            // Sending fails if the connection has just ended by itself.
            let _ = cut.send(());
        }
    }
}

impl Stranger {
    /// Waits until the place is given to another connection.
    pub(crate) async fn cut(&mut self) {
        // No error is possible here: the sender either sends first, or is dropped together with this place.
        let _ = (&mut self.cut).await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.open().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    fn is_cut(stranger: &mut Stranger) -> bool {
        stranger.cut.try_recv().is_ok()
    }

    #[test]
    fn who_opens_many_connections_cuts_its_own_and_no_others() {
        let strangers = Strangers::new(4);
        let mut member = strangers.admit(from(1));
        let mut many: Vec<Stranger> = (0..100).map(|_| strangers.admit(from(2))).collect();
        assert!(!is_cut(&mut member));
        let n_cut = many.iter_mut().map(is_cut).filter(|it| *it).count();
        assert_eq!(n_cut, 97);
        // A connection from another address gets a place at once.
        let mut other = strangers.admit(from(3));
        assert!(!is_cut(&mut member) && !is_cut(&mut other));
        assert!(is_cut(&mut many[97]), "the oldest of the address with most");
    }

    #[test]
    fn of_as_many_addresses_as_places_the_oldest_goes() {
        let strangers = Strangers::new(3);
        let mut all: Vec<Stranger> = (1..=3).map(|host| strangers.admit(from(host))).collect();
        let _newest = strangers.admit(from(4));
        assert!(is_cut(&mut all[0]));
        assert!(!is_cut(&mut all[1]));
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_has_joined() {
        let strangers = Strangers::new(1);
        drop(strangers.admit(from(1)));
        assert_eq!(strangers.open().connections.len(), 0);
        let mut first = strangers.admit(from(1));
        let _second = strangers.admit(from(1));
        assert!(is_cut(&mut first));
        drop(first);
        assert_eq!(strangers.open().connections.len(), 1);
    }
}
