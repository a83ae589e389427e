//! The receive ring: slots in memory shared with the kernel, TPACKET_V2.
//!
//! TPACKET_V3 does not fit here: it hands over whole blocks and waits for a block to fill, which delays a lone frame by
//! half a millisecond. See `Documentation/networking/packet_mmap.rst`.
//!
//! A slot's status word says who owns the slot. The kernel writes a frame, then sets `TP_STATUS_USER`; this process
//! reads the frame, then sets `TP_STATUS_KERNEL`. Both sides go through the slots in order.

#![expect(
    unsafe_code,
    reason = "memory shared with the kernel is reached through raw pointers"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::socket;
use crate::handed::RingState;
use crate::limits::{RX_RING_BLOCK_BYTES, RX_SLOT_ALIGN_BYTES, RX_SLOT_OVERHEAD_BYTES};
use crate::offload::VLAN_TAG_BYTES;

/// Bytes of `struct virtio_net_hdr`, which precedes every frame.
pub(super) const VIRTIO_HEADER_BYTES: usize = 10;

/// A mapped receive ring. Its socket may be closed before the ring is unmapped.
pub(super) struct RxRing {
    memory: NonNull<u8>,
    memory_bytes: usize,
    block_bytes: usize,
    slot_bytes: usize,
    n_slots: usize,
    next_slot: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and nothing else here has a pointer
// to it.
unsafe impl Send for RxRing {}

/// A slot that holds a frame. The slot belongs to this process until [`RxRing::release`].
pub(super) struct Slot<'a> {
    /// The slot's `TP_STATUS_*` flags.
    pub(super) status: u32,
    /// Length in bytes of the whole frame, which can be more than the slot has room for.
    pub(super) frame_bytes: usize,
    /// Time of arrival, in nanoseconds since 1970.
    pub(super) came_ns: u64,
    pub(super) vlan_tci: u16,
    pub(super) vlan_tpid: u16,
    /// Whether this host sent the frame out by the interface; false if the frame arrived there.
    pub(super) is_outgoing: bool,
    pub(super) virtio_header: [u8; VIRTIO_HEADER_BYTES],
    /// [`VLAN_TAG_BYTES`] of room, then as much of the frame as the slot holds.
    pub(super) buffer: &'a mut [u8],
}

