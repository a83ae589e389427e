//! Generates the parser. Each visit of [`Paths`] (a parser state at one position in the frame) has code of its own, in
//! which positions are constants.

use std::collections::HashMap;

use dataplane::engine::ir::{
    Expr, ExtractTarget, FieldId, HeaderId, Int, KeyPart, ParserOp, Place, State, TransitionCase,
    range::Range,
};

use super::{
    emit::{Emit, Emitted, FRAME, FRAME_END, SCRATCH},
    layout::Word,
    paths::{Paths, Step, Visit, Walk},
};
use crate::asm::{Alu, Jump, Label, Reg, Size, reg::*};

/// A place where the parser ends with an error. The code at its label is generated after the code of all visits.
struct Failure {
    label: Label,
    error: u32,
    at: u32,
}

/// The data that generating a state's code needs.
pub(super) struct Parsing<'a> {
    paths: &'a Paths,
    labels: HashMap<&'a Visit, (usize, Label)>,
    /// The visit whose code is being generated.
    current: usize,
    end: Label,
    failures: Vec<Failure>,
    /// The generated code has checked that the frame has at least this many bytes.
    pub(super) n_checked: u32,
}

impl<'p> Emit<'p> {
    /// Generates the parser. On entry [`FRAME`] and [`FRAME_END`] are loaded; parsing ends at `end`.
    pub(super) fn parser(&mut self, paths: &Paths, end: Label) -> Emitted<()> {
        let labels = paths.visits.iter().enumerate();
        let labels = labels.map(|(place, visit)| (visit, (place, self.asm.label())));
        let labels = labels.collect();
        let mut parsing = Parsing {
            paths,
            labels,
            current: 0,
            end,
            failures: Vec::new(),
            n_checked: 0,
        };
        if paths.has_variable {
            self.set_word(Word::Moved, 0);
        }
        if paths.visits.is_empty() {
            self.set_word(Word::Consumed, 0);
            self.asm.jump(end);
        }
        if paths.is_cut() {
            self.leave(
                "parser".into(),
                "it has too many ways through its states".into(),
            );
        }
        for (place, visit) in paths.visits.iter().enumerate() {
            parsing.current = place;
            self.visit(visit, &mut parsing)?;
        }
        for failure in std::mem::take(&mut parsing.failures) {
            self.asm.place(failure.label);
            self.set_word(Word::ParserError, failure.error.cast_signed());
            self.set_consumed(failure.at, paths.has_variable);
            if !paths.is_regular {
                self.set_word(Word::Irregular, 1);
            }
            self.asm.jump(end);
        }
        Ok(())
    }

    fn visit(&mut self, visit: &Visit, parsing: &mut Parsing<'_>) -> Emitted<()> {
        let ir = self.ir;
        let state = &ir.parser.states[visit.state.index()];
        if let Some((_, label)) = parsing.labels.get(visit) {
            self.asm.place(*label);
        }
        self.asm
            .note(format!("state {} at byte {}", state.name, visit.at));
        parsing.n_checked = 0;
        let n_failures = parsing.failures.len();
        let place = format!("parser state \"{}\"", state.name);
        let mut is_whole = false;
        self.try_or_punt(place, |emit| {
            let mut walk = Walk::new(ir, visit);
            for op in &state.ops {
                if !emit.operation(op, &mut walk, parsing)? {
                    is_whole = true;
                    return Ok(());
                }
            }
            walk.is_irregular = parsing.paths.ends_irregular(parsing.current);
            emit.select(state, &walk, parsing)?;
            is_whole = true;
            Ok(())
        })?;
        if !is_whole {
            parsing.failures.truncate(n_failures);
        }
        Ok(())
    }

    /// Stores the position at which the parser ends.
    fn set_consumed(&mut self, at: u32, is_moved: bool) {
        if is_moved {
            self.load_word(R1, Word::Moved);
            self.asm.alu_imm(Alu::Add, R1, at as i32);
            self.store_word(Word::Consumed, R1);
        } else {
            self.set_word(Word::Consumed, at as i32);
        }
    }

