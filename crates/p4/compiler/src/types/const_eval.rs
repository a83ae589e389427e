//! Folds expressions with constant operands (P4_16 language specification 1.2.5, sections 8 and 18.1).

use num_bigint::BigInt;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

use crate::ir::{BinaryOp, Expr, ExprKind, Program, UnaryOp};
use crate::limits;
use crate::types::Type;

pub fn wrap(value: &BigInt, width: u32, signed: bool) -> BigInt {
    let modulus = BigInt::one() << width;
    let low = ((value % &modulus) + &modulus) % &modulus;
    if signed && width > 0 && low.bit(u64::from(width) - 1) {
        low - modulus
    } else {
        low
    }
}

/// Returns the number that consists of `width` one bits.
pub fn mask(width: u32) -> BigInt {
    (BigInt::one() << width) - 1
}

/// Whether the value fits the type without wrapping.
pub fn fits(value: &BigInt, width: u32, signed: bool) -> bool {
    wrap(value, width, signed) == *value
}

fn wrap_to(program: &Program, ty: &Type, value: BigInt) -> BigInt {
    match program.underlying(ty) {
        Type::Bits { width, signed } => wrap(&value, *width, *signed),
        _ => value,
    }
}

fn saturate(program: &Program, ty: &Type, value: BigInt) -> BigInt {
    match program.underlying(ty) {
        Type::Bits {
            width,
            signed: true,
        } => {
            let top = mask(width.saturating_sub(1));
            value.clamp(-&top - 1, top)
        }
        Type::Bits { width, .. } => value.clamp(BigInt::zero(), mask(*width)),
        _ => value,
    }
}

pub enum Fault {
    DivisionByZero,
    NegativeShift,
    TooLarge,
}

