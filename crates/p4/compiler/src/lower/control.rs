//! Lowers controls: apply blocks become nodes, and nodes become tables and conditionals with their successors.
//!
//! Statements that apply nothing are collected in an action of a table without a key, which always runs its default
//! action. This is how simple_switch programs run code between tables.

use std::collections::HashMap;
use std::rc::Rc;

use bmv2_json::{Pipeline, Primitive, Value};

use super::copy::PendingBlock;
use super::headers::Architecture;
use super::link::Leave;
use super::order::DeclaredAt;
use super::{Binding, BlockInstance, Lower, Object, Stage};
use crate::ir::{
    BinaryOp, Callee, Control, Expr, ExprKind, InstanceKind, Local, Statement, StatementKind,
    UnaryOp,
};
use crate::limits;
use crate::source::Span;
use crate::types::Type;
use crate::types::statement::applied_table;

#[derive(Debug)]
pub enum Node {
    Do(Vec<Primitive>, Span),
    If(Value, Vec<Node>, Vec<Node>, Span),
    /// A table, and the nodes that follow each of its results.
    Apply(usize, Next, Span),
    /// Nodes whose end is the target of jumps inside them.
    Scope(Vec<Node>, Scope),
    Return,
    Break,
    Continue,
    Exit,
}

/// The kinds of a scope, each with the statement that jumps to the scope's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// An inlined control: `return`.
    Control,
    /// A loop: `break`.
    Loop,
    /// An iteration of a loop: `continue`.
    Round,
}

/// The nodes that follow each result of a table.
#[derive(Debug)]
pub enum Next {
    Nothing,
    HitMiss(Vec<Node>, Vec<Node>),
    /// Action names (`None` for every other action), and the nodes that follow these actions.
    Actions(Vec<(Vec<Option<String>>, Vec<Node>)>),
}

