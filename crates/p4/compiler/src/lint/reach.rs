//! Warns about unreachable code and parser states, `select`s that end in an implicit error, conditions that are always
//! true or always false, and statements without effect.

use num_traits::ToPrimitive as _;

use super::{Subject, tables, walk};
use crate::diagnostic::Sink;
use crate::ir::{Expr, ExprKind, Parser, Program, Statement, StatementKind, Target, Transition};
use crate::source::Span;
use crate::syntax::ast::{self, Declaration};
use crate::types::Type;

/// The greatest width in bits of a `select` key whose values are counted to see whether the cases cover them all.
const COUNTED_WIDTH_BITS: u32 = 8;

pub fn check(subject: &Subject<'_>, sink: &mut Sink) {
    for parser in &subject.program.parsers {
        if !subject.is_library(parser.span) {
            unreachable_states(parser, sink);
            for state in &parser.states {
                select(subject.program, &state.transition, sink);
            }
        }
    }
    for declaration in subject.tree {
        if let Declaration::Parser(parser) = declaration
            && let Some((_, states)) = &parser.body
        {
            implicit_reject(states, sink);
        }
    }
    for body in walk::bodies(subject.program) {
        after_end(body, sink);
        walk::statements(body, &mut |statement| {
            for inner in walk::blocks(statement) {
                after_end(inner, sink);
            }
            conditions(subject, statement, sink);
        });
    }
}

fn unreachable_states(parser: &Parser, sink: &mut Sink) {
    let mut reached = vec![false; parser.states.len()];
    let mut open = vec![parser.start];
    while let Some(at) = open.pop() {
        let Some(state) = parser.states.get(at).filter(|_| !reached[at]) else {
            continue;
        };
        reached[at] = true;
        let mut go = |target: &Target| {
            if let Target::State(next) = target {
                open.push(*next);
            }
        };
        match &state.transition {
            Transition::To(target) => go(target),
            Transition::Select(_, cases) => cases.iter().for_each(|(_, target, _)| go(target)),
        }
    }
    for (state, _) in parser.states.iter().zip(reached).filter(|(_, yes)| !yes) {
        sink.warning(
            "W0831",
            state.span,
            format!("state `{}` is never reached", state.name),
        )
        .label("no transition leads here");
    }
}

fn implicit_reject(states: &[ast::State], sink: &mut Sink) {
    for state in states {
        if matches!(state.transition, ast::Transition::None) {
            sink.warning(
                "W0835",
                state.name.span,
                format!("state `{}` ends without a transition", state.name.name),
            )
            .label("the parser rejects here, which simple_switch takes as accepted")
            .help("write `transition accept;`");
        }
    }
}

fn select(program: &Program, transition: &Transition, sink: &mut Sink) {
    let Transition::Select(keys, cases) = transition else {
        return;
    };
    let mut earlier = tables::Earlier::default();
    for (at, (sets, _, span)) in cases.iter().enumerate() {
        let covering = earlier.covering(sets, |before| tables::covers_all(&cases[before].0, sets));
        earlier.add(sets, at);
        if let Some((_, _, before)) = covering.map(|before| &cases[before]) {
            sink.warning("W0833", *span, "this case is never taken")
                .note_at(
                    *before,
                    "this earlier case matches every packet that the later one would match",
                );
        }
    }
    let is_default = |sets: &[Expr]| {
        sets.iter()
            .all(|set| matches!(set.kind, ExprKind::DontCare))
    };
    if cases.iter().any(|(sets, ..)| is_default(sets)) || has_all(program, keys, cases) {
        return;
    }
    let span = keys
        .first()
        .zip(keys.last())
        .map_or_else(Span::default, |(first, last)| first.span.to(last.span));
    sink.warning("W0834", span, "this `select` has no `default`")
        .label("any other value is rejected, which simple_switch takes as accepted")
        .help("add `default: accept;`, or a state that says with `verify` what is wrong");
}

