//! Checks `for` loops (P4_16 language specification 1.2.5, section 12.8).

use super::Type;
use super::check::Checker;
use super::scope::Symbol;
use crate::ir::{Direction, Var};
use crate::ir::{Expr, ExprKind, Loop, LoopHead, Statement, StatementKind, VarId};
use crate::source::Span;
use crate::syntax::ast;

impl Checker<'_> {
    /// Checks `for (init; condition; update) body`.
    pub fn for_loop(
        &mut self,
        (init, condition, update): (&[ast::Statement], &ast::Expr, &[ast::Statement]),
        body: &ast::Statement,
    ) -> StatementKind {
        self.scopes.push();
        let init = self.statements(init);
        let condition = self.expr(condition);
        let condition = self.coerce(condition, &Type::Bool);
        let update = self.statements(update);
        let body = self.loop_body(body);
        self.scopes.pop();
        let head = LoopHead::While(init, condition, update);
        StatementKind::For(Box::new(Loop { head, body }))
    }

    /// Checks `for (T x in collection) body`.
    pub fn for_in(
        &mut self,
        (ty, name): (&ast::Type, &ast::Ident),
        collection: &ast::Expr,
        body: &ast::Statement,
    ) -> StatementKind {
        let ty = self.resolve_type(ty);
        let range = match &*collection.kind {
            ast::ExprKind::Range(low, high) => {
                let (low, high) = (self.expr(low), self.expr(high));
                Some((self.coerce(low, &ty), self.coerce(high, &ty)))
            }
            _ => None,
        };
        let items = match range {
            Some(_) => Vec::new(),
            None => self.collection(collection, &ty),
        };
        self.scopes.push();
        let var = self.loop_variable(name, ty);
        let body = self.loop_body(body);
        self.scopes.pop();
        let head = match range {
            Some((low, high)) => LoopHead::Range(var, low, high),
            None => LoopHead::Each(var, items),
        };
        StatementKind::For(Box::new(Loop { head, body }))
    }

    fn loop_variable(&mut self, name: &ast::Ident, ty: Type) -> VarId {
        let id = self.new_var(Var {
            name: name.name.clone(),
            ty,
            direction: Direction::None,
            is_parameter: false,
            default: None,
            annotations: Vec::new(),
            span: name.span,
        });
        self.declare(name, Symbol::Var(id));
        id
    }

    fn loop_body(&mut self, body: &ast::Statement) -> Vec<Statement> {
        self.loops += 1;
        let body = self.block(body);
        self.loops -= 1;
        body
    }

    /// Returns the elements of a stack, list or tuple as expressions.
    fn collection(&mut self, collection: &ast::Expr, ty: &Type) -> Vec<Expr> {
        let whole = self.expr(collection);
        let span = whole.span;
        let (count, element) = match (&whole.kind, &whole.ty) {
            (ExprKind::List(items), _) => {
                let items = items.clone();
                return items
                    .into_iter()
                    .map(|item| self.coerce(item, ty))
                    .collect();
            }
            (_, Type::Stack(element, size)) => (*size, (**element).clone()),
            (_, Type::Poison) => return Vec::new(),
            (_, other) => {
                let message = format!(
                    "a loop runs through a range, a stack or a list, not through {}",
                    self.program.type_name(other)
                );
                self.sink.error("E0412", span, message);
                return Vec::new();
            }
        };
        (0..count)
            .map(|at| {
                let index = Expr {
                    kind: ExprKind::Int(at.into()),
                    ty: Type::bits(32),
                    span,
                };
                let item = Expr {
                    kind: ExprKind::Index(Box::new(whole.clone()), Box::new(index)),
                    ty: element.clone(),
                    span,
                };
                self.coerce(item, ty)
            })
            .collect()
    }

    /// Checks that a `break` or `continue` is in a loop.
    pub fn leave_loop(&mut self, kind: StatementKind, span: Span) -> StatementKind {
        if self.loops == 0 {
            let what = match kind {
                StatementKind::Break => "break",
                _ => "continue",
            };
            self.sink
                .error("E0309", span, format!("`{what}` stands only in a loop"));
        }
        kind
    }
}
