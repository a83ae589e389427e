//! Handles loops in the analysis of unset values and invalid headers. The analysis runs a loop's body until no [`Fact`]
//! (whether a value is set, or a header valid) changes, then once more to report.

use super::{Env, Fact, Flow, Node, State, join_states};
use crate::ir::{ExprKind, Loop, LoopHead};

/// Maximum number of rounds until no fact changes: a fact can worsen three times.
const ROUNDS_MAX: usize = 4;

impl Flow<'_> {
    pub fn repeat(&mut self, whole: &Loop, state: &mut State) {
        let Some(mut env) = state.take() else { return };
        let runs_once = match &whole.head {
            LoopHead::While(init, condition, _) => {
                let mut first = Some(env);
                self.statements(init, &mut first);
                let Some(after) = first else { return };
                env = after;
                self.read(condition, &mut env);
                false
            }
            LoopHead::Range(id, low, high) => {
                self.read(low, &mut env);
                self.read(high, &mut env);
                self.give(*id, &mut env);
                matches!((&low.kind, &high.kind), (ExprKind::Int(low), ExprKind::Int(high)) if low <= high)
            }
            LoopHead::Each(id, items) => {
                for item in items {
                    self.value(item, &mut env);
                }
                self.give(*id, &mut env);
                !items.is_empty()
            }
        };
        let before = env.clone();
        let outer = (
            std::mem::take(&mut self.breaks),
            std::mem::take(&mut self.continues),
        );
        let quiet = std::mem::replace(&mut self.quiet, true);
        for _ in 0..ROUNDS_MAX {
            let Some(end) = self.round(whole, &env) else {
                break;
            };
            let joined = env.join(&end);
            if joined == env {
                break;
            }
            env = joined;
        }
        self.quiet = quiet;
        self.breaks.clear();
        let end = self.round(whole, &env);
        let breaks = std::mem::take(&mut self.breaks);
        (self.breaks, self.continues) = outer;
        let skipped = match &whole.head {
            LoopHead::While(_, condition, _) => {
                // The condition decided whether the body ran at all.
                Some(self.refined(condition, false, env.guarded()))
            }
            _ if runs_once => None,
            _ => Some(before.guarded()),
        };
        let ends = breaks.into_iter().map(Some).chain([end, skipped]);
        *state = join_states(ends).map(|after| {
            let after = if runs_once { after } else { after.guarded() };
            after.restored(&before)
        });
    }

    fn give(&self, id: usize, env: &mut Env) {
        let ty = &self.program.vars[id].ty;
        let node = Node::new(self.program, ty, Fact::Good, Fact::Silent);
        env.vars.insert(id, node);
    }

    /// Runs the body once; returns the facts at the start of the next iteration.
    fn round(&mut self, whole: &Loop, before: &Env) -> State {
        let mut state = Some(match &whole.head {
            LoopHead::While(_, condition, _) => self.refined(condition, true, before.guarded()),
            _ => before.guarded(),
        });
        self.statements(&whole.body, &mut state);
        let continues = std::mem::take(&mut self.continues);
        state = join_states(continues.into_iter().map(Some).chain([state]));
        if let LoopHead::While(_, condition, updates) = &whole.head {
            self.statements(updates, &mut state);
            if let Some(env) = state.as_mut() {
                self.read(condition, env);
            }
        }
        state
    }
}
