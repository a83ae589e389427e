//! Follows calls in the analysis of unset values and invalid headers. The analysis runs a function of the program in
//! place of its call. For a function of the architecture the analysis knows which arguments the function writes. A
//! fact says whether a value may be unset or a header invalid ([`Fact`]).

use super::run::meet;
use super::{DEPTH_MAX, Env, Fact, Flow, Node, Path, State, join_states};
use crate::ir::{
    ActionUse, Builtin, Call, Callee, Control, Direction, Expr, ExprKind, Parser, Program, VarId,
};
use crate::lint::walk::{self, Access};
use crate::source::Span;
use crate::types::Type;

impl Flow<'_> {
    pub fn effect(&mut self, expr: &Expr, state: &mut State) {
        let ExprKind::Call(call) = &expr.kind else {
            return;
        };
        let Some(env) = state.as_mut() else { return };
        match &call.callee {
            Callee::Builtin(builtin, object) => self.builtin(*builtin, object, call, env),
            Callee::ApplyTable(table) => {
                let before = env.clone();
                let (hits, misses) = self.apply_table(*table, &before, expr.span);
                let ends = hits.into_iter().map(|(_, end)| end).chain([misses]);
                *state = meet(&before, ends.collect());
            }
            Callee::Function(id) => {
                let function = &self.program.functions[*id];
                self.run(
                    &function.parameters,
                    &call.arguments,
                    state,
                    |flow, state| {
                        flow.statements(&function.body, state);
                    },
                );
            }
            Callee::Action(id) => {
                let action = &self.program.actions[*id];
                self.run(&action.parameters, &call.arguments, state, |flow, state| {
                    flow.statements(&action.body, state);
                });
            }
            Callee::ApplyBlock(object) => match object.ty {
                Type::Control(id) => {
                    let control = &self.program.controls[id];
                    self.run(
                        &control.parameters,
                        &call.arguments,
                        state,
                        |flow, state| {
                            flow.control(control, state);
                        },
                    );
                }
                Type::Parser(id) => {
                    let parser = &self.program.parsers[id];
                    self.run(&parser.parameters, &call.arguments, state, |flow, state| {
                        flow.parser(parser, state);
                    });
                }
                _ => self.unknown_call(call, env),
            },
            Callee::ExternFunction(..) | Callee::ExternMethod(..) => self.unknown_call(call, env),
        }
    }

    pub fn control(&mut self, control: &Control, state: &mut State) {
        self.visited.insert(control.span);
        self.locals(&control.variables, state);
        self.statements(&control.apply, state);
    }

    fn locals(&mut self, variables: &[(VarId, Option<Expr>)], state: &mut State) {
        let Some(env) = state else { return };
        for (id, init) in variables {
            let ty = &self.program.vars[*id].ty;
            let node = match init {
                Some(init) => self.value(init, env),
                None => Node::new(self.program, ty, Fact::Bad, Fact::Bad),
            };
            env.vars.insert(*id, node);
        }
    }

    /// Runs a parser's states until no fact changes, then once more to report.
    pub fn parser(&mut self, parser: &Parser, state: &mut State) {
        self.visited.insert(parser.span);
        self.locals(&parser.variables, state);
        let Some(start) = state.take() else { return };
        let outer = std::mem::replace(&mut self.certain_only, true);
        let was_quiet = std::mem::replace(&mut self.quiet, true);
        let mut entries: Vec<State> = vec![None; parser.states.len()];
        if let Some(entry) = entries.get_mut(parser.start) {
            *entry = Some(start);
        }
        let mut open = vec![parser.start];
        while let Some(at) = open.pop() {
            for (next, env) in self.parser_state(parser, at, &entries).1 {
                let joined = join_states([entries[next].clone(), Some(env)]);
                if joined != entries[next] {
                    entries[next] = joined;
                    open.push(next);
                }
            }
            if self.statements > super::STATEMENTS_MAX {
                break;
            }
        }
        self.quiet = was_quiet;
        let ends: Vec<State> = (0..parser.states.len())
            .map(|at| self.parser_state(parser, at, &entries).0)
            .collect();
        self.certain_only = outer;
        *state = join_states(ends);
    }

    /// Runs one state. Returns the facts at its transition to `accept`, if it has one, and the facts for each
    /// successor.
    fn parser_state(
        &mut self,
        parser: &Parser,
        at: usize,
        entries: &[State],
    ) -> (State, Vec<(usize, Env)>) {
        use crate::ir::{Target, Transition};
        let (Some(found), Some(Some(entry))) = (parser.states.get(at), entries.get(at)) else {
            return (None, Vec::new());
        };
        let mut state = Some(entry.clone());
        self.statements(&found.statements, &mut state);
        let Some(mut env) = state else {
            return (None, Vec::new());
        };
        let targets: Vec<&Target> = match &found.transition {
            Transition::To(target) => vec![target],
            Transition::Select(keys, cases) => {
                for key in keys {
                    self.read(key, &mut env);
                }
                cases.iter().map(|(_, target, _)| target).collect()
            }
        };
        let mut accepts = None;
        let mut next = Vec::new();
        for target in targets {
            match target {
                Target::Accept => accepts = Some(env.clone()),
                Target::State(to) => next.push((*to, env.clone())),
                Target::Reject => {}
            }
        }
        (accepts, next)
    }

    /// Copies arguments in, runs a body, and copies results out.
    pub fn run(
        &mut self,
        parameters: &[VarId],
        arguments: &[Option<Expr>],
        state: &mut State,
        body: impl FnOnce(&mut Self, &mut State),
    ) {
        let Some(env) = state else { return };
        let mut outs: Vec<(VarId, Path)> = Vec::new();
        for (at, id) in parameters.iter().enumerate() {
            let (program, var) = (self.program, &self.program.vars[*id]);
            let fresh = |fact| Node::new(program, &var.ty, fact, fact);
            let argument = arguments.get(at).and_then(Option::as_ref);
            let node = match (var.direction, argument) {
                (Direction::Out, _) => fresh(Fact::Bad),
                (_, None) => fresh(Fact::Good),
                (Direction::In | Direction::None, Some(argument)) => self.value(argument, env),
                (Direction::InOut, Some(argument)) => {
                    let path = self.path(argument);
                    let known = path.and_then(|path| env.get(&path).cloned());
                    match known {
                        Some(node)
                            if !matches!(node, Node::Header(_)) || program.is_header(&var.ty) =>
                        {
                            node
                        }
                        _ => {
                            let mut node = fresh(Fact::Good);
                            node.map(&|is_header, fact| {
                                if is_header { Fact::Silent } else { fact }
                            });
                            node
                        }
                    }
                }
            };
            env.vars.insert(*id, node);
            if matches!(var.direction, Direction::Out | Direction::InOut)
                && let Some(path) = argument.and_then(|argument| self.path(argument))
            {
                outs.push((*id, path));
            }
        }
        self.enter(parameters, state, body);
        let copy_back = |env: &mut Env| {
            for (id, path) in &outs {
                if let Some(node) = env.vars.get(id).cloned() {
                    env.set(path, node);
                }
            }
        };
        if let Some(env) = state.as_mut() {
            copy_back(env);
            let written = arguments.iter().enumerate().filter_map(|(at, argument)| {
                let direction = self.program.vars[*parameters.get(at)?].direction;
                let argument = argument.as_ref()?;
                matches!(direction, Direction::Out | Direction::InOut).then_some(argument)
            });
            for argument in written.filter(|argument| self.path(argument).is_none()) {
                self.forget_stack(argument, env);
            }
            // Nothing reads the parameters again, and every later branch would copy them.
            for id in parameters {
                env.vars.remove(id);
            }
        }
        self.exits.iter_mut().for_each(copy_back);
    }

    /// Runs a body and joins the facts at its `return`s and its end. An `exit` in the body also leaves the caller.
    fn enter(
        &mut self,
        parameters: &[VarId],
        state: &mut State,
        body: impl FnOnce(&mut Self, &mut State),
    ) {
        if self.depth >= DEPTH_MAX {
            return;
        }
        self.depth += 1;
        let outer = std::mem::take(&mut self.returns);
        body(self, state);
        let returns = std::mem::replace(&mut self.returns, outer);
        self.depth -= 1;
        *state = join_states(returns.into_iter().map(Some).chain([state.take()]));
        if let Some(env) = state.as_mut() {
            for id in parameters {
                self.check_out(*id, env);
            }
        }
    }

    fn builtin(&mut self, builtin: Builtin, object: &Expr, call: &Call, env: &mut Env) {
        for argument in call.arguments.iter().flatten() {
            self.read(argument, env);
        }
        let fact = match builtin {
            Builtin::IsValid => return,
            Builtin::SetValid => Fact::Good,
            Builtin::SetInvalid => Fact::Bad,
            Builtin::PushFront | Builtin::PopFront => Fact::Silent,
        };
        self.set_header(object, fact, env);
    }

    /// Makes a header valid or invalid. A valid member of a union makes the other members invalid.
    fn set_header(&mut self, place: &Expr, fact: Fact, env: &mut Env) {
        let Some(path) = self.path(place) else {
            return self.forget_stack(place, env);
        };
        if fact == Fact::Good
            && let ExprKind::Field(whole, _) = &place.kind
            && self.program.is_union(&whole.ty)
            && let Some(node) = self.path(whole).and_then(|path| env.get_mut(&path))
        {
            node.map(&|_, _| Fact::Bad);
        }
        if let Some(node) = env.get_mut(&path) {
            node.map(&|_, _| fact);
        }
    }

    /// Follows a call of an extern or of an unknown block: the arguments that the callee may write get values.
    fn unknown_call(&mut self, call: &Call, env: &mut Env) {
        if let (Callee::ExternFunction(name, _), [Some(condition), rest @ ..]) =
            (&call.callee, call.arguments.as_slice())
            && (name.starts_with("verify_checksum") || name.starts_with("update_checksum"))
        {
            // Nothing is computed if the condition is false.
            self.read(condition, env);
            let mut inside = self.refined(condition, true, env.guarded());
            for argument in rest.iter().flatten() {
                self.read(argument, &mut inside);
            }
            return;
        }
        for (at, argument) in call.arguments.iter().enumerate() {
            let Some(argument) = argument else { continue };
            match walk::argument_access(self.program, call, at) {
                Access::Read => drop(self.value(argument, env)),
                _ if self.program.is_header(&argument.ty) => {
                    self.set_header(argument, Fact::Good, env);
                }
                _ => match self.path(argument) {
                    Some(path) => {
                        if let Some(node) = env
                            .get_mut(&path)
                            .filter(|node| !matches!(node, Node::Header(_)))
                        {
                            node.map(&|is_header, _| {
                                if is_header { Fact::Silent } else { Fact::Good }
                            });
                        }
                    }
                    None => self.forget_stack(argument, env),
                },
            }
        }
    }

    /// Returns the facts after a table: after each action of a hit, and after a miss.
    pub fn apply_table(
        &mut self,
        id: usize,
        before: &Env,
        _span: Span,
    ) -> (Vec<(usize, State)>, State) {
        let table = &self.program.tables[id];
        let mut env = before.clone();
        self.keys(id, &mut env);
        let inside = env.guarded();
        let mut hits = Vec::new();
        let mut by_default = Vec::new();
        for used in &table.actions {
            let end = self.action(used, &inside);
            if !crate::ir::has_annotation(&used.annotations, "defaultonly")
                && !table.keys.is_empty()
            {
                hits.push((used.action, end.clone()));
            }
            if !crate::ir::has_annotation(&used.annotations, "tableonly") {
                by_default.push(end);
            }
        }
        let default = match &table.default_action {
            Some(used) => self.action(used, &inside),
            None => Some(inside.clone()),
        };
        // The control plane may set another default action. This choice counts as a condition, under which a value
        // that is missing on only some paths is not reported.
        let misses = if table.default_is_const {
            default
        } else {
            let others = join_states(by_default).map(|env| env.guarded());
            join_states([default, others])
        };
        (hits, misses)
    }

    fn keys(&mut self, id: usize, env: &mut Env) {
        let table = &self.program.tables[id];
        let asked = table.keys.iter().filter_map(|key| match &key.expr.kind {
            ExprKind::Call(call) => match &call.callee {
                Callee::Builtin(Builtin::IsValid, object) => self.path(object),
                _ => None,
            },
            _ => None,
        });
        self.asked = asked.collect();
        for key in &table.keys {
            // Entries may omit a key of any match kind other than these two. So for packets without a header, entries
            // need not match on the header's fields.
            let may_ask = matches!(&*key.match_kind, "exact" | "lpm");
            let outer = self.certain_only;
            self.certain_only |= !may_ask;
            self.read(&key.expr, env);
            self.certain_only = outer;
        }
        self.asked.clear();
    }

    fn action(&mut self, used: &ActionUse, before: &Env) -> State {
        let program: &Program = self.program;
        let action = &program.actions[used.action];
        let mut state = Some(before.clone());
        self.run(
            &action.parameters,
            &used.arguments,
            &mut state,
            |flow, state| {
                flow.statements(&action.body, state);
            },
        );
        state
    }
}
