//! Loops. A loop that applies tables is unrolled, and so is a loop with few known iterations. Any other loop becomes
//! primitives with a backward jump or, in a parser, states.

use num_bigint::BigInt;
use num_traits::One as _;

use super::control::Node;
use super::place::parameter;
use super::{Binding, Lower, expression};
use crate::ir::{
    BinaryOp, Builtin, Callee, Expr, ExprKind, Loop, LoopHead, Statement, StatementKind, VarId,
};
use crate::limits;
use crate::lint::walk::{Access, argument_access};
use crate::source::Span;
use crate::types::Type;

/// The values of a loop's variables in each iteration.
type Rounds = Vec<Vec<(VarId, Expr)>>;

impl Lower<'_> {
    pub fn straight_loop(&mut self, whole: &Loop, span: Span) {
        if let Some(rounds) = self.rounds(whole)
            && (rounds.len() <= limits::UNROLLED_ROUNDS || is_each(whole))
        {
            return self.unrolled(whole, &rounds, span);
        }
        let (condition, update) = match &whole.head {
            LoopHead::While(init, condition, update) => {
                self.statements(init);
                (condition.clone(), update.clone())
            }
            LoopHead::Range(var, low, high) => self.counted(*var, low, high, span),
            LoopHead::Each(..) => return,
        };
        let (head, behind, next) = (self.new_label(), self.new_label(), self.new_label());
        self.set_label(head);
        let value = self.value(&self.resolve(&condition));
        self.jump_if_zero(expression::as_data(value), behind, condition.span);
        self.code.loops.push((behind, next));
        self.statements(&whole.body);
        self.code.loops.pop();
        self.set_label(next);
        self.statements(&update);
        self.jump(head, span);
        self.set_label(behind);
    }

    fn unrolled(&mut self, whole: &Loop, rounds: &Rounds, span: Span) {
        let behind = self.new_label();
        for round in rounds {
            if !self.has_room(span) {
                break;
            }
            let next = self.new_label();
            self.code.loops.push((behind, next));
            self.enter_round(round, &whole.body);
            self.statements(&whole.body);
            self.code.loops.pop();
            self.set_label(next);
        }
        self.set_label(behind);
    }

    fn enter_round(&mut self, round: &[(VarId, Expr)], body: &[Statement]) {
        for (var, value) in round {
            let fixed = !writes(body, *var, self.program);
            let binding = match &value.kind {
                _ if is_known(value) && fixed => Binding::Constant(value.clone()),
                // The value is copied, because the body may change the variable or its source.
                _ => {
                    let declared = &self.program.vars[*var];
                    let place = self.temp(&declared.name, &declared.ty, value.span);
                    self.assign(&place, value);
                    Binding::Place(place)
                }
            };
            self.env.insert(*var, binding);
        }
    }

    /// Returns the iterations if they are known, which requires that nothing but the loop's head changes its variables.
    pub fn rounds(&mut self, whole: &Loop) -> Option<Rounds> {
        let mut each = Vec::new();
        match &whole.head {
            LoopHead::Each(var, items) => {
                let items = items.iter().map(|item| vec![(*var, self.resolve(item))]);
                Some(items.collect())
            }
            LoopHead::Range(var, low, high) => {
                if writes(&whole.body, *var, self.program) {
                    return None;
                }
                let (low, high) = (self.resolve(low), self.resolve(high));
                let (ExprKind::Int(first), ExprKind::Int(last)) = (&low.kind, &high.kind) else {
                    return None;
                };
                let mut at = first.clone();
                while at <= *last {
                    if each.len() >= limits::KNOWN_ROUNDS {
                        return None;
                    }
                    let kind = ExprKind::Int(at.clone());
                    each.push(vec![(
                        *var,
                        Expr {
                            kind,
                            ..low.clone()
                        },
                    )]);
                    at += BigInt::one();
                }
                Some(each)
            }
            LoopHead::While(init, condition, update) => {
                self.simulate((init, condition, update), &whole.body)
            }
        }
    }

    /// Computes the iterations of a loop whose variables begin with constants and change in the loop's head only.
    fn simulate(
        &mut self,
        (init, condition, update): (&[Statement], &Expr, &[Statement]),
        body: &[Statement],
    ) -> Option<Rounds> {
        let mut state: Vec<(VarId, Expr)> = Vec::new();
        for statement in init {
            // Every variable must be declared in the loop's head: actions and tables can change the variables of the
            // control, but not those of the loop.
            let StatementKind::Declare(var, Some(value)) = &statement.kind else {
                return None;
            };
            let (var, value) = (*var, self.resolve(value));
            if !is_known(&value) || writes(body, var, self.program) {
                return None;
            }
            state.retain(|(other, _)| *other != var);
            state.push((var, value));
        }
        self.run_head(&mut state, condition, update)
    }

    fn run_head(
        &mut self,
        state: &mut [(VarId, Expr)],
        condition: &Expr,
        update: &[Statement],
    ) -> Option<Rounds> {
        let mut each = Vec::new();
        loop {
            for (var, value) in state.iter() {
                self.env.insert(*var, Binding::Constant(value.clone()));
            }
            match self.resolve(condition).kind {
                ExprKind::Bool(true) if each.len() < limits::KNOWN_ROUNDS => {}
                ExprKind::Bool(false) => return Some(each),
                _ => return None,
            }
            each.push(state.to_vec());
            for statement in update {
                let (var, value) = step(statement)?;
                let value = self.resolve(value);
                let slot = state.iter_mut().find(|(other, _)| *other == var)?;
                if !is_known(&value) {
                    return None;
                }
                self.env.insert(var, Binding::Constant(value.clone()));
                slot.1 = value;
            }
        }
    }

    /// Returns a condition and an update for `for (x in low .. high)`. Before each step the update compares the
    /// variable with the upper bound, because the step beyond the bound may wrap.
    fn counted(
        &mut self,
        var: VarId,
        low: &Expr,
        high: &Expr,
        span: Span,
    ) -> (Expr, Vec<Statement>) {
        let ty = self.program.vars[var].ty.clone();
        let last = self.temp("last", &ty, span);
        let more = self.temp("more", &Type::Bool, span);
        let name = self.program.vars[var].name.to_string();
        let place = self.temp(&name, &ty, span);
        self.assign(&place, low);
        self.assign(&last, high);
        self.env.insert(var, Binding::Place(place.clone()));
        let at = self.hold(place, ty.clone(), span);
        let last = self.hold(last, ty.clone(), span);
        let more_value = self.hold(more.clone(), Type::Bool, span);
        let compare = |op, left: &Expr, right: &Expr| Expr {
            kind: ExprKind::Binary(op, Box::new(left.clone()), Box::new(right.clone())),
            ty: Type::Bool,
            span,
        };
        self.assign(&more, &compare(BinaryOp::Le, &at, &last));
        let one = Expr {
            kind: ExprKind::Int(BigInt::one()),
            ty: ty.clone(),
            span,
        };
        let kind = ExprKind::Binary(BinaryOp::Add, Box::new(at.clone()), Box::new(one));
        let next = Expr { kind, ty, span };
        let assign = |left: &Expr, right: Expr| Statement {
            kind: StatementKind::Assign(left.clone(), right),
            span,
        };
        // The step after the last iteration may wrap, but nothing reads its result.
        let update = vec![
            assign(&more_value, compare(BinaryOp::Ne, &at, &last)),
            assign(&at, next),
        ];
        (more_value, update)
    }

    /// Lowers a loop in an apply block: to primitives if the loop applies no table or control, unrolled if it does.
    pub fn control_loop(&mut self, whole: &Loop, span: Span) {
        if !loop_applies(whole) {
            return self.control_straight_loop(whole, span);
        }
        let Some(rounds) = self.rounds(whole) else {
            self.sink
                .error(
                    "E0615",
                    span,
                    "a loop that applies a table needs bounds that are known at compile time",
                )
                .help(
                    "simple_switch has no way back between tables, so the rounds are written out: declare the loop's \
                     variable in its head, begin and end with constants, and change the variable in the head only",
                );
            return;
        };
        let mut all = Vec::new();
        self.flush(span);
        for round in &rounds {
            if !self.has_room(span) {
                break;
            }
            let nodes = self.inner_nodes(span, |lower| {
                lower.enter_round(round, &whole.body);
                lower.statements(&whole.body);
            });
            all.push(Node::Scope(nodes, super::control::Scope::Round));
        }
        self.pipeline
            .nodes
            .push(Node::Scope(all, super::control::Scope::Loop));
    }

    /// Turns a loop that applies no table or control into one action. A `return` inside the loop sets a flag for a node
    /// after the action.
    fn control_straight_loop(&mut self, whole: &Loop, span: Span) {
        self.flush(span);
        let returns = super::statement::contains_return(&whole.body);
        let flag = self.temp("returned", &Type::Bool, span);
        let label = self.new_label();
        if returns {
            self.store(&flag, bmv2_json::Value::Bool(false), span);
        }
        let outer = (
            std::mem::replace(&mut self.code.is_on, true),
            self.code.return_to.replace((label, None)),
        );
        self.straight_loop(whole, span);
        (self.code.is_on, self.code.return_to) = outer;
        if returns {
            let behind = self.new_label();
            self.jump(behind, span);
            self.set_label(label);
            self.store(&flag, bmv2_json::Value::Bool(true), span);
            self.set_label(behind);
        }
        self.flush(span);
        if returns {
            let condition = self.read(&flag);
            self.pipeline
                .nodes
                .push(Node::If(condition, vec![Node::Return], Vec::new(), span));
        }
    }

    /// Lowers a loop in a parser's state: unrolled if its iterations are few and known, as a cycle of states if not.
    pub fn state_loop(&mut self, whole: &Loop, span: Span) {
        let base = self.states.current.clone();
        let behind = self.fresh(&format!("{base}_behind"));
        let rounds = self.rounds(whole);
        if let Some(rounds) = rounds.filter(|rounds| rounds.len() <= limits::UNROLLED_ROUNDS) {
            for round in &rounds {
                if !self.has_room(span) {
                    break;
                }
                let next = self.fresh(&format!("{base}_round"));
                self.states.loops.push((behind.clone(), next.clone()));
                self.enter_round(round, &whole.body);
                self.drain(span);
                self.state_statements(&whole.body);
                self.states.loops.pop();
                self.go_to(&next, span);
            }
            return self.go_to(&behind, span);
        }
        let (condition, update) = match &whole.head {
            LoopHead::While(init, condition, update) => {
                self.statements(init);
                (condition.clone(), update.clone())
            }
            LoopHead::Range(var, low, high) => self.counted(*var, low, high, span),
            LoopHead::Each(..) => return,
        };
        self.drain(span);
        let (head, body, next) = (
            self.fresh(&format!("{base}_loop")),
            self.fresh(&format!("{base}_body")),
            self.fresh(&format!("{base}_next")),
        );
        self.go_to(&head, span);
        self.state_branch(&condition, &body, &behind, span);
        self.states.current = body;
        self.states.loops.push((behind.clone(), next.clone()));
        self.state_statements(&whole.body);
        self.states.loops.pop();
        self.go_to(&next, span);
        self.statements(&update);
        self.drain(span);
        self.go_to(&head, span);
        self.states.current = behind;
    }

    /// Lowers `break` (if `breaks`) or `continue` in a parser's state.
    pub fn leave_state_loop(&mut self, breaks: bool, span: Span) {
        let Some((behind, next)) = self.states.loops.last().cloned() else {
            return;
        };
        let to = if breaks { behind } else { next };
        self.go_to(&to, span);
        // The code after the jump is unreachable; its state is removed in the end.
        self.states.current = self.fresh(super::parser::UNREACHABLE);
    }

    pub fn jump_if_zero(&mut self, value: bmv2_json::Value, label: usize, span: Span) {
        self.code
            .body
            .jumps
            .push((self.code.body.primitives.len(), label));
        self.emit("_jump_if_zero", vec![parameter(value)], span);
    }
}

