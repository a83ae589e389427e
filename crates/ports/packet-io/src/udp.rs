//! A UDP socket as a port, for hosts without permission for packet sockets.
//!
//! On the way in, the port makes Ethernet, IP and UDP headers from the datagram's addresses, as they would
//! have been on a wire next to this host: right checksums, a time to live of 64, and a locally administered
//! MAC address for each IP address, [`mac_of`]. On the way out, a frame's UDP payload goes to its destination
//! address and port; the kernel makes the Ethernet header, time to live and source port. A socket bound to no
//! address in particular ("0.0.0.0", "[::]") sends from the frame's source address if datagrams came to that
//! address. A frame that is not one whole UDP datagram over the socket's version of IP is counted as
//! `tx_not_udp`.

mod headers;
mod socket;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::batch::TxBatch;
use crate::handed::{self, HandedPort, PortState, UdpState};
use crate::limits::{TX_BATCH_FRAMES, UDP_LOCAL_ADDRESSES};
use crate::pace::TxPace;
use crate::port::receive_waiting;
use crate::sending::{self, RetryPolicy};
use crate::{Frame, Nanos, Port, PortError, PortStatistics};
pub use headers::mac_of;
use headers::{Datagram, HEADROOM_BYTES, write_headers};
use socket::{RxBatch, Sharing, Target};

pub struct UdpPort {
    name: String,
    local: SocketAddr,
    socket: OwnedFd,
    rx: RxBatch,
    tx: TxBatch,
    pace: TxPace,
    /// The destination of each frame of `tx`, and the length of the frame.
    targets: Vec<(Target, usize)>,
    /// The local addresses to which datagrams came, if the socket is bound to the unspecified address; otherwise empty.
    spoken_to: Vec<IpAddr>,
    /// The kernel's 32-bit count of datagrams for which the socket had no room.
    n_overflows: u32,
    retry_policy: RetryPolicy,
    statistics: PortStatistics,
    /// Whether another process receives and sends by the socket.
    is_left: bool,
}

impl UdpPort {
    /// Binds a socket. Port 0 takes a free port, which [`UdpPort::local_address`] returns.
    ///
    /// # Errors
    /// [`PortError::AddressMissing`] if the address is not this host's; [`PortError::Socket`] for any other failure,
    /// such as an address that is taken.
    pub fn open(address: SocketAddr) -> Result<UdpPort, PortError> {
        UdpPort::bind(address, Sharing::No)
    }

