//! The rings shared with the kernel, one producer and one consumer each: fill and completion carry
//! chunk addresses, receive and transmit carry descriptors. See `Documentation/networking/af_xdp.rst`.

#![expect(
    unsafe_code,
    reason = "memory shared with the kernel is reached through raw pointers"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory that stays mapped as long as the value lives.
pub(super) struct Mapping {
    start: NonNull<u8>,
    n_bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; its owner decides who may access it and when.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps private memory of this process: whole pages, all zero.
    pub(super) fn anonymous(n_bytes: usize) -> io::Result<Mapping> {
        Mapping::new(n_bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// Maps a file's pages over pages of this memory.
    ///
    /// # Errors
    /// The kernel's error; also if the pages do not all belong to this memory.
    pub(super) fn map_over(
        &self,
        at: usize,
        file: BorrowedFd<'_>,
        offset: usize,
        n_bytes: usize,
    ) -> io::Result<()> {
        if at.checked_add(n_bytes).is_none_or(|end| end > self.n_bytes) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: the pages are this mapping's, as just checked, and are unmapped with it.
        let start = unsafe {
            let start = self.start.add(at).as_ptr().cast();
            libc::mmap(start, n_bytes, protection, flags, file.as_raw_fd(), offset)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn of_socket(fd: BorrowedFd<'_>, n_bytes: usize, offset: u64) -> io::Result<Mapping> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Mapping::new(n_bytes, flags, fd.as_raw_fd(), offset)
    }

    fn new(
        n_bytes: usize,
        flags: libc::c_int,
        fd: libc::c_int,
        offset: libc::off_t,
    ) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), n_bytes, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Mapping { start, n_bytes })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of that length; pointers into it live no longer than their owner, which
        // has this value as a field. `munmap` fails only for a mapping that does not exist.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.n_bytes) };
    }
}

/// One ring. This process is either its producer or its consumer, and callers use only the methods of this role.
pub(super) struct Ring<T> {
    _mapping: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    n_entries: u32,
    /// This process's index, which may not be published yet. Both indices count entries, modulo 2^32.
    ours: u32,
    /// The kernel's index when this process last read it.
    theirs: u32,
}

// SAFETY: the pointers lead into `_mapping`, which may go to another thread; the kernel does not
// care which of our threads is at the other end.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `n_entries`, a power of two, that was set up on the socket; all its indices
    /// are 0.
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        offsets: &libc::xdp_ring_offset,
        n_entries: u32,
        page_offset: u64,
    ) -> io::Result<Ring<T>> {
        let n_bytes = offsets.desc as usize + n_entries as usize * size_of::<T>();
        let mapping = Mapping::of_socket(fd, n_bytes, page_offset)?;
        let place = |offset: u64, n_bytes: usize| {
            let end = (offset as usize).checked_add(n_bytes);
            if end.is_none_or(|end| end > mapping.n_bytes()) {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            // SAFETY: inside the mapping, as just checked.
            Ok(unsafe { mapping.start().add(offset as usize) })
        };
        let word = |offset| place(offset, 4).map(NonNull::cast);
        Ok(Ring {
            producer: word(offsets.producer)?,
            consumer: word(offsets.consumer)?,
            flags: word(offsets.flags)?,
            entries: place(offsets.desc, n_entries as usize * size_of::<T>())?.cast(),
            _mapping: mapping,
            n_entries,
            ours: 0,
            theirs: 0,
        })
    }

    /// Whether the kernel needs a system call to see new entries.
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: inside the mapping, aligned as the kernel lays it out; only accessed as an atomic.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Producer: returns for how many new entries there is room.
    pub(super) fn n_free(&mut self) -> u32 {
        self.theirs = load(self.consumer);
        self.n_entries - self.ours.wrapping_sub(self.theirs)
    }

    /// Producer: like [`Ring::n_free`], but reads the kernel's index only if the last known index leaves no room. The
    /// result may be too small.
    pub(super) fn n_free_at_least(&mut self) -> u32 {
        match self.n_entries - self.ours.wrapping_sub(self.theirs) {
            0 => self.n_free(),
            n_free => n_free,
        }
    }

    /// Producer: writes an entry, which the kernel does not see before [`Ring::publish`]. The caller has checked that
    /// there is room.
    pub(super) fn push(&mut self, entry: T) {
        // SAFETY: the index is within the ring; the entry is ours until the producer index passes it.
        unsafe { self.entry(self.ours).write(entry) };
        self.ours = self.ours.wrapping_add(1);
    }

    /// Producer: publishes pushed entries to the kernel.
    pub(super) fn publish(&mut self) {
        store(self.producer, self.ours);
    }

    /// Producer: returns how many pushed entries the kernel has not taken.
    pub(super) fn n_untaken(&mut self) -> u32 {
        self.n_entries - self.n_free()
    }

    /// Producer: returns the entry that the kernel took last, as this process wrote it.
    pub(super) fn last_taken(&mut self) -> T {
        self.theirs = load(self.consumer);
        // SAFETY: within the ring, whose places are all mapped; as producer we alone write them, and
        // any bytes are an entry.
        unsafe { self.entry(self.theirs.wrapping_sub(1)).read() }
    }

    /// Producer: returns the entries that the kernel has not taken, as this process wrote them.
    pub(super) fn untaken(&mut self) -> impl Iterator<Item = T> {
        self.theirs = load(self.consumer);
        let n_untaken = self.ours.wrapping_sub(self.theirs);
        (0..n_untaken).map(|place| {
            // SAFETY: as in `last_taken`.
            unsafe { self.entry(self.theirs.wrapping_add(place)).read() }
        })
    }

    /// Consumer: takes the oldest entry, if there is one. [`Ring::release`] returns its place to the kernel.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.ours == self.theirs {
            self.theirs = load(self.producer);
            if self.ours == self.theirs {
                return None;
            }
        }
        // SAFETY: the index is within the ring; the kernel has written the entry before it moved the
        // producer index past it, and does not write it again before our consumer index has passed.
        let entry = unsafe { self.entry(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        Some(entry)
    }

    /// Consumer: returns the places of popped entries to the kernel.
    pub(super) fn release(&mut self) {
        store(self.consumer, self.ours);
    }

    fn entry(&self, index: u32) -> NonNull<T> {
        let place = (index & (self.n_entries - 1)) as usize;
        // SAFETY: the place is below `n_entries`, and that many entries are inside the mapping.
        unsafe { self.entries.add(place) }
    }
}

fn load(index: NonNull<AtomicU32>) -> u32 {
    // SAFETY: an index of a mapped ring, aligned as the kernel lays it out; only accessed as an
    // atomic. Acquire: what the kernel did before it moved the index is seen.
    unsafe { index.as_ref() }.load(Ordering::Acquire)
}

fn store(index: NonNull<AtomicU32>, value: u32) {
    // SAFETY: as in `load`. Release: the kernel sees what we did before.
    unsafe { index.as_ref() }.store(value, Ordering::Release);
}
