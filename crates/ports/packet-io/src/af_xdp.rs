//! A Linux network interface as a port: AF_XDP sockets, one for each receive queue.
//!
//! A small XDP program ([`program`]) gives frames to the sockets before the kernel's network stack sees them. If the
//! configuration lists destinations, frames to other destinations go on to the kernel. The program runs in the driver
//! if the driver supports XDP (native mode), otherwise on the kernel's own packets (generic mode). If the driver
//! supports zero copy, frames are not copied between card and socket. The program stays attached as long as the port
//! lives: the kernel detaches it when the process ends, however the process ends.
//!
//! XDP does not report checksums that a sender on this machine left to a card. On a software interface (veth, tap,
//! virtio) the port recognises and finishes such a checksum ([`offload::complete_partial_checksum`]). Frames from a
//! card came over a wire, so the port does not change them. XDP does not see a VLAN tag that the sender or the card
//! keeps beside the frame, and a super-frame does not fit in generic mode, so VLAN and segmentation offloads must be
//! off (docs/ports.md).
//!
//! A port sends all its frames by the socket of its first queue.

mod attached;
mod program;
mod queue;
mod ring;
mod shared;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bpf::AttachMode;

use crate::interface::{self, Interface};
use crate::limits::{
    MAX_SUPER_FRAME_BYTES, MIN_FRAME_BYTES, TX_RETRIES_PER_FLUSH, TX_RETRY_WAIT_US, XDP_RX_CHUNKS,
    XDP_TX_BATCH_FRAMES,
};
use crate::offload::{self, VLAN_TAG_BYTES};
use crate::pace::TxPace;
use crate::port::receive_waiting;
use crate::wait::PollSet;
use crate::{Frame, Nanos, Port, PortError, PortStatistics};
use attached::Attached;
pub(crate) use attached::try_load;
pub use attached::{XdpInterface, kept_path, make_kept_folder};
use queue::{Piece, Queue, QueueConfig};

/// An address whose frames the XDP program takes from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub address: IpAddr,
    /// `None` stands for every packet to the address.
    pub udp_port: Option<u16>,
}

#[derive(Clone, Debug)]
pub struct AfXdpConfig {
    /// The least number of received frames that the kernel can hold for each queue while the switch does not run.
    pub rx_ring_slots: usize,
    /// The switch's destinations; if empty, the port takes every frame.
    pub destinations: Vec<Destination>,
    /// A folder of a BPF file system. A program that forwards in the kernel can be kept (pinned) there, so that it
    /// outlives the process ([`XdpInterface::keep`]). A port that is opened later takes over a kept program.
    pub kept: Option<PathBuf>,
}

impl Default for AfXdpConfig {
    fn default() -> Self {
        AfXdpConfig {
            rx_ring_slots: XDP_RX_CHUNKS,
            destinations: Vec::new(),
            kept: None,
        }
    }
}

/// The mode of an open AF_XDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfXdpMode {
    /// Whether the program runs in the driver, not on the kernel's own packet.
    pub is_native: bool,
    /// Whether frames are not copied between card and socket.
    pub is_zero_copy: bool,
    pub n_queues: usize,
}

impl fmt::Display for AfXdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.is_native { "native" } else { "generic" };
        let copy = if self.is_zero_copy {
            "zero copy"
        } else {
            "copy"
        };
        let plural = if self.n_queues == 1 { "" } else { "s" };
        write!(f, "XDP {mode}, {copy}, {} queue{plural}", self.n_queues)
    }
}

/// A port on queues of a Linux network interface.
pub struct AfXdpPort {
    name: String,
    index: i32,
    /// The program stays attached until the last port of the interface is gone.
    attached: Arc<Attached>,
    queues: Vec<Queue>,
    poll_set: Option<PollSet>,
    next_queue: usize,
    /// The pieces received so far of a frame that comes in several pieces.
    pieces: Vec<u8>,
    completes_checksums: bool,
    frame_bytes_max: usize,
    /// The number of frames pushed since the ring was last published to the kernel.
    n_pushed: usize,
    pace: TxPace,
    is_link_down: bool,
    /// Whether the kernel has left pushed frames in the ring although the link is up.
    has_unsent: bool,
    statistics: PortStatistics,
}

