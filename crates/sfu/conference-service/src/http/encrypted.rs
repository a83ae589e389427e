//! A connection with or without TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use stream_socket::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A connection that requests come over. The TLS handshake is made when the connection is first read, so that no client
/// waits for the handshake of another client.
pub enum Wire {
    /// HTTP.
    Plain(Connection),
    /// HTTPS.
    Encrypted(Box<Encrypted>),
}

pub struct Encrypted {
    state: State,
    deadline: Pin<Box<Sleep>>,
}

enum State {
    Handshake(Accept<Connection>),
    Open(TlsStream<Connection>),
    /// The handshake failed.
    Closed,
}

impl Wire {
    /// Wraps an accepted connection, with TLS if there is an acceptor.
    pub(super) fn new(connection: Connection, acceptor: Option<&TlsAcceptor>) -> Wire {
        match acceptor {
            None => Wire::Plain(connection),
            Some(acceptor) => Wire::Encrypted(Box::new(Encrypted {
                state: State::Handshake(acceptor.accept(connection)),
                deadline: Box::pin(tokio::time::sleep(HANDSHAKE)),
            })),
        }
    }

    fn poll_with<T>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        plain: impl FnOnce(Pin<&mut Connection>, &mut Context<'_>) -> Poll<io::Result<T>>,
        encrypted: impl FnOnce(Pin<&mut TlsStream<Connection>>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self.get_mut() {
            Wire::Plain(connection) => plain(Pin::new(connection), cx),
            Wire::Encrypted(stream) => encrypted(Pin::new(ready!(stream.poll_open(cx))?), cx),
        }
    }
}

impl Encrypted {
    /// Continues the handshake, if it is not done yet.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut TlsStream<Connection>>> {
        if let State::Handshake(accept) = &mut self.state {
            let done = match Pin::new(accept).poll(cx) {
                Poll::Ready(done) => done,
                Poll::Pending if self.deadline.as_mut().poll(cx).is_ready() => {
                    Err(io::ErrorKind::TimedOut.into())
                }
                Poll::Pending => return Poll::Pending,
            };
            self.state = match done {
                Ok(stream) => State::Open(stream),
                Err(error) => {
                    tracing::debug!(%error, "a client's handshake failed");
                    self.state = State::Closed;
                    return Poll::Ready(Err(error));
                }
            };
        }
        match &mut self.state {
            State::Open(stream) => Poll::Ready(Ok(stream)),
            State::Handshake(_) | State::Closed => {
                Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(connection) => Pin::new(connection).poll_read(cx, buffer),
            Wire::Encrypted(stream) => {
                Pin::new(ready!(stream.poll_open(cx))?).poll_read(cx, buffer)
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(
            cx,
            |it, cx| it.poll_write(cx, bytes),
            |it, cx| it.poll_write(cx, bytes),
        )
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(cx, |it, cx| it.poll_flush(cx), |it, cx| it.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(connection) => Pin::new(connection).poll_shutdown(cx),
            Wire::Encrypted(stream) => match &mut stream.state {
                State::Open(stream) => Pin::new(stream).poll_shutdown(cx),
                // Dropping the connection closes it.
                State::Handshake(_) | State::Closed => Poll::Ready(Ok(())),
            },
        }
    }
}
