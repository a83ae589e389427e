//! Generates code for controls, with one basic block per node, and for actions, whose primitives may jump.

use std::{
    collections::{BTreeSet, HashMap},
    mem::offset_of,
};

use cranelift_codegen::ir::{Block, InstBuilder, Value, condcodes::IntCC, types};
use cranelift_frontend::Variable;
use dataplane::{
    ActionId, DropReason,
    engine::ir::{Node, NodeId, Primitive},
    limits,
};

use super::{Emit, coalesce, lanes, primitive::Flow};
use crate::{context::PassContext, flow::Capacity};

pub(super) struct Control {
    blocks: HashMap<NodeId, Block>,
    waiting: Vec<NodeId>,
    pub end: Block,
}

impl Control {
    pub(super) fn block(&mut self, emit: &mut Emit<'_, '_, '_>, node: Option<NodeId>) -> Block {
        let Some(node) = node else {
            return self.end;
        };
        *self.blocks.entry(node).or_insert_with(|| {
            self.waiting.push(node);
            emit.b.create_block()
        })
    }
}

struct Running {
    /// One basic block for each primitive that is a jump's target.
    leaders: HashMap<usize, Block>,
    after: Block,
    /// Counts the backward jumps.
    rounds: Option<Variable>,
    exited: Option<Variable>,
    /// The basic block where a packet continues when it leaves the control.
    end: Block,
}

