//! A Linux network interface as an AF_PACKET port, which receives through a TPACKET_V2 ring and sends with `sendmmsg`.
//!
//! The interface must carry no IP address: the host's own stack sees every frame too, and would
//! answer (ARP, ICMP "port unreachable", TCP resets) or forward in addition to the switch. Any
//! Ethernet interface will do; the port sets it to promiscuous mode and changes nothing else.
//!
//! Offloads stay on. The port finishes what a sender leaves to the card (transport checksum, VLAN tag, segmentation of
//! TCP and UDP super-frames), so `ethtool -K` is not needed for correctness: frames arrive as they would be on a wire.
//! The header that the option `PACKET_VNET_HDR` puts before each frame says exactly what is unfinished. A frame that
//! does not fit a slot of the ring comes through the socket's queue (`PACKET_COPY_THRESH`), in the ring's order.
//!
//! A second socket sends. This socket is bound to protocol 0, so it receives nothing, and an error of one direction
//! does not appear in the other direction. A port that also receives the frames that other programs send out by its
//! interface ([`AfPacketConfig::takes_outgoing`]) sends by its receiving socket, because the kernel gives a socket
//! every outgoing frame except those that this socket sends.

mod ring;
pub(crate) mod socket;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::batch::TxBatch;
use crate::handed::{self, HandedPort, PacketState, PortState};
use crate::interface::Interface;
use crate::interface::lock::InterfaceLock;
use crate::limits::{
    EMPTY_RECEIVES_PER_ERROR_CHECK, MAX_SUPER_FRAME_BYTES, MIN_FRAME_BYTES, RX_RING_SLOTS,
    SOCKET_BUFFER_BYTES, TX_BATCH_FRAMES,
};
use crate::offload::{self, Segmentation, Transport, VLAN_TAG_BYTES};
use crate::pace::TxPace;
use crate::sending::{self, RetryPolicy};
use crate::{Frame, Nanos, Port, PortError, PortStatistics};
use ring::{RxRing, Slot, VIRTIO_HEADER_BYTES};

#[derive(Clone, Copy, Debug)]
pub struct AfPacketConfig {
    /// The least number of received frames that the kernel can hold while the switch does not run.
    pub rx_ring_slots: usize,
    pub way_out: WayOut,
    /// Whether the port also receives frames that other programs on this host send out by the interface, as BMv2 does.
    pub takes_outgoing: bool,
}

