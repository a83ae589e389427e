//! Accepts connections from anybody, bounds their number and closes unused ones, so that strangers cannot take every
//! descriptor of the process.
//!
//! If the limit is reached, a new connection replaces another one. The first choice is the oldest connection that has
//! called nothing yet. The second is the connection that has been idle for longest: its client can open another one.
//! If all connections are busy, the choice is the newest connection of the address (of Unix sockets: the user) that
//! has most, provided that it has more than the newcomer's will have. Otherwise the new connection is closed at once.
//! If the process has no descriptor left, the limit becomes three quarters of the connections that are open.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use stream_socket::{Listener, Peer, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, Sleep};
use tonic::transport::server::Connected;

use crate::authority::AuthorityRepair;
use crate::bytes::Kind;
use crate::device::lock;
use crate::limits::{ACCEPT_RETRY_MS, CONNECTIONS_MIN, CONNECTIONS_TOLD_S};
use crate::pace::{Pace, PerSecond};

/// How many connections a service may have, and how long they may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Name of the service, for the log.
    pub service: &'static str,
    pub open_max: usize,
    /// How long a connection may be silent before its first call.
    pub silent_max: Duration,
}

pub struct Connections {
    listener: Listener,
    limits: ConnectionLimits,
    open: Arc<Mutex<Open>>,
}

struct Open {
    n_accepted: u64,
    open_max: usize,
    /// By number: the oldest is the first.
    callers: BTreeMap<u64, Caller>,
    told: Told,
}

/// Connections cut or refused since the last log line.
#[derive(Default)]
struct Told {
    at: Option<Instant>,
    n_cut: u64,
}

/// The client of a connection.
#[derive(Debug, Clone)]
pub struct Caller(Arc<CallerState>);

#[derive(Debug)]
struct CallerState {
    peer: Peer,
    calls: Mutex<Calls>,
    /// Sending closes the connection.
    cut: Mutex<Option<oneshot::Sender<()>>>,
    free_for_answers: OnceLock<Arc<Semaphore>>,
    free_for_requests: OnceLock<Arc<Semaphore>>,
    pace: Mutex<Pace>,
}

#[derive(Debug, Default)]
struct Calls {
    /// Calls in progress.
    n_open: usize,
    /// When the last call ended. `None` before the first.
    idle_since: Option<Instant>,
}

pub(crate) struct Call(Caller);

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = lock(&self.0.0.calls);
        calls.n_open -= 1;
        calls.idle_since = Some(Instant::now());
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
            calls: Mutex::default(),
            cut: Mutex::new(cut),
            free_for_answers: OnceLock::new(),
            free_for_requests: OnceLock::new(),
            pace: Mutex::default(),
        }))
    }

    pub(crate) fn peer(&self) -> Peer {
        self.0.peer
    }

    /// Counts a call: from now on the connection is no silent stranger.
    pub(crate) fn begin_call(&self) -> Call {
        lock(&self.0.calls).n_open += 1;
        Call(self.clone())
    }

    /// Closes the connection.
    pub(crate) fn cut(&self) {
        if let Some(cut) = lock(&self.0.cut).take() {
            // The connection may have ended on its own just now.
            let _ = cut.send(());
        }
    }

    /// The caller's free bytes. `max` must be the same in each call.
    pub(crate) fn free(&self, kind: Kind, max: usize) -> Arc<Semaphore> {
        let free = match kind {
            Kind::Answers => &self.0.free_for_answers,
            Kind::Requests => &self.0.free_for_requests,
        };
        Arc::clone(free.get_or_init(|| Arc::new(Semaphore::new(max))))
    }

    /// The earliest time at which a message that arrives now may be processed.
    pub(crate) fn turn(&self, rate: PerSecond) -> Instant {
        lock(&self.0.pace).turn(Instant::now(), rate)
    }

    fn is_silent(&self) -> bool {
        let calls = lock(&self.0.calls);
        calls.n_open == 0 && calls.idle_since.is_none()
    }

    /// `None` while a call is in progress, and before the first call.
    fn idle_since(&self) -> Option<Instant> {
        let calls = lock(&self.0.calls);
        calls.idle_since.filter(|_| calls.n_open == 0)
    }
}

