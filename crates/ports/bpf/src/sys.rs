//! The system call bpf(2), and the attributes of each of its commands as laid out in `union bpf_attr` of `linux/bpf.h`.

#![expect(
    unsafe_code,
    reason = "bpf(2) has no safe form in the standard library"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub(crate) trait Attributes {
    /// A value of `enum bpf_cmd`.
    const COMMAND: libc::c_int;
}

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident = $command:literal { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Default)]
        pub(crate) struct $name { $(pub(crate) $field: $type),* }
        impl Attributes for $name {
            const COMMAND: libc::c_int = $command;
        }
    )*};
}

attributes! {
    /// `BPF_MAP_CREATE`
    MapCreate = 0 {
        map_type: u32,
        key_bytes: u32,
        value_bytes: u32,
        n_entries_max: u32,
        flags: u32,
        inner_map_fd: u32,
        numa_node: u32,
        name: [u8; 16],
    }
    /// `BPF_MAP_LOOKUP_ELEM`
    MapLookUp = 1 { map_fd: u32, padding: u32, key: u64, value: u64, flags: u64 }
    /// `BPF_MAP_UPDATE_ELEM`
    MapUpdate = 2 { map_fd: u32, padding: u32, key: u64, value: u64, flags: u64 }
    /// `BPF_MAP_DELETE_ELEM`
    MapDelete = 3 { map_fd: u32, padding: u32, key: u64 }
    /// `BPF_MAP_GET_NEXT_KEY`
    MapNextKey = 4 { map_fd: u32, padding: u32, key: u64, next_key: u64 }
    /// `BPF_PROG_LOAD`
    ProgramLoad = 5 {
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
    /// `BPF_OBJ_PIN`
    ObjectPin = 6 { path: u64, fd: u32, flags: u32 }
    /// `BPF_OBJ_GET`
    ObjectGet = 7 { path: u64, fd: u32, flags: u32 }
    /// `BPF_PROG_TEST_RUN`
    ProgramTestRun = 10 {
        program_fd: u32,
        verdict: u32,
        in_bytes: u32,
        out_bytes: u32,
        frame_in: u64,
        frame_out: u64,
        repeat: u32,
        duration_ns: u32,
        context_in_bytes: u32,
        context_out_bytes: u32,
        context_in: u64,
        context_out: u64,
        flags: u32,
        processor: u32,
        batch: u32,
        padding: u32,
    }
    /// `BPF_OBJ_GET_INFO_BY_FD`
    ObjectInfo = 15 { fd: u32, info_bytes: u32, info: u64 }
    /// `BPF_RAW_TRACEPOINT_OPEN`
    RawTracepointOpen = 17 { name: u64, program_fd: u32, padding: u32 }
    /// `BPF_MAP_LOOKUP_BATCH`
    MapLookUpBatch = 24 {
        in_batch: u64,
        out_batch: u64,
        keys: u64,
        values: u64,
        n_entries: u32,
        map_fd: u32,
        element_flags: u64,
        flags: u64,
    }
    /// `BPF_MAP_UPDATE_BATCH`
    MapUpdateBatch = 26 {
        in_batch: u64,
        out_batch: u64,
        keys: u64,
        values: u64,
        n_entries: u32,
        map_fd: u32,
        element_flags: u64,
        flags: u64,
    }
    /// `BPF_LINK_CREATE`
    LinkCreate = 28 { program_fd: u32, target: u32, attach_type: u32, flags: u32 }
    /// `BPF_LINK_UPDATE`
    LinkUpdate = 29 { link_fd: u32, new_program_fd: u32, flags: u32, old_program_fd: u32 }
}

/// # Safety
/// Every address in `attributes` is of memory that is valid, and writable where the command writes,
/// through the call.
pub(crate) unsafe fn call<A: Attributes>(attributes: &mut A) -> io::Result<libc::c_long> {
    // SAFETY: the structure is the beginning of `union bpf_attr` that the command reads and writes, and
    // its size is given; the rest is the caller's promise.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            A::COMMAND,
            std::ptr::from_mut(attributes),
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
pub(crate) unsafe fn call_for_descriptor<A: Attributes>(attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { call(attributes) }?;
    let fd = libc::c_int::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: a descriptor that was just made and that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn number(fd: BorrowedFd<'_>) -> u32 {
    // An open descriptor is not negative.
    fd.as_raw_fd().cast_unsigned()
}

/// An object's name in the kernel's form: 15 letters, digits, `_` or `.`, then a zero.
pub(crate) fn object_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().take(15).zip(name.bytes()) {
        let is_allowed = from.is_ascii_alphanumeric() || from == b'_' || from == b'.';
        *to = if is_allowed { from } else { b'_' };
    }
    bytes
}
