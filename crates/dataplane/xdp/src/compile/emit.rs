//! The common parts of the code generator: registers, the stack, fields, validity, and how a packet's handling ends.

use std::collections::BTreeSet;

use dataplane::{
    ActionId, ActionInfo, Program,
    engine::{
        Interpreted,
        ir::{
            DigestId, FieldId, HeaderId, Ir, SourceLine, UnionId,
            range::{Names, Range},
        },
    },
};

use super::{
    layout::{Layout, Word},
    memory::Memory,
    needs::Needs,
};
use crate::{
    asm::{Alu, Assembler, Helper, Jump, Label, Reg, Size, reg::*},
    image::{MapRef, Symbol, TableLayout},
};

pub(super) const CONTEXT: Reg = R6;
pub(super) const SCRATCH: Reg = R7;
/// The frame's address in parser and deparser. In a control, the same register is called [`SLOT`]. It then holds the
/// address of the slot of [`crate::image::Body`] that contains the action and the arguments of a table entry, while
/// that action runs.
pub(super) const FRAME: Reg = R8;
pub(super) const SLOT: Reg = R8;
/// The end of the frame in parser and deparser. In a control, the same register is called [`BODY`]. It then holds the
/// number of the body that the lookup has found. A body is the memory of a table entry ([`crate::image::Body`]).
pub(super) const FRAME_END: Reg = R9;
pub(super) const BODY: Reg = R9;

/// Holds a short key while the key is assembled.
pub(super) const R_KEY: Reg = R1;

// Offsets of the members of `struct xdp_md`.
pub(super) const XDP_MD_DATA: i16 = 0;
pub(super) const XDP_MD_DATA_END: i16 = 4;
pub(super) const XDP_MD_DATA_META: i16 = 8;
pub(super) const XDP_MD_INGRESS_IFINDEX: i16 = 12;
pub(super) const XDP_MD_RX_QUEUE_INDEX: i16 = 16;
pub(super) const XDP_MD_EGRESS_IFINDEX: i16 = 20;

/// Values of `enum xdp_action`.
pub(super) const XDP_ABORTED: i32 = 0;
pub(super) const XDP_DROP: i32 = 1;
pub(super) const XDP_PASS: i32 = 2;

/// The stack offset of a number: the version of the tables that the packet sees.
pub(super) const STACK_VERSION: i16 = -8;
/// The stack offset of a number: the position of the port's first socket in the socket map.
pub(super) const STACK_SOCKETS: i16 = -16;
/// The stack offset of the first slot for a spilled register; the other slots are below it.
const STACK_SPILL: i16 = -24;
const SPILLS_MAX: i16 = 28;
/// The stack offset of the space for keys.
pub(super) const STACK_KEY: i16 = -512;

/// The result of generating code, or why the construct cannot be compiled.
pub(super) type Emitted<T> = Result<T, String>;

/// Which of the two eBPF programs is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The program for frames that ports receive: ingress, and egress of packets that go to one port.
    Ports,
    /// The program for the copies of a packet to a multicast group: only egress. It cannot punt a copy (leave it to the
    /// engine).
    Copies,
}

/// Jump targets that end the handling of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    /// Passes the frame to the engine.
    pub punt: Label,
    /// Drops the packet for the reason in [`Word::Reason`].
    pub drop: Label,
    /// Increments the counters that the journal lists, then ends the packet's handling according to [`Word::End`].
    pub finish: Label,
}

pub(super) struct Emit<'p> {
    pub program: &'p Program,
    pub ir: &'p Ir,
    pub layout: &'p Layout,
    pub memory: &'p Memory,
    pub needs: &'p Needs<'p>,
    pub kind: Kind,
    pub asm: Assembler,
    pub ends: Ends,
    pub left: Vec<Interpreted>,
    /// The action that is being compiled.
    pub action: Option<ActionId>,
    pub spills: i16,
    pub is_in_ingress: bool,
    /// Digests that the program requests.
    pub digests: BTreeSet<DigestId>,
    /// The journal lists the counters that a packet increments once it is certain that the packet is not punted. For
    /// each entry of the journal, this vector holds the number of a first counter. An entry that is not 0 means the
    /// counter whose number is the first counter's number plus the entry minus 1.
    pub journal: Vec<u32>,
}

pub(super) fn next(reg: Reg) -> Reg {
    Reg(reg.0 + 1)
}