/// An accepted connection, counted until it is dropped.
pub struct Connection {
    stream: Stream,
    /// Of Unix sockets only.
    authority: Option<AuthorityRepair>,
    caller: Caller,
    number: u64,
    silent_max: Duration,
    deadline: Pin<Box<Sleep>>,
    cut: oneshot::Receiver<()>,
    open: Arc<Mutex<Open>>,
}

impl Connections {
    pub fn new(listener: impl Into<Listener>, limits: ConnectionLimits) -> Self {
        Self {
            listener: listener.into(),
            limits,
            open: Arc::new(Mutex::new(Open {
                n_accepted: 0,
                open_max: limits.open_max,
                callers: BTreeMap::new(),
                told: Told::default(),
            })),
        }
    }

    /// The address of the listener.
    ///
    /// # Errors
    /// The kernel does not report it, or the listener is a Unix socket.
    pub fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
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
                    lock(&self.open).be_fewer(&self.limits, &error);
                    tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
                }
            }
        }
    }

    fn admit(&self, stream: Stream, peer: Peer) -> Option<Connection> {
        let mut open = lock(&self.open);
        if open.callers.len() >= open.open_max {
            let is_room = open.cut_one() || open.cut_of_many(peer);
            open.told.n_cut += 1;
            open.tell(&self.limits, &"as many as there may be");
            if !is_room {
                return None;
            }
        }
        // Answers are short: Nagle's algorithm would only delay them.
        stream.set_nodelay();
        let (tell, cut) = oneshot::channel();
        let caller = Caller::of(peer, Some(tell));
        open.n_accepted += 1;
        let number = open.n_accepted;
        open.callers.insert(number, caller.clone());
        let is_unix = matches!(stream, Stream::Unix(_));
        Some(Connection {
            stream,
            authority: is_unix.then(AuthorityRepair::default),
            caller,
            number,
            silent_max: self.limits.silent_max,
            deadline: Box::pin(tokio::time::sleep(self.limits.silent_max)),
            cut,
            open: Arc::clone(&self.open),
        })
    }
}

impl Open {
    /// Lowers the limit after a failed accept: most likely the process has no descriptor left, and other users of
    /// descriptors need some.
    fn be_fewer(&mut self, limits: &ConnectionLimits, error: &io::Error) {
        self.open_max = (self.callers.len() * 3 / 4).max(CONNECTIONS_MIN);
        while self.callers.len() > self.open_max && self.cut_one() {
            self.told.n_cut += 1;
        }
        self.tell(limits, error);
    }

    /// Cuts the oldest connection that has called nothing, else the one that has been idle for longest. False if all
    /// are busy.
    fn cut_one(&mut self) -> bool {
        let mut callers = self.callers.iter();
        let silent = callers.find(|(_, caller)| caller.is_silent());
        let idle = || {
            let callers = self.callers.iter();
            let idle = callers.filter_map(|(number, caller)| Some((caller.idle_since()?, number)));
            idle.min().map(|(_, number)| *number)
        };
        let chosen = silent.map(|(number, _)| *number).or_else(idle);
        chosen.is_some_and(|number| self.cut(number))
    }

    /// Cuts the newest connection of the address that has most, provided that the newcomer's address will still have
    /// fewer. Otherwise false.
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

    fn tell(&mut self, limits: &ConnectionLimits, why: &dyn Display) {
        let now = Instant::now();
        let interval = Duration::from_secs(CONNECTIONS_TOLD_S);
        if self.told.at.is_some_and(|at| now - at < interval) {
            return;
        }
        let (service, open) = (limits.service, self.callers.len());
        let closed = std::mem::take(&mut self.told.n_cut);
        self.told.at = Some(now);
        tracing::warn!(
            event = "connections_full",
            service,
            open,
            closed,
            reason = %why,
            "{service}: {closed} connections that called nothing just then, or came too many, were closed: {why}"
        );
    }
}

impl Connection {
    /// Restarts the timeout for silence.
    fn progress(&mut self) {
        self.deadline
            .as_mut()
            .reset(Instant::now() + self.silent_max);
    }