impl AfXdpPort {
    /// Opens an interface, with all its receive queues, as a port.
    ///
    /// # Errors
    /// [`PortError::NameLength`], [`PortError::InterfaceMissing`], [`PortError::NotEthernet`],
    /// [`PortError::InterfaceDown`], [`PortError::InUse`], [`PortError::NoXdpPrivileges`],
    /// [`PortError::XdpMemory`], [`PortError::XdpInUse`], and [`PortError::System`] for everything
    /// else.
    pub fn open(name: &str, config: &AfXdpConfig) -> Result<AfXdpPort, PortError> {
        let mut ports = AfXdpPort::open_shared(name, config, 1)?;
        ports.pop().ok_or_else(|| PortError::System {
            interface: name.to_owned(),
            operation: "find a receive queue",
            source: io::ErrorKind::NotFound.into(),
        })
    }

    /// Opens an interface as `n_ports` ports, one per worker, and distributes the receive queues among the ports. Each
    /// port sends by the first of its queues.
    ///
    /// # Errors
    /// As [`AfXdpPort::open`], and [`PortError::QueuesTooFew`].
    pub fn open_shared(
        name: &str,
        config: &AfXdpConfig,
        n_ports: usize,
    ) -> Result<Vec<AfXdpPort>, PortError> {
        let (n_rx, n_tx) = Interface::find(name)?.n_queues();
        if n_ports > 1 && (n_rx.min(n_tx) as usize) < n_ports {
            return Err(PortError::QueuesTooFew {
                interface: name.to_owned(),
                n_rx,
                n_tx,
                n_ports,
            });
        }
        let mut ports = AfXdpPort::open_each(name, config, n_ports)?;
        let others = ports.split_off(n_ports.min(ports.len()));
        for (place, other) in others.into_iter().enumerate() {
            ports[place % n_ports].queues.extend(other.queues);
        }
        for port in ports.iter_mut().filter(|port| port.queues.len() > 1) {
            let sockets = port.queues.iter().map(Queue::as_fd);
            port.poll_set = Some(PollSet::new(sockets).map_err(|source| PortError::System {
                interface: name.to_owned(),
                operation: "wait for several queues",
                source,
            })?);
        }
        Ok(ports)
    }

    /// Opens an interface as one port for each of its receive queues, in the order of the queues: one per worker.
    ///
    /// # Errors
    /// As [`AfXdpPort::open`].
    pub fn open_queues(name: &str, config: &AfXdpConfig) -> Result<Vec<AfXdpPort>, PortError> {
        AfXdpPort::open_each(name, config, usize::MAX)
    }

    /// Opens every queue as a port; the first `n_senders` of them send.
    fn open_each(
        name: &str,
        config: &AfXdpConfig,
        n_senders: usize,
    ) -> Result<Vec<AfXdpPort>, PortError> {
        let interface = Interface::find(name)?;
        interface.check_usable()?;
        let n_queues = interface.n_rx_queues();
        let attached = Arc::new(Attached::new(&interface, config, n_queues)?);
        let n_rx_chunks = config.rx_ring_slots.next_power_of_two();
        (0..n_queues)
            .map(|queue| {
                let config = QueueConfig {
                    interface_index: interface.index.cast_unsigned(),
                    queue,
                    frame_bytes_max: interface.frame_bytes_max() + 2 * VLAN_TAG_BYTES,
                    n_rx_chunks: n_rx_chunks as u32,
                    sends: (queue as usize) < n_senders,
                };
                let socket = Queue::open(&config)
                    .map_err(|error| socket_error(name, "open an AF_XDP socket", error))?;
                let set = attached.set_socket(queue, socket.as_fd());
                set.map_err(|error| socket_error(name, "give the XDP program its socket", error))?;
                Ok(AfXdpPort::new(&interface, &attached, socket))
            })
            .collect()
    }

    fn new(interface: &Interface, attached: &Arc<Attached>, queue: Queue) -> AfXdpPort {
        AfXdpPort {
            name: interface.name.clone(),
            index: interface.index,
            attached: Arc::clone(attached),
            queues: vec![queue],
            poll_set: None,
            next_queue: 0,
            pieces: Vec::new(),
            completes_checksums: interface.is_virtual(),
            frame_bytes_max: interface.frame_bytes_max(),
            n_pushed: 0,
            pace: TxPace::new(XDP_TX_BATCH_FRAMES),
            is_link_down: false,
            has_unsent: false,
            statistics: PortStatistics::default(),
        }
    }

    pub fn mode(&self) -> AfXdpMode {
        AfXdpMode {
            is_native: self.attached.mode == AttachMode::Native,
            is_zero_copy: self.queues.iter().all(Queue::is_zero_copy),
            n_queues: self.queues.len(),
        }
    }

    /// Returns the port's interface, for a caller that runs an XDP program of its own there.
    pub fn interface(&self) -> XdpInterface {
        self.attached.interface()
    }

