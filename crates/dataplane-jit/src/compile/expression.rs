//! Expressions. A number is asked for by how many words of it are needed: that many of its lowest
//! are exact modulo their width. Where more than that counts (comparison, shift to the right,
//! division, saturation, index) the operand's interval says how many words hold it exactly.

use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use dataplane::RegisterId;
use dataplane::engine::ir::{
    AnyStack, Arithmetic, BoolExpr, Comparison, Expr, HeaderExpr, HeaderId, Int, UnionExpr,
};

use super::{
    Emit, Native, Region,
    range::{self, Range},
};
use crate::context::PassContext;

/// Words of a number at most: wider ones are left to the interpreter.
const WORDS_MAX: usize = 16;

/// Headers at most among which an index chooses by comparing.
const CANDIDATES_MAX: usize = 64;

/// A number's words, the lowest first.
pub(crate) type Words = Vec<Value>;

/// An expression that gives a header, as far as it is known when compiling.
pub(crate) enum Found {
    /// This one.
    Header(HeaderId),
    /// Beyond the end of a stack.
    Nothing,
    /// The one at the position that a value gives; none where there is no such position.
    Among(Vec<HeaderId>, Value),
}

fn low_word(value: &Int, word: usize) -> u64 {
    let shifted = value.clone() >> (64 * word);
    u64::try_from(&(shifted & Int::from(u64::MAX))).unwrap_or_default()
}