    /// Fails if the connection must end: it was cut to make room, or it was silent for too long before its first
    /// call. Otherwise wakes the task when one of these happens.
    fn expect_wanted(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if Pin::new(&mut self.cut).poll(cx).is_ready() {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "closed to make room for others",
            ));
        }
        if self.caller.is_silent() && self.deadline.as_mut().poll(cx).is_ready() {
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
        lock(&self.open).callers.remove(&self.number);
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
        let n_before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        if let Some(authority) = &mut this.authority {
            authority.mend(&mut buffer.filled_mut()[n_before..]);
        }
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

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn connections(open_max: usize, silent_max: Duration) -> Connections {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let limits = ConnectionLimits {
            service: "test",
            open_max,
            silent_max,
        };
        Connections::new(listener, limits)
    }

    /// Returns the accepted end first.
    async fn pair(connections: &Connections) -> (Connection, TcpStream) {
        let stream = TcpStream::connect(connections.local_addr().unwrap());
        let (connection, stream) = tokio::join!(connections.accept(), stream);
        (connection, stream.unwrap())
    }

    /// Connects from 127.0.0.`host`.
    async fn pair_from(connections: &Connections, host: u8) -> (Connection, TcpStream) {
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
        let _call = busy.connect_info().begin_call();
        let (mut idle, _far_of_idle) = pair(&connections).await;
        drop(idle.connect_info().begin_call());
        let (mut lately, _far_of_lately) = pair(&connections).await;
        drop(lately.connect_info().begin_call());
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
            let call = connection.connect_info().begin_call();
            of_one.push((connection, far, call));
        }
        // The second address takes over half of the places, the newest first.
        let mut of_other = Vec::new();
        for newest in (N_MAX / 2..N_MAX).rev() {
            let (connection, far) = pair_from(&connections, 3).await;
            let call = connection.connect_info().begin_call();
            of_other.push((connection, far, call));
            assert!(is_cut(&mut of_one[newest].0).await, "{newest}");
        }
        // A further connection of the second address is closed, and one of a third address replaces another.
        let address = connections.local_addr().unwrap();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 3], 0).into()).unwrap();
        let mut refused = socket.connect(address).await.unwrap();
        let (third, _far_of_third) = pair_from(&connections, 4).await;
        let expected = Peer::Address(IpAddr::from([127, 0, 0, 4]));
        assert_eq!(third.connect_info().peer(), expected);
        assert_eq!(refused.read(&mut [0]).await.unwrap_or(0), 0);
        let mut n_cut = 0;
        for (connection, _, _) in of_one[..N_MAX / 2].iter_mut().chain(&mut of_other) {
            n_cut += usize::from(is_cut(connection).await);
        }
        assert_eq!(n_cut, 1);
    }

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_new_one_takes_the_place_of_the_oldest_that_called_nothing() {
        let connections = connections(3, LONG).await;
        let (mut caller, mut far) = pair(&connections).await;
        let _call = caller.connect_info().begin_call();
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
        let _call = caller.connect_info().begin_call();
        let accepting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.accept().await }
        });
        let address = connections.local_addr().unwrap();
        let mut refused = TcpStream::connect(address).await.unwrap();
        assert_eq!(refused.read(&mut [0]).await.unwrap_or(0), 0);
        // The caller's place is free as soon as its connection is dropped.
        drop(caller);
        let _taken = TcpStream::connect(address).await.unwrap();
        accepting.await.unwrap();
    }

    #[tokio::test]
    async fn one_that_calls_nothing_ends_and_one_that_has_stays() {
        let connections = connections(2, Duration::from_millis(50)).await;
        let (mut stranger, _far) = pair(&connections).await;
        let ended = stranger.read_u8().await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        let (mut caller, mut far) = pair(&connections).await;
        drop(caller.connect_info().begin_call());
        let quiet = tokio::time::timeout(Duration::from_millis(200), caller.read_u8());
        assert!(quiet.await.is_err(), "it was not cut");
        far.write_u8(9).await.unwrap();
        assert_eq!(caller.read_u8().await.unwrap(), 9);
    }
}