impl Default for AfPacketConfig {
    fn default() -> Self {
        AfPacketConfig {
            rx_ring_slots: RX_RING_SLOTS,
            way_out: WayOut::Driver,
            takes_outgoing: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WayOut {
    /// Straight to the driver: a queueing discipline would only add a lock and a queue that drops frames.
    #[default]
    Driver,
    /// Through the interface's queueing discipline, like the host's own frames: `tc` acts on them. If the discipline
    /// sends slower than frames come, the socket's buffer (`net.core.wmem_default`) fills, and the port is full
    /// ([`Port::is_full`]).
    Discipline,
}

pub struct AfPacketPort {
    name: String,
    index: i32,
    // The ring is unmapped before the socket is closed, because fields drop in order.
    ring: RxRing,
    rx: OwnedFd,
    tx: OwnedFd,
    tx_queue: TxBatch,
    pace: TxPace,
    super_frame: Vec<u8>,
    /// How many consecutive calls of `receive` have found no frame.
    n_empty: u32,
    retry_policy: RetryPolicy,
    way_out: WayOut,
    outgoing: Outgoing,
    /// Whether the socket has no room for the queued frames.
    is_full: bool,
    statistics: PortStatistics,
    lock: Arc<InterfaceLock>,
    /// Whether another process receives and sends by this port's sockets.
    is_left: bool,
}

/// How the port treats a frame that another program on this host sends out by the interface.
enum Outgoing {
    Taken,
    /// At the first such frame, the port calls this function, if it is set.
    Ignored(Option<Box<dyn FnOnce() + Send>>),
}

impl AfPacketPort {
    /// Opens an interface as a port.
    ///
    /// # Errors
    /// [`PortError::NameLength`], [`PortError::InterfaceMissing`], [`PortError::NoPrivileges`],
    /// [`PortError::NotEthernet`], [`PortError::InterfaceDown`], [`PortError::InUse`], and
    /// [`PortError::System`] for everything else.
    pub fn open(name: &str, config: AfPacketConfig) -> Result<AfPacketPort, PortError> {
        let interface = Interface::find(name)?;
        interface.check_usable()?;
        AfPacketPort::open_one(&interface, config, None)
    }

    /// Opens an interface as `n_ports` ports, one per worker. The kernel assigns each flow (addresses, protocol and
    /// ports of a packet, in either direction) to one of the ports.
    ///
    /// # Errors
    /// As [`AfPacketPort::open`].
    pub fn open_shared(
        name: &str,
        config: AfPacketConfig,
        n_ports: usize,
    ) -> Result<Vec<AfPacketPort>, PortError> {
        if n_ports == 1 {
            return Ok(vec![AfPacketPort::open(name, config)?]);
        }
        // Looks the interface up once, so that all ports are on this interface even if another interface takes its name
        // meanwhile.
        let interface = Interface::find(name)?;
        interface.check_usable()?;
        let mut ports: Vec<AfPacketPort> = Vec::with_capacity(n_ports);
        while ports.len() < n_ports {
            let lock = match ports.first() {
                Some(first) => Arc::clone(&first.lock),
                None => Arc::new(interface.reserve()?),
            };
            ports.push(AfPacketPort::open_one(&interface, config, Some(lock))?);
        }
        let sockets: Vec<_> = ports.iter().map(|port| port.rx.as_fd()).collect();
        socket::share_flows(&sockets).map_err(|source| PortError::System {
            interface: name.to_owned(),
            operation: "share frames out among packet sockets",
            source,
        })?;
        Ok(ports)
    }

    /// Opens one port. If `lock` is given, the port is one of several on the interface, and receives no frame before
    /// `share_flows`.
    fn open_one(
        interface: &Interface,
        config: AfPacketConfig,
        lock: Option<Arc<InterfaceLock>>,
    ) -> Result<AfPacketPort, PortError> {
        let name = interface.name.as_str();
        let system = |operation| move |source| PortError::on_interface(name, operation, source);
        let open = || {
            socket::open().map_err(|source| match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => PortError::NoPrivileges {
                    interface: name.to_owned(),
                },
                _ => system("open a packet socket")(source),
            })
        };
        let rx = open()?;
        let tx = if config.takes_outgoing {
            rx.try_clone()
                .map_err(system("send by the receiving socket"))?
        } else {
            open()?
        };
        let lock = match lock {
            Some(lock) => {
                socket::take_nothing(rx.as_fd()).map_err(system("filter a packet socket"))?;
                lock
            }
            None => Arc::new(interface.reserve()?),
        };
        let ring = set_up_receiving(rx.as_fd(), interface, config)
            .map_err(system("set up the receive ring"))?;
        set_up_sending(tx.as_fd(), interface, config).map_err(system("set up sending"))?;
        let (outgoing, tx_queue) = if config.takes_outgoing {
            // The receiving socket also sends here, so frames to send need a virtio header, too.
            (Outgoing::Taken, TxBatch::with_header(VIRTIO_HEADER_BYTES))
        } else {
            (Outgoing::Ignored(None), TxBatch::new())
        };
        Ok(AfPacketPort {
            index: interface.index,
            name: name.to_owned(),
            ring,
            rx,
            tx,
            tx_queue,
            pace: TxPace::new(TX_BATCH_FRAMES),
            super_frame: Vec::new(),
            n_empty: 0,
            retry_policy: RetryPolicy::default(),
            way_out: config.way_out,
            outgoing,
            is_full: false,
            statistics: PortStatistics::default(),
            lock,
            is_left: false,
        })
    }

    /// Makes a port from the sockets that another process has passed. The port neither receives nor sends before
    /// [`Port::go_on_from`]. A process can pass only ports that send straight to the driver and receive no outgoing
    /// frames.
    ///
    /// # Errors
    /// [`PortError::System`]: the passed sockets are no AF_PACKET port, or their ring cannot be mapped.
    pub fn passed(name: &str, handed: HandedPort) -> Result<AfPacketPort, PortError> {
        let system = |source| PortError::on_interface(name, "take a port over", source);
        let descriptors = <[OwnedFd; 3]>::try_from(handed.descriptors);
        let (Ok([rx, tx, lock]), PortState::Packet(state)) = (descriptors, handed.state) else {
            return Err(system(handed::of_another_kind("an AF_PACKET port")));
        };
        Ok(AfPacketPort {
            index: state.interface_index,
            name: name.to_owned(),
            ring: RxRing::map_passed(rx.as_fd(), state.ring).map_err(system)?,
            rx,
            tx,
            tx_queue: TxBatch::new(),
            pace: TxPace::new(TX_BATCH_FRAMES),
            super_frame: Vec::new(),
            n_empty: 0,
            retry_policy: RetryPolicy::default(),
            way_out: WayOut::Driver,
            outgoing: Outgoing::Ignored(None),
            is_full: false,
            statistics: PortStatistics::default(),
            lock: Arc::new(InterfaceLock::passed(lock)),
            is_left: true,
        })
    }

    /// Returns the length in bytes up to which a frame is received without an extra system call.
    pub fn slot_frame_bytes(&self) -> usize {
        self.ring.frame_bytes_max()
    }

    /// Sets a callback for the first frame that another program on this host sends out by the interface. The port does
    /// not receive such frames; their sender has most likely mistaken this end of a virtual cable for the other end.
    /// Frames to multicast addresses, such as the kernel's neighbour discovery, do not count.
    pub fn on_first_outgoing(&mut self, notify: impl FnOnce() + Send + 'static) {
        if let Outgoing::Ignored(notified) = &mut self.outgoing {
            *notified = Some(Box::new(notify));
        }
    }

    /// Counts a call of `receive` that found no frame, and at some of these calls reads the socket's pending error.
    /// Reading clears the error; until then, poll(2) reports POLLERR again and again. A switch that busy-polls calls
    /// `receive` too often to look for an error at each call.
    fn note_nothing_came(&mut self) {
        let is_due = self.n_empty.is_multiple_of(EMPTY_RECEIVES_PER_ERROR_CHECK);
        self.n_empty = self.n_empty.wrapping_add(1);
        if !is_due {
            return;
        }
        // The error itself does not matter: `link.rs` reports that the link is down.
        let _ = crate::socket::take_error(self.rx.as_fd());
    }

    fn send_queue(&mut self) {
        if self.way_out == WayOut::Discipline {
            sending::send_in_order(self.tx.as_fd(), &mut self.tx_queue, &mut self.statistics);
            self.is_full = self.tx_queue.len() > 0;
            return;
        }
        sending::send_batch(
            self.tx.as_fd(),
            self.index,
            &mut self.tx_queue,
            &mut self.retry_policy,
            &mut self.statistics,
        );
    }
}

impl Port for AfPacketPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(
        &mut self,
        _now: Nanos,
        max_frames: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        let mut n_frames = 0;
        for _ in 0..max_frames {
            let Some(slot) = self.ring.peek() else {
                if n_frames == 0 {
                    self.note_nothing_came();
                }
                break;
            };
            self.n_empty = 0;
            if slot.is_outgoing
                && let Outgoing::Ignored(notify) = &mut self.outgoing
            {
                ignore_outgoing(self.rx.as_fd(), &slot, notify);
                self.ring.release();
                continue;
            }
            n_frames += 1;
            let mut taker = Taker {
                statistics: &mut self.statistics,
                take,
            };
            if slot.status & libc::TP_STATUS_COPY == 0 {
                taker.take_slot(slot);
            } else {
                taker.take_queued(self.rx.as_fd(), &slot, &mut self.super_frame);
            }
            self.ring.release();
        }
        Ok(n_frames)
    }

    fn knows_ages(&self) -> bool {
        true
    }

    fn drop_old(&mut self, before_ns: u64) -> Result<(), PortError> {
        let before = self.statistics;
        while let Some(slot) = self.ring.peek() {
            if slot.came_ns >= before_ns {
                break;
            }
            let mut taker = Taker {
                statistics: &mut self.statistics,
                take: &mut |_| (),
            };
            if slot.status & libc::TP_STATUS_COPY == 0 {
                taker.take_slot(slot);
            } else {
                taker.take_queued(self.rx.as_fd(), &slot, &mut self.super_frame);
            }
            self.ring.release();
        }
        self.statistics.drop_received_since(before);
        Ok(())
    }

    fn transmit(&mut self, _now: Nanos, frame: Frame<'_>) -> Result<(), PortError> {
        if self.is_full && self.tx_queue.is_full() {
            // The port reported that it is full, and the switch went on sending.
            self.statistics.tx_no_room += 1;
            return Ok(());
        }
        self.tx_queue.push(frame);
        if self.is_full {
            return Ok(());
        }
        if self.tx_queue.is_full() || self.pace.is_enough(self.tx_queue.len()) {
            self.send_queue();
            self.pace.grow();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.send_queue();
        self.pace.rest();
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        self.is_full
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.rx.as_fd())
    }

    fn interface_index(&self) -> Option<i32> {
        Some(self.index)
    }

    fn abandon(&mut self) -> PortStatistics {
        // The interface is gone, so the kernel refuses every frame, and `send_queue` counts each refused frame.
        self.send_queue();
        self.statistics.tx_no_room += self.tx_queue.len() as u64;
        self.tx_queue.clear();
        self.is_full = false;
        self.statistics()
    }

    fn hand_over(&self) -> io::Result<Option<HandedPort>> {
        if self.way_out != WayOut::Driver || matches!(self.outgoing, Outgoing::Taken) {
            return Ok(None);
        }
        Ok(Some(HandedPort {
            descriptors: vec![
                self.rx.try_clone()?,
                self.tx.try_clone()?,
                self.lock.duplicate()?,
            ],
            state: PortState::Packet(PacketState {
                inode: handed::inode(self.rx.as_fd())?,
                interface_index: self.index,
                ring: self.ring.state(),
            }),
        }))
    }

    fn go_on_from(&mut self, state: &PortState) -> io::Result<()> {
        let PortState::Packet(state) = state else {
            return Err(handed::of_another_kind("an AF_PACKET port"));
        };
        self.ring.go_on_at(state.ring.next_slot);
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
        if let Ok(n_drops) = socket::take_kernel_drops(self.rx.as_fd()) {
            self.statistics.rx_ring_full += n_drops;
        }
        self.statistics
    }
}

/// Reports the first outgoing frame that does not go to a multicast address, and has the kernel filter out all further
/// outgoing frames.
fn ignore_outgoing(
    fd: BorrowedFd<'_>,
    slot: &Slot<'_>,
    notify: &mut Option<Box<dyn FnOnce() + Send>>,
) {
    if slot.status & libc::TP_STATUS_COPY != 0 {
        // The frame was too long for a slot: its copy is the next in the socket's queue and must be removed.
        let _ = socket::receive_message(fd, &mut []);
    }
    let destination = slot.buffer.get(VLAN_TAG_BYTES..).unwrap_or_default();
    let is_announcement = matches!(
        destination,
        // The multicast addresses of IPv6 (routers, neighbours, groups), of IPv4's groups, and of bridges and LLDP.
        [0x33, 0x33, ..] | [0x01, 0x00, 0x5e, ..] | [0x01, 0x80, 0xc2, ..]
    );
    if is_announcement {
        return;
    }
    // If the kernel refuses the filter, this function goes on ignoring each outgoing frame.
    let _ = socket::ignore_outgoing(fd);
    if let Some(notify) = notify.take() {
        notify();
    }
}

fn set_up_receiving(
    fd: BorrowedFd<'_>,
    interface: &Interface,
    config: AfPacketConfig,
) -> io::Result<RxRing> {
    let on: libc::c_int = 1;
    socket::set_packet_option(fd, libc::PACKET_VNET_HDR, &on)?;
    socket::set_packet_option(fd, libc::PACKET_COPY_THRESH, &on)?;
    if config.takes_outgoing {
        // The socket also sends; `set_up_sending` sets its send buffer.
        crate::socket::set_receive_buffer(fd, SOCKET_BUFFER_BYTES)?
    } else {
        crate::socket::set_buffers(fd, SOCKET_BUFFER_BYTES)?
    }
    // Leave room for two VLAN tags: the kernel moves the outer tag into the metadata, but not the inner tag.
    let frame_bytes_max = interface.frame_bytes_max() + 2 * VLAN_TAG_BYTES;
    let ring = RxRing::map(fd, config.rx_ring_slots, frame_bytes_max)?;
    socket::set_promiscuous(fd, interface.index)?;
    socket::bind(fd, libc::ETH_P_ALL as u16, interface.index)?;
    Ok(ring)
}

fn set_up_sending(
    fd: BorrowedFd<'_>,
    interface: &Interface,
    config: AfPacketConfig,
) -> io::Result<()> {
    if config.way_out == WayOut::Driver {
        let on: libc::c_int = 1;
        socket::set_packet_option(fd, libc::PACKET_QDISC_BYPASS, &on)?;
        crate::socket::set_buffers(fd, SOCKET_BUFFER_BYTES)?;
    }
    if config.takes_outgoing {
        // `fd` is the receiving socket, which is already bound.
        Ok(())
    } else {
        socket::bind(fd, 0, interface.index)
    }
}

/// Finishes frames and hands them to the caller.
struct Taker<'a> {
    statistics: &'a mut PortStatistics,
    take: &'a mut dyn FnMut(&[u8]),
}

