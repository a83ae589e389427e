//! The parser as code: a block a state, loads at offsets that are known where every way to a state
//! has taken the same number of bytes.
//!
//! What a header needs is looked at once, before its fields are loaded: that the frame has so many
//! bytes, and that they stand in one piece (a recirculated frame's head may end among them; then
//! the runtime makes them so). Not here: what an error means, which is the engine's to write down.

use std::mem::offset_of;

use cranelift_codegen::ir::{
    Block, BlockArg, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value,
    condcodes::IntCC, types,
};
use cranelift_frontend::{FunctionBuilder, Switch, Variable};
use dataplane::{
    engine::ir::{
        AnyStack, Expr, ExtractTarget, FieldId, HeaderId, Int, Ir, KeyPart, Parser, ParserOp,
        Place, Primitive, StackId, State, StateId, Transition, TransitionCase,
    },
    limits,
};

use super::{
    Emit,
    bits::{self, iconst},
};
use crate::{context::PassContext, packets};

/// Words of fields that a header has at most to be unrolled.
pub(crate) const UNROLLED_WORDS_MAX: u32 = 48;
/// Arrows of one value each from which on a search beats comparing one after the other.
const SWITCH_ARROWS: usize = 4;

/// Where in the frame a state begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// No way to the state has been found yet.
    Unreached,
    /// Always so many bytes in.
    Known(u64),
    /// It depends on the packet.
    Varying,
}

impl Position {
    fn plus(self, bytes: Option<u64>) -> Self {
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

/// The header that an extraction fills where that is known.
fn fixed_target(target: &ExtractTarget) -> Option<HeaderId> {
    match target {
        ExtractTarget::Header(header) => Some(*header),
        _ => None,
    }
}

/// Bytes that an operation takes where that is known.
fn bytes_of(ir: &Ir, op: &ParserOp) -> Option<u64> {
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
        _ => Some(0),
    }
}

/// Where each state begins.
fn positions(ir: &Ir, parser: &Parser) -> Vec<Position> {
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
fn has_cycle(parser: &Parser) -> bool {
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

/// The function that is being written.
struct Writer<'e, 'f, E: Emit<'f>> {
    e: &'e mut E,
    states: Vec<Block>,
    begins: Vec<Position>,
    position: Position,
    /// Bytes taken; always set where a state begins, and where the parser ends.
    at: Variable,
    /// The beginning of the frame.
    front: Variable,
    /// Bytes that stand in one piece there.
    front_len: Variable,
    /// Length of the frame.
    len: Value,
    steps: Option<Variable>,
    error: Variable,
    exit: Block,
    lifetime: std::marker::PhantomData<&'f ()>,
}

/// Writes the parser's body; the code goes on behind it with `consumed` and `parser_error` of the
/// context set.
pub(crate) fn emit<'f>(e: &mut impl Emit<'f>) {
    let ir = e.ir();
    let parser = &ir.parser;
    let context = e.context();
    let begins = positions(ir, parser);
    let is_cyclic = has_cycle(parser);
    let b = e.b();
    let field = |b: &mut FunctionBuilder<'_>, offset: usize| {
        b.ins().load(types::I64, trusted(), context, imm(offset))
    };
    let head = field(b, offset_of!(PassContext, head));
    let head_len = field(b, offset_of!(PassContext, head_len));
    let payload = field(b, offset_of!(PassContext, payload));
    let payload_len = field(b, offset_of!(PassContext, payload_len));
    let front = b.ins().select(head_len, head, payload);
    let front_len = b.ins().select(head_len, head_len, payload_len);
    let len = b.ins().iadd(head_len, payload_len);
    let zero = iconst(b, 0);
    let [at, front_var, front_len_var, error, steps] =
        [zero, front, front_len, zero, zero].map(|value| {
            let variable = b.declare_var(types::I64);
            b.def_var(variable, value);
            variable
        });
    let no_error = iconst(b, ir.core_errors.no_error.into());
    b.def_var(error, no_error);
    let states: Vec<Block> = parser.states.iter().map(|_| b.create_block()).collect();
    let exit = b.create_block();
    let start = parser.start.map_or(exit, |start| states[start.index()]);
    b.ins().jump(start, &[]);
    let mut writer = Writer {
        e,
        states,
        begins,
        position: Position::Known(0),
        at,
        front: front_var,
        front_len: front_len_var,
        len,
        steps: is_cyclic.then_some(steps),
        error,
        exit,
        lifetime: std::marker::PhantomData,
    };
    for (position, state) in parser.states.iter().enumerate() {
        writer.state(position, state);
    }
    let b = writer.e.b();
    b.switch_to_block(exit);
    let (consumed, code) = (b.use_var(at), b.use_var(error));
    let code = b.ins().ireduce(types::I32, code);
    b.ins().store(
        trusted(),
        consumed,
        context,
        imm(offset_of!(PassContext, consumed)),
    );
    b.ins().store(
        trusted(),
        code,
        context,
        imm(offset_of!(PassContext, parser_error)),
    );
}

