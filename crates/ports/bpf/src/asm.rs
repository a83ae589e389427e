//! eBPF instructions, and an assembler with labels. Encodings and names are those of RFC 9669, "BPF Instruction Set
//! Architecture".

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use crate::{Instruction, MapReference};

/// A register. `R0` holds a call's result. `R1` to `R5` are its arguments, and a call overwrites them. A call preserves
/// `R6` to `R9`. `R10` points to the end of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reg(pub u8);

pub mod reg {
    use super::Reg;

    pub const R0: Reg = Reg(0);
    pub const R1: Reg = Reg(1);
    pub const R2: Reg = Reg(2);
    pub const R3: Reg = Reg(3);
    pub const R4: Reg = Reg(4);
    pub const R5: Reg = Reg(5);
    pub const R6: Reg = Reg(6);
    pub const R7: Reg = Reg(7);
    pub const R8: Reg = Reg(8);
    pub const R9: Reg = Reg(9);
    pub const R10: Reg = Reg(10);
}

// Instruction classes, RFC 9669 section 3.
const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const ALU32: u8 = 0x04;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
const ALU64: u8 = 0x07;
/// Flag: the source operand is a register, not the immediate.
const X: u8 = 0x08;
const MEM: u8 = 0x60;
const ATOMIC: u8 = 0xc0;
/// Flag in an atomic operation's immediate: the old value goes to the source register.
const FETCH: i32 = 0x01;
/// An atomic operation's immediate: `BPF_CMPXCHG`.
const CMPXCHG: i32 = 0xf0 | FETCH;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const MOV: u8 = 0xb0;
/// Byte swap: class ALU32 with flag `X` converts to big endian; class ALU64 always swaps.
const END: u8 = 0xd0;
const JUMP_ALWAYS: u8 = 0x00;
const JUMP_ALWAYS_CODE: u8 = JMP | JUMP_ALWAYS;

fn is_wide(instruction: Instruction) -> bool {
    instruction.code == LOAD_IMMEDIATE_64
}

/// Width of a load or a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    B1,
    B2,
    B4,
    B8,
}

impl Size {
    /// All widths, the widest first.
    pub const ALL: [Self; 4] = [Self::B8, Self::B4, Self::B2, Self::B1];

    pub fn bytes(self) -> u32 {
        match self {
            Self::B1 => 1,
            Self::B2 => 2,
            Self::B4 => 4,
            Self::B8 => 8,
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::B1 => 0x10,
            Self::B2 => 0x08,
            Self::B4 => 0x00,
            Self::B8 => 0x18,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alu {
    Add,
    Sub,
    Mul,
    /// Unsigned; division by 0 gives 0.
    Div,
    Or,
    And,
    Lsh,
    /// Logical shift: fills with zeros.
    Rsh,
    /// Unsigned; modulo 0 leaves the destination unchanged.
    Mod,
    Xor,
    /// Arithmetic shift: fills with the sign.
    Arsh,
}

impl Alu {
    fn code(self) -> u8 {
        match self {
            Self::Add => 0x00,
            Self::Sub => 0x10,
            Self::Mul => 0x20,
            Self::Div => 0x30,
            Self::Or => 0x40,
            Self::And => 0x50,
            Self::Lsh => 0x60,
            Self::Rsh => 0x70,
            Self::Mod => 0x90,
            Self::Xor => 0xa0,
            Self::Arsh => 0xc0,
        }
    }
}

/// Condition of a jump. Conditions whose name begins with `S` compare signed numbers, except [`Jump::Set`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jump {
    Eq,
    Gt,
    Ge,
    Ne,
    Sgt,
    Sge,
    Lt,
    Le,
    Slt,
    Sle,
    /// The operands have a set bit in common.
    Set,
}

impl Jump {
    fn code(self) -> u8 {
        match self {
            Self::Eq => 0x10,
            Self::Gt => 0x20,
            Self::Ge => 0x30,
            Self::Set => 0x40,
            Self::Ne => 0x50,
            Self::Sgt => 0x60,
            Self::Sge => 0x70,
            Self::Lt => 0xa0,
            Self::Le => 0xb0,
            Self::Slt => 0xc0,
            Self::Sle => 0xd0,
        }
    }

    /// Returns the condition that holds exactly when `self` does not; `None` for [`Jump::Set`], which has no inverse.
    pub fn inverse(self) -> Option<Self> {
        Some(match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Gt => Self::Le,
            Self::Le => Self::Gt,
            Self::Ge => Self::Lt,
            Self::Lt => Self::Ge,
            Self::Sgt => Self::Sle,
            Self::Sle => Self::Sgt,
            Self::Sge => Self::Slt,
            Self::Slt => Self::Sge,
            Self::Set => return None,
        })
    }
}

/// Helper functions of the kernel: `enum bpf_func_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// Returns a pointer to a value, or null.
    MapLookupElem = 1,
    MapUpdateElem = 2,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    KtimeGetNs = 5,
    GetSmpProcessorId = 8,
    /// Sums 16-bit words as the Internet checksum does, over a multiple of 4 bytes.
    CsumDiff = 28,
    /// Moves the frame's beginning.
    XdpAdjustHead = 44,
    /// Redirects the frame to a device or a socket in a map.
    RedirectMap = 51,
    /// Moves the beginning of the metadata, which lies in front of the frame.
    XdpAdjustMeta = 54,
    /// Copies a record into a ring; returns 0 if there was room.
    RingbufOutput = 130,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(u32);

/// A map that code refers to: a number that the caller gives each of its maps. [`Code::link`] replaces the number by
/// the map's descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapRef(pub u32);

impl MapRef {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The address that a 64-bit immediate load puts into its register. [`Code::link`] completes the load with the map's
/// descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbol {
    /// A map (`BPF_PSEUDO_MAP_FD`).
    Map(MapRef),
    /// The address of a byte of a map's only value (`BPF_PSEUDO_MAP_VALUE`).
    Value(MapRef, u32),
}

/// Assembled instructions. They refer to maps by [`MapRef`] until [`Code::link`] fills in the maps' descriptors.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// The instructions, with resolved jumps.
    pub instructions: Vec<Instruction>,
    /// Positions of 64-bit immediate loads, each with the symbol that it loads, ordered by position.
    pub symbols: Vec<(usize, Symbol)>,
    /// Notes to print in a listing of the code, each with the position of its instruction, ordered by position.
    pub notes: Vec<(usize, String)>,
    /// Positions of loads of `egress_ifindex` from the context. The kernel allows such loads only in a device map's
    /// program.
    pub egress_interface_loads: Vec<usize>,
}

