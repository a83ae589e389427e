//! Generates code for controls. The nodes of a control's graph are conditions, tables and actions.

use dataplane::{
    ActionId, Program, TableId,
    engine::ir::{NextNode, Node, NodeId},
};

use super::{
    emit::{BODY, Emit, Emitted, Kind, SCRATCH, SLOT},
    layout::Word,
};
use crate::{
    asm::{Alu, Jump, Label, Size, reg::*},
    image::{ACTION_NONE, Body, Index},
};

fn successors(program: &Program, node: &Node) -> Vec<NodeId> {
    match node {
        Node::If { yes, no, .. } => [*yes, *no].into_iter().flatten().collect(),
        Node::Call { next, .. } => next.iter().copied().collect(),
        Node::Table(table) => {
            let node = &program.ir().table_nodes[table.index()];
            let next = match &node.next {
                NextNode::HitMiss { hit, miss } => vec![*hit, *miss],
                NextNode::PerAction(next) => {
                    let mut next = next.clone();
                    next.push(node.default_next);
                    next
                }
            };
            next.into_iter().flatten().collect()
        }
    }
}

/// Returns the nodes of a control that can be reached from `start`. They are in topological order if the graph has no
/// loops.
pub(super) fn reachable(program: &Program, start: Option<NodeId>) -> Vec<NodeId> {
    let nodes = &program.ir().nodes;
    let mut is_seen = vec![false; nodes.len()];
    let mut finished = Vec::new();
    // Depth first: a node is finished after all nodes that follow it.
    let mut stack: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
    let mut enter = |node: NodeId, stack: &mut Vec<_>| {
        if !std::mem::replace(&mut is_seen[node.index()], true) {
            stack.push((node, successors(program, &nodes[node.index()])));
        }
    };
    if let Some(start) = start {
        enter(start, &mut stack);
    }
    while let Some((node, rest)) = stack.last_mut() {
        let node = *node;
        match rest.pop() {
            Some(next) => enter(next, &mut stack),
            None => {
                finished.push(node);
                stack.pop();
            }
        }
    }
    finished.reverse();
    finished
}

pub(super) fn tables_of(program: &Program, start: Option<NodeId>) -> Vec<TableId> {
    let nodes = reachable(program, start).into_iter();
    nodes
        .filter_map(|node| match &program.ir().nodes[node.index()] {
            Node::Table(table) => Some(*table),
            _ => None,
        })
        .collect()
}

/// Returns the actions of a table: the actions in its list, and the default action that the program sets.
pub(super) fn actions_of(program: &Program, table: TableId) -> Vec<ActionId> {
    let info = program.table_info(table);
    let mut actions = info.map_or_else(Vec::new, |info| info.actions.clone());
    let init = &program.ir().table_inits[table.index()];
    let default = init.default.as_ref().map(|default| default.action);
    actions.extend(default.filter(|default| !actions.contains(default)));
    actions
}