    /// Binds `n_ports` sockets to one address, one per worker: the kernel assigns each flow (a sender's address and
    /// port) to one of the sockets.
    ///
    /// # Errors
    /// As [`UdpPort::open`].
    pub fn open_shared(address: SocketAddr, n_ports: usize) -> Result<Vec<UdpPort>, PortError> {
        let mut ports: Vec<UdpPort> = Vec::with_capacity(n_ports);
        while ports.len() < n_ports {
            // The first socket may get a free port; the other sockets take the same port.
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
        Ok(UdpPort::on(socket, local))
    }

    fn on(socket: OwnedFd, local: SocketAddr) -> UdpPort {
        UdpPort {
            name: format!("udp:{local}"),
            local,
            socket,
            rx: RxBatch::new(),
            tx: TxBatch::new(),
            pace: TxPace::new(TX_BATCH_FRAMES),
            targets: Vec::new(),
            spoken_to: Vec::new(),
            n_overflows: 0,
            retry_policy: RetryPolicy::default(),
            statistics: PortStatistics::default(),
            is_left: false,
        }
    }

    /// Makes a port from the socket that another process has passed. The port neither receives nor sends before
    /// [`Port::go_on_from`].
    ///
    /// # Errors
    /// [`PortError::Socket`]: the passed socket is no UDP port of that address.
    pub fn passed(handed: HandedPort) -> Result<UdpPort, PortError> {
        let fail = |address, source| PortError::Socket {
            address,
            operation: "take a port over",
            source,
        };
        let unspecified = SocketAddr::from(([0; 4], 0));
        let descriptors = <[OwnedFd; 1]>::try_from(handed.descriptors);
        let (Ok([socket]), PortState::Udp(state)) = (descriptors, handed.state) else {
            let other = handed::of_another_kind("a UDP port");
            return Err(fail(unspecified, other));
        };
        let local = socket::local_address(socket.as_fd());
        let local = local.map_err(|source| fail(state.local, source))?;
        if local != state.local {
            return Err(fail(state.local, handed::of_another_kind("that address")));
        }
        let mut port = UdpPort::on(socket, local);
        port.is_left = true;
        Ok(port)
    }

    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns the source address that the socket must send a frame from; `None` if the kernel chooses the address.
    fn source(&self, of_frame: IpAddr) -> Option<IpAddr> {
        self.spoken_to.contains(&of_frame).then_some(of_frame)
    }

    fn send_queue(&mut self) {
        let fd = self.socket.as_fd();
        let send = |first| {
            let targets = self.targets[first..].iter().map(|(target, _)| target);
            socket::send_batch(fd, self.tx.iter_from(first).zip(targets))
        };
        let waiting = sending::Waiting {
            fd,
            n_frames: self.targets.len(),
            send,
            bytes_of: |place: usize| self.targets[place].1,
            is_link_down: || false,
        };
        sending::send_all(waiting, &mut self.retry_policy, &mut self.statistics);
        self.tx.clear();
        self.targets.clear();
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

    fn drop_old(&mut self, _before_ns: u64) -> Result<(), PortError> {
        let before = self.statistics;
        let received = receive_waiting(self);
        self.statistics.drop_received_since(before);
        received
    }

    fn transmit(&mut self, _now: Nanos, frame: Frame<'_>) -> Result<(), PortError> {
        let frame_bytes = frame.len();
        match Datagram::find([frame.head, frame.payload]) {
            Some(datagram) if datagram.destination.is_ipv4() == self.local.is_ipv4() => {
                let source = self.source(datagram.source);
                let [head, payload] = datagram.payload;
                self.tx.push(Frame {
                    head,
                    payload,
                    ..frame
                });
                let target = Target::new(datagram.destination, source);
                self.targets.push((target, frame_bytes));
                if self.tx.is_full() || self.pace.is_enough(self.tx.len()) {
                    self.send_queue();
                    self.pace.grow();
                }
            }
            _ if frame_bytes < crate::limits::MIN_FRAME_BYTES => self.statistics.tx_too_short += 1,
            _ => self.statistics.tx_not_udp += 1,
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.send_queue();
        self.pace.rest();
        Ok(())
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn hand_over(&self) -> io::Result<Option<HandedPort>> {
        Ok(Some(HandedPort {
            descriptors: vec![self.socket.try_clone()?],
            state: PortState::Udp(UdpState {
                inode: handed::inode(self.socket.as_fd())?,
                local: self.local,
                spoken_to: self.spoken_to.clone(),
                n_overflows: self.n_overflows,
            }),
        }))
    }

    fn go_on_from(&mut self, state: &PortState) -> io::Result<()> {
        let PortState::Udp(state) = state else {
            return Err(handed::of_another_kind("a UDP port"));
        };
        self.spoken_to.clone_from(&state.spoken_to);
        self.spoken_to.truncate(UDP_LOCAL_ADDRESSES);
        self.n_overflows = state.n_overflows;
        self.is_left = false;
        Ok(())
    }

    fn leave(&mut self) {
        self.is_left = true;
    }

    fn statistics(&mut self) -> PortStatistics {
        if self.is_left {
            return self.statistics;
        }
        if let Ok(n_overflows) = socket::n_overflows(self.socket.as_fd()) {
            // The kernel's count wraps at 2^32.
            let new = n_overflows.wrapping_sub(self.n_overflows);
            self.statistics.rx_ring_full += u64::from(new);
            self.n_overflows = n_overflows;
        }
        self.statistics
    }
}

const _: () = assert!(HEADROOM_BYTES.is_multiple_of(2));
