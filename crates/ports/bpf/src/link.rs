//! Links: attachments of programs to interfaces and tracepoints.

#![expect(unsafe_code, reason = "attributes go to bpf(2) as addresses")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::Program;
use crate::pin;
use crate::sys::{
    LinkCreate, LinkUpdate, ObjectInfo, RawTracepointOpen, call, call_for_descriptor, number,
};

// `enum bpf_attach_type` of `linux/bpf.h`; flags of `linux/if_link.h`.
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

const BPF_LINK_TYPE_XDP: u32 = 6;

/// The beginning of `struct bpf_link_info`.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    link_type: u32,
    id: u32,
    program_id: u32,
    padding: u32,
    interface_index: u32,
    padding_behind: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel makes its own packet (`sk_buff`).
    Native,
    /// After the driver, on the kernel's `sk_buff`.
    Generic,
}

/// A program's attachment to an interface or a tracepoint. The kernel detaches the program when the last descriptor
/// closes, unless the link is pinned.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl Link {
    /// Attaches an XDP program to an interface.
    ///
    /// # Errors
    /// The kernel's error: `EBUSY` or `EEXIST` where the interface has a program, `EOPNOTSUPP` where the
    /// driver has no XDP.
    pub fn attach_xdp(
        program: &Program,
        interface_index: u32,
        mode: AttachMode,
    ) -> io::Result<Link> {
        let mut attributes = LinkCreate {
            program_fd: number(program.as_fd()),
            target: interface_index,
            attach_type: BPF_XDP,
            flags: match mode {
                AttachMode::Native => XDP_FLAGS_DRV_MODE,
                AttachMode::Generic => XDP_FLAGS_SKB_MODE,
            },
        };
        // SAFETY: the attributes hold no addresses.
        let fd = unsafe { call_for_descriptor(&mut attributes) }?;
        Ok(Link { fd })
    }

    /// Attaches a program to the tracepoint of the kernel with this name.
    ///
    /// # Errors
    /// The kernel's error: `ENOENT` where there is no such tracepoint.
    pub fn attach_tracepoint(program: &Program, name: &CStr) -> io::Result<Link> {
        let mut attributes = RawTracepointOpen {
            name: name.as_ptr() as u64,
            program_fd: number(program.as_fd()),
            padding: 0,
        };
        // SAFETY: the name ends with a zero and lives through the call.
        let fd = unsafe { call_for_descriptor(&mut attributes) }?;
        Ok(Link { fd })
    }

    /// Replaces the attached program atomically: either the old or the new program handles a packet.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn replace(&self, program: &Program) -> io::Result<()> {
        let mut attributes = LinkUpdate {
            link_fd: number(self.fd.as_fd()),
            new_program_fd: number(program.as_fd()),
            flags: 0,
            old_program_fd: 0,
        };
        // SAFETY: the attributes hold no addresses.
        unsafe { call(&mut attributes) }.map(drop)
    }

    /// Returns the link's interface, or `None` if the interface is gone or the link is not an XDP link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn interface_index(&self) -> io::Result<Option<u32>> {
        let mut info = LinkInfo::default();
        let mut attributes = ObjectInfo {
            fd: number(self.fd.as_fd()),
            info_bytes: size_of::<LinkInfo>() as u32,
            info: &raw mut info as u64,
        };
        // SAFETY: the kernel writes at most `info_bytes` bytes, into fields that are all integers.
        unsafe { call(&mut attributes) }?;
        let is_alive = info.link_type == BPF_LINK_TYPE_XDP && info.interface_index != 0;
        Ok(is_alive.then_some(info.interface_index))
    }

    /// Pins the link: gives it a name in the BPF file system, so that it outlives the process.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        pin::pin(self.fd.as_fd(), path)
    }

    /// Opens a pinned link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pinned(path: &Path) -> io::Result<Link> {
        Ok(Link {
            fd: pin::get(path)?,
        })
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
