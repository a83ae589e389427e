//! Decides which tables of a control are cached, and under which key.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dataplane::{
    ActionId, MatchKind, Program, TableId, TableInfo,
    engine::ir::{Expr, FieldId, HeaderId, Node, NodeId, Primitive, TableNode},
};

use super::dependence::{Inputs, Values, Variable};
use crate::{
    graph::topological,
    layout::Layout,
    lookup::shape::KeyShape,
    tables::{position_of, runnable},
};

/// The highest number of words of a cache's key.
pub(crate) const KEY_WORDS_MAX: usize = 8;

/// Controls with more nodes get no cache.
const NODES_MAX: usize = 400;

/// Costs in approximate nanoseconds: of a lookup in the cache, of each input of the lookup, and of
/// table lookups by their kind.
const CACHE_COST: u32 = 12;
const INPUT_COST: u32 = 1;
const EXACT_COST: u32 = 4;
const LPM_COST: u32 = 8;
const TERNARY_COST: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Field(FieldId),
    Valid(HeaderId),
}

/// The bits of an input that the keys of tables depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Looked {
    Whole,
    /// Only the bits that some table entry matches on. Each pair is a table and the input's position among the fields
    /// of the table's key.
    Keys(Vec<(TableId, usize)>),
}

/// The inputs and the tables of a control's flow cache.
#[derive(Debug, Clone)]
pub(crate) struct FlowPlan {
    pub inputs: Vec<(Input, Looked)>,
    /// How the inputs are packed into a key.
    pub shape: KeyShape,
    /// The tables, in the order of their cells.
    pub tables: Vec<TableId>,
}

struct Key {
    /// Fields that still have their values from the control's beginning when the table reads them, with their positions
    /// in the key.
    direct: Vec<(FieldId, usize)>,
    other: Inputs,
}

/// Traces the keys of a control's tables.
struct Follower<'p> {
    program: &'p Program,
    keys: BTreeMap<TableId, Key>,
}

impl FlowPlan {
    /// Returns `None` if the control cannot have a cache, or if a cache would cost more than it saves.
    pub(crate) fn new(program: &Program, layout: &Layout, start: Option<NodeId>) -> Option<Self> {
        let order = order(program, start)?;
        let mut follower = Follower {
            program,
            keys: BTreeMap::new(),
        };
        follower.follow(&order);
        follower.plan(layout)
    }
}

fn successors(node: &Node, program: &Program) -> Vec<NodeId> {
    use dataplane::engine::ir::NextNode;
    let next: Vec<Option<NodeId>> = match node {
        Node::If { yes, no, .. } => vec![*yes, *no],
        Node::Call { next, .. } => vec![*next],
        Node::Table(table) => {
            let node = &program.ir().table_nodes[table.index()];
            let mut next = match &node.next {
                NextNode::HitMiss { hit, miss } => vec![*hit, *miss],
                NextNode::PerAction(next) => next.clone(),
            };
            next.push(node.default_next);
            next
        }
    };
    next.into_iter().flatten().collect()
}

/// Returns the nodes of a control, each after the nodes that lead to it. Returns `None` if there is a cycle, if a
/// table occurs twice, or if there are too many nodes.
fn order(program: &Program, start: Option<NodeId>) -> Option<Vec<NodeId>> {
    let nodes = &program.ir().nodes;
    let order = topological(start, |node| successors(&nodes[node.index()], program))?;
    let mut tables = BTreeSet::new();
    let mut is_new = |node: &NodeId| match &nodes[node.index()] {
        Node::Table(table) => tables.insert(*table),
        _ => true,
    };
    (order.len() <= NODES_MAX && order.iter().all(&mut is_new)).then_some(order)
}

impl<'p> Follower<'p> {
    fn follow(&mut self, order: &[NodeId]) {
        let program = self.program;
        let ir = program.ir();
        let mut before: HashMap<NodeId, Values<'p>> = HashMap::new();
        let nothing = Inputs::nothing();
        for node in order {
            let mut values = before.remove(node).unwrap_or_else(|| Values::new(ir));
            match &ir.nodes[node.index()] {
                Node::If { condition, .. } => {
                    let decided = values.truth(condition, &nothing);
                    values.reached = values.reached.and(&decided);
                }
                Node::Call { action, .. } => self.action(&mut values, *action, &nothing, true),
                Node::Table(table) => self.table(&mut values, *table),
            }
            for next in successors(&ir.nodes[node.index()], program) {
                match before.get_mut(&next) {
                    Some(other) => other.join(&values),
                    None => {
                        before.insert(next, values.clone());
                    }
                }
            }
        }
    }

    fn table(&mut self, values: &mut Values<'p>, id: TableId) {
        let ir = self.program.ir();
        let node = &ir.table_nodes[id.index()];
        let Some(info) = self.program.table_info(id) else {
            return;
        };
        let key = self.key(values, info, node);
        let is_known = key.other.variables().is_some();
        self.keys.insert(id, key);
        let choice = node.profile.is_some_and(|profile| {
            let declared = &ir.action_profiles[profile.index()];
            declared.selector.is_some()
        });
        let found = if is_known && !choice {
            Inputs::of(Variable::Found(id))
        } else {
            Inputs::anything()
        };
        values.reached = values.reached.and(&found);
        if let Some(meter) = &node.meter {
            values.lose(meter.result);
        }
        let mut actions = runnable(self.program, id);
        if let Some(default) = &ir.table_inits[id.index()].default
            && position_of(self.program, info, default.action).is_none()
        {
            actions.push(default.action);
        }
        // If there are several actions, only one runs.
        let surely = actions.len() == 1 && info.key.is_empty();
        for action in actions {
            self.action(values, action, &found, surely);
        }
    }

