//! Re-parse: runs the parser of a recirculating packet over the headers in its old block (header vector) instead of
//! bytes.
//!
//! The deparser would write the valid headers in its order, and the parser would extract them from the bytes. If the
//! parser extracts the header that comes next in the deparser's order, the header would get the same fields again, so
//! this code copies them to the new block. In every other case (another header, more or fewer headers, a parser error,
//! any other access to the frame's bytes) the re-parse gives up. Then only the new block has changed, and the frame
//! goes through the parser as bytes.

use std::mem::offset_of;

use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, condcodes::IntCC, types};
use cranelift_frontend::Variable;
use dataplane::engine::ir::{
    AnyStack, ExtractTarget, HeaderId, Ir, KeyPart, ParserOp, Place, State,
};

use super::{Writer, bits, iconst, states};
use crate::{
    compile::{Emit, Region},
    context::PassContext,
    frames::UNROLLED_WORDS_MAX,
};

/// The headers of a packet that are in its old block and not written as bytes.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    old: Value,
    /// The headers that were not extracted yet: one bit for each place in the deparser's order.
    left: Variable,
    /// The basic block to jump to when the parser gives up.
    otherwise: Block,
}

/// The places of a header in the deparser's order, as bits; 0 if the deparser does not write it.
fn places(order: &[HeaderId], header: HeaderId) -> u64 {
    let places = order.iter().enumerate();
    let places = places.filter(|(_, written)| **written == header);
    places.fold(0, |bits, (place, _)| bits | 1 << place)
}

/// Whether packets of the program can be parsed from their block at all.
pub(in crate::frames) fn is_possible(ir: &Ir) -> bool {
    let is_whole = |header: &HeaderId| ir.headers[header.index()].fixed_bits.is_multiple_of(8);
    let order = &ir.deparser.order;
    order.len() <= 64 && order.iter().all(is_whole)
}

/// Writes the body of a function that parses the headers in the block `old` into the function's own block. The
/// function's own block already has the metadata that a packet has before the parser. The function returns 1, or 0 if
/// the frame must be parsed as bytes.
pub(in crate::frames) fn emit(e: &mut Emit<'_, '_, '_>, old: Value) -> Value {
    let ir = e.ir();
    let mut all = iconst(&mut e.b, 0);
    for (place, header) in (0_u32..).zip(&ir.deparser.order) {
        let offset = e.layout().valid(*header);
        let valid = e.load(types::I8, Region::Vector, old, offset);
        let valid = e.b.ins().uextend(types::I64, valid);
        let bit = bits::shift_left(&mut e.b, valid, place);
        all = e.b.ins().bor(all, bit);
    }
    let left = e.b.declare_var(types::I64);
    e.b.def_var(left, all);
    let [otherwise, end] = e.blocks();
    let result = e.b.append_block_param(end, types::I64);
    let standing = Standing {
        old,
        left,
        otherwise,
    };
    let exit = states(e, Some(standing)).exit;
    e.begin(exit);
    let untaken = e.b.use_var(left);
    let no_error = e.constant32(ir.core_errors.no_error);
    e.store_context(no_error, offset_of!(PassContext, parser_error));
    let is_all = e.b.ins().icmp_imm_u(IntCC::Equal, untaken, 0);
    let is_all = e.b.ins().uextend(types::I64, is_all);
    e.blank_late_headers();
    e.b.ins().jump(end, &[BlockArg::Value(is_all)]);
    e.begin(otherwise);
    let none = iconst(&mut e.b, 0);
    e.b.ins().jump(end, &[BlockArg::Value(none)]);
    e.begin(end);
    result
}

impl Writer<'_, '_, '_, '_> {
    /// Whether a state can run without bytes; always true if there are bytes.
    pub(super) fn is_possible(&self, state: &State) -> bool {
        self.standing.is_none()
            || (state.ops.iter().all(|op| self.is_operation_possible(op))
                && !state
                    .key
                    .iter()
                    .any(|part| matches!(part, KeyPart::Lookahead { .. })))
    }

    fn is_operation_possible(&self, op: &ParserOp) -> bool {
        match op {
            ParserOp::Extract(ExtractTarget::Header(header)) => self.may_stand(*header),
            ParserOp::Extract(ExtractTarget::Next {
                stack: AnyStack::Headers(stack),
                ..
            }) => {
                let elements = &self.e.ir().stacks[stack.index()].elements;
                elements.iter().all(|header| self.may_stand(*header))
            }
            // A register would keep the written value after the re-parse gives up.
            ParserOp::Set { to, .. } => !matches!(to, Place::RegisterCell { .. }),
            ParserOp::Verify { .. } => true,
            ParserOp::Extract(_)
            | ParserOp::ExtractVariable { .. }
            | ParserOp::SetLookahead { .. }
            | ParserOp::Advance { .. }
            | ParserOp::Primitive(_) => false,
        }
    }

    /// Whether the deparser may write a header, and its fields can be copied in a few steps.
    fn may_stand(&self, header: HeaderId) -> bool {
        let ir = self.e.ir();
        let area = self.e.layout().header(header);
        ir.headers[header.index()].variable_field.is_none()
            && area.len() <= (UNROLLED_WORDS_MAX * 8) as usize
            && places(&ir.deparser.order, header) != 0
    }

    /// Gives up in a state that cannot run without bytes.
    pub(super) fn give_up(&mut self) {
        if let Some(standing) = self.standing {
            self.e.jump(standing.otherwise);
        }
    }

    pub(super) fn give_up_if(&mut self, condition: Value) {
        let Some(standing) = self.standing else {
            return;
        };
        let next = self.e.b.create_block();
        self.e.branch(condition, standing.otherwise, next);
        self.e.begin_inner(next);
    }

    /// Extracts a header if it is next in the deparser's order, else gives up.
    pub(super) fn keep(&mut self, standing: &Standing, header: HeaderId) {
        let ir = self.e.ir();
        let wanted = places(&ir.deparser.order, header);
        let left = self.e.b.use_var(standing.left);
        let b = &mut self.e.b;
        let below = b.ins().ineg(left);
        let first = b.ins().band(left, below);
        let wanted = iconst(b, wanted);
        let is_first = b.ins().band(first, wanted);
        let is_other = b.ins().icmp_imm_u(IntCC::Equal, is_first, 0);
        self.give_up_if(is_other);
        let behind = self.e.b.ins().bxor(left, first);
        self.e.b.def_var(standing.left, behind);
        let area = self.e.layout().header(header);
        let (vector, old) = (self.e.vector, standing.old);
        let mut offset = area.start;
        while offset < area.end {
            let ty = match area.end - offset {
                8 => types::I64,
                _ => types::I64X2,
            };
            let words = self.e.load(ty, Region::Vector, old, offset);
            self.e.store(Region::Vector, words, vector, offset);
            offset += ty.bytes();
        }
        for field in ir.headers[header.index()].field_ids() {
            self.forget_field(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_bit_wherever_it_is_written() {
        let order = [2, 0, 2, 1].map(HeaderId);
        let bits = [0, 1, 2, 3].map(|id| places(&order, HeaderId(id)));
        assert_eq!(bits, [0b10, 0b1000, 0b101, 0]);
    }
}