/// Whether the cases of a single small key name all its values.
fn has_all(program: &Program, keys: &[Expr], cases: &[(Vec<Expr>, Target, Span)]) -> bool {
    let [key] = keys else {
        return false;
    };
    let values = match program.underlying(&key.ty) {
        Type::Bool => 2,
        Type::Bits { width, .. } if *width <= COUNTED_WIDTH_BITS => 1_u64 << width,
        Type::Enum(id) => program.enums[*id].members.len() as u64,
        _ => return false,
    };
    let mut seen = std::collections::BTreeSet::new();
    for (sets, ..) in cases {
        match sets.first().map(|set| &set.kind) {
            Some(ExprKind::Int(value)) => drop(seen.insert(value.to_u64().unwrap_or_default())),
            Some(ExprKind::Bool(value)) => drop(seen.insert(u64::from(*value))),
            Some(ExprKind::Member(_, at)) => drop(seen.insert(*at as u64)),
            // Masks and ranges are not expanded for counting. If any case has one, all values count as covered.
            Some(ExprKind::Mask(..) | ExprKind::Range(..)) => return true,
            _ => {}
        }
    }
    seen.len() as u64 == values
}

/// Whether no statement after this one runs.
pub fn ends(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Return(_)
        | StatementKind::Exit
        | StatementKind::Break
        | StatementKind::Continue => true,
        StatementKind::Block(inner) => inner.iter().any(ends),
        StatementKind::If(_, yes, no) => yes.iter().any(ends) && no.iter().any(ends),
        StatementKind::SwitchValue(_, cases) => {
            cases
                .iter()
                .any(|(labels, _)| labels.iter().any(Option::is_none))
                && cases.iter().all(|(_, body)| body.iter().any(ends))
        }
        _ => false,
    }
}

fn after_end(body: &[Statement], sink: &mut Sink) {
    let end = body.iter().position(ends);
    if let Some(end) = end
        && let Some(next) = body.get(end + 1)
    {
        sink.warning("W0832", next.span, "this is never reached")
            .note_at(body[end].span, "nothing goes on after this");
    }
}

fn conditions(subject: &Subject<'_>, statement: &Statement, sink: &mut Sink) {
    match &statement.kind {
        StatementKind::If(condition, yes, no) => {
            if let ExprKind::Bool(value) = condition.kind
                && subject.is_literal(condition.span)
            {
                sink.warning(
                    "W0836",
                    condition.span,
                    format!("this condition is always {value}"),
                );
            } else if yes.is_empty() && no.is_empty() && !has_call(subject, condition) {
                sink.warning("W0837", statement.span, "this `if` does nothing");
            }
        }
        StatementKind::Assign(left, right) if same_place(left, right) => {
            sink.warning("W0837", statement.span, "this assigns a value to itself");
        }
        _ => {}
    }
}

fn has_call(subject: &Subject<'_>, expr: &Expr) -> bool {
    let mut found = false;
    walk::expression(
        subject.program,
        expr,
        walk::Access::Read,
        &mut |inner, _| {
            found |= matches!(&inner.kind, ExprKind::Call(call)
            if !matches!(call.callee, crate::ir::Callee::Builtin(..)));
        },
    );
    found
}

/// Whether both expressions name the same variable, field or element, so that reading either gives the same value.
pub fn same_place(left: &Expr, right: &Expr) -> bool {
    match (&left.kind, &right.kind) {
        (ExprKind::Var(a), ExprKind::Var(b)) => a == b,
        (ExprKind::Field(a, i), ExprKind::Field(b, j)) => i == j && same_place(a, b),
        (ExprKind::Index(a, i), ExprKind::Index(b, j)) => {
            matches!((&i.kind, &j.kind), (ExprKind::Int(i), ExprKind::Int(j)) if i == j)
                && same_place(a, b)
        }
        (ExprKind::Slice(a, h, l), ExprKind::Slice(b, i, m)) => {
            (h, l) == (i, m) && same_place(a, b)
        }
        _ => false,
    }
}
