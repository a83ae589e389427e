//! Runs statements and expressions in order, with facts in place of values. A fact says whether a value may be unset,
//! or a header invalid ([`Fact`]).

use super::{Env, Fact, Flow, Node, Path, STATEMENTS_MAX, State, join_states};
use crate::ir::{BinaryOp, Builtin, Callee, Expr, ExprKind, Statement, StatementKind, UnaryOp};
use crate::types::Type;
use crate::types::statement::applied_table;

impl Flow<'_> {
    pub fn statements(&mut self, body: &[Statement], state: &mut State) {
        for statement in body {
            self.statements += 1;
            if state.is_none() || self.statements > STATEMENTS_MAX {
                return;
            }
            self.statement(statement, state);
        }
    }

    fn statement(&mut self, statement: &Statement, state: &mut State) {
        let Some(env) = state else { return };
        match &statement.kind {
            StatementKind::Assign(left, right) => {
                let node = self.value(right, env);
                self.write(left, node, env);
            }
            StatementKind::Call(call) => self.effect(call, state),
            StatementKind::Block(inner) => self.statements(inner, state),
            StatementKind::If(condition, yes, no) => self.branch(condition, yes, no, state),
            StatementKind::SwitchAction(subject, cases) => {
                if let Some(table) = applied_table(subject) {
                    self.switch_action(table, cases, state);
                }
            }
            StatementKind::SwitchValue(subject, cases) => {
                self.read(subject, env);
                let before = env.clone();
                let mut ends: Vec<State> = Vec::new();
                let mut has_default = false;
                for (labels, body) in cases {
                    has_default |= labels.iter().any(Option::is_none);
                    let mut inner = Some(before.guarded());
                    self.statements(body, &mut inner);
                    ends.push(inner);
                }
                if !has_default {
                    ends.push(Some(before.guarded()));
                }
                *state = meet(&before, ends);
            }
            StatementKind::Declare(id, init) => {
                let var = &self.program.vars[*id];
                let mut node = Node::new(self.program, &var.ty, Fact::Bad, Fact::Bad);
                if let Some(init) = init {
                    node = self.value(init, env);
                }
                env.vars.insert(*id, node);
            }
            StatementKind::Return(value) => {
                if let Some(value) = value {
                    self.read(value, env);
                }
                self.returns.extend(state.take());
            }
            StatementKind::Exit => self.exits.extend(state.take()),
            StatementKind::For(whole) => self.repeat(whole, state),
            StatementKind::Break => self.breaks.extend(state.take()),
            StatementKind::Continue => self.continues.extend(state.take()),
        }
    }

    fn branch(&mut self, condition: &Expr, yes: &[Statement], no: &[Statement], state: &mut State) {
        let (hit, negated) = match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => (&**inner, true),
            _ => (condition, false),
        };
        if let ExprKind::Hit(table, is_hit) = &hit.kind
            && let Some(table) = applied_table(table)
            && let Some(env) = state.take()
        {
            let (hits, misses) = self.apply_table(table, &env, condition.span);
            let (hits, misses) = (join_states(hits.into_iter().map(|(_, end)| end)), misses);
            let (mut first, mut second) = if *is_hit != negated {
                (hits, misses)
            } else {
                (misses, hits)
            };
            self.statements(yes, &mut first);
            self.statements(no, &mut second);
            *state = meet(&env, vec![first, second]);
            return;
        }
        let Some(env) = state else { return };
        self.read(condition, env);
        let before = env.clone();
        let chosen = |flow: &Self, truth: bool| {
            let taken = !matches!(condition.kind, ExprKind::Bool(value) if value != truth);
            taken.then(|| flow.refined(condition, truth, before.guarded()))
        };
        if let ExprKind::Bool(value) = condition.kind {
            return self.statements(if value { yes } else { no }, state);
        }
        let (mut first, mut second) = (chosen(self, true), chosen(self, false));
        self.statements(yes, &mut first);
        self.statements(no, &mut second);
        *state = meet(&before, vec![first, second]);
    }

    fn switch_action(
        &mut self,
        table: usize,
        cases: &[(Vec<Option<usize>>, Vec<Statement>)],
        state: &mut State,
    ) {
        let Some(env) = state.take() else { return };
        let span = self.program.tables[table].span;
        let (hits, misses) = self.apply_table(table, &env, span);
        // An action may run by a hit or by default. The analysis joins both cases, and the choice counts as a
        // condition, under which a value that is missing on only some paths is not reported.
        let default = self.program.tables[table]
            .default_action
            .as_ref()
            .map(|used| used.action);
        let mut left: Vec<(Option<usize>, State)> = hits
            .into_iter()
            .map(|(action, end)| (Some(action), end))
            .collect();
        left.push((default, misses));
        let mut ends = Vec::new();
        for (labels, body) in cases {
            let takes_rest = labels.iter().any(Option::is_none);
            let (here, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(action, _)| {
                takes_rest || action.is_some_and(|action| labels.contains(&Some(action)))
            });
            left = rest;
            let mut inner = join_states(here.into_iter().map(|(_, end)| end));
            self.statements(body, &mut inner);
            ends.push(inner);
        }
        ends.extend(left.into_iter().map(|(_, end)| end));
        *state = meet(&env, ends);
    }

    /// Returns the variable, fields and indices that an expression names; `None` if they are unknown.
    pub fn path(&self, expr: &Expr) -> Option<Path> {
        match &expr.kind {
            ExprKind::Var(id) => Some((*id, Vec::new())),
            ExprKind::Field(inner, at) => {
                let mut path = self.path(inner)?;
                path.1.push(*at);
                Some(path)
            }
            ExprKind::Index(inner, index) => {
                let mut path = self.path(inner)?;
                let ExprKind::Int(at) = &index.kind else {
                    return None;
                };
                path.1.push(num_traits::ToPrimitive::to_usize(at)?);
                Some(path)
            }
            ExprKind::Slice(inner, ..) => self.path(inner),
            _ => None,
        }
    }

    /// Reads an expression and returns the facts of its value. A struct or header that is copied whole keeps its
    /// facts.
    pub fn value(&mut self, expr: &Expr, env: &mut Env) -> Node {
        let all = |flow: &Self, fact| Node::new(flow.program, &expr.ty, fact, fact);
        match &expr.kind {
            ExprKind::List(items) => {
                let nodes: Vec<Node> = items.iter().map(|item| self.value(item, env)).collect();
                let mut whole = all(self, Fact::Good);
                if let Node::Struct(inner) | Node::Stack(inner) = &mut whole
                    && inner.len() == nodes.len()
                {
                    *inner = nodes.into();
                }
                whole
            }
            ExprKind::InvalidHeader => all(self, Fact::Bad),
            ExprKind::Cast(inner) if matches!(inner.kind, ExprKind::List(_)) => {
                self.value(inner, env);
                all(self, Fact::Good)
            }
            _ => {
                self.read(expr, env);
                let known = self.path(expr).and_then(|path| env.get(&path).cloned());
                let is_whole = known.as_ref().is_some_and(|node| {
                    !matches!(node, Node::Leaf(_)) && !self.is_field_of_header(expr)
                });
                match known {
                    Some(node) if is_whole => node,
                    // The first read reports the error, later reads do not.
                    _ => match all(self, Fact::Good) {
                        Node::Leaf(_) => Node::Leaf(Fact::Good),
                        mut unknown => {
                            unknown.map(&|is_header, _| {
                                if is_header { Fact::Silent } else { Fact::Good }
                            });
                            unknown
                        }
                    },
                }
            }
        }
    }

    fn is_field_of_header(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Field(inner, _) => {
                self.program.is_header(&inner.ty) || self.is_field_of_header(inner)
            }
            ExprKind::Slice(inner, ..) => self.is_field_of_header(inner),
            _ => false,
        }
    }

    /// Checks every value that is read when an expression is computed.
    pub fn read(&mut self, expr: &Expr, env: &mut Env) {
        match &expr.kind {
            ExprKind::Field(inner, _) | ExprKind::Slice(inner, ..) => {
                self.read_place(expr, env);
                if self.path(expr).is_none() {
                    self.read_inside(inner, env);
                }
            }
            ExprKind::Var(_) | ExprKind::Index(..) => {
                self.read_place(expr, env);
                self.read_inside(expr, env);
            }
            ExprKind::Stack(inner, _) => self.read_inside(inner, env),
            ExprKind::Unary(_, inner) | ExprKind::Cast(inner) => self.read(inner, env),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                self.read(left, env);
                let mut after = self.refined(left, *op == BinaryOp::And, env.guarded());
                self.read(right, &mut after);
                if self.has_effect(right) {
                    *env = env.join(&after).restored(env);
                }
            }
            ExprKind::Binary(_, a, b) | ExprKind::Range(a, b) | ExprKind::Mask(a, b) => {
                self.read(a, env);
                self.read(b, env);
            }
            ExprKind::Mux(condition, yes, no) => {
                self.read(condition, env);
                let before = env.clone();
                let mut first = self.refined(condition, true, before.guarded());
                let mut second = self.refined(condition, false, before.guarded());
                self.read(yes, &mut first);
                self.read(no, &mut second);
                if self.has_effect(yes) || self.has_effect(no) {
                    *env = first.join(&second).restored(&before);
                }
            }
            ExprKind::List(items) => {
                for item in items {
                    self.value(item, env);
                }
            }
            ExprKind::Call(_) => {
                let mut state = Some(std::mem::take(env));
                self.effect(expr, &mut state);
                // A call that exits does not return into the expression; then nothing more is read.
                *env = state.unwrap_or_default();
            }
            ExprKind::Hit(table, _) => {
                if let Some(table) = applied_table(table) {
                    let (hits, misses) = self.apply_table(table, env, expr.span);
                    let ends = hits.into_iter().map(|(_, end)| end).chain([misses]);
                    if let Some(after) = meet(env, ends.collect()) {
                        *env = after;
                    }
                }
            }
            _ => {}
        }
    }

    fn read_inside(&mut self, expr: &Expr, env: &mut Env) {
        match &expr.kind {
            ExprKind::Index(inner, index) => {
                self.read(index, env);
                self.read_inside(inner, env);
            }
            ExprKind::Field(inner, _) | ExprKind::Slice(inner, ..) | ExprKind::Stack(inner, _) => {
                self.read_inside(inner, env);
            }
            ExprKind::Call(_) | ExprKind::List(_) | ExprKind::Mux(..) => self.read(expr, env),
            _ => {}
        }
    }

    fn has_effect(&self, expr: &Expr) -> bool {
        let mut found = false;
        super::super::walk::expression(
            self.program,
            expr,
            super::super::walk::Access::Read,
            &mut |inner, _| {
                found |= matches!(&inner.kind, ExprKind::Call(call)
                    if !matches!(call.callee, Callee::Builtin(Builtin::IsValid, _)));
            },
        );
        found
    }

    /// Checks one value that is read. Later reads do not report its error again.
    fn read_place(&mut self, expr: &Expr, env: &mut Env) {
        let Some(path) = self.path(expr) else { return };
        let is_field = self.is_field_of_header(expr);
        let Some(node) = env.get_mut(&path) else {
            return;
        };
        let found = match node {
            Node::Header(fact) if is_field => {
                let asked = self.asked.iter().any(|asked| is_prefix(asked, &path));
                let header = self.header_of(expr);
                !asked && self.invalid(expr, header, *fact, "read")
            }
            Node::Leaf(fact) => self.unset(expr, *fact),
            _ => false,
        };
        if found {
            node.map(&|_, _| Fact::Silent);
        }
    }

    fn header_of<'e>(&self, expr: &'e Expr) -> &'e Expr {
        match &expr.kind {
            ExprKind::Field(inner, _) | ExprKind::Slice(inner, ..)
                if !self.program.is_header(&expr.ty) =>
            {
                self.header_of(inner)
            }
            _ => expr,
        }
    }

    pub fn write(&mut self, place: &Expr, node: Node, env: &mut Env) {
        self.read_inside(place, env);
        match self.path(place) {
            Some(path) => {
                if let Some(Node::Header(fact @ Fact::Bad)) = env.get_mut(&path)
                    && self.is_field_of_header(place)
                {
                    let header = self.header_of(place);
                    if self.invalid(place, header, *fact, "written") {
                        *fact = Fact::Silent;
                    }
                }
                env.set(&path, node);
            }
            None => self.forget_stack(place, env),
        }
    }

    /// Forgets a stack's facts when an unknown element of it changes.
    pub fn forget_stack(&self, place: &Expr, env: &mut Env) {
        match &place.kind {
            ExprKind::Index(inner, _) | ExprKind::Stack(inner, _) => match self.path(inner) {
                Some(path) => {
                    if let Some(node) = env.get_mut(&path) {
                        node.map(&|_, _| Fact::Silent);
                    }
                }
                None => self.forget_stack(inner, env),
            },
            // A field of a stack's element changes: the element's validity stays.
            ExprKind::Field(inner, _) | ExprKind::Slice(inner, ..)
                if !self.program.is_header(&inner.ty) =>
            {
                self.forget_stack(inner, env);
            }
            _ => {}
        }
    }

    /// Returns the facts in `env`, changed by what is known if the condition has the value `truth`.
    pub fn refined(&self, condition: &Expr, truth: bool, mut env: Env) -> Env {
        match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => self.refined(inner, !truth, env),
            ExprKind::Binary(BinaryOp::And, a, b) if truth => {
                let env = self.refined(a, true, env);
                self.refined(b, true, env)
            }
            ExprKind::Binary(BinaryOp::Or, a, b) if !truth => {
                let env = self.refined(a, false, env);
                self.refined(b, false, env)
            }
            ExprKind::Call(call) => {
                if let Callee::Builtin(Builtin::IsValid, object) = &call.callee
                    && let Some(path) = self.path(object)
                {
                    match env.get_mut(&path) {
                        Some(Node::Header(fact)) => {
                            *fact = match (truth, *fact) {
                                (true, _) => Fact::Good,
                                // The header is valid on every path, so this branch is never taken.
                                (false, Fact::Good) => Fact::Good,
                                (false, _) => Fact::Bad,
                            }
                        }
                        Some(node @ Node::Union(_)) => {
                            node.map(&|_, fact| match truth {
                                true if fact == Fact::Bad => Fact::Silent,
                                true => fact,
                                false => Fact::Bad,
                            });
                        }
                        _ => {}
                    }
                }
                env
            }
            _ => env,
        }
    }

    fn invalid(&mut self, place: &Expr, header: &Expr, fact: Fact, done: &str) -> bool {
        let sure = fact == Fact::Bad;
        if !(sure || (fact == Fact::Maybe && !self.certain_only)) {
            return false;
        }
        let name = self.text(header);
        let message = if sure {
            format!("a field of `{name}` is {done}, which is not valid here")
        } else {
            format!("a field of `{name}` is {done}, which may not be valid here")
        };
        let help = if sure {
            format!("call `{name}.setValid()` before, or extract it")
        } else {
            format!("the parser accepts packets without it: test `{name}.isValid()` before")
        };
        self.report(place, "W0823", message, Some(help))
    }

    fn unset(&mut self, expr: &Expr, fact: Fact) -> bool {
        let name = self.text(expr);
        match fact {
            Fact::Bad => {
                let message = format!("`{name}` is read, but has no value yet");
                self.report(expr, "W0821", message, None)
            }
            Fact::Maybe if !self.certain_only => {
                let message = format!("`{name}` is read, but may have no value yet");
                self.report(expr, "W0821", message, None)
            }
            _ => false,
        }
    }

    fn text(&self, expr: &Expr) -> String {
        let text = self.subject.sources.text(expr.span);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Pushes a warning unless it was already pushed. Returns false if nothing may be reported here.
    fn report(
        &mut self,
        place: &Expr,
        code: &'static str,
        message: String,
        help: Option<String>,
    ) -> bool {
        if self.quiet || self.subject.is_library(place.span) {
            return false;
        }
        if self.reported.insert((place.span, code)) {
            let raw = self.sink.warning(code, place.span, message);
            if let Some(help) = help {
                raw.help(help);
            }
        }
        true
    }

    /// Warns about an `out` parameter if the body that should set it may end while it has no value.
    pub fn check_out(&mut self, id: usize, env: &mut Env) {
        let var = &self.program.vars[id];
        let Some(node) = env.vars.get_mut(&id) else {
            return;
        };
        if var.direction != crate::ir::Direction::Out || matches!(var.ty, Type::Extern(..)) {
            return;
        }
        let mut facts = Vec::new();
        node.values(&mut facts);
        let bad = facts.iter().filter(|fact| **fact == Fact::Bad).count();
        let open = bad > 0 || (facts.contains(&Fact::Maybe) && !self.certain_only);
        if !open || self.quiet || self.subject.is_library(var.span) || var.name.starts_with('_') {
            return;
        }
        let message = if bad == facts.len() {
            format!("`out` parameter `{}` is never given a value", var.name)
        } else if facts.len() > 1 {
            format!(
                "a part of the `out` parameter `{}` may be left without a value",
                var.name
            )
        } else {
            format!("`out` parameter `{}` may be left without a value", var.name)
        };
        if self.reported.insert((var.span, "W0822")) {
            self.sink.warning("W0822", var.span, message);
        }
        // Marks the values as set, so that the callers do not report the parameter again.
        node.map(&|is_header, fact| if is_header { fact } else { Fact::Good });
    }
}

/// Joins the facts at the ends of branches. If a branch returned or exited, the code after the branches counts as code
/// inside a condition.
pub fn meet(before: &Env, ends: Vec<State>) -> State {
    let all_go_on = ends.iter().all(Option::is_some);
    let joined = join_states(ends)?;
    Some(if all_go_on {
        joined.restored(before)
    } else {
        joined.guarded()
    })
}

fn is_prefix(prefix: &Path, path: &Path) -> bool {
    prefix.0 == path.0 && path.1.starts_with(&prefix.1)
}
