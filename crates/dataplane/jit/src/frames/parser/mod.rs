//! The parser as code: one basic block per state.
//!
//! Before a header's fields are loaded, one check makes sure that the frame has the header's bytes and that they are
//! contiguous. (A recirculated frame may have two pieces, and the first may end among these bytes; then the runtime
//! joins them.) The same code, with other extractions, is generated a second time, for packets whose headers were not
//! written as bytes (`reparse.rs`). The parser only stores the number of a parser error in the context; the pass
//! (`passes.rs`) writes the metadata.

mod extract;
mod reparse;
mod select;

use std::mem::offset_of;

use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, condcodes::IntCC, types};
use cranelift_frontend::Variable;
use dataplane::{
    engine::ir::{Expr, Parser, ParserOp, Place, Primitive, State, StateId, range::Range},
    limits,
};

use self::reparse::Standing;
pub(super) use self::reparse::{emit as emit_reparse, is_possible as is_reparse_possible};
use super::bits::{self, Bytes, iconst};
use crate::{
    compile::{Emit, Emitted},
    context::PassContext,
    fallback::Interpretable,
    graph::topological,
};

/// The parser function that is being written.
struct Writer<'e, 'f, 'u, 'p> {
    e: &'e mut Emit<'f, 'u, 'p>,
    states: Vec<Block>,
    /// Bytes consumed; always set where a state begins, and where the parser ends.
    at: Variable,
    /// The beginning of the frame.
    front: Variable,
    /// How many contiguous bytes begin at `front`.
    front_len: Variable,
    len: Value,
    steps: Option<Variable>,
    error: Variable,
    exit: Block,
    /// The headers in the packet's old block (header vector), if the parser takes them from there and not from bytes.
    standing: Option<Standing>,
}

/// Writes the body of the parser's function. The function sets `consumed` and `parser_error` of the context.
pub(crate) fn emit(e: &mut Emit<'_, '_, '_>) {
    let writer = states(e, None);
    let (at, error, exit) = (writer.at, writer.error, writer.exit);
    e.begin(exit);
    e.blank_late_headers();
    let (consumed, code) = (e.b.use_var(at), e.b.use_var(error));
    let code = e.b.ins().ireduce(types::I32, code);
    e.store_context(consumed, offset_of!(PassContext, consumed));
    e.store_context(code, offset_of!(PassContext, parser_error));
}

/// Writes the code of every state. Where the parser ends, this code jumps to the writer's `exit`.
fn states<'e, 'f, 'u, 'p>(
    e: &'e mut Emit<'f, 'u, 'p>,
    standing: Option<Standing>,
) -> Writer<'e, 'f, 'u, 'p> {
    let ir = e.ir();
    let parser = &ir.parser;
    let [head, head_len, payload, payload_len] = frame(e);
    let front = e.b.ins().select(head_len, head, payload);
    let front_len = e.b.ins().select(head_len, head_len, payload_len);
    let len = e.b.ins().iadd(head_len, payload_len);
    let zero = iconst(&mut e.b, 0);
    let no_error = iconst(&mut e.b, ir.core_errors.no_error.into());
    let [at, front, front_len, error, steps] =
        [zero, front, front_len, no_error, zero].map(|value| {
            let variable = e.b.declare_var(types::I64);
            e.b.def_var(variable, value);
            variable
        });
    let states: Vec<Block> = parser.states.iter().map(|_| e.b.create_block()).collect();
    let exit = e.b.create_block();
    let start = parser.start.map_or(exit, |start| states[start.index()]);
    e.jump(start);
    let mut writer = Writer {
        e,
        states,
        at,
        front,
        front_len,
        len,
        steps: has_cycle(parser).then_some(steps),
        error,
        exit,
        standing,
    };
    for (position, state) in parser.states.iter().enumerate() {
        writer.state(position, state);
    }
    writer
}

/// The pieces of the frame as the context has them now: two pointers and their lengths.
fn frame(e: &mut Emit<'_, '_, '_>) -> [Value; 4] {
    [
        offset_of!(PassContext, head),
        offset_of!(PassContext, head_len),
        offset_of!(PassContext, payload),
        offset_of!(PassContext, payload_len),
    ]
    .map(|offset| e.load_context(types::I64, offset))
}

fn next_states(state: &State) -> impl Iterator<Item = StateId> {
    let arrows = state.transitions.iter().map(|arrow| arrow.next);
    arrows.chain([state.default]).flatten()
}

