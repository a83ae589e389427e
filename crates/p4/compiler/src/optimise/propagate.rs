//! Propagates copies and constants: a field's known value replaces reads of the field, and an edge on which a branch's
//! condition is known bypasses the branch.
//!
//! One walk from each pipeline's beginning follows the control graph; where edges meet, the common facts remain. At the
//! beginning, metadata that nothing has written is zero, and a header that nothing can have made valid is invalid. This
//! holds for every new packet and for clones' metadata; fields that a field list may keep are excluded. The pass is
//! sound because every write removes the facts that depended on the written field: a write to a stack element known
//! only at run time removes the facts of the whole stack, a header operation removes the facts of the header and of the
//! other validities in its union, `mark_to_drop` removes the facts of the target's fields, and an unknown primitive
//! removes all facts. Only unsigned fields have facts, and a copy counts only if its target is at least as wide as its
//! source, so that the copy cuts off no bits. In keys, field lists, digests and checksums no field is replaced. A table
//! may run any of its actions, whatever its entries are. No fact is carried from one control to the next, since the
//! target writes fields between controls and clones enter there.

use bmv2_json::{Conditional, ParserOp, ParserOpParameter, Pipeline, Primitive, Program, Value};

use super::HashMap;
use super::code;
use super::effect;
use super::facts::Facts;
use super::fold::Folder;
use super::graph::{self, Graph, Node};
use super::model::Model;
use super::written::{Stage, Written};
use super::{Pass, put};

/// Maximum number of branches with known conditions that one edge bypasses in a round. Without a bound, a thousand
/// tests of one field in a row would mean a million edges.
const BYPASSED_MAX: usize = 8;

pub fn run(program: &mut Program, passes: &[Pass]) -> bool {
    let model = Model::new(program);
    let mut changed = parser(program, &model, passes);
    let written = Written::new(program, &model);
    let mut walk = Walk {
        model: &model,
        fold: passes.contains(&Pass::Fold),
        positions: graph::action_positions(program),
        entries: HashMap::default(),
    };
    for at in 0..program.pipelines.len() {
        let start = match program.pipelines[at].name.as_str() {
            "ingress" => written.start(&model, &[Stage::Parser]),
            "egress" => written.start(&model, &[Stage::Parser, Stage::Ingress]),
            _ => Facts::default(),
        };
        // The pipeline is taken out of the program, because the walk reads the program and changes the pipeline.
        let mut pipeline = program.pipelines.remove(at);
        changed |= walk.pipeline(program, &mut pipeline, start);
        program.pipelines.insert(at, pipeline);
    }
    walk.finish(program) | changed
}

pub fn widths(action: &bmv2_json::Action) -> Vec<u32> {
    action
        .runtime_data
        .iter()
        .map(|datum| datum.bitwidth)
        .collect()
}

/// Returns which parameters of a primitive are read as values; the other parameters are names.
fn value_parameters(op: &str) -> &'static [usize] {
    match op {
        "assign" | "modify_field" | "push" | "pop" | "count" | "execute_meter" => &[1],
        "add_to_field" | "subtract_from_field" => &[1],
        "register_read" => &[2],
        "register_write"
        | "modify_field_rng_uniform"
        | "add"
        | "subtract"
        | "bit_xor"
        | "bit_or"
        | "bit_and"
        | "shift_left"
        | "shift_right" => &[1, 2],
        "modify_field_with_hash_based_offset" => &[1, 3],
        "log_msg" => &[1],
        "_jump_if_zero"
        | "truncate"
        | "assert"
        | "assume"
        | "clone_ingress_pkt_to_egress"
        | "clone_egress_pkt_to_egress" => &[0],
        _ => &[],
    }
}

/// Returns the primitive with simplified operands; `None` if the operands are already simple.
fn rewritten(folder: &Folder<'_>, primitive: &Primitive) -> Option<Primitive> {
    let copies = matches!(primitive.op.as_str(), "assign" | "modify_field");
    let mut new: Option<Primitive> = None;
    for at in value_parameters(&primitive.op) {
        let Some(value) = primitive.parameters.get(*at) else {
            continue;
        };
        let simpler = if copies {
            folder.assigned(value, &primitive.parameters[0])
        } else {
            folder.parameter(value)
        };
        if simpler != *value {
            let new = new.get_or_insert_with(|| primitive.clone());
            new.parameters[*at] = simpler;
        }
    }
    new
}