impl Lower<'_> {
    pub fn lower_pipeline(
        &mut self,
        block: &Rc<BlockInstance>,
        places: &Architecture,
        stage: Stage,
    ) {
        self.stage = stage;
        let InstanceKind::Control(id) = block.kind else {
            return;
        };
        let control = &self.program.controls[id];
        for (parameter, place) in
            control
                .parameters
                .iter()
                .zip([&places.headers, &places.metadata, &places.standard])
        {
            self.env.insert(*parameter, Binding::Place(place.clone()));
        }
        self.pipeline.nodes.clear();
        let pipeline = vec![self.json.pipelines.len()];
        self.run_control(block, &pipeline, control);
        self.flush(control.span);
        let nodes = std::mem::take(&mut self.pipeline.nodes);
        let init_table = self.link(&nodes, None, &Leave::default());
        let first_table = self
            .json
            .pipelines
            .iter()
            .map(|pipeline| pipeline.tables.len())
            .sum::<usize>();
        let mut tables = std::mem::take(&mut self.pipeline.tables);
        tables
            .iter_mut()
            .enumerate()
            .for_each(|(at, table)| table.id = (first_table + at) as u32);
        self.pipeline.tables_linked.clear();
        self.pipeline.table_index.clear();
        let first_conditional = self
            .json
            .pipelines
            .iter()
            .map(|pipeline| pipeline.conditionals.len())
            .sum::<usize>();
        let mut conditionals = std::mem::take(&mut self.pipeline.conditionals);
        conditionals.reverse();
        conditionals
            .iter_mut()
            .enumerate()
            .for_each(|(at, node)| node.id = (first_conditional + at) as u32);
        self.json.pipelines.push(Pipeline {
            name: if stage == Stage::Ingress {
                "ingress"
            } else {
                "egress"
            }
            .to_owned(),
            id: self.json.pipelines.len() as u32,
            source_info: self.source_info(control.span),
            init_table,
            tables,
            action_profiles: std::mem::take(&mut self.pipeline.action_profiles),
            conditionals,
            action_calls: Vec::new(),
        });
    }

    /// Inlines a control whose parameters are already bound.
    fn run_control(&mut self, block: &BlockInstance, order: &DeclaredAt, control: &Control) {
        for (parameter, binding) in &block.arguments {
            self.env.insert(*parameter, binding.clone());
        }
        let outer_path = std::mem::replace(&mut self.path, block.path.clone());
        let outer_standing = self.standing.enter(block, order);
        self.enter_instances(&block.path, &control.instances);
        let repeated = std::mem::take(&mut self.blocks.repeated);
        self.blocks.repeated = repeated_instances(&control.apply);
        let known = self.blocks.storage.get(&block.path).cloned();
        for (id, init) in &control.variables {
            match known.as_ref().and_then(|known| known.get(id)) {
                Some(binding) => {
                    self.env.insert(*id, binding.clone());
                    if let (Binding::Place(place), Some(init)) = (binding.clone(), init) {
                        self.assign(&place, init);
                    }
                }
                None => {
                    self.declare(*id, init.as_ref());
                    if let Some(binding) = self.env.get(id).cloned() {
                        self.blocks
                            .storage
                            .entry(block.path.clone())
                            .or_default()
                            .insert(*id, binding);
                    }
                }
            }
        }
        self.statements(&control.apply);
        self.blocks.repeated = repeated;
        self.standing.leave(outer_standing);
        self.path = outer_path;
    }

    /// Creates the instances that a block declares. Does this once for each path, that is, for each instance of the
    /// block.
    pub fn enter_instances(&mut self, path: &str, instances: &[usize]) {
        if let Some(known) = self.blocks.instances.get(path).cloned() {
            self.instances.extend(known);
            return;
        }
        for id in instances {
            let place = self.declared(Local::Instance(*id));
            let outer = std::mem::replace(&mut self.standing.order, place);
            self.instantiate_named(*id, path);
            self.standing.order = outer;
        }
        self.expect_own_paths(instances);
        let made = instances
            .iter()
            .filter_map(|id| self.instances.get(id).map(|object| (*id, object.clone())))
            .collect();
        self.blocks.instances.insert(path.to_owned(), made);
    }

    /// Rejects two instances with the same path, which would share their objects.
    fn expect_own_paths(&mut self, instances: &[usize]) {
        let mut paths: HashMap<String, usize> = HashMap::new();
        for id in instances {
            let Some(Object::Block(block)) = self.instances.get(id) else {
                continue;
            };
            let first = *paths.entry(block.path.clone()).or_insert(*id);
            if first != *id {
                let message = format!(
                    "two instances have the control plane's name `{}`",
                    block.path
                );
                let first = self.program.instances[first].span;
                self.sink
                    .error("E0702", self.program.instances[*id].span, message)
                    .note_at(first, "the other one")
                    .help("give one of them another @name");
            }
        }
    }

    /// Turns the collected primitives into a node.
    pub fn flush(&mut self, span: Span) {
        let primitives = self.take_body();
        if !primitives.is_empty() {
            self.pipeline.nodes.push(Node::Do(primitives, span));
        }
    }

    pub fn inner_nodes(&mut self, span: Span, inner: impl FnOnce(&mut Self)) -> Vec<Node> {
        let outer = std::mem::take(&mut self.pipeline.nodes);
        inner(self);
        self.flush(span);
        std::mem::replace(&mut self.pipeline.nodes, outer)
    }

    /// Lowers a statement of an apply block that may need nodes, not only primitives.
    pub fn control_statement(&mut self, statement: &Statement) {
        let span = statement.span;
        match &statement.kind {
            StatementKind::If(condition, yes, no) => self.control_if(condition, yes, no, span),
            StatementKind::Assign(left, right) => {
                let right = self.hoist(right);
                self.assign_statement(left, &right, span);
            }
            StatementKind::Call(call) => self.control_call(call, span),
            StatementKind::SwitchAction(subject, cases) => {
                let Some(table) = applied_table(subject) else {
                    return;
                };
                let index = self.apply_table(table, span);
                let mut next = Vec::new();
                for (labels, body) in cases {
                    let names = labels
                        .iter()
                        .map(|label| label.map(|action| self.action_name(action)))
                        .collect();
                    next.push((
                        names,
                        self.inner_nodes(span, |lower| lower.statements(body)),
                    ));
                }
                self.pipeline
                    .nodes
                    .push(Node::Apply(index, Next::Actions(next), span));
            }
            StatementKind::SwitchValue(subject, cases) => {
                let subject = self.hoist(subject);
                let subject = self.stable(&subject);
                let cases = Self::ordered_cases(cases);
                self.control_cases(&subject, &cases, span);
            }
            StatementKind::Return(_) => {
                self.flush(span);
                self.pipeline.nodes.push(Node::Return);
            }
            StatementKind::For(whole) => self.control_loop(whole, span),
            StatementKind::Break => {
                self.flush(span);
                self.pipeline.nodes.push(Node::Break);
            }
            StatementKind::Continue => {
                self.flush(span);
                self.pipeline.nodes.push(Node::Continue);
            }
            StatementKind::Exit => {
                self.copy_out_all(span);
                self.flush(span);
                self.pipeline.nodes.push(Node::Exit);
            }
            StatementKind::Declare(..) | StatementKind::Block(_) => {}
        }
    }

    fn control_cases(
        &mut self,
        subject: &Expr,
        cases: &[(Vec<Option<Expr>>, Vec<Statement>)],
        span: Span,
    ) {
        let Some(((labels, body), rest)) = cases.split_first() else {
            return;
        };
        match self.case_condition(subject, labels) {
            None => self.statements(body),
            Some(condition) => {
                self.flush(span);
                let yes = self.inner_nodes(span, |lower| lower.statements(body));
                let no = self.inner_nodes(span, |lower| lower.control_cases(subject, rest, span));
                self.pipeline.nodes.push(Node::If(condition, yes, no, span));
            }
        }
    }

    fn control_if(&mut self, condition: &Expr, yes: &[Statement], no: &[Statement], span: Span) {
        let condition = self.resolve(condition);
        match &condition.kind {
            ExprKind::Bool(true) => return self.statements(yes),
            ExprKind::Bool(false) => return self.statements(no),
            ExprKind::Unary(UnaryOp::Not, inner) if matches!(inner.kind, ExprKind::Hit(..)) => {
                return self.control_if(inner, no, yes, span);
            }
            ExprKind::Hit(table, hit) => {
                let Some(table) = applied_table(table) else {
                    return;
                };
                let index = self.apply_table(table, span);
                let yes = self.inner_nodes(span, |lower| lower.statements(yes));
                let no = self.inner_nodes(span, |lower| lower.statements(no));
                let next = if *hit {
                    Next::HitMiss(yes, no)
                } else {
                    Next::HitMiss(no, yes)
                };
                self.pipeline.nodes.push(Node::Apply(index, next, span));
                return;
            }
            _ => {}
        }
        let condition = self.hoist(&condition);
        let value = self.value(&condition);
        self.flush(span);
        let yes = self.inner_nodes(span, |lower| lower.statements(yes));
        let no = self.inner_nodes(span, |lower| lower.statements(no));
        self.pipeline
            .nodes
            .push(Node::If(value, yes, no, condition.span));
    }

    /// Applies the tables inside an expression first, and replaces them by variables with their results.
    pub fn hoist(&mut self, expr: &Expr) -> Expr {
        if !super::statement::applies_table(expr) {
            return expr.clone();
        }
        let span = expr.span;
        match &expr.kind {
            ExprKind::Hit(table, hit) => {
                let Some(table) = applied_table(table) else {
                    return expr.clone();
                };
                let index = self.apply_table(table, span);
                let result = self.temp("hit", &Type::Bool, span);
                let set = |lower: &mut Self, truth: bool| {
                    let place = result.clone();
                    lower.inner_nodes(span, |lower| lower.store(&place, Value::Bool(truth), span))
                };
                let (yes, no) = (set(self, *hit), set(self, !*hit));
                self.pipeline
                    .nodes
                    .push(Node::Apply(index, Next::HitMiss(yes, no), span));
                self.hold(result, Type::Bool, span)
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                let left = self.hoist(left);
                let result = self.temp("tmp", &Type::Bool, span);
                self.assign(&result, &left);
                let condition = self.read(&result);
                self.flush(span);
                let place = result.clone();
                let then = self.inner_nodes(span, |lower| {
                    let right = lower.hoist(right);
                    lower.assign(&place, &right);
                });
                let node = if *op == BinaryOp::And {
                    Node::If(condition, then, Vec::new(), span)
                } else {
                    Node::If(condition, Vec::new(), then, span)
                };
                self.pipeline.nodes.push(node);
                self.hold(result, Type::Bool, span)
            }
            ExprKind::Mux(condition, yes, no)
                if super::statement::applies_table(yes) || super::statement::applies_table(no) =>
            {
                self.hoist_choice(condition, yes, no)
            }
            kind => {
                let kind = self.hoist_operands(kind);
                Expr {
                    kind,
                    ty: expr.ty.clone(),
                    span,
                }
            }
        }
    }

    /// Hoists the tables of `condition ? yes : no`, where only the chosen side may apply its table.
    fn hoist_choice(&mut self, condition: &Expr, yes: &Expr, no: &Expr) -> Expr {
        let span = condition.span;
        let result = self.temp("tmp", &yes.ty, span);
        let condition = self.hoist(condition);
        let condition = self.value(&condition);
        self.flush(span);
        let set = |lower: &mut Self, value: &Expr| {
            let place = result.clone();
            lower.inner_nodes(span, |lower| {
                let value = lower.hoist(value);
                lower.assign(&place, &value);
            })
        };
        let (then, otherwise) = (set(self, yes), set(self, no));
        self.pipeline
            .nodes
            .push(Node::If(condition, then, otherwise, span));
        self.hold(result, yes.ty.clone(), span)
    }

    /// Applies the tables inside operands. An operand to the left of such a table is saved first, so that the table
    /// does not change its value.
    fn hoist_operands(&mut self, kind: &ExprKind) -> ExprKind {
        let (mut count, mut last) = (0, 0);
        super::expression::map_operands(kind, &mut |inner| {
            count += 1;
            if super::statement::applies_table(inner) {
                last = count;
            }
            inner.clone()
        });
        let keeps = matches!(kind, ExprKind::Binary(..) | ExprKind::List(_));
        let mut at = 0;
        super::expression::map_operands(kind, &mut |inner| {
            at += 1;
            let inner = self.hoist(inner);
            let fixed = matches!(inner.kind, ExprKind::Int(_) | ExprKind::Bool(_));
            if at >= last || fixed || !keeps {
                return inner;
            }
            let ty = self.closed_type(&inner.ty);
            let temp = self.temp("tmp", &ty, inner.span);
            self.assign(&temp, &inner);
            self.hold(temp, ty, inner.span)
        })
    }

    fn control_call(&mut self, expr: &Expr, span: Span) {
        let ExprKind::Call(call) = &expr.kind else {
            return;
        };
        match &call.callee {
            Callee::ApplyTable(table) => {
                let index = self.apply_table(*table, span);
                self.pipeline
                    .nodes
                    .push(Node::Apply(index, Next::Nothing, span));
            }
            Callee::ApplyBlock(object) => self.apply_control(object, &call.arguments, span),
            _ => {
                let mut call = call.clone();
                call.arguments = call
                    .arguments
                    .iter()
                    .map(|argument| argument.as_ref().map(|argument| self.hoist(argument)))
                    .collect();
                self.call_statement(&Expr {
                    kind: ExprKind::Call(call),
                    ..expr.clone()
                });
            }
        }
    }

    fn apply_control(&mut self, object: &Expr, arguments: &[Option<Expr>], span: Span) {
        let repeated =
            matches!(object.kind, ExprKind::Instance(id) if self.blocks.repeated.contains(&id));
        let Some(Object::Block(block)) = self.object(object) else {
            return self.unsupported(span, "apply() of this");
        };
        let InstanceKind::Control(id) = block.kind else {
            return;
        };
        if self.depth >= limits::INLINE_DEPTH {
            self.sink.error(
                "E0603",
                span,
                format!(
                    "controls are nested more than {} levels deep",
                    limits::INLINE_DEPTH
                ),
            );
            return;
        }
        if !self.has_room(span) {
            return;
        }
        let control = &self.program.controls[id];
        let saved = (self.env.clone(), self.instances.clone());
        let arguments: Vec<Option<Expr>> = arguments
            .iter()
            .map(|argument| argument.as_ref().map(|argument| self.hoist(argument)))
            .collect();
        let copies = self.bind_block(
            &control.parameters,
            &arguments,
            repeated.then_some(block.path.as_str()),
            span,
        );
        let outer = self.copy_outs.of_blocks.clone();
        self.copy_outs.of_blocks.push(PendingBlock {
            copies: copies.clone(),
            repeated,
        });
        self.depth += 1;
        self.flush(span);
        let nodes = self.inner_nodes(span, |lower| {
            lower.run_control(&block, &block.order, control);
        });
        self.depth -= 1;
        self.copy_outs.of_blocks = outer;
        self.pipeline.nodes.push(Node::Scope(nodes, Scope::Control));
        for copy in &copies {
            self.copy_out(copy, span);
        }
        (self.env, self.instances) = saved;
    }
}

