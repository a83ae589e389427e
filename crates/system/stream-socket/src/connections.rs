//! Bounds the number of connections and closes unused ones, so that strangers cannot take every descriptor of the
//! process.
//!
//! If the limit is reached, an open connection is closed to make room for a new one. The first choice is the oldest
//! connection that has made no call yet. The second choice is the connection that has been idle for longest: its client
//! can connect again. If all connections are busy, the choice is the newest connection of the address (for Unix
//! sockets: the user) with the most connections, provided that this address has more connections than the new client's
//! address will have. If it has not, the new connection is closed at once.
//!
//! If the clients of a service may be silent for ever, only the connection that has been silent for longest can be
//! closed, whether or not it has made a call before.
//!
//! If the process has no descriptor left, a [`BoundedListener`] lowers its limit to three quarters of the connections
//! that are open.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use crate::{Listener, Peer, Stream};

/// The limit of a service's connections is never lowered below this number, however few descriptors the process has.
const CONNECTIONS_MIN: usize = 8;

/// Pause after a failed accept: without a free descriptor the kernel would fail again at once, over and over.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The shortest interval between two log lines about closed or refused connections.
pub const CONNECTIONS_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How many connections a service may have, and how long they may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Name of the service, for the log.
    pub service: &'static str,
    pub open_max: usize,
    /// How long a connection may be silent before its first call. `None` if a client may be a person: then a connection
    /// may be silent for any time, and a connection with a call in progress is never cut.
    pub silent_max: Option<Duration>,
}

/// The open connections of a service. Clones share them.
#[derive(Clone)]
pub struct Connections(Arc<Mutex<Open>>);

/// A listener whose connections are bounded.
pub struct BoundedListener {
    listener: Listener,
    connections: Connections,
}

struct Open {
    limits: ConnectionLimits,
    n_accepted: u64,
    /// The callers by the number of their connection, the oldest first.
    callers: BTreeMap<u64, Caller>,
    logged_at: Option<Instant>,
    /// Connections cut or refused since the last log line.
    n_cut: u64,
}

/// The client of a connection.
#[derive(Debug, Clone)]
pub struct Caller(Arc<CallerState>);

#[derive(Debug)]
struct CallerState {
    peer: Peer,
    calls: Mutex<Calls>,
    /// Sending on this channel closes the connection.
    cut: Mutex<Option<oneshot::Sender<()>>>,
}

#[derive(Debug)]
struct Calls {
    /// Calls in progress.
    n_open: usize,
    has_called: bool,
    /// When the last call ended, or when the connection was accepted.
    silent_since: Instant,
}

/// A call in progress.
#[derive(Debug)]
pub struct Call(Caller);

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = lock(&self.0.0.calls);
        calls.n_open -= 1;
        calls.silent_since = Instant::now();
    }
}

/// A caller in this process, without a connection.
impl Default for Caller {
    fn default() -> Self {
        Self::of(Peer::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)), None)
    }
}

impl Caller {
    fn of(peer: Peer, cut: Option<oneshot::Sender<()>>) -> Self {
        Self(Arc::new(CallerState {
            peer,
            calls: Mutex::new(Calls {
                n_open: 0,
                has_called: false,
                silent_since: Instant::now(),
            }),
            cut: Mutex::new(cut),
        }))
    }

    pub fn peer(&self) -> Peer {
        self.0.peer
    }

    /// Counts a call as in progress, and records that the connection has made a call.
    pub fn begin_call(&self) -> Call {
        let mut calls = lock(&self.0.calls);
        calls.n_open += 1;
        calls.has_called = true;
        Call(self.clone())
    }

    /// Closes the connection.
    pub fn cut(&self) {
        if let Some(cut) = lock(&self.0.cut).take() {
            // The connection may have ended on its own just now.
            let _ = cut.send(());
        }
    }

    fn has_called(&self) -> bool {
        lock(&self.0.calls).has_called
    }
}

/// An accepted connection, counted until it is dropped.
pub struct Connection {
    stream: Stream,
    caller: Caller,
    number: u64,
    silence: Option<Silence>,
    cut: oneshot::Receiver<()>,
    connections: Connections,
}

