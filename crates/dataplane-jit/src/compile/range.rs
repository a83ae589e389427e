//! What values an expression can take: a closed interval, by the widths of what it reads.
//!
//! Expressions have infinite precision; that of an interval is infinite too. It decides how many
//! words hold a value exactly, and whether they are to be read as signed.

use dashu_int::ops::{BitTest, UnsignedAbs};
use dataplane::{
    ActionInfo,
    engine::ir::{AnyStack, Arithmetic, Expr, FieldId, HeaderExpr, HeaderId, Int, Ir, UnionExpr},
    limits,
};

use crate::layout::Layout;

/// Intervals of more bits than this are not kept: nothing that is stored is so wide.
const BITS_MAX: usize = 1 << 20;

/// Every value from `low` to `high`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub low: Int,
    pub high: Int,
}

impl Range {
    pub(crate) fn point(value: Int) -> Self {
        Self {
            low: value.clone(),
            high: value,
        }
    }

    fn of(low: Int, high: Int) -> Option<Self> {
        let small = |value: &Int| value.bit_len() <= BITS_MAX;
        (small(&low) && small(&high)).then_some(Self { low, high })
    }

    /// What a field of so many bits holds.
    pub(crate) fn field(bits: u32, signed: bool) -> Self {
        let bits = bits as usize;
        if signed && bits > 0 {
            let half = Int::ONE << (bits - 1);
            return Self {
                low: -half.clone(),
                high: half - Int::ONE,
            };
        }
        Self {
            low: Int::ZERO,
            high: (Int::ONE << bits) - Int::ONE,
        }
    }

    pub(crate) fn is_signed(&self) -> bool {
        self.low < Int::ZERO
    }

    /// Words that hold every value; signed or not as [`Range::is_signed`] says.
    pub(crate) fn words(&self) -> usize {
        let bits = if self.is_signed() {
            self.signed_bits()
        } else {
            self.high.bit_len()
        };
        bits.div_ceil(64).max(1)
    }

    fn signed_bits(&self) -> usize {
        let bits = |value: &Int| match *value < Int::ZERO {
            true => (!value.clone()).unsigned_abs().bit_len() + 1,
            false => value.bit_len() + 1,
        };
        bits(&self.low).max(bits(&self.high))
    }

    pub(crate) fn is_within(&self, outer: &Self) -> bool {
        outer.low <= self.low && self.high <= outer.high
    }

    pub(crate) fn join(&self, other: &Self) -> Self {
        Self {
            low: self.low.clone().min(other.low.clone()),
            high: self.high.clone().max(other.high.clone()),
        }
    }

    fn corners(values: [Int; 4]) -> Option<Self> {
        let low = values.iter().min()?.clone();
        let high = values.iter().max()?.clone();
        Self::of(low, high)
    }
}

/// What expressions may name.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub ir: &'a Ir,
    pub layout: &'a Layout,
    /// The action that the expression is in.
    pub action: Option<&'a ActionInfo>,
}

/// A shift or a width that is constant, where it is one that the interpreter takes.
pub(crate) fn constant_amount(expr: &Expr) -> Option<Option<u32>> {
    let Expr::Const(value) = expr else {
        return None;
    };
    let bits = u32::try_from(value).ok();
    Some(bits.filter(|bits| *bits <= limits::FIELD_BITS_MAX))
}