/// Simplifies the operands that a primitive reads; returns whether anything changed.
pub fn rewrite(folder: &Folder<'_>, primitive: &mut Primitive) -> bool {
    let simpler = rewritten(folder, primitive);
    simpler.map(|simpler| *primitive = simpler).is_some()
}

/// Updates the facts for a primitive.
fn pass(model: &Model, widths: &[u32], facts: &mut Facts, primitive: &Primitive) {
    let effect = effect::primitive(model, primitive);
    facts.pass(&effect);
    match (primitive.op.as_str(), primitive.parameters.as_slice()) {
        ("assign" | "modify_field", [_, value]) => {
            if let Some(field) = effect.defines {
                facts.assign(model, field, value, widths);
            }
        }
        ("add_header" | "add_header_fast", [Value::Header(name)]) => {
            facts.set_valid(model, name, true);
        }
        ("remove_header", [Value::Header(name)]) => facts.set_valid(model, name, false),
        ("assert" | "assume", [condition]) => facts.learn(model, condition, true),
        _ => {}
    }
}

fn meet_into(target: &mut Option<Facts>, facts: Facts) {
    match target {
        Some(known) => known.meet(&facts),
        None => *target = Some(facts),
    }
}

/// Walks through a body. Returns the facts at its end, and the simplified form of each primitive that the facts before
/// the primitive simplify.
fn body(folder: &Folder<'_>, body: &[Primitive], start: Facts) -> (Facts, Vec<(usize, Primitive)>) {
    let mut simpler = Vec::new();
    if !code::is_regular(body) {
        return (Facts::default(), simpler);
    }
    let mut pending: HashMap<usize, Facts> = HashMap::default();
    let mut current = Some(start);
    for (at, original) in body.iter().enumerate() {
        if let Some(facts) = pending.remove(&at) {
            meet_into(&mut current, facts);
        }
        let Some(mut facts) = current.take() else {
            continue;
        };
        let here = Folder {
            facts: Some(&facts),
            ..*folder
        };
        let new = rewritten(&here, original);
        let primitive = new.as_ref().unwrap_or(original);
        match (primitive.op.as_str(), code::target(primitive)) {
            ("_jump", Some(to)) => join(&mut pending, to, facts),
            ("_jump_if_zero", Some(to)) => {
                let mut jumped = facts.clone();
                let condition = primitive.parameters.first().map(unwrapped);
                if let Some(condition) = condition {
                    jumped.learn_number(folder.model, condition, true);
                    facts.learn_number(folder.model, condition, false);
                }
                join(&mut pending, to, jumped);
                current = Some(facts);
            }
            _ => {
                pass(folder.model, folder.parameters, &mut facts, primitive);
                current = Some(facts);
            }
        }
        simpler.extend(new.map(|new| (at, new)));
    }
    if let Some(facts) = pending.remove(&body.len()) {
        meet_into(&mut current, facts);
    }
    let mut end = current.unwrap_or_default();
    end.leave_action();
    (end, simpler)
}

fn join(pending: &mut HashMap<usize, Facts>, to: usize, facts: Facts) {
    match pending.get_mut(&to) {
        Some(known) => known.meet(&facts),
        None => drop(pending.insert(to, facts)),
    }
}

/// Returns an operand without the expressions that only wrap it.
pub fn unwrapped(value: &Value) -> &Value {
    match value {
        Value::Expression(expression) => match &**expression {
            bmv2_json::Expression::Value(inner) => unwrapped(inner),
            bmv2_json::Expression::Op(_) => value,
        },
        _ => value,
    }
}

struct Walk<'a> {
    model: &'a Model,
    fold: bool,
    positions: HashMap<u32, usize>,
    /// The facts at the beginning of each action, common to all its uses.
    entries: HashMap<u32, Facts>,
}

/// The graph of one pipeline, and the facts at the targets of the edges walked so far.
struct Flow {
    graph: Graph,
    known: HashMap<Node, Facts>,
}

