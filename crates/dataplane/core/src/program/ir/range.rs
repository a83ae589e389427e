//! The ranges of expressions. A range is all numbers of a given width and signedness; the range of an expression
//! follows from the ranges of its operands.
//!
//! Expressions have infinite precision. The range decides how many 64-bit words hold a value exactly, and whether the
//! words are signed.

use dashu_int::ops::BitTest;

use super::{Arithmetic, Expr, FieldId, Ir, instances};
use crate::{limits, program::ActionInfo, value::Int};

/// Wider ranges are not tracked; no stored value is this wide.
const BITS_MAX: u32 = 1 << 20;

/// All numbers of a given width and signedness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Width, including the sign bit.
    pub bits: u32,
    /// Whether numbers are in two's complement.
    pub signed: bool,
}

impl Range {
    /// A range that contains the range of every field.
    pub const ANY: Self = Self {
        bits: u32::MAX,
        signed: true,
    };

    fn of(bits: u32, signed: bool) -> Option<Self> {
        (bits <= BITS_MAX).then_some(Self { bits, signed })
    }

    /// The narrowest range that contains this value.
    fn constant(value: &Int) -> Option<Self> {
        let (magnitude, signed) = if *value < Int::ZERO {
            (!value.clone(), true)
        } else {
            (value.clone(), false)
        };
        let bits = u32::try_from(magnitude.bit_len()).ok()?;
        Self::of(bits + u32::from(signed), signed)
    }

    /// The range of a field.
    pub fn field(bits: u32, signed: bool) -> Self {
        Self {
            bits,
            signed: signed && bits > 0,
        }
    }

    /// Whether numbers are in two's complement.
    pub fn is_signed(&self) -> bool {
        self.signed
    }

    /// Whether this is the signed range of `bits` bits. The negation of its lowest value is outside of the range.
    pub fn is_signed_of(&self, bits: u32) -> bool {
        self.signed && self.bits == bits
    }

    /// Number of 64-bit words that hold every value. The words are signed if [`Range::is_signed`].
    pub fn words(&self) -> u32 {
        self.bits.div_ceil(64).max(1)
    }

    /// Width without the sign bit.
    fn magnitude(&self) -> u32 {
        self.bits - u32::from(self.signed)
    }

    /// Whether some value is below all values of another range.
    pub fn goes_below(&self, other: &Self) -> bool {
        self.signed && !(other.signed && self.bits <= other.bits)
    }

    /// Whether some value is above all values of another range.
    pub fn goes_above(&self, other: &Self) -> bool {
        self.magnitude() > other.magnitude()
    }

    /// Whether the range `outer` contains all values of this range.
    pub fn is_within(&self, outer: &Self) -> bool {
        !self.goes_below(outer) && !self.goes_above(outer)
    }

    /// The lowest and the highest value.
    pub fn bounds(&self) -> (Int, Int) {
        let end = Int::ONE << self.magnitude() as usize;
        if self.signed {
            (-end.clone(), end - Int::ONE)
        } else {
            (Int::ZERO, end - Int::ONE)
        }
    }

    /// The smallest range that contains both ranges.
    pub fn join(&self, other: &Self) -> Self {
        let signed = self.signed || other.signed;
        Self {
            bits: self.magnitude().max(other.magnitude()) + u32::from(signed),
            signed,
        }
    }
}

/// Supplies the ranges of fields.
pub trait Widths {
    /// The range of a field's values.
    fn range_of(&self, field: FieldId) -> Range;
}

impl Widths for Ir {
    fn range_of(&self, field: FieldId) -> Range {
        let field = &self.fields[field.index()];
        Range::field(field.bits, field.signed)
    }
}

/// What the range of an expression depends on, beside the expression.
#[derive(Debug)]
pub struct Names<'a, W> {
    /// The program of the expressions.
    pub ir: &'a Ir,
    /// The ranges of its fields.
    pub widths: &'a W,
    /// The action that contains the expression, if any.
    pub action: Option<&'a ActionInfo>,
}

/// Returns the value of an expression that is a shift amount or a width, if the expression is constant: `Some(None)` if
/// the constant is out of range, `None` if the expression is not constant.
pub fn constant_amount(expr: &Expr) -> Option<Option<u32>> {
    let Expr::Const(value) = expr else {
        return None;
    };
    let bits = u32::try_from(value).ok();
    Some(bits.filter(|bits| *bits <= limits::FIELD_BITS_MAX))
}

impl<W> Clone for Names<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Names<'_, W> {}

