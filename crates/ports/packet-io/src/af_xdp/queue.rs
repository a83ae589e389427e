//! One AF_XDP socket on one queue of an interface, with its memory (umem), its four rings and its system calls.
//!
//! The memory is cut into chunks. The first chunks circulate through the fill and receive rings. The other chunks are
//! for sending, and are used last in, first out, so that the next chunk to be written is still in the cache. If the
//! kernel copies transmitted frames, places for payloads that many frames share follow the chunks
//! ([`shared`](super::shared)).

#![expect(
    unsafe_code,
    reason = "socket calls and memory shared with the kernel have no safe form"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use super::ring::{Mapping, Ring};
use super::shared::SharedPayloads;
use crate::Frame;
use crate::limits::{
    SOCKET_BUFFER_BYTES, XDP_BIND_RETRIES, XDP_BIND_RETRY_WAIT_MS, XDP_CHUNK_BYTES,
    XDP_CHUNK_HEADROOM_BYTES, XDP_LARGE_CHUNK_BYTES, XDP_TX_CHUNKS,
};
use crate::socket::{self, check, get_option, set_option};

/// `linux/if_xdp.h`: if chunks may be unaligned, the upper bits of a received frame's address have its offset in the
/// chunk.
const UNALIGNED_OFFSET_SHIFT: u32 = 48;

/// A socket option of `linux/if_xdp.h` since Linux 6.17: how many frames the kernel sends in one system call.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

#[derive(Clone, Copy, Debug)]
pub(super) struct QueueConfig {
    pub(super) interface_index: u32,
    pub(super) queue: u32,
    /// The length in bytes of the longest frame that the interface sends or receives.
    pub(super) frame_bytes_max: usize,
    pub(super) n_rx_chunks: u32,
    pub(super) sends: bool,
}

impl QueueConfig {
    fn n_tx_chunks(&self) -> u32 {
        if self.sends {
            XDP_TX_CHUNKS as u32
        } else {
            // A socket that does not send has a transmit ring too.
            1
        }
    }
}

/// An open socket, bound to its queue.
pub(super) struct Queue {
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    memory: Mapping,
    chunk_bytes: usize,
    /// Whether a frame may have several chunks.
    is_scattered: bool,
    is_zero_copy: bool,
    free_tx: Vec<u64>,
    /// Offset of the end of the chunks.
    chunks_end: u64,
    /// Places for shared payloads; only in copy mode.
    shared: Option<SharedPayloads>,
    socket: OwnedFd,
}

pub(super) struct Piece<'a> {
    pub(super) bytes: &'a mut [u8],
    /// Whether the frame continues in the next piece.
    pub(super) is_continued: bool,
}

