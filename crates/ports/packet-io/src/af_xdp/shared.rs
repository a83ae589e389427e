//! Writes a payload only once, even if many frames share it.
//!
//! The kernel takes a frame as one range of memory, so each copy of a packet needs the payload after its header. This
//! file avoids these copies: it maps the page with the payload many times, each time after a page for one frame, which
//! has the frame's head at its end.
//!
//! ```text
//! memory of the queue:   … | head 0 | payload | head 1 | payload | head 2 | payload | …
//! pages of the machine:      a        P         b        P         c        P
//! ```
//!
//! A place, the two pages for one frame, is free again when the kernel reports that the frame has left (the completion
//! ring). Drivers that send by zero copy refuse frames that cross a page boundary, so payloads are shared only in copy
//! mode.
//!
//! Each page is a mapping, and the kernel limits a process's mappings. So only the first queues of a process share
//! payloads; later queues write each payload as often as it is sent.

#![expect(
    unsafe_code,
    reason = "pages that are mapped many times are written through raw pointers"
)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use frame::{Frame, PayloadIdentity};

use super::ring::Mapping;
use crate::limits::{XDP_MAPPINGS_DIVISOR, XDP_SHARED_PAYLOADS, XDP_SHARERS};

/// Bytes of a page. On a machine with larger pages, frames share no payloads.
const PAGE_BYTES: usize = 4096;

/// A page for the head, and a page for the payload.
const PLACE_BYTES: usize = 2 * PAGE_BYTES;

/// Mappings of one queue: two for each place, and one because the places split the queue's own memory.
const QUEUE_MAPPINGS: usize = 2 * XDP_SHARED_PAYLOADS * XDP_SHARERS + 1;

/// The assumed limit of a process's mappings, if the kernel does not report the limit.
const DEFAULT_MAX_MAP_COUNT: usize = 65_530;

/// How many mappings the queues of this process use.
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);

/// A queue's share of the mappings that queues may use. Dropping the value returns the share.
struct Reservation;

/// The places of frames that share payloads.
pub(super) struct SharedPayloads {
    _reservation: Reservation,
    payloads: [Shared; XDP_SHARED_PAYLOADS],
    /// Offset of the places in the queue's memory.
    address: u64,
    /// The index of the payload that was used last.
    current: usize,
    /// The last payload that differed from the payload at `current`. A payload gets places only from its second frame
    /// on.
    seen: Option<PayloadIdentity>,
}

/// A payload and the places of the frames that share it.
struct Shared {
    identity: Option<PayloadIdentity>,
    /// The kernel's address of the payload in the first place. The head of the frame in this place ends at this
    /// address.
    address: u64,
    /// The process's address of the same payload.
    start: NonNull<u8>,
    /// How many places were handed out since all places were free. They are handed out in order, from the first place
    /// on.
    n_used: usize,
    /// In how many of these places the kernel still holds a frame.
    n_out: usize,
}

// SAFETY: the pointers lead into the queue's memory, which goes to another thread together with them.
unsafe impl Send for SharedPayloads {}

impl SharedPayloads {
    /// Bytes of the places in the queue's memory.
    const N_BYTES: usize = XDP_SHARED_PAYLOADS * XDP_SHARERS * PLACE_BYTES;

    /// Maps a queue's memory: `at` bytes (a whole number of pages), then the places. Returns `None` if this machine has
    /// pages of another size, or if the queues of this process already use as many mappings as they may.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn map(at: usize) -> io::Result<Option<(Mapping, SharedPayloads)>> {
        // SAFETY: the call only returns a number.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        if usize::try_from(page_bytes) != Ok(PAGE_BYTES) {
            return Ok(None);
        }
        let Some(reservation) = Reservation::take() else {
            return Ok(None);
        };
        let memory = Mapping::anonymous(at + SharedPayloads::N_BYTES)?;
        let shared = SharedPayloads::map_over(&memory, at, reservation)?;
        Ok(Some((memory, shared)))
    }

    fn map_over(
        memory: &Mapping,
        at: usize,
        reservation: Reservation,
    ) -> io::Result<SharedPayloads> {
        let n_pages = XDP_SHARED_PAYLOADS * (1 + XDP_SHARERS);
        // SAFETY: a name that ends with 0, and a descriptor that is nobody else's.
        let file = unsafe {
            let fd = libc::memfd_create(c"reprise-payloads".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(fd)
        };
        file.set_len((n_pages * PAGE_BYTES) as u64)?;
        let mut next_page = (0..n_pages).map(|page| page * PAGE_BYTES);
        let mut next_page = || next_page.next().expect("as many pages as are asked for");
        let mut payloads = Vec::with_capacity(XDP_SHARED_PAYLOADS);
        for number in 0..XDP_SHARED_PAYLOADS {
            let first = at + number * XDP_SHARERS * PLACE_BYTES;
            let payload_page = next_page();
            for place in 0..XDP_SHARERS {
                let at = first + place * PLACE_BYTES;
                memory.map_over(at, file.as_fd(), next_page(), PAGE_BYTES)?;
                memory.map_over(at + PAGE_BYTES, file.as_fd(), payload_page, PAGE_BYTES)?;
            }
            payloads.push(Shared {
                identity: None,
                address: (first + PAGE_BYTES) as u64,
                // SAFETY: inside the memory, as `map_over` has looked at.
                start: unsafe { memory.start().add(first + PAGE_BYTES) },
                n_used: 0,
                n_out: 0,
            });
        }
        Ok(SharedPayloads {
            _reservation: reservation,
            payloads: payloads.try_into().map_err(|_| io::ErrorKind::Other)?,
            address: at as u64,
            current: 0,
            seen: None,
        })
    }

    /// Returns the address to which the caller writes a frame's head, so that the frame's payload follows the head in
    /// memory. `None` if the payload has no identity, if this is the first frame with the payload, or if every place is
    /// in use.
    #[inline]
    pub(super) fn place(&mut self, frame: Frame<'_>) -> Option<u64> {
        let identity = frame.payload_identity()?;
        if self.payloads[self.current].identity != Some(identity) {
            if self.seen.replace(identity) != Some(identity) {
                return None;
            }
            self.current = self.write(frame.payload, identity)?;
        }
        let shared = &mut self.payloads[self.current];
        if shared.n_out == 0 {
            shared.n_used = 0;
        } else if shared.n_used == XDP_SHARERS {
            return None;
        }
        let payload_at = shared.address + (shared.n_used * PLACE_BYTES) as u64;
        shared.n_used += 1;
        shared.n_out += 1;
        Some(payload_at - frame.head.len() as u64)
    }

    /// Frees the place at this address of the queue's memory, because the kernel has sent the frame in it.
    pub(super) fn has_left(&mut self, address: u64) {
        let place = address.wrapping_sub(self.address) as usize / PLACE_BYTES;
        if let Some(shared) = self.payloads.get_mut(place / XDP_SHARERS) {
            shared.n_out = shared.n_out.saturating_sub(1);
        }
    }

    /// Writes a payload, no longer than a page, to a payload page that no frame uses. Returns the payload's index;
    /// `None` if frames use every page.
    fn write(&mut self, payload: &[u8], identity: PayloadIdentity) -> Option<usize> {
        // The first page that no frame uses is the most likely to be in the cache.
        let number = self.payloads.iter().position(|shared| shared.n_out == 0)?;
        let shared = &mut self.payloads[number];
        shared.identity = Some(identity);
        let n_bytes = payload.len().min(PAGE_BYTES);
        // SAFETY: a whole page of the queue's memory, and nobody reads or writes it: the frames that
        // it was part of have left.
        unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), shared.start.as_ptr(), n_bytes) };
        Some(number)
    }
}

