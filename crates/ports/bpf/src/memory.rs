//! An array's value, mapped into the process.

#![expect(unsafe_code, reason = "the map's memory is mapped")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::{Map, MapConfig, MapKind};

/// The only value of an array, mapped into the process. A store to an aligned word reaches programs atomically and
/// without a system call. Programs access the value by [`crate::MapReference::Value`].
#[derive(Debug)]
pub struct Memory {
    map: Map,
    start: NonNull<u8>,
}

// SAFETY: `Memory` alone owns the mapping, and accesses it through atomics only.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Creates an array with one value of `n_bytes` bytes (at least one), all zero, and maps it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn create(name: &str, n_bytes: u32) -> io::Result<Memory> {
        let map = Map::create(&MapConfig {
            name,
            kind: MapKind::Array,
            key_bytes: 4,
            value_bytes: n_bytes,
            n_entries_max: 1,
            flags: MapConfig::MAPPABLE,
            inner: None,
        })?;
        Memory::map_array(map)
    }

    /// Maps the value of an array that has one entry and was created with `MapConfig::MAPPABLE`.
    ///
    /// # Errors
    /// The kernel's error, or the map is not an array of one entry.
    pub fn map_array(map: Map) -> io::Result<Memory> {
        if map.kind() != MapKind::Array || map.n_entries_max() != 1 {
            let message = "expected an array of one entry";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // SAFETY: a new mapping at an address of the kernel's choice; the kernel refuses a map that cannot be mapped.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map.value_bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Memory { map, start })
    }

    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Returns the memory as 64-bit words. If the last word is incomplete, it is left out.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page boundary, has `value_bytes` bytes and lives as long as `self`.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().cast(), self.map.value_bytes() / 8)
        }
    }

    /// Returns the memory as 32-bit words. If the last word is incomplete, it is left out.
    pub fn halves(&self) -> &[AtomicU32] {
        // SAFETY: as above.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().cast(), self.map.value_bytes() / 4)
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nobody uses any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.map.value_bytes()) };
    }
}
