//! `a[start +: width]`: a slice whose start may be known only at run time.

use num_bigint::BigInt;
use num_traits::ToPrimitive as _;

use super::Type;
use super::check::Checker;
use super::const_eval::mask;
use crate::ir::{BinaryOp, Expr, ExprKind, StatementKind, UnaryOp};
use crate::source::Span;
use crate::syntax::ast;

/// `base[start +: width]` as written.
#[derive(Clone, Copy)]
pub struct PartSlice<'a> {
    pub base: &'a ast::Expr,
    pub start: &'a ast::Expr,
    pub width: &'a ast::Expr,
    pub span: Span,
}

struct Part {
    base: Expr,
    start: Expr,
    width: u32,
}

impl Checker<'_> {
    fn part(&mut self, written: PartSlice<'_>) -> Option<Part> {
        let (base, start) = (self.expr(written.base), self.expr(written.start));
        let width = self.constant_int(written.width, "the slice's width")?;
        let Type::Bits { width: whole, .. } = *self.program.underlying(&base.ty) else {
            if !base.ty.is_poison() {
                self.mismatch_operand(&base, "a slice is taken from bit<W> or int<W>");
            }
            return None;
        };
        match width.to_u32().filter(|width| (1..=whole).contains(width)) {
            Some(width) => Some(Part { base, start, width }),
            None => {
                let message = format!("the slice's width {width} is not from 1 to {whole}");
                self.sink.error("E0504", written.span, message);
                None
            }
        }
    }

    pub fn part_slice(&mut self, written: PartSlice<'_>) -> Expr {
        let span = written.span;
        let Some(Part { base, start, width }) = self.part(written) else {
            return self.poison(span);
        };
        if let ExprKind::Int(low) = &start.kind {
            let whole = self.program.width(&base.ty).unwrap_or(0);
            let low = low
                .to_u32()
                .filter(|low| low.checked_add(width).is_some_and(|end| end <= whole));
            let Some(low) = low else {
                let message = format!("the slice is not within the {whole} bits");
                self.sink.error("E0504", span, message);
                return self.poison(span);
            };
            let kind = ExprKind::Slice(Box::new(base), low + width - 1, low);
            let ty = Type::bits(width);
            return self.fold(Expr { kind, ty, span });
        }
        let shifted = self.binary(BinaryOp::Shr, base, start, span);
        if shifted.ty.is_poison() {
            return shifted;
        }
        let kind = ExprKind::Slice(Box::new(shifted), width - 1, 0);
        let ty = Type::bits(width);
        self.fold(Expr { kind, ty, span })
    }

    /// Rewrites `a[start +: width] = value`, whose start is known only at run time, as an assignment to the whole of
    /// `a` that leaves the bits outside the slice as they are.
    pub fn assign_part(
        &mut self,
        written: PartSlice<'_>,
        op: Option<BinaryOp>,
        right: &ast::Expr,
    ) -> Option<StatementKind> {
        let span = written.span;
        let old = self.part_slice(written);
        let Part { base, start, width } = self.part(written)?;
        let value = self.expr(right);
        if !self.check_writable(&base) || old.ty.is_poison() {
            return None;
        }
        let value = match op {
            Some(op) => self.binary(op, old, value, span),
            None => value,
        };
        let value = self.coerce(value, &Type::bits(width));
        let ty = base.ty.clone();
        let of_base = |kind| Expr {
            kind,
            ty: ty.clone(),
            span,
        };
        let ones: BigInt = mask(width);
        let hole = self.binary(
            BinaryOp::Shl,
            of_base(ExprKind::Int(ones)),
            start.clone(),
            span,
        );
        let around = of_base(ExprKind::Unary(UnaryOp::Complement, Box::new(hole)));
        let kept = self.binary(BinaryOp::BitAnd, base.clone(), around, span);
        let wide = of_base(ExprKind::Cast(Box::new(value)));
        let moved = self.binary(BinaryOp::Shl, wide, start, span);
        let merged = self.binary(BinaryOp::BitOr, kept, moved, span);
        Some(StatementKind::Assign(base, merged))
    }
}
