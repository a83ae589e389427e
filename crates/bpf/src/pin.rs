//! Objects with a name in the BPF file system, which live beyond their process.

#![expect(unsafe_code, reason = "paths go to bpf(2) as addresses")]

use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::sys::{ObjectGet, ObjectPin, call, call_for_descriptor, number};

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