    pub(super) fn fail(&mut self, error: u32, at: u32, parsing: &mut Parsing<'_>) -> Label {
        let same = parsing.failures.iter();
        let mut same = same.filter(|it| it.error == error && it.at == at);
        if let Some(failure) = same.next() {
            return failure.label;
        }
        let label = self.asm.label();
        parsing.failures.push(Failure { label, error, at });
        label
    }

    /// Jumps to a failure if the frame has fewer than `end` bytes.
    pub(super) fn ensure(&mut self, end: u32, at: u32, parsing: &mut Parsing<'_>) {
        if end <= parsing.n_checked {
            return;
        }
        let error = self.ir.core_errors.packet_too_short;
        let short = self.fail(error, at, parsing);
        self.asm.mov(R1, FRAME);
        self.asm.alu_imm(Alu::Add, R1, end as i32);
        self.asm.jump_if(Jump::Gt, R1, FRAME_END, short);
        parsing.n_checked = end;
    }

    /// Generates the code of a statement. Returns whether the state continues after the statement.
    fn operation(
        &mut self,
        op: &ParserOp,
        walk: &mut Walk,
        parsing: &mut Parsing<'_>,
    ) -> Emitted<bool> {
        let (before, errors) = (walk.at, self.ir.core_errors);
        let was_moved = walk.is_moved;
        match walk.step(self.ir, op) {
            Step::Unknown(reason) => return Err(reason.into()),
            Step::StackFull => {
                let full = self.fail(errors.stack_out_of_bounds, before, parsing);
                self.asm.jump(full);
                return Ok(false);
            }
            Step::Skips => {
                self.ensure(walk.at, before, parsing);
                return Ok(true);
            }
            Step::Extracts(header, at) => {
                self.ensure(walk.at, at, parsing);
                self.extract(header, at, was_moved, parsing);
                self.note_next(op, walk);
                return Ok(true);
            }
            Step::ExtractsVariable(header, at) => {
                self.extract_variable(op, header, at, was_moved, parsing)?;
                self.note_next(op, walk);
                return Ok(true);
            }
            Step::SkipsVariable => {
                let ParserOp::Advance { bits } = op else {
                    return Err("an unknown statement".into());
                };
                let kept = self.variable_bytes(bits, u64::MAX, before, before, parsing)?;
                self.move_by(kept, parsing);
                return Ok(true);
            }
            Step::Stays => {}
        }
        match op {
            ParserOp::Set { to, from } => self.assign(to, from)?,
            ParserOp::SetLookahead { to, offset, bits } => {
                let Place::Field(field) = to else {
                    return Err("a lookahead into a field that is chosen at run time".into());
                };
                if *bits > 64 {
                    return self.peek_wide(*field, 8 * walk.at + offset, *bits, walk.at, parsing);
                }
                self.peek(walk.at, *offset, *bits, parsing)?;
                let range = Range::field(*bits, false);
                self.store_field(*field, R1, Some(range));
            }
            ParserOp::Verify { condition, error } => {
                let Expr::Const(error) = error else {
                    return Err("an error that is not constant".into());
                };
                let error = u32::try_from(error).unwrap_or(u32::MAX);
                let fails = self.fail(error, walk.at, parsing);
                self.jump_if(condition, false, fails, R1)?;
            }
            ParserOp::Primitive(primitive) => self.primitive(primitive)?,
            _ => return Err("an unknown statement".into()),
        }
        Ok(true)
    }

    /// Loads bits that lie ahead into `R1`, without consuming them.
    fn peek(&mut self, at: u32, offset: u32, bits: u32, parsing: &mut Parsing<'_>) -> Emitted<()> {
        if bits > 64 {
            return Err("a lookahead of more than 64 bits".into());
        }
        let start = 8 * at + offset;
        self.ensure((start + bits).div_ceil(8), at, parsing);
        self.load_bits(R1, FRAME, start, bits, parsing.n_checked);
        Ok(())
    }

    fn note_next(&mut self, op: &ParserOp, walk: &Walk) {
        let (ParserOp::Extract(target) | ParserOp::ExtractVariable { target, .. }) = op else {
            return;
        };
        if let ExtractTarget::Next { stack, .. } = target {
            let (at, next) = (self.layout.next_index(*stack), walk.next_of(*stack));
            self.asm.store_imm(Size::B8, SCRATCH, at, next as i32);
        }
    }