fn is_each(whole: &Loop) -> bool {
    matches!(whole.head, LoopHead::Each(..))
}

fn is_known(value: &Expr) -> bool {
    matches!(value.kind, ExprKind::Int(_) | ExprKind::Bool(_))
}

fn step(statement: &Statement) -> Option<(VarId, &Expr)> {
    match &statement.kind {
        StatementKind::Assign(
            Expr {
                kind: ExprKind::Var(var),
                ..
            },
            value,
        ) => Some((*var, value)),
        _ => None,
    }
}

fn writes(statements: &[Statement], var: VarId, program: &crate::ir::Program) -> bool {
    let inner = |statements: &[Statement]| writes(statements, var, program);
    statements.iter().any(|statement| match &statement.kind {
        StatementKind::Assign(left, right) => {
            root_is(left, var) || call_writes(right, var, program)
        }
        StatementKind::Call(call) => call_writes(call, var, program),
        StatementKind::Declare(id, init) => {
            *id == var
                || init
                    .as_ref()
                    .is_some_and(|init| call_writes(init, var, program))
        }
        StatementKind::Block(body) => inner(body),
        StatementKind::If(condition, yes, no) => {
            call_writes(condition, var, program) || inner(yes) || inner(no)
        }
        StatementKind::SwitchAction(_, cases) => cases.iter().any(|(_, body)| inner(body)),
        StatementKind::SwitchValue(subject, cases) => {
            call_writes(subject, var, program) || cases.iter().any(|(_, body)| inner(body))
        }
        StatementKind::Return(value) => value
            .as_ref()
            .is_some_and(|value| call_writes(value, var, program)),
        StatementKind::For(whole) => {
            let head = match &whole.head {
                LoopHead::While(init, condition, update) => {
                    inner(init) || inner(update) || call_writes(condition, var, program)
                }
                LoopHead::Range(_, low, high) => {
                    call_writes(low, var, program) || call_writes(high, var, program)
                }
                LoopHead::Each(..) => false,
            };
            head || inner(&whole.body)
        }
        StatementKind::Exit | StatementKind::Break | StatementKind::Continue => false,
    })
}

