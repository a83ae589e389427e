//! Assignments as primitives, for l-values ([`Place`]) and values of every type.

use std::rc::Rc;

use bmv2_json::Value;
use num_bigint::BigInt;

use super::Lower;
use super::expression::has_call;
use super::place::{Place, Roots, hex, operation, parameter, plain_hex};
use crate::ir::{Expr, ExprKind};
use crate::source::Span;
use crate::types::Type;
use crate::types::const_eval::mask;

impl Lower<'_> {
    /// Emits `place = value` for a scalar. For a bool `value` is a boolean operand, which is converted to data.
    pub fn store(&mut self, place: &Place, value: Value, span: Span) {
        let (target, ty) = self.read_raw(place);
        let value = match &ty {
            Some(ty) if self.is_bool(ty) => super::expression::as_data(value),
            _ => value,
        };
        let op = if matches!(ty, Some(Type::Varbit(_))) {
            "assign_VL"
        } else {
            "assign"
        };
        // `parameter` wraps a computed place in an expression, like a computed value, and leaves a plain field as it
        // is.
        self.emit(op, vec![parameter(target), parameter(value)], span);
    }

    /// Emits `place = expression`, for every type.
    pub fn assign(&mut self, place: &Place, expr: &Expr) {
        let expr = &self.resolve(expr);
        let span = expr.span;
        match place {
            Place::Members(members) => self.assign_members(members, expr),
            Place::Header { .. } | Place::Element { .. } | Place::Last { .. } => {
                self.assign_header(place, expr)
            }
            Place::Union { .. } | Place::UnionElement { .. } | Place::Stack { .. } => {
                match self.place(expr) {
                    Some(source) => self.copy(place, &source, span),
                    None => self.assign_elements(place, expr),
                }
            }
            _ if matches!(expr.ty, Type::Varbit(_)) => match self.place(expr) {
                Some(source) => self.copy(place, &source, span),
                None => self.unsupported(span, "this varbit value"),
            },
            _ => {
                let value = self.value(expr);
                self.store(place, value, span);
            }
        }
    }

    fn assign_elements(&mut self, place: &Place, expr: &Expr) {
        let (Place::Stack { .. }, ExprKind::List(items)) = (place, &expr.kind) else {
            return self.unsupported(expr.span, "this assignment");
        };
        let elements = self.elements(place);
        self.assign_each(&elements, place, items, expr.span);
    }

    fn assign_members(&mut self, members: &Rc<[Place]>, expr: &Expr) {
        if let ExprKind::Mux(condition, yes, no) = &expr.kind {
            let whole = Place::Members(members.clone());
            return self.assign_either(&whole, condition, yes, no);
        }
        let ExprKind::List(items) = &expr.kind else {
            match self.place(expr) {
                Some(source) => self.copy(&Place::Members(members.clone()), &source, expr.span),
                None => self.unsupported(expr.span, "this value of a struct"),
            }
            return;
        };
        let whole = Place::Members(members.clone());
        self.assign_each(members, &whole, items, expr.span);
    }

    /// Assigns a list's items to the parts of a place. In `s = {s.b, s.a}` all items are read before a part is written.
    fn assign_each(&mut self, parts: &[Place], whole: &Place, items: &[Expr], span: Span) {
        let reads_itself = items.len() > 1 && items.iter().any(|item| self.reads(item, whole));
        if !reads_itself {
            parts
                .iter()
                .zip(items)
                .for_each(|(part, item)| self.assign(part, item));
            return;
        }
        let temps: Vec<Place> = items
            .iter()
            .map(|item| {
                let temp = self.temp("tmp", &item.ty, item.span);
                self.assign(&temp, item);
                temp
            })
            .collect();
        parts
            .iter()
            .zip(&temps)
            .for_each(|(part, temp)| self.copy(part, temp, span));
    }

    fn assign_either(&mut self, place: &Place, condition: &Expr, yes: &Expr, no: &Expr) {
        let value = self.value(condition);
        self.branch(
            value,
            condition.span,
            |lower| lower.assign(place, yes),
            |lower| lower.assign(place, no),
        );
    }

    fn reads(&mut self, expr: &Expr, place: &Place) -> bool {
        if matches!(
            expr.kind,
            ExprKind::Var(_) | ExprKind::Field(..) | ExprKind::Index(..)
        ) && !has_call(expr)
        {
            return self
                .place(expr)
                .is_some_and(|source| Roots::of(&source).overlap(&Roots::of(place)));
        }
        super::expression::any_operand(&expr.kind, &mut |part| self.reads(part, place))
    }

    fn assign_header(&mut self, place: &Place, expr: &Expr) {
        let (target, _) = self.read_raw(place);
        match &expr.kind {
            ExprKind::InvalidHeader => self.set_invalid(place, expr.span),
            ExprKind::List(items) => {
                let fields = self.header_members(place);
                self.emit("add_header", vec![parameter(target)], expr.span);
                self.assign_members(
                    &fields.into(),
                    &Expr {
                        kind: ExprKind::List(items.clone()),
                        ..expr.clone()
                    },
                );
            }
            ExprKind::Mux(condition, yes, no) => self.assign_either(place, condition, yes, no),
            _ => match self.place(expr) {
                Some(source) => self.copy(place, &source, expr.span),
                None => self.unsupported(expr.span, "this value of a header"),
            },
        }
    }

    fn header_members(&mut self, place: &Place) -> Vec<Place> {
        let (id, count) = match place {
            Place::Header { id, .. } | Place::Element { id, .. } | Place::Last { id, .. } => {
                (*id, self.program.structs[*id].fields.len())
            }
            _ => return Vec::new(),
        };
        (0..count)
            .filter_map(|index| self.member_of(place.clone(), id, index))
            .collect()
    }

    fn member_of(&mut self, place: Place, id: usize, index: usize) -> Option<Place> {
        // Makes the expression `header.field`, and takes the place that this expression names.
        let ty = Type::Struct(id);
        let base = self.hold(place, ty, Span::default());
        let kind = ExprKind::Field(Box::new(base), index);
        let ty = self.program.structs[id].fields[index].ty.clone();
        self.place(&Expr {
            kind,
            ty,
            span: Span::default(),
        })
    }

    /// Emits `target = source` for two places of the same type.
    pub fn copy(&mut self, target: &Place, source: &Place, span: Span) {
        match (target, source) {
            (Place::Members(targets), Place::Members(sources)) => {
                targets
                    .iter()
                    .zip(sources.iter())
                    .for_each(|(target, source)| self.copy(target, source, span));
            }
            (Place::Union { .. } | Place::UnionElement { .. }, _) => {
                self.copy_whole("assign_union", target, source, span)
            }
            (Place::Stack { element, .. }, _) if self.program.is_union(element) => {
                self.copy_whole("assign_union_stack", target, source, span)
            }
            (Place::Stack { .. }, _) => {
                self.copy_whole("assign_header_stack", target, source, span)
            }
            (Place::Header { .. } | Place::Element { .. } | Place::Last { .. }, _) => {
                self.copy_whole("assign_header", target, source, span);
                // If the source is valid, `assign_header` has already invalidated the union's other members.
                self.invalidate_rivals(target, span);
            }
            _ => {
                let value = self.read(source);
                self.store(target, value, span);
            }
        }
    }

    fn copy_whole(&mut self, op: &str, target: &Place, source: &Place, span: Span) {
        let (target, source) = (self.read_raw(target).0, self.read_raw(source).0);
        self.emit(op, vec![parameter(target), parameter(source)], span);
    }

    /// Lowers the statement `left = right`; the left side may be a slice.
    pub fn assign_statement(&mut self, left: &Expr, right: &Expr, span: Span) {
        let right = &Expr {
            span,
            ..self.resolve(right)
        };
        if let ExprKind::Slice(inner, high, low) = &left.kind {
            return self.assign_slice(inner, *high, *low, right, span);
        }
        match self.place(left) {
            // Calls on the right side must not change the left side's index, so the index is saved first.
            Some(place) if has_call(right) => {
                let place = self.freeze(place, span);
                self.assign(&place, right);
            }
            Some(place) => self.assign(&place, right),
            None => self.unsupported(left.span, "an assignment to this"),
        }
    }

    pub fn assign_slice(&mut self, inner: &Expr, high: u32, low: u32, right: &Expr, span: Span) {
        let width = self.program.width(&inner.ty).unwrap_or(high + 1);
        let bits = (mask(high - low + 1)) << low;
        let keep: BigInt = mask(width) ^ &bits;
        let value = self.data(right);
        // Computes the inner value in which the written bits are replaced. If the inner expression is itself a slice,
        // the computed value is then assigned to it in the same way.
        let old = self.value(inner);
        let kept = operation("&", Some(old), Some(hex(&keep, width)));
        let shifted = if low == 0 {
            value
        } else {
            operation("<<", Some(value), Some(plain_hex(u64::from(low))))
        };
        let new = operation("&", Some(shifted), Some(hex(&bits, width)));
        let merged = operation("|", Some(kept), Some(new));
        let merged = self.clamp_signed(merged, &inner.ty);
        if let ExprKind::Slice(outer, outer_high, outer_low) = &inner.kind {
            let temp = self.temp("tmp", &inner.ty, span);
            self.store(&temp, merged, span);
            let value = self.hold(temp, inner.ty.clone(), span);
            self.assign_slice(outer, *outer_high, *outer_low, &value, span);
            return;
        }
        match self.place(inner) {
            Some(place) => self.store(&place, merged, span),
            None => self.unsupported(span, "an assignment to this"),
        }
    }

    fn clamp_signed(&self, value: Value, ty: &Type) -> Value {
        match self.program.underlying(ty) {
            Type::Bits { signed: true, .. } => self.clamp(value, ty),
            _ => value,
        }
    }
}
