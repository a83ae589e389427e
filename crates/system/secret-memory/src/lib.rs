//! Memory for secrets: a region that is wiped in child processes and left out of core dumps, and a value that is
//! overwritten when it is dropped. The crate can also turn off core dumps of the whole process. Neither of the two protects against users who may read this process's memory
//! (root) or against a snapshot of the whole machine.
#![expect(unsafe_code, reason = "mmap, madvise, prctl and setrlimit")]

use std::io;
use std::mem::{ManuallyDrop, needs_drop};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes, zero at first, that fork(2) zeroes in the child and core dumps leave out (madvise(2): `MADV_WIPEONFORK`,
/// `MADV_DONTDUMP`).
#[derive(Debug)]
pub struct Wiped {
    start: NonNull<u8>,
    n_bytes: usize,
}

// SAFETY: the region belongs to this value alone.
unsafe impl Send for Wiped {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Wiped {}

impl Wiped {
    /// Makes a region of this many bytes, at least one.
    ///
    /// # Errors
    ///
    /// There is no memory, or the kernel lacks these flags (before Linux 4.14).
    pub fn new(n_bytes: usize) -> io::Result<Wiped> {
        let n_bytes = n_bytes.max(1);
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new anonymous mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), n_bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        let region = Wiped { start, n_bytes };
        for promise in [libc::MADV_WIPEONFORK, libc::MADV_DONTDUMP] {
            // SAFETY: the mapping is ours, and both flags leave its content as it is.
            if unsafe { libc::madvise(start.as_ptr().cast(), n_bytes, promise) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(region)
    }
}

impl Deref for Wiped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has `n_bytes` bytes, and this value owns it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.n_bytes) }
    }
}

impl DerefMut for Wiped {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `n_bytes` bytes, and this value owns it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.n_bytes) }
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        // The kernel clears pages before it gives them to another process.
        // SAFETY: the mapping is ours, and nobody uses it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.n_bytes) };
    }
}

/// A value on the heap whose bytes are overwritten with zeros when it is dropped: for values of libraries that do not
/// overwrite their keys themselves. A value that owns other memory, or does something when it is dropped, cannot be one.
pub struct Overwritten<T>(Box<ManuallyDrop<T>>);

impl<T> Overwritten<T> {
    const OWNS_NOTHING: () = assert!(!needs_drop::<T>(), "the value owns something");

    pub fn new(value: T) -> Overwritten<T> {
        let () = Self::OWNS_NOTHING;
        Overwritten(Box::new(ManuallyDrop::new(value)))
    }

    fn overwrite(&mut self) {
        let value: *mut ManuallyDrop<T> = &raw mut *self.0;
        // SAFETY: the value owns nothing, and only `drop` calls this: nobody reads it as a `T` any more.
        unsafe { zeroize::zeroize_flat_type(value) };
    }
}

impl<T> Deref for Overwritten<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Overwritten<T> {
    fn drop(&mut self) {
        self.overwrite();
    }
}

/// Makes sure that from now on this process leaves no core dump, and that only root can debug it or read its memory.
///
/// # Errors
///
/// The kernel refuses, although no reason for this is known.
pub fn no_core_dumps() -> io::Result<()> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls read their arguments and nothing else.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) != 0
            || libc::setrlimit(libc::RLIMIT_CORE, &none) != 0
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates `is_so` in a child process.
    fn in_a_child(is_so: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child makes system calls and ends; it needs no lock that another thread may hold.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let code = i32::from(!is_so());
            // SAFETY: it ends this child.
            unsafe { libc::_exit(code) };
        }
        let mut status = 1;
        // SAFETY: `status` lives through the call.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        waited == child && status == 0
    }

    #[test]
    fn a_child_finds_zeros_and_its_parent_what_it_wrote() {
        let mut region = Wiped::new(10_000).expect("memory");
        assert!(region.iter().all(|byte| *byte == 0));
        region.fill(7);
        assert!(in_a_child(|| region.iter().all(|byte| *byte == 0)));
        assert!(region.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn the_bytes_of_a_value_become_zeros() {
        let mut value = Overwritten::new([7_u8; 64]);
        assert_eq!(*value, [7; 64]);
        value.overwrite();
        // For bytes, zeros are a value.
        assert_eq!(*value, [0; 64]);
    }

    #[test]
    fn a_process_leaves_no_core_dump() {
        assert!(in_a_child(|| {
            let mut limit = libc::rlimit {
                rlim_cur: 1,
                rlim_max: 1,
            };
            let is_made = no_core_dumps().is_ok();
            // SAFETY: `limit` lives through the call.
            let is_read = unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) == 0 };
            // SAFETY: it has no arguments.
            let is_dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
            is_made && is_read && limit.rlim_max == 0 && is_dumpable == 0
        }));
    }
}
