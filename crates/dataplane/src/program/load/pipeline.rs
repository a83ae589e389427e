//! Conditions and the control graph.

use std::collections::HashMap;

use bmv2_json as json;

use super::{Context, Load, Loader, index_u32, source_line};
use crate::{
    ActionId,
    program::ir::{NextNode, Node, NodeId},
};

/// Nodes of one control, by name.
pub(super) type NodeNames<'a> = HashMap<&'a str, NodeId>;

impl<'a> Loader<'a> {
    pub(super) fn pipelines(&mut self) -> Load {
        for name in ["ingress", "egress"] {
            let context = Context::new("pipeline", name);
            let Some(pipeline) = self.json.pipelines.iter().find(|p| p.name == name) else {
                return context.fail("not found");
            };
            let start = self.pipeline(&context, pipeline)?;
            if name == "ingress" {
                self.ir.ingress = start;
            } else {
                self.ir.egress = start;
            }
        }
        self.check_acyclic()
    }

    fn pipeline(
        &mut self,
        context: &Context,
        pipeline: &'a json::Pipeline,
    ) -> Load<Option<NodeId>> {
        let mut names = NodeNames::new();
        let first = self.ir.nodes.len();
        let declared = pipeline
            .tables
            .iter()
            .map(|table| table.name.as_str())
            .chain(
                pipeline
                    .conditionals
                    .iter()
                    .map(|conditional| conditional.name.as_str()),
            )
            .chain(pipeline.action_calls.iter().map(|call| call.name.as_str()));
        for (offset, name) in declared.enumerate() {
            if names
                .insert(name, NodeId(index_u32(first + offset)))
                .is_some()
            {
                return context.fail(format!("two nodes are named \"{name}\""));
            }
        }
        for table in &pipeline.tables {
            let table = self.table(table, &names)?;
            self.ir.nodes.push(Node::Table(table));
        }
        for conditional in &pipeline.conditionals {
            let context = Context::new("conditional", &conditional.name);
            let node = Node::If {
                name: conditional.source_info.as_ref().map_or_else(
                    || conditional.name.clone(),
                    |source| source.source_fragment.clone(),
                ),
                line: source_line(&conditional.source_info),
                condition: self.truth(&context, &conditional.expression)?,
                yes: next(&context, &names, conditional.true_next.as_deref())?,
                no: next(&context, &names, conditional.false_next.as_deref())?,
            };
            self.ir.nodes.push(node);
        }
        for call in &pipeline.action_calls {
            let context = Context::new("action call", &call.name);
            let action = self.action_by_id(&context, call.action_id)?;
            if !self.actions[action.index()].params.is_empty() {
                return context.fail("the action has parameters");
            }
            let next = next(&context, &names, call.next_node.as_deref())?;
            self.ir.nodes.push(Node::Call { action, next });
        }
        next(context, &names, pipeline.init_table.as_deref())
    }

    pub(super) fn action_by_id(&self, context: &Context, id: u32) -> Load<ActionId> {
        let action = self.names.actions.get(&id).copied();
        action.ok_or_else(|| context.error(format!("unknown action id {id}")))
    }

    /// A control that comes back to a node would never end.
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
                match self.successors(node).get(branch) {
                    Some(next) => {
                        path.push((node, branch + 1));
                        if let Some(next) = next {
                            if marks[next.index()] == Mark::Open {
                                return Context::new("control graph", &self.node_name(*next))
                                    .fail("comes back to this node");
                            }
                            path.push((next.index(), 0));
                        }
                    }
                    None => marks[node] = Mark::Done,
                }
            }
        }
        Ok(())
    }

    pub(super) fn successors(&self, node: usize) -> Vec<Option<NodeId>> {
        match &self.ir.nodes[node] {
            Node::If { yes, no, .. } => vec![*yes, *no],
            Node::Call { next, .. } => vec![*next],
            Node::Table(table) => {
                let table = &self.ir.table_nodes[table.index()];
                match &table.next {
                    NextNode::HitMiss { hit, miss } => vec![*hit, *miss, table.default_next],
                    NextNode::PerAction(next) => {
                        next.iter().copied().chain([table.default_next]).collect()
                    }
                }
            }
        }
    }

    fn node_name(&self, node: NodeId) -> String {
        match &self.ir.nodes[node.index()] {
            Node::Table(table) => self.tables[table.index()].name.clone(),
            Node::If { name, .. } => name.clone(),
            Node::Call { action, .. } => self.actions[action.index()].name.clone(),
        }
    }
}

pub(super) fn next(
    context: &Context,
    names: &NodeNames<'_>,
    name: Option<&str>,
) -> Load<Option<NodeId>> {
    match name {
        Some(name) => Ok(Some(context.find(names, "next node", name)?)),
        None => Ok(None),
    }
}
