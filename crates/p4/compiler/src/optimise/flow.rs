//! Simplifies the control graph: removes branches and code without effect, and joins consecutive nodes.
//!
//! `flow` redirects edges past branches whose condition is constant or whose successors are the same, and past internal
//! tables (made by a compiler to run code between tables) that have no code. It removes unreachable branches and
//! internal tables. It joins an internal table with its only successor if no other node leads there. `calls` turns
//! internal tables into direct action calls, which look nothing up. Both passes are sound because an operand has no
//! side effects, an internal table always runs its one action, no other node has that action, and code with an `exit`
//! is never joined with its successor. A table that a control plane can name stays even if it is unreachable.

use bmv2_json::{ActionCall, Pipeline, Program, Value};

use super::code;
use super::graph::{self, Graph, Node, Visible};
use super::{HashMap, HashSet};

pub fn run(program: &mut Program, visible: &Visible) -> bool {
    let mut changed = false;
    for at in 0..program.pipelines.len() {
        // The pipeline is taken out of the program, because the functions read the program and change the pipeline.
        let mut pipeline = program.pipelines.remove(at);
        changed |= redirect(program, &mut pipeline, visible);
        changed |= sweep(&mut pipeline, visible);
        let mut joined = false;
        while join(program, &mut pipeline, visible) {
            joined = true;
        }
        if joined {
            sweep(&mut pipeline, visible);
        }
        changed |= joined;
        program.pipelines.insert(at, pipeline);
    }
    changed
}

/// Where edges to nodes without effect finally lead.
type Ends = HashMap<Node, Option<String>>;

/// Returns the node to which a node without effect finally leads; `None` if the node has an effect.
fn past(
    graph: &Graph,
    pipeline: &Pipeline,
    node: Node,
    visible: &Visible,
    empty: &HashSet<u32>,
    ends: &Ends,
) -> Option<Option<String>> {
    let end = |next: &Option<String>| {
        let known = graph.node(next.as_ref()).and_then(|node| ends.get(&node));
        known.unwrap_or(next).clone()
    };
    match node {
        Node::If(at) => {
            let conditional = &pipeline.conditionals[at];
            match &conditional.expression {
                Value::Bool(true) => Some(end(&conditional.true_next)),
                Value::Bool(false) => Some(end(&conditional.false_next)),
                _ => {
                    let (yes, no) = (end(&conditional.true_next), end(&conditional.false_next));
                    (yes == no).then_some(yes)
                }
            }
        }
        Node::Table(at) => {
            let table = &pipeline.tables[at];
            let id = table.default_entry.as_ref()?.action_id;
            let is_nothing = visible.is_internal(table) && empty.contains(&id);
            is_nothing.then(|| end(&graph::only_next(table)))
        }
        Node::Call(at) => {
            let call = &pipeline.action_calls[at];
            empty
                .contains(&call.action_id)
                .then(|| end(&call.next_node))
        }
    }
}

fn each_edge(pipeline: &mut Pipeline, change: &mut dyn FnMut(&mut Option<String>)) {
    change(&mut pipeline.init_table);
    for table in &mut pipeline.tables {
        table.next_tables.values_mut().for_each(&mut *change);
        change(&mut table.base_default_next);
    }
    for conditional in &mut pipeline.conditionals {
        change(&mut conditional.true_next);
        change(&mut conditional.false_next);
    }
    for call in &mut pipeline.action_calls {
        change(&mut call.next_node);
    }
}

/// Redirects edges past nodes without effect, beginning at the end, so that each node's own edges are already final.
/// Returns whether any edge changed.
fn redirect(program: &Program, pipeline: &mut Pipeline, visible: &Visible) -> bool {
    let graph = Graph::new(pipeline);
    let Some(order) = graph.order() else {
        return false;
    };
    let actions = program.actions.iter();
    let empty = actions.filter(|action| action.primitives.is_empty());
    let empty: HashSet<u32> = empty.map(|action| action.id).collect();
    let mut ends = Ends::default();
    // An unreachable table that the program declares stays, with its edges. Hence the ends of unreachable nodes are
    // computed too.
    let reached: HashSet<Node> = order.iter().copied().collect();
    let others = graph.nodes.values().filter(|node| !reached.contains(node));
    let mut others: Vec<Node> = others.copied().collect();
    others.sort_unstable();
    for node in order.iter().rev().chain(others.iter().rev()) {
        if let Some(end) = past(&graph, pipeline, *node, visible, &empty, &ends) {
            ends.insert(*node, end);
        }
    }
    let mut changed = false;
    each_edge(pipeline, &mut |edge| {
        if let Some(end) = graph.node(edge.as_ref()).and_then(|node| ends.get(&node))
            && edge != end
        {
            edge.clone_from(end);
            changed = true;
        }
    });
    changed
}

/// Returns the action and the successor of a node that no control plane sees.
pub fn internal(
    pipeline: &Pipeline,
    node: Node,
    visible: &Visible,
) -> Option<(u32, Option<String>)> {
    match node {
        Node::Table(at) => {
            let table = &pipeline.tables[at];
            let id = table.default_entry.as_ref()?.action_id;
            visible
                .is_internal(table)
                .then(|| (id, graph::only_next(table)))
        }
        Node::Call(at) => {
            let call = &pipeline.action_calls[at];
            Some((call.action_id, call.next_node.clone()))
        }
        Node::If(_) => None,
    }
}

fn set_next(pipeline: &mut Pipeline, node: Node, next: Option<String>) {
    match node {
        Node::Table(at) => {
            let table = &mut pipeline.tables[at];
            table.base_default_next.clone_from(&next);
            table
                .next_tables
                .values_mut()
                .for_each(|edge| edge.clone_from(&next));
        }
        Node::Call(at) => pipeline.action_calls[at].next_node = next,
        Node::If(_) => {}
    }
}

