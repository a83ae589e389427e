//! What a process may do for the rest of its life: it gives up the capabilities that it does not need, and gains none by
//! what it executes.
//!
//! Capabilities belong to threads (capabilities(7)): a thread that was there before [`keep`] has what it had, and those
//! that are started afterwards have what the starting thread has.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// Capabilities, one or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(CapabilitySet);

impl Capabilities {
    /// None.
    pub const NONE: Self = Self(CapabilitySet::empty());
    /// `CAP_NET_RAW`: packet sockets, and sockets of AF_XDP.
    pub const NET_RAW: Self = Self(CapabilitySet::NET_RAW);
    /// `CAP_NET_ADMIN`: XDP programs on interfaces.
    pub const NET_ADMIN: Self = Self(CapabilitySet::NET_ADMIN);
    /// `CAP_BPF`: maps and programs.
    pub const BPF: Self = Self(CapabilitySet::BPF);
    /// `CAP_PERFMON`: programs that watch the kernel.
    pub const PERFMON: Self = Self(CapabilitySet::PERFMON);
    /// `CAP_IPC_LOCK`: memory of AF_XDP beyond the limit of locked memory.
    pub const IPC_LOCK: Self = Self(CapabilitySet::IPC_LOCK);
    /// `CAP_DAC_OVERRIDE`: files that belong to other users.
    pub const DAC_OVERRIDE: Self = Self(CapabilitySet::DAC_OVERRIDE);

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0.union(other.0))
    }

    /// `other` only if it is asked for.
    #[must_use]
    pub fn and_if(self, is_needed: bool, other: Self) -> Self {
        match is_needed {
            true => self.and(other),
            false => self,
        }
    }
}

/// Takes every capability but these from this thread, and from those that it will start. It may have had fewer.
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

/// The user whose files this process opens.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// No program that this thread executes, or one that it starts, has more privileges than the thread.
///
/// # Errors
/// The kernel refuses.
pub fn gain_none() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}

/// Gives everything up: for a thread that only computes and writes to what is open.
///
/// # Errors
/// The kernel refuses.
pub fn keep_none() -> io::Result<()> {
    keep(Capabilities::NONE)
}
