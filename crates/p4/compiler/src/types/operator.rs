//! Finds the types of operators and casts (P4_16 language specification 1.2.5, sections 8.5 to 8.11).

use num_traits::Signed as _;

use super::Type;
use super::check::Checker;
use crate::ir::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::source::Span;
use crate::syntax::ast;

impl Checker<'_> {
    pub fn unary(&mut self, op: UnaryOp, inner: &ast::Expr, span: Span) -> Expr {
        let inner = self.expr(inner);
        let below = self.program.underlying(&inner.ty).clone();
        let fits = match op {
            UnaryOp::Not => matches!(below, Type::Bool),
            UnaryOp::Complement => matches!(below, Type::Bits { .. } | Type::Int),
            UnaryOp::Minus | UnaryOp::Plus => matches!(below, Type::Bits { .. } | Type::Int),
        };
        if below.is_poison() {
            return self.poison(span);
        }
        if !fits {
            let wanted = if op == UnaryOp::Not {
                "`!` needs a bool"
            } else {
                "this operator needs a number"
            };
            self.mismatch_operand(&inner, wanted);
            return self.poison(span);
        }
        let ty = if matches!(inner.ty, Type::Enum(_)) {
            below
        } else {
            inner.ty.clone()
        };
        self.fold(Expr {
            kind: ExprKind::Unary(op, Box::new(inner)),
            ty,
            span,
        })
    }

    /// Replaces a value of a serializable enum by its number, because arithmetic works on the number.
    fn lower_enum(&mut self, expr: Expr) -> Expr {
        match &expr.ty {
            Type::Enum(id) => match self.program.enums[*id].underlying.clone() {
                Some(below) => self.coerce(expr, &below),
                None => expr,
            },
            _ => expr,
        }
    }

    /// Gives both operands one type: a number without a width takes the other operand's type.
    fn balance(&mut self, left: Expr, right: Expr) -> (Expr, Expr) {
        let (left, right) = if left.ty == right.ty {
            (left, right)
        } else {
            (self.lower_enum(left), self.lower_enum(right))
        };
        match (&left.ty, &right.ty) {
            (Type::Int, Type::Bits { .. }) => {
                let wanted = right.ty.clone();
                (self.coerce(left, &wanted), right)
            }
            (Type::Bits { .. }, Type::Int)
            | (
                Type::Struct(_) | Type::Tuple(_),
                Type::ListOf(_) | Type::RecordOf(_) | Type::InvalidHeader,
            ) => {
                let wanted = left.ty.clone();
                let right = self.coerce(right, &wanted);
                (left, right)
            }
            (
                Type::ListOf(_) | Type::RecordOf(_) | Type::InvalidHeader,
                Type::Struct(_) | Type::Tuple(_),
            ) => {
                let wanted = right.ty.clone();
                (self.coerce(left, &wanted), right)
            }
            _ => (left, right),
        }
    }

    fn mismatched_operands(
        &mut self,
        left: &Expr,
        right: &Expr,
        is_comparing: bool,
        differ_in_width: bool,
        span: Span,
    ) {
        let (a, b) = (
            self.program.type_name(&left.ty),
            self.program.type_name(&right.ty),
        );
        let raw = self.sink.error(
            "E0413",
            span,
            format!("the operands do not go together: {a} and {b}"),
        );
        if is_comparison(left) && is_comparing {
            raw.help("comparisons do not chain: write `a == b && b == c`");
        } else if let (Type::Bool, Type::Bits { .. }) | (Type::Bits { .. }, Type::Bool) =
            (&left.ty, &right.ty)
        {
            raw.help("make a bool of the number: `x != 0`");
        } else if differ_in_width {
            raw.help(format!("convert one of them, for example with `({a})`"));
        }
    }

    pub fn binary(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if left.ty.is_poison() || right.ty.is_poison() {
            return self.poison(span);
        }
        let ty = match op {
            BinaryOp::And | BinaryOp::Or => {
                if let Some(open) = [&left, &right]
                    .into_iter()
                    .find(|operand| operand.ty == Type::Default)
                {
                    self.sink
                        .error("E0413", open.span, "`...` has no type here")
                        .help("write the value");
                    return self.poison(span);
                }
                let (left, right) = (
                    self.coerce(left, &Type::Bool),
                    self.coerce(right, &Type::Bool),
                );
                return self.fold(Expr {
                    kind: ExprKind::Binary(op, Box::new(left), Box::new(right)),
                    ty: Type::Bool,
                    span,
                });
            }
            BinaryOp::Shl | BinaryOp::Shr => return self.shift(op, left, right, span),
            BinaryOp::Concat => return self.concat(left, right, span),
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => Some(Type::Bool),
            _ => None,
        };
        self.legal_division(op, &left, &right, span);
        let (left, right) = if ty.is_none() && left.ty == right.ty {
            (self.lower_enum(left), self.lower_enum(right))
        } else {
            self.balance(left, right)
        };
        let equality = matches!(op, BinaryOp::Eq | BinaryOp::Ne);
        if equality && !self.legal_comparison(&left, &right, span) {
            return self.poison(span);
        }
        let numeric = matches!(
            self.program.underlying(&left.ty),
            Type::Bits { .. } | Type::Int
        );
        // Values of a type that is declared with `type` can only be compared for equality and order, unless they are
        // cast.
        let plain = ty.is_some() || matches!(left.ty, Type::Bits { .. } | Type::Int);
        if left.ty != right.ty || !(equality || (numeric && plain)) {
            if left.ty.is_poison() || right.ty.is_poison() {
                return self.poison(span);
            }
            let widths = left.ty != right.ty && numeric;
            self.mismatched_operands(&left, &right, ty.is_some(), widths, span);
            return self.poison(span);
        }
        if matches!(op, BinaryOp::AddSat | BinaryOp::SubSat) && matches!(left.ty, Type::Int) {
            let message = "saturating arithmetic needs operands with a width";
            self.sink.error("E0413", span, message);
        }
        let ty = ty.unwrap_or_else(|| left.ty.clone());
        self.fold(Expr {
            kind: ExprKind::Binary(op, Box::new(left), Box::new(right)),
            ty,
            span,
        })
    }

    fn shift(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = (self.lower_enum(left), self.lower_enum(right));
        if !matches!(left.ty, Type::Bits { .. } | Type::Int) {
            self.mismatch_operand(&left, "only numbers are shifted");
            return self.poison(span);
        }
        let amount_fits = match &right.ty {
            Type::Bits { signed: false, .. } => true,
            Type::Bits { .. } | Type::Int => {
                matches!(&right.kind, ExprKind::Int(value) if !value.is_negative())
            }
            _ => false,
        };
        if !amount_fits {
            self.mismatch_operand(
                &right,
                "the shift's amount is a bit<W> or a number that is not negative",
            );
            return self.poison(span);
        }
        if matches!(left.ty, Type::Int) && !matches!(right.kind, ExprKind::Int(_)) {
            return self.open_shift(op, left, right, span);
        }
        if let (Type::Bits { width, signed }, ExprKind::Int(amount)) = (&left.ty, &right.kind)
            && *amount >= num_bigint::BigInt::from(*width)
            && *width > 0
        {
            let (width, name) = (*width, self.program.type_name(&left.ty));
            let left_over = if *signed && op == BinaryOp::Shr {
                "only its sign is left"
            } else {
                "the result is always 0"
            };
            let message = format!("{name} is shifted by {amount}: {left_over}");
            self.sink
                .warning("W0841", span, message)
                .help(format!("shift by less than {width}"));
        }
        let ty = left.ty.clone();
        self.fold(Expr {
            kind: ExprKind::Binary(op, Box::new(left), Box::new(right)),
            ty,
            span,
        })
    }

    fn concat(&mut self, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = (self.lower_enum(left), self.lower_enum(right));
        let ty = match (&left.ty, &right.ty) {
            (Type::String, Type::String) => Type::String,
            (
                Type::Bits {
                    width: high,
                    signed,
                },
                Type::Bits { width: low, .. },
            ) => Type::Bits {
                width: high.saturating_add(*low).min(crate::limits::WIDTH_BITS),
                signed: *signed,
            },
            _ => {
                let bad = if matches!(left.ty, Type::Bits { .. }) {
                    &right
                } else {
                    &left
                };
                let bad = bad.clone();
                self.mismatch_operand(&bad, "`++` needs operands with a width");
                return self.poison(span);
            }
        };
        self.fold(Expr {
            kind: ExprKind::Binary(BinaryOp::Concat, Box::new(left), Box::new(right)),
            ty,
            span,
        })
    }

    pub fn mux(
        &mut self,
        condition: &ast::Expr,
        yes: &ast::Expr,
        no: &ast::Expr,
        span: Span,
    ) -> Expr {
        let condition = self.expr(condition);
        let condition = self.coerce(condition, &Type::Bool);
        let (yes, no) = (self.expr(yes), self.expr(no));
        let (yes, no) = self.balance(yes, no);
        if yes.ty != no.ty && !yes.ty.is_poison() && !no.ty.is_poison() {
            let (a, b) = (
                self.program.type_name(&yes.ty),
                self.program.type_name(&no.ty),
            );
            self.sink.error(
                "E0413",
                span,
                format!("both values of `?:` must have one type: {a} and {b}"),
            );
            return self.poison(span);
        }
        let ty = if yes.ty.is_poison() {
            no.ty.clone()
        } else {
            yes.ty.clone()
        };
        self.fold(Expr {
            kind: ExprKind::Mux(Box::new(condition), Box::new(yes), Box::new(no)),
            ty,
            span,
        })
    }

    pub fn cast(&mut self, ty: &ast::Type, inner: &ast::Expr, span: Span) -> Expr {
        let wanted = self.resolve_type(ty);
        let inner = self.expr(inner);
        if wanted.is_poison() || inner.ty.is_poison() {
            return self.poison_of(&wanted, span);
        }
        if inner.ty == wanted {
            return Expr { span, ..inner };
        }
        if matches!(
            inner.ty,
            Type::ListOf(_) | Type::RecordOf(_) | Type::InvalidHeader
        ) {
            let inner = self.coerce(inner, &wanted);
            return Expr { span, ..inner };
        }
        let (to, from) = (
            self.program.underlying(&wanted).clone(),
            self.program.underlying(&inner.ty).clone(),
        );
        let allowed = can_cast(&to, &from)
            && self.legal_newtype_cast(&wanted, &inner.ty)
            && legal_bool(&to, &inner);
        if !allowed {
            let (a, b) = (
                self.program.type_name(&inner.ty),
                self.program.type_name(&wanted),
            );
            let raw = self
                .sink
                .error("E0414", span, format!("cannot cast {a} to {b}"));
            if matches!(
                (&wanted, &inner.ty),
                (Type::Newtype(_), _) | (_, Type::Newtype(_))
            ) {
                raw.help(
                    "a `type` is cast only to and from the type that it is made of; use two casts",
                );
            } else if matches!((&to, &from), (Type::Bits { .. }, Type::Bits { .. })) {
                raw.help("change the width and the sign in two casts");
            }
            return self.poison_of(&wanted, span);
        }
        let inner = self.close_shift(inner, &to);
        if let (Type::Bits { width, signed }, Type::Int, ExprKind::Int(value)) =
            (&to, &from, &inner.kind)
            && !value.is_negative()
            && !super::const_eval::fits(value, *width, *signed)
            && !super::const_eval::fits(value, *width, false)
        {
            let (name, cut) = (
                self.program.type_name(&wanted),
                super::const_eval::wrap(value, *width, *signed),
            );
            self.sink.warning(
                "W0405",
                inner.span,
                format!("{value} does not fit {name} and becomes {cut}"),
            );
        }
        self.fold(Expr {
            kind: ExprKind::Cast(Box::new(inner)),
            ty: wanted,
            span,
        })
    }
}