/// The time that a connection may be silent before its first call.
struct Silence {
    max: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Mutex::new(Open {
            limits,
            n_accepted: 0,
            callers: BTreeMap::new(),
            logged_at: None,
            n_cut: 0,
        })))
    }

    /// Admits a connection. If the limit is reached, this cuts another connection; `None` if no connection can be cut.
    pub fn admit(&self, stream: Stream, peer: Peer) -> Option<Connection> {
        let mut open = lock(&self.0);
        if open.is_full() && !open.make_room(peer) {
            return None;
        }
        Some(self.insert(&mut open, stream, peer))
    }

    fn insert(&self, open: &mut Open, stream: Stream, peer: Peer) -> Connection {
        // Answers are short: Nagle's algorithm would only delay them.
        stream.set_nodelay();
        let (cutter, cut) = oneshot::channel();
        let caller = Caller::of(peer, Some(cutter));
        open.n_accepted += 1;
        let number = open.n_accepted;
        open.callers.insert(number, caller.clone());
        Connection {
            stream,
            caller,
            number,
            silence: open.limits.silent_max.map(|max| Silence {
                max,
                deadline: Box::pin(tokio::time::sleep(max)),
            }),
            cut,
            connections: self.clone(),
        }
    }
}

impl BoundedListener {
    pub fn new(listener: impl Into<Listener>, limits: ConnectionLimits) -> Self {
        Self {
            listener: listener.into(),
            connections: Connections::new(limits),
        }
    }

    /// The address of the listener.
    ///
    /// # Errors
    /// The kernel does not report it, or the listener is a Unix socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for the next connection. Never fails: without a free descriptor it closes connections and tries again a
    /// little later.
    pub async fn accept(&self) -> Connection {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    if let Some(connection) = self.admit(stream, peer) {
                        return connection;
                    }
                }
                Err(error) => {
                    lock(&self.connections.0).be_fewer(&error);
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// As [`Connections::admit`]. If older connections are cut to make room, logs it.
    fn admit(&self, stream: Stream, peer: Peer) -> Option<Connection> {
        let mut open = lock(&self.connections.0);
        if open.is_full() {
            let is_room = open.make_room(peer);
            open.log(&"the limit is reached");
            if !is_room {
                return None;
            }
        }
        Some(self.connections.insert(&mut open, stream, peer))
    }
}

impl Open {
    fn is_full(&self) -> bool {
        self.callers.len() >= self.limits.open_max
    }

    /// Cuts a connection to make room for a new one of `newcomer`. Returns false if no connection can be cut.
    fn make_room(&mut self, newcomer: Peer) -> bool {
        self.n_cut += 1;
        self.cut_one() || self.limits.silent_max.is_some() && self.cut_of_many(newcomer)
    }

    /// Lowers the limit after a failed accept: most likely the process has no descriptor left, and other parts of the
    /// process need some.
    fn be_fewer(&mut self, error: &io::Error) {
        self.limits.open_max = (self.callers.len() * 3 / 4).max(CONNECTIONS_MIN);
        while self.callers.len() > self.limits.open_max && self.cut_one() {
            self.n_cut += 1;
        }
        self.log(error);
    }

    /// Cuts, of the connections without a call in progress, the connection that has been silent for longest. If silence
    /// is limited, connections that have never made a call are cut before all others. Returns false if all connections
    /// are busy.
    fn cut_one(&mut self) -> bool {
        let strangers_first = self.limits.silent_max.is_some();
        let idle = self.callers.iter().filter_map(|(number, caller)| {
            let calls = lock(&caller.0.calls);
            let is_known = strangers_first && calls.has_called;
            (calls.n_open == 0).then_some((is_known, calls.silent_since, *number))
        });
        let chosen = idle.min();
        chosen.is_some_and(|(_, _, number)| self.cut(number))
    }

    /// Cuts the newest connection of the address with the most connections, provided that the newcomer's address will
    /// then still have fewer connections than this address. Otherwise returns false.
    fn cut_of_many(&mut self, newcomer: Peer) -> bool {
        let mut n_of: BTreeMap<Peer, usize> = BTreeMap::new();
        for caller in self.callers.values() {
            *n_of.entry(caller.peer()).or_default() += 1;
        }
        let n_newcomers = n_of.get(&newcomer).copied().unwrap_or(0);
        let most = n_of.into_iter().max_by_key(|(_, n_open)| *n_open);
        let most = most.filter(|(_, n_open)| *n_open > n_newcomers + 1);
        let newest = most.and_then(|(peer, _)| {
            let mut callers = self.callers.iter().rev();
            callers.find(|(_, caller)| caller.peer() == peer)
        });
        let newest = newest.map(|(number, _)| *number);
        newest.is_some_and(|number| self.cut(number))
    }

