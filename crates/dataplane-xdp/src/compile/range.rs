//! What values an expression can take: those of a number of so many bits, by the widths of what it
//! reads. The same decisions as the native engine's.

use dataplane::{
    ActionInfo,
    engine::ir::{Arithmetic, Expr, FieldId, Int, Ir},
    limits,
};

use super::instances;

/// Wider values are not kept track of: nothing that is stored is so wide.
const BITS_MAX: u32 = 1 << 20;

/// Every value of a number of so many bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub bits: u32,
    /// In two's complement.
    pub signed: bool,
}

/// Bits of a value's magnitude.
fn bit_length(value: &Int) -> Option<u32> {
    let mut bits = 0;
    let mut rest = value.clone();
    while rest != Int::ZERO {
        bits += 1;
        if bits > BITS_MAX {
            return None;
        }
        rest >>= 1;
    }
    Some(bits)
}

impl Range {
    fn of(bits: u32, signed: bool) -> Option<Self> {
        (bits <= BITS_MAX).then_some(Self { bits, signed })
    }

    fn constant(value: &Int) -> Option<Self> {
        let (magnitude, signed) = match *value < Int::ZERO {
            true => (!value.clone(), true),
            false => (value.clone(), false),
        };
        Self::of(bit_length(&magnitude)? + u32::from(signed), signed)
    }

    /// What a field of so many bits holds.
    pub(super) fn field(bits: u32, signed: bool) -> Self {
        Self {
            bits,
            signed: signed && bits > 0,
        }
    }

    /// Words that hold every value.
    pub(super) fn words(&self) -> u32 {
        self.bits.div_ceil(64).max(1)
    }

    /// Bits beside the sign.
    fn magnitude(&self) -> u32 {
        self.bits - u32::from(self.signed)
    }

    /// Whether some value is below every one of another range.
    pub(super) fn goes_below(&self, other: &Self) -> bool {
        self.signed && !(other.signed && self.bits <= other.bits)
    }

    /// Whether some value is above every one of another range.
    pub(super) fn goes_above(&self, other: &Self) -> bool {
        self.magnitude() > other.magnitude()
    }

    pub(super) fn is_within(&self, outer: &Self) -> bool {
        !self.goes_below(outer) && !self.goes_above(outer)
    }

    /// The lowest and the highest value.
    pub(super) fn bounds(&self) -> (Int, Int) {
        let end = Int::ONE << self.magnitude() as usize;
        match self.signed {
            true => (-end.clone(), end - Int::ONE),
            false => (Int::ZERO, end - Int::ONE),
        }
    }

    pub(super) fn join(&self, other: &Self) -> Self {
        let signed = self.signed || other.signed;
        Self {
            bits: self.magnitude().max(other.magnitude()) + u32::from(signed),
            signed,
        }
    }
}

/// What expressions may name.
#[derive(Clone, Copy)]
pub(super) struct Names<'p> {
    pub ir: &'p Ir,
    /// The action that the expression is in.
    pub action: Option<&'p ActionInfo>,
}

/// A shift or a width that is constant, where it is one that the interpreter takes.
pub(super) fn constant_amount(expr: &Expr) -> Option<Option<u32>> {
    let Expr::Const(value) = expr else {
        return None;
    };
    let bits = u32::try_from(value).ok();
    Some(bits.filter(|bits| *bits <= limits::FIELD_BITS_MAX))
}

impl Names<'_> {
    fn field(&self, field: FieldId) -> Range {
        let field = &self.ir.fields[field.index()];
        Range::field(field.bits, field.signed)
    }

    /// The range of an expression; none where no bound is known.
    pub(super) fn range(&self, expr: &Expr) -> Option<Range> {
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
