//! Generates code for parts of variable width in the frame: varbit fields, and bits that the parser skips. The parser's
//! positions stay constant; instead, the code adds the widths of the variable parts to the address in [`FRAME`].

use dataplane::engine::ir::{Expr, HeaderId, ParserOp};

use super::{
    emit::{Emit, Emitted, FRAME, FRAME_END, SCRATCH},
    layout::Word,
    parser::Parsing,
    paths::VARIABLE_BYTES_MAX,
};
use crate::asm::{Alu, Jump, Size, reg::*};

impl Emit<'_> {
    /// Extracts a header whose last field has variable width. The field's contents stay in the frame; the packet's
    /// state gets only the field's length.
    pub(super) fn extract_variable(
        &mut self,
        op: &ParserOp,
        header: HeaderId,
        at: u32,
        is_moved: bool,
        parsing: &mut Parsing<'_>,
    ) -> Emitted<()> {
        let ParserOp::ExtractVariable { bits, .. } = op else {
            return Err("an unknown statement".into());
        };
        let declared = &self.ir.headers[header.index()];
        let field = declared
            .variable_field
            .ok_or("no field of variable width")?;
        let (fixed, bytes_max) = (declared.fixed_bits / 8, declared.max_bytes);
        let kept = self.variable_bytes(bits, u32::MAX.into(), at + fixed, at, parsing)?;
        if bytes_max != 0 {
            let error = self.ir.core_errors.header_too_short;
            let long = self.fail(error, at, parsing);
            let variable_max = bytes_max.saturating_sub(fixed);
            self.asm.load(Size::B8, R1, R10, kept);
            self.asm
                .jump_if_imm(Jump::Gt, R1, variable_max.cast_signed(), long);
        }
        self.ensure(at + fixed, at, parsing);
        self.extract(header, at, is_moved, parsing);
        self.asm.load(Size::B8, R1, R10, kept);
        let length = self.layout.field(field, 0);
        self.asm.store(Size::B8, SCRATCH, length, R1);
        self.move_by(kept, parsing);
        Ok(())
    }

    /// Computes `bits`, a number of bits, converts it to a number of bytes, and spills that number. The parser fails
    /// unless `bits` is a multiple of 8 and not above `bits_max`, and the frame has at least that number of bytes after
    /// `end`.
    pub(super) fn variable_bytes(
        &mut self,
        bits: &Expr,
        bits_max: u64,
        end: u32,
        at: u32,
        parsing: &mut Parsing<'_>,
    ) -> Emitted<i16> {
        let errors = self.ir.core_errors;
        let range = self.exact(bits, R1)?;
        let wrong = self.fail(errors.parser_invalid_argument, at, parsing);
        if range.signed {
            self.asm.jump_if_imm(Jump::Slt, R1, 0, wrong);
        }
        if range.bits > 32 && bits_max <= u32::MAX.into() {
            self.asm.mov_imm(R2, bits_max);
            self.asm.jump_if(Jump::Gt, R1, R2, wrong);
        }
        self.asm.mov(R2, R1);
        self.asm.alu_imm(Alu::And, R2, 7);
        self.asm.jump_if_imm(Jump::Ne, R2, 0, wrong);
        self.asm.alu_imm(Alu::Rsh, R1, 3);
        let short = self.fail(errors.packet_too_short, at, parsing);
        self.asm.mov(R2, FRAME_END);
        self.asm.alu(Alu::Sub, R2, FRAME);
        self.asm.alu_imm(Alu::Sub, R2, end as i32);
        self.asm.jump_if(Jump::Slt, R2, R1, short);
        self.spill(R1)
    }

    /// Skips the number of bytes that stack slot `kept` holds.
    pub(super) fn move_by(&mut self, kept: i16, parsing: &mut Parsing<'_>) {
        let punt = self.ends.punt;
        self.asm.load(Size::B8, R1, R10, kept);
        self.free_spill_slot();
        self.load_word(R2, Word::Moved);
        self.asm.alu(Alu::Add, R2, R1);
        self.store_word(Word::Moved, R2);
        let beyond = VARIABLE_BYTES_MAX.cast_signed();
        self.asm.jump_if_imm(Jump::Gt, R2, beyond, punt);
        // The comparison gives the verifier a bound on `R1`.
        self.asm.jump_if_imm(Jump::Gt, R1, beyond, punt);
        self.asm.alu(Alu::Add, FRAME, R1);
        parsing.n_checked = 0;
    }
}
