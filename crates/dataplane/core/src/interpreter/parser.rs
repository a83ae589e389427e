//! The parser reads headers from bytes, as section 13 of the P4-16 language specification describes. As in BMv2, an
//! error ends the parser and sets `parser_error`, but ingress still runs.

use super::{control_flow::Pass, packet, trace::header_values};
use crate::{
    bits, limits,
    program::ir::{
        ExtractTarget, HeaderId, Ir, KeyPart, ParserOp, Place, State, StateId, TransitionCase,
    },
    trace::{self, TraceKind},
    value::{self, Int},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Bytes extracted or skipped.
    pub consumed: usize,
    /// The program's error number; `NoError` without an error.
    pub error: u32,
}

/// The parser's position in a frame.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'f> {
    /// The frame, in two pieces.
    pub frame: [&'f [u8]; 2],
    /// Bytes extracted or skipped.
    pub consumed: usize,
}

impl Cursor<'_> {
    fn frame_len(&self) -> usize {
        self.frame[0].len() + self.frame[1].len()
    }

    fn remaining(&self) -> usize {
        self.frame_len() - self.consumed
    }

    /// Reads `n_bits` bits that start `offset` bits after the position; `None` if the frame is too short.
    fn peek(&self, offset: u32, n_bits: u32) -> Option<Int> {
        let start = self.consumed * 8 + offset as usize;
        let end = start + n_bits as usize;
        if end.div_ceil(8) > self.frame_len() {
            return None;
        }
        let bytes = packet::bytes(self.frame, start / 8..end.div_ceil(8));
        Some(bits::read(&bytes, start % 8, n_bits))
    }
}

/// A parser error, as the number that it has in the program.
pub(crate) type ParserError = u32;

pub(crate) fn parse(pass: &mut Pass<'_>, frame: [&[u8]; 2]) -> Outcome {
    let mut cursor = Cursor { frame, consumed: 0 };
    let mut state = pass.ir.parser.start;
    let mut steps = 0;
    let mut error = pass.ir.core_errors.no_error;
    while let Some(id) = state {
        steps += 1;
        let result = if steps > limits::PARSER_STEPS_MAX {
            Err(pass.ir.core_errors.parser_timeout)
        } else {
            run_state(pass, &mut cursor, id)
        };
        match result {
            Ok(next) => state = next,
            Err(code) => {
                error = code;
                let errors = &pass.ir.errors;
                pass.tracer.emit(|| {
                    let name = errors.iter().find(|(_, number)| *number == code);
                    let name = name.map(|(name, _)| name.into());
                    TraceKind::ParserError(name.unwrap_or_else(|| code.to_string().into()))
                });
                break;
            }
        }
    }
    Outcome {
        consumed: cursor.consumed,
        error,
    }
}

fn run_state(
    pass: &mut Pass<'_>,
    cursor: &mut Cursor<'_>,
    id: StateId,
) -> Result<Option<StateId>, ParserError> {
    let ir = pass.ir;
    let state = &ir.parser.states[id.index()];
    pass.tracer
        .emit(|| TraceKind::ParserState(state.name.as_str().into()));
    for op in &state.ops {
        pass.parser_operation(cursor, op)?;
    }
    let mut key = Vec::with_capacity(state.key.len());
    for part in &state.key {
        key.push(match part {
            KeyPart::Value { value, bits, .. } => {
                value::wrap(pass.scope().number(value), *bits, false)
            }
            KeyPart::Lookahead { offset, bits } => cursor
                .peek(*offset, *bits)
                .ok_or(ir.core_errors.packet_too_short)?,
        });
    }
    let next = choose(pass, state, &key);
    let parts = state.key.iter().zip(&key);
    pass.tracer.emit(|| TraceKind::Transition {
        key: parts
            .map(|(part, value)| key_value(ir, part, value))
            .collect(),
        next: next.map(|next| ir.parser.states[next.index()].name.as_str().into()),
    });
    Ok(next)
}

fn key_value(ir: &Ir, part: &KeyPart, value: &Int) -> trace::TraceValue {
    match part {
        KeyPart::Value {
            name,
            bits,
            value: source,
        } => {
            let is_secret = ir.secrets.are_in(ir, &[], source);
            trace::named(name, value, *bits).hidden_if(is_secret)
        }
        KeyPart::Lookahead { bits, .. } => trace::named("lookahead", value, *bits),
    }
}

/// Returns the target of the first transition whose case matches or is the default.
fn choose(pass: &Pass<'_>, state: &State, key: &[Int]) -> Option<StateId> {
    let found = state
        .transitions
        .iter()
        .find(|transition| match &transition.case {
            TransitionCase::Values(cases) => {
                let mut cases = cases.iter().zip(key);
                cases.all(|((value, mask), key)| match mask {
                    Some(mask) => &(key & mask) == value,
                    None => key == value,
                })
            }
            TransitionCase::ValueSet { set, mask } => {
                let parts = state.key.iter().zip(key);
                let whole = parts.fold(Int::ZERO, |whole, (part, value)| {
                    (whole << part.bits() as usize) | value
                });
                let sets = &pass.externs.value_sets;
                sets.contains(*set, &whole, mask.as_ref())
            }
        });
    found.map_or(state.default, |transition| transition.next)
}