impl RxRing {
    /// Sets up a ring on a packet socket that is not bound yet.
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        n_slots_min: usize,
        frame_bytes_max: usize,
    ) -> io::Result<RxRing> {
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        socket::set_packet_option(fd, libc::PACKET_VERSION, &version)?;
        let slot_bytes =
            (frame_bytes_max + RX_SLOT_OVERHEAD_BYTES).next_multiple_of(RX_SLOT_ALIGN_BYTES);
        let block_bytes = RX_RING_BLOCK_BYTES.max(slot_bytes.next_power_of_two());
        let n_slots = n_slots_min.next_multiple_of(block_bytes / slot_bytes);
        let n_blocks = n_slots / (block_bytes / slot_bytes);
        let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let request = libc::tpacket_req {
            tp_block_size: u32::try_from(block_bytes).map_err(too_large)?,
            tp_block_nr: u32::try_from(n_blocks).map_err(too_large)?,
            tp_frame_size: u32::try_from(slot_bytes).map_err(too_large)?,
            tp_frame_nr: u32::try_from(n_slots).map_err(too_large)?,
        };
        socket::set_packet_option(fd, libc::PACKET_RX_RING, &request)?;
        let state = RingState {
            block_bytes,
            slot_bytes,
            n_slots,
            next_slot: 0,
        };
        RxRing::map_made(fd, state)
    }

    /// Maps the ring of a socket that another process has passed; that process may have it mapped too. The kernel
    /// refuses a mapping that is not exactly as long as the ring.
    pub(super) fn map_passed(fd: BorrowedFd<'_>, state: RingState) -> io::Result<RxRing> {
        socket::expect_packet_ring(fd)?;
        let RingState {
            block_bytes,
            slot_bytes,
            n_slots,
            next_slot,
        } = state;
        let fits = slot_bytes > RX_SLOT_OVERHEAD_BYTES
            && slot_bytes.is_multiple_of(RX_SLOT_ALIGN_BYTES)
            && slot_bytes <= block_bytes
            && next_slot < n_slots
            && n_slots.is_multiple_of(block_bytes / slot_bytes);
        if !fits {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("expected the layout of a receive ring, found {state:?}"),
            ));
        }
        RxRing::map_made(fd, state)
    }

    /// Maps the ring that the socket already has.
    fn map_made(fd: BorrowedFd<'_>, state: RingState) -> io::Result<RxRing> {
        let RingState {
            block_bytes,
            slot_bytes,
            n_slots,
            next_slot,
        } = state;
        let n_blocks = n_slots / (block_bytes / slot_bytes);
        let memory_bytes = n_blocks
            .checked_mul(block_bytes)
            .ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address of the kernel's choice, of exactly the ring's length.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                memory_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(RxRing {
            memory,
            memory_bytes,
            block_bytes,
            slot_bytes,
            n_slots,
            next_slot,
        })
    }

    /// Returns the ring's layout and the number of the slot to read next.
    pub(super) fn state(&self) -> RingState {
        RingState {
            block_bytes: self.block_bytes,
            slot_bytes: self.slot_bytes,
            n_slots: self.n_slots,
            next_slot: self.next_slot,
        }
    }

    /// Sets the slot to read next: the slot at which another process has stopped reading.
    pub(super) fn go_on_at(&mut self, next_slot: usize) {
        self.next_slot = next_slot % self.n_slots;
    }

    /// Returns the length, in bytes, up to which a frame fits every slot.
    pub(super) fn frame_bytes_max(&self) -> usize {
        self.slot_bytes - RX_SLOT_OVERHEAD_BYTES
    }

    /// Returns the slot of the oldest frame, if there is one.
    pub(super) fn peek(&mut self) -> Option<Slot<'_>> {
        let base = self.slot_base();
        let status = self.status_word().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is inside the mapping and begins with the kernel's header, aligned to 16
        // bytes at least; the status says that it is ours, so the kernel does not write it.
        let header = unsafe { base.cast::<libc::tpacket2_hdr>().read() };
        let header_bytes = size_of::<libc::tpacket2_hdr>();
        let address_start = header_bytes.next_multiple_of(libc::TPACKET_ALIGNMENT);
        // SAFETY: as above; the sender's address follows the header, aligned, and the smallest slot has room for it.
        let address = unsafe { base.add(address_start).cast::<libc::sockaddr_ll>().read() };
        // The kernel puts the frame after its header, the sender's address and the virtio header. The code bounds the
        // start all the same, so that no number from the kernel can lead out of the slot.
        let frame_start = usize::from(header.tp_mac).clamp(
            header_bytes + VIRTIO_HEADER_BYTES + VLAN_TAG_BYTES,
            self.slot_bytes,
        );
        let captured_bytes = (header.tp_snaplen as usize).min(self.slot_bytes - frame_start);
        // SAFETY: both ranges are inside the slot, as just bounded. The slot is ours until `release`, which nobody can
        // call while the result borrows `self`. The slot's header, with its status word, is not part of the buffer.
        let (virtio_header, buffer) = unsafe {
            let virtio = base.add(frame_start - VIRTIO_HEADER_BYTES);
            let virtio = virtio.cast::<[u8; VIRTIO_HEADER_BYTES]>().read();
            let start = base.add(frame_start - VLAN_TAG_BYTES);
            let len = VLAN_TAG_BYTES + captured_bytes;
            (virtio, std::slice::from_raw_parts_mut(start.as_ptr(), len))
        };
        Some(Slot {
            status,
            frame_bytes: header.tp_len as usize,
            came_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            vlan_tci: header.tp_vlan_tci,
            vlan_tpid: header.tp_vlan_tpid,
            is_outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            virtio_header,
            buffer,
        })
    }

    /// Gives the oldest frame's slot back to the kernel.
    pub(super) fn release(&mut self) {
        self.status_word()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next_slot = (self.next_slot + 1) % self.n_slots;
    }

    fn status_word(&self) -> &AtomicU32 {
        // SAFETY: `tp_status` is the first word of a slot's header. While the word is shared with the kernel, it is
        // accessed only as an atomic.
        unsafe { AtomicU32::from_ptr(self.slot_base().cast::<u32>().as_ptr()) }
    }

    fn slot_base(&self) -> NonNull<u8> {
        // Slots do not cross blocks; the remaining bytes at a block's end are unused.
        let per_block = self.block_bytes / self.slot_bytes;
        let offset = self.next_slot / per_block * self.block_bytes
            + self.next_slot % per_block * self.slot_bytes;
        // SAFETY: `next_slot` is below `n_slots`, and that many slots are inside the mapping.
        unsafe { self.memory.add(offset) }
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, of that length; nothing borrows from it any more. `munmap` fails only for
        // a mapping that does not exist.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.memory_bytes) };
    }
}
