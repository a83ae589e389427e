//! Branches in a parser: code with jumps becomes states, since a parser's operations cannot jump.

use bmv2_json::{Primitive, Transition as JsonTransition, Value};

use super::Lower;
use super::parser::default_transition;
use super::place::parameter;
use crate::ir::Expr;
use crate::source::Span;
use crate::types::Type;

const ZERO: &str = "0x00";
const ONE: &str = "0x01";

enum End {
    Jump(usize),
    /// Continues at the first position if the value is zero, at the second if it is not.
    IfZero(Value, usize, usize),
}

impl Lower<'_> {
    /// Ends the current state with a transition to the state `next`, and continues in `next`.
    pub fn go_to(&mut self, next: &str, span: Span) {
        self.drain(span);
        self.end_state(
            Vec::new(),
            vec![default_transition(Some(next.to_owned()))],
            span,
        );
        next.clone_into(&mut self.states.current);
    }

    pub fn state_branch(&mut self, condition: &Expr, yes: &str, no: &str, span: Span) {
        let condition = self.resolve(condition);
        let flag = self.temp("tmp", &Type::Bool, span);
        self.assign(&flag, &condition);
        self.drain(span);
        let key = self.read_raw(&flag).0;
        let taken = case(ONE, yes);
        self.end_state(
            vec![key],
            vec![taken, default_transition(Some(no.to_owned()))],
            span,
        );
    }

    /// Turns code with jumps into states: one state for each stretch of code between jumps and their targets.
    pub fn drain_branches(&mut self, primitives: &[Primitive], span: Span) {
        let end = primitives.len();
        let starts = stretches(primitives);
        let base = self.states.current.clone();
        let names: Vec<String> = starts
            .iter()
            .map(|start| {
                if *start == 0 {
                    base.clone()
                } else {
                    self.fresh(&format!("{base}_branch"))
                }
            })
            .collect();
        let name_of = |at: usize| {
            let index = starts.iter().position(|start| *start == at);
            index.map_or_else(|| base.clone(), |index| names[index].clone())
        };
        for (index, start) in starts.iter().enumerate().filter(|(_, start)| **start < end) {
            let next = starts.get(index + 1).copied().unwrap_or(end);
            self.states.current.clone_from(&names[index]);
            let stretch = &primitives[*start..next];
            let (body, way) = split_end(stretch, next);
            for primitive in body {
                self.push_operation(primitive.clone());
            }
            match way {
                End::Jump(to) => self.end_state(
                    Vec::new(),
                    vec![default_transition(Some(name_of(to)))],
                    span,
                ),
                End::IfZero(value, zero, other) => {
                    let key = self.branch_key(value, span);
                    self.end_state(
                        vec![key],
                        vec![
                            case(ZERO, &name_of(zero)),
                            default_transition(Some(name_of(other))),
                        ],
                        span,
                    );
                }
            }
        }
        self.states.current = name_of(end);
    }

    fn branch_key(&mut self, value: Value, span: Span) -> Value {
        if matches!(value, Value::Field(_)) {
            return value;
        }
        let flag = self.temp("tmp", &Type::Bool, span);
        let (target, _) = self.read_raw(&flag);
        self.push_operation(Primitive {
            op: "assign".to_owned(),
            parameters: vec![target.clone(), parameter(value)],
            source_info: self.source_info(span),
        });
        target
    }
}

fn case(value: &str, next: &str) -> JsonTransition {
    JsonTransition {
        kind: Some("hexstr".to_owned()),
        value: Some(value.to_owned()),
        mask: None,
        next_state: Some(next.to_owned()),
    }
}

/// Returns where stretches of code begin (at the start, at jump targets, after jumps), and the end of the code.
fn stretches(primitives: &[Primitive]) -> Vec<usize> {
    let mut starts = vec![0, primitives.len()];
    for (at, primitive) in primitives.iter().enumerate() {
        if primitive.op.starts_with("_jump") {
            starts.extend([at + 1, jump_target(primitive, primitives.len())]);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}

fn jump_target(primitive: &Primitive, end: usize) -> usize {
    match primitive.parameters.last() {
        Some(Value::Hexstr(text)) => {
            usize::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(end)
        }
        _ => end,
    }
}

fn split_end(stretch: &[Primitive], next: usize) -> (&[Primitive], End) {
    match stretch.split_last() {
        Some((last, body)) if last.op == "_jump" => (body, End::Jump(jump_target(last, next))),
        Some((last, body)) if last.op == "_jump_if_zero" => {
            let value = last.parameters.first().cloned();
            let value = value.unwrap_or_else(|| Value::Hexstr(ZERO.to_owned()));
            (body, End::IfZero(value, jump_target(last, next), next))
        }
        _ => (stretch, End::Jump(next)),
    }
}
