//! Connections that anybody may open: bounded in number, and cut where nothing comes of them, so that
//! strangers cannot take every descriptor of the process.
//!
//! One that comes when there are as many as may be takes the place of the oldest that has called nothing
//! yet; where all have, it is closed at once. A process that has no descriptor left learns from it how
//! many may be: three quarters of what is open.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};
use tonic::transport::server::Connected;

use crate::device::lock;
use crate::limits::{ACCEPT_RETRY_MS, CONNECTIONS_MIN, CONNECTIONS_TOLD_S};

/// How many connections of a kind there may be, and how long they may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// What is served, for the log.
    pub service: &'static str,
    /// Open at once.
    pub open_max: usize,
    /// Without a byte in or out, until something was called.
    pub silent_max: Duration,
}

/// A listener whose connections are bounded.
pub struct Connections {
    listener: TcpListener,
    limits: ConnectionLimits,
    open: Arc<Mutex<Open>>,
}

struct Open {
    n_accepted: u64,
    open_max: usize,
    /// By number, so the oldest first.
    callers: BTreeMap<u64, (Caller, oneshot::Sender<()>)>,
    told: Told,
}

/// What was cut or refused since it was last told.
#[derive(Default)]
struct Told {
    at: Option<Instant>,
    n_cut: u64,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Default)]
pub struct Caller(Arc<AtomicBool>);

impl Caller {
    /// It has called something, so it is no silent stranger.
    pub fn has_called(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_silent(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// One of them.
pub struct Connection {
    stream: TcpStream,
    caller: Caller,
    number: u64,
    silent_max: Duration,
    deadline: Pin<Box<Sleep>>,
    cut: oneshot::Receiver<()>,
    open: Arc<Mutex<Open>>,
}

impl Connections {
    /// Connections of a listener.
    pub fn new(listener: TcpListener, limits: ConnectionLimits) -> Self {
        Self {
            listener,
            limits,
            open: Arc::new(Mutex::new(Open {
                n_accepted: 0,
                open_max: limits.open_max,
                callers: BTreeMap::new(),
                told: Told::default(),
            })),
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// The next one. Never fails: without a descriptor left it makes room, and tries again a little
    /// later.
    pub async fn accept(&self) -> Connection {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if let Some(connection) = self.admit(stream) {
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

    fn admit(&self, stream: TcpStream) -> Option<Connection> {
        let mut open = lock(&self.open);
        if open.callers.len() >= open.open_max {
            let is_room = open.cut_oldest();
            open.tell(&self.limits, &"as many as there may be");
            if !is_room {
                return None;
            }
        }
        // Answers are short; without it they only wait a little longer.
        let _ = stream.set_nodelay(true);
        let (caller, (tell, cut)) = (Caller::default(), oneshot::channel());
        open.n_accepted += 1;
        let number = open.n_accepted;
        open.callers.insert(number, (caller.clone(), tell));
        Some(Connection {
            stream,
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
    /// The process has no descriptor left, most likely: some are to be free for others from now on.
    fn be_fewer(&mut self, limits: &ConnectionLimits, error: &io::Error) {
        self.open_max = (self.callers.len() * 3 / 4).max(CONNECTIONS_MIN);
        while self.callers.len() > self.open_max && self.cut_oldest() {}
        self.tell(limits, error);
    }

    /// Cuts the oldest that has called nothing; false if all have.
    fn cut_oldest(&mut self) -> bool {
        self.told.n_cut += 1;
        let mut callers = self.callers.iter();
        let oldest = callers.find(|(_, (caller, _))| caller.is_silent());
        let oldest = oldest.map(|(number, _)| *number);
        let Some((_, tell)) = oldest.and_then(|number| self.callers.remove(&number)) else {
            return false;
        };
        // It may have ended on its own just now.
        let _ = tell.send(());
        true
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
            "{service}: {closed} connections that called nothing, or came too many, were closed: {why}"
        );
    }
}

impl Connection {
    /// Something went over it.
    fn progress(&mut self) {
        self.deadline
            .as_mut()
            .reset(Instant::now() + self.silent_max);
    }

    /// Whether it is to end; else it is looked at again when it is.
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

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

    /// Both ends, the accepted one first.
    async fn pair(connections: &Connections) -> (Connection, TcpStream) {
        let stream = TcpStream::connect(connections.local_addr().unwrap());
        let (connection, stream) = tokio::join!(connections.accept(), stream);
        (connection, stream.unwrap())
    }

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_new_one_takes_the_place_of_the_oldest_that_called_nothing() {
        let connections = connections(3, LONG).await;
        let (mut caller, mut far) = pair(&connections).await;
        caller.connect_info().has_called();
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
    async fn where_all_have_called_a_new_one_is_closed() {
        let connections = Arc::new(connections(1, LONG).await);
        let (caller, _far) = pair(&connections).await;
        caller.connect_info().has_called();
        let accepting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.accept().await }
        });
        let address = connections.local_addr().unwrap();
        let mut refused = TcpStream::connect(address).await.unwrap();
        assert_eq!(refused.read(&mut [0]).await.unwrap_or(0), 0);
        // Its place is free as soon as it has gone.
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
        caller.connect_info().has_called();
        let quiet = tokio::time::timeout(Duration::from_millis(200), caller.read_u8());
        assert!(quiet.await.is_err(), "it was not cut");
        far.write_u8(9).await.unwrap();
        assert_eq!(caller.read_u8().await.unwrap(), 9);
    }
}