    fn key(&self, values: &Values<'p>, info: &TableInfo, node: &TableNode) -> Key {
        let ir = self.program.ir();
        let (mut direct, mut other) = (Vec::new(), Inputs::nothing());
        for (position, (source, field)) in node.key.iter().zip(&info.key).enumerate() {
            let Expr::Field(read) = source.value else {
                other = other.and(&values.number(&source.value, &Inputs::nothing()));
                continue;
            };
            let declared = &ir.fields[read.index()];
            if !ir.headers[declared.header.index()].metadata {
                other = other.and(&values.variable(Variable::Valid(declared.header)));
            }
            let variable = Variable::Field(read);
            let inputs = values.variable(variable);
            let is_same = declared.bits == field.width_bits && !declared.signed;
            if values.is_untouched(variable) && is_same && inputs.variables().is_some() {
                direct.push((read, position));
            } else {
                other = other.and(&inputs);
            }
        }
        Key { direct, other }
    }

    fn action(&self, values: &mut Values<'p>, action: ActionId, args: &Inputs, surely: bool) {
        let primitives = &self.program.ir().actions[action.index()].primitives;
        let jumps = primitives
            .iter()
            .any(|it| matches!(it, Primitive::Jump(_) | Primitive::JumpIfZero(..)));
        if !jumps {
            for primitive in primitives {
                values.primitive(primitive, args, surely);
            }
            return;
        }
        // Repeats until the values no longer change, because a jump may lead back to an earlier primitive.
        let reached = values.reached.clone();
        loop {
            let before = values.clone();
            for primitive in primitives {
                if let Primitive::JumpIfZero(value, _) = primitive {
                    values.reached = values.reached.and(&values.number(value, args));
                }
                values.primitive(primitive, args, false);
            }
            if values.is_as(&before) {
                break;
            }
        }
        values.reached = reached;
    }

    fn plan(self, layout: &Layout) -> Option<FlowPlan> {
        let cost = |table: &TableId| {
            let info = self.program.table_info(*table);
            let kinds = info.map_or(&[][..], |info| &info.key);
            let is = |wanted: &dyn Fn(MatchKind) -> bool| kinds.iter().any(|it| wanted(it.kind));
            match (
                is(&|kind| !matches!(kind, MatchKind::Exact | MatchKind::Lpm)),
                is(&|kind| kind == MatchKind::Lpm),
            ) {
                (true, _) => TERNARY_COST,
                (_, true) => LPM_COST,
                _ => EXACT_COST,
            }
        };
        let keys = self.keys.iter();
        let mut tables: Vec<TableId> = keys
            .filter(|(_, key)| key.other.variables().is_some())
            .filter(|(_, key)| !key.direct.is_empty() || key.other != Inputs::nothing())
            .map(|(table, _)| *table)
            .collect();
        tables.sort_by_key(|table| std::cmp::Reverse(cost(table)));
        let mut inputs: BTreeMap<Variable, Looked> = BTreeMap::new();
        let (mut cached, mut added) = (Vec::new(), BTreeSet::new());
        for table in tables {
            let (mut more, mut with) = (inputs.clone(), added.clone());
            add(&mut more, &self.keys, table, &mut with);
            if shape(layout, &more).words() <= KEY_WORDS_MAX {
                (inputs, added) = (more, with);
                cached.push(table);
            }
        }
        let gain: u32 = cached.iter().map(cost).sum();
        let n_inputs =
            u32::try_from(inputs.len()).expect("a control reads fewer than 2^32 variables");
        let cost = CACHE_COST + n_inputs.saturating_mul(INPUT_COST);
        // Debug builds make every possible cache, so that tests run them all.
        let is_worth = gain > cost || cfg!(debug_assertions);
        if cached.is_empty() || !is_worth {
            return None;
        }
        let shape = shape(layout, &inputs);
        // Without inputs, the tables find the same entries for every packet, and a cache would have no key.
        if shape.words() == 0 {
            return None;
        }
        let inputs = inputs
            .into_iter()
            .filter_map(|(variable, looked)| match variable {
                Variable::Field(field) => Some((Input::Field(field), looked)),
                Variable::Valid(header) => Some((Input::Valid(header), looked)),
                Variable::Found(_) => None,
            });
        Some(FlowPlan {
            inputs: inputs.collect(),
            shape,
            tables: cached,
        })
    }
}

/// Adds the inputs of a table's key. If the key depends on the entry that another table found, adds
/// the inputs of that table's key, too.
fn add(
    inputs: &mut BTreeMap<Variable, Looked>,
    keys: &BTreeMap<TableId, Key>,
    table: TableId,
    added: &mut BTreeSet<TableId>,
) {
    let Some(key) = keys.get(&table).filter(|_| added.insert(table)) else {
        return;
    };
    for (field, position) in &key.direct {
        let looked = inputs.entry(Variable::Field(*field));
        match looked.or_insert_with(|| Looked::Keys(Vec::new())) {
            Looked::Keys(keys) => keys.push((table, *position)),
            Looked::Whole => {}
        }
    }
    for variable in key.other.variables().unwrap_or_default() {
        match variable {
            Variable::Found(other) => add(inputs, keys, *other, added),
            Variable::Field(_) | Variable::Valid(_) => {
                inputs.insert(*variable, Looked::Whole);
            }
        }
    }
}

fn shape(layout: &Layout, inputs: &BTreeMap<Variable, Looked>) -> KeyShape {
    let widths: Vec<u32> = inputs
        .keys()
        .map(|variable| match variable {
            Variable::Field(field) => layout.field(*field).bits,
            Variable::Valid(_) | Variable::Found(_) => 1,
        })
        .collect();
    KeyShape::new(&widths)
}