fn repeated_instances(statements: &[Statement]) -> std::collections::HashSet<usize> {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    count_applies(statements, 1, &mut counts);
    counts
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(id, _)| id)
        .collect()
}

/// Counts how often the statements apply each instance, as if they ran `times` times.
fn count_applies(statements: &[Statement], times: usize, counts: &mut HashMap<usize, usize>) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Call(Expr {
                kind: ExprKind::Call(call),
                ..
            }) => {
                if let Callee::ApplyBlock(Expr {
                    kind: ExprKind::Instance(id),
                    ..
                }) = &call.callee
                {
                    *counts.entry(*id).or_default() += times;
                }
            }
            StatementKind::Block(inner) => count_applies(inner, times, counts),
            StatementKind::If(_, yes, no) => {
                count_applies(yes, times, counts);
                count_applies(no, times, counts);
            }
            // Each iteration applies the control once more. Counting 2 is enough: the caller only asks whether the
            // count is above 1.
            StatementKind::For(whole) => count_applies(&whole.body, 2, counts),
            StatementKind::SwitchAction(_, cases) => cases
                .iter()
                .for_each(|(_, body)| count_applies(body, times, counts)),
            StatementKind::SwitchValue(_, cases) => cases
                .iter()
                .for_each(|(_, body)| count_applies(body, times, counts)),
            _ => {}
        }
    }
}
