//! Evaluation of expressions, with infinite precision and no widths.
//!
//! This module defines what P4 leaves undefined, so that all engines can agree: an element beyond the end of a stack
//! reads as zero and invalid; a register cell beyond the end reads as zero; a field of an invalid header reads as the
//! value that this packet last wrote to it, or zero; division by zero gives zero; a shift by more than
//! [`limits::FIELD_BITS_MAX`] bits gives zero, or -1 if a negative number is shifted right.

use super::phv::Phv;
use crate::{
    externs::register::Registers,
    limits,
    program::ir::{
        AnyStack, Arithmetic, BoolExpr, Comparison, Expr, FieldId, HeaderExpr, HeaderId, Ir,
        KeySource, UnionExpr, UnionId,
    },
    value::{self, Int},
};

#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub ir: &'a Ir,
    pub phv: &'a Phv,
    pub registers: &'a Registers,
    pub args: &'a [Int],
}

impl Scope<'_> {
    /// The value of a key field. A field of an invalid header reads as zero here, as in BMv2.
    pub(crate) fn key(&self, source: &KeySource) -> Int {
        if let Expr::Field(field) = source.value
            && !self.phv.is_valid(self.ir.fields[field.index()].header)
        {
            return Int::ZERO;
        }
        let value = self.number(&source.value);
        match &source.mask {
            Some(mask) => value & mask,
            None => value,
        }
    }

    pub(crate) fn number(&self, expr: &Expr) -> Int {
        match expr {
            Expr::Const(value) => value.clone(),
            Expr::Field(field) => self.phv.get(*field).clone(),
            Expr::ValidBit(header) => Int::from(u8::from(self.phv.is_valid(*header))),
            Expr::Param(index) => self.args[*index].clone(),
            Expr::Access { header, offset } => self.field_at(self.header(header), *offset),
            Expr::Register { register, index } => {
                let index = value::as_usize(&self.number(index));
                let cell = index.and_then(|index| self.registers.get(*register, index));
                cell.unwrap_or_default()
            }
            Expr::Arithmetic(op, left, right) => {
                arithmetic(*op, self.number(left), &self.number(right))
            }
            Expr::Complement(operand) => !self.number(operand),
            Expr::Choose { condition, yes, no } => {
                self.number(if self.truth(condition) { yes } else { no })
            }
            Expr::FromBool(operand) => Int::from(u8::from(self.truth(operand))),
            Expr::LastStackIndex(stack) => Int::from(self.phv.next_index(*stack)) - Int::ONE,
            Expr::StackSize(stack) => Int::from(self.phv.next_index(*stack)),
        }
    }

    pub(crate) fn truth(&self, expr: &BoolExpr) -> bool {
        match expr {
            BoolExpr::Const(truth) => *truth,
            BoolExpr::Compare(op, left, right) => {
                compare(*op, &self.number(left), &self.number(right))
            }
            BoolExpr::SameHeader(left, right) => {
                self.same_header(self.header(left), self.header(right))
            }
            BoolExpr::SameUnion(left, right) => {
                self.same_union(self.union(left), self.union(right))
            }
            BoolExpr::SameBool(left, right) => self.truth(left) == self.truth(right),
            BoolExpr::And(left, right) => self.truth(left) && self.truth(right),
            BoolExpr::Or(left, right) => self.truth(left) || self.truth(right),
            BoolExpr::Not(operand) => !self.truth(operand),
            BoolExpr::Valid(header) => {
                let header = self.header(header);
                header.is_some_and(|header| self.phv.is_valid(header))
            }
            BoolExpr::ValidUnion(union) => {
                let union = self.union(union);
                union.is_some_and(|union| self.phv.is_union_valid(self.ir, union))
            }
            BoolExpr::FromNumber(operand) => self.number(operand) != Int::ZERO,
            BoolExpr::Choose { condition, yes, no } => {
                self.truth(if self.truth(condition) { yes } else { no })
            }
        }
    }

    /// Resolves a header; `None` beyond the end of a stack.
    pub(crate) fn header(&self, expr: &HeaderExpr) -> Option<HeaderId> {
        match expr {
            HeaderExpr::Header(header) => Some(*header),
            HeaderExpr::Element { stack, index } => {
                let index = value::as_usize(&self.number(index))?;
                self.ir.element(AnyStack::Headers(*stack), 0, index)
            }
            HeaderExpr::Member { union, offset } => {
                Some(self.ir.member(self.union(union)?, *offset))
            }
        }
    }

    /// Resolves a header union; `None` beyond the end of a stack.
    pub(crate) fn union(&self, expr: &UnionExpr) -> Option<UnionId> {
        match expr {
            UnionExpr::Union(union) => Some(*union),
            UnionExpr::Element { stack, index } => {
                let index = value::as_usize(&self.number(index))?;
                self.ir.union_element(*stack, index)
            }
        }
    }

    pub(crate) fn field_of(&self, header: Option<HeaderId>, offset: u32) -> Option<FieldId> {
        header.map(|header| self.ir.headers[header.index()].field_at(offset))
    }

    fn field_at(&self, header: Option<HeaderId>, offset: u32) -> Int {
        self.field_of(header, offset)
            .map_or(Int::ZERO, |field| self.phv.get(field).clone())
    }

    /// Whether both headers are valid, of one type and equal in all fields.
    fn same_header(&self, left: Option<HeaderId>, right: Option<HeaderId>) -> bool {
        let (Some(left), Some(right)) = (left, right) else {
            return false;
        };
        let headers = &self.ir.headers;
        let (a, b) = (&headers[left.index()], &headers[right.index()]);
        a.type_index == b.type_index
            && self.phv.is_valid(left)
            && self.phv.is_valid(right)
            && a.field_ids().zip(b.field_ids()).all(|(x, y)| {
                self.phv.get(x) == self.phv.get(y)
                    && self.phv.bits(self.ir, x) == self.phv.bits(self.ir, y)
            })
    }

    /// Whether both unions have equal valid members, or both have no valid member.
    fn same_union(&self, left: Option<UnionId>, right: Option<UnionId>) -> bool {
        let (Some(left), Some(right)) = (left, right) else {
            return false;
        };
        let members = |union: UnionId| self.ir.unions[union.index()].members.iter().copied();
        members(left).zip(members(right)).all(|(left, right)| {
            match (self.phv.is_valid(left), self.phv.is_valid(right)) {
                (false, false) => true,
                _ => self.same_header(Some(left), Some(right)),
            }
        })
    }
}

