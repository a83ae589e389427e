//! Receives datagrams, together with what the kernel reports about each: when the datagram came, and how many datagrams
//! were dropped because the socket's buffer was full.

use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::media::DATAGRAM_MAX;

/// How many bytes the kernel may keep for a socket until a program reads them. At 100 Mbit/s this is room for half a
/// second of packets, since the kernel also counts its own overhead. The system may allow less (net.core.rmem_max).
const RECEIVE_BUFFER: usize = 8 << 20;

/// A packet that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The number of the packet's bytes. The bytes themselves are in the buffer.
    pub len: usize,
    /// When the kernel received the packet or, if the kernel does not say so, when the packet was read, in nanoseconds
    /// since 1970.
    pub time_ns: u64,
    /// How many packets of this socket the kernel had dropped before this packet came, because the socket's buffer was
    /// full; `None` if it had dropped none.
    pub n_dropped: Option<u32>,
}

/// A buffer for one datagram. Sockets that are read one after the other can share it.
pub struct PacketBuffer {
    bytes: Vec<u8>,
    control: Vec<u8>,
}

impl std::fmt::Debug for PacketBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("room for a datagram")
    }
}

impl Default for PacketBuffer {
    fn default() -> PacketBuffer {
        PacketBuffer {
            bytes: vec![0; DATAGRAM_MAX],
            control: cmsg_space!(TimeSpec, u32),
        }
    }
}

impl PacketBuffer {
    /// Returns the bytes of the packet that was read last; `arrival` must be the arrival of this packet.
    #[must_use]
    pub fn packet(&self, arrival: &Arrival) -> &[u8] {
        &self.bytes[..arrival.len]
    }
}

/// Asks the kernel for a larger receive buffer.
pub(crate) fn give_room(socket: &UdpSocket) {
    // A buffer above the system's limit needs CAP_NET_ADMIN.
    if setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        // If the system refuses this too, the socket still receives packets.
        let _ = setsockopt(socket, sockopt::RcvBuf, &RECEIVE_BUFFER);
    }
}

/// Asks the kernel for a larger receive buffer, for the arrival time of each packet, and for the count of dropped
/// packets.
pub(crate) fn prepare(socket: &UdpSocket) {
    give_room(socket);
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
    let _ = setsockopt(socket, sockopt::RxqOvfl, &1);
}

/// Takes a datagram that has come.
pub(crate) fn take(socket: &UdpSocket, buffer: &mut PacketBuffer) -> io::Result<Arrival> {
    let PacketBuffer { bytes, control } = buffer;
    socket.try_io(Interest::READABLE, || {
        let mut parts = [IoSliceMut::new(bytes)];
        let fd = socket.as_raw_fd();
        let message = recvmsg::<()>(
            fd,
            &mut parts,
            Some(control.as_mut_slice()),
            MsgFlags::empty(),
        )?;
        let mut arrival = Arrival {
            len: message.bytes,
            time_ns: 0,
            n_dropped: None,
        };
        // The kernel leaves out control messages that do not fit into the control buffer. The buffer has room for both
        // the arrival time and the number of dropped packets.
        for note in message.cmsgs().into_iter().flatten() {
            match note {
                ControlMessageOwned::ScmTimestampns(time) => arrival.time_ns = nanoseconds(time),
                ControlMessageOwned::RxqOvfl(n) => arrival.n_dropped = Some(n),
                _ => {}
            }
        }
        if arrival.time_ns == 0 {
            arrival.time_ns = now_ns();
        }
        Ok(arrival)
    })
}

fn nanoseconds(time: TimeSpec) -> u64 {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// The present time of the clock that [`Arrival::time_ns`] uses.
#[must_use]
pub fn now_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const READ_LATER: Duration = Duration::from_millis(2);

    #[tokio::test]
    async fn a_datagram_has_the_time_at_which_the_kernel_took_it() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        prepare(&socket);
        let address = socket.local_addr().expect("an address");
        let sender = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let mut buffer = PacketBuffer::default();
        let none = take(&socket, &mut buffer).expect_err("nothing has come");
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        let mut n_tries = 0;
        loop {
            let before = now_ns();
            for text in [&b"first"[..], b"second"] {
                sender.send_to(text, address).await.expect("sent");
            }
            let after = now_ns();
            tokio::time::sleep(READ_LATER).await;
            let mut is_of_arrival = true;
            for text in [&b"first"[..], b"second"] {
                socket.readable().await.expect("readable");
                let arrival = take(&socket, &mut buffer).expect("it has come");
                assert_eq!(buffer.packet(&arrival), text);
                assert_eq!(arrival.n_dropped, None);
                assert!((before..=now_ns()).contains(&arrival.time_ns));
                is_of_arrival &= arrival.time_ns <= after;
            }
            if is_of_arrival {
                break;
            }
            // The kernel begins to record arrival times a moment after the socket option is set. Until then it reports
            // the time at which a datagram is read.
            n_tries += 1;
            assert!(n_tries < 100, "times are those of reading");
        }
    }

    #[tokio::test]
    async fn what_finds_no_room_is_counted() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        prepare(&socket);
        // The smallest buffer that the kernel allows holds a few datagrams.
        setsockopt(&socket, sockopt::RcvBuf, &1).expect("a small buffer");
        let address = socket.local_addr().expect("an address");
        let sender = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        const SENT: u32 = 100;
        for _ in 0..SENT {
            sender.send_to(&[0; 1_000], address).await.expect("sent");
        }
        let mut buffer = PacketBuffer::default();
        let mut n_read = 0;
        socket.readable().await.expect("readable");
        while take(&socket, &mut buffer).is_ok() {
            n_read += 1;
        }
        // The kernel reports the number of dropped packets with the next packet that finds room in the buffer.
        sender.send_to(b"later", address).await.expect("sent");
        socket.readable().await.expect("readable");
        let later = take(&socket, &mut buffer).expect("it has come");
        assert_eq!(buffer.packet(&later), b"later");
        assert_eq!(later.n_dropped, Some(SENT - n_read));
    }
}
