//! Ring buffers: programs on any processor write records, one reader takes them in order.
//!
//! The layout is in the kernel's `Documentation/bpf/ringbuf.rst`: a page with the reader's position, a page with the
//! writers' position, then the records. The kernel maps the record pages twice in a row, so that every record is
//! contiguous.

#![expect(unsafe_code, reason = "the ring's memory is mapped")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::{Map, MapConfig, MapKind};

/// Bytes of a record's header: length and flags, then a field that only the kernel reads.
const HEADER_BYTES: u64 = 8;
/// `BPF_RINGBUF_BUSY_BIT`: the program has not finished the record.
const BUSY: u32 = 1 << 31;
/// `BPF_RINGBUF_DISCARD_BIT`: the program discarded the record.
const DISCARDED: u32 = 1 << 30;

#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    n_bytes: usize,
}

impl Pages {
    fn map(map: &Map, offset: usize, n_bytes: usize, protection: i32) -> io::Result<Pages> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let fd = map.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice; the kernel refuses a map that has no such pages.
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

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page boundary, has `n_bytes` bytes and lives as long as `self`; atomic loads
        // need no right to write.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.n_bytes / 8) }
    }

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

/// A ring buffer and its reader. The ring is readable for poll(2) while it has an unread record.
///
/// A program wakes the reader only if the program's record is the first unread record. [`RingBuffer::read`] stores the
/// reader's position once, at its end, so programs do not wake a slow reader for each record.
#[derive(Debug)]
pub struct RingBuffer {
    map: Map,
    consumer: Pages,
    /// The writers' position in the first page. The records follow from the second page on; they are mapped twice.
    records: Pages,
    page_bytes: usize,
    record: Vec<u8>,
}

// SAFETY: `RingBuffer` alone owns the mappings, and accesses them through atomics only.
unsafe impl Send for RingBuffer {}
// SAFETY: as above.
unsafe impl Sync for RingBuffer {}

impl RingBuffer {
    /// Creates a ring of `n_bytes`: a power of two and a multiple of the page size.
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

    /// Opens a ring for reading. There must be no other reader, because each record reaches only one reader.
    ///
    /// # Errors
    /// The kernel's error, or the map is not a ring buffer.
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

    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Passes at most `n_records_max` finished records to `take`, in order, and returns how many it has passed. Reads
    /// only records that existed at the call, so the function returns however fast programs write.
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
            // Either a program that finishes a record after this fence sees the new position and wakes the reader, or
            // the reader sees the record before it waits.
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