/// Whether a call inside an expression writes a variable through an argument or a method.
fn call_writes(expr: &Expr, var: VarId, program: &crate::ir::Program) -> bool {
    if let ExprKind::Call(call) = &expr.kind {
        for (at, argument) in call.arguments.iter().enumerate() {
            if argument_access(program, call, at) != Access::Read
                && argument
                    .as_ref()
                    .is_some_and(|argument| root_is(argument, var))
            {
                return true;
            }
        }
        if let Callee::Builtin(builtin, object) = &call.callee
            && *builtin != Builtin::IsValid
            && root_is(object, var)
        {
            return true;
        }
    }
    let mut found = false;
    expression::map_operands(&expr.kind, &mut |inner| {
        found |= call_writes(inner, var, program);
        inner.clone()
    });
    found
}

fn root_is(expr: &Expr, var: VarId) -> bool {
    match &expr.kind {
        ExprKind::Var(id) => *id == var,
        ExprKind::Field(inner, _)
        | ExprKind::Index(inner, _)
        | ExprKind::Slice(inner, ..)
        | ExprKind::Stack(inner, _) => root_is(inner, var),
        _ => false,
    }
}

fn loop_applies(whole: &Loop) -> bool {
    let head = match &whole.head {
        LoopHead::While(init, condition, update) => {
            super::statement::applies_table(condition) || applies(init) || applies(update)
        }
        LoopHead::Range(_, low, high) => {
            super::statement::applies_table(low) || super::statement::applies_table(high)
        }
        LoopHead::Each(..) => false,
    };
    head || applies(&whole.body)
}

fn applies(statements: &[Statement]) -> bool {
    use super::statement::applies_table;
    statements.iter().any(|statement| match &statement.kind {
        StatementKind::Assign(_, right) => applies_table(right),
        StatementKind::Call(call) => super::statement::applies(call),
        StatementKind::Declare(_, init) => init.as_ref().is_some_and(applies_table),
        StatementKind::Return(value) => value.as_ref().is_some_and(applies_table),
        StatementKind::Block(body) => applies(body),
        StatementKind::If(condition, yes, no) => {
            applies_table(condition) || applies(yes) || applies(no)
        }
        StatementKind::SwitchAction(..) => true,
        StatementKind::SwitchValue(subject, cases) => {
            applies_table(subject) || cases.iter().any(|(_, body)| applies(body))
        }
        StatementKind::For(whole) => loop_applies(whole),
        StatementKind::Exit | StatementKind::Break | StatementKind::Continue => false,
    })
}
