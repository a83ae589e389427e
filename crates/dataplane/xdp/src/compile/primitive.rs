//! Generates code for the statements of actions, parser states and the deparser.

use dataplane::{
    ActionId, CounterId, DropReason,
    engine::ir::{
        AnyStack, Expr, FieldId, HeaderExpr, HeaderId, Meaning, Moment, Place, Primitive,
        UnionExpr, UnionId,
    },
};

use super::{
    emit::{Emit, Emitted, Kind, SCRATCH, next},
    layout::Word,
};
use crate::asm::{Alu, Jump, Label, Size, reg::*};

/// The most iterations of an action's loops, all together.
const LOOP_ROUNDS_MAX: usize = 256;
/// The most statements in all iterations of an action: the verifier processes at most a million instructions.
const LOOP_STATEMENTS_MAX: usize = 4096;

impl Emit<'_> {
    /// Generates the code of an action. The action's arguments are in the slot whose address is in the register
    /// [`super::emit::SLOT`].
    pub(super) fn action(&mut self, action: ActionId) -> Emitted<()> {
        let outer = self.action.replace(action);
        let result = self.statements(action);
        self.action = outer;
        result
    }

    fn statements(&mut self, action: ActionId) -> Emitted<()> {
        let ir = self.ir;
        let body = &ir.actions[action.index()];
        let n = body.primitives.len();
        let labels: Vec<Label> = (0..=n).map(|_| self.asm.label()).collect();
        if self.has_exit(action) {
            self.set_word(Word::Exited, 0);
        }
        let rounds = self.begin_loops(&body.primitives)?;
        for (position, primitive) in body.primitives.iter().enumerate() {
            self.asm.place(labels[position]);
            let line = body.lines.get(position).and_then(Option::as_ref);
            if let Some(line) = line {
                self.asm.note(format!("{}:{}", line.file, line.line));
            }
            let (Primitive::Jump(to) | Primitive::JumpIfZero(_, to)) = primitive else {
                self.primitive(primitive)?;
                continue;
            };
            let label = labels.get(*to).copied();
            let label = label.ok_or("a jump out of the action")?;
            let onwards = self.asm.label();
            if let Primitive::JumpIfZero(value, _) = primitive {
                if *to > position {
                    self.jump_if_zero(value, label)?;
                    continue;
                }
                let back = self.asm.label();
                self.jump_if_zero(value, back)?;
                self.asm.jump(onwards);
                self.asm.place(back);
            }
            if let Some(rounds) = rounds.filter(|_| *to <= position) {
                self.count_round(rounds);
            }
            self.asm.jump(label);
            self.asm.place(onwards);
        }
        self.asm.place(labels[n]);
        if rounds.is_some() {
            self.free_spill_slot();
        }
        Ok(())
    }

    /// If the action has loops, returns the stack slot in which iterations are counted, and how many iterations are
    /// allowed.
    fn begin_loops(&mut self, primitives: &[Primitive]) -> Emitted<Option<(i16, i32)>> {
        let goes_back = |(position, primitive): (usize, &Primitive)| match primitive {
            Primitive::Jump(to) | Primitive::JumpIfZero(_, to) => *to <= position,
            _ => false,
        };
        if !primitives.iter().enumerate().any(goes_back) {
            return Ok(None);
        }
        if self.kind == Kind::Copies {
            return Err("a loop".into());
        }
        // The verifier goes through a hash byte by byte, in each iteration.
        let hashes = |it: &Primitive| matches!(it, Primitive::Hash { .. });
        if primitives.iter().any(hashes) {
            return Err("a loop that hashes".into());
        }
        // The journal (the counters that a packet increments at its end) has one entry for each statement that counts,
        // whatever the number of iterations.
        let counts =
            |it: &Primitive| matches!(it, Primitive::Count { .. } | Primitive::ExecuteMeter { .. });
        if primitives.iter().any(counts) {
            return Err("a loop that counts".into());
        }
        let rounds = self.spill_slot()?;
        self.asm.store_imm(Size::B8, R10, rounds, 0);
        let most = (LOOP_STATEMENTS_MAX / primitives.len()).min(LOOP_ROUNDS_MAX);
        Ok(Some((rounds, most as i32)))
    }

    /// Counts an iteration, and punts the packet after too many iterations. Their number is limited because the
    /// verifier goes through every iteration.
    fn count_round(&mut self, (rounds, most): (i16, i32)) {
        let punt = self.ends.punt;
        self.asm.load(Size::B8, R0, R10, rounds);
        self.asm.alu_imm(Alu::Add, R0, 1);
        self.asm.store(Size::B8, R10, rounds, R0);
        self.asm.jump_if_imm(Jump::Gt, R0, most, punt);
    }

    fn jump_if_zero(&mut self, value: &Expr, to: Label) -> Emitted<()> {
        if let Expr::FromBool(condition) = value {
            return self.jump_if(condition, false, to, R1);
        }
        let nonzero = self.asm.label();
        for word in 0..self.bounded(value)?.words() {
            self.word(value, word, R1)?;
            self.asm.jump_if_imm(Jump::Ne, R1, 0, nonzero);
        }
        self.asm.jump(to);
        self.asm.place(nonzero);
        Ok(())
    }

    pub(super) fn has_exit(&self, action: ActionId) -> bool {
        let primitives = &self.ir.actions[action.index()].primitives;
        primitives.iter().any(|it| matches!(it, Primitive::Exit))
    }

    /// Generates a statement other than a jump.
    pub(super) fn primitive(&mut self, primitive: &Primitive) -> Emitted<()> {
        match primitive {
            Primitive::NoOp | Primitive::Log { .. } => Ok(()),
            Primitive::Assign { to, from } => self.assign(to, from),
            Primitive::AssignHeader { to, from } => self.assign_header(to, from),
            Primitive::AddHeader(header) => self.change_validity(header, true),
            Primitive::RemoveHeader(header) => self.change_validity(header, false),
            Primitive::AssignStack { to, from } => self.assign_stack(*to, *from),
            Primitive::Push(stack, count) => self.shift_stack(*stack, count, true),
            Primitive::Pop(stack, count) => self.shift_stack(*stack, count, false),
            Primitive::Exit => {
                self.set_word(Word::Exited, 1);
                Ok(())
            }
            Primitive::Check(condition, reason) => self.check(condition, *reason),
            Primitive::MarkToDrop => {
                let metadata = &self.ir.metadata;
                self.set_field(Some(metadata.egress_spec), self.ir.architecture.drop_port);
                let group = metadata.mcast_grp.filter(|_| self.needs.may_multicast());
                self.set_field(group, 0);
                Ok(())
            }
            Primitive::Count { counter, index } => self.count(*counter, index),
            // These two cancel a request. Nothing in the kernel makes such requests, so there is nothing to do.
            Primitive::Resubmit(None) | Primitive::Recirculate(None) => Ok(()),
            Primitive::AssignVariable { .. } => Err("a field of variable width".into()),
            Primitive::AssignUnion { to, from } => self.assign_union(to, from),
            Primitive::RegisterRead { .. } | Primitive::RegisterWrite { .. } => {
                Err("a register".into())
            }
            Primitive::ExecuteMeter { to, meter, index } => self.execute_meter(to, *meter, index),
            Primitive::Hash {
                to,
                base,
                calculation,
                size,
            } => self.hash(to, base, *calculation, size),
            Primitive::Random { .. } => Err("a random number".into()),
            Primitive::Digest(digest) => self.ask_for_digest(*digest),
            Primitive::Truncate(_) => Err("a truncation".into()),
            Primitive::Clone { .. } => Err("a clone".into()),
            Primitive::Resubmit(Some(_)) => Err("a resubmission".into()),
            Primitive::Recirculate(Some(_)) => Err("a recirculation".into()),
            Primitive::ChangePayload { .. } => Err("an extern that changes the payload".into()),
            Primitive::Jump(_) | Primitive::JumpIfZero(..) => Err("a jump".into()),
        }
    }

    fn check(
        &mut self,
        condition: &dataplane::engine::ir::BoolExpr,
        reason: DropReason,
    ) -> Emitted<()> {
        let holds = self.asm.label();
        self.jump_if(condition, true, holds, R1)?;
        self.drop_for(reason);
        self.asm.place(holds);
        Ok(())
    }

    pub(super) fn drop_for(&mut self, reason: DropReason) {
        self.set_word(Word::Reason, reason as i32);
        let drop = self.ends.drop;
        self.asm.jump(drop);
    }

    pub(super) fn assign(&mut self, to: &Place, from: &Expr) -> Emitted<()> {
        match to {
            Place::Field(field) => self.assign_field(*field, from),
            Place::RegisterCell { .. } => Err("a register".into()),
            Place::Access { header, offset } => {
                let found = self.header_of(header);
                let some = |emit: &mut Self, header: HeaderId| {
                    let field = emit.ir.headers[header.index()].field_at(*offset);
                    emit.assign_field(field, from)
                };
                self.for_found(&found, R1, some, |_| {})
            }
        }
    }

    pub(super) fn assign_field(&mut self, field: FieldId, from: &Expr) -> Emitted<()> {
        let declared = &self.ir.fields[field.index()];
        if declared.variable {
            return Err("a field of variable width".into());
        }
        if !self.needs.is_needed(field) || declared.bits == 0 {
            return Ok(());
        }
        let (bits, signed, words) = (declared.bits, declared.signed, self.words(field));
        if words == 1 {
            self.word(from, 0, R1)?;
            let range = self.names().range(from);
            self.store_field(field, R1, range);
            return Ok(());
        }
        // The expression may read the field that is assigned, so all words are computed before the first is stored.
        let before = self.spills;
        let mut kept = Vec::new();
        for word in 0..words {
            self.word(from, word, R1)?;
            if word + 1 == words {
                self.wrap(R1, bits - 64 * word, signed);
            }
            kept.push(self.spill(R1)?);
        }
        for (word, kept) in kept.into_iter().enumerate() {
            self.asm.load(Size::B8, R1, R10, kept);
            let at = self.layout.field(field, word as u32);
            self.asm.store(Size::B8, SCRATCH, at, R1);
        }
        self.spills = before;
        Ok(())
    }

    fn change_validity(&mut self, header: &HeaderExpr, valid: bool) -> Emitted<()> {
        let found = self.header_of(header);
        let some = |emit: &mut Self, header| {
            emit.change_validity_of(header, valid);
            Ok(())
        };
        self.for_found(&found, R1, some, |_| {})
    }

    /// Generates the code of `setValid` or `setInvalid`. Like BMv2, it adds the header's bytes to `packet_length`, or
    /// subtracts them.
    fn change_validity_of(&mut self, header: HeaderId, valid: bool) {
        if self.ir.headers[header.index()].metadata {
            return;
        }
        let end = self.asm.label();
        self.jump_if_valid(header, valid, end, R2);
        let variable = self.ir.headers[header.index()].variable_field;
        let variable = variable.map(|field| self.layout.field(field, 0));
        if valid {
            self.clear(header);
            if let Some(at) = variable {
                // The header may already be in the frame, with bytes in its field of variable width.
                self.asm.store_imm(Size::B8, SCRATCH, at, 0);
                self.set_word(Word::Irregular, 1);
            }
        }
        self.set_valid(header, valid);
        let has_length = self
            .needs
            .metadata(Moment::Egress, Meaning::PacketLength)
            .is_some();
        if has_length {
            let bytes = self.header_bytes(header) as i32;
            self.load_word(R2, Word::PacketLength);
            self.asm
                .alu_imm(Alu::Add, R2, if valid { bytes } else { -bytes });
            if let (false, Some(at)) = (valid, variable) {
                self.asm.load(Size::B8, R1, SCRATCH, at);
                self.asm.alu(Alu::Sub, R2, R1);
            }
            self.store_word(Word::PacketLength, R2);
        }
        self.asm.place(end);
    }

    fn clear(&mut self, header: HeaderId) {
        for field in self.ir.headers[header.index()].field_ids() {
            if self.needs.is_needed(field) {
                for word in 0..self.words(field) {
                    let at = self.layout.field(field, word);
                    self.asm.store_imm(Size::B8, SCRATCH, at, 0);
                }
            }
        }
    }

    fn assign_header(&mut self, to: &HeaderExpr, from: &HeaderExpr) -> Emitted<()> {
        let (to, from) = (self.header_of(to), self.header_of(from));
        let some = |emit: &mut Self, to| {
            let some = |emit: &mut Self, from| emit.copy_header(to, from);
            emit.for_found(&from, R1, some, |emit| emit.set_valid(to, false))
        };
        self.for_found(&to, R1, some, |_| {})
    }

    fn assign_union(&mut self, to: &UnionExpr, from: &UnionExpr) -> Emitted<()> {
        let (to, from) = (self.union_of(to), self.union_of(from));
        let some = |emit: &mut Self, to| {
            let some = |emit: &mut Self, from| emit.copy_union(to, Some(from));
            emit.for_found(&from, R1, some, |_| {})
        };
        self.for_found(&to, R1, some, |_| {})
    }

    /// Copies a union's valid member; without `from`, invalidates all members.
    fn copy_union(&mut self, to: UnionId, from: Option<UnionId>) -> Emitted<()> {
        if Some(to) == from {
            return Ok(());
        }
        let members = self.members(to);
        for to in &members {
            self.set_valid(*to, false);
        }
        let from = from.map(|from| self.members(from)).unwrap_or_default();
        for (to, from) in members.into_iter().zip(from) {
            let invalid = self.asm.label();
            self.jump_if_valid(from, false, invalid, R2);
            self.copy_header(to, from)?;
            self.asm.place(invalid);
        }
        Ok(())
    }

    /// Copies a header. If `from` is invalid, `to` becomes invalid.
    fn copy_header(&mut self, to: HeaderId, from: HeaderId) -> Emitted<()> {
        let headers = &self.ir.headers;
        if headers[to.index()].variable_field.is_some() {
            return Err("a header of variable length".into());
        }
        let (invalid, end) = (self.asm.label(), self.asm.label());
        self.jump_if_valid(from, false, invalid, R2);
        self.set_valid(to, true);
        if to != from {
            let fields = headers[to.index()].field_ids();
            for (to, from) in fields.zip(headers[from.index()].field_ids()) {
                if !self.needs.is_needed(to) {
                    continue;
                }
                for word in 0..self.words(to) {
                    self.field_word(from, word, R1);
                    let at = self.layout.field(to, word);
                    self.asm.store(Size::B8, SCRATCH, at, R1);
                }
            }
        }
        self.asm.jump(end);
        self.asm.place(invalid);
        self.set_valid(to, false);
        self.asm.place(end);
        Ok(())
    }

    /// Copies an element of a stack into the element `to`; without `from`, invalidates `to`.
    fn move_element(
        &mut self,
        stack: AnyStack,
        to: usize,
        from: Option<(AnyStack, usize)>,
    ) -> Emitted<()> {
        if let Some(unions) = self.unions_of(stack) {
            let from = from.and_then(|(stack, from)| self.unions_of(stack)?.get(from).copied());
            return self.copy_union(unions[to], from);
        }
        let to = self
            .ir
            .element(stack, 0, to)
            .ok_or("an element beyond its stack")?;
        match from.and_then(|(stack, from)| self.ir.element(stack, 0, from)) {
            Some(from) => self.copy_header(to, from),
            None => {
                self.set_valid(to, false);
                Ok(())
            }
        }
    }

    fn assign_stack(&mut self, to: AnyStack, from: AnyStack) -> Emitted<()> {
        self.next_index(from, R1);
        let at = self.layout.next_index(to);
        self.asm.store(Size::B8, SCRATCH, at, R1);
        for position in 0..self.ir.stack_size(to) {
            self.move_element(to, position, Some((from, position)))?;
        }
        Ok(())
    }

    /// Generates the code of `push_front` and `pop_front` (P4-16 language specification 1.2.5, section 8.18).
    fn shift_stack(&mut self, stack: AnyStack, count: &Expr, up: bool) -> Emitted<()> {
        let Expr::Const(count) = count else {
            return Err("a stack that is shifted by a variable".into());
        };
        let size = self.ir.stack_size(stack);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(size);
        let at = self.layout.next_index(stack);
        let inside = self.asm.label();
        self.next_index(stack, R1);
        if up {
            self.asm.alu_imm(Alu::Add, R1, count as i32);
            self.asm.jump_if_imm(Jump::Le, R1, size as i32, inside);
            self.asm.mov_imm(R1, size as u64);
        } else {
            self.asm.alu_imm(Alu::Sub, R1, count as i32);
            self.asm.jump_if_imm(Jump::Sge, R1, 0, inside);
            self.asm.mov_imm(R1, 0);
        }
        self.asm.place(inside);
        self.asm.store(Size::B8, SCRATCH, at, R1);
        for step in 0..size {
            let (to, from) = if up {
                (size - 1 - step, (size - 1 - step).checked_sub(count))
            } else {
                (step, Some(step + count))
            };
            let from = from.filter(|from| *from < size);
            self.move_element(stack, to, from.map(|from| (stack, from)))?;
        }
        Ok(())
    }

    /// Records in the journal that a cell counts the packet; an index beyond the end counts nothing.
    fn count(&mut self, counter: CounterId, index: &Expr) -> Emitted<()> {
        let cells = self.ir.counters[counter.index()].cells as u32;
        let first = self.memory.counters.cells[counter.index()];
        let first = first.ok_or("a counter with too many cells")?;
        let at = self.journal_entry(first)?;
        self.index(index, R1)?;
        let beyond = self.asm.label();
        match i32::try_from(cells) {
            Ok(cells) => self.asm.jump_if_imm(Jump::Ge, R1, cells, beyond),
            Err(_) => {
                self.asm.mov_imm(next(R1), u64::from(cells));
                self.asm.jump_if(Jump::Ge, R1, next(R1), beyond);
            }
        }
        self.asm.alu_imm(Alu::Add, R1, 1);
        self.asm.store(Size::B4, SCRATCH, at, R1);
        self.asm.place(beyond);
        Ok(())
    }
}
