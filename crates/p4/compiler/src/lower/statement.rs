//! Lowers statements to primitives. Statements of an apply block that need nodes (tables and conditionals) are lowered
//! in `control`.

use bmv2_json::Value;

use super::expression::has_call;
use super::place::operation;
use super::{Binding, Lower};
use crate::ir::{BinaryOp, Callee, Expr, ExprKind, Statement, StatementKind, VarId};
use crate::source::Span;
use crate::types::Type;

impl Lower<'_> {
    /// Lowers statements to primitives or, in a control's apply block, to nodes.
    pub fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        let span = statement.span;
        match &statement.kind {
            StatementKind::Declare(id, Some(init)) if !self.code.is_on => {
                let init = self.hoist(init);
                self.declare(*id, Some(&init));
            }
            StatementKind::Declare(id, init) => self.declare(*id, init.as_ref()),
            StatementKind::Block(inner) => self.statements(inner),
            StatementKind::Assign(left, right) if self.code.is_on || !applies_table(right) => {
                self.assign_statement(left, right, span)
            }
            StatementKind::Call(call) if self.code.is_on || !applies(call) => {
                self.call_statement(call)
            }
            _ if !self.code.is_on => self.control_statement(statement),
            StatementKind::If(condition, yes, no) => {
                let condition = self.resolve(condition);
                match condition.kind {
                    ExprKind::Bool(true) => self.statements(yes),
                    ExprKind::Bool(false) => self.statements(no),
                    _ => {
                        let value = self.value(&condition);
                        self.branch(
                            value,
                            span,
                            |lower| lower.statements(yes),
                            |lower| lower.statements(no),
                        );
                    }
                }
            }
            StatementKind::SwitchValue(subject, cases) => {
                self.switch_straight(subject, cases, span)
            }
            StatementKind::Return(value) => {
                let Some((label, result)) = self.code.return_to.clone() else {
                    return;
                };
                if let (Some(value), Some(result)) = (value, result) {
                    self.assign(&result, value);
                }
                self.jump(label, span);
            }
            StatementKind::For(whole) => self.straight_loop(whole, span),
            StatementKind::Break | StatementKind::Continue => {
                if let Some((behind, next)) = self.code.loops.last() {
                    let breaks = matches!(statement.kind, StatementKind::Break);
                    self.jump(if breaks { *behind } else { *next }, span);
                }
            }
            StatementKind::Exit => {
                self.copy_out_all(span);
                self.emit("exit", Vec::new(), span);
                self.jump(self.code.exit_to, span);
            }
            StatementKind::SwitchAction(..)
            | StatementKind::Assign(..)
            | StatementKind::Call(_) => self.unsupported(span, "this statement here"),
        }
    }

    pub fn declare(&mut self, id: VarId, init: Option<&Expr>) {
        let var = &self.program.vars[id];
        let base = if self.path.is_empty() {
            var.name.to_string()
        } else {
            format!("{}.{}", self.path, var.name)
        };
        let place = self.temp(&base, &var.ty, var.span);
        self.env.insert(id, Binding::Place(place.clone()));
        match init {
            Some(init) => self.assign(&place, init),
            None => self.invalidate(&place, var.span),
        }
    }

    /// Returns the condition that the subject equals one of a case's labels; `None` for the default case.
    pub fn case_condition(&mut self, subject: &Expr, labels: &[Option<Expr>]) -> Option<Value> {
        let equal = |lower: &mut Self, label: &Expr| {
            let (left, right) = (Box::new(subject.clone()), Box::new(label.clone()));
            lower.value(&Expr {
                kind: ExprKind::Binary(BinaryOp::Eq, left, right),
                ty: Type::Bool,
                span: label.span,
            })
        };
        let tests: Option<Vec<Value>> = labels
            .iter()
            .map(|label| label.as_ref().map(|label| equal(self, label)))
            .collect();
        tests?
            .into_iter()
            .reduce(|a, b| operation("or", Some(a), Some(b)))
    }

    /// Returns the cases with the default case last, because the default case applies only if no label matches.
    pub fn ordered_cases(
        cases: &[(Vec<Option<Expr>>, Vec<Statement>)],
    ) -> Vec<(Vec<Option<Expr>>, Vec<Statement>)> {
        let is_default =
            |case: &(Vec<Option<Expr>>, Vec<Statement>)| case.0.iter().any(Option::is_none);
        let mut out: Vec<_> = cases
            .iter()
            .filter(|case| !is_default(case))
            .cloned()
            .collect();
        out.extend(cases.iter().filter(|case| is_default(case)).cloned());
        out
    }

    fn switch_straight(
        &mut self,
        subject: &Expr,
        cases: &[(Vec<Option<Expr>>, Vec<Statement>)],
        span: Span,
    ) {
        let subject = self.stable(subject);
        let ordered = Self::ordered_cases(cases);
        self.switch_rest(&subject, &ordered, span);
    }

    fn switch_rest(
        &mut self,
        subject: &Expr,
        cases: &[(Vec<Option<Expr>>, Vec<Statement>)],
        span: Span,
    ) {
        let Some(((labels, body), rest)) = cases.split_first() else {
            return;
        };
        match self.case_condition(subject, labels) {
            Some(condition) => self.branch(
                condition,
                span,
                |lower| lower.statements(body),
                |lower| lower.switch_rest(subject, rest, span),
            ),
            None => self.statements(body),
        }
    }

    /// Returns an extern's arguments. Each argument has the value from before the calls in later arguments (P4_16
    /// 1.2.5, section 6.8). Some externs write their first argument instead of reading it.
    pub fn before_later_calls(
        &mut self,
        callee: &str,
        arguments: &[Option<Expr>],
    ) -> Vec<Option<Expr>> {
        let is_out = |at: usize| at == 0 && matches!(callee, "read" | "random" | "hash");
        let is_call = |argument: &Option<Expr>| argument.as_ref().is_some_and(has_call);
        let Some(last) = arguments.iter().rposition(is_call) else {
            return arguments.to_vec();
        };
        let kept = arguments.iter().enumerate().map(|(at, argument)| {
            let argument = argument.as_ref()?;
            let is_fixed = matches!(argument.kind, ExprKind::Int(_) | ExprKind::Bool(_));
            let is_read = at < last && !is_out(at) && self.program.width(&argument.ty).is_some();
            Some(if is_read && !is_fixed {
                self.stable(argument)
            } else {
                argument.clone()
            })
        });
        kept.collect()
    }

    /// Saves an expression's value in a variable.
    pub fn stable(&mut self, expr: &Expr) -> Expr {
        let expr = self.resolve(expr);
        let temp = self.temp("switch", &expr.ty, expr.span);
        self.assign(&temp, &expr);
        self.hold(temp, expr.ty, expr.span)
    }
}

pub fn applies_table(expr: &Expr) -> bool {
    if let ExprKind::Hit(..) = expr.kind {
        return true;
    }
    super::expression::any_operand(&expr.kind, &mut applies_table)
}

pub fn applies(call: &Expr) -> bool {
    match &call.kind {
        ExprKind::Call(call) => {
            matches!(call.callee, Callee::ApplyTable(_) | Callee::ApplyBlock(_))
                || call.arguments.iter().flatten().any(applies_table)
        }
        other => matches!(other, ExprKind::Hit(..)),
    }
}

pub fn contains_return(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match &statement.kind {
        StatementKind::Return(_) => true,
        StatementKind::Block(inner) => contains_return(inner),
        StatementKind::If(_, yes, no) => contains_return(yes) || contains_return(no),
        StatementKind::SwitchValue(_, cases) => cases.iter().any(|(_, body)| contains_return(body)),
        StatementKind::SwitchAction(_, cases) => {
            cases.iter().any(|(_, body)| contains_return(body))
        }
        StatementKind::For(whole) => contains_return(&whole.body),
        _ => false,
    })
}
