//! Connects programs on this machine that speak plain RTP, each on its two UDP ports, with legs. A leg is a
//! participant's connection to the conference service by one UDP socket.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::PoisonError;

use tokio::net::UdpSocket;

use crate::arrival::give_room;
use crate::media::DATAGRAM_MAX;
use crate::{MediaSocket, NotSent};

/// How many times to try to find two free ports next to each other.
const PAIR_TRIES: usize = 64;

/// Two sockets of the loopback interface: the even port for RTP, the next one for RTCP (RFC 3550, section 11).
#[derive(Debug)]
pub struct Pair {
    rtp: UdpSocket,
    rtcp: UdpSocket,
}

impl Pair {
    /// Binds both ports.
    ///
    /// # Errors
    /// One of the two ports is taken.
    pub async fn bind(port: u16) -> io::Result<Pair> {
        Ok(Pair {
            rtp: bind(port).await?,
            rtcp: bind(port + 1).await?,
        })
    }

    /// Binds two free ports.
    ///
    /// # Errors
    /// No two such ports were found, or the system refuses.
    pub async fn bind_any() -> io::Result<Pair> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..PAIR_TRIES {
            let rtp = bind(0).await?;
            let port = rtp.local_addr()?.port();
            if port % 2 != 0 || port == u16::MAX {
                continue;
            }
            match bind(port + 1).await {
                Ok(rtcp) => return Ok(Pair { rtp, rtcp }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The port for RTP.
    ///
    /// # Errors
    /// The system does not return the port.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.rtp.local_addr()?.port())
    }
}

/// Binds a port of the loopback interface, and asks for a receive buffer that holds a burst of packets.
pub(crate) async fn bind(port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).await?;
    give_room(&socket);
    Ok(socket)
}

/// Relays in both directions, for ever: sends the program's packets through the leg, and sends the reports (RTCP) that
/// the leg receives to the program. Calls `too_long` for each packet that is too long to be sent.
///
/// # Errors
/// A socket of this machine cannot be used any more.
pub async fn publish(
    program: &Pair,
    leg: &MediaSocket,
    mut too_long: impl FnMut(&NotSent),
) -> io::Result<()> {
    let reports_to = Mutex::new(None);
    let forward = async {
        let (mut rtp, mut rtcp) = (vec![0; DATAGRAM_MAX], vec![0; DATAGRAM_MAX]);
        loop {
            let packet = tokio::select! {
                read = program.rtp.recv_from(&mut rtp) => {
                    let (n, from) = read?;
                    // Until the program sends reports itself, it gets reports at the address from which its media
                    // comes.
                    let mut to = lock(&reports_to);
                    to.get_or_insert(from);
                    &rtp[..n]
                }
                read = program.rtcp.recv_from(&mut rtcp) => {
                    let (n, from) = read?;
                    *lock(&reports_to) = Some(from);
                    &rtcp[..n]
                }
            };
            match leg.send(packet).await {
                Err(error @ NotSent::TooLong { .. }) => too_long(&error),
                // The switch may be away for a moment.
                Ok(()) | Err(NotSent::System(_)) => {}
            }
        }
    };
    let back = async {
        let mut buffer = vec![0; DATAGRAM_MAX];
        loop {
            let packet = leg.receive(&mut buffer).await;
            let to = *lock(&reports_to);
            if let Some(to) = to {
                let _ = program.rtcp.send_to(packet, to).await;
            }
        }
    };
    tokio::select! {
        ended = forward => ended,
        never = back => never,
    }
}

/// Forwards what the leg receives to a program that listens on `port` and `port + 1`, and forwards the program's
/// reports through the leg, for ever. The pair's sockets exchange the packets with the program.
///
/// # Errors
/// A socket of this machine cannot be used any more.
pub async fn receive(pair: &Pair, leg: &MediaSocket, port: u16) -> io::Result<()> {
    let forward = async {
        let mut buffer = vec![0; DATAGRAM_MAX];
        loop {
            let packet = leg.receive(&mut buffer).await;
            // Sending may fail because the program does not listen yet.
            let _ = if is_rtcp(packet) {
                pair.rtcp
                    .send_to(packet, (Ipv4Addr::LOCALHOST, port + 1))
                    .await
            } else {
                pair.rtp.send_to(packet, (Ipv4Addr::LOCALHOST, port)).await
            };
        }
    };
    let back = async {
        let (mut rtp, mut rtcp) = (vec![0; DATAGRAM_MAX], vec![0; DATAGRAM_MAX]);
        loop {
            let read = tokio::select! {
                read = pair.rtp.recv(&mut rtp) => read.map(|n| &rtp[..n]),
                read = pair.rtcp.recv(&mut rtcp) => read.map(|n| &rtcp[..n]),
            };
            match read {
                Ok(packet) => {
                    let _ = leg.send(packet).await;
                }
                // The program does not run: the system reports that nobody listens on its port.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    };
    tokio::select! {
        never = forward => never,
        ended = back => ended,
    }
}

/// Whether a packet is RTCP, not RTP (RFC 5761, section 4).
#[must_use]
pub fn is_rtcp(packet: &[u8]) -> bool {
    matches!(packet, [first, second, ..] if first >> 6 == 2 && (192..=223).contains(second))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
