//! Ring buffers: records that programs write on any processor and one reader takes, in one order.
//!
//! The kernel's `Documentation/bpf/ringbuf.rst` has the layout: a page with the reader's position, a page with the
//! programs', then the records, mapped twice one behind the other, so that none is in two pieces.

#![expect(unsafe_code, reason = "the ring's memory is mapped")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::{Map, MapConfig, MapKind};

/// Bytes of a record's header: its length and flags, then what only the kernel reads.
const HEADER_BYTES: u64 = 8;
/// `BPF_RINGBUF_BUSY_BIT`: the program has not finished the record.
const BUSY: u32 = 1 << 31;
/// `BPF_RINGBUF_DISCARD_BIT`: the program has taken the record back.
const DISCARDED: u32 = 1 << 30;

/// A mapping of some of a map's pages.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    n_bytes: usize,
}

impl Pages {
    fn map(map: &Map, offset: usize, n_bytes: usize, protection: i32) -> io::Result<Pages> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let fd = map.as_fd().as_raw_fd();
        // SAFETY: a new mapping, the kernel chooses where and refuses a map that has no such pages.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                n_bytes,
                protection,
                libc::MAP_SHARED,
                fd,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Pages { start, n_bytes })
    }

    /// All of it as numbers of eight bytes.
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins with a page, has so many bytes and lives as long as `self`; atomic loads need no
        // right to write.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.n_bytes / 8) }
    }

    /// All of it as numbers of four bytes.
    fn halves(&self) -> &[AtomicU32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.n_bytes / 4) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nobody uses any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.n_bytes) };
    }
}

/// A ring buffer and its reader. Readable, for poll(2), while it has a record that was not read.
///
/// A program wakes who waits only with the first record behind all that were read ([`RingBuffer::read`] moves the
/// reader's position once, at its end). So whoever is slower than the programs is not woken for each.
#[derive(Debug)]
pub struct RingBuffer {
    map: Map,
    consumer: Pages,
    /// The programs' position, and from the second page on the records, twice.
    records: Pages,
    page_bytes: usize,
    record: Vec<u8>,
}

// SAFETY: the mappings are the ring's, of which `RingBuffer` is the only owner; they are used as atomics only.
unsafe impl Send for RingBuffer {}
// SAFETY: as above.
unsafe impl Sync for RingBuffer {}

impl RingBuffer {
    /// Makes a ring of so many bytes: a power of two, whole pages.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn create(name: &str, n_bytes: u32) -> io::Result<RingBuffer> {
        RingBuffer::new(Map::create(&MapConfig {
            name,
            kind: MapKind::RingBuffer,
            key_bytes: 0,
            value_bytes: 0,
            n_entries_max: n_bytes,
            flags: 0,
            inner: None,
        })?)
    }

    /// Reads a ring. It is to have no other reader, which would take records of this one.
    ///
    /// # Errors
    /// The kernel's error; another map.
    pub fn new(map: Map) -> io::Result<RingBuffer> {
        if map.kind() != MapKind::RingBuffer {
            let message = "expected a ring buffer";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // SAFETY: no pointers.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page_bytes = usize::try_from(page_bytes).map_err(io::Error::other)?;
        let n_bytes = page_bytes + 2 * map.n_entries_max() as usize;
        Ok(RingBuffer {
            consumer: Pages::map(&map, 0, page_bytes, libc::PROT_READ | libc::PROT_WRITE)?,
            records: Pages::map(&map, page_bytes, n_bytes, libc::PROT_READ)?,
            map,
            page_bytes,
            record: Vec::new(),
        })
    }

    /// The map as programs use it.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Gives the records that are finished, in their order, so many at most; how many. Of those that were begun
    /// meanwhile it gives none, so it ends however fast programs write.
    pub fn read(&mut self, n_records_max: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        let [consumer, ..] = self.consumer.words() else {
            return 0;
        };
        let [producer, ..] = self.records.words() else {
            return 0;
        };
        let begin = consumer.load(Ordering::Relaxed);
        let mut position = begin;
        let end = producer.load(Ordering::Acquire);
        let mut n_records = 0;
        while position < end && n_records < n_records_max {
            let at = self.page_bytes + (position % u64::from(self.map.n_entries_max())) as usize;
            let header = self.records.halves()[at / 4].load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let n_bytes = u64::from(header & !(BUSY | DISCARDED));
            if header & DISCARDED == 0 {
                let n_words = n_bytes.div_ceil(8) as usize;
                let words = &self.records.words()[(at + HEADER_BYTES as usize) / 8..][..n_words];
                self.record.clear();
                let bytes = words
                    .iter()
                    .flat_map(|it| it.load(Ordering::Relaxed).to_ne_bytes());
                self.record.extend(bytes);
                take(&self.record[..n_bytes as usize]);
                n_records += 1;
            }
            position += (HEADER_BYTES + n_bytes).next_multiple_of(8);
        }
        if position != begin {
            consumer.store(position, Ordering::Release);
            // A program that finishes a record now sees this position and wakes, or who waits next sees the record.
            fence(Ordering::SeqCst);
        }
        n_records
    }
}

impl AsFd for RingBuffer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
