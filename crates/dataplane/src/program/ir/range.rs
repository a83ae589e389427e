//! What values an expression can take: those of a number of so many bits, by the widths of what it
//! reads.
//!
//! Expressions have infinite precision. The width decides how many words hold a value exactly, and
//! whether they are to be read as signed.

use dashu_int::ops::BitTest;

use super::{Arithmetic, Expr, FieldId, Ir, instances};
use crate::{limits, program::ActionInfo, value::Int};

/// Wider values are not kept track of: nothing that is stored is so wide.
const BITS_MAX: u32 = 1 << 20;

/// Every value of a number of so many bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// How many.
    pub bits: u32,
    /// In two's complement.
    pub signed: bool,
}

impl Range {
    /// Beyond the width of every field.
    pub const ANY: Self = Self {
        bits: u32::MAX,
        signed: true,
    };

    fn of(bits: u32, signed: bool) -> Option<Self> {
        (bits <= BITS_MAX).then_some(Self { bits, signed })
    }

    /// The values of the fewest bits that have this one.
    fn constant(value: &Int) -> Option<Self> {
        let (magnitude, signed) = match *value < Int::ZERO {
            true => (!value.clone(), true),
            false => (value.clone(), false),
        };
        let bits = u32::try_from(magnitude.bit_len()).ok()?;
        Self::of(bits + u32::from(signed), signed)
    }

    /// What a field of so many bits holds.
    pub fn field(bits: u32, signed: bool) -> Self {
        Self {
            bits,
            signed: signed && bits > 0,
        }
    }

    /// Whether values are in two's complement.
    pub fn is_signed(&self) -> bool {
        self.signed
    }

    /// Whether it is a signed one of so many bits: its lowest value has no opposite.
    pub fn is_signed_of(&self, bits: u32) -> bool {
        self.signed && self.bits == bits
    }

    /// Words that hold every value; signed or not as [`Range::is_signed`] says.
    pub fn words(&self) -> u32 {
        self.bits.div_ceil(64).max(1)
    }

    /// Bits beside the sign.
    fn magnitude(&self) -> u32 {
        self.bits - u32::from(self.signed)
    }

    /// Whether some value is below every one of another range.
    pub fn goes_below(&self, other: &Self) -> bool {
        self.signed && !(other.signed && self.bits <= other.bits)
    }

    /// Whether some value is above every one of another range.
    pub fn goes_above(&self, other: &Self) -> bool {
        self.magnitude() > other.magnitude()
    }

    /// Whether every value is one of another range.
    pub fn is_within(&self, outer: &Self) -> bool {
        !self.goes_below(outer) && !self.goes_above(outer)
    }

    /// The lowest and the highest value.
    pub fn bounds(&self) -> (Int, Int) {
        let end = Int::ONE << self.magnitude() as usize;
        match self.signed {
            true => (-end.clone(), end - Int::ONE),
            false => (Int::ZERO, end - Int::ONE),
        }
    }

    /// The smallest range with the values of both.
    pub fn join(&self, other: &Self) -> Self {
        let signed = self.signed || other.signed;
        Self {
            bits: self.magnitude().max(other.magnitude()) + u32::from(signed),
            signed,
        }
    }
}

/// Says how wide fields are.
pub trait Widths {
    /// The values that a field takes.
    fn range_of(&self, field: FieldId) -> Range;
}

impl Widths for Ir {
    fn range_of(&self, field: FieldId) -> Range {
        let field = &self.fields[field.index()];
        Range::field(field.bits, field.signed)
    }
}

/// What expressions may name.
#[derive(Debug)]
pub struct Names<'a, W> {
    /// The program.
    pub ir: &'a Ir,
    /// Its fields' widths.
    pub widths: &'a W,
    /// The action that the expression is in.
    pub action: Option<&'a ActionInfo>,
}

/// A shift or a width that is constant, where it is one that the interpreter takes.
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

    /// The interval of an expression; none where no bound is known.
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
            // One operand that is not negative bounds the result.
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
            // Neither makes the magnitude larger, but the lowest value's may turn.
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
            // It brings a value nearer to 0 or to -1.
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