/// Whether an explicit cast converts these types (P4_16 1.2.5, section 8.11.1); both are underlying types.
fn can_cast(to: &Type, from: &Type) -> bool {
    match (to, from) {
        (
            Type::Bits {
                width: a,
                signed: x,
            },
            Type::Bits {
                width: b,
                signed: y,
            },
        ) => a == b || x == y,
        (
            Type::Bits {
                width,
                signed: false,
            },
            Type::Bool,
        )
        | (
            Type::Bool,
            Type::Bits {
                width,
                signed: false,
            },
        ) => *width == 1,
        (Type::Bits { .. } | Type::Bool, Type::Int) | (Type::Int, Type::Bits { .. }) => true,
        (to, from) => to == from,
    }
}

/// Whether a cast to bool is legal: a number without a width must be 0 or 1.
fn legal_bool(to: &Type, inner: &Expr) -> bool {
    use num_traits::{One as _, Zero as _};
    match (&to, &inner.ty, &inner.kind) {
        (Type::Bool, Type::Int, ExprKind::Int(value)) => value.is_zero() || value.is_one(),
        _ => true,
    }
}

fn is_comparison(expr: &Expr) -> bool {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    matches!(expr.kind, ExprKind::Binary(Eq | Ne | Lt | Le | Gt | Ge, ..))
}