impl Walk<'_> {
    /// Walks through one pipeline; returns whether anything but its actions changed.
    fn pipeline(&mut self, program: &Program, pipeline: &mut Pipeline, start: Facts) -> bool {
        let graph = Graph::new(pipeline);
        let Some(order) = graph.order() else {
            self.give_up(program, pipeline);
            return false;
        };
        let mut flow = Flow {
            graph,
            known: HashMap::default(),
        };
        let init = pipeline.init_table.clone();
        let init = self.edge(pipeline, &mut flow, init, start);
        let mut changed = put(&mut pipeline.init_table, init);
        for node in order {
            // No edge leads here any more.
            let Some(facts) = flow.known.remove(&node) else {
                continue;
            };
            changed |= match node {
                Node::If(at) => self.conditional(pipeline, &mut flow, at, facts),
                Node::Call(at) => {
                    let id = pipeline.action_calls[at].action_id;
                    let behind = self.action(program, id, &facts);
                    let next = pipeline.action_calls[at].next_node.clone();
                    let next = self.edge(pipeline, &mut flow, next, behind);
                    put(&mut pipeline.action_calls[at].next_node, next)
                }
                Node::Table(at) => self.table(program, pipeline, &mut flow, at, facts),
            };
        }
        changed
    }

    /// Forgets the facts before all actions, because nodes form a cycle.
    fn give_up(&mut self, program: &Program, pipeline: &Pipeline) {
        let tables = pipeline.tables.iter();
        let ids = tables.flat_map(|table| graph::table_actions(program, table));
        let called = pipeline.action_calls.iter().map(|call| call.action_id);
        for id in ids.chain(called) {
            self.entries.insert(id, Facts::default());
        }
    }

    fn folder<'f>(&'f self, facts: Option<&'f Facts>, parameters: &'f [u32]) -> Folder<'f> {
        Folder {
            model: self.model,
            parameters,
            facts,
            fold: self.fold,
        }
    }

    /// Returns the facts after an action. `finish` changes the action's body, when all uses of the action are known.
    fn action(&mut self, program: &Program, id: u32, facts: &Facts) -> Facts {
        match self.entries.get_mut(&id) {
            Some(known) => known.meet(facts),
            None => drop(self.entries.insert(id, facts.clone())),
        }
        let Some(action) = self
            .positions
            .get(&id)
            .and_then(|at| program.actions.get(*at))
        else {
            return Facts::default();
        };
        if action.primitives.is_empty() {
            return facts.clone();
        }
        let parameters = widths(action);
        let folder = self.folder(None, &parameters);
        body(&folder, &action.primitives, facts.clone()).0
    }

    /// Simplifies the actions; returns whether anything changed.
    fn finish(self, program: &mut Program) -> bool {
        let mut changed = false;
        for (id, facts) in &self.entries {
            let Some(action) = self
                .positions
                .get(id)
                .and_then(|at| program.actions.get_mut(*at))
            else {
                continue;
            };
            let parameters = widths(action);
            let folder = self.folder(None, &parameters);
            let (_, simpler) = body(&folder, &action.primitives, facts.clone());
            for (at, primitive) in simpler {
                action.primitives[at] = primitive;
                changed = true;
            }
        }
        changed
    }

    /// Follows an edge past the branches whose conditions the facts on the edge decide, and records the facts at the
    /// edge's new end. Returns this end.
    fn edge(
        &self,
        pipeline: &Pipeline,
        flow: &mut Flow,
        mut to: Option<String>,
        mut facts: Facts,
    ) -> Option<String> {
        for _ in 0..BYPASSED_MAX {
            let Some(Node::If(at)) = flow.graph.node(to.as_ref()) else {
                break;
            };
            let conditional = &pipeline.conditionals[at];
            let value = self
                .folder(Some(&facts), &[])
                .value(&conditional.expression);
            let Value::Bool(truth) = value else { break };
            facts.learn(self.model, &conditional.expression, truth);
            to = if truth {
                conditional.true_next.clone()
            } else {
                conditional.false_next.clone()
            };
        }
        if let Some(node) = flow.graph.node(to.as_ref()) {
            match flow.known.get_mut(&node) {
                Some(other) => other.meet(&facts),
                None => drop(flow.known.insert(node, facts)),
            }
        }
        to
    }

    fn conditional(
        &self,
        pipeline: &mut Pipeline,
        flow: &mut Flow,
        at: usize,
        facts: Facts,
    ) -> bool {
        let value = self
            .folder(Some(&facts), &[])
            .value(&pipeline.conditionals[at].expression);
        let mut changed = false;
        for (truth, facts) in [(true, facts.clone()), (false, facts)] {
            if value == Value::Bool(!truth) {
                continue;
            }
            let mut facts = facts;
            facts.learn(self.model, &value, truth);
            let next = way(&mut pipeline.conditionals[at], truth).clone();
            let next = self.edge(pipeline, flow, next, facts);
            changed |= put(way(&mut pipeline.conditionals[at], truth), next);
        }
        put(&mut pipeline.conditionals[at].expression, value) | changed
    }

    fn table(
        &mut self,
        program: &Program,
        pipeline: &mut Pipeline,
        flow: &mut Flow,
        at: usize,
        mut facts: Facts,
    ) -> bool {
        let table = &pipeline.tables[at];
        let ids = graph::table_actions(program, table);
        if let Some(meter) = &table.direct_meters {
            let target = program.meter_arrays.iter().find(|it| it.name == *meter);
            match target.and_then(|meter| meter.result_target.as_ref()) {
                Some((header, field)) => {
                    let value = Value::Field((header.clone(), field.clone()));
                    facts.forget_touched(&effect::reads(self.model, &value));
                }
                None => facts.forget_all(),
            }
        }
        let names = table.actions.clone();
        let mut behind: HashMap<String, Facts> = HashMap::default();
        let mut any = facts.clone();
        for (id, name) in ids.iter().zip(names) {
            let after = self.action(program, *id, &facts);
            any.meet(&after);
            match behind.get_mut(&name) {
                Some(other) => other.meet(&after),
                None => drop(behind.insert(name, after)),
            }
        }
        // `any` also covers an edge on which no action has run.
        let mut changed = false;
        let edges = table.next_tables.clone();
        for (label, next) in edges {
            let facts = behind.get(&label).unwrap_or(&any).clone();
            let new = self.edge(pipeline, flow, next.clone(), facts);
            if new != next {
                pipeline.tables[at].next_tables.insert(label, new);
                changed = true;
            }
        }
        let base = match self.default_edge(program, &pipeline.tables[at]) {
            Some(next) => next,
            None => {
                let base = pipeline.tables[at].base_default_next.clone();
                self.edge(pipeline, flow, base, any)
            }
        };
        put(&mut pipeline.tables[at].base_default_next, base) | changed
    }
}