impl Taker<'_> {
    fn take_slot(&mut self, slot: Slot<'_>) {
        if slot.buffer.len() - VLAN_TAG_BYTES < slot.frame_bytes {
            self.statistics.rx_truncated += 1;
            return;
        }
        let header = VirtioHeader::parse(&slot.virtio_header);
        self.take_buffer(slot.buffer, &header, vlan_tag(&slot));
    }

    /// Takes a frame that did not fit its slot. The frame is in the socket's queue, after a virtio header.
    fn take_queued(&mut self, fd: BorrowedFd<'_>, slot: &Slot<'_>, super_frame: &mut Vec<u8>) {
        super_frame.resize(MAX_SUPER_FRAME_BYTES, 0);
        let Ok(len) = socket::receive_message(fd, super_frame) else {
            self.statistics.rx_truncated += 1;
            return;
        };
        let Some(message) = super_frame.get_mut(..len) else {
            self.statistics.rx_oversized += 1;
            return;
        };
        let Some((header, _)) = message.split_first_chunk::<VIRTIO_HEADER_BYTES>() else {
            self.statistics.rx_truncated += 1;
            return;
        };
        let header = VirtioHeader::parse(header);
        // The header's end becomes the room for a VLAN tag.
        let buffer = &mut message[VIRTIO_HEADER_BYTES - VLAN_TAG_BYTES..];
        self.take_buffer(buffer, &header, vlan_tag(slot));
    }

    /// Takes the frame in `buffer`, which begins with room for a VLAN tag; the frame follows.
    fn take_buffer(&mut self, buffer: &mut [u8], header: &VirtioHeader, tag: Option<(u16, u16)>) {
        let frame = &mut buffer[VLAN_TAG_BYTES..];
        if frame.len() < MIN_FRAME_BYTES {
            self.statistics.rx_too_short += 1;
            return;
        }
        if header.is_super_frame() {
            let taken = header.segmentation().and_then(|how| {
                offload::segment(frame, &how, VLAN_TAG_BYTES, &mut |segment| {
                    self.hand_over(segment, tag);
                })
            });
            if taken.is_none() {
                self.statistics.rx_unsegmentable += 1;
            }
            return;
        }
        if let Some((start, offset)) = header.unfinished_checksum() {
            // The result is false only if the checksum field is outside the frame. No kernel reports such a field.
            offload::complete_checksum(frame, start, offset);
        }
        self.hand_over(buffer, tag);
    }

    fn hand_over(&mut self, buffer: &mut [u8], tag: Option<(u16, u16)>) {
        let is_tagged = tag.is_some_and(|(tpid, tci)| offload::insert_vlan_tag(buffer, tpid, tci));
        let frame = if is_tagged {
            &*buffer
        } else {
            &buffer[VLAN_TAG_BYTES..]
        };
        self.statistics.rx_frames += 1;
        self.statistics.rx_bytes += frame.len() as u64;
        (self.take)(frame);
    }
}

