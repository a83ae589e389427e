//! Checks statements.

use super::Type;
use super::check::{Checker, Place};
use super::part_slice::PartSlice;
use super::scope::Symbol;
use crate::ir::{Callee, Direction, Expr, ExprKind, Statement, StatementKind, Var};
use crate::lower::has_call;
use crate::source::Span;
use crate::syntax::ast;

impl Checker<'_> {
    /// Checks the statements of a block, whose scope the caller has opened.
    pub fn statements(&mut self, statements: &[ast::Statement]) -> Vec<Statement> {
        statements
            .iter()
            .filter_map(|statement| self.statement(statement))
            .collect()
    }

    pub fn block(&mut self, statement: &ast::Statement) -> Vec<Statement> {
        self.scopes.push();
        let out = match &statement.kind {
            ast::StatementKind::Block(inner) => self.statements(inner),
            _ => self.statements(std::slice::from_ref(statement)),
        };
        self.scopes.pop();
        out
    }

    fn statement(&mut self, statement: &ast::Statement) -> Option<Statement> {
        let span = statement.span;
        let kind = match &statement.kind {
            ast::StatementKind::Empty => return None,
            ast::StatementKind::Assign(left, op, right) => self.assign(left, *op, right)?,
            ast::StatementKind::Call(call) => StatementKind::Call(self.call_statement(call)?),
            ast::StatementKind::Block(_) => StatementKind::Block(self.block(statement)),
            ast::StatementKind::If(condition, yes, no) => {
                let condition = self.expr(condition);
                let condition = self.coerce(condition, &Type::Bool);
                let yes = self.block(yes);
                let no = no.as_ref().map_or_else(Vec::new, |no| self.block(no));
                StatementKind::If(condition, yes, no)
            }
            ast::StatementKind::Switch(subject, cases) => self.switch(subject, cases, span)?,
            ast::StatementKind::Return(value) => self.return_statement(value.as_ref(), span),
            ast::StatementKind::Exit => {
                if self.place == Place::Parser {
                    self.sink
                        .error("E0309", span, "`exit` cannot stand in a parser")
                        .help("use `transition`");
                }
                StatementKind::Exit
            }
            ast::StatementKind::For(init, condition, update, body) => {
                self.for_loop((init, condition, update), body)
            }
            ast::StatementKind::ForIn(ty, name, collection, body) => {
                self.for_in((ty, name), collection, body)
            }
            ast::StatementKind::Break => self.leave_loop(StatementKind::Break, span),
            ast::StatementKind::Continue => self.leave_loop(StatementKind::Continue, span),
            ast::StatementKind::Var(decl) => {
                let (id, init) = self.variable(decl, span);
                StatementKind::Declare(id, init)
            }
            ast::StatementKind::Const(decl) => {
                self.constant(decl);
                return None;
            }
            ast::StatementKind::Instance(decl) => {
                self.sink.error("E0304", decl.span, "an instance is declared outside of `apply`, with the control's or parser's other declarations");
                return None;
            }
        };
        Some(Statement { kind, span })
    }

    fn assign(
        &mut self,
        left: &ast::Expr,
        op: Option<ast::BinaryOp>,
        right: &ast::Expr,
    ) -> Option<StatementKind> {
        if let ast::ExprKind::PartSlice(base, start, width) = &*left.kind
            && !matches!(self.expr(start).kind, ExprKind::Int(_))
        {
            let written = PartSlice {
                base,
                start,
                width,
                span: left.span.to(right.span),
            };
            return self.assign_part(written, op, right);
        }
        let place = self.expr(left);
        let value = self.expr(right);
        if !self.check_writable(&place) || place.ty.is_poison() {
            return None;
        }
        let Some(op) = op else {
            let value = self.coerce(value, &place.ty.clone());
            return Some(StatementKind::Assign(place, value));
        };
        let mut statements = Vec::new();
        let place = self.hold_indices(place, &mut statements);
        let span = left.span.to(right.span);
        let value = self.binary(op, place.clone(), value, span);
        let value = self.coerce(value, &place.ty.clone());
        let assignment = StatementKind::Assign(place, value);
        if statements.is_empty() {
            return Some(assignment);
        }
        statements.push(Statement {
            kind: assignment,
            span,
        });
        Some(StatementKind::Block(statements))
    }

    /// If an index contains a call, first stores the index's value in a variable, because `a[f()] += 1` reads and
    /// writes the same element.
    fn hold_indices(&mut self, place: Expr, declared: &mut Vec<Statement>) -> Expr {
        let kind = match place.kind {
            ExprKind::Field(inner, index) => {
                ExprKind::Field(Box::new(self.hold_indices(*inner, declared)), index)
            }
            ExprKind::Slice(inner, high, low) => {
                ExprKind::Slice(Box::new(self.hold_indices(*inner, declared)), high, low)
            }
            ExprKind::Index(inner, index) => {
                let inner = self.hold_indices(*inner, declared);
                let index = if has_call(&index) {
                    self.hold(*index, declared)
                } else {
                    *index
                };
                ExprKind::Index(Box::new(inner), Box::new(index))
            }
            other => other,
        };
        Expr { kind, ..place }
    }

    fn hold(&mut self, value: Expr, declared: &mut Vec<Statement>) -> Expr {
        let (ty, span) = (value.ty.clone(), value.span);
        let id = self.new_var(Var {
            name: "index".into(),
            ty: ty.clone(),
            direction: Direction::None,
            is_parameter: false,
            default: None,
            annotations: Vec::new(),
            span,
        });
        declared.push(Statement {
            kind: StatementKind::Declare(id, Some(value)),
            span,
        });
        Expr {
            kind: ExprKind::Var(id),
            ty,
            span,
        }
    }

    fn call_statement(&mut self, call: &ast::Expr) -> Option<Expr> {
        let expr = self.expr(call);
        match &expr.kind {
            ExprKind::Call(_) => Some(expr),
            // `static_assert(...)` and `h.minSizeInBits()` are constants.
            ExprKind::Poison | ExprKind::Bool(_) | ExprKind::Int(_) => None,
            _ => {
                self.sink
                    .error("E0205", call.span, "this call does nothing");
                None
            }
        }
    }

    fn return_statement(&mut self, value: Option<&ast::Expr>, span: Span) -> StatementKind {
        if self.place == Place::Parser {
            self.sink
                .error("E0309", span, "`return` cannot stand in a parser")
                .help("use `transition accept`");
        }
        let wanted = self.returns.clone();
        let value = value.map(|value| {
            let value = self.expr(value);
            if wanted == Type::Void {
                self.sink
                    .error("E0406", value.span, "nothing here returns a value");
                return value;
            }
            self.coerce(value, &wanted)
        });
        if value.is_none() && wanted != Type::Void && !wanted.is_poison() {
            let message = format!(
                "expected a value of type {} after `return`",
                self.program.type_name(&wanted)
            );
            self.sink.error("E0406", span, message);
        }
        StatementKind::Return(value)
    }

    fn switch(
        &mut self,
        subject: &ast::Expr,
        cases: &[ast::SwitchCase],
        span: Span,
    ) -> Option<StatementKind> {
        if self.place == Place::Parser {
            self.sink
                .error("E0309", span, "`switch` cannot stand in a parser")
                .help("use `select`");
        }
        let subject = self.expr(subject);
        match subject.ty {
            Type::ActionRun(table) => Some(self.switch_action(subject, table, cases)),
            Type::Poison => {
                for case in cases.iter().filter_map(|case| case.body.as_ref()) {
                    self.block(case);
                }
                None
            }
            _ => Some(self.switch_value(subject, cases)),
        }
    }

    fn switch_action(
        &mut self,
        subject: Expr,
        table: usize,
        cases: &[ast::SwitchCase],
    ) -> StatementKind {
        let mut out = Vec::new();
        let mut labels = Vec::new();
        for case in cases {
            match &case.label {
                None => labels.push(None),
                Some(label) => match &*label.kind {
                    ast::ExprKind::Name(name, global) => {
                        match self.scopes.lookup(&name.name, *global) {
                            Some(Symbol::Action(id)) => {
                                let id = *id;
                                if !self.program.tables[table]
                                    .actions
                                    .iter()
                                    .any(|used| used.action == id)
                                {
                                    let message = format!(
                                        "`{}` is not an action of table `{}`",
                                        name.name, self.program.tables[table].name
                                    );
                                    self.sink.error("E0311", label.span, message);
                                }
                                labels.push(Some(id));
                            }
                            _ => self.unknown("action", name),
                        }
                    }
                    _ => drop(self.sink.error(
                        "E0311",
                        label.span,
                        "expected the name of an action",
                    )),
                },
            }
            if let Some(body) = &case.body {
                let body = self.block(body);
                out.push((std::mem::take(&mut labels), body));
            }
        }
        StatementKind::SwitchAction(subject, out)
    }

    fn switch_value(&mut self, subject: Expr, cases: &[ast::SwitchCase]) -> StatementKind {
        if matches!(subject.ty, Type::String | Type::Default) {
            let name = self.program.type_name(&subject.ty);
            let message = format!("cannot switch on {name}");
            self.sink
                .error("E0408", subject.span, message)
                .help("a switch cannot compare such values; use a number or an enum");
        }
        let mut out = Vec::new();
        let mut labels = Vec::new();
        for case in cases {
            labels.push(case.label.as_ref().map(|label| {
                let value = self.expr(label);
                let value = self.coerce(value, &subject.ty);
                if !self.is_constant(&value) {
                    self.sink
                        .error("E0502", label.span, "a label is known at compile time");
                }
                value
            }));
            if let Some(body) = &case.body {
                let body = self.block(body);
                out.push((std::mem::take(&mut labels), body));
            }
        }
        StatementKind::SwitchValue(subject, out)
    }
}

/// Returns the table that an expression applies, if the expression does nothing else.
pub fn applied_table(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Call(call) => match call.callee {
            Callee::ApplyTable(id) => Some(id),
            _ => None,
        },
        _ => None,
    }
}