impl Code {
    /// Returns the instructions with the maps' descriptors.
    pub fn link<'m>(&self, map: impl Fn(MapRef) -> BorrowedFd<'m>) -> Vec<Instruction> {
        let mut linked = self.instructions.clone();
        for (position, symbol) in &self.symbols {
            let (reference, of) = match symbol {
                Symbol::Map(of) => (MapReference::Map, of),
                Symbol::Value(of, offset) => (MapReference::Value(*offset), of),
            };
            let register = linked[*position].registers & 0xf;
            let loads = Instruction::load_map(register, reference, map(*of));
            linked[*position..][..2].copy_from_slice(&loads);
        }
        linked
    }

    /// Replaces loads of `egress_ifindex` by a constant, so that `BPF_PROG_TEST_RUN`, which does not accept a device
    /// map's program, can run the code.
    pub fn with_egress_interface(mut self, index: u32) -> Self {
        for position in std::mem::take(&mut self.egress_interface_loads) {
            let load = &mut self.instructions[position];
            *load = Instruction {
                code: ALU64 | MOV,
                registers: load.registers & 0xf,
                offset: 0,
                immediate: index.cast_signed(),
            };
        }
        self
    }
}

/// The reason why a jump cannot be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JumpError {
    /// The distance does not fit into 16 bits.
    #[error("a jump of {distance} instructions, expected -32768 to 32767")]
    TooFar {
        /// In instructions.
        distance: i64,
    },
    #[error("a jump to a label that was never placed")]
    NotPlaced,
}

/// A position to roll back to: how many instructions, symbols, notes, egress loads and jumps there were.
#[derive(Debug, Clone, Copy)]
pub struct Mark([usize; 5]);

#[derive(Debug, Default)]
pub struct Assembler {
    code: Code,
    /// The position of each label; `None` until the label is placed.
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub fn position(&self) -> usize {
        self.code.instructions.len()
    }

    pub fn mark(&self) -> Mark {
        let code = &self.code;
        Mark([
            code.instructions.len(),
            code.symbols.len(),
            code.notes.len(),
            code.egress_interface_loads.len(),
            self.jumps.len(),
        ])
    }