    fn cut(&mut self, number: u64) -> bool {
        let caller = self.callers.remove(&number);
        caller.inspect(Caller::cut).is_some()
    }

    fn log(&mut self, why: &dyn Display) {
        let now = Instant::now();
        if self
            .logged_at
            .is_some_and(|at| now - at < CONNECTIONS_LOG_INTERVAL)
        {
            return;
        }
        let (service, open) = (self.limits.service, self.callers.len());
        let closed = std::mem::take(&mut self.n_cut);
        self.logged_at = Some(now);
        tracing::warn!(
            event = "connections_full",
            service,
            open,
            closed,
            reason = %why,
            "{service}: {closed} connections were closed, idle ones or those of clients with too many: {why}"
        );
    }
}

impl Connection {
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Restarts the timeout for silence.
    fn progress(&mut self) {
        if let Some(silence) = &mut self.silence {
            silence
                .deadline
                .as_mut()
                .reset(Instant::now() + silence.max);
        }
    }

    /// Fails if the connection must end, because it was cut to make room or was silent for too long before its first
    /// call. Otherwise wakes the task when either happens.
    fn expect_wanted(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if Pin::new(&mut self.cut).poll(cx).is_ready() {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "closed to make room for others",
            ));
        }
        if let Some(silence) = &mut self.silence
            && !self.caller.has_called()
            && silence.deadline.as_mut().poll(cx).is_ready()
        {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "nothing was called",
            ));
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.connections.0).callers.remove(&self.number);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.expect_wanted(cx)?;
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        this.progress();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.expect_wanted(cx)?;
        let n_bytes = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.progress();
        Poll::Ready(Ok(n_bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Ignores poisoning: a panic elsewhere does not make the data wrong.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn connections(open_max: usize, silent_max: Option<Duration>) -> BoundedListener {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let limits = ConnectionLimits {
            service: "test",
            open_max,
            silent_max,
        };
        BoundedListener::new(listener, limits)
    }

    /// Makes a connection. Returns its accepted end first, then the client's end.
    async fn pair(connections: &BoundedListener) -> (Connection, TcpStream) {
        let stream = TcpStream::connect(connections.local_addr().unwrap());
        let (connection, stream) = tokio::join!(connections.accept(), stream);
        (connection, stream.unwrap())
    }

    /// Connects from 127.0.0.`host`.
    async fn pair_from(connections: &BoundedListener, host: u8) -> (Connection, TcpStream) {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, host], 0).into()).unwrap();
        let stream = socket.connect(connections.local_addr().unwrap());
        let (connection, stream) = tokio::join!(connections.accept(), stream);
        (connection, stream.unwrap())
    }

    async fn is_cut(connection: &mut Connection) -> bool {
        let read = tokio::time::timeout(Duration::from_millis(50), connection.read_u8());
        matches!(read.await, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted)
    }

    #[tokio::test]
    async fn one_over_which_nothing_was_called_for_longest_makes_room_before_a_busy_one() {
        let connections = connections(3, LONG).await;
        let (mut busy, _far_of_busy) = pair(&connections).await;
        let _call = busy.caller().begin_call();
        let (mut idle, _far_of_idle) = pair(&connections).await;
        drop(idle.caller().begin_call());
        let (mut lately, _far_of_lately) = pair(&connections).await;
        drop(lately.caller().begin_call());
        let (_new, _far_of_new) = pair(&connections).await;
        assert!(is_cut(&mut idle).await);
        assert!(!is_cut(&mut busy).await);
        assert!(!is_cut(&mut lately).await);
    }

    #[tokio::test]
    async fn where_all_are_busy_an_address_gives_way_to_those_that_have_fewer() {
        const N_MAX: usize = 6;
        let connections = connections(N_MAX, LONG).await;
        let mut of_one = Vec::new();
        for _ in 0..N_MAX {
            let (connection, far) = pair_from(&connections, 2).await;
            let call = connection.caller().begin_call();
            of_one.push((connection, far, call));
        }
        // The second address takes half of the connections from the first address, the newest first.
        let mut of_other = Vec::new();
        for newest in (N_MAX / 2..N_MAX).rev() {
            let (connection, far) = pair_from(&connections, 3).await;
            let call = connection.caller().begin_call();
            of_other.push((connection, far, call));
            assert!(is_cut(&mut of_one[newest].0).await, "{newest}");
        }
        // A further connection of the second address is refused. A connection of a third address replaces an open
        // connection.
        let address = connections.local_addr().unwrap();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 3], 0).into()).unwrap();
        let mut refused = socket.connect(address).await.unwrap();
        let (third, _far_of_third) = pair_from(&connections, 4).await;
        let expected = Peer::Address(IpAddr::from([127, 0, 0, 4]));
        assert_eq!(third.caller().peer(), expected);
        assert_eq!(refused.read(&mut [0]).await.unwrap_or(0), 0);
        let mut n_cut = 0;
        for (connection, _, _) in of_one[..N_MAX / 2].iter_mut().chain(&mut of_other) {
            n_cut += usize::from(is_cut(connection).await);
        }
        assert_eq!(n_cut, 1);
    }

    const LONG: Option<Duration> = Some(Duration::from_secs(600));

    #[tokio::test]
    async fn a_new_one_takes_the_place_of_the_oldest_that_called_nothing() {
        let connections = connections(3, LONG).await;
        let (mut caller, mut far) = pair(&connections).await;
        let _call = caller.caller().begin_call();
        let (mut stranger, _far_of_stranger) = pair(&connections).await;
        let (mut other, mut far_of_other) = pair(&connections).await;
        let (_new, _far_of_new) = pair(&connections).await;
        let cut = stranger.read_u8().await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::ConnectionAborted);
        for (near, far) in [(&mut caller, &mut far), (&mut other, &mut far_of_other)] {
            far.write_u8(7).await.unwrap();
            assert_eq!(near.read_u8().await.unwrap(), 7);
            near.write_u8(8).await.unwrap();
            assert_eq!(far.read_u8().await.unwrap(), 8);
        }
    }

    #[tokio::test]
    async fn where_all_are_busy_and_of_one_address_a_new_one_is_closed() {
        let connections = Arc::new(connections(1, LONG).await);
        let (caller, _far) = pair(&connections).await;
        let _call = caller.caller().begin_call();
        let accepting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.accept().await }
        });
        let address = connections.local_addr().unwrap();
        let mut refused = TcpStream::connect(address).await.unwrap();
        assert_eq!(refused.read(&mut [0]).await.unwrap_or(0), 0);
        // There is room for another connection as soon as `caller` is dropped.
        drop(caller);
        let _taken = TcpStream::connect(address).await.unwrap();
        accepting.await.unwrap();
    }

    #[tokio::test]
    async fn one_that_calls_nothing_ends_and_one_that_has_stays() {
        let connections = connections(2, Some(Duration::from_millis(50))).await;
        let (mut stranger, _far) = pair(&connections).await;
        let ended = stranger.read_u8().await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        let (mut caller, mut far) = pair(&connections).await;
        drop(caller.caller().begin_call());
        let quiet = tokio::time::timeout(Duration::from_millis(200), caller.read_u8());
        assert!(quiet.await.is_err(), "it was not cut");
        far.write_u8(9).await.unwrap();
        assert_eq!(caller.read_u8().await.unwrap(), 9);
    }

    #[tokio::test]
    async fn where_silence_has_no_limit_the_one_silent_for_longest_makes_room_and_a_busy_one_never()
    {
        let connections = connections(3, None).await;
        let (mut busy, _far_of_busy) = pair_from(&connections, 2).await;
        let call = busy.caller().begin_call();
        let (mut known, _far_of_known) = pair_from(&connections, 2).await;
        drop(known.caller().begin_call());
        let (mut stranger, _far_of_stranger) = pair_from(&connections, 2).await;
        let (mut new, _far_of_new) = pair_from(&connections, 3).await;
        assert!(is_cut(&mut known).await);
        for connection in [&mut busy, &mut stranger, &mut new] {
            assert!(!is_cut(connection).await);
        }
        let _calls = [&stranger, &new].map(|connection| connection.caller().begin_call());
        let socket = TcpStream::connect(connections.local_addr().unwrap());
        let (accepted, _far) = tokio::join!(connections.listener.accept(), socket);
        let (stream, peer) = accepted.unwrap();
        assert!(connections.connections.admit(stream, peer).is_none());
        assert!(!is_cut(&mut busy).await);
        drop(call);
        let (_newest, _far_of_newest) = pair_from(&connections, 3).await;
        assert!(is_cut(&mut busy).await);
    }
}
