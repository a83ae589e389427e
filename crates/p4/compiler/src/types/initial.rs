//! Computes the value that `...` stands for: the default value of the expected type (P4_16 language specification
//! 1.2.5, section 7.3).

use num_bigint::BigInt;

use super::Type;
use super::check::Checker;
use crate::ir::{Expr, ExprKind, StructKind};
use crate::source::Span;

impl Checker<'_> {
    /// Returns the value of `...` where a value of this type is expected.
    pub fn default_value(&mut self, ty: &Type, span: Span) -> Expr {
        let make = |kind| Expr {
            kind,
            ty: ty.clone(),
            span,
        };
        match self.program.underlying(ty).clone() {
            Type::Bits { .. } | Type::Int => make(ExprKind::Int(BigInt::ZERO)),
            Type::Bool => make(ExprKind::Bool(false)),
            Type::Error => make(ExprKind::Error(0)),
            Type::String => make(ExprKind::Str("".into())),
            Type::Enum(id) => make(ExprKind::Member(id, 0)),
            Type::Struct(id) if self.program.structs[id].kind == StructKind::Struct => {
                let items = self.default_fields(id, span);
                make(ExprKind::List(items))
            }
            Type::Struct(_) => make(ExprKind::InvalidHeader),
            Type::Tuple(items) => {
                let items = items
                    .iter()
                    .map(|item| self.default_value(item, span))
                    .collect();
                make(ExprKind::List(items))
            }
            Type::Stack(element, size) => {
                let item = self.default_value(&element, span);
                make(ExprKind::List(vec![item; size as usize]))
            }
            Type::Poison => self.poison_of(ty, span),
            _ => {
                let message = format!("{} has no default value", self.program.type_name(ty));
                self.sink.error("E0401", span, message);
                self.poison_of(ty, span)
            }
        }
    }

    pub fn default_fields(&mut self, id: usize, span: Span) -> Vec<Expr> {
        let types: Vec<Type> = self.program.structs[id]
            .fields
            .iter()
            .map(|field| field.ty.clone())
            .collect();
        types
            .iter()
            .map(|ty| self.default_value(ty, span))
            .collect()
    }
}
