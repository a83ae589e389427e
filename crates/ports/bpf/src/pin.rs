//! Pins objects: an object with a name in the BPF file system outlives its process.

#![expect(unsafe_code, reason = "paths go to bpf(2) as addresses")]

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::sys::{ObjectGet, ObjectPin, call, call_for_descriptor, number};

const MAGIC: u32 = 0xcafe_4a11;

/// Whether a folder is in a BPF file system, where objects can be pinned.
///
/// # Errors
/// The folder does not exist.
pub fn is_bpf_folder(path: &Path) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `statfs` is plain data, of which all bytes zero is a value.
    let mut found: libc::statfs = unsafe { mem::zeroed() };
    // SAFETY: the path ends with a zero, and both live through the call.
    match unsafe { libc::statfs(path.as_ptr(), &raw mut found) } {
        0 => Ok(found.f_type as u32 == MAGIC),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = ObjectPin {
        path: path.as_ptr() as u64,
        fd: number(object),
        flags: 0,
    };
    // SAFETY: the path ends with a zero and lives through the call.
    unsafe { call(&mut attributes) }.map(drop)
}

pub(crate) fn get(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = ObjectGet {
        path: path.as_ptr() as u64,
        fd: 0,
        flags: 0,
    };
    // SAFETY: the path ends with a zero and lives through the call.
    unsafe { call_for_descriptor(&mut attributes) }
}