impl<'p> Emit<'p> {
    pub(super) fn new(
        program: &'p Program,
        layout: &'p Layout,
        memory: &'p Memory,
        needs: &'p Needs<'p>,
        kind: Kind,
    ) -> Self {
        let mut asm = Assembler::default();
        let ends = Ends {
            punt: asm.label(),
            drop: asm.label(),
            finish: asm.label(),
        };
        Self {
            program,
            ir: program.ir(),
            layout,
            memory,
            needs,
            kind,
            asm,
            ends,
            left: Vec::new(),
            action: None,
            spills: 0,
            is_in_ingress: false,
            digests: BTreeSet::new(),
            journal: Vec::new(),
        }
    }

    pub(super) fn action_info(&self) -> Option<&'p ActionInfo> {
        let program: &'p Program = self.program;
        self.action.and_then(|action| program.action_info(action))
    }

    pub(super) fn names(&self) -> Names<'p, Ir> {
        Names {
            ir: self.ir,
            widths: self.ir,
            action: self.action_info(),
        }
    }

    /// Records that packets which reach this construct are punted.
    pub(super) fn leave(&mut self, place: String, reason: String) {
        let left = Interpreted { place, reason };
        if !self.left.contains(&left) {
            self.left.push(left);
        }
    }

    /// Adds a source line to the listing.
    pub(super) fn note_line(&mut self, text: &str, line: Option<&SourceLine>) {
        match line {
            Some(line) => self
                .asm
                .note(format!("{text}  {}:{}", line.file, line.line)),
            None => self.asm.note(text),
        }
    }

    pub(super) fn load_word(&mut self, to: Reg, word: Word) {
        let at = self.layout.word(word);
        self.asm.load(Size::B8, to, SCRATCH, at);
    }

    pub(super) fn store_word(&mut self, word: Word, from: Reg) {
        let at = self.layout.word(word);
        self.asm.store(Size::B8, SCRATCH, at, from);
    }

    pub(super) fn set_word(&mut self, word: Word, value: i32) {
        let at = self.layout.word(word);
        self.asm.store_imm(Size::B8, SCRATCH, at, value);
    }

    /// Spills a register and returns the stack slot.
    pub(super) fn spill(&mut self, from: Reg) -> Emitted<i16> {
        let at = self.spill_slot()?;
        self.asm.store(Size::B8, R10, at, from);
        Ok(at)
    }

    /// Takes a stack slot, which [`Emit::free_spill_slot`] frees.
    pub(super) fn spill_slot(&mut self) -> Emitted<i16> {
        if self.spills == SPILLS_MAX {
            return Err("too many intermediate values".into());
        }
        self.spills += 1;
        Ok(STACK_SPILL - 8 * (self.spills - 1))
    }

    /// Frees the slot taken last.
    pub(super) fn free_spill_slot(&mut self) {
        self.spills -= 1;
    }

    /// Truncates a register to `bits`, then zero- or sign-extends it.
    pub(super) fn wrap(&mut self, reg: Reg, bits: u32, signed: bool) {
        match (bits, signed) {
            (64.., _) => {}
            (0, _) => self.asm.mov_imm(reg, 0),
            (_, true) => {
                let shift = 64 - bits as i32;
                self.asm.alu_imm(Alu::Lsh, reg, shift);
                self.asm.alu_imm(Alu::Arsh, reg, shift);
            }
            (32, false) => self.asm.mov32(reg, reg),
            (..=31, false) => self
                .asm
                .alu_imm(Alu::And, reg, ((1_u32 << bits) - 1) as i32),
            (_, false) => {
                let shift = 64 - bits as i32;
                self.asm.alu_imm(Alu::Lsh, reg, shift);
                self.asm.alu_imm(Alu::Rsh, reg, shift);
            }
        }
    }

    /// Stores a register into a field of at most 64 bits. `range` bounds the register's value.
    pub(super) fn store_field(&mut self, field: FieldId, from: Reg, range: Option<Range>) {
        if !self.needs.is_needed(field) {
            return;
        }
        let declared = &self.ir.fields[field.index()];
        let target = Range::field(declared.bits, declared.signed);
        if !range.is_some_and(|range| range.is_within(&target)) {
            self.wrap(from, declared.bits, declared.signed);
        }
        let at = self.layout.field(field, 0);
        self.asm.store(Size::B8, SCRATCH, at, from);
    }

    pub(super) fn set_field(&mut self, field: Option<FieldId>, value: u16) {
        let Some(field) = field.filter(|field| self.needs.is_needed(*field)) else {
            return;
        };
        let bits = self.ir.fields[field.index()].bits;
        let value = match bits {
            ..=15 => i32::from(value) & ((1 << bits) - 1),
            _ => i32::from(value),
        };
        let at = self.layout.field(field, 0);
        self.asm.store_imm(Size::B8, SCRATCH, at, value);
    }

    /// Jumps to `to` if the header's validity is `is`. Overwrites `free`.
    pub(super) fn jump_if_valid(&mut self, header: HeaderId, is: bool, to: Label, free: Reg) {
        if self.ir.headers[header.index()].metadata {
            if is {
                self.asm.jump(to);
            }
            return;
        }
        let (at, bit) = self.layout.valid(header);
        self.asm.load(Size::B4, free, SCRATCH, at);
        let mask = (1_u32 << bit).cast_signed();
        if is {
            self.asm.jump32_if_imm(Jump::Set, free, mask, to);
        } else {
            self.asm.alu32_imm(Alu::And, free, mask);
            self.asm.jump32_if_imm(Jump::Eq, free, 0, to);
        }
    }

    /// Sets a header's validity and invalidates the other members of its union. Overwrites `R0`.
    pub(super) fn set_valid(&mut self, header: HeaderId, valid: bool) {
        let declared = &self.ir.headers[header.index()];
        if declared.metadata {
            return;
        }
        if let (true, Some(union)) = (valid, declared.union) {
            for member in self.members(union) {
                if member != header {
                    self.set_bit(member, false);
                }
            }
        }
        self.set_bit(header, valid);
    }

    fn set_bit(&mut self, header: HeaderId, valid: bool) {
        let (at, bit) = self.layout.valid(header);
        let mask = 1_u32 << bit;
        self.asm.load(Size::B4, R0, SCRATCH, at);
        if valid {
            self.asm.alu32_imm(Alu::Or, R0, mask.cast_signed())
        } else {
            self.asm.alu32_imm(Alu::And, R0, (!mask).cast_signed())
        }
        self.asm.store(Size::B4, SCRATCH, at, R0);
    }

    pub(super) fn members(&self, union: UnionId) -> Vec<HeaderId> {
        self.ir.unions[union.index()].members.clone()
    }

    /// Returns how many bytes a header takes on the wire, without its field of variable width. For such a field the
    /// state holds only the length in bytes.
    pub(super) fn header_bytes(&self, header: HeaderId) -> u32 {
        self.ir.headers[header.index()].fixed_bits / 8
    }

    /// Returns the fields that take bits on the wire, each with the position of its first bit in the header.
    pub(super) fn wire_fields(&self, header: HeaderId) -> Vec<(FieldId, u32)> {
        let mut at = 0;
        let mut fields = Vec::new();
        for field in self.ir.headers[header.index()].field_ids() {
            let bits = self.ir.fields[field.index()].bits;
            if bits > 0 {
                fields.push((field, at));
                at += bits;
            }
        }
        fields
    }

    pub(super) fn words(&self, field: FieldId) -> u32 {
        TableLayout::words(self.ir.fields[field.index()].bits)
    }

    pub(super) fn journal_entry(&mut self, first: u32) -> Emitted<i16> {
        let entry = self.journal.len() as u32;
        if entry == Layout::JOURNAL_MAX {
            return Err("too many tables and statements that count".into());
        }
        self.journal.push(first);
        Ok(self.layout.journal(entry))
    }

    /// Loads the address of a byte of the heap ([`crate::image::Heap`]). The heap is the value of a map that the loader
    /// writes.
    pub(super) fn heap(&mut self, to: Reg, at: u32) {
        let heap = self.memory.heap_map;
        self.asm.symbol(to, Symbol::Value(heap, at));
    }

    /// Looks up the key at a stack offset. Puts the value's address into `R0`, or 0 if the map does not have the key.
    pub(super) fn look_up(&mut self, map: MapRef, key: i16) {
        self.asm.symbol(R1, Symbol::Map(map));
        self.asm.mov(R2, R10);
        self.asm.alu_imm(Alu::Add, R2, i32::from(key));
        self.asm.call(Helper::MapLookupElem);
    }

    pub(super) fn load_frame(&mut self) {
        self.asm.load(Size::B4, FRAME, CONTEXT, XDP_MD_DATA);
        self.asm.load(Size::B4, FRAME_END, CONTEXT, XDP_MD_DATA_END);
    }
}
