//! Removes temporaries that are read once: the expression that was copied into such a temporary moves to where the
//! temporary is read.
//!
//! The pass is sound under these conditions. Nothing else in the program reads the temporary (a temporary that a
//! table's key, a list or a checksum reads is not removed). Nothing between the copy and the read writes the
//! expression's operands or the temporary. No jump leads to a place between the copy and the read. The expression reads
//! only fields and parameters. An expression that may be wider than the temporary is cut to the temporary's width. In a
//! parser, `lookahead` bits move only to the very next operation, so that an error ends the parser at the same
//! operation.

use bmv2_json::{Expression, Operand, ParserOpParameter, Pipeline, Primitive, Program, Value};
use num_traits::Signed as _;

use super::HashSet;
use super::code;
use super::effect::{self, Touch};
use super::fold::{as_operation, is_truth};
use super::graph::{self, Graph, Node, Visible};
use super::model::{FieldId, Model};
use super::number::{self, Bounds};
use super::propagate::{unwrapped, widths};
use super::walk;
use crate::lower::place::{operation, parameter};

/// Greatest height of an expression that this pass makes. Switches evaluate an expression recursively or on a stack,
/// and their stack must suffice.
const HEIGHT_MAX: usize = 24;
/// How many primitives ahead the pass looks for a read; bounds the work in long bodies.
const DISTANCE_MAX: usize = 64;
/// The count for one read at a place that cannot take an expression. It is above 1, so that a field with such a read
/// never counts as read once.
const MANY: u32 = 2;

pub fn run(program: &mut Program, visible: &Visible) -> bool {
    let model = Model::new(program);
    let Some(reads) = count_reads(program, &model) else {
        return false;
    };
    let mut inliner = Inliner {
        model: &model,
        reads,
    };
    let mut changed = false;
    for action in &mut program.actions {
        let parameters = widths(action);
        changed |= inliner.body(&mut action.primitives, &parameters);
    }
    for state in program
        .parsers
        .iter_mut()
        .flat_map(|parser| &mut parser.parse_states)
    {
        changed |= inliner.state(state);
    }
    for at in 0..program.pipelines.len() {
        let mut pipeline = program.pipelines.remove(at);
        changed |= inliner.conditions(program, &mut pipeline, visible);
        program.pipelines.insert(at, pipeline);
    }
    changed
}

/// Returns how often each field is read; `None` if an unknown object is read.
fn count_reads(program: &Program, model: &Model) -> Option<Vec<u32>> {
    let mut counts = vec![0_u32; model.fields.len()];
    let mut count = |touched: &Touch, weight: u32| -> Option<()> {
        for field in &touched.fields {
            counts[*field as usize] += weight;
        }
        (!touched.all).then_some(())
    };
    let bodies = program.actions.iter().map(|action| &action.primitives);
    let deparsers = program.deparsers.iter().map(|it| &it.primitives);
    for primitive in bodies.chain(deparsers).flatten() {
        count(&effect::primitive(model, primitive).reads, 1)?;
    }
    for state in program.parsers.iter().flat_map(|it| &it.parse_states) {
        for op in &state.parser_ops {
            count(&effect::parser_op(model, op).reads, 1)?;
        }
        for key in &state.transition_key {
            count(&effect::reads(model, key), 1)?;
        }
    }
    for pipeline in &program.pipelines {
        for conditional in &pipeline.conditionals {
            count(&effect::reads(model, &conditional.expression), 1)?;
        }
        let selectors = pipeline
            .action_profiles
            .iter()
            .filter_map(|it| it.selector.as_ref());
        for value in selectors.flat_map(|selector| &selector.input) {
            count(&effect::reads(model, value), MANY)?;
        }
    }
    let lists = program.field_lists.iter().flat_map(|list| &list.elements);
    let digests = program.learn_lists.iter().flat_map(|list| &list.elements);
    let inputs = program.calculations.iter().flat_map(|it| &it.input);
    let conditions = program
        .checksums
        .iter()
        .filter_map(|it| it.if_cond.as_ref());
    let pinned = lists
        .chain(digests)
        .chain(inputs.map(|input| &input.value))
        .chain(conditions);
    for value in pinned {
        count(&effect::reads(model, value), MANY)?;
    }
    for field in walk::bare_fields(program) {
        count(&effect::reads(model, &Value::Field(field.clone())), MANY)?;
    }
    Some(counts)
}

