//! Connections as they come, made TLS ones where the server has a certificate: each in a task of its own with a
//! deadline, so that one who says nothing holds up nobody. A handshake counts as a connection that has called
//! nothing yet.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tls::Renewal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::connections::{Caller, Connection, Connections};
use crate::device::lock;
use crate::limits::{
    CONNECTIONS_TOLD_S, REFUSED_LINGER_BYTES, REFUSED_LINGER_MS, TLS_FILES_INTERVAL_S,
};

/// A connection that calls can come over.
pub(crate) enum Transport {
    Plain(Connection),
    Tls(Box<TlsStream<Connection>>),
}

/// How connections are made TLS ones.
#[derive(Clone)]
pub(crate) struct Handshakes {
    pub(crate) tls: Arc<tls::Server>,
    pub(crate) time_max: Duration,
}

/// Handshakes that failed since it was last told.
#[derive(Default)]
struct Failed {
    told_at: Option<Instant>,
    n_untold: u64,
}

/// Gives every connection that is ready for calls, until nobody takes them any more.
pub(crate) async fn accept(
    connections: Connections,
    made: Option<Handshakes>,
    accepted: Sender<io::Result<Transport>>,
) {
    let Some(made) = made else {
        while accepted
            .send(Ok(Transport::Plain(connections.accept().await)))
            .await
            .is_ok()
        {}
        return;
    };
    // They end with this task.
    let mut handshakes = JoinSet::new();
    let failed = Arc::new(Mutex::new(Failed::default()));
    loop {
        let connection = connections.accept().await;
        while handshakes.try_join_next().is_some() {}
        if accepted.is_closed() {
            return;
        }
        let shaken = made.clone().shake_hands(connection, Arc::clone(&failed));
        let accepted = accepted.clone();
        handshakes.spawn(async move {
            if let Some(stream) = shaken.await {
                // The server has ended meanwhile.
                let _ = accepted.send(Ok(Transport::Tls(Box::new(stream)))).await;
            }
        });
    }
}

impl Handshakes {
    /// None where it fails, which the log is told.
    async fn shake_hands(
        self,
        connection: Connection,
        failed: Arc<Mutex<Failed>>,
    ) -> Option<TlsStream<Connection>> {
        let caller = connection.connect_info();
        let accepting = self.tls.acceptor().accept(connection).into_fallible();
        let reason = match timeout(self.time_max, accepting).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err((error, connection))) => {
                linger(connection).await;
                tls::refused(&error)
            }
            Err(_) => format!("the handshake was not done within {:?}", self.time_max),
        };
        lock(&failed).tell(&caller, &reason);
        None
    }
}

/// Ends a connection whose client was told why. If what it sends was left unread the kernel would reset the
/// connection, and the client might never read it.
async fn linger(mut connection: Connection) {
    let rest = async {
        connection.shutdown().await?;
        let mut rest = (&mut connection).take(REFUSED_LINGER_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // It is closed whatever comes of it.
    let _ = timeout(Duration::from_millis(REFUSED_LINGER_MS), rest).await;
}

impl Failed {
    /// One line a while: strangers could fill the log.
    fn tell(&mut self, caller: &Caller, reason: &str) {
        let (now, interval) = (Instant::now(), Duration::from_secs(CONNECTIONS_TOLD_S));
        let peer = caller.peer();
        if self.told_at.is_some_and(|at| now - at < interval) {
            self.n_untold += 1;
            tracing::debug!(event = "tls_refused", %peer, reason, "a client at {peer} was not let in: {reason}");
            return;
        }
        self.told_at = Some(now);
        let others = match std::mem::take(&mut self.n_untold) {
            0 => String::new(),
            n => format!(" ({n} more since the last such line)"),
        };
        tracing::warn!(event = "tls_refused", %peer, reason, "a client at {peer} was not let in: {reason}{others}");
    }
}

/// Warns of a key that every user of the machine can take.
pub(crate) fn tell_open_key(tls: &tls::Server) {
    if let Some(said) = tls::key_open_to_others(tls.key()) {
        let file = tls.key().display();
        tracing::warn!(event = "tls_key_open", %file, "{said}");
    }
}

/// Takes renewed certificates. Never ends.
pub(crate) async fn renew(tls: Arc<tls::Server>) {
    let mut was_expired = false;
    loop {
        tokio::time::sleep(Duration::from_secs(TLS_FILES_INTERVAL_S)).await;
        let looked_at = Arc::clone(&tls);
        // A file may be on a disk that does not answer.
        let renewed = tokio::task::spawn_blocking(move || looked_at.renew()).await;
        let file = tls.certificate().display();
        match renewed {
            Ok(Renewal::Done(until)) => {
                tracing::info!(
                    event = "tls_renewed",
                    %file,
                    until,
                    "new connections have the renewed certificate {file}, which is good until {until}"
                );
                tell_open_key(&tls);
            }
            Ok(Renewal::Broken(error)) => tracing::warn!(
                event = "tls_renewal_failed",
                %error,
                "the renewed files cannot be used, so new connections have the former certificate: {error}"
            ),
            // It panics only where something else is broken, and the files are looked at again.
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

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Connected for Transport {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        match self {
            Transport::Plain(connection) => connection.connect_info(),
            Transport::Tls(stream) => stream.get_ref().0.connect_info(),
        }
    }
}
