//! The deparser writes fields back into the frame. If the valid headers are those that were parsed, it writes only
//! fields that may have changed, in place. Otherwise it moves the frame's beginning and writes all headers.

use dataplane::engine::ir::{FieldId, HeaderId};

use super::{
    checksum::Part,
    emit::{CONTEXT, Emit, Emitted, FRAME, FRAME_END, SCRATCH},
    layout::Word,
    paths::{HEADER_BYTES_MAX, VARIABLE_BYTES_MAX},
    wire::{self, Group},
};
use crate::asm::{Alu, Helper, Jump, Label, Reg, Size, reg::*};

/// The greatest distance from the frame's beginning to a header's beginning, in bytes.
const POSITION_MAX: u32 = HEADER_BYTES_MAX + VARIABLE_BYTES_MAX;

/// A header's position in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Bytes from the frame's beginning.
    Constant(u32),
    /// The offset that the packet's state holds for the header.
    Noted,
}

/// Parameters of writing headers.
pub(super) struct Writing<'a> {
    /// Where the parser found a header in the frame. Valid only while headers are written in place.
    pub place: &'a dyn Fn(HeaderId) -> Place,
    /// Whether a field in the frame may have changed.
    pub is_changed: &'a dyn Fn(FieldId) -> bool,
    /// Whether headers may have become valid or invalid.
    pub may_change_validity: bool,
    /// Where to jump if the headers cannot be written, for example because the frame's beginning cannot be moved. The
    /// frame is unchanged then.
    pub refused: Label,
}

