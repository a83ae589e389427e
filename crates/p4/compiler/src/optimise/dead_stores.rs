//! Removes dead stores: values that are written and never read.
//!
//! The analysis runs backwards over a packet's whole path. A field is live if something may read it before it is
//! written again. At the end of a control, all fields of the target's own metadata are live, and so are all fields of
//! headers that may be sent. So mainly user metadata and temporaries can be dead there. More fields are live at some
//! places:
//!
//! - at the end of ingress, the fields that egress, field lists and digests read;
//! - at the end of egress, the fields that checksums, field lists and the deparser read;
//! - everywhere in the parser, the fields that ingress and the verified checksums read, because an error may end the
//!   parser anywhere.
//!
//! A clone or a recirculated packet sees only the metadata of its field list. The pass is sound because it removes only
//! copies, hashes and register reads, which do nothing but write one field. Meters, random numbers and unknown
//! primitives stay, and so does code that may end the parser.

use std::collections::BTreeMap;

use bmv2_json::{Pipeline, Primitive, Program, Value};

use super::HashMap;
use super::code;
use super::effect::{self, Effect, Touch};
use super::graph::{self, Graph, Node};
use super::model::{FieldId, Model, Role};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Live(Vec<u64>);

impl Live {
    fn none(model: &Model) -> Self {
        Self(vec![0; model.fields.len().div_ceil(64)])
    }

    fn everything(model: &Model) -> Self {
        Self(vec![u64::MAX; model.fields.len().div_ceil(64)])
    }

    fn has(&self, field: FieldId) -> bool {
        self.0[field as usize / 64] >> (field % 64) & 1 == 1
    }

    fn insert(&mut self, field: FieldId) {
        self.0[field as usize / 64] |= 1 << (field % 64);
    }

    fn remove(&mut self, field: FieldId) {
        self.0[field as usize / 64] &= !(1 << (field % 64));
    }

    fn join(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(mine, other)| *mine |= other);
    }

    fn read(&mut self, touched: &Touch) {
        if touched.all {
            self.0.fill(u64::MAX);
        }
        touched.fields.iter().for_each(|field| self.insert(*field));
    }

    /// Turns the live fields after an effect into the live fields before it.
    fn pass(&mut self, effect: &Effect) {
        if let Some(field) = effect.defines {
            self.remove(field);
        }
        self.read(&effect.reads);
    }
}

pub fn run(program: &mut Program) -> bool {
    let model = Model::new(program);
    let mut liveness = Liveness {
        model: &model,
        positions: graph::action_positions(program),
        behind: BTreeMap::new(),
        at_exit: BTreeMap::new(),
    };
    let lists = lists(program, &model);
    let mut live = ends(&model);
    live.join(&lists);
    for checksum in program.checksums.iter().filter(|checksum| checksum.update) {
        checksum_reads(&model, checksum, &mut live);
    }
    for primitive in program
        .deparsers
        .iter()
        .flat_map(|deparser| &deparser.primitives)
    {
        live.read(&effect::primitive(&model, primitive).reads);
    }
    let at_egress = liveness.egress(program, live);
    let mut live = at_egress.clone();
    live.join(&ends(&model));
    live.join(&lists);
    for value in program.learn_lists.iter().flat_map(|list| &list.elements) {
        live.read(&effect::reads(&model, value));
    }
    let mut live = liveness.pipeline(program, "ingress", &live);
    live.join(&ends(&model));
    // A clone made in ingress enters egress with the values that the parser has set.
    live.join(&at_egress);
    for checksum in program.checksums.iter().filter(|checksum| checksum.verify) {
        checksum_reads(&model, checksum, &mut live);
    }
    let Liveness {
        behind, at_exit, ..
    } = liveness;
    let mut changed = parser(program, &model, &live);
    let nothing = Live::none(&model);
    for action in &mut program.actions {
        if let Some(behind) = behind.get(&action.id) {
            let at_exit = at_exit.get(&action.id).unwrap_or(&nothing);
            changed |= sweep(&model, &mut action.primitives, behind, at_exit);
        }
    }
    changed
}

/// Returns the fields that are live at every control's end. These are all fields but those of the program's metadata
/// and those of headers that are never sent.
fn ends(model: &Model) -> Live {
    let mut live = Live::everything(model);
    for (id, info) in (0..).zip(&model.fields) {
        let unseen = match info.role {
            Role::Local => true,
            Role::Header => model
                .headers
                .get(&info.header)
                .is_some_and(|header| !header.sent),
            Role::Architecture | Role::Hidden => false,
        };
        if unseen && info.bits > 0 {
            live.remove(id);
        }
    }
    live
}

