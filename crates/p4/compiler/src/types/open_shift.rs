//! Checks shifts, inside an action, of a number without a width by an amount that is known only when the action is
//! called.
//!
//! p4c counts an action's parameters without a direction as known at compile time. So if `n` is such a parameter, `1 <<
//! n` is a number without a width. As in p4c, the shift and the shifted number get the width that the context asks for.

use super::Type;
use super::check::{Checker, Place};
use crate::ir::{BinaryOp, Expr, ExprKind};
use crate::source::Span;

pub struct OpenShift {
    shift: Span,
    number: Span,
}

impl Checker<'_> {
    /// Checks `number << amount` for a number without a width. The amount must be known at each call of the action.
    pub fn open_shift(&mut self, op: BinaryOp, number: Expr, amount: Expr, span: Span) -> Expr {
        if !self.is_known_for_call(&amount) {
            self.shift_without_width(number.span);
            return self.poison(span);
        }
        self.open_shifts.push(OpenShift {
            shift: span,
            number: number.span,
        });
        Expr {
            kind: ExprKind::Binary(op, Box::new(number), Box::new(amount)),
            ty: Type::Int,
            span,
        }
    }

    /// Whether an expression contains only constants and parameters without a direction.
    fn is_known_for_call(&mut self, expr: &Expr) -> bool {
        let place = std::mem::replace(&mut self.place, Place::Top);
        let known = self.is_constant(expr);
        self.place = place;
        known
    }

    /// Gives a shift without a width the wanted type; leaves other expressions unchanged.
    pub fn close_shift(&mut self, expr: Expr, wanted: &Type) -> Expr {
        if !matches!(expr.ty, Type::Int) || matches!(wanted, Type::Int) {
            return expr;
        }
        let ExprKind::Binary(op @ (BinaryOp::Shl | BinaryOp::Shr), number, amount) = expr.kind
        else {
            return expr;
        };
        self.open_shifts.retain(|open| open.shift != expr.span);
        let number = self.coerce(*number, wanted);
        Expr {
            ty: number.ty.clone(),
            kind: ExprKind::Binary(op, Box::new(number), amount),
            span: expr.span,
        }
    }

    pub fn report_open_shifts(&mut self) {
        for open in std::mem::take(&mut self.open_shifts) {
            self.shift_without_width(open.number);
        }
    }

    fn shift_without_width(&mut self, number: Span) {
        self.sink
            .error("E0413", number, "the number that is shifted needs a width")
            .help("write for example `8w1 << n`");
    }
}