impl Reservation {
    /// Reserves a queue's share of the mappings. Returns `None` if the queues use as many mappings as they may.
    fn take() -> Option<Reservation> {
        let most = max_map_count() / XDP_MAPPINGS_DIVISOR;
        let add = |n_mappings| Some(n_mappings + QUEUE_MAPPINGS).filter(|sum| *sum <= most);
        let taken = MAPPINGS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.ok().map(|_| Reservation)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        MAPPINGS.fetch_sub(QUEUE_MAPPINGS, Ordering::Relaxed);
    }
}

/// Returns `vm.max_map_count`, which Linux' `Documentation/admin-guide/sysctl/vm.rst` describes.
fn max_map_count() -> usize {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(DEFAULT_MAX_MAP_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 2 * PAGE_BYTES;

    fn frame(payload: &[u8], payload_id: u64) -> Frame<'_> {
        Frame {
            head: &[1; 42],
            payload,
            payload_id,
        }
    }

    /// Returns the byte that the kernel finds after a head.
    fn payload_at(memory: &Mapping, address: u64) -> u8 {
        // SAFETY: inside the memory, by the test's own frames; nothing writes to it now.
        unsafe { memory.start().add(address as usize + 42).read() }
    }

    #[test]
    fn a_page_is_written_again_only_when_every_frame_with_it_has_left() {
        let (memory, mut shared) = SharedPayloads::map(AT)
            .expect("memory")
            .expect("no other queue");
        let (ones, twos) = ([1; 1400], [2; 1400]);
        assert_eq!(
            shared.place(frame(&ones, 0)),
            None,
            "nothing is known of it"
        );
        assert_eq!(shared.place(frame(&ones, 7)), None, "the first with it");
        let first: Vec<u64> = std::iter::from_fn(|| shared.place(frame(&ones, 7))).collect();
        assert_eq!(first.len(), XDP_SHARERS);
        assert!(first.iter().all(|at| payload_at(&memory, *at) == 1));
        // Now all frames but one have left. Still no place may be given out twice, and no page may be overwritten.
        first[1..].iter().for_each(|at| shared.has_left(*at));
        assert_eq!(shared.place(frame(&ones, 7)), None);
        assert_eq!(shared.place(frame(&twos, 8)), None, "the first with it");
        let other = shared.place(frame(&twos, 8)).expect("another page");
        assert_eq!(
            (payload_at(&memory, first[0]), payload_at(&memory, other)),
            (1, 2)
        );
        // The last frame has left too.
        shared.has_left(first[0]);
        let _first_with_it = shared.place(frame(&ones, 9));
        assert_eq!(shared.place(frame(&ones, 9)), Some(first[0]));
    }

    #[test]
    fn more_queues_than_mappings_are_opened_and_the_first_share() {
        let n_most = max_map_count() / XDP_MAPPINGS_DIVISOR / QUEUE_MAPPINGS;
        let queues: Vec<_> = (0..=4 * n_most)
            .map(|_| SharedPayloads::map(AT).expect("no more mappings than there are"))
            .collect();
        // Another test may have a queue that shares payloads.
        let n_sharing = queues.iter().flatten().count();
        assert!(
            (n_most - 1..=n_most).contains(&n_sharing),
            "{n_sharing} of {n_most}"
        );
        drop(queues);
        assert!(
            SharedPayloads::map(AT).expect("memory").is_some(),
            "they are given back"
        );
    }
}
