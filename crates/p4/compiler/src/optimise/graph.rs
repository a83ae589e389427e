//! The control graph: nodes by name, their successors, and which tables are the compiler's own.

use super::{HashMap, HashSet};
use bmv2_json::{Pipeline, Program, Table};

/// A node of a pipeline: its kind, and its position in the list of the nodes of this kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    Table(usize),
    If(usize),
    Call(usize),
}

/// The nodes of a pipeline, and the edges that the pipeline had when the graph was made.
#[derive(Debug)]
pub struct Graph {
    pub nodes: HashMap<String, Node>,
    start: Option<Node>,
    /// The successors of each node, at the index that [`Graph::place`] gives for the node.
    followers: Vec<Vec<Node>>,
    n_tables: usize,
    n_conditionals: usize,
}

/// The names that a control plane sees.
#[derive(Debug, Default, Clone)]
pub struct Visible {
    /// The tables of a P4Info. `None` without a P4Info; then a table's name and shape decide whether the control plane
    /// sees the table.
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
            // The name of a table in a P4_16 program begins with its control's name and a dot.
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

/// Returns the successor of an internal table.
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
        let mut nodes = HashMap::default();
        for (at, table) in pipeline.tables.iter().enumerate() {
            nodes.insert(table.name.clone(), Node::Table(at));
        }
        for (at, conditional) in pipeline.conditionals.iter().enumerate() {
            nodes.insert(conditional.name.clone(), Node::If(at));
        }
        for (at, call) in pipeline.action_calls.iter().enumerate() {
            nodes.insert(call.name.clone(), Node::Call(at));
        }
        let mut graph = Self {
            nodes,
            start: None,
            followers: Vec::new(),
            n_tables: pipeline.tables.len(),
            n_conditionals: pipeline.conditionals.len(),
        };
        let tables = (0..pipeline.tables.len()).map(Node::Table);
        let conditionals = (0..pipeline.conditionals.len()).map(Node::If);
        let calls = (0..pipeline.action_calls.len()).map(Node::Call);
        graph.followers = tables
            .chain(conditionals)
            .chain(calls)
            .map(|node| {
                let names = Self::successors(pipeline, node).into_iter();
                names.filter_map(|name| graph.node(name)).collect()
            })
            .collect();
        graph.start = graph.node(pipeline.init_table.as_ref());
        graph
    }

    fn place(&self, node: Node) -> usize {
        match node {
            Node::Table(at) => at,
            Node::If(at) => self.n_tables + at,
            Node::Call(at) => self.n_tables + self.n_conditionals + at,
        }
    }

    /// Returns the successors of a node. A successor occurs once for each edge that leads to it from the node.
    pub fn followers(&self, node: Node) -> &[Node] {
        &self.followers[self.place(node)]
    }

    pub fn node(&self, name: Option<&String>) -> Option<Node> {
        self.nodes.get(name?).copied()
    }

    /// Returns the names to which a node's edges lead.
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

    /// Returns the reachable nodes, each before its successors; `None` if nodes form a cycle.
    pub fn order(&self) -> Option<Vec<Node>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            No,
            Open,
            Done,
        }
        let mut seen = vec![Seen::No; self.followers.len()];
        let mut order = Vec::new();
        // A node, and how many of its followers are not yet visited.
        let mut stack: Vec<(Node, usize)> = Vec::new();
        let mut enter = self.start;
        loop {
            if let Some(node) = enter.take() {
                seen[self.place(node)] = Seen::Open;
                stack.push((node, self.followers(node).len()));
            }
            let Some((node, n_left)) = stack.last_mut() else {
                break;
            };
            if let Some(left) = n_left.checked_sub(1) {
                *n_left = left;
                let next = self.followers(*node)[left];
                match seen[self.place(next)] {
                    Seen::Open => return None,
                    Seen::No => enter = Some(next),
                    Seen::Done => {}
                }
            } else {
                seen[self.place(*node)] = Seen::Done;
                order.push(*node);
                stack.pop();
            }
        }
        order.reverse();
        Some(order)
    }

    /// Returns, for each node to which edges lead, the number of these edges. The pipeline's entry counts as an edge.
    /// Edges from unreachable nodes count too: a table of the program stays, and so do the nodes to which it leads.
    pub fn entries(&self) -> HashMap<Node, usize> {
        let mut counts: HashMap<Node, usize> = HashMap::default();
        for node in self.start.iter().chain(self.followers.iter().flatten()) {
            *counts.entry(*node).or_default() += 1;
        }
        counts
    }
}

pub fn action_positions(program: &Program) -> HashMap<u32, usize> {
    program
        .actions
        .iter()
        .enumerate()
        .map(|(at, action)| (action.id, at))
        .collect()
}

/// Returns the ids of a table's actions. Old files have only the actions' names.
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