    /// Removes everything that was added after `mark`. Labels that were placed after `mark` are no longer placed.
    pub fn rollback(&mut self, mark: Mark) {
        let [position, symbols, notes, loads, jumps] = mark.0;
        self.code.instructions.truncate(position);
        self.code.symbols.truncate(symbols);
        self.code.notes.truncate(notes);
        self.code.egress_interface_loads.truncate(loads);
        self.jumps.truncate(jumps);
        for label in &mut self.labels {
            // A label at this position may have been placed before the mark.
            *label = label.filter(|at| *at <= position);
        }
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Places a label at the next instruction.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.position());
    }

    /// Adds a note to the code's listing, at the next instruction.
    pub fn note(&mut self, text: impl Into<String>) {
        let position = self.position();
        self.code.notes.push((position, text.into()));
    }

    fn add(&mut self, code: u8, to: Reg, from: Reg, offset: i16, immediate: i32) {
        self.code.instructions.push(Instruction {
            code,
            registers: from.0 << 4 | to.0,
            offset,
            immediate,
        });
    }

    /// `to = to op from`, 64 bits.
    pub fn alu(&mut self, op: Alu, to: Reg, from: Reg) {
        self.add(ALU64 | X | op.code(), to, from, 0, 0);
    }

    /// `to = to op immediate`, 64 bits; the immediate is sign-extended.
    pub fn alu_imm(&mut self, op: Alu, to: Reg, immediate: i32) {
        self.add(ALU64 | op.code(), to, Reg(0), 0, immediate);
    }

    /// `to = to op immediate`, 32 bits; the upper half becomes zero.
    pub fn alu32_imm(&mut self, op: Alu, to: Reg, immediate: i32) {
        self.add(ALU32 | op.code(), to, Reg(0), 0, immediate);
    }

    /// Signed division or modulo, 64 bits. RFC 9669 encodes it as the unsigned operation with offset 1.
    pub fn signed_alu(&mut self, op: Alu, to: Reg, from: Reg) {
        self.add(ALU64 | X | op.code(), to, from, 1, 0);
    }

    pub fn mov(&mut self, to: Reg, from: Reg) {
        if to != from {
            self.add(ALU64 | X | MOV, to, from, 0, 0);
        }
    }

    /// `to = from`, the low 32 bits; the upper half becomes zero.
    pub fn mov32(&mut self, to: Reg, from: Reg) {
        self.add(ALU32 | X | MOV, to, from, 0, 0);
    }

    /// `to = value`, in the shortest encoding.
    pub fn mov_imm(&mut self, to: Reg, value: u64) {
        if let Ok(short) = i32::try_from(value.cast_signed()) {
            self.add(ALU64 | MOV, to, Reg(0), 0, short);
        } else if let Ok(half) = u32::try_from(value) {
            self.add(ALU32 | MOV, to, Reg(0), 0, half.cast_signed());
        } else {
            self.add(LOAD_IMMEDIATE_64, to, Reg(0), 0, value as u32 as i32);
            self.add(0, Reg(0), Reg(0), 0, (value >> 32) as u32 as i32);
        }
    }

    /// `to = symbol`; [`Code::link`] completes the instruction.
    pub fn symbol(&mut self, to: Reg, symbol: Symbol) {
        let position = self.position();
        self.code.symbols.push((position, symbol));
        self.add(LOAD_IMMEDIATE_64, to, Reg(0), 0, 0);
        self.add(0, Reg(0), Reg(0), 0, 0);
    }

    /// Converts the low `size` bytes between host order and network order; the other bytes become zero.
    pub fn to_be(&mut self, to: Reg, size: Size) {
        if size != Size::B1 {
            self.add(ALU32 | X | END, to, Reg(0), 0, 8 * size.bytes() as i32);
        }
    }

    /// `to = *(from + offset)`, zero-extended.
    pub fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) {
        self.add(LDX | MEM | size.code(), to, from, offset, 0);
    }

    /// Loads `egress_ifindex` of `struct xdp_md`.
    pub fn load_egress_interface(&mut self, to: Reg, context: Reg, offset: i16) {
        let position = self.position();
        self.code.egress_interface_loads.push(position);
        self.load(Size::B4, to, context, offset);
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, size: Size, to: Reg, offset: i16, from: Reg) {
        self.add(STX | MEM | size.code(), to, from, offset, 0);
    }

    /// `*(to + offset) = immediate`; 8 bytes are sign-extended.
    pub fn store_imm(&mut self, size: Size, to: Reg, offset: i16, immediate: i32) {
        self.add(ST | MEM | size.code(), to, Reg(0), offset, immediate);
    }

    /// `*(to + offset) += add`, 8 bytes, atomically; the old value goes to `add`. An atomic operation that returns the
    /// old value is a full memory barrier.
    pub fn fetch_add(&mut self, to: Reg, offset: i16, add: Reg) {
        let code = STX | ATOMIC | Size::B8.code();
        self.add(code, to, add, offset, i32::from(Alu::Add.code()) | FETCH);
    }

    /// If the 8 bytes at `to + offset` equal `R0`, replaces them by `new`, atomically. The old value goes to `R0`.
    /// Needs Linux 5.12 or later.
    pub fn compare_exchange(&mut self, to: Reg, offset: i16, new: Reg) {
        let code = STX | ATOMIC | Size::B8.code();
        self.add(code, to, new, offset, CMPXCHG);
    }

    pub fn jump(&mut self, to: Label) {
        self.jump_code(JMP | JUMP_ALWAYS, Reg(0), Reg(0), 0, to);
    }

    /// Jumps if the comparison of 64 bits holds.
    pub fn jump_if(&mut self, op: Jump, left: Reg, right: Reg, to: Label) {
        self.jump_code(JMP | X | op.code(), left, right, 0, to);
    }

    /// Like `jump_if`, with a sign-extended immediate.
    pub fn jump_if_imm(&mut self, op: Jump, left: Reg, right: i32, to: Label) {
        self.jump_code(JMP | op.code(), left, Reg(0), right, to);
    }

    /// Like `jump_if_imm`, on the low 32 bits.
    pub fn jump32_if_imm(&mut self, op: Jump, left: Reg, right: i32, to: Label) {
        self.jump_code(JMP32 | op.code(), left, Reg(0), right, to);
    }

    fn jump_code(&mut self, code: u8, left: Reg, right: Reg, immediate: i32, to: Label) {
        self.jumps.push((self.position(), to));
        self.add(code, left, right, 0, immediate);
    }

    pub fn call(&mut self, helper: Helper) {
        self.add(CALL, Reg(0), Reg(0), 0, helper as i32);
    }

    /// Ends the program; `R0` is the verdict.
    pub fn exit(&mut self) {
        self.add(EXIT, Reg(0), Reg(0), 0, 0);
    }

    /// Resolves jumps and returns the code. Removes unreachable instructions, which the verifier would refuse.
    ///
    /// # Errors
    /// A jump is too far from its label, or its label was never placed.
    pub fn finish(mut self) -> Result<Code, JumpError> {
        let targets: HashMap<usize, usize> = self
            .jumps
            .iter()
            .filter_map(|(from, label)| Some((*from, self.labels[label.0 as usize]?)))
            .collect();
        let is_kept = self.reachable(&targets);
        let mut moved = Vec::with_capacity(is_kept.len() + 1);
        let mut n = 0;
        for is_kept in &is_kept {
            moved.push(n);
            n += usize::from(*is_kept);
        }
        moved.push(n);
        for (from, _) in self.jumps.iter().filter(|(from, _)| is_kept[*from]) {
            // Offsets count from the next instruction.
            let to = targets.get(from).ok_or(JumpError::NotPlaced)?;
            let distance = moved[*to] as i64 - moved[*from] as i64 - 1;
            let offset = i16::try_from(distance).map_err(|_| JumpError::TooFar { distance })?;
            self.code.instructions[*from].offset = offset;
        }
        let mut position = 0;
        self.code.instructions.retain(|_| {
            position += 1;
            is_kept[position - 1]
        });
        self.code.symbols.retain(|(at, _)| is_kept[*at]);
        self.code
            .notes
            .retain(|(at, _)| is_kept.get(*at) == Some(&true));
        let loads = &mut self.code.egress_interface_loads;
        loads.retain(|at| is_kept[*at]);
        loads.iter_mut().for_each(|at| *at = moved[*at]);
        for (at, _) in &mut self.code.symbols {
            *at = moved[*at];
        }
        for (at, _) in &mut self.code.notes {
            *at = moved[*at];
        }
        Ok(self.code)
    }

    /// Marks the instructions that are reachable and needed; a jump to the next instruction is not needed.
    fn reachable(&self, targets: &HashMap<usize, usize>) -> Vec<bool> {
        let code = &self.code.instructions;
        let mut is_reached = vec![false; code.len()];
        let mut to_do = vec![0];
        while let Some(mut at) = to_do.pop() {
            while at < code.len() && !is_reached[at] {
                is_reached[at] = true;
                let instruction = code[at];
                if is_wide(instruction) && at + 1 < code.len() {
                    is_reached[at + 1] = true;
                    at += 1;
                }
                if let Some(target) = targets.get(&at) {
                    to_do.push(*target);
                }
                if matches!(instruction.code, EXIT | JUMP_ALWAYS_CODE) {
                    break;
                }
                at += 1;
            }
        }
        // After unreachable code is removed, a jump's target may be the next instruction.
        let mut next = code.len();
        for at in (0..code.len()).rev() {
            if !is_reached[at] {
                continue;
            }
            let goes_nowhere = targets
                .get(&at)
                .is_some_and(|to| *to > at && *to <= next && code[at].code == JUMP_ALWAYS_CODE);
            if goes_nowhere {
                is_reached[at] = false;
            } else {
                next = at;
            }
        }
        is_reached
    }
}

