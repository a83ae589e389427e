//! The bpf(2) calls that an XDP program needs, each behind a safe function.
//!
//! The program is loaded without a loader: no ELF file, no C library, no compiler for BPF at build
//! time. A link attaches it to its interface. The kernel detaches it when the link's descriptor is
//! closed, however the process ends.

#![expect(
    unsafe_code,
    reason = "bpf(2) has no safe form in the standard library"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// `enum bpf_cmd`, `enum bpf_map_type`, `enum bpf_prog_type`, `enum bpf_attach_type` of
// `linux/bpf.h`; flags of `linux/if_link.h`.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Bytes of the verifier's log that are kept for an error.
const VERIFIER_LOG_BYTES: usize = 16 * 1024;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// Destination in the low half, source in the high one, on every machine that we run on.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

/// Where in the kernel an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttachMode {
    /// In the driver.
    Native,
    /// On the kernel's own packet, behind the driver.
    Generic,
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    n_entries_max: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    program_type: u32,
    n_instructions: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface_index: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program_fd: u32,
    interface_index: u32,
    attach_type: u32,
    flags: u32,
}

/// The attributes of one command.
trait Attributes {
    const COMMAND: libc::c_int;
}

impl Attributes for MapCreate {
    const COMMAND: libc::c_int = BPF_MAP_CREATE;
}
impl Attributes for MapUpdate {
    const COMMAND: libc::c_int = BPF_MAP_UPDATE_ELEM;
}
impl Attributes for ProgramLoad {
    const COMMAND: libc::c_int = BPF_PROG_LOAD;
}
impl Attributes for LinkCreate {
    const COMMAND: libc::c_int = BPF_LINK_CREATE;
}

/// A map from receive queue to AF_XDP socket.
pub(super) fn create_socket_map(n_queues: u32) -> io::Result<OwnedFd> {
    let attributes = MapCreate {
        map_type: BPF_MAP_TYPE_XSKMAP,
        key_bytes: 4,
        value_bytes: 4,
        n_entries_max: n_queues,
        flags: 0,
    };
    // SAFETY: the attributes hold no pointers.
    unsafe { call_for_descriptor(&attributes) }
}

/// Puts a socket into the map.
pub(super) fn set_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    let value = number(socket);
    let attributes = MapUpdate {
        map_fd: number(map),
        padding: 0,
        key: address(&raw const queue),
        value: address(&raw const value),
        flags: 0,
    };
    // SAFETY: key and value are the four bytes that the map was made for and live through the call.
    unsafe { call(&attributes) }.map(drop)
}

/// Loads an XDP program.
///
/// # Errors
/// The kernel's error, with the verifier's message if there is one.
pub(super) fn load_program(
    instructions: &[Instruction],
    name: &CStr,
    has_fragments: bool,
) -> io::Result<OwnedFd> {
    let mut name_bytes = [0; 16];
    for (to, from) in name_bytes.iter_mut().take(15).zip(name.to_bytes()) {
        *to = *from;
    }
    let mut attributes = ProgramLoad {
        program_type: BPF_PROG_TYPE_XDP,
        n_instructions: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        instructions: address(instructions.as_ptr()),
        license: address(c"Apache-2.0".as_ptr()),
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: if has_fragments {
            BPF_F_XDP_HAS_FRAGS
        } else {
            0
        },
        name: name_bytes,
        interface_index: 0,
        attach_type: BPF_XDP,
    };
    // SAFETY: instructions and license live through the call; the count is the slice's.
    let error = match unsafe { call_for_descriptor(&attributes) } {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    if !matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) {
        return Err(error);
    }
    // The verifier is asked why; a kernel that would take it now is welcome to.
    let mut log = vec![0_u8; VERIFIER_LOG_BYTES];
    attributes.log_level = 1;
    attributes.log_bytes = VERIFIER_LOG_BYTES as u32;
    attributes.log = log.as_mut_ptr() as u64;
    // SAFETY: as above, and the log is as long as said and written by this call only.
    unsafe { call_for_descriptor(&attributes) }.map_err(|_| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        match String::from_utf8_lossy(&log[..end]).trim() {
            "" => error,
            said => io::Error::new(error.kind(), format!("{error}; the verifier says: {said}")),
        }
    })
}

/// Attaches a program to an interface for as long as the result lives.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    interface_index: u32,
    mode: AttachMode,
) -> io::Result<OwnedFd> {
    let attributes = LinkCreate {
        program_fd: number(program),
        interface_index,
        attach_type: BPF_XDP,
        flags: match mode {
            AttachMode::Native => XDP_FLAGS_DRV_MODE,
            AttachMode::Generic => XDP_FLAGS_SKB_MODE,
        },
    };
    // SAFETY: the attributes hold no pointers.
    unsafe { call_for_descriptor(&attributes) }
}

/// # Safety
/// Every address in `attributes` is of memory that is valid, and writable where the command writes,
/// through the call.
unsafe fn call<A: Attributes>(attributes: &A) -> io::Result<libc::c_long> {
    // SAFETY: the structure is the beginning of `union bpf_attr` that the command reads, and its
    // size is given; the rest is the caller's promise.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            A::COMMAND,
            std::ptr::from_ref(attributes),
            size_of::<A>(),
        )
    };
    match result {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(result),
    }
}

/// # Safety
/// As [`call`]; the command's result is a new descriptor.
unsafe fn call_for_descriptor<A: Attributes>(attributes: &A) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { call(attributes) }?;
    let fd = libc::c_int::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: a descriptor that was just made and that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    // An open descriptor is no negative number.
    fd.as_raw_fd().cast_unsigned()
}

fn address<T>(pointer: *const T) -> u64 {
    pointer as u64
}