fn lists(program: &Program, model: &Model) -> Live {
    let mut live = Live::none(model);
    for value in program.field_lists.iter().flat_map(|list| &list.elements) {
        live.read(&effect::reads(model, value));
    }
    live
}

fn checksum_reads(model: &Model, checksum: &bmv2_json::Checksum, live: &mut Live) {
    let target = Value::Field(checksum.target.clone());
    let calculation = Value::Calculation(checksum.calculation.clone());
    let condition = checksum.if_cond.as_ref();
    for value in [&target, &calculation].into_iter().chain(condition) {
        live.read(&effect::reads(model, value));
    }
}

struct Liveness<'a> {
    model: &'a Model,
    positions: HashMap<u32, usize>,
    /// The live fields after each action, joined over its uses.
    behind: BTreeMap<u32, Live>,
    /// The live fields at the end of the controls that use the action.
    at_exit: BTreeMap<u32, Live>,
}

impl Liveness<'_> {
    /// Returns the live fields before egress. A clone made in egress runs through egress again, with the headers that
    /// the cloned packet had when it left egress.
    fn egress(&mut self, program: &Program, mut end: Live) -> Live {
        loop {
            let first = self.pipeline(program, "egress", &end);
            let before = end.clone();
            for (id, info) in (0..).zip(&self.model.fields) {
                if info.role == Role::Header && first.has(id) {
                    end.insert(id);
                }
            }
            if end == before {
                return first;
            }
        }
    }

    fn pipeline(&mut self, program: &Program, name: &str, end: &Live) -> Live {
        let mut first = end.clone();
        for pipeline in program.pipelines.iter().filter(|it| it.name == name) {
            first.join(&self.one(program, pipeline, end));
        }
        first
    }

    fn one(&mut self, program: &Program, pipeline: &Pipeline, end: &Live) -> Live {
        let graph = Graph::new(pipeline);
        let mut live: HashMap<Node, Live> = HashMap::default();
        let order = match graph.order() {
            Some(order) => order,
            None => {
                // The nodes form a cycle, so every field counts as live everywhere.
                let all = Live::everything(self.model);
                let called = pipeline.action_calls.iter().map(|call| call.action_id);
                let tables = pipeline.tables.iter();
                let ids = tables.flat_map(|table| graph::table_actions(program, table));
                for id in ids.chain(called).collect::<Vec<u32>>() {
                    self.action(program, id, &all, &all);
                }
                return all;
            }
        };
        for node in order.iter().rev() {
            let mut behind = Live::none(self.model);
            for next in Graph::successors(pipeline, *node) {
                let next = graph.node(next).and_then(|node| live.get(&node));
                behind.join(next.unwrap_or(end));
            }
            let before = self.node(program, pipeline, *node, &behind, end);
            live.insert(*node, before);
        }
        let first = graph.node(pipeline.init_table.as_ref());
        first
            .and_then(|node| live.remove(&node))
            .unwrap_or_else(|| end.clone())
    }

    fn node(
        &mut self,
        program: &Program,
        pipeline: &Pipeline,
        node: Node,
        behind: &Live,
        end: &Live,
    ) -> Live {
        match node {
            Node::If(at) => {
                let mut live = behind.clone();
                let expression = &pipeline.conditionals[at].expression;
                live.read(&effect::reads(self.model, expression));
                live
            }
            Node::Call(at) => {
                let id = pipeline.action_calls[at].action_id;
                self.action(program, id, behind, end)
            }
            Node::Table(at) => {
                let table = &pipeline.tables[at];
                // Only a table without a key and with a default action is sure to run an action. The analysis assumes
                // that any other table may run no action.
                let mut live = if table.default_entry.is_some() && table.key.is_empty() {
                    Live::none(self.model)
                } else {
                    behind.clone()
                };
                for id in graph::table_actions(program, table) {
                    live.join(&self.action(program, id, behind, end));
                }
                for (header, field) in table.key.iter().map(|key| &key.target) {
                    let key = Value::Field((header.clone(), field.clone()));
                    live.read(&effect::reads(self.model, &key));
                }
                let profile = pipeline
                    .action_profiles
                    .iter()
                    .find(|profile| table.action_profile.as_ref() == Some(&profile.name));
                let selector = profile.and_then(|profile| profile.selector.as_ref());
                for value in selector.iter().flat_map(|selector| &selector.input) {
                    live.read(&effect::reads(self.model, value));
                }
                live
            }
        }
    }

    fn action(&mut self, program: &Program, id: u32, behind: &Live, end: &Live) -> Live {
        for (map, live) in [(&mut self.behind, behind), (&mut self.at_exit, end)] {
            map.entry(id)
                .and_modify(|known| known.join(live))
                .or_insert_with(|| live.clone());
        }
        let action = self
            .positions
            .get(&id)
            .and_then(|at| program.actions.get(*at));
        match action {
            Some(action) => walk(self.model, &action.primitives, behind, end, &mut |_, _| {}),
            None => Live::everything(self.model),
        }
    }
}

