//! A UDP socket as a port: for hosts where nobody may open packet sockets.
//!
//! On the way in, Ethernet, IP and UDP headers are made from the datagram's addresses, as they would
//! have been on a wire next to this host: right checksums, a time to live of 64, and a locally
//! administered MAC address for each IP address, [`mac_of`]. On the way out, a frame's UDP payload
//! goes to its destination address and port; its Ethernet header, time to live and source port are
//! the kernel's business then. A socket bound to no address in particular ("0.0.0.0", "[::]") sends
//! from the frame's source address where datagrams came to that. What is not one whole UDP datagram over the socket's version of
//! IP is counted as `tx_not_udp`.

mod headers;
mod socket;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::batch::TxBatch;
use crate::limits::{TX_RETRIES_PER_FLUSH, TX_RETRY_WAIT_US, UDP_LOCAL_ADDRESSES};
use crate::{Nanos, Port, PortError, PortStatistics};
pub use headers::mac_of;
use headers::{Datagram, HEADROOM_BYTES, write_headers};
use socket::{RxBatch, Sharing, Target};

/// A port on a UDP socket.
pub struct UdpPort {
    name: String,
    local: SocketAddr,
    socket: OwnedFd,
    rx: RxBatch,
    tx: TxBatch,
    /// Where each of `tx` goes, and how long its frame was.
    targets: Vec<(Target, usize)>,
    /// Addresses that datagrams came to, if the socket is bound to none in particular.
    spoken_to: Vec<IpAddr>,
    /// The kernel's 32-bit count of datagrams for which the socket had no room.
    n_overflows: u32,
    statistics: PortStatistics,
}

impl UdpPort {
    /// Binds a socket; port 0 takes a free one, which [`UdpPort::local_address`] says.
    ///
    /// # Errors
    /// [`PortError::Socket`], above all for an address that is taken or not this host's.
    pub fn open(address: SocketAddr) -> Result<UdpPort, PortError> {
        UdpPort::bind(address, Sharing::No)
    }

    /// Binds `n_ports` sockets to one address, one a worker: the kernel gives each flow (a sender's
    /// address and port) to one of them.
    ///
    /// # Errors
    /// As [`UdpPort::open`].
    pub fn open_shared(address: SocketAddr, n_ports: usize) -> Result<Vec<UdpPort>, PortError> {
        let mut ports: Vec<UdpPort> = Vec::with_capacity(n_ports);
        while ports.len() < n_ports {
            // The first may be given a free port, which is all others' then.
            let address = ports.first().map_or(address, UdpPort::local_address);
            ports.push(UdpPort::bind(address, Sharing::Yes)?);
        }
        Ok(ports)
    }

    fn bind(address: SocketAddr, sharing: Sharing) -> Result<UdpPort, PortError> {
        let fail = |operation| {
            move |source| PortError::Socket {
                address,
                operation,
                source,
            }
        };
        let socket = socket::open(address, sharing).map_err(|source| {
            if source.kind() == io::ErrorKind::AddrNotAvailable {
                return PortError::AddressMissing { address };
            }
            fail("bind a UDP socket")(source)
        })?;
        let local = socket::local_address(socket.as_fd()).map_err(fail("read the address"))?;
        Ok(UdpPort {
            name: format!("udp:{local}"),
            local,
            socket,
            rx: RxBatch::new(),
            tx: TxBatch::new(),
            targets: Vec::new(),
            spoken_to: Vec::new(),
            n_overflows: 0,
            statistics: PortStatistics::default(),
        })
    }

    /// The address that the socket is bound to.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The source to send a frame from, if the socket leaves a choice.
    fn source(&self, of_frame: IpAddr) -> Option<IpAddr> {
        self.spoken_to.contains(&of_frame).then_some(of_frame)
    }

