//! Warns about comparisons that can have only one result, because of the types or because both sides are the same.

use num_bigint::BigInt;
use num_traits::Zero as _;

use super::reach::same_place;
use super::{Subject, walk};
use crate::diagnostic::Sink;
use crate::ir::{BinaryOp, Expr, ExprKind, Program};
use crate::types::Type;
use crate::types::const_eval::mask;

pub fn check(subject: &Subject<'_>, sink: &mut Sink) {
    walk::expressions(subject.program, &mut |expr, _| {
        if let ExprKind::Binary(op, left, right) = &expr.kind
            && !subject.is_library(expr.span)
            && let Some(answer) = answer(subject, *op, left, right)
        {
            sink.warning(
                "W0842",
                expr.span,
                format!("this comparison is always {answer}"),
            )
            .label(subject.program.type_name(&left.ty));
        }
    });
}

/// Returns the result of a comparison that can have only one result, and `None` for any other comparison.
fn answer(subject: &Subject<'_>, op: BinaryOp, left: &Expr, right: &Expr) -> Option<bool> {
    if same_place(left, right) {
        return match op {
            BinaryOp::Eq | BinaryOp::Le | BinaryOp::Ge => Some(true),
            BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Gt => Some(false),
            _ => None,
        };
    }
    let (op, value, constant) = match (&left.kind, &right.kind) {
        (ExprKind::Int(_), ExprKind::Int(_)) => return None,
        (_, ExprKind::Int(value)) => (op, value, right),
        (ExprKind::Int(value), _) => (flipped(op), value, left),
        _ => return None,
    };
    // A named constant may get another value, so a comparison with it is not reported.
    if !subject.is_literal(constant.span) {
        return None;
    }
    let (least, most) = bounds(subject.program, &constant.ty)?;
    match op {
        BinaryOp::Lt if *value <= least => Some(false),
        BinaryOp::Lt if *value > most => Some(true),
        BinaryOp::Ge if *value <= least => Some(true),
        BinaryOp::Ge if *value > most => Some(false),
        BinaryOp::Gt if *value >= most => Some(false),
        BinaryOp::Gt if *value < least => Some(true),
        BinaryOp::Le if *value >= most => Some(true),
        BinaryOp::Le if *value < least => Some(false),
        _ => None,
    }
}

fn flipped(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        other => other,
    }
}

fn bounds(program: &Program, ty: &Type) -> Option<(BigInt, BigInt)> {
    match program.underlying(ty) {
        Type::Bits {
            width,
            signed: false,
        } => Some((BigInt::zero(), mask(*width))),
        Type::Bits {
            width,
            signed: true,
        } => {
            let most = mask(width.saturating_sub(1));
            Some((-most.clone() - 1, most))
        }
        _ => None,
    }
}