/// Computes `left op right` on numbers; does not wrap the result.
pub fn integer(op: BinaryOp, left: &BigInt, right: &BigInt) -> Result<Option<BigInt>, Fault> {
    let shift = || {
        if right.is_negative() {
            return Err(Fault::NegativeShift);
        }
        right
            .to_u64()
            .filter(|amount| *amount <= limits::CONSTANT_BITS)
            .ok_or(Fault::TooLarge)
    };
    let value = match op {
        BinaryOp::Add | BinaryOp::AddSat => left + right,
        BinaryOp::Sub | BinaryOp::SubSat => left - right,
        BinaryOp::Mul if left.bits() + right.bits() > limits::CONSTANT_BITS => {
            return Err(Fault::TooLarge);
        }
        BinaryOp::Mul => left * right,
        BinaryOp::Div | BinaryOp::Mod if right.is_zero() => return Err(Fault::DivisionByZero),
        BinaryOp::Div => left / right,
        BinaryOp::Mod => left % right,
        BinaryOp::Shl if left.bits() + shift()? > limits::CONSTANT_BITS => {
            return Err(Fault::TooLarge);
        }
        BinaryOp::Shl => left << shift()?,
        BinaryOp::Shr => {
            left >> right
                .to_u64()
                .unwrap_or(limits::CONSTANT_BITS)
                .min(limits::CONSTANT_BITS)
        }
        BinaryOp::BitAnd => left & right,
        BinaryOp::BitOr => left | right,
        BinaryOp::BitXor => left ^ right,
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// The result of a comparison; `None` for other operators.
pub fn compare(op: BinaryOp, left: &BigInt, right: &BigInt) -> Option<bool> {
    Some(match op {
        BinaryOp::Eq => left == right,
        BinaryOp::Ne => left != right,
        BinaryOp::Lt => left < right,
        BinaryOp::Le => left <= right,
        BinaryOp::Gt => left > right,
        BinaryOp::Ge => left >= right,
        _ => return None,
    })
}

fn constant(kind: &ExprKind) -> Option<BigInt> {
    match kind {
        ExprKind::Int(value) => Some(value.clone()),
        ExprKind::Error(value) => Some(BigInt::from(*value)),
        ExprKind::Member(_, index) => Some(BigInt::from(*index)),
        _ => None,
    }
}

/// Folds one operation whose operands are already folded.
pub fn fold(program: &Program, expr: Expr) -> Result<Expr, Fault> {
    let kind = match &expr.kind {
        ExprKind::Unary(op, inner) => fold_unary(program, &expr.ty, *op, inner),
        ExprKind::Binary(op, left, right) => fold_binary(program, &expr.ty, *op, left, right)?,
        ExprKind::Cast(inner) => fold_cast(program, &expr.ty, inner),
        ExprKind::Mux(condition, yes, no) => match condition.kind {
            ExprKind::Bool(true) => Some(yes.kind.clone()),
            ExprKind::Bool(false) => Some(no.kind.clone()),
            _ => None,
        },
        ExprKind::Slice(inner, high, low) => match &inner.kind {
            ExprKind::Int(value) => {
                let Type::Bits { width, .. } = program.underlying(&inner.ty) else {
                    return Ok(expr);
                };
                let bits = wrap(value, *width, false) >> low;
                Some(ExprKind::Int(wrap(&bits, high - low + 1, false)))
            }
            _ => None,
        },
        ExprKind::Field(inner, index) => match &inner.kind {
            ExprKind::List(items) => items.get(*index).map(|item| item.kind.clone()),
            _ => None,
        },
        ExprKind::Index(inner, index) => match (&inner.kind, &index.kind) {
            (ExprKind::List(items), ExprKind::Int(at)) => at
                .to_usize()
                .and_then(|at| items.get(at))
                .map(|item| item.kind.clone()),
            _ => None,
        },
        _ => None,
    };
    Ok(match kind {
        Some(kind) => Expr { kind, ..expr },
        None => expr,
    })
}

fn fold_unary(program: &Program, ty: &Type, op: UnaryOp, inner: &Expr) -> Option<ExprKind> {
    match (op, &inner.kind) {
        (UnaryOp::Not, ExprKind::Bool(value)) => Some(ExprKind::Bool(!value)),
        (UnaryOp::Plus, kind) => Some(kind.clone()),
        (UnaryOp::Minus, ExprKind::Int(value)) => Some(ExprKind::Int(wrap_to(program, ty, -value))),
        (UnaryOp::Complement, ExprKind::Int(value)) => {
            let flipped: BigInt = -value.clone() - 1;
            Some(ExprKind::Int(wrap_to(program, ty, flipped)))
        }
        _ => None,
    }
}

fn fold_binary(
    program: &Program,
    ty: &Type,
    op: BinaryOp,
    left: &Expr,
    right: &Expr,
) -> Result<Option<ExprKind>, Fault> {
    if let (ExprKind::Bool(a), ExprKind::Bool(b)) = (&left.kind, &right.kind) {
        return Ok(match op {
            BinaryOp::And => Some(ExprKind::Bool(*a && *b)),
            BinaryOp::Or => Some(ExprKind::Bool(*a || *b)),
            BinaryOp::Eq => Some(ExprKind::Bool(a == b)),
            BinaryOp::Ne => Some(ExprKind::Bool(a != b)),
            _ => None,
        });
    }
    // A constant left side of `&&` or `||` is the result, or makes the right side the result.
    match (op, &left.kind) {
        (BinaryOp::And, ExprKind::Bool(true)) | (BinaryOp::Or, ExprKind::Bool(false)) => {
            return Ok(Some(right.kind.clone()));
        }
        (BinaryOp::And, ExprKind::Bool(false)) => return Ok(Some(ExprKind::Bool(false))),
        (BinaryOp::Or, ExprKind::Bool(true)) => return Ok(Some(ExprKind::Bool(true))),
        _ => {}
    }
    if let (ExprKind::Str(a), ExprKind::Str(b)) = (&left.kind, &right.kind) {
        return Ok((op == BinaryOp::Concat).then(|| ExprKind::Str(format!("{a}{b}").into())));
    }
    let (Some(a), Some(b)) = (constant(&left.kind), constant(&right.kind)) else {
        return Ok(None);
    };
    if let Some(answer) = compare(op, &a, &b) {
        return Ok(Some(ExprKind::Bool(answer)));
    }
    if op == BinaryOp::Concat {
        let Some(low_bits) = program.width(&right.ty) else {
            return Ok(None);
        };
        let joined = (a << low_bits) | wrap(&b, low_bits, false);
        return Ok(Some(ExprKind::Int(wrap_to(program, ty, joined))));
    }
    if let (BinaryOp::Shl, Type::Bits { width, .. }) = (op, program.underlying(ty))
        && b >= BigInt::from(*width)
    {
        // A shift by the width or more gives 0.
        return Ok(Some(ExprKind::Int(BigInt::zero())));
    }
    let value = integer(op, &a, &b)?;
    Ok(value.map(|value| match op {
        BinaryOp::AddSat | BinaryOp::SubSat => ExprKind::Int(saturate(program, ty, value)),
        _ => ExprKind::Int(wrap_to(program, ty, value)),
    }))
}

fn fold_cast(program: &Program, ty: &Type, inner: &Expr) -> Option<ExprKind> {
    match (&inner.kind, program.underlying(ty)) {
        (ExprKind::Int(value), Type::Bits { width, signed }) => {
            Some(ExprKind::Int(wrap(value, *width, *signed)))
        }
        (ExprKind::Int(value), Type::Bool) => Some(ExprKind::Bool(!value.is_zero())),
        (ExprKind::Int(value), Type::Int) => Some(ExprKind::Int(value.clone())),
        (ExprKind::Bool(value), Type::Bits { .. }) => {
            Some(ExprKind::Int(BigInt::from(u8::from(*value))))
        }
        (ExprKind::Bool(value), Type::Bool) => Some(ExprKind::Bool(*value)),
        (ExprKind::List(items), Type::Struct(_) | Type::Tuple(_)) => {
            Some(ExprKind::List(items.clone()))
        }
        _ => None,
    }
}