impl Queue {
    /// Opens the socket of a queue, with zero copy if the driver supports it, else with copying.
    pub(super) fn open(config: &QueueConfig) -> io::Result<Queue> {
        match Queue::open_as(config, true) {
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
                Queue::open_as(config, false)
            }
            result => result,
        }
    }

    fn open_as(config: &QueueConfig, is_zero_copy: bool) -> io::Result<Queue> {
        let socket = socket::open(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        let fd = socket.as_fd();
        let room = |chunk_bytes: usize| chunk_bytes - XDP_CHUNK_HEADROOM_BYTES;
        let chunk_bytes = if config.frame_bytes_max <= room(XDP_CHUNK_BYTES) {
            XDP_CHUNK_BYTES
        } else {
            XDP_LARGE_CHUNK_BYTES
        };
        let is_scattered = config.frame_bytes_max > room(chunk_bytes);
        let n_chunks = (config.n_rx_chunks + config.n_tx_chunks()) as usize;
        let chunks_end = (n_chunks * chunk_bytes).next_multiple_of(XDP_LARGE_CHUNK_BYTES);
        let mapped = if config.sends && !is_zero_copy {
            SharedPayloads::map(chunks_end)?
        } else {
            None
        };
        let (memory, shared) = match mapped {
            Some((memory, shared)) => (memory, Some(shared)),
            None => (Mapping::anonymous(chunks_end)?, None),
        };
        set_memory(fd, &memory, chunk_bytes, shared.is_some())?;
        for (option, n_entries) in [
            (libc::XDP_UMEM_FILL_RING, config.n_rx_chunks),
            (libc::XDP_UMEM_COMPLETION_RING, config.n_tx_chunks()),
            (libc::XDP_RX_RING, config.n_rx_chunks),
            (libc::XDP_TX_RING, config.n_tx_chunks()),
        ] {
            set_option(fd, libc::SOL_XDP, option, &n_entries)?;
        }
        socket::set_buffers(fd, SOCKET_BUFFER_BYTES)?;
        // Older kernels send 32 frames per call, and must be called more often.
        let _ = set_option(
            fd,
            libc::SOL_XDP,
            XDP_MAX_TX_SKB_BUDGET,
            &config.n_tx_chunks(),
        );
        let (rx, tx, fill, completion) = map_rings(fd, config)?;
        let mut queue = Queue {
            rx,
            tx,
            fill,
            completion,
            memory,
            chunk_bytes,
            is_scattered,
            is_zero_copy,
            chunks_end: chunks_end as u64,
            shared,
            free_tx: Vec::with_capacity(config.n_tx_chunks() as usize),
            socket,
        };
        queue.share_out(config);
        queue.bind(config)?;
        Ok(queue)
    }

    /// Gives the first chunks to the fill ring, and keeps the other chunks for sending.
    fn share_out(&mut self, config: &QueueConfig) {
        let address = |chunk: u32| u64::from(chunk) * self.chunk_bytes as u64;
        for chunk in 0..config.n_rx_chunks {
            self.fill.push(address(chunk));
        }
        let n_chunks = config.n_rx_chunks + config.n_tx_chunks();
        self.free_tx
            .extend((config.n_rx_chunks..n_chunks).rev().map(address));
        self.fill.publish();
    }

    fn bind(&mut self, config: &QueueConfig) -> io::Result<()> {
        let mut flags = libc::XDP_USE_NEED_WAKEUP;
        flags |= if self.is_zero_copy {
            libc::XDP_ZEROCOPY
        } else {
            libc::XDP_COPY
        };
        if self.is_scattered {
            flags |= libc::XDP_USE_SG;
        }
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: config.interface_index,
            sxdp_queue_id: config.queue,
            sxdp_shared_umem_fd: 0,
        };
        // A socket that was just closed holds its queue for some milliseconds more.
        retry_while_busy(|| {
            let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
            // SAFETY: pointer and length describe `address`, which lives through the call.
            check(unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), len) })
        })?;
        Ok(())
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Hands up to `max_frames` frames to `take`, piece by piece. Returns their number.
    pub(super) fn receive(&mut self, max_frames: usize, take: &mut dyn FnMut(Piece<'_>)) -> usize {
        let (mut n_frames, mut n_pieces) = (0, 0);
        while n_frames < max_frames
            && let Some(descriptor) = self.rx.pop()
        {
            n_pieces += 1;
            let is_continued = descriptor.options & libc::XDP_PKT_CONTD != 0;
            n_frames += usize::from(!is_continued);
            let chunk = descriptor.addr & ((1 << UNALIGNED_OFFSET_SHIFT) - 1);
            let address = chunk + (descriptor.addr >> UNALIGNED_OFFSET_SHIFT);
            let bytes = self.piece(address, descriptor.len as usize);
            take(Piece {
                bytes,
                is_continued,
            });
            // The fill ring always has room, because it has an entry for each chunk that circulates.
            self.fill.push(self.chunk_of(chunk));
        }
        if n_pieces > 0 {
            self.rx.release();
            self.fill.publish();
        }
        if self.fill.needs_wakeup() {
            self.wake_receiver();
        }
        n_frames
    }

    /// Returns the beginning of the chunk that contains this address.
    fn chunk_of(&self, address: u64) -> u64 {
        address & !(self.chunk_bytes as u64 - 1)
    }

    /// Returns the bytes at an address of the queue's memory. Limits the range to this memory, so that a wrong number
    /// in the kernel's descriptor does not lead out of the memory.
    fn piece(&mut self, address: u64, n_bytes: usize) -> &mut [u8] {
        let start = (address as usize).min(self.memory.n_bytes());
        let n_bytes = n_bytes.min(self.memory.n_bytes() - start);
        // SAFETY: inside the mapping as just bounded. A received chunk is ours from its descriptor to the fill ring's
        // next publication. A chunk for sending, or the head of a place, is ours from the completion of its previous
        // frame to the transmit ring's next publication. Both publications borrow the queue, so they come after this
        // borrow.
        unsafe {
            let start = self.memory.start().add(start);
            std::slice::from_raw_parts_mut(start.as_ptr(), n_bytes)
        }
    }

    /// Returns how many chunks a frame of that length takes; `None` if the frame cannot be sent at all.
    pub(super) fn n_chunks(&self, frame_bytes: usize) -> Option<usize> {
        if frame_bytes <= self.chunk_bytes {
            return Some(1);
        }
        self.is_scattered
            .then(|| frame_bytes.div_ceil(self.chunk_bytes))
    }

    /// Returns how many chunks for sending are free now.
    pub(super) fn n_free(&mut self) -> usize {
        self.free_tx.len().min(self.tx.n_free_at_least() as usize)
    }

    /// Queues a frame. Copies the frame's pieces, but not a payload that the frame shares with other frames. The caller
    /// must have checked that enough chunks are free for the frame.
    #[inline]
    pub(super) fn push(&mut self, frame: Frame<'_>) {
        let Frame {
            mut head,
            mut payload,
            ..
        } = frame;
        if frame.len() <= self.chunk_bytes {
            let place = self.shared.as_mut().and_then(|shared| shared.place(frame));
            if let Some(address) = place {
                self.piece(address, head.len()).copy_from_slice(head);
                return self.push_descriptor(address, frame.len(), 0);
            }
            return self.push_chunk([head, payload], 0);
        }
        while !(head.is_empty() && payload.is_empty()) {
            let (first, rest) = head.split_at(head.len().min(self.chunk_bytes));
            head = rest;
            let room = self.chunk_bytes - first.len();
            let (second, rest) = payload.split_at(payload.len().min(room));
            payload = rest;
            let is_last = head.is_empty() && payload.is_empty();
            let options = if is_last { 0 } else { libc::XDP_PKT_CONTD };
            self.push_chunk([first, second], options);
        }
    }

    fn push_chunk(&mut self, [first, second]: [&[u8]; 2], options: u32) {
        let Some(address) = self.free_tx.pop() else {
            return;
        };
        let n_bytes = first.len() + second.len();
        let chunk = self.piece(address, n_bytes);
        chunk[..first.len()].copy_from_slice(first);
        chunk[first.len()..].copy_from_slice(second);
        self.push_descriptor(address, n_bytes, options);
    }

    /// Queues one descriptor. The ring has room for it, because the caller has checked [`Queue::n_free`].
    fn push_descriptor(&mut self, address: u64, n_bytes: usize, options: u32) {
        self.tx.push(libc::xdp_desc {
            addr: address,
            len: n_bytes as u32,
            options,
        });
    }

    /// Publishes pushed entries to the kernel.
    pub(super) fn publish(&mut self) {
        self.tx.publish();
    }

    /// Returns how many published pieces the kernel has not taken.
    pub(super) fn n_untaken(&mut self) -> u32 {
        self.tx.n_untaken()
    }

    /// Returns how many pushed frames the kernel has not taken, and how many bytes they have.
    pub(super) fn untaken(&mut self) -> (u64, u64) {
        let pieces = self.tx.untaken();
        pieces.fold((0, 0), |(n_frames, n_bytes), piece| {
            let is_last = piece.options & libc::XDP_PKT_CONTD == 0;
            (
                n_frames + u64::from(is_last),
                n_bytes + u64::from(piece.len),
            )
        })
    }

    /// Returns the length in bytes of the piece that the kernel took last.
    pub(super) fn last_taken_bytes(&mut self) -> u64 {
        u64::from(self.tx.last_taken().len)
    }

    /// Makes the kernel send, if the kernel waits for a system call to do so.
    pub(super) fn wake_sender(&self) -> io::Result<()> {
        if !self.tx.needs_wakeup() {
            return Ok(());
        }
        let (none, flags) = (std::ptr::null(), libc::MSG_DONTWAIT);
        // SAFETY: no data and no address.
        let sent = unsafe { libc::sendto(self.socket.as_raw_fd(), none, 0, flags, none.cast(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn wake_receiver(&self) {
        let (fd, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
        let (none, no_address) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: no buffer and no address. The result does not matter: the next batch tries again.
        unsafe { libc::recvfrom(fd, none, 0, flags, no_address, std::ptr::null_mut()) };
    }

    /// Takes back the chunks and places whose frames have left. Returns their number.
    pub(super) fn reap(&mut self) -> usize {
        let mut n_done = 0;
        while let Some(address) = self.completion.pop() {
            n_done += 1;
            match &mut self.shared {
                Some(shared) if address >= self.chunks_end => shared.has_left(address),
                _ => self.free_tx.push(self.chunk_of(address)),
            }
        }
        self.completion.release();
        n_done
    }

    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        let mut statistics = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        get_option(
            self.socket.as_fd(),
            libc::SOL_XDP,
            libc::XDP_STATISTICS,
            &mut statistics,
        )?;
        Ok(statistics)
    }
}

/// Repeats `attempt` while it fails with `EBUSY`, because a program that has just ended still holds the queue or the
/// interface.
pub(super) fn retry_while_busy<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..XDP_BIND_RETRIES {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                thread::sleep(Duration::from_millis(XDP_BIND_RETRY_WAIT_MS));
            }
            result => return result,
        }
    }
    attempt()
}

fn set_memory(
    fd: BorrowedFd<'_>,
    memory: &Mapping,
    chunk_bytes: usize,
    is_unaligned: bool,
) -> io::Result<()> {
    let request = libc::xdp_umem_reg {
        addr: memory.start().as_ptr() as u64,
        len: memory.n_bytes() as u64,
        chunk_size: chunk_bytes as u32,
        headroom: 0,
        flags: if is_unaligned {
            libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG
        } else {
            0
        },
        tx_metadata_len: 0,
    };
    set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &request)
}

type Rings = (
    Ring<libc::xdp_desc>,
    Ring<libc::xdp_desc>,
    Ring<u64>,
    Ring<u64>,
);

/// Maps the receive, transmit, fill and completion rings, and returns them in this order.
fn map_rings(fd: BorrowedFd<'_>, config: &QueueConfig) -> io::Result<Rings> {
    const NONE: libc::xdp_ring_offset = libc::xdp_ring_offset {
        producer: 0,
        consumer: 0,
        desc: 0,
        flags: 0,
    };
    let mut offsets = libc::xdp_mmap_offsets {
        rx: NONE,
        tx: NONE,
        fr: NONE,
        cr: NONE,
    };
    get_option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    let (n_rx, n_tx) = (config.n_rx_chunks, config.n_tx_chunks());
    Ok((
        Ring::map(fd, &offsets.rx, n_rx, libc::XDP_PGOFF_RX_RING as u64)?,
        Ring::map(fd, &offsets.tx, n_tx, libc::XDP_PGOFF_TX_RING as u64)?,
        Ring::map(fd, &offsets.fr, n_rx, libc::XDP_UMEM_PGOFF_FILL_RING)?,
        Ring::map(fd, &offsets.cr, n_tx, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?,
    ))
}