/// Returns the live fields before a body. `see` gets each primitive's position and the live fields after it.
fn walk(
    model: &Model,
    body: &[Primitive],
    behind: &Live,
    at_exit: &Live,
    see: &mut dyn FnMut(usize, &Live),
) -> Live {
    if !code::is_regular(body) {
        return Live::everything(model);
    }
    let mut targets: HashMap<usize, Live> = HashMap::default();
    for to in body.iter().filter_map(code::target) {
        targets.insert(to, Live::none(model));
    }
    let mut live = behind.clone();
    if let Some(known) = targets.get_mut(&body.len()) {
        known.clone_from(&live);
    }
    for (at, primitive) in body.iter().enumerate().rev() {
        if let Some(jumped) = code::target(primitive).and_then(|to| targets.get(&to)) {
            match primitive.op.as_str() {
                "_jump" => live.clone_from(jumped),
                _ => live.join(jumped),
            }
        }
        if primitive.op == "exit" {
            live.join(at_exit);
        }
        see(at, &live);
        live.pass(&effect::primitive(model, primitive));
        if let Some(known) = targets.get_mut(&at) {
            known.clone_from(&live);
        }
    }
    live
}

fn sweep(model: &Model, body: &mut Vec<Primitive>, behind: &Live, at_exit: &Live) -> bool {
    let mut dead = vec![false; body.len()];
    walk(model, body, behind, at_exit, &mut |at, live| {
        let written = effect::primitive(model, &body[at]).only_writes();
        dead[at] = written.is_some_and(|field| !live.has(field));
    });
    code::remove(body, &dead)
}

/// Removes the dead stores of the parsers. The fields in `end` are live wherever a parser ends.
fn parser(program: &mut Program, model: &Model, end: &Live) -> bool {
    let mut changed = false;
    for parser in &mut program.parsers {
        let mut first: HashMap<String, Live> = HashMap::default();
        // States may form cycles, so the loop runs until no more fields become live.
        loop {
            let mut grown = false;
            for state in parser.parse_states.iter().rev() {
                let behind = behind_state(model, state, &first, end);
                let live = state.parser_ops.iter().rev().fold(behind, |mut live, op| {
                    live.pass(&effect::parser_op(model, op));
                    live.join(end);
                    live
                });
                if first.get(&state.name) != Some(&live) {
                    first.insert(state.name.clone(), live);
                    grown = true;
                }
            }
            if !grown {
                break;
            }
        }
        for state in &mut parser.parse_states {
            let mut live = behind_state(model, state, &first, end);
            let mut kept = Vec::new();
            for op in state.parser_ops.drain(..).rev() {
                let effect = effect::parser_op(model, &op);
                if effect.only_writes().is_some_and(|field| !live.has(field)) {
                    changed = true;
                    continue;
                }
                live.pass(&effect);
                live.join(end);
                kept.push(op);
            }
            kept.reverse();
            state.parser_ops = kept;
        }
    }
    changed
}

/// Returns the fields that are live after the operations of a state.
fn behind_state(
    model: &Model,
    state: &bmv2_json::ParseState,
    first: &HashMap<String, Live>,
    end: &Live,
) -> Live {
    let mut live = end.clone();
    for transition in &state.transitions {
        if let Some(next) = transition
            .next_state
            .as_ref()
            .and_then(|name| first.get(name))
        {
            live.join(next);
        }
    }
    for key in &state.transition_key {
        live.read(&effect::reads(model, key));
    }
    live
}
