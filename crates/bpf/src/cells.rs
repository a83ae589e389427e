//! Numbers that programs and the process see at once.

#![expect(unsafe_code, reason = "the map's memory is mapped")]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::{Map, MapConfig, MapKind};

/// An array whose only entry is numbers of 64 bits, mapped into the process: programs see a store as one,
/// without a system call. They reach it by [`crate::MapReference::Value`].
#[derive(Debug)]
pub struct Cells {
    map: Map,
    start: NonNull<AtomicU64>,
    n_cells: usize,
    n_bytes: usize,
}

// SAFETY: the memory is the mapping's, of which `Cells` is the only owner; it is used as atomics only.
unsafe impl Send for Cells {}
// SAFETY: as above.
unsafe impl Sync for Cells {}

impl Cells {
    /// Makes so many numbers, from 1, all 0.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn create(name: &str, n_cells: u32) -> io::Result<Cells> {
        let map = Map::create(&MapConfig {
            name,
            kind: MapKind::Array,
            key_bytes: 4,
            value_bytes: n_cells.saturating_mul(8),
            // Programs reach the value of an array that has one, without a call.
            n_entries_max: 1,
            flags: MapConfig::MAPPABLE,
            inner: None,
        })?;
        let n_bytes = n_cells as usize * size_of::<AtomicU64>();
        // SAFETY: a new mapping of a map that was made to be mapped; the kernel chooses where.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                n_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.fd_number(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Cells {
            map,
            start,
            n_cells: n_cells as usize,
            n_bytes,
        })
    }

    /// The map as programs use it.
    pub fn map(&self) -> &Map {
        &self.map
    }
}

impl std::ops::Deref for Cells {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many numbers, aligned to a page, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.n_cells) }
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nobody uses any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.n_bytes) };
    }
}

impl Map {
    fn fd_number(&self) -> libc::c_int {
        use std::os::fd::AsFd;
        self.as_fd().as_raw_fd()
    }
}
