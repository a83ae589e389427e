//! Where each state of the parser begins, as far as that is the same for every packet.

use dataplane::{
    engine::ir::{Expr, ExtractTarget, HeaderId, Ir, Parser, ParserOp, State, StateId},
    limits,
};

/// Where in the frame a state begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// No way to the state has been found yet.
    Unreached,
    /// Always so many bytes in.
    Known(u64),
    /// It depends on the packet.
    Varying,
}

impl Position {
    pub(super) fn plus(self, bytes: Option<u64>) -> Self {
        match (self, bytes) {
            (Self::Known(at), Some(bytes)) => Self::Known(at + bytes),
            _ => Self::Varying,
        }
    }

    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unreached, known) | (known, Self::Unreached) => known,
            (one, other) if one == other => one,
            _ => Self::Varying,
        }
    }
}

fn next_states(state: &State) -> impl Iterator<Item = StateId> {
    let arrows = state.transitions.iter().map(|arrow| arrow.next);
    arrows.chain([state.default]).flatten()
}

/// Bytes that an operation takes where that is known.
pub(super) fn bytes_of(ir: &Ir, op: &ParserOp) -> Option<u64> {
    let fixed = |header: HeaderId| u64::from(ir.headers[header.index()].fixed_bits / 8);
    match op {
        ParserOp::Extract(ExtractTarget::Header(header)) => Some(fixed(*header)),
        ParserOp::Extract(ExtractTarget::Stack(stack)) => {
            let first = ir.stacks[stack.index()].elements.first();
            first.map(|header| fixed(*header))
        }
        ParserOp::Advance {
            bits: Expr::Const(bits),
        } => u64::try_from(bits).ok().map(|bits| bits / 8),
        ParserOp::Extract(_) | ParserOp::ExtractVariable { .. } | ParserOp::Advance { .. } => None,
        ParserOp::Set { .. }
        | ParserOp::SetLookahead { .. }
        | ParserOp::Verify { .. }
        | ParserOp::Primitive(_) => Some(0),
    }
}

/// Where each state begins.
pub(super) fn positions(ir: &Ir, parser: &Parser) -> Vec<Position> {
    let mut begins = vec![Position::Unreached; parser.states.len()];
    let mut work = Vec::new();
    if let Some(start) = parser.start {
        begins[start.index()] = Position::Known(0);
        work.push(start);
    }
    while let Some(id) = work.pop() {
        let state = &parser.states[id.index()];
        let begin = begins[id.index()];
        let end = state
            .ops
            .iter()
            .fold(begin, |at, op| at.plus(bytes_of(ir, op)));
        for next in next_states(state) {
            let slot = &mut begins[next.index()];
            let joined = slot.join(end);
            if joined != *slot {
                *slot = joined;
                work.push(next);
            }
        }
    }
    begins
}

/// Whether more states than [`limits::PARSER_STEPS_MAX`] can be entered: only where some state
/// leads back to itself.
pub(super) fn has_cycle(parser: &Parser) -> bool {
    // 0: not seen, 1: on the way, 2: done.
    let mut marks = vec![0_u8; parser.states.len()];
    let mut stack: Vec<(StateId, bool)> = parser
        .start
        .map(|start| (start, false))
        .into_iter()
        .collect();
    while let Some((id, is_done)) = stack.pop() {
        if is_done {
            marks[id.index()] = 2;
            continue;
        }
        match marks[id.index()] {
            1 | 2 => continue,
            _ => marks[id.index()] = 1,
        }
        stack.push((id, true));
        for next in next_states(&parser.states[id.index()]) {
            match marks[next.index()] {
                0 => stack.push((next, false)),
                1 => return true,
                _ => {}
            }
        }
    }
    parser.states.len() > limits::PARSER_STEPS_MAX as usize
}