    fn send_queue(&mut self) {
        let mut first = 0;
        let mut retries_left = TX_RETRIES_PER_FLUSH;
        while first < self.targets.len() {
            let payloads = self.tx.iter_from(first);
            let targets = self.targets[first..].iter().map(|(target, _)| target);
            match socket::send_batch(self.socket.as_fd(), payloads.zip(targets)) {
                Ok(n_sent) => {
                    for (_, frame_bytes) in &self.targets[first..first + n_sent] {
                        self.statistics.tx_frames += 1;
                        self.statistics.tx_bytes += *frame_bytes as u64;
                    }
                    first += n_sent;
                }
                Err(error) if is_no_room(&error) && retries_left > 0 => {
                    retries_left -= 1;
                    let wait = Duration::from_micros(TX_RETRY_WAIT_US);
                    crate::socket::wait_for_room(self.socket.as_fd(), wait);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.count_refused(&error);
                    first += 1;
                }
            }
        }
        self.tx.clear();
        self.targets.clear();
    }

    fn count_refused(&mut self, error: &io::Error) {
        let counter = match error.raw_os_error() {
            Some(libc::EMSGSIZE) => &mut self.statistics.tx_too_long,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => &mut self.statistics.tx_unreachable,
            Some(libc::ENETDOWN) => &mut self.statistics.tx_link_down,
            _ if is_no_room(error) => &mut self.statistics.tx_no_room,
            _ => &mut self.statistics.tx_refused,
        };
        *counter += 1;
    }
}

impl Port for UdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(
        &mut self,
        _now: Nanos,
        max_frames: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        let (local, statistics) = (self.local, &mut self.statistics);
        let spoken_to = &mut self.spoken_to;
        let mut take_datagram = |datagram: socket::Received<'_>| {
            if datagram.is_truncated {
                statistics.rx_truncated += 1;
                return;
            }
            let address = datagram.local_address.unwrap_or(local.ip());
            let is_new = datagram.local_address.is_some() && !spoken_to.contains(&address);
            if is_new && spoken_to.len() < UDP_LOCAL_ADDRESSES {
                spoken_to.push(address);
            }
            let destination = SocketAddr::new(address, local.port());
            let Some(frame) = write_headers(datagram.buffer, datagram.source, destination) else {
                statistics.rx_oversized += 1;
                return;
            };
            statistics.rx_frames += 1;
            statistics.rx_bytes += frame.len() as u64;
            take(frame);
        };
        let mut n_frames = 0;
        while n_frames < max_frames {
            let max = max_frames - n_frames;
            let n = self
                .rx
                .receive(self.socket.as_fd(), max, &mut take_datagram);
            n_frames += n;
            if n < max.min(RxBatch::LEN) {
                break;
            }
        }
        Ok(n_frames)
    }

    fn transmit(&mut self, _now: Nanos, frame: [&[u8]; 2]) -> Result<(), PortError> {
        let frame_bytes = frame[0].len() + frame[1].len();
        match Datagram::find(frame) {
            Some(datagram) if datagram.destination.is_ipv4() == self.local.is_ipv4() => {
                let source = self.source(datagram.source);
                self.tx.push(datagram.payload);
                let target = Target::new(datagram.destination, source);
                self.targets.push((target, frame_bytes));
                if self.tx.is_full() {
                    self.send_queue();
                }
            }
            _ if frame_bytes < crate::limits::MIN_FRAME_BYTES => self.statistics.tx_too_short += 1,
            _ => self.statistics.tx_not_udp += 1,
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.send_queue();
        Ok(())
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn statistics(&mut self) -> PortStatistics {
        if let Ok(n_overflows) = socket::n_overflows(self.socket.as_fd()) {
            // The kernel's count wraps.
            let new = n_overflows.wrapping_sub(self.n_overflows);
            self.statistics.rx_ring_full += u64::from(new);
            self.n_overflows = n_overflows;
        }
        self.statistics
    }
}

/// Room in front of a received datagram for its headers.
const _: () = assert!(HEADROOM_BYTES.is_multiple_of(2));

fn is_no_room(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM)
    )
}
