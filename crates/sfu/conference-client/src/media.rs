//! A UDP socket that is signed in to a leg: a participant's connection to the conference service by one UDP socket,
//! with a number and a key. The socket signs in with datagrams that are called hellos.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conference_api::Leg;
use data_encoding::HEXLOWER;
use hello::{Hello, KEY_LEN, Received, SigningIn};
use rustix::net::sockopt;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until, timeout};

use crate::arrival::{self, Arrival, PacketBuffer};

/// The longest datagram.
pub(crate) const DATAGRAM_MAX: usize = 65_536;

/// How many errors of a socket one call of `take` skips at most.
const ERRORS_MAX: u32 = 16;

/// How long to wait after "connection refused", which comes while the switch is away.
const REFUSED: Duration = Duration::from_millis(20);

const TOO_LONG: i32 = rustix::io::Errno::MSGSIZE.raw_os_error();

/// Bytes of the IP and UDP headers of a packet.
const IPV4_HEADERS: usize = 20 + 8;
const IPV6_HEADERS: usize = 40 + 8;

/// Why a socket is not signed in.
#[derive(Debug, thiserror::Error)]
pub enum NotSignedIn {
    /// The leg lacks what signing in needs.
    #[error("the service gave no {0} for the leg")]
    Lacks(&'static str),
    /// The socket cannot be used.
    #[error("UDP to {to}: {error}")]
    Socket {
        /// The switch's address.
        to: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// No answer to the hellos has come.
    #[error(
        "no welcome from {to} (UDP) within {after_s} s: is the way there free, and does the leg still exist?"
    )]
    Silence {
        /// The switch's address.
        to: SocketAddr,
        /// How long the socket has waited for an answer.
        after_s: u64,
    },
}

/// Why a packet was not sent.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// It is longer than the MTU of the path to the switch allows, and the switch drops IP fragments.
    #[error("a packet of {len} bytes is too long: the path to the switch carries {max}")]
    TooLong {
        /// The packet's length in bytes, without IP and UDP headers.
        len: usize,
        /// The most bytes that a packet may have.
        max: usize,
    },
    /// The system refuses to send this packet; it may send the next one.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A UDP socket for one leg. As long as somebody receives from it, it signs in by itself, and signs in again after each
/// restart of the switch or the service.
#[derive(Debug)]
pub struct MediaSocket {
    socket: UdpSocket,
    to: SocketAddr,
    /// Whether the socket was signed in when it last sent a hello.
    was_signed_in: AtomicBool,
    began: Instant,
    signing_in: Mutex<SigningIn>,
}

/// Opens a socket and connects it to the first of the leg's addresses to which this host has a route. As the socket is
/// connected, the kernel drops datagrams from other senders.
async fn connected(leg: &Leg) -> Result<(UdpSocket, SocketAddr), NotSignedIn> {
    let mut failed = NotSignedIn::Lacks("address");
    for address in &leg.media.addresses {
        let to = SocketAddr::new(address.address, address.port);
        let any: SocketAddr = if to.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let connecting = async {
            let socket = UdpSocket::bind(any).await?;
            forbid_splitting(&socket, to)?;
            socket.connect(to).await.map(|()| socket)
        };
        match connecting.await {
            Ok(socket) => return Ok((socket, to)),
            Err(error) => failed = NotSignedIn::Socket { to, error },
        }
    }
    Err(failed)
}

/// Makes the kernel refuse packets that are longer than the path's MTU allows, because the switch drops IP fragments.
fn forbid_splitting(socket: &UdpSocket, to: SocketAddr) -> io::Result<()> {
    if to.is_ipv4() {
        sockopt::set_ip_mtu_discover(socket, sockopt::Ipv4PathMtuDiscovery::DO)?;
    } else {
        sockopt::set_ipv6_mtu_discover(socket, sockopt::Ipv6PathMtuDiscovery::DO)?;
    }
    Ok(())
}

impl MediaSocket {
    /// Opens a socket for a leg whose key is known.
    ///
    /// # Errors
    /// The leg has no key or address, or the system refuses.
    pub async fn open(leg: &Leg) -> Result<MediaSocket, NotSignedIn> {
        let key = leg.key.as_ref().ok_or(NotSignedIn::Lacks("key"))?;
        let key = HEXLOWER.decode(key.as_bytes()).ok();
        let key: Option<[u8; KEY_LEN]> = key.and_then(|key| key.try_into().ok());
        let key = key.ok_or(NotSignedIn::Lacks("key of 64 hexadecimal digits"))?;
        let (socket, to) = connected(leg).await?;
        arrival::prepare(&socket);
        Ok(MediaSocket {
            socket,
            to,
            was_signed_in: AtomicBool::new(false),
            began: Instant::now(),
            signing_in: Mutex::new(SigningIn::new(leg.number.into(), key)),
        })
    }

    /// Whether the socket is signed in, as far as this host knows.
    #[must_use]
    pub fn is_signed_in(&self) -> bool {
        self.lock().is_signed_in()
    }

