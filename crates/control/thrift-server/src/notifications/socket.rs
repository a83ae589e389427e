//! The publisher of nanomsg's PUB/SUB over TCP and Unix sockets (the mappings `sp-tcp-mapping-01` and
//! `sp-ipc-mapping-01` of its RFCs). After a handshake of 8 bytes in each direction, the publisher sends messages,
//! each with its length in front. A subscriber sends nothing more, and filters messages itself.

use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use stream_socket::ACCEPT_RETRY;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};

use crate::limits::{
    HANDSHAKE_S, HANDSHAKES_MAX, REFUSALS_LOG_INTERVAL_S, STALL_S, SUBSCRIBERS_MAX,
};

/// The handshakes that the publisher and a subscriber send.
const PUBLISHER: [u8; 8] = *b"\0SP\0\0\x20\0\0";
const SUBSCRIBER: [u8; 8] = *b"\0SP\0\0\x21\0\0";

/// The byte that precedes each message over a Unix socket. It says that the message is in the stream, not in shared
/// memory.
const IN_BAND: u8 = 1;

const BACKLOG: i32 = 16;

/// A message that all subscribers share.
pub(crate) type Shared = Arc<[u8]>;

/// The bound socket for notifications.
#[derive(Debug)]
pub struct NotificationSocket {
    listener: Listener,
    address: String,
    /// Removes the socket's file when dropped.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The file of a Unix socket. The kernel does not remove it when the socket is closed.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode: another socket may have replaced the file.
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|found| found == self.inode) {
            // A remaining file does no harm: the next switch replaces a socket on which nobody listens.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl NotificationSocket {
    /// Listens on an address in nanomsg's form, `ipc://PATH` or `tcp://HOST:PORT`; `*` stands for every address. Only
    /// the switch's user may connect to a path. A stale socket file is replaced.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the address has another form; the system's error if it cannot listen there.
    pub fn listen(address: &str) -> io::Result<Self> {
        if let Some(path) = address.strip_prefix("ipc://").filter(|it| !it.is_empty()) {
            let path = PathBuf::from(path);
            let listener = match listen_unix(&path) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left(&path) => {
                    fs::remove_file(&path)?;
                    listen_unix(&path)?
                }
                listener => listener?,
            };
            let inode = inode(&path)?;
            return Ok(Self {
                listener: Listener::Unix(listener),
                address: address.to_owned(),
                _file: Some(SocketFile { path, inode }),
            });
        }
        let Some(host) = address.strip_prefix("tcp://") else {
            let message = format!("expected ipc://PATH or tcp://HOST:PORT, found {address}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let host = match host.strip_prefix("*:") {
            Some(port) => format!("0.0.0.0:{port}"),
            None => host.to_owned(),
        };
        let addresses: Vec<SocketAddr> = host.to_socket_addrs()?.collect();
        let listener = TcpListener::bind(&*addresses)?;
        listener.set_nonblocking(true)?;
        let address = format!("tcp://{}", listener.local_addr()?);
        Ok(Self {
            listener: Listener::Tcp(listener),
            address,
            _file: None,
        })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// The bound TCP address, which other machines may reach. `None` for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    /// Sends each message to all subscribers, until the publisher ends.
    pub(super) async fn serve(self, messages: Sender<Shared>) -> io::Result<()> {
        let Self {
            listener, _file, ..
        } = self;
        match listener {
            Listener::Tcp(listener) => {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                accept_all(listener, messages).await
            }
            Listener::Unix(listener) => {
                let listener = tokio::net::UnixListener::from_std(listener)?;
                accept_all(listener, messages).await
            }
        }
    }
}

trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Whether [`IN_BAND`] precedes each message.
    const IS_IPC: bool;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for tokio::net::TcpListener {
    type Stream = tokio::net::TcpStream;

    const IS_IPC: bool = false;

    async fn accept(&self) -> io::Result<Self::Stream> {
        let (stream, _) = self.accept().await?;
        // If this fails, short messages are only delayed.
        let _ = stream.set_nodelay(true);
        crate::server::keep_alive(&stream);
        Ok(stream)
    }
}

impl Accept for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;

    const IS_IPC: bool = true;

    async fn accept(&self) -> io::Result<Self::Stream> {
        Ok(self.accept().await?.0)
    }
}