/// Whether a packet may enter more states than [`limits::PARSER_STEPS_MAX`]. This is possible if the states form a
/// cycle, or if there are more states than this limit.
pub(super) fn has_cycle(parser: &Parser) -> bool {
    let next = |id: StateId| next_states(&parser.states[id.index()]).collect();
    let order = topological(parser.start, next);
    order.is_none() || parser.states.len() > limits::PARSER_STEPS_MAX as usize
}

impl Writer<'_, '_, '_, '_> {
    fn state(&mut self, number: usize, state: &State) {
        let block = self.states[number];
        self.e.begin(block);
        self.e.place = format!("parser state \"{}\"", state.name);
        if !self.is_possible(state) {
            return self.give_up();
        }
        if let Some(steps) = self.steps {
            let before = self.e.b.use_var(steps);
            let after = bits::add_const(&mut self.e.b, before, 1);
            self.e.b.def_var(steps, after);
            let most = iconst(&mut self.e.b, limits::PARSER_STEPS_MAX.into());
            let code = IntCC::UnsignedGreaterThan;
            let is_over = self.e.b.ins().icmp(code, after, most);
            let timeout = self.e.ir().core_errors.parser_timeout;
            self.fail_if(is_over, timeout);
        }
        for op in &state.ops {
            if let Err(reason) = self.operation(state, op) {
                self.interpret(op, reason);
            }
        }
        self.transitions(number, state);
    }

    fn taken(&mut self) -> Value {
        self.e.b.use_var(self.at)
    }

    /// Ends the parser with an error if a condition holds.
    fn fail_if(&mut self, condition: Value, code: u32) {
        let code = iconst(&mut self.e.b, code.into());
        self.fail_with(condition, code);
    }

    fn fail_with(&mut self, condition: Value, code: Value) {
        if self.standing.is_some() {
            return self.give_up_if(condition);
        }
        let taken = self.taken();
        let (exit, at, error) = (self.exit, self.at, self.error);
        let b = &mut self.e.b;
        let (failed, next) = (b.create_block(), b.create_block());
        b.set_cold_block(failed);
        b.ins()
            .brif(condition, failed, &[] as &[BlockArg], next, &[]);
        b.switch_to_block(failed);
        b.def_var(error, code);
        b.def_var(at, taken);
        b.ins().jump(exit, &[]);
        b.switch_to_block(next);
        // The value that `at` got on the error path does not hold here.
        b.def_var(at, taken);
    }

    /// Makes sure that the frame has `bytes` more bytes, contiguous with those before them.
    fn need(&mut self, bytes: u64) {
        if self.standing.is_some() {
            return;
        }
        let taken = self.taken();
        let end = bits::add_const(&mut self.e.b, taken, bytes);
        let too_short = self.e.ir().core_errors.packet_too_short;
        let in_front = self.e.b.use_var(self.front_len);
        let code = IntCC::UnsignedGreaterThan;
        let is_beyond = self.e.b.ins().icmp(code, end, in_front);
        let [pull, next] = self.e.blocks();
        self.e.b.set_cold_block(pull);
        self.e.branch(is_beyond, pull, next);
        self.e.begin_inner(pull);
        let is_short = self.e.b.ins().icmp(code, end, self.len);
        self.fail_if(is_short, too_short);
        let pass = self.e.pass;
        self.e.call_outside("pull", &[pass, end]);
        self.find_front();
        self.e.jump(next);
        self.e.begin_inner(next);
    }

    /// Reloads the frame's first piece, which may have changed.
    fn find_front(&mut self) {
        let [head, head_len, payload, payload_len] = frame(self.e);
        let b = &mut self.e.b;
        let pointer = b.ins().select(head_len, head, payload);
        let length = b.ins().select(head_len, head_len, payload_len);
        b.def_var(self.front, pointer);
        b.def_var(self.front_len, length);
    }

    fn cursor(&mut self) -> Bytes {
        let (front, taken) = (self.e.b.use_var(self.front), self.taken());
        Bytes::foreign(self.e.b.ins().iadd(front, taken))
    }

    fn advance(&mut self, bytes: u64) {
        let taken = self.taken();
        let after = bits::add_const(&mut self.e.b, taken, bytes);
        self.e.b.def_var(self.at, after);
    }