    /// Returns the common mode of ports that share an interface.
    pub fn mode_of(ports: &[AfXdpPort]) -> AfXdpMode {
        AfXdpMode {
            is_native: ports.iter().all(|port| port.mode().is_native),
            is_zero_copy: ports.iter().all(|port| port.mode().is_zero_copy),
            n_queues: ports.iter().map(|port| port.mode().n_queues).sum(),
        }
    }

    /// Returns how many chunks of the socket's memory a frame takes. `None` if the frame is too long. The limit is the
    /// kernel's limit for packet sockets, for which a VLAN tag does not count.
    fn chunks_of(&self, frame: &Frame<'_>, frame_bytes: usize) -> Option<usize> {
        if frame_bytes > self.frame_bytes_max {
            let tag_bytes = if has_tag(frame) { VLAN_TAG_BYTES } else { 0 };
            if frame_bytes > self.frame_bytes_max + tag_bytes {
                return None;
            }
        }
        self.queues[0].n_chunks(frame_bytes)
    }

    /// Makes room for a frame of `n_chunks` chunks: if too few chunks are free, sends the queued frames and waits a
    /// short time. Returns whether enough chunks are free.
    fn make_room(&mut self, n_chunks: usize) -> bool {
        if self.queues[0].n_free() >= n_chunks {
            return true;
        }
        self.send_queue();
        let mut retries_left = TX_RETRIES_PER_FLUSH;
        while self.queues[0].n_free() < n_chunks && retries_left > 0 && !self.is_link_down {
            retries_left -= 1;
            wait_for_kernel(retries_left);
            self.send_queue();
        }
        self.queues[0].n_free() >= n_chunks
    }

    /// Publishes pushed frames, and makes the kernel send until no frame is left or the kernel makes no progress.
    /// Remaining frames stay in the ring, and leave with the next call.
    fn send_queue(&mut self) {
        self.n_pushed = 0;
        self.has_unsent = false;
        let queue = &mut self.queues[0];
        queue.publish();
        let mut retries_left = TX_RETRIES_PER_FLUSH;
        // The loop looks the carrier up once at most, because a look-up takes a microsecond.
        let mut has_carrier = None;
        loop {
            let n_before = queue.n_untaken();
            if n_before == 0 {
                break;
            }
            let result = queue.wake_sender();
            let n_done = queue.reap();
            let has_moved = n_done > 0 || queue.n_untaken() < n_before;
            match result.as_ref().map_err(io::Error::raw_os_error) {
                // A zero-copy driver sends by itself. In copy mode the kernel has now taken all frames, and the next
                // iteration ends the loop.
                Ok(()) if queue.is_zero_copy() => break,
                // The device has dropped the last frame that the kernel gave it, because it has no room or no carrier.
                Err(Some(libc::EBUSY)) if has_moved => {
                    let n_bytes = queue.last_taken_bytes();
                    let statistics = &mut self.statistics;
                    statistics.tx_frames = statistics.tx_frames.saturating_sub(1);
                    statistics.tx_bytes = statistics.tx_bytes.saturating_sub(n_bytes);
                    let index = self.index;
                    if *has_carrier.get_or_insert_with(|| interface::is_running(index)) {
                        statistics.tx_no_room += 1;
                    } else {
                        statistics.tx_link_down += 1;
                    }
                }
                Err(Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) => {
                    self.is_link_down = true;
                    return;
                }
                Ok(()) | Err(_) => {}
            }
            if !has_moved {
                if retries_left == 0 {
                    self.has_unsent = true;
                    break;
                }
                retries_left -= 1;
                wait_for_kernel(retries_left);
            }
        }
        queue.reap();
        self.is_link_down = false;
    }
}

/// Whether the frame has an IEEE 802.1Q tag, which does not count towards the MTU. Other tags do count.
fn has_tag(&Frame { head, payload, .. }: &Frame<'_>) -> bool {
    match head.get(12..14) {
        Some(ether_type) => ether_type == [0x81, 0x00],
        None => head
            .iter()
            .chain(payload)
            .skip(12)
            .take(2)
            .eq(&[0x81, 0x00]),
    }
}

/// Waits a moment until the kernel may have room. Yields on the first tries: if the machine has one core, the receiver
/// may have to run before there is room.
fn wait_for_kernel(retries_left: u32) {
    if retries_left > TX_RETRIES_PER_FLUSH / 2 {
        thread::yield_now();
    } else {
        thread::sleep(Duration::from_micros(TX_RETRY_WAIT_US));
    }
}