pub(crate) fn trusted() -> MemFlagsData {
    MemFlagsData::trusted()
}

pub(crate) fn imm(offset: usize) -> i32 {
    i32::try_from(offset).unwrap_or(i32::MAX)
}

impl<'f, E: Emit<'f>> Writer<'_, 'f, E> {
    fn b(&mut self) -> &mut FunctionBuilder<'f> {
        self.e.b()
    }

    fn state(&mut self, number: usize, state: &State) {
        let block = self.states[number];
        self.b().switch_to_block(block);
        self.position = self.begins[number];
        if self.position == Position::Unreached {
            // Nothing leads here; the code must end nevertheless.
            self.position = Position::Varying;
        }
        if let Some(steps) = self.steps {
            let before = self.b().use_var(steps);
            let after = bits::add_const(self.b(), before, 1);
            self.b().def_var(steps, after);
            let most = iconst(self.b(), limits::PARSER_STEPS_MAX.into());
            let is_over = self.b().ins().icmp(IntCC::UnsignedGreaterThan, after, most);
            let timeout = self.e.ir().core_errors.parser_timeout;
            self.fail_if(is_over, timeout);
        }
        for (position, op) in state.ops.iter().enumerate() {
            self.op(number, position, op);
            self.position = self.position.plus(bytes_of(self.e.ir(), op));
        }
        self.transitions(number, state);
    }

    /// Bytes taken so far.
    fn taken(&mut self) -> Value {
        match self.position {
            Position::Known(at) => iconst(self.b(), at),
            _ => {
                let at = self.at;
                self.b().use_var(at)
            }
        }
    }

    /// Ends the parser with an error where a condition holds, and goes on where it does not.
    fn fail_if(&mut self, condition: Value, code: u32) {
        let code = iconst(self.b(), code.into());
        self.fail_with(condition, code);
    }

    fn fail_with(&mut self, condition: Value, code: Value) {
        let taken = self.taken();
        let (exit, at, error) = (self.exit, self.at, self.error);
        let b = self.b();
        let (failed, next) = (b.create_block(), b.create_block());
        b.set_cold_block(failed);
        b.ins()
            .brif(condition, failed, &[] as &[BlockArg], next, &[]);
        b.switch_to_block(failed);
        b.def_var(error, code);
        b.def_var(at, taken);
        b.ins().jump(exit, &[]);
        b.switch_to_block(next);
        // What was defined on the way out does not hold here.
        b.def_var(at, taken);
    }

    /// Makes sure that the frame has `bytes` more bytes, in one piece with what is before them.
    fn need(&mut self, bytes: u64) {
        let taken = self.taken();
        let end = bits::add_const(self.b(), taken, bytes);
        self.need_to(end);
    }

    fn need_to(&mut self, end: Value) {
        let (front, front_len, len) = (self.front, self.front_len, self.len);
        let too_short = self.e.ir().core_errors.packet_too_short;
        let context = self.e.context();
        let b = self.b();
        let in_front = b.use_var(front_len);
        let is_beyond = b.ins().icmp(IntCC::UnsignedGreaterThan, end, in_front);
        let (pull, next) = (b.create_block(), b.create_block());
        b.set_cold_block(pull);
        b.ins().brif(is_beyond, pull, &[] as &[BlockArg], next, &[]);
        b.switch_to_block(pull);
        let is_short = b.ins().icmp(IntCC::UnsignedGreaterThan, end, len);
        self.fail_if(is_short, too_short);
        self.e
            .call(packets::pull as *const () as usize, &[context, end], false);
        let b = self.b();
        let load = |b: &mut FunctionBuilder<'_>, offset| {
            b.ins().load(types::I64, trusted(), context, imm(offset))
        };
        let head = load(b, offset_of!(PassContext, head));
        let head_len = load(b, offset_of!(PassContext, head_len));
        b.def_var(front, head);
        b.def_var(front_len, head_len);
        b.ins().jump(next, &[]);
        b.switch_to_block(next);
    }

    /// Where the next byte is: a pointer, and bits from it on.
    fn cursor(&mut self) -> (Value, u32) {
        let front = self.front;
        let front = self.b().use_var(front);
        match self.position {
            Position::Known(at) if at < 4096 => (front, u32::try_from(at * 8).unwrap_or(0)),
            _ => {
                let taken = self.taken();
                (self.b().ins().iadd(front, taken), 0)
            }
        }
    }

    /// So many bytes were taken.
    fn advance(&mut self, bytes: u64) {
        let taken = self.taken();
        let after = bits::add_const(self.b(), taken, bytes);
        let at = self.at;
        self.b().def_var(at, after);
    }

    fn op(&mut self, state: usize, position: usize, op: &ParserOp) {
        match op {
            ParserOp::Extract(target) => self.extract(target),
            ParserOp::ExtractVariable { target, bits } => {
                self.extract_variable((state, position), target, bits);
            }
            ParserOp::Set { to, from } => self.set(to, from),
            ParserOp::SetLookahead {
                to: Place::Field(to),
                offset,
                bits,
            } if !self.e.ir().fields[to.index()].variable => {
                self.need(u64::from((offset + bits).div_ceil(8)));
                let (base, skipped) = self.cursor();
                let value = bits::load(self.b(), base, skipped + offset, *bits);
                self.put(*to, value, *bits, 0);
            }
            ParserOp::Verify { condition, error } => {
                let holds = self.e.condition(condition);
                let code = match error {
                    Expr::Const(code) => iconst(self.b(), low_word(code).min(u32::MAX.into())),
                    other => {
                        let code = self.e.low(other, 64);
                        let most = iconst(self.b(), u32::MAX.into());
                        self.b().ins().umin(code, most)
                    }
                };
                let zero = self.b().ins().iconst(types::I8, 0);
                let broken = self.b().ins().icmp(IntCC::Equal, holds, zero);
                self.fail_with(broken, code);
            }
            ParserOp::Advance { bits } => self.skip((state, position), bits),
            ParserOp::Primitive(primitive) => self.e.primitive(primitive),
            ParserOp::SetLookahead { .. } => self.interpret(
                (state, position),
                "a lookahead into a place found at run time",
            ),
        }
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

    /// Stores words into a field of an element that is `displacement` elements of a stack away
    /// from the one that the field is of.
    fn put(&mut self, field: FieldId, mut words: Vec<Value>, bits: u32, displacement: u32) {
        let slot = self.e.layout().field(field);
        let block = self.e.block();
        let b = self.b();
        let wanted = slot.words as usize;
        words.truncate(wanted);
        if bits > slot.bits
            && slot.bits % 64 != 0
            && let Some(top) = words.get_mut(wanted - 1)
        {
            *top = bits::low(b, *top, slot.bits % 64);
        }
        let width = bits.min(slot.bits);
        // A narrower value is a positive number.
        if slot.signed
            && width == slot.bits
            && slot.bits > 0
            && let Some(top) = words.get_mut(wanted - 1)
        {
            *top = bits::sign_extend(b, *top, (slot.bits - 1) % 64 + 1);
        }
        let zero = (words.len() < wanted).then(|| iconst(b, 0));
        words.extend(zero.into_iter().cycle().take(wanted - words.len()));
        for (word, at) in words.iter().zip((0..).step_by(8)) {
            let offset = slot.offset + displacement + at;
            b.ins().store(trusted(), *word, block, imm(offset as usize));
        }
    }

    fn extract(&mut self, target: &ExtractTarget) {
        let ir = self.e.ir();
        if let Some(header) = fixed_target(target) {
            let bytes = u64::from(ir.headers[header.index()].fixed_bits / 8);
            self.need(bytes);
            self.fields(header);
            self.e.set_valid(header);
            self.advance(bytes);
            return;
        }
        match target {
            ExtractTarget::Stack(stack) => self.extract_element(*stack),
            _ => self.extract_at_run_time(target, None),
        }
    }

    /// The fields of a header that is there, in one piece.
    fn fields(&mut self, header: HeaderId) {
        let ir = self.e.ir();
        let declared = &ir.headers[header.index()];
        let area = self.e.layout().header(ir, header);
        if area.len() > (UNROLLED_WORDS_MAX * 8) as usize || declared.variable_field.is_some() {
            let (base, skipped) = self.cursor();
            let base = bits::add_const(self.b(), base, u64::from(skipped / 8));
            let (context, block) = (self.e.context(), self.e.block());
            let header = iconst(self.b(), header.0.into());
            let none = iconst(self.b(), 0);
            let arguments = [context, block, base, header, none];
            self.e.call(
                packets::read_header as *const () as usize,
                &arguments,
                false,
            );
            return;
        }
        let (base, skipped) = self.cursor();
        let mut offset = skipped;
        for field in declared.field_ids() {
            let n_bits = ir.fields[field.index()].bits;
            if n_bits > 0 && self.e.is_read(field) {
                let words = bits::load(self.b(), base, offset, n_bits);
                self.put(field, words, n_bits, 0);
            }
            offset += n_bits;
        }
    }

    /// An element of a stack: which one is found at run time, by a jump to it.
    fn extract_element(&mut self, stack: StackId) {
        let ir = self.e.ir();
        let elements = &ir.stacks[stack.index()].elements;
        let next_index = self.e.layout().next_index(AnyStack::Headers(stack));
        let out_of_bounds = ir.core_errors.stack_out_of_bounds;
        let block = self.e.block();
        let b = self.b();
        let next = b
            .ins()
            .load(types::I32, trusted(), block, imm(next_index as usize));
        let n_elements = b
            .ins()
            .iconst(types::I32, i64::try_from(elements.len()).unwrap_or(0));
        let is_full = b
            .ins()
            .icmp(IntCC::UnsignedGreaterThanOrEqual, next, n_elements);
        self.fail_if(is_full, out_of_bounds);
        let Some(first) = elements.first() else {
            return;
        };
        let bytes = u64::from(ir.headers[first.index()].fixed_bits / 8);
        self.need(bytes);
        let done = self.b().create_block();
        let mut switch = Switch::new();
        let mut blocks = Vec::new();
        for (position, element) in elements.iter().enumerate() {
            let target = self.b().create_block();
            switch.set_entry(position as u128, target);
            blocks.push((target, *element));
        }
        // The index was compared with the number of elements.
        let last = blocks.last().map_or(done, |(target, _)| *target);
        switch.emit(self.b(), next, last);
        for (target, element) in blocks {
            self.b().switch_to_block(target);
            self.fields(element);
            self.e.set_valid(element);
            self.b().ins().jump(done, &[]);
        }
        let b = self.b();
        b.switch_to_block(done);
        let one = b.ins().iconst(types::I32, 1);
        let after = b.ins().iadd(next, one);
        b.ins()
            .store(trusted(), after, block, imm(next_index as usize));
        self.advance(bytes);
    }

    fn extract_variable(&mut self, place: (usize, usize), target: &ExtractTarget, bits: &Expr) {
        match self.e.exact(bits) {
            Some(bits) => self.extract_at_run_time(target, Some(bits)),
            None => self.interpret(place, "the length of a varbit field"),
        }
    }

    /// An extraction that the runtime does: `position` is where it is told.
    fn extract_at_run_time(&mut self, target: &ExtractTarget, bits: Option<Value>) {
        let (kind, of, member) = match target {
            ExtractTarget::Header(header) => (0, header.0, 0),
            ExtractTarget::Stack(stack) => (1, stack.0, 0),
            ExtractTarget::UnionStack { stack, member } => (2, stack.0, *member),
        };
        let (context, block, at) = (self.e.context(), self.e.block(), self.taken());
        let b = self.b();
        let target = iconst(b, kind << 32 | u64::from(of));
        let member = iconst(b, member.into());
        let bits = match bits {
            Some(bits) => bits,
            None => iconst(b, 0),
        };
        let arguments = [context, block, at, target, member, bits];
        let result = self
            .e
            .call(packets::extract as *const () as usize, &arguments, true);
        self.continue_at(result);
    }

    /// A runtime function gave the new position, or the complement of an error.
    fn continue_at(&mut self, result: Option<Value>) {
        let Some(result) = result else { return };
        let b = self.b();
        let zero = iconst(b, 0);
        let is_error = b.ins().icmp(IntCC::SignedLessThan, result, zero);
        let code = b.ins().bnot(result);
        self.fail_with(is_error, code);
        let (at, front, front_len) = (self.at, self.front, self.front_len);
        let context = self.e.context();
        let b = self.b();
        b.def_var(at, result);
        // The frame's first piece may have become another.
        let load = |b: &mut FunctionBuilder<'_>, offset| {
            b.ins().load(types::I64, trusted(), context, imm(offset))
        };
        let head = load(b, offset_of!(PassContext, head));
        let head_len = load(b, offset_of!(PassContext, head_len));
        let payload = load(b, offset_of!(PassContext, payload));
        let payload_len = load(b, offset_of!(PassContext, payload_len));
        let pointer = b.ins().select(head_len, head, payload);
        let length = b.ins().select(head_len, head_len, payload_len);
        b.def_var(front, pointer);
        b.def_var(front_len, length);
        self.position = Position::Varying;
    }

    fn skip(&mut self, place: (usize, usize), bits: &Expr) {
        let errors = self.e.ir().core_errors;
        let Some(n_bits) = self.e.exact(bits) else {
            return self.interpret(place, "the length of an advance");
        };
        let taken = self.taken();
        let len = self.len;
        let b = self.b();
        let zero = iconst(b, 0);
        let is_negative = b.ins().icmp(IntCC::SignedLessThan, n_bits, zero);
        let rest = bits::low(b, n_bits, 3);
        let is_odd = b.ins().icmp(IntCC::NotEqual, rest, zero);
        let is_wrong = b.ins().bor(is_negative, is_odd);
        self.fail_if(is_wrong, errors.parser_invalid_argument);
        let b = self.b();
        let bytes = bits::shift_right(b, n_bits, 3);
        let left = b.ins().isub(len, taken);
        let is_short = b.ins().icmp(IntCC::UnsignedGreaterThan, bytes, left);
        self.fail_if(is_short, errors.packet_too_short);
        let at = self.at;
        let b = self.b();
        let after = b.ins().iadd(taken, bytes);
        b.def_var(at, after);
    }

    fn interpret(&mut self, (state, position): (usize, usize), reason: &str) {
        let state = &self.e.ir().parser.states[state];
        let place = format!("parser state \"{}\"", state.name);
        self.e.note(place, reason.to_owned());
        let at = self.taken();
        let result = self.e.interpret(&state.ops[position], at);
        self.continue_at(result);
    }

    fn transitions(&mut self, number: usize, state: &State) {
        let mut key: Vec<(Vec<Value>, u32)> = Vec::new();
        for part in &state.key {
            key.push(match part {
                KeyPart::Value { value, bits, .. } => (self.e.words(value, *bits), *bits),
                KeyPart::Lookahead { offset, bits } => {
                    self.need(u64::from((offset + bits).div_ceil(8)));
                    let (base, skipped) = self.cursor();
                    (bits::load(self.b(), base, skipped + offset, *bits), *bits)
                }
            });
        }
        let taken = self.taken();
        let at = self.at;
        self.b().def_var(at, taken);
        let default = self.target(state.default);
        let mut arrows = state.transitions.as_slice();
        while let Some(first) = arrows.first() {
            let plain = arrows
                .iter()
                .take_while(|it| plain_value(it, &key).is_some());
            let n_plain = plain.count();
            if n_plain >= SWITCH_ARROWS {
                self.search(&key, &arrows[..n_plain]);
                arrows = &arrows[n_plain..];
                continue;
            }
            let position = state.transitions.len() - arrows.len();
            self.arrow(number, position, first, &key);
            arrows = &arrows[1..];
        }
        self.b().ins().jump(default, &[]);
    }

    fn target(&self, state: Option<StateId>) -> Block {
        state.map_or(self.exit, |state| self.states[state.index()])
    }

    /// Arrows of one value each, by a search.
    fn search(&mut self, key: &[(Vec<Value>, u32)], arrows: &[Transition]) {
        let mut switch = Switch::new();
        let mut seen = std::collections::HashSet::new();
        for arrow in arrows {
            if let Some(value) = plain_value(arrow, key)
                && seen.insert(value)
            {
                switch.set_entry(value.into(), self.target(arrow.next));
            }
        }
        let next = self.b().create_block();
        if let Some(word) = key.first().and_then(|(words, _)| words.first()).copied() {
            switch.emit(self.b(), word, next);
        }
        self.b().switch_to_block(next);
    }

    /// Goes along one arrow if its case holds.
    fn arrow(
        &mut self,
        state: usize,
        number: usize,
        arrow: &Transition,
        key: &[(Vec<Value>, u32)],
    ) {
        let target = self.target(arrow.next);
        let holds = match &arrow.case {
            TransitionCase::Values(cases) => {
                let mut holds = self.b().ins().iconst(types::I8, 1);
                for ((value, mask), (words, bits)) in cases.iter().zip(key) {
                    let equal = self.equal(words, *bits, value, mask.as_ref());
                    holds = self.b().ins().band(holds, equal);
                }
                holds
            }
            TransitionCase::ValueSet { .. } => self.is_member(state, number, key),
        };
        let b = self.b();
        let next = b.create_block();
        b.ins().brif(holds, target, &[] as &[BlockArg], next, &[]);
        b.switch_to_block(next);
    }

    fn equal(&mut self, words: &[Value], bits: u32, value: &Int, mask: Option<&Int>) -> Value {
        let n_words = bits.div_ceil(64) as usize;
        let (Some(value), false) = (int_words(value, n_words), *value < Int::ZERO) else {
            return self.b().ins().iconst(types::I8, 0);
        };
        let mask = mask.map(|mask| cut_words(mask, n_words));
        let mut holds = self.b().ins().iconst(types::I8, 1);
        for (position, word) in words.iter().enumerate() {
            let b = self.b();
            let mut word = *word;
            if let Some(mask) = &mask {
                let mask = iconst(b, mask[position]);
                word = b.ins().band(word, mask);
            }
            let wanted = iconst(b, value[position]);
            let equal = b.ins().icmp(IntCC::Equal, word, wanted);
            holds = b.ins().band(holds, equal);
        }
        holds
    }

    /// Asks the runtime whether the key is in a value set.
    fn is_member(&mut self, state: usize, arrow: usize, key: &[(Vec<Value>, u32)]) -> Value {
        let (context, b) = (self.e.context(), self.b());
        let words: Vec<Value> = key
            .iter()
            .flat_map(|(words, _)| words.iter().copied())
            .collect();
        let size = u32::try_from(words.len().max(1) * 8).unwrap_or(u32::MAX);
        let slot =
            b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3));
        for (word, offset) in words.iter().zip((0..).step_by(8)) {
            b.ins().stack_store(types::I64, *word, slot, offset);
        }
        let address = b.ins().stack_addr(types::I64, slot, 0);
        let state = iconst(b, state as u64);
        let arrow = iconst(b, arrow as u64);
        let arguments = [context, address, state, arrow];
        let result = self
            .e
            .call(packets::is_member as *const () as usize, &arguments, true);
        let b = self.b();
        match result {
            Some(result) => b.ins().ireduce(types::I8, result),
            None => b.ins().iconst(types::I8, 0),
        }
    }
}

/// The value of an arrow that compares one word with one value.
fn plain_value(arrow: &Transition, key: &[(Vec<Value>, u32)]) -> Option<u64> {
    let TransitionCase::Values(cases) = &arrow.case else {
        return None;
    };
    match (cases.as_slice(), key) {
        ([(value, None)], [(words, _)]) if words.len() == 1 => u64::try_from(value).ok(),
        _ => None,
    }
}

fn low_word(value: &Int) -> u64 {
    cut_words(value, 1).first().copied().unwrap_or(0)
}

/// The low words of a number in two's complement.
pub(crate) fn cut_words(value: &Int, n_words: usize) -> Vec<u64> {
    let word = Int::from(u64::MAX);
    let words = (0..n_words).map(|n| value >> (64 * n) & &word);
    words
        .map(|word| u64::try_from(&word).unwrap_or(0))
        .collect()
}

/// The words of a number that has no more.
fn int_words(value: &Int, n_words: usize) -> Option<Vec<u64>> {
    (value >> (64 * n_words) == Int::ZERO).then(|| cut_words(value, n_words))
}
