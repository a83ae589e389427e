//! Reads the kernel's clock, and waits until every running BPF program has ended.

#![expect(
    unsafe_code,
    reason = "membarrier(2) has no safe form in the standard library"
)]

use std::io;
use std::mem;

/// `MEMBARRIER_CMD_GLOBAL`: the kernel waits for a grace period of RCU (`synchronize_rcu`).
const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;

/// Waits until every BPF program that is running at the call has ended, which takes some milliseconds. A program that
/// starts later sees everything that this process wrote before the call. The function also waits for the end of the
/// NAPI polls in which these programs run. So when it returns, the programs that run later in the same poll, on copies
/// of a frame, have ended too.
///
/// # Errors
/// The kernel has no membarrier(2), or keeps some processors free of the scheduler's ticks (`nohz_full`).
pub fn wait_for_programs() -> io::Result<()> {
    // SAFETY: takes no addresses.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel is PREEMPT_RT, where another NAPI poll on the same processor may interrupt a driver's poll.
pub fn is_realtime() -> bool {
    // SAFETY: `utsname` is plain data; with all bytes zero it is a valid value.
    let mut names: libc::utsname = unsafe { mem::zeroed() };
    // SAFETY: the address is of `names`, which lives through the call. `uname` fails for a bad address only.
    unsafe { libc::uname(&raw mut names) };
    let version = names.version.map(|c| c.to_ne_bytes()[0]);
    // `uname -v` prints this version.
    String::from_utf8_lossy(&version).contains("PREEMPT_RT")
}

/// Returns the clock that programs read (`bpf_ktime_get_ns`), in nanoseconds.
pub fn kernel_clock_ns() -> u64 {
    // SAFETY: `timespec` is plain data; with all bytes zero it is a valid value.
    let mut now: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: the address is of `now`, which lives through the call. Every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
