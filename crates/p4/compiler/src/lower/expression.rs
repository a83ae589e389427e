//! Turns expressions into BMv2 operands. Calls inside an expression become primitives that run before the statement.
//! BMv2 has two kinds of operands: boolean operands and data (numbers). `d2b` and `b2d` convert between them.

use bmv2_json::{Expression, Operand, Operation, Value};
use num_bigint::BigInt;

use super::place::{Place, hex, operation, plain_hex};
use super::{Binding, Lower, Stage};
use crate::ir::{BinaryOp, Builtin, Call, Callee, Expr, ExprKind, StackProperty, UnaryOp};
use crate::types::Type;
use crate::types::const_eval::{fold, mask};

pub fn map_operands(kind: &ExprKind, f: &mut dyn FnMut(&Expr) -> Expr) -> ExprKind {
    let mut boxed = |expr: &Expr| Box::new(f(expr));
    match kind {
        ExprKind::Field(inner, index) => ExprKind::Field(boxed(inner), *index),
        ExprKind::Index(inner, index) => ExprKind::Index(boxed(inner), boxed(index)),
        ExprKind::Stack(inner, property) => ExprKind::Stack(boxed(inner), *property),
        ExprKind::Slice(inner, high, low) => ExprKind::Slice(boxed(inner), *high, *low),
        ExprKind::Unary(op, inner) => ExprKind::Unary(*op, boxed(inner)),
        ExprKind::Binary(op, left, right) => ExprKind::Binary(*op, boxed(left), boxed(right)),
        ExprKind::Mux(condition, yes, no) => ExprKind::Mux(boxed(condition), boxed(yes), boxed(no)),
        ExprKind::Cast(inner) => ExprKind::Cast(boxed(inner)),
        ExprKind::List(items) => ExprKind::List(items.iter().map(f).collect()),
        ExprKind::Hit(inner, hit) => ExprKind::Hit(boxed(inner), *hit),
        ExprKind::Range(low, high) => ExprKind::Range(boxed(low), boxed(high)),
        ExprKind::Mask(value, bits) => ExprKind::Mask(boxed(value), boxed(bits)),
        ExprKind::Call(call) => ExprKind::Call(Box::new(Call {
            callee: call.callee.clone(),
            arguments: (call.arguments.iter())
                .map(|argument| argument.as_ref().map(&mut *f))
                .collect(),
        })),
        other => other.clone(),
    }
}

pub fn any_operand(kind: &ExprKind, f: &mut dyn FnMut(&Expr) -> bool) -> bool {
    match kind {
        ExprKind::Field(inner, _)
        | ExprKind::Stack(inner, _)
        | ExprKind::Slice(inner, ..)
        | ExprKind::Unary(_, inner)
        | ExprKind::Cast(inner)
        | ExprKind::Hit(inner, _) => f(inner),
        ExprKind::Index(first, second)
        | ExprKind::Binary(_, first, second)
        | ExprKind::Range(first, second)
        | ExprKind::Mask(first, second) => f(first) || f(second),
        ExprKind::Mux(condition, yes, no) => f(condition) || f(yes) || f(no),
        ExprKind::List(items) => items.iter().any(f),
        ExprKind::Call(call) => call.arguments.iter().flatten().any(f),
        _ => false,
    }
}

/// Whether an expression contains a call that may change something (`isValid` does not).
pub fn has_call(expr: &Expr) -> bool {
    if let ExprKind::Call(call) = &expr.kind
        && !matches!(call.callee, Callee::Builtin(Builtin::IsValid, _))
    {
        return true;
    }
    any_operand(&expr.kind, &mut has_call)
}

/// Whether an expression contains `last` of a stack, which ends the parser if the stack is empty.
fn reads_last(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Stack(_, StackProperty::Last))
        || any_operand(&expr.kind, &mut reads_last)
}

