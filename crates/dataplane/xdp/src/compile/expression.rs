//! Generates code for numbers. An expression's value has infinite precision; the code loads one 64-bit word of the
//! value into a register. In operations for which more than the low bits matter (comparison, shift right, division,
//! saturation, index), the operand's range says how many words hold the operand exactly.

use dataplane::engine::ir::{
    AnyStack, Arithmetic, Expr, FieldId, HeaderExpr, HeaderId, Int,
    range::{self, Range},
};

use super::emit::{Emit, Emitted, SCRATCH, SLOT, next};
use crate::{
    asm::{Alu, Jump, Reg, Size, reg::*},
    image::{Body, TableLayout},
};

/// The most 64-bit words that a number can have.
pub(super) const WORDS_MAX: u32 = 16;

pub(super) fn low_word(value: &Int, word: u32) -> u64 {
    let shifted = value.clone() >> (64 * word as usize);
    u64::try_from(&(shifted & Int::from(u64::MAX))).unwrap_or_default()
}

impl Emit<'_> {
    pub(super) fn bounded(&self, expr: &Expr) -> Emitted<Range> {
        let range = self.names().range(expr);
        let range = range.ok_or("no bound is known for an operand")?;
        if range.words() <= WORDS_MAX {
            Ok(range)
        } else {
            Err(format!("an operand of more than {} bits", 64 * WORDS_MAX))
        }
    }

    /// Loads a number that one word holds exactly.
    pub(super) fn exact(&mut self, expr: &Expr, to: Reg) -> Emitted<Range> {
        let range = self.bounded(expr)?;
        if range.words() > 1 {
            return Err("arithmetic of more than 64 bits".into());
        }
        self.word(expr, 0, to)?;
        Ok(range)
    }

    /// Loads an index or a count. The code compares it as unsigned, so that a negative number is above every bound.
    pub(super) fn index(&mut self, expr: &Expr, to: Reg) -> Emitted<()> {
        self.exact(expr, to).map(|_| ())
    }

    /// Loads a word of a number. Overwrites the registers from `to` up to `R5`, and `R0`.
    pub(super) fn word(&mut self, expr: &Expr, word: u32, to: Reg) -> Emitted<()> {
        if word > 0 && !matches!(expr, Expr::Const(_) | Expr::Field(_) | Expr::Param(_)) {
            let range = self.names().range(expr);
            if let Some(range) = range.filter(|range| range.words() <= word) {
                return self.above(expr, range, to);
            }
        }
        match expr {
            Expr::Const(value) => {
                self.asm.mov_imm(to, low_word(value, word));
                Ok(())
            }
            Expr::Field(field) if self.ir.fields[field.index()].variable => {
                Err("a field of variable width".into())
            }
            Expr::Field(field) => {
                self.field_word(*field, word, to);
                Ok(())
            }
            Expr::ValidBit(header) => {
                self.valid_bit(*header, to);
                Ok(())
            }
            Expr::Param(index) => self.param(*index, word, to),
            Expr::Access { header, offset } => self.access(header, *offset, word, to),
            Expr::Register { .. } => Err("a register".into()),
            Expr::Arithmetic(op, left, right) => self.arithmetic(*op, left, right, word, to),
            Expr::Complement(operand) => {
                self.word(operand, word, to)?;
                self.asm.alu_imm(Alu::Xor, to, -1);
                Ok(())
            }
            Expr::Choose { condition, yes, no } => {
                let (otherwise, end) = (self.asm.label(), self.asm.label());
                self.jump_if(condition, false, otherwise, to)?;
                self.word(yes, word, to)?;
                self.asm.jump(end);
                self.asm.place(otherwise);
                self.word(no, word, to)?;
                self.asm.place(end);
                Ok(())
            }
            Expr::FromBool(operand) => {
                let (otherwise, end) = (self.asm.label(), self.asm.label());
                self.jump_if(operand, false, otherwise, to)?;
                self.asm.mov_imm(to, 1);
                self.asm.jump(end);
                self.asm.place(otherwise);
                self.asm.mov_imm(to, 0);
                self.asm.place(end);
                Ok(())
            }
            Expr::LastStackIndex(stack) => {
                self.next_index(*stack, to);
                self.asm.alu_imm(Alu::Add, to, -1);
                Ok(())
            }
            Expr::StackSize(stack) => {
                self.next_index(*stack, to);
                Ok(())
            }
        }
    }

    /// Loads a word that is above all words that hold the number. Each bit of such a word is the number's sign bit.
    fn above(&mut self, expr: &Expr, range: Range, to: Reg) -> Emitted<()> {
        if !range.signed {
            self.asm.mov_imm(to, 0);
            return Ok(());
        }
        self.word(expr, range.words() - 1, to)?;
        self.asm.alu_imm(Alu::Arsh, to, 63);
        Ok(())
    }

    pub(super) fn next_index(&mut self, stack: AnyStack, to: Reg) {
        let at = self.layout.next_index(stack);
        self.asm.load(Size::B8, to, SCRATCH, at);
    }

    pub(super) fn field_word(&mut self, field: FieldId, word: u32, to: Reg) {
        let declared = &self.ir.fields[field.index()];
        let words = TableLayout::words(declared.bits);
        if declared.bits == 0 || word >= words && !declared.signed {
            self.asm.mov_imm(to, 0);
            return;
        }
        let at = self.layout.field(field, word.min(words - 1));
        self.asm.load(Size::B8, to, SCRATCH, at);
        if word >= words {
            self.asm.alu_imm(Alu::Arsh, to, 63);
        }
    }

    fn param(&mut self, index: usize, word: u32, to: Reg) -> Emitted<()> {
        let info = self
            .action_info()
            .ok_or("a parameter outside of an action")?;
        let mut at = Body::ARGS;
        for param in &info.params[..index] {
            at += 8 * TableLayout::words(param.width_bits);
        }
        if word >= TableLayout::words(info.params[index].width_bits) {
            self.asm.mov_imm(to, 0);
            return Ok(());
        }
        self.asm.load(Size::B8, to, SLOT, (at + 8 * word) as i16);
        Ok(())
    }

    /// Loads a field of a header found at run time. The field is zero if the index is beyond the end of a stack.
    fn access(&mut self, header: &HeaderExpr, offset: u32, word: u32, to: Reg) -> Emitted<()> {
        let found = self.header_of(header);
        let some = |emit: &mut Self, header: HeaderId| {
            let field = emit.ir.headers[header.index()].field_at(offset);
            if emit.ir.fields[field.index()].variable {
                return Err("a field of variable width".into());
            }
            emit.field_word(field, word, to);
            Ok(())
        };
        self.for_found(&found, to, some, |emit| emit.asm.mov_imm(to, 0))
    }

    pub(super) fn valid_bit(&mut self, header: HeaderId, to: Reg) {
        if self.ir.headers[header.index()].metadata {
            self.asm.mov_imm(to, 1);
            return;
        }
        let (at, bit) = self.layout.valid(header);
        self.asm.load(Size::B4, to, SCRATCH, at);
        self.asm.alu_imm(Alu::Rsh, to, bit as i32);
        self.asm.alu_imm(Alu::And, to, 1);
    }

    /// Loads two words, the left one into `to`, and applies `op`.
    pub(super) fn pair(
        &mut self,
        to: Reg,
        left: (&Expr, u32),
        right: (&Expr, u32),
        op: impl FnOnce(&mut Self, Reg, Reg),
    ) -> Emitted<()> {
        self.word(left.0, left.1, to)?;
        if to < R5 {
            self.word(right.0, right.1, next(to))?;
            op(self, to, next(to));
            return Ok(());
        }
        let kept = self.spill(to)?;
        self.word(right.0, right.1, to)?;
        self.asm.mov(R0, to);
        self.asm.load(Size::B8, to, R10, kept);
        self.spills -= 1;
        op(self, to, R0);
        Ok(())
    }

    fn arithmetic(
        &mut self,
        op: Arithmetic,
        left: &Expr,
        right: &Expr,
        word: u32,
        to: Reg,
    ) -> Emitted<()> {
        let bitwise = match op {
            Arithmetic::And => Some(Alu::And),
            Arithmetic::Or => Some(Alu::Or),
            Arithmetic::Xor => Some(Alu::Xor),
            _ => None,
        };
        if let Some(alu) = bitwise {
            return self.simple(alu, left, right, word, to);
        }
        match op {
            Arithmetic::Add if word > 0 => self.wide_sum(left, right, false, word, to),
            Arithmetic::Sub if word > 0 => self.wide_sum(left, right, true, word, to),
            Arithmetic::Mul if word > 0 => Err("a product of more than 64 bits".into()),
            Arithmetic::Add => self.simple(Alu::Add, left, right, 0, to),
            Arithmetic::Sub => self.simple(Alu::Sub, left, right, 0, to),
            Arithmetic::Mul => self.simple(Alu::Mul, left, right, 0, to),
            Arithmetic::ShiftLeft => self.shift_left(left, right, word, to),
            Arithmetic::ShiftRight => self.shift_right(left, right, word, to),
            Arithmetic::Div | Arithmetic::Mod => self.divide(op, left, right, to),
            Arithmetic::TwoCompMod => self.two_comp_mod(left, right, word, to),
            _ => self.saturate(op, left, right, word, to),
        }
    }

    /// Applies an operation in which each word of the result depends only on the same word of the operands.
    fn simple(&mut self, alu: Alu, left: &Expr, right: &Expr, word: u32, to: Reg) -> Emitted<()> {
        let constant = match right {
            Expr::Const(value) => i32::try_from(low_word(value, word).cast_signed()).ok(),
            _ => None,
        };
        if let Some(constant) = constant {
            self.word(left, word, to)?;
            self.asm.alu_imm(alu, to, constant);
            return Ok(());
        }
        // A mask of the lowest bits is a truncation.
        if let (Alu::And, Expr::Const(mask)) = (alu, right) {
            let mask = low_word(mask, word);
            if mask.wrapping_add(1).is_power_of_two() {
                self.word(left, word, to)?;
                self.wrap(to, mask.trailing_ones(), false);
                return Ok(());
            }
        }
        self.pair(to, (left, word), (right, word), |emit, a, b| {
            emit.asm.alu(alu, a, b);
        })
    }

    /// Computes a word of a sum, or of a difference (by adding the complement and 1). The lower words give the carry.
    fn wide_sum(
        &mut self,
        left: &Expr,
        right: &Expr,
        subtracts: bool,
        word: u32,
        to: Reg,
    ) -> Emitted<()> {
        if to > R3 {
            return Err("arithmetic of more than 64 bits deep in an expression".into());
        }
        let (other, free) = (next(to), next(next(to)));
        let carry = self.spill_slot()?;
        self.asm
            .store_imm(Size::B8, R10, carry, i32::from(subtracts));
        for position in 0..=word {
            self.pair(to, (left, position), (right, position), |emit, _, _| {
                if subtracts {
                    emit.asm.alu_imm(Alu::Xor, other, -1);
                }
            })?;
            // The carry out of bit 63 without a jump: (a & b) | ((a | b) & !sum).
            self.asm.mov(R0, to);
            self.asm.alu(Alu::And, R0, other);
            self.asm.mov(free, to);
            self.asm.alu(Alu::Or, free, other);
            self.asm.alu(Alu::Add, to, other);
            self.asm.load(Size::B8, other, R10, carry);
            self.asm.alu(Alu::Add, to, other);
            self.asm.mov(other, to);
            self.asm.alu_imm(Alu::Xor, other, -1);
            self.asm.alu(Alu::And, free, other);
            self.asm.alu(Alu::Or, R0, free);
            self.asm.alu_imm(Alu::Rsh, R0, 63);
            self.asm.store(Size::B8, R10, carry, R0);
        }
        self.free_spill_slot();
        Ok(())
    }

    fn shift_left(&mut self, left: &Expr, right: &Expr, word: u32, to: Reg) -> Emitted<()> {
        if let Some(amount) = range::constant_amount(right) {
            let Some(amount) = amount else {
                self.asm.mov_imm(to, 0);
                return Ok(());
            };
            let (whole, part) = (amount / 64, (amount % 64) as i32);
            let Some(from) = word.checked_sub(whole) else {
                self.asm.mov_imm(to, 0);
                return Ok(());
            };
            if part == 0 || from == 0 {
                self.word(left, from, to)?;
                if part > 0 {
                    self.asm.alu_imm(Alu::Lsh, to, part);
                }
                return Ok(());
            }
            return self.pair(to, (left, from), (left, from - 1), |emit, high, low| {
                emit.asm.alu_imm(Alu::Lsh, high, part);
                emit.asm.alu_imm(Alu::Rsh, low, 64 - part);
                emit.asm.alu(Alu::Or, high, low);
            });
        }
        if word > 0 {
            return Err("a shift by a variable of more than 64 bits".into());
        }
        self.one_word(right)?;
        let (zero, end) = (self.asm.label(), self.asm.label());
        self.pair(to, (left, 0), (right, 0), |emit, value, amount| {
            emit.asm.jump_if_imm(Jump::Gt, amount, 63, zero);
            emit.asm.alu(Alu::Lsh, value, amount);
            emit.asm.jump(end);
            emit.asm.place(zero);
            emit.asm.mov_imm(value, 0);
            emit.asm.place(end);
        })
    }

    fn one_word(&self, expr: &Expr) -> Emitted<Range> {
        let range = self.bounded(expr)?;
        match range.words() {
            1 => Ok(range),
            _ => Err("arithmetic of more than 64 bits".into()),
        }
    }

    fn shift_right(&mut self, left: &Expr, right: &Expr, word: u32, to: Reg) -> Emitted<()> {
        let range = self.bounded(left)?;
        let arithmetic = if range.signed { Alu::Arsh } else { Alu::Rsh };
        if let Some(amount) = range::constant_amount(right) {
            // A shift by more bits than any field can have leaves only the sign.
            let amount = amount.unwrap_or(dataplane::limits::FIELD_BITS_MAX);
            let (whole, part) = (amount / 64, (amount % 64) as i32);
            let from = word + whole;
            if from + 1 >= range.words() || part == 0 {
                self.word(left, from, to)?;
                if part > 0 {
                    self.asm.alu_imm(arithmetic, to, part);
                }
                return Ok(());
            }
            return self.pair(to, (left, from), (left, from + 1), |emit, low, high| {
                emit.asm.alu_imm(Alu::Rsh, low, part);
                emit.asm.alu_imm(Alu::Lsh, high, 64 - part);
                emit.asm.alu(Alu::Or, low, high);
            });
        }
        if range.words() > 1 {
            return Err("a shift by a variable of more than 64 bits".into());
        }
        self.one_word(right)?;
        let inside = self.asm.label();
        self.pair(to, (left, 0), (right, 0), |emit, value, amount| {
            emit.asm.jump_if_imm(Jump::Le, amount, 63, inside);
            if range.signed {
                emit.asm.mov_imm(amount, 63)
            } else {
                emit.asm.mov_imm(value, 0);
                emit.asm.mov_imm(amount, 0);
            }
            emit.asm.place(inside);
            emit.asm.alu(arithmetic, value, amount);
        })
    }

    fn divide(&mut self, op: Arithmetic, left: &Expr, right: &Expr, to: Reg) -> Emitted<()> {
        let (a, b) = (self.one_word(left)?, self.one_word(right)?);
        let both = a.join(&b);
        if both.words() > 1 || a.signed && a.bits == 64 {
            return Err("a division of more than 64 bits".into());
        }
        let (zero, end) = (self.asm.label(), self.asm.label());
        self.pair(to, (left, 0), (right, 0), |emit, value, divisor| {
            emit.asm.jump_if_imm(Jump::Eq, divisor, 0, zero);
            let alu = match op {
                Arithmetic::Div => Alu::Div,
                _ => Alu::Mod,
            };
            if both.signed {
                emit.asm.signed_alu(alu, value, divisor)
            } else {
                emit.asm.alu(alu, value, divisor)
            }
            emit.asm.jump(end);
            emit.asm.place(zero);
            emit.asm.mov_imm(value, 0);
            emit.asm.place(end);
        })
    }

    fn two_comp_mod(&mut self, left: &Expr, right: &Expr, word: u32, to: Reg) -> Emitted<()> {
        let bits = range::constant_amount(right).ok_or("a width that is not constant")?;
        let Some(bits) = bits.filter(|bits| *bits > 0) else {
            self.asm.mov_imm(to, 0);
            return Ok(());
        };
        let target = Range::field(bits, true);
        let inner = self.names().range(left);
        self.word(left, word, to)?;
        if bits.div_ceil(64) == word + 1 && !inner.is_some_and(|it| it.is_within(&target)) {
            self.wrap(to, bits - 64 * word, true);
        }
        Ok(())
    }

    fn saturate(
        &mut self,
        op: Arithmetic,
        left: &Expr,
        right: &Expr,
        word: u32,
        to: Reg,
    ) -> Emitted<()> {
        let bits = range::constant_amount(right).ok_or("a width that is not constant")?;
        let Some(bits) = bits else {
            self.asm.mov_imm(to, 0);
            return Ok(());
        };
        let target = Range::field(bits, op == Arithmetic::SaturateSigned);
        let range = self.exact(left, to)?;
        let (low, high) = target.bounds();
        let (above, below) = if range.signed {
            (Jump::Sle, Jump::Sge)
        } else {
            (Jump::Le, Jump::Ge)
        };
        for (limit, inside, is_needed) in [
            (low, below, range.goes_below(&target)),
            (high, above, range.goes_above(&target)),
        ] {
            if is_needed {
                let fits = self.asm.label();
                self.asm.mov_imm(R0, low_word(&limit, 0));
                self.asm.jump_if(inside, to, R0, fits);
                self.asm.mov(to, R0);
                self.asm.place(fits);
            }
        }
        // Operand and result have one word each; every bit of a higher word is the sign bit.
        if word > 0 && target.signed {
            self.asm.alu_imm(Alu::Arsh, to, 63);
        } else if word > 0 {
            self.asm.mov_imm(to, 0);
        }
        Ok(())
    }
}