    /// Copies more than 64 of the next bits into a field of the same width.
    fn peek_wide(
        &mut self,
        field: FieldId,
        start: u32,
        bits: u32,
        at: u32,
        parsing: &mut Parsing<'_>,
    ) -> Emitted<bool> {
        if self.ir.fields[field.index()].bits != bits {
            return Err("a lookahead into a field of another width".into());
        }
        self.ensure((start + bits).div_ceil(8), at, parsing);
        if self.needs.is_needed(field) {
            self.extract_field(field, FRAME, start, parsing.n_checked);
        }
        Ok(true)
    }

    pub(super) fn extract(
        &mut self,
        header: HeaderId,
        at: u32,
        is_moved: bool,
        parsing: &Parsing<'_>,
    ) {
        for (field, offset) in self.wire_fields(header) {
            if !self.needs.is_needed(field) {
                continue;
            }
            self.extract_field(field, FRAME, 8 * at + offset, parsing.n_checked);
        }
        self.set_valid(header, true);
        if parsing.paths.offset(header).is_none() {
            let place = self.layout.offset(header);
            if is_moved {
                self.load_word(R1, Word::Moved);
                self.asm.alu_imm(Alu::Add, R1, at as i32);
                self.asm.store(Size::B8, SCRATCH, place, R1);
            } else {
                self.asm.store_imm(Size::B8, SCRATCH, place, at as i32);
            }
        }
    }

    /// Copies a field from the frame into the state. `start` is the position of the field's first bit, counted from
    /// `base`; `n_checked` bytes after `base` may be read.
    pub(super) fn extract_field(&mut self, field: FieldId, base: Reg, start: u32, n_checked: u32) {
        let declared = &self.ir.fields[field.index()];
        let (bits, signed) = (declared.bits, declared.signed);
        for word in 0..self.words(field) {
            let end = start + bits - 64 * word;
            let n = (bits - 64 * word).min(64);
            self.load_bits(R1, base, end - n, n, n_checked);
            if signed && n < 64 {
                self.wrap(R1, n, true);
            }
            let at = self.layout.field(field, word);
            self.asm.store(Size::B8, SCRATCH, at, R1);
        }
    }

    /// Loads up to 64 bits of the frame into a register. Overwrites `R0` and `R5`.
    pub(super) fn load_bits(&mut self, to: Reg, base: Reg, start: u32, bits: u32, n_checked: u32) {
        let (first, end) = (start / 8, (start + bits).div_ceil(8));
        let n_bytes = end - first;
        // The smallest load that has all bits and stays within the bytes that may be read.
        let fitting = [Size::B1, Size::B2, Size::B4, Size::B8]
            .into_iter()
            .find(|size| size.bytes() >= n_bytes);
        let load = fitting.and_then(|size| {
            let from = if first + size.bytes() <= n_checked {
                first
            } else {
                end.checked_sub(size.bytes())?
            };
            Some((size, from))
        });
        if let Some((size, from)) = load {
            self.asm.load(size, to, base, from as i16);
            self.asm.to_be(to, size);
            let behind = 8 * (from + size.bytes()) - (start + bits);
            if behind > 0 {
                self.asm.alu_imm(Alu::Rsh, to, behind as i32);
            }
            if behind + bits < 8 * size.bytes() {
                self.wrap(to, bits, false);
            }
            return;
        }
        // Two loads: at most 32 bits at the end, and the bits before.
        let low = bits.min(32);
        let high = bits - low;
        if high == 0 {
            // A wider load would read outside of the frame, so load single bytes.
            self.load_bytes(to, base, start, bits);
            return;
        }
        let kept = R5;
        self.load_bits(kept, base, start, high, n_checked);
        self.asm.alu_imm(Alu::Lsh, kept, low as i32);
        self.load_bits(to, base, start + high, low, n_checked);
        self.asm.alu(Alu::Or, to, kept);
    }