    /// The switch's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.to
    }

    /// The socket's own address.
    ///
    /// # Errors
    /// The system does not return the address.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits until the socket is signed in.
    ///
    /// # Errors
    /// The socket gets no answer to its hellos in time.
    pub async fn sign_in(&self, within: Duration) -> Result<(), NotSignedIn> {
        let mut buffer = vec![0; DATAGRAM_MAX];
        let signed_in = async {
            while !self.is_signed_in() {
                self.step(&mut buffer).await;
            }
        };
        let silence = |_| NotSignedIn::Silence {
            to: self.to,
            after_s: within.as_secs(),
        };
        timeout(within, signed_in).await.map_err(silence)
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// The packet is too long, or the system refuses to send it.
    pub async fn send(&self, packet: &[u8]) -> Result<(), NotSent> {
        match self.socket.send(packet).await {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(TOO_LONG) => Err(NotSent::TooLong {
                len: packet.len(),
                max: self.packet_max()?,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns how many bytes a packet may have at most to fit the path's MTU, as far as the kernel knows the MTU.
    ///
    /// # Errors
    /// There is no route to the switch.
    pub fn packet_max(&self) -> io::Result<usize> {
        let (mtu, headers) = if self.to.is_ipv4() {
            (sockopt::ip_mtu(&self.socket)?, IPV4_HEADERS)
        } else {
            (sockopt::ipv6_mtu(&self.socket)?, IPV6_HEADERS)
        };
        let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
        Ok(mtu.saturating_sub(headers))
    }

    /// Waits for the next packet and returns it, in `buffer`. Meanwhile sends a hello whenever one is due.
    pub async fn receive<'b>(&self, buffer: &'b mut [u8]) -> &'b [u8] {
        loop {
            if let Some(n) = self.step(buffer).await {
                return &buffer[..n];
            }
        }
    }

    /// Waits until a datagram has come or the network has reported an error, and meanwhile sends a hello whenever one
    /// is due. [`MediaSocket::take`] then returns what has come.
    pub async fn ready(&self) {
        loop {
            let next = self.say_hello().await;
            tokio::select! {
                // An error here is an error of this socket; the next call of `take` gets the same error.
                _ = self.socket.readable() => return,
                () = sleep_until(next) => {}
            }
        }
    }

    /// Takes a packet that has come; `None` if there is none now. Answers to hellos do not count as packets.
    pub fn take(&self, buffer: &mut PacketBuffer) -> Option<Arrival> {
        // After the network has reported an error, one read fails. Datagrams may wait behind the error, so the loop
        // reads again.
        let mut n_errors = 0;
        while n_errors < ERRORS_MAX {
            let arrival = match arrival::take(&self.socket, buffer) {
                Ok(arrival) => arrival,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => {
                    n_errors += 1;
                    continue;
                }
            };
            let packet = buffer.packet(&arrival);
            if self.is_media(packet) {
                return Some(arrival);
            }
        }
        None
    }

    /// Sends a hello if one is due. Returns the time at which the next hello is due.
    async fn say_hello(&self) -> Instant {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall_ms = since_1970.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        let (hello, next) = {
            let mut signing_in = self.lock();
            (
                signing_in.hello(self.began.elapsed(), wall_ms),
                signing_in.next(),
            )
        };
        if let Some(hello) = hello {
            let is_signed_in = self.is_signed_in();
            let is_lost = self.was_signed_in.swap(is_signed_in, Ordering::Relaxed) && !is_signed_in;
            let sent = self.socket.send(&hello).await;
            if is_lost || sent.is_err_and(|it| it.kind() != io::ErrorKind::ConnectionRefused) {
                self.find_way();
            }
        }
        self.began + next
    }

    /// Connects the socket again, because a connected socket keeps its own address even if this host has another
    /// address now. If there is no route to the switch, the next hello, which is due soon, finds no route either.
    fn find_way(&self) {
        let found = rustix::net::connect_unspec(&self.socket)
            .and_then(|()| rustix::net::connect(&self.socket, &self.to));
        if let Err(error) = found {
            tracing::debug!(to = %self.to, %error, "no way to the switch");
            // The socket may now have a port but no peer, so that anybody could send to it. Disconnecting it takes the
            // port away: without a port the socket receives nothing.
            let _ = rustix::net::connect_unspec(&self.socket);
        }
    }

    /// Sends a hello if one is due, then waits for a datagram until the next hello is due. Returns the datagram's
    /// length if it is a media packet.
    async fn step(&self, buffer: &mut [u8]) -> Option<usize> {
        let next = self.say_hello().await;
        tokio::select! {
            read = self.socket.recv(buffer) => match read {
                Ok(n) => self.is_media(&buffer[..n]).then_some(n),
                Err(_) => {
                    tokio::time::sleep(REFUSED).await;
                    None
                }
            },
            () = sleep_until(next) => None,
        }
    }

    /// Whether a datagram is media, not an answer to a hello. An answer that comes late has no effect, but is not media
    /// either.
    fn is_media(&self, datagram: &[u8]) -> bool {
        let received = self.lock().receive(datagram, self.began.elapsed());
        received == Received::Other && Hello::decode(datagram).is_err()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SigningIn> {
        self.signing_in
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
