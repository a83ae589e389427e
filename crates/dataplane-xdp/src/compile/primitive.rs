//! Statements of actions, parser states and the deparser.

use dataplane::{
    ActionId, CounterId, DropReason,
    engine::ir::{
        AnyStack, Expr, FieldId, HeaderExpr, HeaderId, Meaning, Moment, Place, Primitive,
    },
};

use super::{
    emit::{Emit, Native, SCRATCH, next},
    layout::Word,
};
use crate::asm::{Alu, Jump, Label, Size, reg::*};

impl Emit<'_> {
    /// The body of an action. Its arguments are in the slot.
    pub(super) fn action(&mut self, action: ActionId) -> Native<()> {
        let outer = self.action.replace(action);
        let result = self.statements(action);
        self.action = outer;
        result
    }

    fn statements(&mut self, action: ActionId) -> Native<()> {
        let ir = self.ir;
        let body = &ir.actions[action.index()];
        let n = body.primitives.len();
        let labels: Vec<Label> = (0..=n).map(|_| self.asm.label()).collect();
        let has_exit = body
            .primitives
            .iter()
            .any(|it| matches!(it, Primitive::Exit));
        if has_exit {
            self.set_word(Word::Exited, 0);
        }
        for (position, primitive) in body.primitives.iter().enumerate() {
            self.asm.place(labels[position]);
            let line = body.lines.get(position).and_then(Option::as_ref);
            if let Some(line) = line {
                self.asm.note(format!("{}:{}", line.file, line.line));
            }
            let target = |to: &usize| match *to > position {
                true => labels.get(*to).copied().ok_or("a jump out of the action"),
                false => Err("a loop"),
            };
            match primitive {
                Primitive::Jump(to) => {
                    let to = target(to)?;
                    self.asm.jump(to);
                }
                Primitive::JumpIfZero(value, to) => {
                    let to = target(to)?;
                    self.jump_if_zero(value, to)?;
                }
                other => self.primitive(other)?,
            }
        }
        self.asm.place(labels[n]);
        Ok(())
    }

    fn jump_if_zero(&mut self, value: &Expr, to: Label) -> Native<()> {
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

    /// Whether an action has `exit` in it.
    pub(super) fn has_exit(&self, action: ActionId) -> bool {
        let primitives = &self.ir.actions[action.index()].primitives;
        primitives.iter().any(|it| matches!(it, Primitive::Exit))
    }

    /// A statement that goes on at the next one.
    pub(super) fn primitive(&mut self, primitive: &Primitive) -> Native<()> {
        match primitive {
            Primitive::NoOp | Primitive::Log { .. } => Ok(()),
            Primitive::Assign { to, from } => self.assign(to, from),
            Primitive::AssignHeader { to, from } => self.assign_header(to, from),
            Primitive::AddHeader(header) => self.turn(header, true),
            Primitive::RemoveHeader(header) => self.turn(header, false),
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
            // To take a request back that nothing in the kernel can have made is nothing.
            Primitive::Resubmit(None) | Primitive::Recirculate(None) => Ok(()),
            Primitive::AssignVariable { .. } => Err("a field of variable width".into()),
            Primitive::AssignUnion { .. } => Err("an assignment of a header union".into()),
            Primitive::RegisterRead { .. } | Primitive::RegisterWrite { .. } => {
                Err("a register".into())
            }
            Primitive::ExecuteMeter { .. } => Err("a meter".into()),
            Primitive::Hash {
                to,
                base,
                calculation,
                size,
            } => self.hash(to, base, *calculation, size),
            Primitive::Random { .. } => Err("a random number".into()),
            Primitive::Digest(_) => Err("a digest".into()),
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
    ) -> Native<()> {
        let holds = self.asm.label();
        self.jump_if(condition, true, holds, R1)?;
        self.drop_for(reason);
        self.asm.place(holds);
        Ok(())
    }

    /// The packet ends here.
    pub(super) fn drop_for(&mut self, reason: DropReason) {
        self.set_word(Word::Reason, reason as i32);
        let drop = self.ends.drop;
        self.asm.jump(drop);
    }

    /// Copies a number to a place.
    pub(super) fn assign(&mut self, to: &Place, from: &Expr) -> Native<()> {
        match to {
            Place::Field(field) => self.assign_field(*field, from),
            Place::RegisterCell { .. } => Err("a register".into()),
            Place::Access { header, offset } => {
                if let Ok(found) = self.known_header(header) {
                    let Some(header) = found else {
                        return Ok(());
                    };
                    let field = self.ir.headers[header.index()].field_at(*offset);
                    return self.assign_field(field, from);
                }
                let HeaderExpr::Element { stack, index } = header else {
                    return Err("a member of a union in a stack by a variable index".into());
                };
                let end = self.asm.label();
                let elements = self.ir.stacks[stack.index()].elements.clone();
                for (position, header) in elements.into_iter().enumerate() {
                    let other = self.asm.label();
                    self.index(index, R1)?;
                    self.asm.jump_if_imm(Jump::Ne, R1, position as i32, other);
                    let field = self.ir.headers[header.index()].field_at(*offset);
                    self.assign_field(field, from)?;
                    self.asm.jump(end);
                    self.asm.place(other);
                }
                self.asm.place(end);
                Ok(())
            }
        }
    }

    pub(super) fn assign_field(&mut self, field: FieldId, from: &Expr) -> Native<()> {
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
        // The value may read the field, so no word is stored before all are there.
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

    fn turn(&mut self, header: &HeaderExpr, valid: bool) -> Native<()> {
        if let Ok(found) = self.known_header(header) {
            if let Some(header) = found {
                self.turn_known(header, valid);
            }
            return Ok(());
        }
        let HeaderExpr::Element { stack, index } = header else {
            return Err("a member of a union in a stack by a variable index".into());
        };
        self.index(index, R1)?;
        let end = self.asm.label();
        let elements = self.ir.stacks[stack.index()].elements.clone();
        for (position, header) in elements.into_iter().enumerate() {
            let other = self.asm.label();
            self.asm.jump_if_imm(Jump::Ne, R1, position as i32, other);
            self.turn_known(header, valid);
            self.asm.jump(end);
            self.asm.place(other);
        }
        self.asm.place(end);
        Ok(())
    }

    /// `setValid` or `setInvalid`. BMv2 counts header bytes that come and go in `packet_length`.
    fn turn_known(&mut self, header: HeaderId, valid: bool) {
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
                // It may have been in the frame with something in that field.
                self.asm.store_imm(Size::B8, SCRATCH, at, 0);
                self.set_word(Word::Irregular, 1);
            }
        }
        self.set_valid(header, valid);
        let is_told = self
            .needs
            .told(Moment::Egress, Meaning::PacketLength)
            .is_some();
        if is_told {
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

    fn assign_header(&mut self, to: &HeaderExpr, from: &HeaderExpr) -> Native<()> {
        let (to, from) = (self.known_header(to)?, self.known_header(from)?);
        match (to, from) {
            (Some(to), Some(from)) => self.copy_header(to, from),
            (Some(to), None) => {
                self.set_valid(to, false);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// Copies a header; an invalid one makes the other invalid.
    fn copy_header(&mut self, to: HeaderId, from: HeaderId) -> Native<()> {
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

    fn elements(&self, stack: AnyStack) -> Native<Vec<HeaderId>> {
        match stack {
            AnyStack::Headers(stack) => Ok(self.ir.stacks[stack.index()].elements.clone()),
            AnyStack::Unions(_) => Err("a stack of header unions".into()),
        }
    }

    fn assign_stack(&mut self, to: AnyStack, from: AnyStack) -> Native<()> {
        let elements = (self.elements(to)?, self.elements(from)?);
        self.next_index(from, R1);
        let at = self.layout.next_index(to);
        self.asm.store(Size::B8, SCRATCH, at, R1);
        for (to, from) in elements.0.into_iter().zip(elements.1) {
            self.copy_header(to, from)?;
        }
        Ok(())
    }

    /// `push_front` and `pop_front`. P4_16 1.2.5, section 8.18.
    fn shift_stack(&mut self, stack: AnyStack, count: &Expr, up: bool) -> Native<()> {
        let elements = self.elements(stack)?;
        let Expr::Const(count) = count else {
            return Err("a stack that is shifted by a variable".into());
        };
        let size = elements.len();
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
            let (to, from) = match up {
                true => (size - 1 - step, (size - 1 - step).checked_sub(count)),
                false => (step, Some(step + count)),
            };
            match from.and_then(|from| elements.get(from)) {
                Some(from) => self.copy_header(elements[to], *from)?,
                None => self.set_valid(elements[to], false),
            }
        }
        Ok(())
    }

    /// Notes that a cell counts the packet; beyond the end nothing.
    fn count(&mut self, counter: CounterId, index: &Expr) -> Native<()> {
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