impl Port for AfXdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(
        &mut self,
        _now: Nanos,
        max_frames: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        let n_queues = self.queues.len();
        let mut n_frames = 0;
        let mut taker = Taker {
            statistics: &mut self.statistics,
            pieces: &mut self.pieces,
            completes_checksums: self.completes_checksums,
            take,
        };
        // The queues take turns at being first, so that no queue waits for ever behind a busy queue.
        for place in 0..n_queues {
            let queue = &mut self.queues[(self.next_queue + place) % n_queues];
            n_frames += queue.receive(max_frames - n_frames, &mut |piece| taker.take_piece(piece));
        }
        self.next_queue = (self.next_queue + 1) % n_queues;
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
        if frame_bytes < MIN_FRAME_BYTES {
            self.statistics.tx_too_short += 1;
            return Ok(());
        }
        let Some(n_chunks) = self.chunks_of(&frame, frame_bytes) else {
            self.statistics.tx_too_long += 1;
            return Ok(());
        };
        if self.is_link_down {
            self.statistics.tx_link_down += 1;
        } else if !self.make_room(n_chunks) {
            self.statistics.tx_no_room += 1;
        } else {
            self.queues[0].push(frame);
            self.statistics.tx_frames += 1;
            self.statistics.tx_bytes += frame_bytes as u64;
            self.n_pushed += 1;
            if self.pace.is_enough(self.n_pushed) {
                self.send_queue();
                self.pace.grow();
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        if self.n_pushed > 0 || self.is_link_down || self.queues[0].n_untaken() > 0 {
            self.send_queue();
        }
        self.pace.rest();
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        self.has_unsent
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.poll_set {
            Some(set) => Some(set.as_fd()),
            None => self.queues.first().map(Queue::as_fd),
        }
    }

    fn interface_index(&self) -> Option<i32> {
        Some(self.index)
    }

    fn xdp_interface(&self) -> Option<XdpInterface> {
        Some(self.interface())
    }

    fn abandon(&mut self) -> PortStatistics {
        self.attached.forget_kept();
        let (n_frames, n_bytes) = self.queues[0].untaken();
        let mut statistics = self.statistics();
        statistics.tx_frames = statistics.tx_frames.saturating_sub(n_frames);
        statistics.tx_bytes = statistics.tx_bytes.saturating_sub(n_bytes);
        statistics.tx_link_down += n_frames;
        statistics
    }

    fn statistics(&mut self) -> PortStatistics {
        let mut statistics = self.statistics;
        for counted in self
            .queues
            .iter()
            .filter_map(|queue| queue.statistics().ok())
        {
            statistics.rx_ring_full += counted.rx_ring_full;
            statistics.rx_no_buffer += counted.rx_dropped;
            statistics.tx_refused += counted.tx_invalid_descs;
            statistics.tx_frames = statistics
                .tx_frames
                .saturating_sub(counted.tx_invalid_descs);
        }
        statistics
    }
}

/// Joins pieces, and hands whole frames to the caller.
struct Taker<'a> {
    statistics: &'a mut PortStatistics,
    pieces: &'a mut Vec<u8>,
    completes_checksums: bool,
    take: &'a mut dyn FnMut(&[u8]),
}

impl Taker<'_> {
    fn take_piece(&mut self, piece: Piece<'_>) {
        if !piece.is_continued && self.pieces.is_empty() {
            self.take_frame(piece.bytes);
            return;
        }
        self.pieces.extend_from_slice(piece.bytes);
        if piece.is_continued {
            return;
        }
        let mut frame = std::mem::take(self.pieces);
        self.take_frame(&mut frame);
        frame.clear();
        *self.pieces = frame;
    }

    fn take_frame(&mut self, frame: &mut [u8]) {
        if frame.len() < MIN_FRAME_BYTES {
            self.statistics.rx_too_short += 1;
            return;
        }
        if frame.len() > MAX_SUPER_FRAME_BYTES {
            self.statistics.rx_oversized += 1;
            return;
        }
        if self.completes_checksums {
            offload::complete_partial_checksum(frame);
        }
        self.statistics.rx_frames += 1;
        self.statistics.rx_bytes += frame.len() as u64;
        (self.take)(frame);
    }
}

fn is_occupied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn socket_error(interface: &str, operation: &'static str, source: io::Error) -> PortError {
    let interface = interface.to_owned();
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => PortError::NoXdpPrivileges {
            interface,
            operation,
        },
        // The error of XDP_UMEM_REG if RLIMIT_MEMLOCK is too low.
        Some(libc::ENOBUFS) => PortError::XdpMemory { interface },
        _ => PortError::on_interface(&interface, operation, source),
    }
}