#[cfg(test)]
mod tests {
    use super::{reg::*, *};

    fn bytes(instruction: Instruction) -> [u8; 8] {
        let (offset, immediate) = (
            instruction.offset.to_le_bytes(),
            instruction.immediate.to_le_bytes(),
        );
        let mut bytes = [instruction.code, instruction.registers, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset);
        bytes[4..].copy_from_slice(&immediate);
        bytes
    }

    #[test]
    fn instructions_are_encoded_as_llvm_encodes_them() {
        let mut asm = Assembler::default();
        asm.alu_imm(Alu::Add, R1, -1);
        asm.load(Size::B2, R2, R1, 12);
        asm.store(Size::B8, R10, -8, R2);
        asm.to_be(R2, Size::B2);
        asm.fetch_add(R1, 8, R2);
        asm.mov(R6, R1);
        asm.call(Helper::MapLookupElem);
        asm.exit();
        let code = asm.finish().expect("there are no jumps");
        let found: Vec<_> = code.instructions.into_iter().map(bytes).collect();
        // The encodings that llvm-mc prints for `r1 += -1`, `r2 = *(u16 *)(r1 + 12)` and so on.
        assert_eq!(
            found,
            [
                [0x07, 0x01, 0, 0, 0xff, 0xff, 0xff, 0xff],
                [0x69, 0x12, 0x0c, 0, 0, 0, 0, 0],
                [0x7b, 0x2a, 0xf8, 0xff, 0, 0, 0, 0],
                [0xdc, 0x02, 0, 0, 0x10, 0, 0, 0],
                [0xdb, 0x21, 0x08, 0, 0x01, 0, 0, 0],
                [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
                [0x85, 0, 0, 0, 1, 0, 0, 0],
                [0x95, 0, 0, 0, 0, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn jumps_go_forwards_and_backwards_and_say_when_they_do_not_reach() {
        let mut asm = Assembler::default();
        let (back, ahead) = (asm.label(), asm.label());
        asm.place(back);
        asm.jump_if_imm(Jump::Eq, R0, 0, ahead);
        asm.jump(back);
        asm.place(ahead);
        asm.exit();
        let code = asm.finish().expect("both labels are near");
        assert_eq!(code.instructions[0].offset, 1);
        assert_eq!(code.instructions[1].offset, -2);

        let mut asm = Assembler::default();
        let far = asm.label();
        asm.jump_if_imm(Jump::Eq, R0, 0, far);
        (0..40_000).for_each(|_| asm.mov_imm(R0, 0));
        asm.place(far);
        asm.exit();
        let error = asm.finish().expect_err("the label is too far");
        assert_eq!(error, JumpError::TooFar { distance: 40_000 });

        let mut asm = Assembler::default();
        let nowhere = asm.label();
        asm.jump(nowhere);
        let error = asm.finish().expect_err("the label is nowhere");
        assert_eq!(error, JumpError::NotPlaced);
    }

    #[test]
    fn what_nothing_leads_to_is_left_out() {
        let mut asm = Assembler::default();
        let (dead, end) = (asm.label(), asm.label());
        asm.jump(end);
        asm.place(dead);
        asm.mov_imm(R0, 7);
        asm.jump(dead);
        asm.place(end);
        asm.note("the end");
        asm.exit();
        let code = asm.finish().expect("labels are near");
        assert_eq!(code.instructions.len(), 1);
        assert_eq!(code.notes, [(0, "the end".to_owned())]);
    }

    #[test]
    fn constants_take_the_shortest_form() {
        let length = |value| {
            let mut asm = Assembler::default();
            asm.mov_imm(R0, value);
            asm.position()
        };
        assert_eq!(length(u64::MAX), 1);
        assert_eq!(length(u64::from(u32::MAX)), 1);
        assert_eq!(length(1 << 32), 2);
    }
}
