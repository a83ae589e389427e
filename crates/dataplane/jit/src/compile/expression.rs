//! Generates code for expressions. A word has 64 bits. A caller says how many words of a number it needs and gets the
//! lowest words: for `n` words, the number modulo 2 to the power of `64 * n`. Some operations depend on the whole
//! number (comparison, shift to the right, division, saturation, index). For these operations, the operand's range says
//! how many words hold the operand exactly.

use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use dataplane::RegisterId;
use dataplane::engine::ir::{Expr, HeaderExpr, HeaderId, Int, UnionExpr, instances, range::Range};

use super::{Emit, Emitted, Region};
use crate::context::PassContext;

/// Maximum words of a number: wider numbers are left to the interpreter.
pub(super) const WORDS_MAX: usize = 16;

/// If an index chooses a header at run time, native code compares the index with the positions of up to this many
/// headers, and loads up to this many words in total from these headers.
const CANDIDATES_MAX: usize = 64;

/// A number's words, the lowest first.
pub(crate) type Words = Vec<Value>;

/// The header that an expression refers to, as far as it is known at compile time.
pub(crate) enum Found {
    Header(HeaderId),
    /// No header: the index is beyond the end of the stack.
    Nothing,
    /// The header of this list at the position that the value holds at run time; no header if the position is beyond
    /// the list.
    Among(Vec<HeaderId>, Value),
}

fn low_word(value: &Int, word: usize) -> u64 {
    let shifted = value.clone() >> (64 * word);
    u64::try_from(&(shifted & Int::from(u64::MAX))).expect("masked to 64 bits")
}

impl Emit<'_, '_, '_> {
    pub(super) fn bounded(&self, expr: &Expr) -> Emitted<Range> {
        let range = self.names().range(expr);
        let range = range.ok_or("no bound is known for an operand")?;
        if range.words() as usize <= WORDS_MAX {
            Ok(range)
        } else {
            Err(format!("an operand of more than {} bits", 64 * WORDS_MAX))
        }
    }

    /// The words that hold a number exactly, and whether the number is signed.
    pub(crate) fn exact(&mut self, expr: &Expr) -> Emitted<(Words, bool)> {
        let range = self.bounded(expr)?;
        Ok((self.low(expr, range.words() as usize)?, range.is_signed()))
    }

    /// Computes an index or a count as one word. A number that needs more words becomes a word larger than every index.
    pub(crate) fn index(&mut self, expr: &Expr) -> Emitted<Value> {
        let (words, _) = self.exact(expr)?;
        self.one_word(&words)
    }

    fn one_word(&mut self, words: &[Value]) -> Emitted<Value> {
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
    pub(crate) fn low(&mut self, expr: &Expr, n: usize) -> Emitted<Words> {
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

    /// Cuts or extends a number to `n` words.
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

    pub(super) fn select(&mut self, condition: Value, yes: &[Value], no: &[Value]) -> Words {
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

    pub(crate) fn find(&mut self, header: &HeaderExpr) -> Emitted<Found> {
        let index = match header {
            HeaderExpr::Header(_) => None,
            HeaderExpr::Element { index, .. } => Some(index),
            HeaderExpr::Member { union, .. } => match union {
                UnionExpr::Union(_) => None,
                UnionExpr::Element { index, .. } => Some(index),
            },
        };
        let candidates = instances::headers(self.ir(), header);
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

    /// Loads a field of the header that [`Emit::find`] found. The value is zero if the index is beyond the end of the
    /// stack.
    fn field_at(&mut self, found: &Found, offset: u32, n: usize) -> Emitted<Words> {
        if let Found::Among(candidates, _) = found
            && candidates.len() * n > CANDIDATES_MAX
        {
            return Err(format!("an index into more than {CANDIDATES_MAX} words"));
        }
        let zeros = |emit: &mut Self| emit.extend(Vec::new(), false, n);
        Ok(self.of_found(found, zeros, |emit, header| {
            let field = emit.ir().headers[header.index()].field_at(offset);
            (0..n).map(|word| emit.field_word(field, word)).collect()
        }))
    }

    /// Returns the words that `of` generates for the found header. If there is no such header, returns the words that
    /// `nothing` generates.
    pub(super) fn of_found(
        &mut self,
        found: &Found,
        nothing: impl FnOnce(&mut Self) -> Words,
        of: impl Fn(&mut Self, HeaderId) -> Words,
    ) -> Words {
        match found {
            Found::Header(header) => of(self, *header),
            Found::Nothing => nothing(self),
            Found::Among(candidates, index) => {
                let mut result = nothing(self);
                for (position, header) in (0i64..).zip(candidates) {
                    let is_it = self.b.ins().icmp_imm_u(IntCC::Equal, *index, position);
                    let words = of(self, *header);
                    result = self.select(is_it, &words, &result);
                }
                result
            }
        }
    }

    /// The address of an array's cells.
    pub(crate) fn array(&mut self, number: usize) -> Value {
        let arrays = self.load_context(types::I64, std::mem::offset_of!(PassContext, arrays));
        let offset = u32::try_from(8 * number).expect("an offset in a block of memory");
        self.load(types::I64, Region::Entry, arrays, offset)
    }

    fn register_cell(&mut self, register: RegisterId, index: &Expr, n: usize) -> Emitted<Words> {
        let array = &self.ir().registers[register.index()];
        self.unit.touches_state = true;
        if array.bits > 64 {
            return Err("a register of more than 64 bits".into());
        }
        let index = self.index(index)?;
        if array.cells == 0 {
            return Ok(self.extend(Vec::new(), false, n));
        }
        let cells = i64::try_from(array.cells).expect("an array has a limit");
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

    /// Computes the address of the cell at `index` in an array whose cells have `1 << shift` bytes each.
    pub(crate) fn cell_address(&mut self, array: usize, index: Value, shift: i64) -> Value {
        let base = self.array(array);
        let offset = self.b.ins().ishl_imm_u(index, shift);
        self.b.ins().iadd(base, offset)
    }

    /// Cuts a number to its lowest `bits` bits. The highest of these bits lies in the last word. Extends that word with
    /// the sign if `signed`, otherwise with zeros.
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
}