fn way(conditional: &mut Conditional, truth: bool) -> &mut Option<String> {
    if truth {
        &mut conditional.true_next
    } else {
        &mut conditional.false_next
    }
}

impl Walk<'_> {
    /// Returns the successor of the default action, which is the only action that runs after a miss.
    fn default_edge(&self, program: &Program, table: &bmv2_json::Table) -> Option<Option<String>> {
        let default = table.default_entry.as_ref()?;
        let action = program
            .actions
            .get(*self.positions.get(&default.action_id)?)?;
        table.next_tables.get(&action.name).cloned()
    }
}

/// Simplifies each parser state by itself, because the facts at its beginning depend on the packet.
fn parser(program: &mut Program, model: &Model, passes: &[Pass]) -> bool {
    let states = program
        .parsers
        .iter_mut()
        .flat_map(|parser| &mut parser.parse_states);
    let mut changed = false;
    for state in states {
        let mut facts = Facts::default();
        for op in &mut state.parser_ops {
            let folder = Folder {
                model,
                parameters: &[],
                facts: Some(&facts),
                fold: passes.contains(&Pass::Fold),
            };
            changed |= parser_operands(&folder, op);
            pass_op(model, &mut facts, op);
        }
    }
    changed
}

/// Updates the facts for an operation of a parser state.
fn pass_op(model: &Model, facts: &mut Facts, op: &ParserOp) {
    let effect = effect::parser_op(model, op);
    facts.pass(&effect);
    match (op.op.as_str(), op.parameters.as_slice()) {
        ("set", [_, ParserOpParameter::Value(value)]) => {
            if let Some(field) = effect.defines {
                facts.assign(model, field, value, &[]);
            }
        }
        ("extract" | "extract_VL", [ParserOpParameter::Value(Value::Regular(name)), ..]) => {
            facts.set_valid(model, name, true);
        }
        ("verify", [ParserOpParameter::Value(condition), _]) => {
            facts.learn(model, condition, true);
        }
        _ => {}
    }
}

/// Simplifies the operands that a parser operation reads; returns whether anything changed.
pub fn parser_operands(folder: &Folder<'_>, op: &mut ParserOp) -> bool {
    match (op.op.as_str(), op.parameters.as_mut_slice()) {
        ("set", [ParserOpParameter::Value(to), ParserOpParameter::Value(from)])
            if !matches!(unwrapped(from), Value::Lookahead(_)) =>
        {
            let simpler = folder.assigned(from, to);
            put(from, simpler)
        }
        ("verify", [ParserOpParameter::Value(condition), _]) => {
            let simpler = folder.value(condition);
            put(condition, simpler)
        }
        ("advance", [ParserOpParameter::Value(bits)]) => {
            let simpler = folder.parameter(bits);
            put(bits, simpler)
        }
        ("primitive", [ParserOpParameter::Primitive(primitive)]) => rewrite(folder, primitive),
        _ => false,
    }
}
