//! The kernel's time: its clock, and waiting until no program sees what was before.

#![expect(
    unsafe_code,
    reason = "membarrier(2) has no safe form in the standard library"
)]

use std::io;
use std::mem;

/// `MEMBARRIER_CMD_GLOBAL`: the kernel waits for a grace period of RCU (`synchronize_rcu`).
const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;

/// Waits until every program that ran when this was called has ended, some milliseconds: one that runs
/// after it sees all that was written before it was called. A frame and all copies that are made of it within one
/// round of the driver's count as one run.
///
/// # Errors
/// The kernel has no such call, or some processors are kept free of the scheduler (`nohz_full`).
pub fn wait_for_programs() -> io::Result<()> {
    // SAFETY: takes no addresses.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel is PREEMPT_RT: a driver's poll may be interrupted by another on the same processor.
pub fn is_realtime() -> bool {
    // SAFETY: `utsname` is plain data, of which all bytes zero is a value.
    let mut names: libc::utsname = unsafe { mem::zeroed() };
    // SAFETY: the address is of `names`, which lives through the call. It fails for a bad address only.
    unsafe { libc::uname(&raw mut names) };
    let version = names.version.map(|c| c.to_ne_bytes()[0]);
    // As `uname -v` prints it.
    String::from_utf8_lossy(&version).contains("PREEMPT_RT")
}

/// The clock that programs read (`bpf_ktime_get_ns`), in nanoseconds.
pub fn kernel_clock_ns() -> u64 {
    // SAFETY: `timespec` is plain data, of which all bytes zero is a value.
    let mut now: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: the address is of `now`, which lives through the call. Every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