impl Pass<'_> {
    /// Runs one operation of a parser state and advances the position.
    ///
    /// # Errors
    /// The number of the parser error, which ends the parser.
    pub fn parser_operation(
        &mut self,
        cursor: &mut Cursor<'_>,
        operation: &ParserOp,
    ) -> Result<(), u32> {
        let errors = self.ir.core_errors;
        match operation {
            ParserOp::Extract(target) => {
                let header = target_header(self, target)?;
                extract(self, cursor, header, 0)?;
                push_back(self, target);
            }
            ParserOp::ExtractVariable { target, bits } => {
                let header = target_header(self, target)?;
                let bits = u32::try_from(&self.scope().number(bits))
                    .map_err(|_| errors.parser_invalid_argument)?;
                if !bits.is_multiple_of(8) {
                    return Err(errors.parser_invalid_argument);
                }
                extract(self, cursor, header, bits)?;
                push_back(self, target);
            }
            ParserOp::Set { to, from } => {
                if let (Place::Field(to), crate::program::ir::Expr::Field(from)) = (to, from)
                    && self.ir.fields[to.index()].variable
                {
                    self.assign_variable(*to, *from);
                    return Ok(());
                }
                let value = self.scope().number(from);
                self.assign(to, value);
            }
            ParserOp::SetLookahead { to, offset, bits } => {
                let value = cursor.peek(*offset, *bits).ok_or(errors.packet_too_short)?;
                self.assign(to, value);
            }
            ParserOp::Verify { condition, error } => {
                if !self.scope().truth(condition) {
                    let code = value::low_u64(&self.scope().number(error));
                    return Err(u32::try_from(code).unwrap_or(u32::MAX));
                }
            }
            ParserOp::Advance { bits } => {
                let bits = value::as_usize(&self.scope().number(bits))
                    .ok_or(errors.parser_invalid_argument)?;
                if !bits.is_multiple_of(8) {
                    return Err(errors.parser_invalid_argument);
                }
                if cursor.remaining() < bits / 8 {
                    return Err(errors.packet_too_short);
                }
                cursor.consumed += bits / 8;
            }
            ParserOp::Primitive(primitive) => self.primitive(primitive),
        }
        Ok(())
    }
}

/// Returns the header to extract, or an error if the header stack is full.
fn target_header(pass: &Pass<'_>, target: &ExtractTarget) -> Result<HeaderId, ParserError> {
    let ir = pass.ir;
    let header = match target {
        ExtractTarget::Header(header) => Some(*header),
        ExtractTarget::Next { stack, member } => {
            ir.element(*stack, *member, pass.phv.next_index(*stack))
        }
    };
    header.ok_or(ir.core_errors.stack_out_of_bounds)
}

fn push_back(pass: &mut Pass<'_>, target: &ExtractTarget) {
    if let ExtractTarget::Next { stack, .. } = target {
        let next = pass.phv.next_index(*stack);
        pass.phv.set_next_index(*stack, next + 1);
    }
}

fn extract(
    pass: &mut Pass<'_>,
    cursor: &mut Cursor<'_>,
    id: HeaderId,
    variable_bits: u32,
) -> Result<(), ParserError> {
    let ir = pass.ir;
    let header = &ir.headers[id.index()];
    let n_bytes = ((u64::from(header.fixed_bits) + u64::from(variable_bits)) / 8) as usize;
    if cursor.remaining() < n_bytes {
        return Err(ir.core_errors.packet_too_short);
    }
    if header.variable_field.is_some()
        && header.max_bytes != 0
        && n_bytes > header.max_bytes as usize
    {
        return Err(ir.core_errors.header_too_short);
    }
    let range = cursor.consumed..cursor.consumed + n_bytes;
    let bytes = packet::bytes(cursor.frame, range);
    let mut offset = 0;
    for field in header.field_ids() {
        if Some(field) == header.variable_field {
            let value = bits::read(&bytes, offset, variable_bits);
            pass.phv.set_variable(ir, field, value, variable_bits);
            offset += variable_bits as usize;
        } else {
            let n_bits = ir.fields[field.index()].bits;
            pass.phv.set(ir, field, bits::read(&bytes, offset, n_bits));
            offset += n_bits as usize;
        }
    }
    pass.phv.set_valid(ir, id);
    cursor.consumed += n_bytes;
    let phv = &*pass.phv;
    let wants_fields = pass.tracer.wants_fields();
    pass.tracer
        .emit(|| TraceKind::Extract(header_values(ir, phv, id, wants_fields)));
    Ok(())
}
