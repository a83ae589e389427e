//! The control graph: nodes by name, their successors, and which tables are the compiler's own.

use std::collections::{HashMap, HashSet};

use bmv2_json::{Pipeline, Program, Table};

/// A node of a pipeline, as a position in its list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    Table(usize),
    If(usize),
    Call(usize),
}

/// The nodes of a pipeline.
#[derive(Debug)]
pub struct Graph {
    pub nodes: HashMap<String, Node>,
}

/// Which names a control plane sees.
#[derive(Debug, Default, Clone)]
pub struct Visible {
    /// Tables, where a P4Info says them; else a table's look decides.
    pub tables: Option<HashSet<String>>,
    pub actions: Option<HashSet<String>>,
}

impl Visible {
    /// Whether a compiler made the table to run code between tables: it has no key, always runs the
    /// same action without arguments, and a control plane cannot name it.
    pub fn is_internal(&self, table: &Table) -> bool {
        let runs_one = table.default_entry.as_ref().is_some_and(|default| {
            default.action_const
                && default.action_entry_const
                && default.action_data.is_empty()
                && table.action_ids == [default.action_id]
        });
        let unseen = match &self.tables {
            Some(seen) => !seen.contains(&table.name),
            // Tables of P4_16 programs have their control in front.
            None => table.name.starts_with("tbl_") && !table.name.contains('.'),
        };
        let plain = table.key.is_empty()
            && table.kind == "simple"
            && !table.with_counters
            && !table.support_timeout
            && table.direct_meters.is_none()
            && table.entries.as_ref().is_none_or(Vec::is_empty);
        runs_one && unseen && plain
    }
}

/// The successor of an internal table.
pub fn only_next(table: &Table) -> Option<String> {
    match table.next_tables.get("__MISS__") {
        // The default action runs on a miss.
        Some(next) => next.clone(),
        None => match table.actions.first() {
            Some(action) => table.next_tables.get(action).cloned().flatten(),
            None => table.base_default_next.clone(),
        },
    }
}

impl Graph {
    pub fn new(pipeline: &Pipeline) -> Self {
        let mut nodes = HashMap::new();
        for (at, table) in pipeline.tables.iter().enumerate() {
            nodes.insert(table.name.clone(), Node::Table(at));
        }
        for (at, conditional) in pipeline.conditionals.iter().enumerate() {
            nodes.insert(conditional.name.clone(), Node::If(at));
        }
        for (at, call) in pipeline.action_calls.iter().enumerate() {
            nodes.insert(call.name.clone(), Node::Call(at));
        }
        Self { nodes }
    }

    pub fn node(&self, name: Option<&String>) -> Option<Node> {
        self.nodes.get(name?).copied()
    }

    /// The names that a node's edges lead to.
    pub fn successors(pipeline: &Pipeline, node: Node) -> Vec<Option<&String>> {
        match node {
            Node::Table(at) => {
                let table = &pipeline.tables[at];
                let edges = table.next_tables.values().map(Option::as_ref);
                edges.chain([table.base_default_next.as_ref()]).collect()
            }
            Node::If(at) => {
                let conditional = &pipeline.conditionals[at];
                vec![
                    conditional.true_next.as_ref(),
                    conditional.false_next.as_ref(),
                ]
            }
            Node::Call(at) => vec![pipeline.action_calls[at].next_node.as_ref()],
        }
    }

    /// The nodes that are reached, each before its successors; none where they run in a circle.
    pub fn order(&self, pipeline: &Pipeline) -> Option<Vec<Node>> {
        let mut done: HashSet<Node> = HashSet::new();
        let mut open: HashSet<Node> = HashSet::new();
        let mut order = Vec::new();
        let start = self.node(pipeline.init_table.as_ref());
        let mut stack: Vec<(Node, Vec<Node>)> = Vec::new();
        let enter = |node: Node| (node, self.followers(pipeline, node));
        if let Some(start) = start {
            open.insert(start);
            stack.push(enter(start));
        }
        while let Some((node, rest)) = stack.last_mut() {
            match rest.pop() {
                Some(next) if open.contains(&next) => return None,
                Some(next) if !done.contains(&next) => {
                    open.insert(next);
                    stack.push(enter(next));
                }
                Some(_) => {}
                None => {
                    let node = *node;
                    open.remove(&node);
                    done.insert(node);
                    order.push(node);
                    stack.pop();
                }
            }
        }
        order.reverse();
        Some(order)
    }

    fn followers(&self, pipeline: &Pipeline, node: Node) -> Vec<Node> {
        Self::successors(pipeline, node)
            .into_iter()
            .filter_map(|name| self.node(name))
            .collect()
    }

    /// The number of edges to each node that has any, including the entry's. Unreachable nodes
    /// count too: a table of the program stays, and so do the nodes to which it leads.
    pub fn entries(&self, pipeline: &Pipeline) -> HashMap<Node, usize> {
        let mut counts: HashMap<Node, usize> = HashMap::new();
        let start = self.node(pipeline.init_table.as_ref());
        let edges = self
            .nodes
            .values()
            .flat_map(|node| self.followers(pipeline, *node));
        for node in start.into_iter().chain(edges) {
            *counts.entry(node).or_default() += 1;
        }
        counts
    }
}

/// Positions of actions by their ids.
pub fn action_positions(program: &Program) -> HashMap<u32, usize> {
    program
        .actions
        .iter()
        .enumerate()
        .map(|(at, action)| (action.id, at))
        .collect()
}

/// The ids of a table's actions; old files name them only.
pub fn table_actions(program: &Program, table: &Table) -> Vec<u32> {
    if !table.action_ids.is_empty() {
        return table.action_ids.clone();
    }
    table
        .actions
        .iter()
        .filter_map(|name| {
            program
                .actions
                .iter()
                .find(|action| action.name == *name)
                .map(|action| action.id)
        })
        .collect()
}
