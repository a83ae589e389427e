//! Generates code for arithmetic on numbers of several 64-bit words. Each function returns the lowest `n` words of the
//! result, as [`super::expression`] explains.

use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use dataplane::engine::ir::{
    Arithmetic, Expr,
    range::{self, Range},
};

use super::{Emit, Emitted, expression::Words};

impl Emit<'_, '_, '_> {
    pub(super) fn arithmetic(
        &mut self,
        op: Arithmetic,
        left: &Expr,
        right: &Expr,
        n: usize,
    ) -> Emitted<Words> {
        match op {
            Arithmetic::Add | Arithmetic::Sub => {
                let (left, right) = (self.low(left, n)?, self.low(right, n)?);
                Ok(self.add(&left, &right, op == Arithmetic::Sub))
            }
            Arithmetic::Mul => {
                let (left, right) = (self.low(left, n)?, self.low(right, n)?);
                Ok(self.multiply(&left, &right))
            }
            Arithmetic::And | Arithmetic::Or | Arithmetic::Xor => {
                let (left, right) = (self.low(left, n)?, self.low(right, n)?);
                let pairs = left.into_iter().zip(right);
                let words = pairs.map(|(a, b)| match op {
                    Arithmetic::And => self.b.ins().band(a, b),
                    Arithmetic::Or => self.b.ins().bor(a, b),
                    _ => self.b.ins().bxor(a, b),
                });
                Ok(words.collect())
            }
            Arithmetic::ShiftLeft => self.shift_left(left, right, n),
            Arithmetic::ShiftRight => self.shift_right(left, right, n),
            Arithmetic::Div | Arithmetic::Mod => self.divide(op, left, right, n),
            Arithmetic::TwoCompMod => self.two_comp_mod(left, right, n),
            Arithmetic::SaturateUnsigned | Arithmetic::SaturateSigned => {
                self.saturate(op, left, right, n)
            }
        }
    }

    fn add(&mut self, left: &[Value], right: &[Value], subtract: bool) -> Words {
        let mut carry = None;
        let mut out = Vec::with_capacity(left.len());
        for (position, (a, b)) in left.iter().zip(right).enumerate() {
            let is_last = position + 1 == left.len();
            let (mut sum, mut over) = if subtract {
                let over = self.b.ins().icmp(IntCC::UnsignedLessThan, *a, *b);
                (self.b.ins().isub(*a, *b), over)
            } else {
                let sum = self.b.ins().iadd(*a, *b);
                (sum, self.b.ins().icmp(IntCC::UnsignedLessThan, sum, *a))
            };
            if let Some(carry) = carry {
                let carry = self.b.ins().uextend(types::I64, carry);
                let next = if subtract {
                    self.b.ins().isub(sum, carry)
                } else {
                    self.b.ins().iadd(sum, carry)
                };
                let again = if subtract {
                    self.b.ins().icmp(IntCC::UnsignedLessThan, sum, carry)
                } else {
                    self.b.ins().icmp(IntCC::UnsignedLessThan, next, sum)
                };
                over = self.b.ins().bor(over, again);
                sum = next;
            }
            out.push(sum);
            carry = (!is_last).then_some(over);
        }
        out
    }

    /// Multiplies by long multiplication, with one row for each word of the right operand. Keeps only as many words of
    /// the product as the left operand has.
    fn multiply(&mut self, left: &[Value], right: &[Value]) -> Words {
        let n = left.len();
        if let ([left], [right]) = (left, right) {
            return vec![self.b.ins().imul(*left, *right)];
        }
        let mut total = self.extend(Vec::new(), false, n);
        for (shift, b) in right.iter().enumerate() {
            let zero = self.constant(0);
            let mut low = vec![zero; n];
            let mut high = vec![zero; n];
            for (position, a) in left.iter().enumerate().take(n - shift) {
                low[position + shift] = self.b.ins().imul(*a, *b);
                if let Some(slot) = high.get_mut(position + shift + 1) {
                    *slot = self.b.ins().umulhi(*a, *b);
                }
            }
            total = self.add(&total, &low, false);
            total = self.add(&total, &high, false);
        }
        total
    }

    fn shift_left(&mut self, left: &Expr, right: &Expr, n: usize) -> Emitted<Words> {
        if let Some(bits) = range::constant_amount(right) {
            let words = self.low(left, n)?;
            let zero = self.constant(0);
            let Some(bits) = bits else {
                return Ok(vec![zero; n]);
            };
            let (whole, part) = ((bits / 64) as usize, i64::from(bits % 64));
            return Ok((0..n)
                .map(|word| {
                    let Some(from) = word.checked_sub(whole) else {
                        return zero;
                    };
                    if part == 0 {
                        return words[from];
                    }
                    let high = self.b.ins().ishl_imm_u(words[from], part);
                    let Some(below) = from.checked_sub(1) else {
                        return high;
                    };
                    let low = self.b.ins().ushr_imm_u(words[below], 64 - part);
                    self.b.ins().bor(high, low)
                })
                .collect());
        }
        let amount = self.index(right)?;
        let words = self.low(left, n)?;
        let zero = self.constant(0);
        match words.as_slice() {
            [word] => {
                let shifted = self.b.ins().ishl(*word, amount);
                let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, amount, 64);
                Ok(vec![self.b.ins().select(inside, shifted, zero)])
            }
            [low, high] => {
                let whole = self.b.ins().iconcat(*low, *high);
                let shifted = self.b.ins().ishl(whole, amount);
                let inside = self
                    .b
                    .ins()
                    .icmp_imm_u(IntCC::UnsignedLessThan, amount, 128);
                let (low, high) = self.b.ins().isplit(shifted);
                Ok(self.select(inside, &[low, high], &[zero, zero]))
            }
            _ => Err("a shift by a variable of more than 128 bits".into()),
        }
    }

    fn shift_right(&mut self, left: &Expr, right: &Expr, n: usize) -> Emitted<Words> {
        if let Some(bits) = range::constant_amount(right) {
            let range = self.names().range(left);
            // If the amount is out of range, a shift by the width of the widest field has the same result: only the
            // sign remains.
            let bits = bits.unwrap_or(dataplane::limits::FIELD_BITS_MAX);
            let (whole, part) = ((bits / 64) as usize, i64::from(bits % 64));
            let needed = whole + n + 1;
            let exact = range.map_or(usize::MAX, |it| it.words() as usize);
            let signed = range.is_some_and(|it| it.is_signed());
            let words = self.low(left, exact.min(needed))?;
            let words = self.extend(words, signed, needed);
            return Ok((0..n)
                .map(|word| {
                    let (low, high) = (words[word + whole], words[word + whole + 1]);
                    if part == 0 {
                        return low;
                    }
                    // The word after the top word has no bits of the value: the shift brings in the sign, or zeros.
                    if word + whole + 1 == exact {
                        return if signed {
                            self.b.ins().sshr_imm_u(low, part)
                        } else {
                            self.b.ins().ushr_imm_u(low, part)
                        };
                    }
                    let low = self.b.ins().ushr_imm_u(low, part);
                    let high = self.b.ins().ishl_imm_u(high, 64 - part);
                    self.b.ins().bor(low, high)
                })
                .collect());
        }
        let amount = self.index(right)?;
        let (words, signed) = self.exact(left)?;
        let (shifted, width) = match words.as_slice() {
            [word] => {
                let shifted = if signed {
                    self.b.ins().sshr(*word, amount)
                } else {
                    self.b.ins().ushr(*word, amount)
                };
                (vec![shifted], 64)
            }
            [low, high] => {
                let whole = self.b.ins().iconcat(*low, *high);
                let shifted = if signed {
                    self.b.ins().sshr(whole, amount)
                } else {
                    self.b.ins().ushr(whole, amount)
                };
                let (low, high) = self.b.ins().isplit(shifted);
                (vec![low, high], 128)
            }
            _ => return Err("a shift by a variable of more than 128 bits".into()),
        };
        let fill = match words.last() {
            Some(top) if signed => self.b.ins().sshr_imm_u(*top, 63),
            _ => self.constant(0),
        };
        let inside = self
            .b
            .ins()
            .icmp_imm_u(IntCC::UnsignedLessThan, amount, width);
        let rest = vec![fill; shifted.len()];
        let result = self.select(inside, &shifted, &rest);
        Ok(self.extend(result, signed, n))
    }

    fn divide(&mut self, op: Arithmetic, left: &Expr, right: &Expr, n: usize) -> Emitted<Words> {
        let (a, b) = (self.bounded(left)?, self.bounded(right)?);
        let both = a.join(&b);
        if both.words() > 1 {
            return Err("a division of more than 64 bits".into());
        }
        let signed = both.is_signed();
        if a.is_signed_of(64) {
            return Err("a division that may overflow 64 bits".into());
        }
        let (left, right) = (self.low(left, 1)?[0], self.low(right, 1)?[0]);
        let (zero, one) = (self.constant(0), self.constant(1));
        let is_zero = self.b.ins().icmp_imm_u(IntCC::Equal, right, 0);
        let divisor = self.b.ins().select(is_zero, one, right);
        let result = match (op, signed) {
            (Arithmetic::Div, true) => self.b.ins().sdiv(left, divisor),
            (Arithmetic::Div, false) => self.b.ins().udiv(left, divisor),
            (_, true) => self.b.ins().srem(left, divisor),
            (_, false) => self.b.ins().urem(left, divisor),
        };
        let result = self.b.ins().select(is_zero, zero, result);
        Ok(self.extend(vec![result], signed, n))
    }

    fn two_comp_mod(&mut self, left: &Expr, right: &Expr, n: usize) -> Emitted<Words> {
        let bits = range::constant_amount(right).ok_or("a width that is not constant")?;
        let Some(bits) = bits.filter(|bits| *bits > 0) else {
            return Ok(self.extend(Vec::new(), false, n));
        };
        let target = Range::field(bits, true);
        let inner = self.names().range(left);
        if bits as usize >= 64 * n || inner.is_some_and(|it| it.is_within(&target)) {
            return self.low(left, n);
        }
        let words = self.low(left, bits.div_ceil(64) as usize)?;
        let words = self.wrap(words, bits, true);
        Ok(self.extend(words, true, n))
    }

    fn saturate(&mut self, op: Arithmetic, left: &Expr, right: &Expr, n: usize) -> Emitted<Words> {
        let bits = range::constant_amount(right).ok_or("a width that is not constant")?;
        let Some(bits) = bits else {
            return Ok(self.extend(Vec::new(), false, n));
        };
        let target = Range::field(bits, op == Arithmetic::SaturateSigned);
        let range = self.bounded(left)?;
        let (mut words, signed) = self.exact(left)?;
        let (low, high) = target.bounds();
        if range.goes_below(&target) {
            let limit = self.low(&Expr::Const(low), words.len())?;
            let beyond = self.less(&words, &limit, signed);
            words = self.select(beyond, &limit, &words);
        }
        if range.goes_above(&target) {
            let limit = self.low(&Expr::Const(high), words.len())?;
            let beyond = self.less(&limit, &words, signed);
            words = self.select(beyond, &limit, &words);
        }
        Ok(self.extend(words, signed || target.is_signed(), n))
    }
}
