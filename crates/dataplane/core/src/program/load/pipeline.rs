//! Conditions and the control graph.

use std::collections::HashMap;

use super::{Context, Load, Loader, index_u32, source_line};
use crate::program::ir::{NextNode, Node, NodeId};

pub(super) type NodeNames<'a> = HashMap<&'a str, NodeId>;

impl Loader<'_> {
    pub(super) fn pipelines(&mut self) -> Load {
        self.ir.ingress = self.pipeline("ingress")?;
        self.ir.egress = self.pipeline("egress")?;
        self.check_acyclic()
    }

    fn pipeline(&mut self, name: &str) -> Load<Option<NodeId>> {
        let context = &Context::new("pipeline", name);
        let pipeline = self.json.pipelines.iter().find(|it| it.name == name);
        let pipeline = pipeline.ok_or_else(|| context.error("not found"))?;
        let mut names = NodeNames::new();
        let first = self.ir.nodes.len();
        let tables = pipeline.tables.iter().map(|table| &table.name);
        let conditionals = pipeline.conditionals.iter().map(|it| &it.name);
        let calls = pipeline.action_calls.iter().map(|call| &call.name);
        let declared = tables.chain(conditionals).chain(calls);
        for (name, id) in declared.zip(index_u32(first)..) {
            if names.insert(name, NodeId(id)).is_some() {
                return context.fail(format!("two nodes are named \"{name}\""));
            }
        }
        for table in &pipeline.tables {
            let table = self.table(table, &names)?;
            self.ir.nodes.push(Node::Table(table));
        }
        for conditional in &pipeline.conditionals {
            let context = Context::new("conditional", &conditional.name);
            let source = conditional.source_info.as_ref();
            let node = Node::If {
                name: source
                    .map_or(&conditional.name, |it| &it.source_fragment)
                    .clone(),
                line: source_line(&conditional.source_info),
                condition: self.at(&context).truth(&conditional.expression)?,
                yes: next(&context, &names, conditional.true_next.as_deref())?,
                no: next(&context, &names, conditional.false_next.as_deref())?,
            };
            self.ir.nodes.push(node);
        }
        for call in &pipeline.action_calls {
            let context = Context::new("action call", &call.name);
            let action = context.find_id(&self.names.actions, "action", call.action_id)?;
            if !self.actions[action.index()].params.is_empty() {
                return context.fail("the action has parameters");
            }
            let next = next(&context, &names, call.next_node.as_deref())?;
            self.ir.nodes.push(Node::Call { action, next });
        }
        next(context, &names, pipeline.init_table.as_deref())
    }

    /// Refuses a control with a cycle, which would never end.
    fn check_acyclic(&self) -> Load {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.ir.nodes.len()];
        for start in 0..self.ir.nodes.len() {
            let mut path = vec![(start, 0)];
            while let Some((node, branch)) = path.pop() {
                if branch == 0 && marks[node] != Mark::New {
                    continue;
                }
                marks[node] = Mark::Open;
                let Some(next) = self.successors(node).get(branch).copied() else {
                    marks[node] = Mark::Done;
                    continue;
                };
                path.push((node, branch + 1));
                if marks[next.index()] == Mark::Open {
                    let context = Context::new("control graph", self.node_name(next));
                    return context.fail("a path leads from this node back to it");
                }
                path.push((next.index(), 0));
            }
        }
        Ok(())
    }

    pub(super) fn successors(&self, node: usize) -> Vec<NodeId> {
        let next = match &self.ir.nodes[node] {
            Node::If { yes, no, .. } => vec![*yes, *no],
            Node::Call { next, .. } => vec![*next],
            Node::Table(table) => {
                let table = &self.ir.table_nodes[table.index()];
                let mut next = match &table.next {
                    NextNode::HitMiss { hit, miss } => vec![*hit, *miss],
                    NextNode::PerAction(next) => next.clone(),
                };
                next.push(table.default_next);
                next
            }
        };
        next.into_iter().flatten().collect()
    }

    fn node_name(&self, node: NodeId) -> &str {
        match &self.ir.nodes[node.index()] {
            Node::Table(table) => &self.tables[table.index()].name,
            Node::If { name, .. } => name,
            Node::Call { action, .. } => &self.actions[action.index()].name,
        }
    }
}

pub(super) fn next(
    context: &Context,
    names: &NodeNames<'_>,
    name: Option<&str>,
) -> Load<Option<NodeId>> {
    let next = name.map(|name| context.find(names, "next node", name));
    next.transpose()
}
