//! Members' connections: TLS 1.3 with a certificate on each side, and the protocol of crate `aom-config`. Each
//! connection is a task with bounded memory and time, so no connection disturbs another. There are at most
//! [`STRANGERS_MAX`] connections that have not joined yet or that are being refused, and at most one joined connection
//! for each member.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aom_config::frame::{Frames, frame};
use aom_config::limits::{ALIVE_EVERY, SILENCE_MAX, VERSION};
use aom_config::message::{Join, ToMember, ToService};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::authority::fingerprint;
use crate::members::{Ending, Fingerprint, Members, NotJoined, Notice};
use crate::strangers::Strangers;

/// The most connections that have not joined or are being refused.
const STRANGERS_MAX: usize = 256;
/// How long a peer may take to show a certificate and join, and to read a message.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it took longer than {} s", IO_TIMEOUT.as_secs())]
    Slow(#[from] tokio::time::error::Elapsed),
    #[error("{0}")]
    Frame(#[from] aom_config::frame::FrameError),
    #[error("{0}")]
    Protocol(&'static str),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Ending(#[from] Ending),
    #[error("the peer closed the connection")]
    Closed,
    #[error("too many connections that have not joined: a newer connection replaced this one")]
    Cut,
}

/// Accepts members' connections until the future is dropped.
pub async fn serve(listener: TcpListener, tls: rustls::ServerConfig, members: Members) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let strangers = Strangers::new(STRANGERS_MAX);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections of members");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (acceptor, members, strangers) = (acceptor.clone(), members.clone(), strangers.clone());
        tokio::spawn(async move {
            match attend(stream, from.ip(), (&acceptor, &members, &strangers)).await {
                // Logged at debug level only: anybody can open any number of such connections.
                (Joined::No, because) => {
                    tracing::debug!(%from, %because, "a connection has ended before it joined");
                }
                (Joined::Yes, because) => {
                    tracing::info!(%from, %because, "a member's connection has ended");
                }
            }
        });
    }
}

/// Whether a connection has joined before it ended.
enum Joined {
    No,
    Yes,
}

async fn attend(
    stream: TcpStream,
    from: IpAddr,
    (acceptor, members, strangers): (&TlsAcceptor, &Members, &Strangers),
) -> (Joined, Ended) {
    let mut stranger = strangers.admit(from);
    let joining = async {
        let mut connection = timeout(IO_TIMEOUT, greet(stream, acceptor)).await??;
        match connection.notices(members).await {
            Ok(notices) => Ok((connection, notices)),
            Err(NotJoined::Refused(reason)) => Err(connection.refuse(reason).await),
            Err(NotJoined::Ending(ending)) => Err(ending.into()),
        }
    };
    let joined = tokio::select! {
        joined = joining => joined,
        () = stranger.cut() => Err(Ended::Cut),
    };
    // A joined connection no longer counts as a stranger (a connection that has not joined). Each member has only one
    // connection, since a second connection replaces the first.
    drop(stranger);
    let (mut connection, notices) = match joined {
        Ok(joined) => joined,
        Err(ended) => return (Joined::No, ended),
    };
    let reason = match connection.go_on(members, notices).await {
        Ok(reason) => reason,
        Err(ended) => return (Joined::Yes, ended),
    };
    // A connection that is being refused counts as a stranger again: a peer that does not read can delay the refusal
    // while the member has another connection already.
    let mut stranger = strangers.admit(from);
    let ended = tokio::select! {
        ended = connection.refuse(reason) => ended,
        () = stranger.cut() => Ended::Cut,
    };
    (Joined::Yes, ended)
}

/// A connection that has sent its join message.
struct Connection {
    stream: TlsStream<TcpStream>,
    frames: Frames,
    join: Join,
    fingerprint: Fingerprint,
}