impl Lower<'_> {
    /// Whether evaluation has a side effect, so that it must happen only where the program evaluates the expression.
    fn has_effect(&self, expr: &Expr) -> bool {
        has_call(expr) || (self.stage == Stage::Parser && reads_last(expr))
    }

    /// Replaces constructor parameters and other names of constants by their values, and folds constants.
    pub fn resolve(&self, expr: &Expr) -> Expr {
        if let ExprKind::Var(id) = &expr.kind {
            return match self.env.get(id) {
                Some(Binding::Constant(value)) => Expr {
                    span: expr.span,
                    ..value.clone()
                },
                _ => expr.clone(),
            };
        }
        let kind = map_operands(&expr.kind, &mut |inner| self.resolve(inner));
        let rebuilt = Expr {
            kind,
            ty: expr.ty.clone(),
            span: expr.span,
        };
        let whole = rebuilt.clone();
        fold(self.program, rebuilt).unwrap_or(whole)
    }

    /// Returns the expression as an operand. A bool becomes a boolean operand, not data.
    pub fn value(&mut self, expr: &Expr) -> Value {
        match &expr.kind {
            ExprKind::Int(value) => hex(value, self.program.width(&expr.ty).unwrap_or(32)),
            ExprKind::Bool(value) => Value::Bool(*value),
            ExprKind::Str(text) => Value::String(text.to_string()),
            ExprKind::Error(value) => plain_hex(u64::from(*value)),
            ExprKind::Member(_, index) => plain_hex(*index as u64),
            ExprKind::Var(id) => match self.env.get(id).cloned() {
                Some(Binding::Constant(value)) => self.value(&value),
                Some(Binding::Value(value)) => value,
                Some(Binding::Place(place)) => self.read(&place),
                _ => self.no_value(expr),
            },
            ExprKind::Stack(inner, StackProperty::LastIndex) => match self.place(inner) {
                Some(Place::Stack { name, .. }) => {
                    operation("last_stack_index", None, Some(Value::HeaderStack(name)))
                }
                _ => self.no_value(expr),
            },
            ExprKind::Field(..) | ExprKind::Index(..) | ExprKind::Stack(..) => {
                match self.place(expr) {
                    Some(place) => self.read(&place),
                    None => self.no_value(expr),
                }
            }
            ExprKind::Slice(inner, high, low) => self.slice(inner, *high, *low),
            ExprKind::Unary(op, inner) => self.unary(*op, inner, &expr.ty),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, &expr.ty),
            ExprKind::Mux(condition, yes, no) => self.mux(condition, yes, no),
            ExprKind::Cast(inner) => self.cast(inner, &expr.ty),
            ExprKind::Call(_) => self.call_value(expr),
            ExprKind::Poison => plain_hex(0),
            _ => self.no_value(expr),
        }
    }

    fn no_value(&mut self, expr: &Expr) -> Value {
        self.unsupported(expr.span, "this expression");
        plain_hex(0)
    }

    /// Returns the expression as an operand that is data: a boolean operand is converted.
    pub fn data(&mut self, expr: &Expr) -> Value {
        let value = self.value(expr);
        if self.is_bool(&expr.ty) {
            as_data(value)
        } else {
            value
        }
    }

    fn slice(&mut self, inner: &Expr, high: u32, low: u32) -> Value {
        let value = self.value(inner);
        let shifted = if low == 0 {
            value
        } else {
            operation(">>", Some(value), Some(plain_hex(u64::from(low))))
        };
        let width = high - low + 1;
        if self.program.width(&inner.ty) == Some(high + 1) && !self.is_signed(&inner.ty) {
            return shifted;
        }
        operation("&", Some(shifted), Some(hex(&mask(width), width)))
    }

    pub fn is_signed(&self, ty: &Type) -> bool {
        matches!(self.program.underlying(ty), Type::Bits { signed: true, .. })
    }

    fn unary(&mut self, op: UnaryOp, inner: &Expr, ty: &Type) -> Value {
        let value = self.value(inner);
        match op {
            UnaryOp::Not => operation("not", None, Some(value)),
            UnaryOp::Plus => value,
            UnaryOp::Complement => {
                let flipped = operation("~", None, Some(value));
                self.clamp(flipped, ty)
            }
            // simple_switch has no unary minus on data.
            UnaryOp::Minus => {
                let negated = operation("-", Some(hex(&BigInt::from(0), 8)), Some(value));
                self.clamp(negated, ty)
            }
        }
    }

    /// Returns both operands. If the right operand contains a call, the left operand is saved first, so that the call
    /// does not change its value.
    fn operands(&mut self, left: &Expr, right: &Expr) -> (Value, Value) {
        let mut first = self.value(left);
        if has_call(right) && !matches!(first, Value::Hexstr(_) | Value::Bool(_)) {
            let temp = self.temp("tmp", &left.ty, left.span);
            self.store(&temp, first, left.span);
            first = self.read(&temp);
        }
        (first, self.value(right))
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, ty: &Type) -> Value {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            return self.logical(op, left, right);
        }
        if self.is_aggregate(&left.ty) {
            return self.compare_aggregates(op, left, right);
        }
        if op == BinaryOp::Concat {
            return self.concat(left, right, ty);
        }
        if self.is_bool(&left.ty) {
            let (a, b) = self.operands(left, right);
            let name = if op == BinaryOp::Eq { "==" } else { "!=" };
            return operation(name, Some(as_data(a)), Some(as_data(b)));
        }
        let (a, b) = self.operands(left, right);
        let (name, clamped) = match op {
            BinaryOp::Add => ("+", true),
            BinaryOp::Sub => ("-", true),
            BinaryOp::Mul => ("*", true),
            BinaryOp::Shl => ("<<", true),
            BinaryOp::Shr => (">>", false),
            BinaryOp::Div => ("/", false),
            BinaryOp::Mod => ("%", false),
            BinaryOp::BitAnd => ("&", false),
            BinaryOp::BitOr => ("|", false),
            BinaryOp::BitXor => ("^", false),
            BinaryOp::Eq => ("==", false),
            BinaryOp::Ne => ("!=", false),
            BinaryOp::Lt => ("<", false),
            BinaryOp::Le => ("<=", false),
            BinaryOp::Gt => (">", false),
            BinaryOp::Ge => (">=", false),
            _ => return self.saturating(op, a, b, ty),
        };
        let result = operation(name, Some(a), Some(b));
        if clamped {
            self.clamp(result, ty)
        } else {
            result
        }
    }

    fn saturating(&mut self, op: BinaryOp, left: Value, right: Value, ty: &Type) -> Value {
        let plain = operation(
            if op == BinaryOp::AddSat { "+" } else { "-" },
            Some(left),
            Some(right),
        );
        let name = if self.is_signed(ty) {
            "sat_cast"
        } else {
            "usat_cast"
        };
        let width = self.program.width(ty).unwrap_or(0);
        if width == 0 {
            // A type of 0 bits has one value, and the switches have no cast to it.
            return hex(&BigInt::from(0), 8);
        }
        operation(name, Some(plain), Some(plain_hex(u64::from(width))))
    }

    fn concat(&mut self, left: &Expr, right: &Expr, ty: &Type) -> Value {
        let low_bits = self.program.width(&right.ty).unwrap_or(0);
        let (a, b) = self.operands(left, right);
        let b = if self.is_signed(&right.ty) {
            operation("&", Some(b), Some(hex(&mask(low_bits), low_bits)))
        } else {
            b
        };
        let high = operation("<<", Some(a), Some(plain_hex(u64::from(low_bits))));
        let joined = operation("|", Some(high), Some(b));
        if self.is_signed(ty) {
            self.clamp(joined, ty)
        } else {
            joined
        }
    }

    fn logical(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Value {
        let name = if op == BinaryOp::And { "and" } else { "or" };
        if !self.has_effect(right) {
            let (a, b) = (self.value(left), self.value(right));
            return operation(name, Some(a), Some(b));
        }
        // Calls in the right side run only if the left side does not decide the result.
        let temp = self.temp("tmp", &Type::Bool, left.span);
        self.assign(&temp, left);
        let condition = self.read(&temp);
        let condition = if op == BinaryOp::And {
            condition
        } else {
            operation("not", None, Some(condition))
        };
        let (place, right) = (temp.clone(), right.clone());
        self.branch(
            condition,
            left.span,
            |lower| lower.assign(&place, &right),
            |_| {},
        );
        self.read(&temp)
    }

    fn is_aggregate(&self, ty: &Type) -> bool {
        matches!(ty, Type::Struct(_) | Type::Tuple(_) | Type::Stack(..))
    }

    /// Compares headers, structs or tuples field by field, and headers also by their validity.
    fn compare_aggregates(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Value {
        let (Some(a), Some(b)) = (self.place(left), self.place(right)) else {
            return self.no_value(left);
        };
        let all = self.equal_places(&a, &b);
        if op == BinaryOp::Eq {
            all
        } else {
            operation("not", None, Some(all))
        }
    }

    fn equal_places(&self, left: &Place, right: &Place) -> Value {
        let all = |parts: Vec<Value>| {
            parts
                .into_iter()
                .reduce(|a, b| operation("and", Some(a), Some(b)))
                .unwrap_or(Value::Bool(true))
        };
        match (left, right) {
            (Place::Members(a), Place::Members(b)) => all(a
                .iter()
                .zip(b.iter())
                .map(|(a, b)| self.equal_places(a, b))
                .collect()),
            (Place::Stack { .. }, Place::Stack { .. }) => {
                let pairs = self.elements(left).into_iter().zip(self.elements(right));
                all(pairs.map(|(a, b)| self.equal_places(&a, &b)).collect())
            }
            (Place::Header { name: a, .. }, Place::Header { name: b, .. }) => {
                let valid = |name: &str| Value::Field((name.to_owned(), "$valid$".to_owned()));
                let truth = |value: Value| operation("d2b", None, Some(value));
                let equal = self
                    .fields(left)
                    .iter()
                    .zip(&self.fields(right))
                    .map(|(a, b)| self.equal_places(a, b))
                    .collect();
                let both = operation("and", Some(truth(valid(a))), Some(truth(valid(b))));
                let either = operation("or", Some(truth(valid(a))), Some(truth(valid(b))));
                let same = operation("and", Some(both), Some(all(equal)));
                operation("or", Some(operation("not", None, Some(either))), Some(same))
            }
            _ => operation(
                "==",
                Some(self.read_raw(left).0),
                Some(self.read_raw(right).0),
            ),
        }
    }

    fn mux(&mut self, condition: &Expr, yes: &Expr, no: &Expr) -> Value {
        if self.has_effect(yes) || self.has_effect(no) {
            let temp = self.temp("tmp", &yes.ty, condition.span);
            let condition_value = self.value(condition);
            let (place, other, yes, no) = (temp.clone(), temp.clone(), yes.clone(), no.clone());
            self.branch(
                condition_value,
                condition.span,
                |lower| lower.assign(&place, &yes),
                |lower| lower.assign(&other, &no),
            );
            return self.read(&temp);
        }
        let (c, a, b) = (self.value(condition), self.value(yes), self.value(no));
        if self.is_bool(&yes.ty) {
            let first = operation("and", Some(c.clone()), Some(a));
            let second = operation("and", Some(operation("not", None, Some(c))), Some(b));
            return operation("or", Some(first), Some(second));
        }
        let op = Operation {
            op: "?".to_owned(),
            left: Some(Operand::Value(a)),
            right: Some(Operand::Value(b)),
            cond: Some(Operand::Value(c)),
        };
        Value::Expression(Box::new(Expression::Op(op)))
    }

    fn cast(&mut self, inner: &Expr, ty: &Type) -> Value {
        let value = self.value(inner);
        let (to, from) = (
            self.program.underlying(ty).clone(),
            self.program.underlying(&inner.ty).clone(),
        );
        match (&to, &from) {
            (Type::Bits { .. }, Type::Bool) => as_data(value),
            (Type::Bool, Type::Bits { .. }) => operation("d2b", None, Some(value)),
            (
                Type::Bits {
                    width: a,
                    signed: x,
                },
                Type::Bits {
                    width: b,
                    signed: y,
                },
            ) => {
                if (x == y && a >= b) || (!y && *x && a > b) {
                    value
                } else {
                    self.clamp(value, &to)
                }
            }
            _ => value,
        }
    }
}

/// Converts a boolean operand to data. Removes a `d2b` instead of adding a `b2d` around it.
pub fn as_data(value: Value) -> Value {
    match value {
        Value::Bool(truth) => Value::Hexstr(if truth { "0x01" } else { "0x00" }.to_owned()),
        Value::Expression(inner) => match *inner {
            Expression::Op(Operation {
                ref op,
                right: Some(Operand::Value(ref raw)),
                ..
            }) if op == "d2b" => raw.clone(),
            other => operation("b2d", None, Some(Value::Expression(Box::new(other)))),
        },
        other => operation("b2d", None, Some(other)),
    }
}
