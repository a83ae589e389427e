//! An instruction in the kernel's format.

use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct bpf_insn`, RFC 9669, section 3.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub code: u8,
    /// The destination register is the low half, the source register the high half (on little-endian machines).
    pub registers: u8,
    /// Offset of a jump or a memory access.
    pub offset: i16,
    pub immediate: i32,
}

/// The address that [`Instruction::load_map`] puts into the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapReference {
    /// The map itself, as helpers expect it.
    Map,
    /// The address of this byte of an array's first value.
    Value(u32),
}

impl Instruction {
    const LOAD_IMMEDIATE_64: u8 = 0x18;
    const PSEUDO_MAP_FD: u8 = 1;
    const PSEUDO_MAP_VALUE: u8 = 2;

    /// Returns the two instructions that load a map, or an address in an array's value, into a register.
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
