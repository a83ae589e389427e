//! Constants of the JSON, and bounds of an operand's value.
//!
//! Reprise's switch and simple_switch compute with integers of unlimited width and cut the result when they copy it
//! into a field, so bounds are plain integers. A signed field has no bounds here: simple_switch does not cut a value
//! that exceeds the field's greatest value but fits into the field's width.

use bmv2_json::{Expression, Operand, Operation, Value};
use num_bigint::BigInt;
use num_traits::{Num as _, One as _, Signed as _, ToPrimitive as _, Zero as _};

use super::model::{Model, VALID};
use crate::limits;

pub fn constant(value: &Value) -> Option<BigInt> {
    let Value::Hexstr(text) = value else {
        return None;
    };
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let digits = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))?;
    let value = match digits.len() {
        // Nearly all constants are this short. For them the general conversion is avoided, because it allocates.
        1..=16 if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            BigInt::from(u64::from_str_radix(digits, 16).ok()?)
        }
        _ => BigInt::from_str_radix(digits, 16).ok()?,
    };
    Some(if negative { -value } else { value })
}

/// Returns a constant in hex, padded to whole bytes.
pub fn literal(value: &BigInt) -> Value {
    let digits = value.abs().to_str_radix(16);
    let sign = if value.is_negative() { "-" } else { "" };
    let pad = if digits.len().is_multiple_of(2) {
        ""
    } else {
        "0"
    };
    Value::Hexstr(format!("{sign}0x{pad}{digits}"))
}

/// Returns the number with `bits` ones.
pub fn ones(bits: u32) -> BigInt {
    (BigInt::one() << bits) - 1
}

/// Returns a number for use as a shift amount or width; `None` if it is too large.
pub fn amount(value: &BigInt) -> Option<u32> {
    value.to_u32().filter(|bits| *bits <= limits::WIDTH_BITS)
}

/// Returns how many bits a non-negative number has.
pub fn bits_of(value: &BigInt) -> u32 {
    u32::try_from(value.bits()).unwrap_or(u32::MAX)
}

/// Least and greatest value.
pub type Range = (BigInt, BigInt);

fn up_to(bits: u32) -> Option<Range> {
    (bits > 0 && bits <= limits::WIDTH_BITS).then(|| (BigInt::zero(), ones(bits)))
}

pub struct Bounds<'a> {
    pub model: &'a Model,
    /// Widths of the action's parameters.
    pub parameters: &'a [u32],
}

impl Bounds<'_> {
    /// Returns the bounds of an operand's value; `None` if they are unknown.
    pub fn of(&self, value: &Value) -> Option<Range> {
        match value {
            Value::Hexstr(_) => constant(value).map(|value| (value.clone(), value)),
            Value::Field((_, field)) if field == VALID => up_to(1),
            Value::Field((header, field)) => {
                let info = self.model.info(self.model.id(header, field)?);
                if info.signed { None } else { up_to(info.bits) }
            }
            Value::Local(at) | Value::RuntimeData(at) => up_to(*self.parameters.get(*at as usize)?),
            Value::Expression(expression) => match &**expression {
                Expression::Value(inner) => self.of(inner),
                Expression::Op(operation) => self.of_operation(operation),
            },
            _ => None,
        }
    }

    fn side(&self, operand: &Option<Operand>) -> Option<Range> {
        match operand {
            Some(Operand::Value(value)) => self.of(value),
            _ => None,
        }
    }

    fn of_operation(&self, operation: &Operation) -> Option<Range> {
        let left = || self.side(&operation.left);
        let right = || self.side(&operation.right);
        match operation.op.as_str() {
            "b2d" => up_to(1),
            "+" => sum(&left()?, &right()?),
            "-" => {
                let ((a, b), (c, d)) = (left()?, right()?);
                Some((a - d, b - c))
            }
            "*" => {
                let ((a, b), (c, d)) = (left()?, right()?);
                (!a.is_negative() && !c.is_negative()).then(|| (a * c, b * d))
            }
            "&" => {
                let positive = |range: Option<Range>| {
                    range
                        .filter(|(low, _)| !low.is_negative())
                        .map(|(_, high)| high)
                };
                let high = match (positive(left()), positive(right())) {
                    (Some(a), Some(b)) => a.min(b),
                    (Some(a), None) | (None, Some(a)) => a,
                    (None, None) => return None,
                };
                Some((BigInt::zero(), high))
            }
            "|" | "^" => {
                let ((a, b), (c, d)) = (left()?, right()?);
                (!a.is_negative() && !c.is_negative())
                    .then(|| (BigInt::zero(), ones(bits_of(&b.max(d)))))
            }
            "<<" => {
                let ((a, b), bits) = (left()?, self.fixed(&operation.right)?);
                (!a.is_negative()).then(|| (a << bits, b << bits))
            }
            ">>" => {
                let ((a, b), bits) = (left()?, self.fixed(&operation.right)?);
                (!a.is_negative()).then(|| (a >> bits, b >> bits))
            }
            "usat_cast" => up_to(self.fixed(&operation.right)?),
            "two_comp_mod" | "sat_cast" => {
                let half = BigInt::one() << self.fixed(&operation.right)?.checked_sub(1)?;
                Some((-half.clone(), half - 1))
            }
            "?" => {
                let ((a, b), (c, d)) = (left()?, right()?);
                Some((a.min(c), b.max(d)))
            }
            _ => None,
        }
    }

    fn fixed(&self, operand: &Option<Operand>) -> Option<u32> {
        match operand {
            Some(Operand::Value(value)) => amount(&constant(value)?),
            _ => None,
        }
    }
}

fn sum((a, b): &Range, (c, d): &Range) -> Option<Range> {
    Some((a + c, b + d))
}

/// Computes an operation on constants; `None` if it is left to the switch.
pub fn compute(op: &str, left: &BigInt, right: &BigInt) -> Option<BigInt> {
    let value = match op {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "&" => left & right,
        "|" => left | right,
        "^" => left ^ right,
        "/" if !left.is_negative() && right.is_positive() => left / right,
        "%" if !left.is_negative() && right.is_positive() => left % right,
        "<<" => left << amount(right)?,
        ">>" if !left.is_negative() => left >> amount(right)?,
        "two_comp_mod" => {
            let bits = amount(right).filter(|bits| *bits > 0)?;
            crate::types::const_eval::wrap(left, bits, true)
        }
        "usat_cast" => left.clone().clamp(BigInt::zero(), ones(amount(right)?)),
        "sat_cast" => {
            let half = BigInt::one() << amount(right)?.checked_sub(1)?;
            left.clone().clamp(-half.clone(), half - 1)
        }
        _ => return None,
    };
    (value.bits() <= limits::CONSTANT_BITS).then_some(value)
}

pub fn compare(op: &str, left: &BigInt, right: &BigInt) -> Option<bool> {
    Some(match op {
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        _ => return None,
    })
}

/// Returns the result of comparing a value in the first range with a value in the second, if it is always the same.
pub fn compare_ranges(op: &str, (a, b): &Range, (c, d): &Range) -> Option<bool> {
    let apart = b < c || d < a;
    match op {
        "==" if apart => Some(false),
        "!=" if apart => Some(true),
        "<" if b < c => Some(true),
        "<" if a >= d => Some(false),
        "<=" if b <= c => Some(true),
        "<=" if a > d => Some(false),
        ">" if a > d => Some(true),
        ">" if b <= c => Some(false),
        ">=" if a >= d => Some(true),
        ">=" if b < c => Some(false),
        _ => None,
    }
}
