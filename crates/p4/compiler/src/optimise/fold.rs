//! Simplifies expressions: computes constants, removes masks and casts without effect, simplifies truth values, and
//! replaces fields by known values.
//!
//! The pass is sound because operands have no side effects and operations compute with integers of unlimited width.
//! Only [`demanded`] uses widths. It is called only where the consumer keeps just the low bits, and only for unsigned
//! fields, because simple_switch does not cut every value that it copies into a signed field. Shifts and divisions by
//! zero or of negative numbers are not computed here but left to the switch. Two headers never count as equal, since
//! two invalid headers are not equal.

use bmv2_json::{Expression, Operand, Operation, Value};
use num_bigint::BigInt;
use num_traits::{One as _, Signed as _, Zero as _};

use super::facts::Facts;
use super::model::{Model, VALID};
use super::number::{self, Bounds};
use crate::lower::place::{operation, parameter};

pub struct Folder<'a> {
    pub model: &'a Model,
    /// Widths of the action's parameters.
    pub parameters: &'a [u32],
    /// The facts that hold where the operand is read; `None` in the pass that only folds.
    pub facts: Option<&'a Facts>,
    /// Whether to fold operations, or only to insert known values.
    pub fold: bool,
}

pub fn is_truth(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Expression(expression) => match &**expression {
            Expression::Value(inner) => is_truth(inner),
            Expression::Op(operation) => match operation.op.as_str() {
                "and" | "or" | "not" | "d2b" | "valid" | "valid_union" => true,
                "?" => matches!(&operation.left, Some(Operand::Value(left)) if is_truth(left)),
                op => is_comparison(op),
            },
        },
        _ => false,
    }
}

fn is_comparison(op: &str) -> bool {
    op.starts_with("==") || op.starts_with("!=") || matches!(op, "<" | "<=" | ">" | ">=")
}

fn opposite(op: &str) -> Option<&'static str> {
    Some(match op {
        "==" => "!=",
        "!=" => "==",
        "<" => ">=",
        "<=" => ">",
        ">" => "<=",
        ">=" => "<",
        _ => return None,
    })
}

/// Returns the operation that an operand consists of, without the parentheses around it.
pub fn as_operation(value: &Value) -> Option<&Operation> {
    match value {
        Value::Expression(expression) => match &**expression {
            Expression::Value(inner) => as_operation(inner),
            Expression::Op(operation) => Some(operation),
        },
        _ => None,
    }
}

fn unary<'a>(value: &'a Value, op: &str) -> Option<&'a Value> {
    let operation = as_operation(value).filter(|operation| operation.op == op)?;
    match (&operation.left, &operation.right) {
        (None, Some(Operand::Value(right))) => Some(right),
        _ => None,
    }
}

fn binary<'a>(value: &'a Value, op: &str) -> Option<(&'a Value, &'a Value)> {
    let operation = as_operation(value).filter(|operation| operation.op == op)?;
    match (&operation.left, &operation.right) {
        (Some(Operand::Value(left)), Some(Operand::Value(right))) => Some((left, right)),
        _ => None,
    }
}