impl Emit<'_, '_, '_> {
    /// Generates the code of a whole control, from its first node to its end. If the control has a flow cache, its code
    /// is generated twice, without the cache and with it. While the cache sleeps ([`Emit::while_asleep`]), a packet
    /// runs the code without the cache, and loses time only by the check whether the cache sleeps.
    pub(crate) fn control(&mut self, start: Option<NodeId>, capacity: Capacity) {
        let end = self.b.create_block();
        if let Some(cache) = self.flow_cache(start, capacity) {
            let awake = self.while_asleep(&cache);
            self.nodes(start, end);
            // Reports the constructs left to the interpreter only once, though the control's code is generated twice.
            let n_explained = self.unit.explained.len();
            self.begin(awake);
            self.begin_flow(cache);
            self.nodes(start, end);
            self.flow = None;
            self.unit.explained.truncate(n_explained);
        } else {
            self.nodes(start, end);
        }
        self.begin(end);
    }

    fn nodes(&mut self, start: Option<NodeId>, end: Block) {
        let mut control = Control {
            blocks: HashMap::new(),
            waiting: Vec::new(),
            end,
        };
        let first = control.block(self, start);
        self.jump(first);
        let ir = self.ir();
        while let Some(id) = control.waiting.pop() {
            let block = control.blocks[&id];
            self.begin(block);
            match &ir.nodes[id.index()] {
                Node::Table(table) => self.table(&mut control, *table),
                Node::If {
                    name,
                    condition,
                    yes,
                    no,
                    ..
                } => {
                    self.place = format!("condition \"{name}\"");
                    let holds = self.condition(condition);
                    let (yes, no) = (control.block(self, *yes), control.block(self, *no));
                    self.branch(holds, yes, no);
                }
                Node::Call { action, next } => {
                    self.run_action(*action, None, control.end);
                    let next = control.block(self, *next);
                    self.jump(next);
                }
            }
        }
    }

    /// Generates the code of an action's primitives. This code jumps to `end` if the action ends the control; otherwise
    /// it continues with the code after the action.
    pub(super) fn run_action(&mut self, action: ActionId, args: Option<Value>, end: Block) {
        let program = self.unit.program;
        let body = &program.ir().actions[action.index()];
        let info = program.action_info(action);
        let name = info
            .expect("a table's action is the program's")
            .name
            .clone();
        self.action = Some(action);
        self.args = args;
        let specialised = self.unit.options.action_specialisation;
        let mut dead = if specialised {
            coalesce::dead_stores(self.ir(), &body.primitives)
        } else {
            Vec::new()
        };
        let jumps = |it: &Primitive| matches!(it, Primitive::Jump(_) | Primitive::JumpIfZero(..));
        let is_straight = specialised && !body.primitives.iter().any(jumps);
        let mut running = self.prepare(&body.primitives, end);
        let with_lanes = is_straight && self.unit.options.lane_vectorisation;
        let mut reached = true;
        let mut behind_run = 0;
        for (position, primitive) in body.primitives.iter().enumerate() {
            if position < behind_run {
                continue;
            }
            if with_lanes
                && let Some(run) = lanes::run_of(self.names(), &body.primitives[position..])
            {
                self.lanes(&run);
                behind_run = position + run.len();
                continue;
            }
            if let Some(block) = running.leaders.get(&position) {
                if reached {
                    self.jump(*block);
                }
                self.begin(*block);
                reached = true;
            }
            if !reached {
                continue;
            }
            self.place = match body.lines.get(position) {
                Some(Some(line)) => format!("action \"{name}\", {}:{}", line.file, line.line),
                _ => format!("action \"{name}\""),
            };
            self.dead = dead
                .get_mut(position)
                .map(std::mem::take)
                .unwrap_or_default();
            let flow = self.primitive(primitive);
            reached = self.follow(&mut running, position, flow);
        }
        self.dead.clear();
        self.leave_action(&running, reached, is_straight);
        self.action = None;
        self.args = None;
    }

    /// Begins the code that follows an action. If `is_straight`, only one path leads to this code, so cached field
    /// values stay valid.
    fn leave_action(&mut self, running: &Running, reached: bool, is_straight: bool) {
        if is_straight {
            self.jump(running.after);
            self.begin_inner(running.after);
        } else {
            if reached {
                self.jump(running.after);
            }
            self.begin(running.after);
        }
        let Some(exited) = running.exited else { return };
        let go_on = self.b.create_block();
        if is_straight {
            self.jump(running.end);
        } else {
            let exited = self.b.use_var(exited);
            self.branch(exited, running.end, go_on);
        }
        self.begin(go_on);
    }

    fn prepare(&mut self, primitives: &[Primitive], end: Block) -> Running {
        let mut targets = BTreeSet::new();
        let mut goes_back = false;
        let mut exits = false;
        for (position, primitive) in primitives.iter().enumerate() {
            match primitive {
                Primitive::Jump(target) | Primitive::JumpIfZero(_, target) => {
                    targets.insert(*target);
                    goes_back |= *target <= position;
                }
                Primitive::Exit => exits = true,
                _ => {}
            }
        }
        let targets = targets.into_iter().filter(|it| *it < primitives.len());
        let leaders = targets.map(|it| (it, self.b.create_block())).collect();
        let mut flag = |is_needed: bool, ty| {
            is_needed.then(|| {
                let variable = self.b.declare_var(ty);
                let zero = self.b.ins().iconst(ty, 0);
                self.b.def_var(variable, zero);
                variable
            })
        };
        let rounds = flag(goes_back, types::I32);
        let exited = flag(exits, types::I8);
        Running {
            leaders,
            after: self.b.create_block(),
            rounds,
            exited,
            end,
        }
    }

    /// Generates the jumps that follow a primitive; `flow` says where a packet continues after the primitive. Returns
    /// whether a packet can fall through to the next primitive.
    fn follow(&mut self, running: &mut Running, position: usize, flow: Flow) -> bool {
        match flow {
            Flow::Next => true,
            Flow::Exit => {
                if let Some(exited) = running.exited {
                    let one = self.b.ins().iconst(types::I8, 1);
                    self.b.def_var(exited, one);
                }
                true
            }
            Flow::Check(holds, reason) => {
                let [go_on, fail] = self.blocks();
                self.branch(holds, go_on, fail);
                self.begin(fail);
                self.fail(reason, running.end);
                self.begin(go_on);
                true
            }
            Flow::Jump(target, condition) => {
                let go_on = condition.map(|condition| {
                    let [taken, go_on] = self.blocks();
                    self.branch(condition, taken, go_on);
                    self.begin(taken);
                    go_on
                });
                if target <= position
                    && let Some(rounds) = running.rounds
                {
                    self.count_round(rounds, running.end);
                }
                let to = running.leaders.get(&target).copied();
                self.jump(to.unwrap_or(running.after));
                if let Some(go_on) = go_on {
                    self.begin(go_on);
                }
                go_on.is_some()
            }
        }
    }

    fn count_round(&mut self, rounds: Variable, end: Block) {
        let before = self.b.use_var(rounds);
        let now = self.b.ins().iadd_imm_u(before, 1);
        self.b.def_var(rounds, now);
        let most = i64::from(limits::LOOP_ROUNDS_MAX);
        let over = self
            .b
            .ins()
            .icmp_imm_u(IntCC::UnsignedGreaterThan, now, most);
        let [fail, go_on] = self.blocks();
        self.b.set_cold_block(fail);
        self.branch(over, fail, go_on);
        self.begin(fail);
        self.fail(DropReason::LoopLimit, end);
        self.begin(go_on);
    }

    fn fail(&mut self, reason: DropReason, end: Block) {
        let code = self.constant32(reason as u32 + 1);
        self.store_context(code, offset_of!(PassContext, failed));
        self.jump(end);
    }
}
