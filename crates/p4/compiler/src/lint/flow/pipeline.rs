//! The order in which v1model runs a program's blocks, and what the analysis knows of the values that each block passes
//! to the next: whether they are set, and which headers are valid ([`Fact`]).

use super::{Env, Fact, Flow, Node, State, join_states};
use crate::ir::{Callee, Direction, Expr, ExprKind, InstanceKind, StatementKind, VarId};
use crate::lint::walk;
use crate::types::Type;

#[derive(Clone, Copy)]
enum Block {
    Parser(usize),
    Control(usize),
}

/// Headers and metadata, which one block passes to the next.
#[derive(Clone)]
struct Handed {
    headers: Node,
    metadata: Node,
}

impl Handed {
    /// Returns the facts for the next block. This block may drop exactly the packets for which a value is missing. So a
    /// value that is missing on only some paths is not reported in the next block.
    fn guarded(mut self) -> Self {
        for node in [&mut self.headers, &mut self.metadata] {
            node.map(&|_, fact| {
                if fact == Fact::Maybe {
                    Fact::Silent
                } else {
                    fact
                }
            });
        }
        self
    }

    fn join(&self, other: &Self) -> Self {
        Self {
            headers: self.headers.combine(&other.headers, &Fact::join),
            metadata: self.metadata.combine(&other.metadata, &Fact::join),
        }
    }
}