/// Listens on a Unix socket. The permissions are set before the file exists, so that at no time other users can
/// connect.
fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    stream_socket::expect_short(path).map_err(io::Error::other)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let file = File::from(OwnedFd::from(socket));
    file.set_permissions(Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(file));
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(OwnedFd::from(socket).into())
}

/// Whether the path is a socket on which nobody listens. Does not wait for an answer, since another process may have
/// made the socket.
fn is_left(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    is_socket && stream_socket::is_listened_on(path).is_ok_and(|is_listened_on| !is_listened_on)
}

async fn accept_all<L: Accept>(listener: L, messages: Sender<Shared>) -> io::Result<()> {
    let mut handshakes = Handshakes::default();
    let mut subscribers = Subscribers::default();
    loop {
        tokio::select! {
            Some(_) = subscribers.serving.join_next() => {}
            Some(done) = handshakes.waiting.join_next() => {
                // A connection whose handshake failed sent something wrong, or nothing in time, and is closed.
                if let Ok(Ok((stream, messages))) = done {
                    subscribers.serve(stream, L::IS_IPC, messages);
                }
            }
            accepted = Accept::accept(&listener) => match accepted {
                // The subscription begins before the handshake, so the client gets all messages from the moment it is
                // connected.
                Ok(stream) => handshakes.begin(stream, messages.subscribe()),
                // Without a free descriptor accept would fail again at once, over and over.
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
        }
    }
}

/// Connections that have not completed the handshake. They do not count as subscribers. If there are too many, the
/// oldest is closed, since a subscriber sends its handshake at once.
struct Handshakes<S> {
    waiting: JoinSet<io::Result<(S, Receiver<Shared>)>>,
    /// The tasks, the oldest first. Some may have ended.
    order: VecDeque<AbortHandle>,
}

impl<S> Default for Handshakes<S> {
    fn default() -> Self {
        Self {
            waiting: JoinSet::new(),
            order: VecDeque::new(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Handshakes<S> {
    fn begin(&mut self, mut stream: S, messages: Receiver<Shared>) {
        self.order.retain(|task| !task.is_finished());
        if self.order.len() >= HANDSHAKES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        self.order.push_back(self.waiting.spawn(async move {
            let limit = Duration::from_secs(HANDSHAKE_S);
            timeout(limit, shake_hands(&mut stream)).await??;
            Ok((stream, messages))
        }));
    }
}

async fn shake_hands(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    stream.write_all(&PUBLISHER).await?;
    let mut peer = [0; 8];
    stream.read_exact(&mut peer).await?;
    if peer == SUBSCRIBER {
        Ok(())
    } else {
        Err(io::Error::from(io::ErrorKind::InvalidData))
    }
}

/// Connections after the handshake.
#[derive(Default)]
struct Subscribers {
    serving: JoinSet<()>,
    n_refused: u64,
    /// The time of the last log line. `n_unlogged` is the number of subscribers that were refused since then.
    logged_at: Option<Instant>,
    n_unlogged: u64,
}

impl Subscribers {
    fn serve(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_ipc: bool,
        messages: Receiver<Shared>,
    ) {
        if self.serving.len() >= SUBSCRIBERS_MAX {
            return self.refuse();
        }
        self.serving.spawn(async move {
            // An error means that the subscriber's connection broke.
            let _ = serve(stream, is_ipc, messages).await;
        });
    }

    /// Logs at most one line per interval, so that repeated attempts do not fill the log.
    fn refuse(&mut self) {
        self.n_refused += 1;
        self.n_unlogged += 1;
        let every = Duration::from_secs(REFUSALS_LOG_INTERVAL_S);
        if self.logged_at.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        let (subscribers, total) = (self.n_unlogged, self.n_refused);
        (self.n_unlogged, self.logged_at) = (0, Some(Instant::now()));
        tracing::warn!(
            event = "notifications_full",
            subscribers,
            total,
            "{subscribers} subscribers of notifications were refused since the last such line: there are already {SUBSCRIBERS_MAX}, the most that the switch serves"
        );
    }
}

/// Serves a subscriber until it leaves or takes nothing for too long. A slow subscriber misses the oldest messages.
async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    is_ipc: bool,
    mut messages: Receiver<Shared>,
) -> io::Result<()> {
    let mut nothing = [0; 1];
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            // The subscriber leaves, or violates the protocol.
            _ = stream.read(&mut nothing) => return Ok(()),
        };
        let message = match message {
            Ok(message) => message,
            Err(RecvError::Lagged(n_missed)) => {
                tracing::warn!(
                    event = "notifications_missed",
                    messages = n_missed,
                    "a subscriber of notifications is too slow and misses {n_missed} messages"
                );
                continue;
            }
            Err(RecvError::Closed) => return Ok(()),
        };
        let mut bytes = Vec::with_capacity(9 + message.len());
        bytes.extend(is_ipc.then_some(IN_BAND));
        bytes.extend((message.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&message);
        timeout(Duration::from_secs(STALL_S), stream.write_all(&bytes)).await??;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("reprise-{name}-{}", std::process::id()))
    }

    fn listen(path: &Path) -> io::Result<NotificationSocket> {
        NotificationSocket::listen(&format!("ipc://{}", path.display()))
    }

    #[test]
    fn the_file_is_its_users_and_goes_with_the_socket() {
        let path = path("notifications-mode");
        let socket = listen(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = listen(&path).err().map(|error| error.kind());
        assert_eq!(second, Some(io::ErrorKind::AddrInUse), "it is in use");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_switch_left_is_taken_and_what_is_no_socket_is_not() {
        let path = path("notifications-left");
        drop(listen_unix(&path).unwrap());
        assert!(path.exists());
        drop(listen(&path).unwrap());
        fs::write(&path, "mine").unwrap();
        let refused = listen(&path).err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::AddrInUse));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_full_socket_of_another_user_is_in_use_and_not_waited_for() {
        let path = path("notifications-full");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        socket.listen(0).unwrap();
        let _waits = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let refused = listen(&path).err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::AddrInUse));
        fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn whoever_says_nothing_keeps_no_subscriber_out() {
        let path = path("notifications-silent");
        let socket = listen(&path).unwrap();
        let (messages, _) = tokio::sync::broadcast::channel(4);
        let published = messages.clone();
        let serving = tokio::spawn(socket.serve(messages));
        let mut silent = Vec::new();
        let mut subscribers = Vec::new();
        for n_silent in [HANDSHAKES_MAX + SUBSCRIBERS_MAX, 1] {
            for _ in 0..n_silent {
                let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
                // The server has accepted the connection: it is not just in the kernel's queue.
                let mut hello = [0; 8];
                stream.read_exact(&mut hello).await.unwrap();
                assert_eq!(hello, PUBLISHER);
                silent.push(stream);
            }
            let mut subscriber = tokio::net::UnixStream::connect(&path).await.unwrap();
            subscriber.write_all(&SUBSCRIBER).await.unwrap();
            let mut hello = [0; 8];
            subscriber.read_exact(&mut hello).await.unwrap();
            subscribers.push(subscriber);
        }
        // The oldest silent connection is closed, the newest is not.
        assert_eq!(silent[0].read(&mut [0; 1]).await.unwrap(), 0);
        let last = silent.last_mut().unwrap();
        let nothing = timeout(Duration::from_millis(20), last.read_u8()).await;
        nothing.expect_err("it may still say what it is");
        published.send(Arc::from(&b"message"[..])).unwrap();
        for subscriber in &mut subscribers {
            let mut received = [0; 16];
            subscriber.read_exact(&mut received).await.unwrap();
            assert_eq!(&received, b"\x01\0\0\0\0\0\0\0\x07message");
        }
        serving.abort();
    }

    #[test]
    fn an_address_of_another_kind_is_refused() {
        for address in ["inproc://x", "ipc://", "/tmp/x", "tcp:/x"] {
            let refused = NotificationSocket::listen(address).err();
            let kind = refused.map(|error| error.kind());
            assert_eq!(kind, Some(io::ErrorKind::InvalidInput), "{address}");
        }
    }
}