/// Returns which parameters of a primitive may be expressions, in Reprise's switch and in simple_switch.
fn takes_expression(op: &str) -> &'static [usize] {
    match op {
        "assign" | "modify_field" | "count" | "execute_meter" => &[1],
        "register_read" => &[2],
        "register_write" => &[1, 2],
        "_jump_if_zero" => &[0],
        _ => &[],
    }
}

fn height(value: &Value) -> usize {
    match value {
        Value::Expression(expression) => match &**expression {
            Expression::Value(inner) => height(inner),
            Expression::Op(operation) => {
                1 + walk::operands(operation).map(height).max().unwrap_or(0)
            }
        },
        _ => 0,
    }
}

fn substitute(value: &Value, field: &Value, by: &Value) -> Value {
    if value == field {
        return by.clone();
    }
    match value {
        Value::Expression(expression) => {
            let inner = match &**expression {
                Expression::Value(inner) => Expression::Value(substitute(inner, field, by)),
                Expression::Op(found) => {
                    let mut found = found.clone();
                    for operand in [&mut found.cond, &mut found.left, &mut found.right] {
                        if let Some(Operand::Value(inner)) = operand {
                            *inner = substitute(inner, field, by);
                        }
                    }
                    Expression::Op(found)
                }
            };
            Value::Expression(Box::new(inner))
        }
        Value::Register((array, index)) => {
            Value::Register((array.clone(), Box::new(substitute(index, field, by))))
        }
        other => other.clone(),
    }
}

fn occurrences(value: &Value, field: &Value) -> usize {
    let mut count = 0;
    walk::inside(value, &mut |inner| count += usize::from(inner == field));
    count
}

struct Inliner<'a> {
    model: &'a Model,
    reads: Vec<u32>,
}

struct Held {
    field: FieldId,
    operand: Value,
    value: Value,
    touched: Touch,
}