impl Names<'_> {
    /// The headers that an expression may give, in the order of the index that chooses.
    pub(crate) fn candidates(&self, header: &HeaderExpr) -> Vec<HeaderId> {
        match header {
            HeaderExpr::Header(header) => vec![*header],
            HeaderExpr::Element { stack, .. } => self.ir.stacks[stack.index()].elements.clone(),
            HeaderExpr::Member { union, offset } => {
                let unions = match union {
                    UnionExpr::Union(union) => std::slice::from_ref(union),
                    UnionExpr::Element { stack, .. } => {
                        &self.ir.union_stacks[stack.index()].elements
                    }
                };
                let members = unions.iter().filter_map(|union| {
                    let members = &self.ir.unions[union.index()].members;
                    members.get(*offset as usize).copied()
                });
                members.collect()
            }
        }
    }

    /// The headers that the last element of a stack may be.
    pub(crate) fn last_candidates(&self, stack: AnyStack, member: Option<u32>) -> Vec<HeaderId> {
        match stack {
            AnyStack::Headers(stack) => self.ir.stacks[stack.index()].elements.clone(),
            AnyStack::Unions(stack) => {
                let unions = self.ir.union_stacks[stack.index()].elements.iter();
                let members = unions.filter_map(|union| {
                    let members = &self.ir.unions[union.index()].members;
                    members.get(member? as usize).copied()
                });
                members.collect()
            }
        }
    }

    fn field(&self, field: FieldId) -> Range {
        let slot = self.layout.field(field);
        Range::field(slot.bits, slot.signed)
    }

    /// A field of one of some headers, or zero.
    fn field_of(&self, headers: &[HeaderId], offset: u32) -> Range {
        let fields = headers
            .iter()
            .map(|header| self.field(self.ir.headers[header.index()].field_at(offset)));
        fields.fold(Range::point(Int::ZERO), |all, one| all.join(&one))
    }

    /// The interval of an expression; none where no bound is known.
    pub(crate) fn range(&self, expr: &Expr) -> Option<Range> {
        Some(match expr {
            Expr::Const(value) => Range::of(value.clone(), value.clone())?,
            Expr::Field(field) => self.field(*field),
            Expr::ValidBit(_) | Expr::FromBool(_) => Range::field(1, false),
            Expr::Param(index) => {
                let param = self.action.and_then(|action| action.params.get(*index));
                Range::field(param.map_or(0, |param| param.width_bits), false)
            }
            Expr::LastField { stack, offset } => {
                let headers = self.last_candidates(AnyStack::Headers(*stack), None);
                self.field_of(&headers, *offset)
            }
            Expr::UnionLastField {
                stack,
                member,
                offset,
            } => {
                let headers = self.last_candidates(AnyStack::Unions(*stack), Some(*member));
                self.field_of(&headers, *offset)
            }
            Expr::Access { header, offset } => self.field_of(&self.candidates(header), *offset),
            Expr::Register { register, .. } => {
                Range::field(self.ir.registers[register.index()].bits, false)
            }
            Expr::Arithmetic(op, left, right) => self.arithmetic(*op, left, right)?,
            Expr::Complement(operand) => {
                let Range { low, high } = self.range(operand)?;
                Range::of(!high, !low)?
            }
            Expr::Choose { yes, no, .. } => self.range(yes)?.join(&self.range(no)?),
            Expr::LastStackIndex(_) => Range::of(-Int::ONE, Int::from(u32::MAX))?,
            Expr::StackSize(_) => Range::field(32, false),
        })
    }

    fn arithmetic(&self, op: Arithmetic, left: &Expr, right: &Expr) -> Option<Range> {
        match op {
            Arithmetic::TwoCompMod | Arithmetic::SaturateUnsigned | Arithmetic::SaturateSigned => {
                let Some(bits) = constant_amount(right)? else {
                    return Some(Range::point(Int::ZERO));
                };
                let target = Range::field(bits, op != Arithmetic::SaturateUnsigned);
                let inner = self.range(left);
                return Some(inner.filter(|it| it.is_within(&target)).unwrap_or(target));
            }
            // One operand that is not negative bounds the result.
            Arithmetic::And => {
                let (left, right) = (self.range(left), self.range(right));
                let bounds = [&left, &right].into_iter().flatten();
                let lowest = bounds.filter(|it| !it.is_signed()).map(|it| &it.high).min();
                if let Some(high) = lowest {
                    return Range::of(Int::ZERO, high.clone());
                }
                return bitwise(&left?, &right?);
            }
            Arithmetic::Mod => {
                if let Expr::Const(modulus) = right
                    && *modulus > Int::ZERO
                    && self.range(left).is_none_or(|it| !it.is_signed())
                {
                    return Range::of(Int::ZERO, modulus - Int::ONE);
                }
            }
            _ => {}
        }
        combine(op, self.range(left)?, self.range(right)?)
    }
}

fn bitwise(left: &Range, right: &Range) -> Option<Range> {
    let signed = left.is_signed() || right.is_signed();
    let bits = if signed {
        left.signed_bits().max(right.signed_bits())
    } else {
        left.high.bit_len().max(right.high.bit_len())
    };
    (bits <= BITS_MAX).then(|| Range::field(u32::try_from(bits).expect("at most BITS_MAX"), signed))
}

fn combine(op: Arithmetic, left: Range, right: Range) -> Option<Range> {
    match op {
        Arithmetic::Add => Range::of(left.low + right.low, left.high + right.high),
        Arithmetic::Sub => Range::of(left.low - right.high, left.high - right.low),
        Arithmetic::Mul => Range::corners([
            &left.low * &right.low,
            &left.low * &right.high,
            &left.high * &right.low,
            &left.high * &right.high,
        ]),
        // Neither makes the magnitude larger; the sign may turn.
        Arithmetic::Div | Arithmetic::Mod => {
            let largest = (-&left.low).max(left.high.clone()).max(Int::ZERO);
            let sign_turns = op == Arithmetic::Div && right.is_signed();
            let low = match left.is_signed() || sign_turns {
                true => -largest.clone(),
                false => Int::ZERO,
            };
            Range::of(low, largest)
        }
        Arithmetic::ShiftLeft => {
            let most = usize::try_from(&right.high).ok()?;
            if most > BITS_MAX {
                return None;
            }
            let (low, high) = (left.low.min(Int::ZERO), left.high.max(Int::ZERO));
            Range::of(low << most, high << most)
        }
        // Shifting right brings a value nearer to 0 or to -1.
        Arithmetic::ShiftRight => {
            let nearest = match left.is_signed() {
                true => -Int::ONE,
                false => Int::ZERO,
            };
            let least = usize::try_from(&right.low).unwrap_or(0).min(BITS_MAX);
            let (low, high) = match right.low >= Int::ZERO {
                true => (left.low >> least, left.high >> least),
                false => (left.low, left.high),
            };
            Range::of(low.min(nearest), high.max(Int::ZERO))
        }
        Arithmetic::And | Arithmetic::Or | Arithmetic::Xor => bitwise(&left, &right),
        Arithmetic::TwoCompMod | Arithmetic::SaturateUnsigned | Arithmetic::SaturateSigned => None,
    }
}