pub fn uses(program: &Program, pipeline: &Pipeline) -> HashMap<u32, usize> {
    let mut uses: HashMap<u32, usize> = HashMap::default();
    let others = program
        .pipelines
        .iter()
        .filter(|it| it.name != pipeline.name);
    for pipeline in others.chain([pipeline]) {
        let tables = pipeline.tables.iter();
        let ids = tables.flat_map(|table| graph::table_actions(program, table));
        let called = pipeline.action_calls.iter().map(|call| call.action_id);
        ids.chain(called)
            .for_each(|id| *uses.entry(id).or_default() += 1);
    }
    uses
}

/// Joins pairs of consecutive nodes that only run an action, where that is possible. Returns whether a pair was joined.
fn join(program: &mut Program, pipeline: &mut Pipeline, visible: &Visible) -> bool {
    let graph = Graph::new(pipeline);
    let Some(order) = graph.order() else {
        return false;
    };
    let entries = graph.entries();
    let uses = uses(program, pipeline);
    let positions = graph::action_positions(program);
    let mut joined = false;
    let mut gone: HashSet<Node> = HashSet::default();
    // The walk begins at the end, so that it joins a whole chain.
    for node in order.iter().rev() {
        let Some((first, next)) = internal(pipeline, *node, visible) else {
            continue;
        };
        let Some(follower) = graph
            .node(next.as_ref())
            .filter(|next| !gone.contains(next))
        else {
            continue;
        };
        let Some((second, after)) = internal(pipeline, follower, visible) else {
            continue;
        };
        // An internal table may have several edges, which all lead to the same node.
        let own = Graph::successors(pipeline, *node)
            .into_iter()
            .filter(|edge| *edge == next.as_ref())
            .count();
        let alone = entries.get(&follower) == Some(&own);
        let unshared = [first, second].iter().all(|id| uses.get(id) == Some(&1));
        let (Some(one), Some(two)) = (positions.get(&first), positions.get(&second)) else {
            continue;
        };
        let leaves = program.actions[*one]
            .primitives
            .iter()
            .any(|primitive| primitive.op == "exit");
        let regular = [one, two]
            .iter()
            .all(|at| code::is_regular(&program.actions[**at].primitives));
        let seen = visible.actions.as_ref();
        let named = seen.is_some_and(|seen| seen.contains(&program.actions[*one].name));
        if !alone || !unshared || leaves || !regular || named {
            continue;
        }
        let behind = program.actions[*two].primitives.clone();
        code::append(&mut program.actions[*one].primitives, &behind);
        set_next(pipeline, *node, after);
        gone.insert(follower);
        joined = true;
    }
    remove(pipeline, &gone);
    joined
}

fn remove(pipeline: &mut Pipeline, gone: &HashSet<Node>) {
    let mut at = 0..;
    pipeline
        .tables
        .retain(|_| !gone.contains(&Node::Table(at.next().unwrap_or_default())));
    let mut at = 0..;
    pipeline
        .conditionals
        .retain(|_| !gone.contains(&Node::If(at.next().unwrap_or_default())));
    let mut at = 0..;
    pipeline
        .action_calls
        .retain(|_| !gone.contains(&Node::Call(at.next().unwrap_or_default())));
}

/// Removes unreachable nodes, except tables that the program declares and nodes to which such tables lead. Returns
/// whether any node was removed.
fn sweep(pipeline: &mut Pipeline, visible: &Visible) -> bool {
    let graph = Graph::new(pipeline);
    let Some(order) = graph.order() else {
        return false;
    };
    let mut reached: HashSet<Node> = order.into_iter().collect();
    // A table that stays needs the targets of its edges.
    let mut open: Vec<Node> = graph
        .nodes
        .values()
        .copied()
        .filter(|node| match node {
            Node::Table(at) => !visible.is_internal(&pipeline.tables[*at]),
            _ => false,
        })
        .collect();
    while let Some(node) = open.pop() {
        if reached.insert(node) || matches!(node, Node::Table(_)) {
            let next = graph.followers(node).iter().copied();
            open.extend(next.filter(|next| !reached.contains(next)));
        }
    }
    let gone: HashSet<Node> = graph
        .nodes
        .values()
        .copied()
        .filter(|node| !reached.contains(node))
        .collect();
    remove(pipeline, &gone);
    !gone.is_empty()
}

pub fn calls(program: &mut Program, visible: &Visible) -> bool {
    let without: HashSet<u32> = program
        .actions
        .iter()
        .filter(|action| action.runtime_data.is_empty())
        .map(|action| action.id)
        .collect();
    let mut next_id: u32 = program
        .pipelines
        .iter()
        .flat_map(|pipeline| &pipeline.action_calls)
        .map(|call| call.id + 1)
        .max()
        .unwrap_or(0);
    let mut changed = false;
    for pipeline in &mut program.pipelines {
        let mut kept = Vec::new();
        for table in std::mem::take(&mut pipeline.tables) {
            let id = table
                .default_entry
                .as_ref()
                .map(|default| default.action_id);
            match id.filter(|id| without.contains(id) && visible.is_internal(&table)) {
                Some(action_id) => {
                    pipeline.action_calls.push(ActionCall {
                        id: next_id,
                        action_id,
                        next_node: graph::only_next(&table),
                        source_info: table.source_info,
                        name: table.name,
                    });
                    next_id += 1;
                    changed = true;
                }
                None => kept.push(table),
            }
        }
        pipeline.tables = kept;
    }
    changed
}