impl Flow<'_> {
    /// Returns the blocks of `V1Switch`, in the order of its parameters.
    fn blocks(&self) -> Option<[Block; 6]> {
        let program = self.program;
        let main = &program.instances[program.main?];
        let InstanceKind::Package(package, _) = main.kind else {
            return None;
        };
        if &*program.package_names[package] != "V1Switch" {
            return None;
        }
        let block = |argument: &Option<Expr>| match argument.as_ref()?.ty {
            Type::Parser(id) => Some(Block::Parser(id)),
            Type::Control(id) => Some(Block::Control(id)),
            _ => None,
        };
        let blocks: Option<Vec<Block>> = main.arguments.iter().map(block).collect();
        blocks?.try_into().ok()
    }

    pub fn pipeline(&mut self) {
        let Some([parser, verify, ingress, egress, compute, deparser]) = self.blocks() else {
            return;
        };
        let Some(parsed) = self.parse(parser) else {
            return;
        };
        let Some(verified) = self.block(verify, &parsed, [0, 1]) else {
            return;
        };
        let Some(routed) = self.block(ingress, &verified, [0, 1]) else {
            return;
        };
        let clones = self.makes_clones();
        let mut incoming = routed.guarded();
        if clones {
            // Egress also gets clones: of the packet as it arrived, and of the packet as it left egress.
            incoming = incoming.join(&parsed).guarded();
            let quiet = std::mem::replace(&mut self.quiet, true);
            if let Some(left) = self.block(egress, &incoming, [0, 1]) {
                incoming = incoming.join(&left).guarded();
            }
            self.quiet = quiet;
        }
        let Some(left) = self.block(egress, &incoming, [0, 1]) else {
            return;
        };
        let Some(computed) = self.block(compute, &left.guarded(), [0, 1]) else {
            return;
        };
        self.block(deparser, &computed.guarded(), [1, usize::MAX]);
    }

    fn parse(&mut self, block: Block) -> Option<Handed> {
        let Block::Parser(id) = block else {
            return None;
        };
        let parser = &self.program.parsers[id];
        let headers = *parser.parameters.get(1)?;
        let metadata = *parser.parameters.get(2)?;
        let mut state = Some(self.fresh(&parser.parameters));
        self.parser(parser, &mut state);
        let mut env = state?;
        let outer = std::mem::replace(&mut self.certain_only, true);
        self.check_out(headers, &mut env);
        self.certain_only = outer;
        let handed = Handed {
            headers: env.vars.remove(&headers)?,
            metadata: env.vars.remove(&metadata)?,
        };
        Some(known_values(handed))
    }

    /// Runs a control; `at` has the positions of its headers and metadata among the parameters.
    fn block(&mut self, block: Block, handed: &Handed, at: [usize; 2]) -> Option<Handed> {
        let Block::Control(id) = block else {
            return None;
        };
        let control = &self.program.controls[id];
        let mut env = self.fresh(&control.parameters);
        let [headers, metadata] = at.map(|at| control.parameters.get(at).copied());
        if let Some(id) = headers {
            env.vars.insert(id, handed.headers.clone());
        }
        if let Some(id) = metadata {
            env.vars.insert(id, handed.metadata.clone());
        }
        let state = self.whole(&control.parameters, env, |flow, state| {
            flow.control(control, state);
        });
        let mut env = state?;
        let handed = Handed {
            headers: headers
                .map_or_else(|| Some(handed.headers.clone()), |id| env.vars.remove(&id))?,
            metadata: metadata
                .map_or_else(|| Some(handed.metadata.clone()), |id| env.vars.remove(&id))?,
        };
        Some(known_values(handed))
    }

    /// Runs a body on its own, for an unknown caller, and joins the facts at all its ends.
    fn whole(
        &mut self,
        parameters: &[VarId],
        env: Env,
        body: impl FnOnce(&mut Self, &mut State),
    ) -> State {
        let mut state = Some(env);
        self.returns.clear();
        self.exits.clear();
        body(self, &mut state);
        let (returns, exits) = (
            std::mem::take(&mut self.returns),
            std::mem::take(&mut self.exits),
        );
        let mut end = join_states(returns.into_iter().map(Some).chain([state]));
        if let Some(env) = &mut end {
            for id in parameters {
                self.check_out(*id, env);
            }
        }
        join_states(exits.into_iter().map(Some).chain([end]))
    }

    /// Returns the facts about parameters of a block whose caller is unknown: inputs have values, and the validity of
    /// headers is unknown.
    fn fresh(&self, parameters: &[VarId]) -> Env {
        let mut env = Env::default();
        for id in parameters {
            let var = &self.program.vars[*id];
            let (value, header) = match var.direction {
                Direction::Out => (Fact::Bad, Fact::Bad),
                _ => (Fact::Good, Fact::Silent),
            };
            env.vars
                .insert(*id, Node::new(self.program, &var.ty, value, header));
        }
        env
    }

    /// Whether the program makes clones. A clone's facts at egress may differ from the facts after ingress.
    fn makes_clones(&self) -> bool {
        let mut found = false;
        for body in walk::bodies(self.program) {
            walk::statements(body, &mut |statement| {
                if let StatementKind::Call(expr) = &statement.kind
                    && let ExprKind::Call(call) = &expr.kind
                    && let Callee::ExternFunction(name, _) = &call.callee
                {
                    found |= name.starts_with("clone");
                }
            });
        }
        found
    }

    /// Checks each function, and each control and parser that the pipeline does not reach, by itself.
    pub fn rest(&mut self) {
        let program = self.program;
        for function in &program.functions {
            let env = self.fresh(&function.parameters);
            self.whole(&function.parameters, env, |flow, state| {
                flow.statements(&function.body, state);
            });
        }
        for control in &program.controls {
            if !self.visited.contains(&control.span) {
                let env = self.fresh(&control.parameters);
                self.whole(&control.parameters, env, |flow, state| {
                    flow.control(control, state);
                });
            }
        }
        for parser in &program.parsers {
            if !self.visited.contains(&parser.span) {
                let env = self.fresh(&parser.parameters);
                self.whole(&parser.parameters, env, |flow, state| {
                    flow.parser(parser, state);
                });
            }
        }
    }
}

/// Marks all values as set, because metadata begins as zero and a missing value is reported only once.
fn known_values(mut handed: Handed) -> Handed {
    for node in [&mut handed.headers, &mut handed.metadata] {
        node.map(&|is_header, fact| if is_header { fact } else { Fact::Good });
    }
    handed
}