    /// Generates the code of one operation. If the operation has no native code, generates nothing and returns an
    /// error.
    fn operation(&mut self, state: &State, op: &ParserOp) -> Emitted {
        match op {
            ParserOp::Extract(target) => self.extract(state, target)?,
            ParserOp::ExtractVariable { target, bits } => {
                let bits = self.length(bits)?;
                self.extract_at_run_time(target, Some(bits));
            }
            ParserOp::Set { to, from } => self.set(to, from),
            ParserOp::SetLookahead { to, offset, bits } => {
                self.e.check_place(to)?;
                self.need(u64::from((offset + bits).div_ceil(8)));
                let bytes = self.cursor();
                let value = bits::load(&mut self.e.b, bytes, *offset, *bits);
                self.e.put(to, value, &Range::field(*bits, false))?;
            }
            ParserOp::Verify { condition, error } => {
                let code = self.e.low(error, 1)?[0];
                let most = iconst(&mut self.e.b, u32::MAX.into());
                let code = self.e.b.ins().umin(code, most);
                let holds = self.e.condition(condition);
                let broken = self.e.b.ins().icmp_imm_u(IntCC::Equal, holds, 0);
                self.fail_with(broken, code);
            }
            ParserOp::Advance { bits } => {
                let bits = self.length(bits)?;
                self.skip(bits);
            }
            // Jumps and `exit` have an effect only in a control.
            ParserOp::Primitive(primitive) => {
                self.e.primitive(primitive);
            }
        }
        Ok(())
    }

    fn set(&mut self, to: &Place, from: &Expr) {
        let ir = self.e.ir();
        let primitive = match (to, from) {
            (Place::Field(to), Expr::Field(from)) if ir.fields[to.index()].variable => {
                Primitive::AssignVariable {
                    to: *to,
                    from: *from,
                }
            }
            _ => Primitive::Assign {
                to: to.clone(),
                from: from.clone(),
            },
        };
        self.e.primitive(&primitive);
    }

    /// Computes a number of bits as a signed word. If the number is negative or has more than 64 bits, the word is
    /// negative. A number of 64 bits whose highest bit is set becomes another number that is larger than any frame's
    /// length. The lowest three bits never change, so the result is a whole number of bytes exactly if the original
    /// number was.
    fn length(&mut self, bits: &Expr) -> Emitted<Value> {
        let (words, signed) = self.e.exact(bits)?;
        let range = self.e.names().range(bits);
        let word = words.first().copied();
        let mut word = word.ok_or("a number without words")?;
        if range.is_some_and(|range| range.is_within(&Range::field(64, true))) {
            return Ok(word);
        }
        let b = &mut self.e.b;
        if !(signed && words.len() == 1) {
            let beyond = iconst(b, (u64::MAX >> 1) & !7);
            let rest = bits::low(b, word, 3);
            let beyond = b.ins().bor(beyond, rest);
            let is_beyond = b.ins().icmp_imm_s(IntCC::SignedLessThan, word, 0);
            word = b.ins().select(is_beyond, beyond, word);
        }
        let none = iconst(b, u64::MAX);
        for above in words.iter().skip(1) {
            let is_zero = b.ins().icmp_imm_u(IntCC::Equal, *above, 0);
            word = b.ins().select(is_zero, word, none);
        }
        Ok(word)
    }

    /// Continues at the position that a runtime function returned, or fails with the error whose complement it
    /// returned.
    fn continue_at(&mut self, result: Value) {
        let b = &mut self.e.b;
        let is_error = b.ins().icmp_imm_s(IntCC::SignedLessThan, result, 0);
        let code = b.ins().bnot(result);
        self.fail_with(is_error, code);
        self.e.b.def_var(self.at, result);
        self.find_front();
    }

    fn skip(&mut self, n_bits: Value) {
        let errors = self.e.ir().core_errors;
        let taken = self.taken();
        let b = &mut self.e.b;
        let is_negative = b.ins().icmp_imm_s(IntCC::SignedLessThan, n_bits, 0);
        let rest = bits::low(b, n_bits, 3);
        let is_odd = b.ins().icmp_imm_u(IntCC::NotEqual, rest, 0);
        let is_wrong = b.ins().bor(is_negative, is_odd);
        self.fail_if(is_wrong, errors.parser_invalid_argument);
        let b = &mut self.e.b;
        let bytes = bits::shift_right(b, n_bits, 3);
        let left = b.ins().isub(self.len, taken);
        let is_short = b.ins().icmp(IntCC::UnsignedGreaterThan, bytes, left);
        self.fail_if(is_short, errors.packet_too_short);
        let after = self.e.b.ins().iadd(taken, bytes);
        self.e.b.def_var(self.at, after);
    }

    fn interpret(&mut self, op: &ParserOp, reason: String) {
        let number = self.e.leave(Interpretable::Operation(op.clone()), reason);
        let at = self.taken();
        let result = self.e.ask("interpret_operation", &[number, at]);
        self.continue_at(result);
    }
}
