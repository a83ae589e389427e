//! Computes the name by which the control plane knows a table's key that has no `@name`: the text of the key's
//! expression, in which each field has the name that the control plane uses for the field.
//!
//! The names equal those that p4c gives, so that a controller need not change the names that it uses. A field's `@name`
//! replaces the field's name. If the `@name` begins with a dot, it also replaces everything before the field's name.
//! Constants are printed in the radix of the source.

use super::Type;
use super::check::Checker;
use super::scope::Symbol;
use crate::ir::{Expr, ExprKind, name_annotation};
use crate::lex::number_text;
use crate::source::Span;
use crate::syntax::ast::{self, BinaryOp};

impl Checker<'_> {
    /// Returns a key's name; `None` for an expression without a name, for example the sum of two fields.
    pub fn key_name(&self, written: &ast::Expr, checked: &Expr) -> Option<String> {
        if let (ExprKind::Cast(inner), false) = (
            &checked.kind,
            matches!(*written.kind, ast::ExprKind::Cast(..)),
        ) {
            return self.key_name(written, inner);
        }
        if let ExprKind::Int(value) = &checked.kind {
            return Some(number_text(value, self.radix(written)));
        }
        match (&*written.kind, &checked.kind) {
            (ast::ExprKind::Name(name, _), _) => Some(name.name.to_string()),
            (ast::ExprKind::Member(base, member), ExprKind::Field(object, _)) => {
                self.field_name(base, object, &member.name)
            }
            (ast::ExprKind::Index(base, index), ExprKind::Index(object, at)) => {
                let (base, index) = (self.key_name(base, object)?, self.key_name(index, at)?);
                Some(format!("{base}[{index}]"))
            }
            (ast::ExprKind::Index(base, index), ExprKind::Field(object, at)) => {
                let at = number_text(&(*at).into(), self.radix(index));
                Some(format!("{}[{at}]", self.key_name(base, object)?))
            }
            (ast::ExprKind::Slice(base, high, low), ExprKind::Slice(object, top, bottom)) => {
                let top = number_text(&(*top).into(), self.radix(high));
                let bottom = number_text(&(*bottom).into(), self.radix(low));
                Some(format!("{}[{top}:{bottom}]", self.key_name(base, object)?))
            }
            (
                ast::ExprKind::Binary(BinaryOp::BitAnd, left, right),
                ExprKind::Binary(BinaryOp::BitAnd, first, second),
            ) => {
                let (left, right) = (self.key_name(left, first)?, self.key_name(right, second)?);
                Some(format!("{left} & {right}"))
            }
            (ast::ExprKind::Call(callee, _, arguments), ExprKind::Call(call))
                if arguments.is_empty() =>
            {
                self.validity_name(callee, call)
            }
            (ast::ExprKind::Cast(_, inner), ExprKind::Cast(object)) => self.key_name(inner, object),
            _ => None,
        }
    }

    fn field_name(&self, base: &ast::Expr, object: &Expr, member: &str) -> Option<String> {
        let external = match object.ty {
            Type::Struct(id) => {
                let fields = &self.program.structs[id].fields;
                let field = fields.iter().find(|field| &*field.name == member);
                field.and_then(|field| name_annotation(&field.annotations))
            }
            _ => None,
        };
        let name = external.as_deref().unwrap_or(member);
        match name.strip_prefix('.') {
            Some(whole) => Some(whole.to_owned()),
            None => Some(format!("{}.{name}", self.key_name(base, object)?)),
        }
    }

    /// Returns `hdr.ipv4.$valid$` as the name of `hdr.ipv4.isValid()`.
    fn validity_name(&self, callee: &ast::Expr, call: &crate::ir::Call) -> Option<String> {
        use crate::ir::{Builtin, Callee};
        match (&*callee.kind, &call.callee) {
            (ast::ExprKind::Member(base, _), Callee::Builtin(Builtin::IsValid, object)) => {
                Some(format!("{}.$valid$", self.key_name(base, object)?))
            }
            _ => None,
        }
    }

    /// The radix of a constant expression: that of its leftmost number, or 10.
    fn radix(&self, written: &ast::Expr) -> u32 {
        match &*written.kind {
            ast::ExprKind::Int(_, written) => written.radix,
            ast::ExprKind::Name(name, global) => match self.scopes.lookup(&name.name, *global) {
                Some(Symbol::Const(value)) => self.radices.get(&value.span).copied().unwrap_or(10),
                _ => 10,
            },
            ast::ExprKind::Unary(_, inner)
            | ast::ExprKind::Cast(_, inner)
            | ast::ExprKind::Binary(_, inner, _)
            | ast::ExprKind::Slice(inner, ..) => self.radix(inner),
            _ => 10,
        }
    }

    /// Remembers the radix in which a constant is written, unless it is 10. The radix is stored under the place of the
    /// constant's value in the source.
    pub fn remember_radix(&mut self, written: &ast::Expr, value: Span) {
        let radix = self.radix(written);
        if radix != 10 {
            self.radices.insert(value, radix);
        }
    }
}