impl Folder<'_> {
    fn bounds(&self) -> Bounds<'_> {
        Bounds {
            model: self.model,
            parameters: self.parameters,
        }
    }

    /// Simplifies a parameter that a primitive reads.
    pub fn parameter(&self, value: &Value) -> Value {
        match value {
            Value::ParametersVector(values) => {
                Value::ParametersVector(values.iter().map(|value| self.parameter(value)).collect())
            }
            _ => parameter(self.value(value)),
        }
    }

    /// Simplifies a value that is copied into `target`.
    pub fn assigned(&self, value: &Value, target: &Value) -> Value {
        let value = self.value(value);
        let Value::Field((header, field)) = target else {
            return parameter(value);
        };
        let info = self.model.id(header, field).map(|id| self.model.info(id));
        match info.filter(|info| self.fold && info.is_plain()) {
            Some(info) => parameter(demanded(&value, info.bits)),
            None => parameter(value),
        }
    }

    /// Returns the simplest operand with the same value.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::Field((header, field)) => match self.facts {
                Some(facts) => facts.read(self.model, header, field),
                None => value.clone(),
            },
            Value::RuntimeData(at) => Value::Local(*at),
            Value::Expression(expression) => match &**expression {
                Expression::Value(inner) => self.value(inner),
                Expression::Op(inner) => self.operation(inner),
            },
            Value::Register((array, index)) => {
                Value::Register((array.clone(), Box::new(self.value(index))))
            }
            other => other.clone(),
        }
    }

    fn side(&self, operand: &Option<Operand>) -> Option<Operand> {
        match operand {
            Some(Operand::Value(value)) => Some(Operand::Value(self.value(value))),
            other => other.clone(),
        }
    }

    fn operation(&self, original: &Operation) -> Value {
        let rebuilt = Operation {
            op: original.op.clone(),
            left: self.side(&original.left),
            right: self.side(&original.right),
            cond: self.side(&original.cond),
        };
        let whole = Value::Expression(Box::new(Expression::Op(rebuilt)));
        if let Some(facts) = self.facts
            && let Some(truth) = facts.truth(self.model, &whole)
        {
            return Value::Bool(truth);
        }
        if !self.fold {
            return whole;
        }
        let simpler = match as_operation(&whole) {
            Some(operation) => self.rewrite(operation),
            None => None,
        };
        simpler.unwrap_or(whole)
    }

    /// Simplifies an operation whose operands are already simple.
    fn rewrite(&self, operation: &Operation) -> Option<Value> {
        let op = operation.op.as_str();
        match (&operation.cond, &operation.left, &operation.right) {
            (None, None, Some(Operand::Value(inner))) => self.one(op, inner),
            (None, Some(Operand::Value(left)), Some(Operand::Value(right))) => match op {
                "and" | "or" => logical(op, left, right),
                _ if is_comparison(op) => self.comparison(op, left, right),
                _ => self.arithmetic(op, left, right),
            },
            (
                Some(Operand::Value(condition)),
                Some(Operand::Value(yes)),
                Some(Operand::Value(no)),
            ) => match condition {
                Value::Bool(true) => Some(yes.clone()),
                Value::Bool(false) => Some(no.clone()),
                _ if yes == no => Some(yes.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    fn one(&self, op: &str, inner: &Value) -> Option<Value> {
        match op {
            "not" => self.negation(inner),
            "d2b" => self.as_truth(inner),
            "b2d" => self.as_data(inner),
            "~" => number::constant(inner).map(|value| number::literal(&!value)),
            _ => None,
        }
    }

    fn negation(&self, inner: &Value) -> Option<Value> {
        if let Value::Bool(truth) = inner {
            return Some(Value::Bool(!truth));
        }
        if let Some(again) = unary(inner, "not") {
            return Some(again.clone());
        }
        let compared = as_operation(inner)?;
        let op = opposite(&compared.op)?;
        let (left, right) = binary(inner, &compared.op)?;
        Some(operation(op, Some(left.clone()), Some(right.clone())))
    }

    fn as_truth(&self, inner: &Value) -> Option<Value> {
        if let Some(value) = number::constant(inner) {
            return Some(Value::Bool(!value.is_zero()));
        }
        match inner {
            Value::Field((header, field)) if field == VALID => Some(operation(
                "valid",
                None,
                Some(Value::Header(header.clone())),
            )),
            _ => unary(inner, "b2d").cloned(),
        }
    }

    fn as_data(&self, inner: &Value) -> Option<Value> {
        match inner {
            Value::Bool(truth) => Some(number::literal(&BigInt::from(u8::from(*truth)))),
            _ => {
                if let Some(Value::Header(header)) = unary(inner, "valid") {
                    return Some(Value::Field((header.clone(), VALID.to_owned())));
                }
                let data = unary(inner, "d2b")?;
                let (low, high) = self.bounds().of(data)?;
                (!low.is_negative() && high <= BigInt::one()).then(|| data.clone())
            }
        }
    }

    fn comparison(&self, op: &str, left: &Value, right: &Value) -> Option<Value> {
        match (is_truth(left), is_truth(right)) {
            (true, true) => return compare_truths(op, left, right),
            (false, false) => {}
            _ => return None,
        }
        let (a, b) = (number::constant(left), number::constant(right));
        if let (Some(a), Some(b)) = (&a, &b) {
            return number::compare(op, a, b).map(Value::Bool);
        }
        if a.is_some() {
            // Moves the constant to the right, so that there are fewer forms to handle.
            let mirrored = match op {
                "==" | "!=" => op,
                "<" => ">",
                "<=" => ">=",
                ">" => "<",
                ">=" => "<=",
                _ => return None,
            };
            let whole = operation(mirrored, Some(right.clone()), Some(left.clone()));
            let simpler = self.comparison(mirrored, right, left);
            return Some(simpler.unwrap_or(whole));
        }
        let bounds = self.bounds();
        let (a, c) = (bounds.of(left), bounds.of(right));
        if let (Some(a), Some(c)) = (&a, &c)
            && let Some(truth) = number::compare_ranges(op, a, c)
        {
            return Some(Value::Bool(truth));
        }
        // `left` is a truth value that `b2d` converts to a number for the comparison.
        let truth = unary(left, "b2d")?;
        let wanted = b?.is_zero() != (op == "==");
        if !matches!(op, "==" | "!=") {
            return None;
        }
        if wanted {
            return Some(truth.clone());
        }
        let not = operation("not", None, Some(truth.clone()));
        Some(self.negation(truth).unwrap_or(not))
    }

    fn arithmetic(&self, op: &str, left: &Value, right: &Value) -> Option<Value> {
        let (a, b) = (number::constant(left), number::constant(right));
        if let (Some(a), Some(b)) = (&a, &b) {
            return number::compute(op, a, b).map(|value| number::literal(&value));
        }
        if a.is_some() && matches!(op, "+" | "*" | "&" | "|" | "^") {
            let whole = operation(op, Some(right.clone()), Some(left.clone()));
            return Some(self.arithmetic(op, right, left).unwrap_or(whole));
        }
        let b = b?;
        match op {
            "+" | "-" | "|" | "^" | "<<" | ">>" if b.is_zero() => Some(left.clone()),
            "*" | "/" if b.is_one() => Some(left.clone()),
            "*" | "&" if b.is_zero() => Some(right.clone()),
            "&" if b.is_positive() => self.masked(left, &b),
            "usat_cast" | "two_comp_mod" | "sat_cast" => self.cast(op, left, &b),
            "+" if b.is_positive() => {
                // Simplifies `(x + 1) + 2`, which unrolled loops contain, to `x + 3`.
                let (inner, first) = binary(left, "+")?;
                let total = number::constant(first)? + b;
                let total = number::literal(&total);
                Some(operation("+", Some(inner.clone()), Some(total)))
            }
            ">>" => {
                let (inner, first) = binary(left, ">>")?;
                let total = number::amount(&(number::constant(first)? + b))?;
                let (low, _) = self.bounds().of(inner)?;
                let total = number::literal(&BigInt::from(total));
                (!low.is_negative()).then(|| operation(">>", Some(inner.clone()), Some(total)))
            }
            _ => None,
        }
    }

    fn masked(&self, left: &Value, mask: &BigInt) -> Option<Value> {
        let inner = demanded(left, number::bits_of(mask));
        if let Some((low, high)) = self.bounds().of(&inner)
            && !low.is_negative()
            && *mask == number::ones(number::bits_of(mask))
            && high <= *mask
        {
            return Some(inner);
        }
        if let Some((deeper, other)) = binary(&inner, "&")
            && let Some(other) = number::constant(other)
        {
            let both = number::literal(&(other & mask));
            return Some(operation("&", Some(deeper.clone()), Some(both)));
        }
        (inner != *left).then(|| operation("&", Some(inner), Some(number::literal(mask))))
    }

    fn cast(&self, op: &str, left: &Value, bits: &BigInt) -> Option<Value> {
        let bits = number::amount(bits).filter(|bits| *bits > 0)?;
        let (least, most) = match op {
            "usat_cast" => (BigInt::zero(), number::ones(bits)),
            _ => (-(BigInt::one() << (bits - 1)), number::ones(bits - 1)),
        };
        if let Some((low, high)) = self.bounds().of(left)
            && low >= least
            && high <= most
        {
            return Some(left.clone());
        }
        if op != "two_comp_mod" {
            return None;
        }
        let inner = demanded(left, bits);
        let width = number::literal(&BigInt::from(bits));
        (inner != *left).then(|| operation(op, Some(inner), Some(width)))
    }
}

fn logical(op: &str, left: &Value, right: &Value) -> Option<Value> {
    let is_and = op == "and";
    match (left, right) {
        (Value::Bool(truth), other) | (other, Value::Bool(truth)) => Some(if *truth == is_and {
            other.clone()
        } else {
            Value::Bool(!is_and)
        }),
        _ if left == right => Some(left.clone()),
        _ => None,
    }
}

fn compare_truths(op: &str, left: &Value, right: &Value) -> Option<Value> {
    let same = match op {
        "==" | "==b" => true,
        "!=" | "!=b" => false,
        _ => return None,
    };
    let (truth, other) = match (left, right) {
        (Value::Bool(truth), other) | (other, Value::Bool(truth)) => (*truth, other),
        _ => return None,
    };
    if truth == same {
        return Some(other.clone());
    }
    match other {
        Value::Bool(other) => Some(Value::Bool(!other)),
        _ => Some(operation("not", None, Some(other.clone()))),
    }
}

/// Returns an operand that equals `value` in the lowest `bits` bits; its other bits may differ.
pub fn demanded(value: &Value, bits: u32) -> Value {
    let Some(found) = as_operation(value) else {
        return value.clone();
    };
    let again = |value: &Value| Some(demanded(value, bits));
    let Some((left, right)) = binary(value, &found.op) else {
        return match unary(value, &found.op) {
            Some(inner) if found.op == "~" => operation("~", None, again(inner)),
            _ => value.clone(),
        };
    };
    match (found.op.as_str(), number::constant(right)) {
        ("&", Some(mask)) if &mask & number::ones(bits) == number::ones(bits) => {
            demanded(left, bits)
        }
        ("two_comp_mod", Some(width)) if width >= BigInt::from(bits) => demanded(left, bits),
        ("<<", Some(by)) => match number::amount(&by) {
            Some(by) if by < bits => {
                operation("<<", Some(demanded(left, bits - by)), Some(right.clone()))
            }
            _ => value.clone(),
        },
        ("+" | "-" | "*" | "&" | "|" | "^", _) if found.cond.is_none() => {
            operation(&found.op, again(left), again(right))
        }
        _ => value.clone(),
    }
}
