//! Accepts connections, with a TLS handshake if the server has a certificate. Each handshake runs in its own task with
//! a deadline, so that a silent client delays nobody. During the handshake the connection counts as one that has made
//! no call yet.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use stream_socket::{BoundedListener, CONNECTIONS_LOG_INTERVAL, Connection, Peer};
use tls::Renewal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::authority::AuthorityRepair;
use crate::caller::Caller;
use crate::device::lock;
use crate::limits::{REFUSED_LINGER_BYTES, REFUSED_LINGER_MS, TLS_FILES_INTERVAL_S};

/// A connection that is ready for calls.
pub(crate) struct Transport {
    stream: Wire,
    caller: Caller,
    /// Repairs the `:authority` of calls; set only for Unix sockets without TLS.
    authority: Option<AuthorityRepair>,
}

enum Wire {
    Plain(Connection),
    Tls(Box<TlsStream<Connection>>),
}

#[derive(Clone)]
pub(crate) struct Handshakes {
    pub(crate) tls: Arc<tls::Server>,
    pub(crate) time_max: Duration,
}

/// Failed handshakes since the last log line.
#[derive(Default)]
struct Failed {
    logged_at: Option<Instant>,
    n_unlogged: u64,
}

/// Sends every connection that is ready for calls to `accepted`, until the receiver is dropped.
pub(crate) async fn accept(
    listener: BoundedListener,
    made: Option<Handshakes>,
    accepted: Sender<io::Result<Transport>>,
) {
    let Some(made) = made else {
        while accepted
            .send(Ok(Transport::plain(listener.accept().await)))
            .await
            .is_ok()
        {}
        return;
    };
    // The handshakes end with this task.
    let mut handshakes = JoinSet::new();
    let failed = Arc::new(Mutex::new(Failed::default()));
    loop {
        let connection = listener.accept().await;
        while handshakes.try_join_next().is_some() {}
        if accepted.is_closed() {
            return;
        }
        let shaken = made.clone().shake_hands(connection, Arc::clone(&failed));
        let accepted = accepted.clone();
        handshakes.spawn(async move {
            if let Some(stream) = shaken.await {
                // Sending fails only if the server has ended meanwhile.
                let _ = accepted.send(Ok(Transport::encrypted(stream))).await;
            }
        });
    }
}

impl Handshakes {
    /// Performs the TLS handshake of a connection. If the handshake fails, logs the reason and returns `None`.
    async fn shake_hands(
        self,
        connection: Connection,
        failed: Arc<Mutex<Failed>>,
    ) -> Option<TlsStream<Connection>> {
        let peer = connection.caller().peer();
        let accepting = self.tls.acceptor().accept(connection).into_fallible();
        let reason = match timeout(self.time_max, accepting).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err((error, connection))) => {
                linger(connection).await;
                tls::refused(&error)
            }
            Err(_) => format!("the handshake was not done within {:?}", self.time_max),
        };
        lock(&failed).log(peer, &reason);
        None
    }
}

/// Closes a connection after the TLS alert, once the client's bytes are read. Unread bytes would make the kernel reset
/// the connection, and the client might never read the alert.
async fn linger(mut connection: Connection) {
    let rest = async {
        connection.shutdown().await?;
        let mut rest = (&mut connection).take(REFUSED_LINGER_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // The connection is closed in any case.
    let _ = timeout(Duration::from_millis(REFUSED_LINGER_MS), rest).await;
}

impl Failed {
    /// Logs at most one warning per interval, so that strangers cannot fill the log.
    fn log(&mut self, peer: Peer, reason: &str) {
        let now = Instant::now();
        if self
            .logged_at
            .is_some_and(|at| now - at < CONNECTIONS_LOG_INTERVAL)
        {
            self.n_unlogged += 1;
            tracing::debug!(event = "tls_refused", %peer, reason, "a client at {peer} was not let in: {reason}");
            return;
        }
        self.logged_at = Some(now);
        let others = match std::mem::take(&mut self.n_unlogged) {
            0 => String::new(),
            n => format!(" ({n} more since the last such line)"),
        };
        tracing::warn!(event = "tls_refused", %peer, reason, "a client at {peer} was not let in: {reason}{others}");
    }
}

/// Warns if every user of the machine can read the key.
pub(crate) fn warn_of_open_key(tls: &tls::Server) {
    if let Some(said) = tls::key_open_to_others(tls.key()) {
        let file = tls.key().display();
        tracing::warn!(event = "tls_key_open", %file, "{said}");
    }
}

/// Looks for renewed certificate files in an endless loop, and loads them.
pub(crate) async fn renew(tls: Arc<tls::Server>) {
    let mut was_expired = false;
    loop {
        tokio::time::sleep(Duration::from_secs(TLS_FILES_INTERVAL_S)).await;
        let looked_at = Arc::clone(&tls);
        // Another thread reads the file, which may be on a disk that does not answer.
        let renewed = tokio::task::spawn_blocking(move || looked_at.renew()).await;
        let file = tls.certificate().display();
        match renewed {
            Ok(Renewal::Done(until)) => {
                tracing::info!(
                    event = "tls_renewed",
                    %file,
                    until,
                    "new connections use the renewed certificate {file}, which is valid until {until}"
                );
                warn_of_open_key(&tls);
            }
            Ok(Renewal::Broken(error)) => tracing::warn!(
                event = "tls_renewal_failed",
                %error,
                "the renewed files cannot be used, so new connections use the former certificate: {error}"
            ),
            // An `Err` means that the task panicked; the next round tries again.
            Ok(Renewal::None) | Err(_) => {}
        }
        let is_expired = tls.is_expired();
        if is_expired && !was_expired {
            tracing::warn!(
                event = "tls_expired",
                %file,
                "certificate {file} has expired, and clients will not take it any more: renew it; the switch reads it again by itself"
            );
        }
        was_expired = is_expired;
    }
}

impl Transport {
    fn plain(connection: Connection) -> Self {
        let is_unix = matches!(connection.caller().peer(), Peer::User(_));
        Self {
            caller: Caller::of(&connection),
            authority: is_unix.then(AuthorityRepair::default),
            stream: Wire::Plain(connection),
        }
    }

    fn encrypted(stream: TlsStream<Connection>) -> Self {
        Self {
            caller: Caller::of(stream.get_ref().0),
            authority: None,
            stream: Wire::Tls(Box::new(stream)),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let n_before = buffer.filled().len();
        ready!(match &mut this.stream {
            Wire::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Wire::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        })?;
        if let Some(authority) = &mut this.authority {
            authority.mend(&mut buffer.filled_mut()[n_before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Wire::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Connected for Transport {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}