impl<W: Widths> Names<'_, W> {
    fn field(&self, field: FieldId) -> Range {
        self.widths.range_of(field)
    }

    /// The range of an expression; `None` if there is no bound.
    pub fn range(&self, expr: &Expr) -> Option<Range> {
        Some(match expr {
            Expr::Const(value) => Range::constant(value)?,
            Expr::Field(field) => self.field(*field),
            Expr::ValidBit(_) | Expr::FromBool(_) => Range::field(1, false),
            Expr::Param(index) => {
                let param = self.action.and_then(|action| action.params.get(*index));
                Range::field(param.map_or(0, |param| param.width_bits), false)
            }
            Expr::Access { header, offset } => {
                let fields = instances::fields(self.ir, header, *offset).into_iter();
                fields.fold(Range::field(0, false), |all, field| {
                    all.join(&self.field(field))
                })
            }
            Expr::Register { register, .. } => {
                Range::field(self.ir.registers[register.index()].bits, false)
            }
            Expr::Arithmetic(op, left, right) => self.arithmetic(*op, left, right)?,
            Expr::Complement(operand) => {
                let range = self.range(operand)?;
                Range::of(range.magnitude() + 1, true)?
            }
            Expr::Choose { yes, no, .. } => self.range(yes)?.join(&self.range(no)?),
            Expr::LastStackIndex(_) => Range::field(33, true),
            Expr::StackSize(_) => Range::field(32, false),
        })
    }

    fn arithmetic(&self, op: Arithmetic, left: &Expr, right: &Expr) -> Option<Range> {
        match op {
            Arithmetic::TwoCompMod | Arithmetic::SaturateUnsigned | Arithmetic::SaturateSigned => {
                let Some(bits) = constant_amount(right)? else {
                    return Some(Range::field(0, false));
                };
                let target = Range::field(bits, op != Arithmetic::SaturateUnsigned);
                let inner = self.range(left);
                return Some(inner.filter(|it| it.is_within(&target)).unwrap_or(target));
            }
            // One non-negative operand bounds the result.
            Arithmetic::And => {
                let (left, right) = (self.range(left), self.range(right));
                let bounds = [left, right].into_iter().flatten();
                let least = bounds.filter(|it| !it.signed).map(|it| it.bits).min();
                return match least {
                    Some(bits) => Range::of(bits, false),
                    None => Some(left?.join(&right?)),
                };
            }
            Arithmetic::Mod => {
                if let Expr::Const(modulus) = right
                    && *modulus > Int::ZERO
                    && self.range(left).is_none_or(|it| !it.signed)
                {
                    return Range::constant(&(modulus - Int::ONE));
                }
            }
            _ => {}
        }
        let (left, amount) = (self.range(left)?, right);
        let right = self.range(right)?;
        let both = left.join(&right);
        match op {
            Arithmetic::Add => Range::of(both.bits + 1, both.signed),
            Arithmetic::Sub => Range::of(both.magnitude() + 2, true),
            Arithmetic::Mul => Range::of(left.bits + right.bits, both.signed),
            // The result is not greater in magnitude than the left operand, except that the negation of the lowest
            // value needs one more bit.
            Arithmetic::Div | Arithmetic::Mod => {
                let signed = left.signed || op == Arithmetic::Div && right.signed;
                Range::of(left.bits + u32::from(signed), signed)
            }
            Arithmetic::ShiftLeft => {
                let most = match amount {
                    Expr::Const(amount) => u32::try_from(amount).unwrap_or_default(),
                    _ => 1_u32.checked_shl(right.magnitude())? - 1,
                };
                Range::of(left.bits.checked_add(most)?, left.signed)
            }
            // The result is nearer to 0 or -1 than the value that is shifted.
            Arithmetic::ShiftRight => {
                let least = match amount {
                    Expr::Const(amount) => u32::try_from(amount).unwrap_or_default(),
                    _ => 0,
                };
                let bits = left.magnitude().saturating_sub(least);
                Range::of(bits + u32::from(left.signed), left.signed)
            }
            _ => Some(both),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_within_those_that_have_its_bounds() {
        let ranges: Vec<Range> = (0..6)
            .flat_map(|bits| [false, true].map(|signed| Range::field(bits, signed)))
            .collect();
        for one in &ranges {
            for other in &ranges {
                let ((low, high), (lowest, highest)) = (one.bounds(), other.bounds());
                let is_within = lowest <= low && high <= highest;
                assert_eq!(one.is_within(other), is_within, "{one:?} in {other:?}");
                let both = one.join(other);
                assert!(one.is_within(&both) && other.is_within(&both));
            }
        }
        let minus_one = Range::constant(&-Int::ONE);
        assert_eq!(minus_one, Some(Range::field(1, true)));
        assert_eq!(Range::constant(&Int::from(8)), Some(Range::field(4, false)));
    }
}