impl Emit<'_> {
    /// Generates the code of a control. The code jumps to `end` when the control ends.
    pub(super) fn control(&mut self, start: Option<NodeId>, end: Label) -> Emitted<()> {
        let order = reachable(self.program, start);
        let n_nodes = self.ir.nodes.len();
        let labels: Vec<Label> = (0..n_nodes).map(|_| self.asm.label()).collect();
        let at = |node: Option<NodeId>| node.map_or(end, |node| labels[node.index()]);
        let mut positions = vec![None; n_nodes];
        for (at, node) in order.iter().enumerate() {
            positions[node.index()] = Some(at);
        }
        let position = |node: NodeId| positions[node.index()];
        for node in &order {
            let next = successors(self.program, &self.ir.nodes[node.index()]);
            if next.iter().any(|next| position(*next) <= position(*node)) {
                return Err("a control with a loop".into());
            }
        }
        if start.is_none() {
            self.asm.jump(end);
        }
        for node in &order {
            self.asm.place(labels[node.index()]);
            let ir = self.ir;
            match &ir.nodes[node.index()] {
                Node::If {
                    name,
                    line,
                    condition,
                    yes,
                    no,
                } => {
                    self.note_line(&format!("if {name}"), line.as_ref());
                    let (yes, no) = (at(*yes), at(*no));
                    let place = format!("condition {name}");
                    self.try_or_punt(place, |emit| {
                        emit.jump_if(condition, false, no, R1)?;
                        emit.asm.jump(yes);
                        Ok(())
                    })?;
                }
                Node::Call { action, next } => {
                    let next = at(*next);
                    self.call(*action, end)?;
                    self.asm.jump(next);
                }
                Node::Table(table) => self.apply(*table, end, &at)?,
            }
        }
        Ok(())
    }

    /// Generates code with `emit`. If `emit` fails, generates a punt instead (the packet is left to the engine). The
    /// program for multicast copies cannot punt, so while that program is compiled, this function fails if `emit`
    /// fails.
    pub(super) fn try_or_punt(
        &mut self,
        place: String,
        emit: impl FnOnce(&mut Self) -> Emitted<()>,
    ) -> Emitted<()> {
        let (mark, journal, spills) = (self.asm.mark(), self.journal.len(), self.spills);
        let Err(reason) = emit(self) else {
            return Ok(());
        };
        self.asm.rollback(mark);
        self.journal.truncate(journal);
        self.spills = spills;
        self.leave(place, reason.clone());
        if self.kind == Kind::Copies {
            return Err(reason);
        }
        let punt = self.ends.punt;
        self.asm.jump(punt);
        Ok(())
    }

    /// Generates code that runs an action, and that ends the control if the action exits.
    fn call(&mut self, action: ActionId, end: Label) -> Emitted<()> {
        let info = self.program.action_info(action);
        let name = info.map_or_else(String::new, |info| info.name.clone());
        let line = self.ir.actions[action.index()].line.as_ref();
        self.note_line(&format!("action {name}"), line);
        let place = format!("action \"{name}\"");
        self.try_or_punt(place, |emit| {
            emit.action(action)?;
            if emit.has_exit(action) {
                emit.load_word(R1, Word::Exited);
                emit.asm.jump_if_imm(Jump::Ne, R1, 0, end);
            }
            Ok(())
        })
    }

    fn apply(
        &mut self,
        table: TableId,
        end: Label,
        at: &impl Fn(Option<NodeId>) -> Label,
    ) -> Emitted<()> {
        let (ir, memory) = (self.ir, self.memory);
        let node = &ir.table_nodes[table.index()];
        let info = self.program.table_info(table).ok_or("an unknown table")?;
        self.note_line(&format!("table {}", info.name), node.line.as_ref());
        let layout = &memory.tables[table.index()];
        if layout.index == Index::Left {
            // The reason why packets that reach this table are punted was recorded when the maps were planned.
            let punt = self.ends.punt;
            self.asm.jump(punt);
            return match self.kind {
                Kind::Ports => Ok(()),
                Kind::Copies => Err(format!("the table \"{}\" is left to the engine", info.name)),
            };
        }
        let place = format!("table \"{}\"", info.name);
        let mut is_found = false;
        self.try_or_punt(place, |emit| {
            emit.find_body(table, layout)?;
            let entry = emit.journal_entry(memory.counters.tables[table.index()])?;
            emit.asm.mov(R1, BODY);
            emit.asm.alu_imm(Alu::Add, R1, 1);
            emit.asm.store(Size::B4, SCRATCH, entry, R1);
            let meter = memory.direct_meters[table.index()].as_ref();
            if let (Some(layout), Some(meter)) = (meter, ir.direct_meter(table)) {
                emit.direct_meter(layout, meter)?;
            }
            is_found = true;
            Ok(())
        })?;
        if !is_found {
            return Ok(());
        }
        // R1 is the action's number.
        self.asm.load(Size::B4, R1, SLOT, Body::ACTION as i16);
        let after: Vec<Label> = layout.actions.iter().map(|_| self.asm.label()).collect();
        let none = self.asm.label();
        for (number, label) in after.iter().enumerate() {
            self.asm.jump_if_imm(Jump::Eq, R1, number as i32, *label);
        }
        self.asm
            .jump32_if_imm(Jump::Eq, R1, ACTION_NONE.cast_signed(), none);
        let punt = self.ends.punt;
        self.asm.jump(punt);
        let go_on = |emit: &mut Self, position: Option<usize>| match &node.next {
            NextNode::HitMiss { hit, miss } => {
                if hit == miss {
                    emit.asm.jump(at(*hit))
                } else {
                    emit.asm.jump_if_imm(Jump::Eq, BODY, 0, at(*miss));
                    emit.asm.jump(at(*hit));
                }
            }
            NextNode::PerAction(next) => {
                let next = match position {
                    // The control ends after an action that has no entry in `next`.
                    Some(position) => next.get(position).copied().flatten(),
                    None => node.default_next,
                };
                emit.asm.jump(at(next));
            }
        };
        for (position, (action, label)) in layout.actions.iter().zip(after).enumerate() {
            self.asm.place(label);
            self.call(*action, end)?;
            go_on(self, Some(position));
        }
        self.asm.place(none);
        go_on(self, None);
        Ok(())
    }
}