fn compare(op: Comparison, left: &Int, right: &Int) -> bool {
    match op {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::LessEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterEqual => left >= right,
    }
}

/// Converts a width or shift amount; returns `None` if it exceeds the width of the largest field.
fn amount(value: &Int) -> Option<u32> {
    let bits = u32::try_from(value).ok();
    bits.filter(|bits| *bits <= limits::FIELD_BITS_MAX)
}

fn arithmetic(op: Arithmetic, left: Int, right: &Int) -> Int {
    match op {
        Arithmetic::Add => left + right,
        Arithmetic::Sub => left - right,
        Arithmetic::Mul => left * right,
        Arithmetic::Div if *right == Int::ZERO => Int::ZERO,
        Arithmetic::Div => left / right,
        Arithmetic::Mod if *right == Int::ZERO => Int::ZERO,
        Arithmetic::Mod => left % right,
        Arithmetic::ShiftLeft => amount(right).map_or(Int::ZERO, |bits| left << bits as usize),
        Arithmetic::ShiftRight => match amount(right) {
            Some(bits) => left >> bits as usize,
            None if left < Int::ZERO => -Int::ONE,
            None => Int::ZERO,
        },
        Arithmetic::And => left & right,
        Arithmetic::Or => left | right,
        Arithmetic::Xor => left ^ right,
        Arithmetic::TwoCompMod => {
            amount(right).map_or(Int::ZERO, |bits| value::wrap(left, bits, true))
        }
        Arithmetic::SaturateUnsigned => {
            amount(right).map_or(Int::ZERO, |bits| value::saturate(left, bits, false))
        }
        Arithmetic::SaturateSigned => {
            amount(right).map_or(Int::ZERO, |bits| value::saturate(left, bits, true))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_p4_leaves_undefined_is_defined() {
        let seven = Int::from(7);
        assert_eq!(
            arithmetic(Arithmetic::Div, seven.clone(), &Int::ZERO),
            Int::ZERO
        );
        assert_eq!(
            arithmetic(Arithmetic::Mod, seven.clone(), &Int::ZERO),
            Int::ZERO
        );
        let huge = value::ones(200);
        assert_eq!(
            arithmetic(Arithmetic::ShiftLeft, seven.clone(), &huge),
            Int::ZERO
        );
        assert_eq!(
            arithmetic(Arithmetic::ShiftRight, -seven, &huge),
            Int::from(-1)
        );
    }

    #[test]
    fn two_comp_mod_is_the_cast_to_a_signed_type() {
        let cast = |v: i64, bits: i64| arithmetic(Arithmetic::TwoCompMod, v.into(), &bits.into());
        assert_eq!(cast(-129, 8), Int::from(127));
        assert_eq!(cast(200, 8), Int::from(-56));
        assert_eq!(cast(127, 8), Int::from(127));
    }
}