impl Emit<'_, '_, '_> {
    fn bounded(&self, expr: &Expr) -> Native<Range> {
        let range = self.names().range(expr);
        let range = range.ok_or("no bound is known for an operand")?;
        match range.words() <= WORDS_MAX {
            true => Ok(range),
            false => Err(format!("an operand of more than {} bits", 64 * WORDS_MAX)),
        }
    }

    /// The words that hold a number exactly, and whether the highest is signed.
    pub(crate) fn exact(&mut self, expr: &Expr) -> Native<(Words, bool)> {
        let range = self.bounded(expr)?;
        Ok((self.low(expr, range.words())?, range.is_signed()))
    }

    /// A number that is an index or a count: one word; what is no index is beyond every one.
    pub(crate) fn index(&mut self, expr: &Expr) -> Native<Value> {
        let (words, _) = self.exact(expr)?;
        self.one_word(&words)
    }

    fn one_word(&mut self, words: &[Value]) -> Native<Value> {
        let Some((first, rest)) = words.split_first() else {
            return Err("a number without words".into());
        };
        let mut result = *first;
        for word in rest {
            let beyond = self.constant(u64::MAX);
            let small = self.b.ins().icmp_imm_u(IntCC::Equal, *word, 0);
            result = self.b.ins().select(small, result, beyond);
        }
        Ok(result)
    }

    /// The lowest `n` words of a number.
    pub(crate) fn low(&mut self, expr: &Expr, n: usize) -> Native<Words> {
        if n > WORDS_MAX {
            return Err(format!("a number of more than {} bits", 64 * WORDS_MAX));
        }
        Ok(match expr {
            Expr::Const(value) => (0..n)
                .map(|word| self.constant(low_word(value, word)))
                .collect(),
            Expr::Field(field) => (0..n).map(|word| self.field_word(*field, word)).collect(),
            Expr::ValidBit(header) => {
                let valid = self.valid(*header);
                self.word_of_truth(valid, n)
            }
            Expr::Param(index) => self.param(*index, n),
            Expr::LastField { stack, offset } => {
                self.last_field(AnyStack::Headers(*stack), None, *offset, n)?
            }
            Expr::UnionLastField {
                stack,
                member,
                offset,
            } => self.last_field(AnyStack::Unions(*stack), Some(*member), *offset, n)?,
            Expr::Access { header, offset } => {
                let found = self.find(header)?;
                self.field_at(&found, *offset, n)?
            }
            Expr::Register { register, index } => self.register_cell(*register, index, n)?,
            Expr::Arithmetic(op, left, right) => self.arithmetic(*op, left, right, n)?,
            Expr::Complement(operand) => {
                let words = self.low(operand, n)?;
                words.into_iter().map(|it| self.b.ins().bnot(it)).collect()
            }
            Expr::Choose { condition, yes, no } => {
                let condition = self.truth(condition)?;
                let (yes, no) = (self.low(yes, n)?, self.low(no, n)?);
                self.select(condition, &yes, &no)
            }
            Expr::FromBool(operand) => {
                let truth = self.truth(operand)?;
                self.word_of_truth(truth, n)
            }
            Expr::LastStackIndex(stack) => {
                let next = self.next_index(*stack);
                let last = self.b.ins().iadd_imm_s(next, -1);
                self.extend(vec![last], true, n)
            }
            Expr::StackSize(stack) => {
                let next = self.next_index(*stack);
                self.extend(vec![next], false, n)
            }
        })
    }

    fn word_of_truth(&mut self, truth: Value, n: usize) -> Words {
        let word = self.b.ins().uextend(types::I64, truth);
        self.extend(vec![word], false, n)
    }

    /// Cuts or extends to `n` words.
    pub(crate) fn extend(&mut self, mut words: Words, signed: bool, n: usize) -> Words {
        if words.len() < n {
            let fill = match words.last() {
                Some(top) if signed => self.b.ins().sshr_imm_u(*top, 63),
                _ => self.constant(0),
            };
            words.resize(n, fill);
        }
        words.truncate(n);
        words
    }

    fn select(&mut self, condition: Value, yes: &[Value], no: &[Value]) -> Words {
        let pairs = yes.iter().zip(no);
        pairs
            .map(|(yes, no)| self.b.ins().select(condition, *yes, *no))
            .collect()
    }

    fn param(&mut self, index: usize, n: usize) -> Words {
        if let Some(bound) = self.bound.get(index) {
            return (0..n)
                .map(|word| self.constant(low_word(bound, word)))
                .collect();
        }
        let action = self.names().action;
        let slot = action.and_then(|action| crate::tables::param_slot(action, index));
        let (Some(slot), Some(args)) = (slot, self.args) else {
            return self.extend(Vec::new(), false, n);
        };
        let n_loaded = slot.len().min(n);
        let words = slot.take(n_loaded);
        let words = words
            .map(|word| self.load(types::I64, Region::Entry, args, 8 * word))
            .collect();
        self.extend(words, false, n)
    }

    fn last_field(
        &mut self,
        stack: AnyStack,
        member: Option<u32>,
        offset: u32,
        n: usize,
    ) -> Native<Words> {
        let candidates = self.names().last_candidates(stack, member);
        let next = self.next_index(stack);
        let last = self.b.ins().iadd_imm_s(next, -1);
        self.field_at(&Found::Among(candidates, last), offset, n)
    }

    /// Which header an expression gives.
    pub(crate) fn find(&mut self, header: &HeaderExpr) -> Native<Found> {
        let index = match header {
            HeaderExpr::Header(_) => None,
            HeaderExpr::Element { index, .. } => Some(index),
            HeaderExpr::Member { union, .. } => match union {
                UnionExpr::Union(_) => None,
                UnionExpr::Element { index, .. } => Some(index),
            },
        };
        let candidates = self.names().candidates(header);
        let position = match index.map(|index| &**index) {
            None => 0,
            Some(Expr::Const(index)) => usize::try_from(index).unwrap_or(usize::MAX),
            Some(index) => {
                if candidates.len() > CANDIDATES_MAX {
                    return Err(format!("an index into more than {CANDIDATES_MAX} headers"));
                }
                return Ok(Found::Among(candidates, self.index(index)?));
            }
        };
        Ok(match candidates.get(position) {
            Some(header) => Found::Header(*header),
            None => Found::Nothing,
        })
    }

    /// A field of a header, zero beyond the end of a stack.
    fn field_at(&mut self, found: &Found, offset: u32, n: usize) -> Native<Words> {
        let ir = self.ir();
        let field_of = |header: &HeaderId| ir.headers[header.index()].field_at(offset);
        match found {
            Found::Header(header) => Ok((0..n)
                .map(|word| self.field_word(field_of(header), word))
                .collect()),
            Found::Nothing => Ok(self.extend(Vec::new(), false, n)),
            Found::Among(candidates, index) => {
                if candidates.len() * n > CANDIDATES_MAX {
                    return Err(format!("an index into more than {CANDIDATES_MAX} words"));
                }
                let mut result = self.extend(Vec::new(), false, n);
                for (position, header) in (0i64..).zip(candidates) {
                    let is_it = self.b.ins().icmp_imm_u(IntCC::Equal, *index, position);
                    let words: Words = (0..n)
                        .map(|word| self.field_word(field_of(header), word))
                        .collect();
                    result = self.select(is_it, &words, &result);
                }
                Ok(result)
            }
        }
    }

    /// Where an array's cells are.
    pub(crate) fn array(&mut self, number: usize) -> Value {
        let arrays = self.load_context(types::I64, std::mem::offset_of!(PassContext, arrays));
        let offset = u32::try_from(8 * number).unwrap_or(u32::MAX);
        self.load(types::I64, Region::Entry, arrays, offset)
    }

    fn register_cell(&mut self, register: RegisterId, index: &Expr, n: usize) -> Native<Words> {
        let array = &self.ir().registers[register.index()];
        if array.bits > 64 {
            return Err("a register of more than 64 bits".into());
        }
        let index = self.index(index)?;
        if array.cells == 0 {
            return Ok(self.extend(Vec::new(), false, n));
        }
        let cells = i64::try_from(array.cells).unwrap_or(i64::MAX);
        let inside = self
            .b
            .ins()
            .icmp_imm_u(IntCC::UnsignedLessThan, index, cells);
        let zero = self.constant(0);
        let safe = self.b.ins().select(inside, index, zero);
        let address = self.cell_address(register.index(), safe, 3);
        let value = self.load(types::I64, Region::State, address, 0);
        let value = self.b.ins().select(inside, value, zero);
        Ok(self.extend(vec![value], false, n))
    }

    /// The address of a cell of `1 << shift` bytes.
    pub(crate) fn cell_address(&mut self, array: usize, index: Value, shift: i64) -> Value {
        let base = self.array(array);
        let offset = self.b.ins().ishl_imm_u(index, shift);
        self.b.ins().iadd(base, offset)
    }

    fn arithmetic(&mut self, op: Arithmetic, left: &Expr, right: &Expr, n: usize) -> Native<Words> {
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
                Ok(pairs
                    .map(|(left, right)| match op {
                        Arithmetic::And => self.b.ins().band(left, right),
                        Arithmetic::Or => self.b.ins().bor(left, right),
                        _ => self.b.ins().bxor(left, right),
                    })
                    .collect())
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
                let next = match subtract {
                    true => self.b.ins().isub(sum, carry),
                    false => self.b.ins().iadd(sum, carry),
                };
                let again = match subtract {
                    true => self.b.ins().icmp(IntCC::UnsignedLessThan, sum, carry),
                    false => self.b.ins().icmp(IntCC::UnsignedLessThan, next, sum),
                };
                over = self.b.ins().bor(over, again);
                sum = next;
            }
            out.push(sum);
            carry = (!is_last).then_some(over);
        }
        out
    }

    /// Modulo the width of the words: by hand, a row for each word of the right operand.
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

    fn shift_left(&mut self, left: &Expr, right: &Expr, n: usize) -> Native<Words> {
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

    fn shift_right(&mut self, left: &Expr, right: &Expr, n: usize) -> Native<Words> {
        if let Some(bits) = range::constant_amount(right) {
            let range = self.names().range(left);
            // Beyond every field the sign alone is left.
            let bits = bits.unwrap_or(dataplane::limits::FIELD_BITS_MAX);
            let (whole, part) = ((bits / 64) as usize, i64::from(bits % 64));
            let needed = whole + n + 1;
            let exact = range.as_ref().map_or(usize::MAX, Range::words);
            let signed = range.as_ref().is_some_and(Range::is_signed);
            let words = self.low(left, exact.min(needed))?;
            let mut words = words;
            if words.len() < needed {
                let fill = match words.last() {
                    Some(top) if signed => self.b.ins().sshr_imm_u(*top, 63),
                    _ => self.constant(0),
                };
                words.resize(needed, fill);
            }
            return Ok((0..n)
                .map(|word| {
                    let (low, high) = (words[word + whole], words[word + whole + 1]);
                    if part == 0 {
                        return low;
                    }
                    // The top word's shift brings in its sign at once.
                    if word + whole + 1 == exact {
                        return match signed {
                            true => self.b.ins().sshr_imm_u(low, part),
                            false => self.b.ins().ushr_imm_u(low, part),
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
                let shifted = match signed {
                    true => self.b.ins().sshr(*word, amount),
                    false => self.b.ins().ushr(*word, amount),
                };
                (vec![shifted], 64)
            }
            [low, high] => {
                let whole = self.b.ins().iconcat(*low, *high);
                let shifted = match signed {
                    true => self.b.ins().sshr(whole, amount),
                    false => self.b.ins().ushr(whole, amount),
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

    fn divide(&mut self, op: Arithmetic, left: &Expr, right: &Expr, n: usize) -> Native<Words> {
        let (a, b) = (self.bounded(left)?, self.bounded(right)?);
        let both = a.join(&b);
        if both.words() > 1 {
            return Err("a division of more than 64 bits".into());
        }
        let signed = both.is_signed();
        if signed && a.low == Int::from(i64::MIN) {
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

    fn two_comp_mod(&mut self, left: &Expr, right: &Expr, n: usize) -> Native<Words> {
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

    /// Cuts the highest word to a width and extends it.
    pub(crate) fn wrap(&mut self, mut words: Words, bits: u32, signed: bool) -> Words {
        let surplus = i64::from((64 - bits % 64) % 64);
        if bits == 0 {
            let zero = self.constant(0);
            words.fill(zero);
        } else if surplus > 0
            && let Some(top) = words.last_mut()
        {
            *top = if signed {
                let high = self.b.ins().ishl_imm_u(*top, surplus);
                self.b.ins().sshr_imm_u(high, surplus)
            } else {
                let mask = self
                    .b
                    .ins()
                    .iconst(types::I64, (u64::MAX >> surplus).cast_signed());
                self.b.ins().band(*top, mask)
            };
        }
        words
    }

    fn saturate(&mut self, op: Arithmetic, left: &Expr, right: &Expr, n: usize) -> Native<Words> {
        let bits = range::constant_amount(right).ok_or("a width that is not constant")?;
        let Some(bits) = bits else {
            return Ok(self.extend(Vec::new(), false, n));
        };
        let target = Range::field(bits, op == Arithmetic::SaturateSigned);
        let range = self.bounded(left)?;
        let (mut words, signed) = self.exact(left)?;
        let width = words.len();
        for (bound, is_beyond) in [
            (&target.low, range.low < target.low),
            (&target.high, range.high > target.high),
        ] {
            if !is_beyond {
                continue;
            }
            // A bound that the operand never reaches from the other side still fits its words,
            // since it lies inside of the operand's interval, or the operand lies beyond it.
            if !Range::point(bound.clone()).is_within(&range) {
                words = self.low(&Expr::Const(bound.clone()), width)?;
                if Range::point(bound.clone()).join(&range).words() > width {
                    return Err("a saturation that always happens".into());
                }
                continue;
            }
            let limit = self.low(&Expr::Const(bound.clone()), width)?;
            let beyond = match *bound == target.low {
                true => self.less(&words, &limit, signed),
                false => self.less(&limit, &words, signed),
            };
            words = self.select(beyond, &limit, &words);
        }
        Ok(self.extend(words, signed || target.is_signed(), n))
    }

    fn less(&mut self, left: &[Value], right: &[Value], signed: bool) -> Value {
        let mut result = None;
        for (position, (a, b)) in left.iter().zip(right).enumerate() {
            let is_top = position + 1 == left.len();
            let code = match is_top && signed {
                true => IntCC::SignedLessThan,
                false => IntCC::UnsignedLessThan,
            };
            let here = self.b.ins().icmp(code, *a, *b);
            result = Some(match result {
                None => here,
                Some(below) => {
                    let same = self.b.ins().icmp(IntCC::Equal, *a, *b);
                    let below = self.b.ins().band(same, below);
                    self.b.ins().bor(here, below)
                }
            });
        }
        result.unwrap_or_else(|| self.truth_constant(false))
    }

    fn equal(&mut self, left: &[Value], right: &[Value]) -> Value {
        if let ([left], [right]) = (left, right) {
            return self.b.ins().icmp(IntCC::Equal, *left, *right);
        }
        let mut differing = self.constant(0);
        for (a, b) in left.iter().zip(right) {
            let bits = self.b.ins().bxor(*a, *b);
            differing = self.b.ins().bor(differing, bits);
        }
        self.b.ins().icmp_imm_u(IntCC::Equal, differing, 0)
    }

    pub(crate) fn truth_constant(&mut self, truth: bool) -> Value {
        self.b.ins().iconst(types::I8, i64::from(truth))
    }

    fn negate(&mut self, truth: Value) -> Value {
        self.b.ins().bxor_imm_u(truth, 1)
    }

    fn compare(&mut self, op: Comparison, left: &Expr, right: &Expr) -> Native<Value> {
        let both = self.bounded(left)?.join(&self.bounded(right)?);
        let (n, signed) = (both.words(), both.is_signed());
        if n > WORDS_MAX {
            return Err(format!("a comparison of more than {} bits", 64 * WORDS_MAX));
        }
        let (left, right) = (self.low(left, n)?, self.low(right, n)?);
        Ok(match op {
            Comparison::Equal => self.equal(&left, &right),
            Comparison::NotEqual => {
                let equal = self.equal(&left, &right);
                self.negate(equal)
            }
            Comparison::Less => self.less(&left, &right, signed),
            Comparison::Greater => self.less(&right, &left, signed),
            Comparison::LessEqual => {
                let greater = self.less(&right, &left, signed);
                self.negate(greater)
            }
            Comparison::GreaterEqual => {
                let less = self.less(&left, &right, signed);
                self.negate(less)
            }
        })
    }

    /// A truth value: 0 or 1 in 8 bits.
    pub(crate) fn truth(&mut self, expr: &BoolExpr) -> Native<Value> {
        Ok(match expr {
            BoolExpr::Const(truth) => self.truth_constant(*truth),
            BoolExpr::Compare(op, left, right) => self.compare(*op, left, right)?,
            BoolExpr::SameHeader(left, right) => {
                let (left, right) = (self.find(left)?, self.find(right)?);
                self.same_header(&left, &right)?
            }
            BoolExpr::SameUnion(..) => return Err("a comparison of header unions".into()),
            BoolExpr::SameBool(left, right) => {
                let (left, right) = (self.truth(left)?, self.truth(right)?);
                self.b.ins().icmp(IntCC::Equal, left, right)
            }
            BoolExpr::And(left, right) => {
                let (left, right) = (self.truth(left)?, self.truth(right)?);
                self.b.ins().band(left, right)
            }
            BoolExpr::Or(left, right) => {
                let (left, right) = (self.truth(left)?, self.truth(right)?);
                self.b.ins().bor(left, right)
            }
            BoolExpr::Not(operand) => {
                let operand = self.truth(operand)?;
                self.negate(operand)
            }
            BoolExpr::Valid(header) => {
                let found = self.find(header)?;
                self.found_valid(&found)
            }
            BoolExpr::ValidUnion(UnionExpr::Union(union)) => {
                let members = &self.ir().unions[union.index()].members;
                let mut any = self.truth_constant(false);
                for member in members {
                    let valid = self.valid(*member);
                    any = self.b.ins().bor(any, valid);
                }
                any
            }
            BoolExpr::ValidUnion(UnionExpr::Element { .. }) => {
                return Err("the validity of an element of a stack of unions".into());
            }
            BoolExpr::FromNumber(operand) => {
                let (words, _) = self.exact(operand)?;
                let zero = self.extend(Vec::new(), false, words.len());
                let is_zero = self.equal(&words, &zero);
                self.negate(is_zero)
            }
            BoolExpr::Choose { condition, yes, no } => {
                let condition = self.truth(condition)?;
                let (yes, no) = (self.truth(yes)?, self.truth(no)?);
                self.b.ins().select(condition, yes, no)
            }
        })
    }

    fn found_valid(&mut self, found: &Found) -> Value {
        match found {
            Found::Header(header) => self.valid(*header),
            Found::Nothing => self.truth_constant(false),
            Found::Among(candidates, index) => {
                let mut result = self.truth_constant(false);
                for (position, header) in (0i64..).zip(candidates) {
                    let is_it = self.b.ins().icmp_imm_u(IntCC::Equal, *index, position);
                    let valid = self.valid(*header);
                    result = self.b.ins().select(is_it, valid, result);
                }
                result
            }
        }
    }

    fn same_header(&mut self, left: &Found, right: &Found) -> Native<Value> {
        let (left, right) = match (left, right) {
            (Found::Header(left), Found::Header(right)) => (*left, *right),
            (Found::Nothing, _) | (_, Found::Nothing) => return Ok(self.truth_constant(false)),
            _ => return Err("a comparison of headers that an index chooses".into()),
        };
        let ir = self.ir();
        let (a, b) = (&ir.headers[left.index()], &ir.headers[right.index()]);
        if a.type_index != b.type_index {
            return Ok(self.truth_constant(false));
        }
        let (mut left_words, mut right_words) = (Vec::new(), Vec::new());
        for (x, y) in a.field_ids().zip(b.field_ids()) {
            let slot = self.layout().field(x);
            if slot.words as usize > WORDS_MAX {
                return Err(format!("a comparison of more than {} bits", 64 * WORDS_MAX));
            }
            for word in 0..slot.words as usize {
                left_words.push(self.field_word(x, word));
                right_words.push(self.field_word(y, word));
            }
        }
        if a.variable_field.is_some() {
            left_words.push(self.variable_bits(left));
            right_words.push(self.variable_bits(right));
        }
        let same = self.equal(&left_words, &right_words);
        let (left, right) = (self.valid(left), self.valid(right));
        let valid = self.b.ins().band(left, right);
        Ok(self.b.ins().band(valid, same))
    }
}
