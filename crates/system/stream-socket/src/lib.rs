//! Addresses of services: TCP, or a Unix socket in a file, written `unix:PATH` as in gRPC. The crate has listeners and
//! streams for both, tells who the peer is, and limits the number of open connections.
//!
//! A Unix socket is as private as its file: a user who may not write to it, or not search its folder, cannot connect
//! (unix(7)). Abstract names have no permissions, so they are refused.
//!
//! Source of the names: gRPC Name Resolution, `unix:path` and `unix:///absolute_path`.

mod address;
mod connections;
mod file;

pub use address::{Address, expect_short, unix_path};
pub use connections::{
    ACCEPT_RETRY, BoundedListener, CONNECTIONS_LOG_INTERVAL, Call, Caller, Connection,
    ConnectionLimits, Connections,
};
pub use file::{BindError, SocketFile, in_words, is_listened_on};

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// The IP address of a TCP client.
    Address(IpAddr),
    /// The user id of a Unix socket's client, as the kernel reports it.
    User(u32),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => write!(f, "{address}"),
            Peer::User(user) => write!(f, "user {user}"),
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Listener::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Listener::Unix(listener)
    }
}

impl Listener {
    /// Waits for the next connection.
    ///
    /// # Errors
    /// As accept(2).
    pub async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream::Tcp(stream), Peer::Address(peer.ip())))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred()?.uid();
                Ok((Stream::Unix(stream), Peer::User(user)))
            }
        }
    }

    /// Returns the TCP address.
    ///
    /// # Errors
    /// The listener is a Unix socket, which has no TCP address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr(),
            Listener::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Stream {
    /// Makes a TCP stream send short messages at once, as Unix sockets always do.
    pub fn set_nodelay(&self) {
        if let Stream::Tcp(stream) = self {
            // If it fails, short messages only wait a little longer.
            let _ = stream.set_nodelay(true);
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