    fn load_bytes(&mut self, to: Reg, base: Reg, start: u32, bits: u32) {
        let (first, end) = (start / 8, (start + bits).div_ceil(8));
        self.asm.mov_imm(to, 0);
        for at in first..end {
            self.asm.alu_imm(Alu::Lsh, to, 8);
            self.asm.load(Size::B1, R0, base, at as i16);
            self.asm.alu(Alu::Or, to, R0);
        }
        let behind = 8 * end - (start + bits);
        if behind > 0 {
            self.asm.alu_imm(Alu::Rsh, to, behind as i32);
        }
        self.wrap(to, bits, false);
    }

    fn select(&mut self, state: &State, walk: &Walk, parsing: &mut Parsing<'_>) -> Emitted<()> {
        let registers = [R1, R2, R3, R4];
        let before = self.spills;
        // A lookahead uses R1, so values stay on the stack until all are computed.
        let mut kept = Vec::new();
        for part in &state.key {
            match part {
                KeyPart::Lookahead { offset, bits } => {
                    self.peek(walk.at, *offset, *bits, parsing)?;
                }
                KeyPart::Value { value, bits, .. } => {
                    if *bits > 64 {
                        return Err("a select over more than 64 bits".into());
                    }
                    self.word(value, 0, R1)?;
                    let range = self.names().range(value);
                    let target = Range::field(*bits, false);
                    if !range.is_some_and(|range| range.is_within(&target)) {
                        self.wrap(R1, *bits, false);
                    }
                }
            }
            if state.key.len() > 1 {
                kept.push(self.spill(R1)?);
            }
        }
        // If there are more values than registers, each value is loaded when it is compared.
        let stays = kept.len() > registers.len();
        if !stays {
            for (kept, register) in kept.iter().zip(registers) {
                self.asm.load(Size::B8, register, R10, *kept);
            }
        }
        let value_of = |emit: &mut Self, position: usize| match (stays, kept.get(position)) {
            (true, Some(kept)) => {
                emit.asm.load(Size::B8, R1, R10, *kept);
                R1
            }
            _ => registers[position],
        };
        self.spills = before;
        for transition in &state.transitions {
            let TransitionCase::Values(cases) = &transition.case else {
                return Err("a parser value set".into());
            };
            let other = self.asm.label();
            for (position, (value, mask)) in cases.iter().enumerate() {
                if mask.as_ref().is_some_and(|mask| *mask == Int::ZERO) && *value == Int::ZERO {
                    continue;
                }
                let register = value_of(self, position);
                let value = u64::try_from(value).map_err(|_| "a case of more than 64 bits")?;
                let mut found = register;
                if let Some(mask) = mask {
                    let mask = u64::try_from(mask).map_err(|_| "a case of more than 64 bits")?;
                    self.asm.mov_imm(R0, mask);
                    self.asm.alu(Alu::And, R0, register);
                    found = R0;
                }
                match i32::try_from(value.cast_signed()) {
                    Ok(value) => self.asm.jump_if_imm(Jump::Ne, found, value, other),
                    Err(_) => {
                        self.asm.mov_imm(R5, value);
                        self.asm.jump_if(Jump::Ne, found, R5, other);
                    }
                }
            }
            self.go_to(transition.next, walk, parsing);
            self.asm.place(other);
        }
        self.go_to(state.default, walk, parsing);
        Ok(())
    }

    fn go_to(
        &mut self,
        next: Option<dataplane::engine::ir::StateId>,
        walk: &Walk,
        parsing: &mut Parsing<'_>,
    ) {
        let Some(state) = next else {
            self.set_consumed(walk.at, walk.is_moved);
            if walk.is_irregular || parsing.paths.is_unsure() {
                self.set_word(Word::Irregular, 1);
            }
            let end = parsing.end;
            self.asm.jump(end);
            return;
        };
        let visit = Visit {
            state,
            at: walk.at,
            next: walk.next.clone(),
            is_irregular: walk.is_irregular,
            is_moved: walk.is_moved,
        };
        // A packet is punted if its next visit is not among those of `Paths`, or if the parser would loop for ever.
        let found = parsing.labels.get(&visit).copied();
        let found = found.filter(|(place, _)| !parsing.paths.is_back(parsing.current, *place));
        let label = found.map_or(self.ends.punt, |(_, label)| label);
        self.asm.jump(label);
    }
}
