//! Limits a process's privileges for the rest of its life: it gives up the capabilities that it does not need, and
//! gains none through programs that it executes.
//!
//! Capabilities belong to threads (capabilities(7)): a thread that was started before a call of [`keep`] keeps its
//! capabilities, and a new thread gets the capabilities of the thread that starts it.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(CapabilitySet);

impl Capabilities {
    pub const NONE: Self = Self(CapabilitySet::empty());
    /// `CAP_NET_RAW`: packet sockets and AF_XDP sockets.
    pub const NET_RAW: Self = Self(CapabilitySet::NET_RAW);
    /// `CAP_NET_ADMIN`: XDP programs on interfaces.
    pub const NET_ADMIN: Self = Self(CapabilitySet::NET_ADMIN);
    /// `CAP_BPF`: eBPF maps and programs.
    pub const BPF: Self = Self(CapabilitySet::BPF);
    /// `CAP_PERFMON`: eBPF programs that watch the kernel.
    pub const PERFMON: Self = Self(CapabilitySet::PERFMON);
    /// `CAP_IPC_LOCK`: memory of AF_XDP beyond the limit of locked memory.
    pub const IPC_LOCK: Self = Self(CapabilitySet::IPC_LOCK);
    /// `CAP_DAC_OVERRIDE`: files that belong to other users.
    pub const DAC_OVERRIDE: Self = Self(CapabilitySet::DAC_OVERRIDE);

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0.union(other.0))
    }

    /// Adds `other` if it is needed.
    #[must_use]
    pub fn and_if(self, is_needed: bool, other: Self) -> Self {
        if is_needed { self.and(other) } else { self }
    }
}

/// Drops every capability except `needed` from this thread and from the threads that it will start. Adds no capability.
///
/// # Errors
/// The kernel refuses.
pub fn keep(needed: Capabilities) -> io::Result<()> {
    let had = capabilities(None)?;
    let kept = had.permitted.intersection(needed.0);
    let sets = CapabilitySets {
        effective: had.effective.intersection(kept),
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)?;
    Ok(())
}

/// The id of the effective user, with whose permissions this process opens files.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes sure that a program gets no more privileges than the thread that executes it, in this thread and in the
/// threads that it will start.
///
/// # Errors
/// The kernel refuses.
pub fn gain_none() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}

/// Drops every capability, for a thread that only computes and writes to open files.
///
/// # Errors
/// The kernel refuses.
pub fn keep_none() -> io::Result<()> {
    keep(Capabilities::NONE)
}
