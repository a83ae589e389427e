//! An instruction as the kernel reads it.

use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct bpf_insn`, RFC 9669, section 3.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Class, operation and source.
    pub code: u8,
    /// Destination in the low half, source in the high one, on every machine that we run on.
    pub registers: u8,
    /// Of a jump or an address in memory.
    pub offset: i16,
    /// A constant.
    pub immediate: i32,
}

/// What the two instructions that load a map's address make of its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapReference {
    /// The map, for helpers.
    Map,
    /// The value of an array's first entry, so many bytes behind its beginning.
    Value(u32),
}

impl Instruction {
    const LOAD_IMMEDIATE_64: u8 = 0x18;
    const PSEUDO_MAP_FD: u8 = 1;
    const PSEUDO_MAP_VALUE: u8 = 2;

    /// The two instructions that load the address of a map, or of the value of an array, into a register.
    pub fn load_map(register: u8, reference: MapReference, map: BorrowedFd<'_>) -> [Self; 2] {
        let (source, second) = match reference {
            MapReference::Map => (Self::PSEUDO_MAP_FD, 0),
            MapReference::Value(offset) => (Self::PSEUDO_MAP_VALUE, offset.cast_signed()),
        };
        let first = Self {
            code: Self::LOAD_IMMEDIATE_64,
            registers: source << 4 | register,
            offset: 0,
            immediate: map.as_raw_fd(),
        };
        let second = Self {
            code: 0,
            registers: 0,
            offset: 0,
            immediate: second,
        };
        [first, second]
    }
}