impl Inliner<'_> {
    /// Returns the temporary that an assignment writes, and its expression, if the temporary is read once.
    fn held(&self, to: &Value, from: &Value, parameters: &[u32]) -> Option<Held> {
        let Value::Field((header, name)) = to else {
            return None;
        };
        let field = self.model.id(header, name)?;
        if !self.model.is_local(field) || self.reads[field as usize] != 1 {
            return None;
        }
        let value = self.fitting(field, unwrapped(from), parameters)?;
        let touched = effect::reads(self.model, &value);
        (!touched.all && !touched.outside && !touched.has(field)).then(|| Held {
            field,
            operand: to.clone(),
            value,
            touched,
        })
    }

    /// Returns, as an operand, the value that the field has after `value` is copied into it.
    fn fitting(&self, field: FieldId, value: &Value, parameters: &[u32]) -> Option<Value> {
        let info = self.model.info(field);
        let value = match value {
            Value::RuntimeData(at) => Value::Local(*at),
            value if is_truth(value) => operation("b2d", None, Some(value.clone())),
            value => value.clone(),
        };
        if info.bits == 0 {
            return None;
        }
        if info.signed {
            let cast = as_operation(&value).filter(|found| found.op == "two_comp_mod")?;
            let Some(Operand::Value(width)) = &cast.right else {
                return None;
            };
            let width = number::amount(&number::constant(width)?)?;
            return (width == info.bits).then_some(value);
        }
        let bounds = Bounds {
            model: self.model,
            parameters,
        };
        let most = number::ones(info.bits);
        match bounds.of(&value) {
            Some((low, high)) if !low.is_negative() && high <= most => Some(value),
            _ => Some(operation("&", Some(value), Some(number::literal(&most)))),
        }
    }

    fn body(&mut self, body: &mut Vec<Primitive>, parameters: &[u32]) -> bool {
        if !code::is_regular(body) {
            return false;
        }
        let targets: HashSet<usize> = body.iter().filter_map(code::target).collect();
        let mut dead = vec![false; body.len()];
        for at in 0..body.len() {
            let held = match (body[at].op.as_str(), body[at].parameters.as_slice()) {
                ("assign" | "modify_field", [to, from]) => self.held(to, from, parameters),
                _ => None,
            };
            if let Some(held) = held
                && self.forward(body, at, &held, &targets)
            {
                dead[at] = true;
                self.reads[held.field as usize] = 0;
            }
        }
        code::remove(body, &dead)
    }

    /// Moves an expression to the one place after `at` that reads it. Returns whether there was such a place.
    fn forward(
        &self,
        body: &mut [Primitive],
        at: usize,
        held: &Held,
        targets: &HashSet<usize>,
    ) -> bool {
        let end = body.len().min(at + 1 + DISTANCE_MAX);
        for (position, primitive) in body.iter_mut().enumerate().take(end).skip(at + 1) {
            if targets.contains(&position) {
                return false;
            }
            let effect = effect::primitive(self.model, primitive);
            if effect.reads.has(held.field) {
                return replace(primitive, held);
            }
            let disturbed = effect.writes.meets(&held.touched) || effect.writes.has(held.field);
            if primitive.op == "_jump" || disturbed {
                return false;
            }
        }
        false
    }

    /// Inlines the copies that a parser state makes, also into the state's key.
    fn state(&mut self, state: &mut bmv2_json::ParseState) -> bool {
        let mut changed = false;
        let mut at = 0;
        while at < state.parser_ops.len() {
            let moved = match (
                state.parser_ops[at].op.as_str(),
                state.parser_ops[at].parameters.as_slice(),
            ) {
                ("set", [ParserOpParameter::Value(to), ParserOpParameter::Value(from)]) => {
                    let (to, from) = (to.clone(), from.clone());
                    self.move_copy(state, at, &to, &from)
                }
                _ => false,
            };
            if moved {
                state.parser_ops.remove(at);
                changed = true;
            } else {
                at += 1;
            }
        }
        changed
    }

    fn move_copy(
        &mut self,
        state: &mut bmv2_json::ParseState,
        at: usize,
        to: &Value,
        from: &Value,
    ) -> bool {
        let ahead = matches!(unwrapped(from), Value::Lookahead(_));
        let held = if ahead {
            self.held_ahead(to, unwrapped(from))
        } else {
            self.held(to, from, &[]).filter(|_| !effect::may_fail(from))
        };
        let Some(held) = held else { return false };
        let n_ops = state.parser_ops.len();
        for position in at + 1..n_ops {
            let op = &mut state.parser_ops[position];
            let effect = effect::parser_op(self.model, op);
            let ("set", [_, ParserOpParameter::Value(value)]) =
                (op.op.as_str(), op.parameters.as_mut_slice())
            else {
                return false;
            };
            if effect.reads.has(held.field) {
                let whole = *unwrapped(value) == held.operand;
                let once = occurrences(value, &held.operand) == 1;
                if !once || (ahead && (!whole || position != at + 1)) {
                    return false;
                }
                let new = substitute(unwrapped(value), &held.operand, &held.value);
                if height(&new) > HEIGHT_MAX {
                    return false;
                }
                *value = parameter(new);
                self.reads[held.field as usize] = 0;
                return true;
            }
            let disturbed = effect.writes.meets(&held.touched) || effect.writes.has(held.field);
            if ahead || disturbed {
                return false;
            }
        }
        self.move_to_key(state, &held)
    }

    /// Returns the temporary `to` if `lookahead` bits of the same width are copied into it and it is read once.
    fn held_ahead(&self, to: &Value, from: &Value) -> Option<Held> {
        let (Value::Field((header, name)), Value::Lookahead((_, bits))) = (to, from) else {
            return None;
        };
        let field = self.model.id(header, name)?;
        let info = self.model.info(field);
        let fits = info.is_plain() && info.bits == *bits;
        (self.model.is_local(field) && self.reads[field as usize] == 1 && fits).then(|| Held {
            field,
            operand: to.clone(),
            value: from.clone(),
            touched: Touch::default(),
        })
    }

    /// Moves a temporary's value into the state's key. Each part of a key is padded by its width, so only an operand of
    /// the same width may replace the temporary.
    fn move_to_key(&mut self, state: &mut bmv2_json::ParseState, held: &Held) -> bool {
        let wide = self.model.info(held.field).bits;
        let fits = match &held.value {
            Value::Lookahead((_, bits)) => *bits == wide,
            Value::Field((header, name)) => self.model.id(header, name).is_some_and(|id| {
                self.model.info(id).is_plain() && self.model.info(id).bits == wide
            }),
            _ => false,
        };
        let part = state
            .transition_key
            .iter_mut()
            .find(|key| **key == held.operand);
        match part.filter(|_| fits) {
            Some(part) => {
                *part = held.value.clone();
                self.reads[held.field as usize] = 0;
                true
            }
            None => false,
        }
    }

    /// For a node that only runs an action and that leads to a branch: moves the action's copies into the branch's
    /// condition, if no other node leads to the branch.
    fn conditions(
        &mut self,
        program: &mut Program,
        pipeline: &mut Pipeline,
        visible: &Visible,
    ) -> bool {
        let graph = Graph::new(pipeline);
        let Some(order) = graph.order() else {
            return false;
        };
        let entries = graph.entries();
        let uses = super::flow::uses(program, pipeline);
        let positions = graph::action_positions(program);
        let mut changed = false;
        for node in order {
            let Some((id, next)) = super::flow::internal(pipeline, node, visible) else {
                continue;
            };
            let Some(Node::If(at)) = graph.node(next.as_ref()) else {
                continue;
            };
            let own = Graph::successors(pipeline, node).len();
            if uses.get(&id) != Some(&1) || entries.get(&Node::If(at)) != Some(&own) {
                continue;
            }
            if let Some(position) = positions.get(&id) {
                let body = &mut program.actions[*position].primitives;
                let condition = &mut pipeline.conditionals[at].expression;
                changed |= self.move_to_condition(body, condition);
            }
        }
        changed
    }

    fn move_to_condition(&mut self, body: &mut Vec<Primitive>, condition: &mut Value) -> bool {
        if !code::is_regular(body) {
            return false;
        }
        let last_target = body.iter().filter_map(code::target).max();
        let mut behind = Touch::default();
        for at in (0..body.len()).rev() {
            if last_target.is_some_and(|target| target > at) {
                return false;
            }
            let held = match (body[at].op.as_str(), body[at].parameters.as_slice()) {
                ("assign" | "modify_field", [to, from]) => self.held(to, from, &[]),
                _ => None,
            };
            if let Some(held) = held
                && occurrences(condition, &held.operand) == 1
                && !behind.meets(&held.touched)
                && !behind.has(held.field)
                && !has_parameter(&held.value)
            {
                let new = substitute(condition, &held.operand, &held.value);
                if height(&new) <= HEIGHT_MAX {
                    *condition = new;
                    self.reads[held.field as usize] = 0;
                    let mut dead = vec![false; body.len()];
                    dead[at] = true;
                    return code::remove(body, &dead);
                }
            }
            let effect = effect::primitive(self.model, &body[at]);
            behind.all |= effect.writes.all;
            behind.fields.extend(effect.writes.fields);
        }
        false
    }
}

fn has_parameter(value: &Value) -> bool {
    let mut found = false;
    walk::inside(value, &mut |inner| {
        found |= matches!(inner, Value::Local(_) | Value::RuntimeData(_));
    });
    found
}

/// Replaces the temporary in the parameter that reads it.
fn replace(primitive: &mut Primitive, held: &Held) -> bool {
    for at in takes_expression(&primitive.op) {
        let Some(value) = primitive.parameters.get(*at) else {
            continue;
        };
        if occurrences(value, &held.operand) != 1 {
            continue;
        }
        let new = substitute(unwrapped(value), &held.operand, &held.value);
        if height(&new) > HEIGHT_MAX {
            return false;
        }
        primitive.parameters[*at] = parameter(new);
        return true;
    }
    false
}