impl Emit<'_> {
    /// Returns the headers that the deparser emits, in order. Fails if the deparser emits a header twice.
    pub(super) fn emitted(&self) -> Emitted<Vec<HeaderId>> {
        let order = &self.ir.deparser.order;
        let mut emitted: Vec<HeaderId> = Vec::new();
        for header in order {
            if emitted.contains(header) {
                return Err("the deparser emits a header twice".into());
            }
            if !self.ir.headers[header.index()].fixed_bits.is_multiple_of(8) {
                return Err("a header that does not end at a whole byte".into());
            }
            emitted.push(*header);
        }
        Ok(emitted)
    }

    /// Writes the headers, stores the frame's length in [`Word::SentBytes`], and loads [`FRAME`] and [`FRAME_END`].
    pub(super) fn write_headers(&mut self, writing: &Writing<'_>) -> Emitted<()> {
        let emitted = self.emitted()?;
        let (anew, end) = (self.asm.label(), self.asm.label());
        if writing.may_change_validity {
            for (now, parsed) in self.layout.valid_words() {
                self.asm.load(Size::B4, R1, SCRATCH, now);
                self.asm.load(Size::B4, R2, SCRATCH, parsed);
                self.asm.jump_if(Jump::Ne, R1, R2, anew);
            }
            self.load_word(R1, Word::Irregular);
            self.asm.jump_if_imm(Jump::Ne, R1, 0, anew);
        }
        self.asm
            .note("headers as they were parsed: write the fields that may have changed");
        self.load_frame();
        self.asm.mov(R1, FRAME_END);
        self.asm.alu(Alu::Sub, R1, FRAME);
        self.store_word(Word::SentBytes, R1);
        for header in &emitted {
            self.write_changed(*header, writing)?;
        }
        if writing.may_change_validity {
            self.asm.jump(end);
            self.asm.place(anew);
            self.write_anew(&emitted, writing.refused)?;
        }
        self.asm.place(end);
        Ok(())
    }

    fn write_changed(&mut self, header: HeaderId, writing: &Writing<'_>) -> Emitted<()> {
        let groups = wire::groups(self.ir, header).into_iter();
        let groups = groups.filter(|group| group.fields.iter().any(|it| (writing.is_changed)(*it)));
        let groups = wire::joined(groups.collect());
        let Some(last) = groups.last() else {
            return Ok(());
        };
        let end = last.at + last.bytes;
        let invalid = self.asm.label();
        self.jump_if_valid(header, false, invalid, R1);
        let (base, offset) = match (writing.place)(header) {
            Place::Constant(offset) => (FRAME, offset),
            Place::Noted => {
                let at = self.layout.offset(header);
                self.asm.load(Size::B8, R4, SCRATCH, at);
                self.bounded_pointer(R4, writing.refused);
                (R4, 0)
            }
        };
        self.asm.mov(R1, base);
        self.asm.alu_imm(Alu::Add, R1, (offset + end) as i32);
        // The frame never ends before the header does, since the parser has found the header there. But the verifier
        // requires this check.
        self.asm.jump_if(Jump::Gt, R1, FRAME_END, writing.refused);
        for group in &groups {
            self.write_group(group, base, offset + group.at)?;
        }
        self.asm.place(invalid);
        Ok(())
    }

    /// Converts the offset in `reg` to an address in the frame. Jumps to `beyond` if the offset is above
    /// `POSITION_MAX`, so that the verifier knows a bound.
    pub(super) fn bounded_pointer(&mut self, reg: Reg, beyond: Label) {
        self.asm
            .jump_if_imm(Jump::Gt, reg, POSITION_MAX as i32, beyond);
        self.asm.alu(Alu::Add, reg, FRAME);
    }

    /// Moves the frame's beginning and writes all valid headers.
    fn write_anew(&mut self, emitted: &[HeaderId], refused: Label) -> Emitted<()> {
        self.asm
            .note("if headers were added or removed: move the frame's beginning");
        for header in emitted {
            self.refuse_variable(*header, refused);
        }
        self.asm.mov_imm(R1, 0);
        for header in emitted {
            let invalid = self.asm.label();
            self.jump_if_valid(*header, false, invalid, R2);
            let bytes = self.header_bytes(*header);
            self.asm.alu_imm(Alu::Add, R1, bytes as i32);
            self.asm.place(invalid);
        }
        self.load_word(R2, Word::Consumed);
        self.asm.alu(Alu::Sub, R2, R1);
        let same = self.asm.label();
        self.asm.jump_if_imm(Jump::Eq, R2, 0, same);
        self.asm.mov(R1, CONTEXT);
        self.asm.call(Helper::XdpAdjustHead);
        self.asm.jump_if_imm(Jump::Ne, R0, 0, refused);
        self.asm.place(same);
        self.load_frame();
        self.asm.mov(R1, FRAME_END);
        self.asm.alu(Alu::Sub, R1, FRAME);
        self.store_word(Word::SentBytes, R1);
        self.set_word(Word::Cursor, 0);
        for header in emitted {
            let invalid = self.asm.label();
            self.jump_if_valid(*header, false, invalid, R1);
            let bytes = self.header_bytes(*header);
            // The position is in memory, so that the verifier does not track how it was computed.
            self.load_word(R4, Word::Cursor);
            self.asm.mov(R1, R4);
            self.asm.alu_imm(Alu::Add, R1, bytes as i32);
            self.store_word(Word::Cursor, R1);
            self.bounded_pointer(R4, refused);
            self.asm.mov(R1, R4);
            self.asm.alu_imm(Alu::Add, R1, bytes as i32);
            self.asm.jump_if(Jump::Gt, R1, FRAME_END, refused);
            for group in wire::joined(wire::groups(self.ir, *header)) {
                self.write_group(&group, R4, group.at)?;
            }
            self.asm.place(invalid);
        }
        Ok(())
    }

    /// Jumps to `refused` if the header has a field of variable width that is not empty. The contents of such a field
    /// are only in the frame, so its header cannot be written anew.
    fn refuse_variable(&mut self, header: HeaderId, refused: Label) {
        let Some(field) = self.ir.headers[header.index()].variable_field else {
            return;
        };
        let absent = self.asm.label();
        self.jump_if_valid(header, false, absent, R1);
        let at = self.layout.field(field, 0);
        self.asm.load(Size::B8, R1, SCRATCH, at);
        self.asm.jump_if_imm(Jump::Ne, R1, 0, refused);
        self.asm.place(absent);
    }

    fn write_group(&mut self, group: &Group, base: Reg, at: u32) -> Emitted<()> {
        if let [field] = group.fields.as_slice()
            && group.bytes > 8
        {
            let words = self.words(*field);
            for word in 0..words {
                self.field_word(*field, word, R1);
                let n = (group.bytes - 8 * word).min(8);
                self.store_bytes(base, at + group.bytes - 8 * word - n, n);
            }
            return Ok(());
        }
        if group.bytes > 8 {
            let parts: Vec<Part> = group.fields.iter().copied().map(Part::Field).collect();
            self.pack(&parts.iter().collect::<Vec<_>>(), base, at as i16);
            return Ok(());
        }
        for (position, field) in group.fields.iter().enumerate() {
            let declared = &self.ir.fields[field.index()];
            let (bits, signed) = (declared.bits, declared.signed);
            let to = if position == 0 { R1 } else { R2 };
            self.field_word(*field, 0, to);
            if signed {
                self.wrap(to, bits, false);
            }
            if position > 0 {
                self.asm.alu_imm(Alu::Lsh, R1, bits as i32);
                self.asm.alu(Alu::Or, R1, R2);
            }
        }
        self.store_bytes(base, at, group.bytes);
        Ok(())
    }

    /// Stores the low `n` bytes of `R1` in network order. Overwrites `R2`.
    pub(super) fn store_bytes(&mut self, base: Reg, at: u32, n: u32) {
        let (mut at, mut left) = (at, n);
        while left > 0 {
            let size = Size::ALL.into_iter().find(|size| size.bytes() <= left);
            let size = size.unwrap_or(Size::B1);
            left -= size.bytes();
            self.asm.mov(R2, R1);
            if left > 0 {
                self.asm.alu_imm(Alu::Rsh, R2, 8 * left as i32);
            }
            self.asm.to_be(R2, size);
            self.asm.store(size, base, at as i16, R2);
            at += size.bytes();
        }
    }
}
