//! Truth values, 0 or 1 in 8 bits: comparisons, validity, equal headers.

use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use dataplane::engine::ir::{BoolExpr, Comparison, Expr, UnionExpr};

use super::{
    Emit, Emitted,
    expression::{Found, WORDS_MAX},
};

impl Emit<'_, '_, '_> {
    pub(super) fn less(&mut self, left: &[Value], right: &[Value], signed: bool) -> Value {
        let mut result = None;
        for (position, (a, b)) in left.iter().zip(right).enumerate() {
            let is_top = position + 1 == left.len();
            let code = if is_top && signed {
                IntCC::SignedLessThan
            } else {
                IntCC::UnsignedLessThan
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

    fn compare(&mut self, op: Comparison, left: &Expr, right: &Expr) -> Emitted<Value> {
        let both = self.bounded(left)?.join(&self.bounded(right)?);
        let (n, signed) = (both.words() as usize, both.is_signed());
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

    pub(crate) fn truth(&mut self, expr: &BoolExpr) -> Emitted<Value> {
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
                let nothing = |emit: &mut Self| vec![emit.truth_constant(false)];
                self.of_found(&found, nothing, |emit, header| vec![emit.valid(header)])[0]
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

    fn same_header(&mut self, left: &Found, right: &Found) -> Emitted<Value> {
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