/// Returns the TPID and the TCI of the VLAN tag that the kernel removed from the frame, or `None` if there was no tag.
fn vlan_tag(slot: &Slot<'_>) -> Option<(u16, u16)> {
    let is_valid = |flag| slot.status & flag != 0;
    let tpid = if is_valid(libc::TP_STATUS_VLAN_TPID_VALID) {
        slot.vlan_tpid
    } else {
        libc::ETH_P_8021Q as u16
    };
    is_valid(libc::TP_STATUS_VLAN_VALID).then_some((tpid, slot.vlan_tci))
}

/// The fields of a frame's `struct virtio_net_hdr` (`linux/virtio_net.h`; native byte order).
struct VirtioHeader {
    flags: u8,
    gso_type: u8,
    gso_bytes: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VirtioHeader {
    const NEEDS_CHECKSUM: u8 = 1;
    const GSO_TCPV4: u8 = 1;
    const GSO_TCPV6: u8 = 4;
    const GSO_UDP_L4: u8 = 5;
    const GSO_ECN: u8 = 0x80;

    fn parse(bytes: &[u8; VIRTIO_HEADER_BYTES]) -> VirtioHeader {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        VirtioHeader {
            flags: bytes[0],
            gso_type: bytes[1] & !Self::GSO_ECN,
            gso_bytes: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    fn is_super_frame(&self) -> bool {
        self.gso_type != 0
    }

    /// Returns how to cut the super-frame. `None` if the port does not cut super-frames of this kind, or if the offset
    /// of the transport header is missing. The kernel reports the offset for every super-frame, because a super-frame's
    /// checksum is never finished.
    fn segmentation(&self) -> Option<Segmentation> {
        let transport = match self.gso_type {
            Self::GSO_TCPV4 | Self::GSO_TCPV6 => Transport::Tcp,
            Self::GSO_UDP_L4 => Transport::Udp,
            _ => return None,
        };
        let (transport_start, _) = self.unfinished_checksum()?;
        Some(Segmentation {
            transport,
            payload_bytes: usize::from(self.gso_bytes),
            transport_start,
        })
    }

    /// Returns where the checksummed bytes begin, and the offset of the checksum in them; `None` if the checksum is
    /// finished.
    fn unfinished_checksum(&self) -> Option<(usize, usize)> {
        let place = (
            usize::from(self.checksum_start),
            usize::from(self.checksum_offset),
        );
        (self.flags & Self::NEEDS_CHECKSUM != 0).then_some(place)
    }
}

#[cfg(test)]
mod tests;
