//! Connects to a switch: by address or Unix socket, with or without TLS. Records what went wrong with TLS, because gRPC
//! reports only that the transport failed.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use stream_socket::{Stream as Socket, unix_path};
use tls::{Connecting, Trouble};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use crate::error::ClientError;
use crate::limits::CONNECT_TIMEOUT_MS;

/// A switch to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchAddress {
    /// `HOST:PORT`, or `unix:PATH` for a Unix socket.
    pub address: String,
    /// Files for TLS; `None`: no TLS.
    pub tls: Option<TlsFiles>,
}

/// The files for TLS. They are read when a client is created, not when it reconnects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// CA certificates that may have signed the switch's certificate.
    pub authorities: PathBuf,
    /// The client's certificate and its private key; `None` if the client has no certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the switch's certificate must have; by default the host of the address.
    pub server_name: Option<String>,
}

impl fmt::Display for SwitchAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl SwitchAddress {
    /// A switch without TLS.
    pub fn plain(address: impl Into<String>) -> SwitchAddress {
        SwitchAddress {
            address: address.into(),
            tls: None,
        }
    }

    pub(crate) async fn connect(
        &self,
        reconnects: Reconnects,
    ) -> Result<(Channel, Seen), ClientError> {
        let because = |expected: String| ClientError::BadAddress {
            address: self.address.clone(),
            expected,
        };
        let bad = || because("expected HOST:PORT, e.g. 127.0.0.1:9559, or unix:PATH".to_owned());
        let socket = unix_path(&self.address).transpose().map_err(because)?;
        let (host, authority) = match &socket {
            // gRPC needs an authority, which is a host's name, for a Unix socket too.
            Some(_) => (LOCAL_HOST, LOCAL_HOST),
            None => (self.host().ok_or_else(bad)?, self.address.as_str()),
        };
        let tls = self.tls.as_ref();
        let tls = tls.map(|files| files.open(host)).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{authority}");
        let origin: Uri = origin.parse().map_err(|_| bad())?;
        // The scheme "http" keeps tonic from doing TLS, because the connector does TLS itself.
        let endpoint = Endpoint::from_shared(format!("http://{authority}"));
        let endpoint = endpoint.map_err(|_| bad())?.origin(origin);
        let endpoint = endpoint.connect_timeout(Duration::from_millis(CONNECT_TIMEOUT_MS));
        let seen = Seen::default();
        let connector = Connector {
            to: socket.map_or_else(|| To::Name(self.address.clone()), To::Socket),
            tls,
            seen: seen.clone(),
            is_used: Arc::default(),
            reconnects,
        };
        let channel = endpoint.connect_with_connector(connector).await;
        let channel = channel.map_err(|error| match seen.trouble() {
            Some(trouble) => ClientError::Tls {
                address: self.address.clone(),
                trouble,
            },
            None => ClientError::Unreachable {
                address: self.address.clone(),
                reason: innermost(&error),
            },
        })?;
        Ok((channel, seen))
    }
}

impl SwitchAddress {
    fn host(&self) -> Option<&str> {
        let (host, port) = self.address.rsplit_once(':')?;
        let is_one = !host.is_empty() && port.parse::<u16>().is_ok();
        is_one.then_some(host)
    }
}

impl TlsFiles {
    /// Returns a warning if other users of this machine can read the private key.
    pub fn key_open_to_others(&self) -> Option<String> {
        let (_, key) = self.identity.as_ref()?;
        tls::key_open_to_others(key)
    }

    fn open(&self, host: &str) -> Result<(tls::Client, ServerName<'static>), ClientError> {
        let client = tls::Client::open(&tls::ClientFiles {
            authorities: self.authorities.clone(),
            identity: self.identity.clone(),
        })?;
        let name = self.server_name.as_deref().unwrap_or(host);
        let server_name = tls::server_name(name).ok_or_else(|| ClientError::BadServerName {
            name: name.to_owned(),
        })?;
        Ok((client, server_name))
    }
}

/// The TLS failure of the latest connection, if any. A later connection whose first read succeeds clears it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Option<Trouble>>>);

impl Seen {
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.lock().clone()
    }

    fn set(&self, trouble: Option<Trouble>) {
        *self.lock() = trouble;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Host name for a Unix socket.
const LOCAL_HOST: &str = "localhost";

#[derive(Clone)]
enum To {
    /// `HOST:PORT`.
    Name(String),
    Socket(PathBuf),
}

/// Opens a connection whenever gRPC asks for one.
#[derive(Clone)]
struct Connector {
    to: To,
    tls: Option<(tls::Client, ServerName<'static>)>,
    seen: Seen,
    is_used: Arc<AtomicBool>,
    reconnects: Reconnects,
}

/// Whether gRPC may reconnect after a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reconnects {
    Always,
    /// Every call goes to the same process of the switch.
    Never,
}

impl Connector {
    async fn connect(self) -> io::Result<Transport> {
        if self.is_used.swap(true, Ordering::Relaxed) && self.reconnects == Reconnects::Never {
            let ended = "the connection to the switch has ended";
            return Err(io::Error::new(io::ErrorKind::NotConnected, ended));
        }
        let stream = match &self.to {
            To::Name(address) => Socket::Tcp(TcpStream::connect(address).await?),
            To::Socket(path) => {
                let connected = UnixStream::connect(path).await;
                Socket::Unix(connected.map_err(stream_socket::in_words)?)
            }
        };
        // Requests are short and must not wait for Nagle's algorithm.
        stream.set_nodelay();
        let (stream, connecting) = match self.tls {
            None => (Box::new(stream) as Box<dyn Duplex>, None),
            Some((client, name)) => {
                let connecting = client.connecting();
                let connected = connecting.connector.connect(name, stream).await;
                let stream = connected.inspect_err(|error| self.seen.set(Trouble::of(error)))?;
                (Box::new(stream) as Box<dyn Duplex>, Some(connecting))
            }
        };
        Ok(Transport {
            stream,
            connecting,
            has_received: false,
            seen: self.seen,
        })
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Transport>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Transport>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connected = self.clone().connect();
        Box::pin(async { connected.await.map(TokioIo::new) })
    }
}

/// A connection that looks for signs of a TLS failure in the result of its first read (bytes or an error).
struct Transport {
    stream: Box<dyn Duplex>,
    /// The TLS handshake; `None` without TLS.
    connecting: Option<Connecting>,
    has_received: bool,
    seen: Seen,
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl Transport {
    /// Records what the first read says about TLS. A TLS 1.3 server may refuse the client even after the client's
    /// handshake, because the server sees the client's certificate last.
    fn look_at(&mut self, read: &io::Result<()>, bytes: &[u8]) {
        let trouble = match (&self.connecting, read) {
            (None, Ok(())) => Trouble::of_first_bytes(bytes),
            (None, Err(_)) => return,
            (Some(_), Ok(())) if !bytes.is_empty() => None,
            (Some(connecting), read) => {
                let said = read.as_ref().err().and_then(Trouble::of);
                let lacks = connecting.lacks_certificate();
                said.or(lacks.then_some(Trouble::NoCertificate))
            }
        };
        self.seen.set(trouble);
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
        let read = ready!(Pin::new(&mut this.stream).poll_read(cx, buffer));
        if !this.has_received {
            this.look_at(&read, &buffer.filled()[n_before..]);
            this.has_received = true;
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