/// Performs the TLS handshake and reads the join message.
async fn greet(stream: TcpStream, acceptor: &TlsAcceptor) -> Result<Connection, Ended> {
    let socket = socket2::SockRef::from(&stream);
    // Ends the connection if the peer's host is gone and acknowledges no TCP segments.
    socket.set_tcp_user_timeout(Some(SILENCE_MAX))?;
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(|them| them.first());
    let fingerprint = certificate.map(fingerprint);
    let fingerprint = fingerprint.ok_or(Ended::Protocol("it showed no certificate"))?;
    let mut frames = Frames::default();
    let join = loop {
        match frames.poll()? {
            Some(ToService::Join(join)) => break join,
            Some(ToService::Installed { .. }) => {
                return Err(Ended::Protocol("expected a join as the first message"));
            }
            None => read(&mut stream, &mut frames).await?,
        }
    };
    Ok(Connection {
        stream,
        frames,
        join,
        fingerprint,
    })
}

async fn read(stream: &mut TlsStream<TcpStream>, frames: &mut Frames) -> Result<(), Ended> {
    let mut bytes = [0; 4096];
    match stream.read(&mut bytes).await? {
        0 => Err(Ended::Closed),
        n_bytes => {
            frames.push(&bytes[..n_bytes]);
            Ok(())
        }
    }
}

impl Connection {
    async fn notices(&self, members: &Members) -> Result<watch::Receiver<Notice>, NotJoined> {
        let Join {
            version,
            group,
            member,
            confirm_key,
        } = &self.join;
        if *version != VERSION {
            return Err(NotJoined::Refused(format!(
                "expected version {VERSION} of the protocol, found {version}: service and member must be of one release"
            )));
        }
        members
            .join((group, member), self.fingerprint, *confirm_key)
            .await
    }

    /// Sends the reason as the last message, and closes the connection.
    async fn refuse(&mut self, reason: String) -> Ended {
        let last = ToMember::Refused {
            reason: reason.clone(),
        };
        let said = self.say(&last).await;
        // The shutdown ends the stream after the last message. Further bytes of the member are not read.
        let closed = timeout(IO_TIMEOUT, self.stream.shutdown()).await;
        match (said, closed) {
            (Err(ended), _) => ended,
            (Ok(()), _) => Ended::Refused(reason),
        }
    }

    async fn say(&mut self, message: &ToMember) -> Result<(), Ended> {
        let bytes = frame(message)?;
        timeout(IO_TIMEOUT, self.stream.write_all(&bytes)).await??;
        Ok(timeout(IO_TIMEOUT, self.stream.flush()).await??)
    }

    /// Exchanges messages until the service refuses the member. Returns the reason.
    async fn go_on(
        &mut self,
        members: &Members,
        mut notices: watch::Receiver<Notice>,
    ) -> Result<String, Ended> {
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        notices.mark_changed();
        loop {
            tokio::select! {
                changed = notices.changed() => {
                    // An error means that the service is ending. The member gets no refusal, so it connects again.
                    changed.map_err(|_| Ending)?;
                    let now = notices.borrow_and_update().clone();
                    match now {
                        Notice::Nothing => {}
                        Notice::Membership(membership) => self.say(&ToMember::Membership(*membership)).await?,
                        Notice::Refused(reason) => return Ok(reason),
                    }
                }
                _ = alive.tick() => self.say(&ToMember::Alive).await?,
                came = read(&mut self.stream, &mut self.frames) => {
                    came?;
                    self.receive(members).await?;
                }
            }
        }
    }

    async fn receive(&mut self, members: &Members) -> Result<(), Ended> {
        let who = (self.join.group.clone(), self.join.member.clone());
        while let Some(message) = self.frames.poll()? {
            match message {
                ToService::Installed { epoch } => {
                    members.installed((&who.0, &who.1), epoch).await?;
                }
                ToService::Join(_) => {
                    return Err(Ended::Protocol("it joined twice on one connection"));
                }
            }
        }
        Ok(())
    }
}

/// Binds the socket to which members connect.
///
/// # Errors
/// If the address is in use, or is not this host's.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}
