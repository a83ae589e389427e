//! Primitives of actions. What has no native code is left to the interpreter, one primitive at a
//! time.

use std::mem::offset_of;

use cranelift_codegen::ir::{Block, InstBuilder, Value, condcodes::IntCC, types};
use dataplane::{
    DropReason,
    engine::ir::{AnyStack, BoolExpr, Expr, FieldId, HeaderExpr, HeaderId, Int, Place, Primitive},
    limits,
};

use super::{
    Emit, Native, Region,
    expression::{Found, Words},
    range::Range,
};
use crate::{
    context::{PassContext, Requests},
    fallback::Interpretable,
};

/// Words at most that a copy of a header moves one by one.
const COPY_WORDS_MAX: u32 = 64;

/// Elements at most of a stack whose moves are written out.
const STACK_ELEMENTS_MAX: usize = 16;

const REQUESTS: usize = offset_of!(PassContext, requests);

/// Where an action goes on after a primitive, as far as the next primitive is not it.
pub(crate) enum Flow {
    Next,
    /// To another primitive, if the value is not 0; always where there is none.
    Jump(usize, Option<Value>),
    /// The control is over once the action is.
    Exit,
    /// If the value is 0, the packet is over.
    Check(Value, DropReason),
}

impl Emit<'_, '_, '_> {
    /// A truth value, by the interpreter where it has no native code.
    pub(crate) fn condition(&mut self, condition: &BoolExpr) -> Value {
        match self.truth(condition) {
            Ok(value) => value,
            Err(reason) => {
                let what = Interpretable::Condition(condition.clone());
                let number = self.leave(what, reason);
                let (pass, vector) = (self.pass, self.vector);
                let args = self.args_pointer();
                let truth = self.call("interpret_condition", &[pass, vector, number, args]);
                match truth {
                    Some(truth) => self.b.ins().ireduce(types::I8, truth),
                    None => self.truth_constant(false),
                }
            }
        }
    }

    /// One primitive.
    pub(crate) fn primitive(&mut self, primitive: &Primitive) -> Flow {
        match primitive {
            Primitive::Jump(target) => return Flow::Jump(*target, None),
            Primitive::JumpIfZero(value, target) => {
                let is_zero = BoolExpr::Not(Box::new(BoolExpr::FromNumber(value.clone())));
                let is_zero = self.condition(&is_zero);
                return Flow::Jump(*target, Some(is_zero));
            }
            Primitive::Exit => return Flow::Exit,
            Primitive::Assert(condition) => {
                let holds = self.condition(condition);
                return Flow::Check(holds, DropReason::AssertionFailed);
            }
            Primitive::Assume(condition) => {
                let holds = self.condition(condition);
                return Flow::Check(holds, DropReason::AssumptionFailed);
            }
            _ => {}
        }
        if let Err(reason) = self.effect(primitive) {
            let number = self.leave(Interpretable::Primitive(primitive.clone()), reason);
            let (pass, vector) = (self.pass, self.vector);
            let args = self.args_pointer();
            self.call("interpret_primitive", &[pass, vector, number, args]);
        }
        Flow::Next
    }

    fn effect(&mut self, primitive: &Primitive) -> Native {
        match primitive {
            Primitive::NoOp | Primitive::Log { .. } => Ok(()),
            Primitive::Assign { to, from } => self.assign(to, from),
            Primitive::AssignVariable { to, from } => self.assign_variable(*to, *from),
            Primitive::AssignHeader { to, from } => self.assign_header(to, from),
            Primitive::AddHeader(header) => {
                self.each_header(header, |emit, header| emit.add_header(header))
            }
            Primitive::RemoveHeader(header) => {
                self.each_header(header, |emit, header| emit.remove_header(header))
            }
            Primitive::AssignUnion { .. }
            | Primitive::AssignStack { .. }
            | Primitive::AssignUnionStack { .. } => {
                Err("an assignment of a whole stack or union".into())
            }
            Primitive::Push(stack, count) => self.move_stack(*stack, count, true),
            Primitive::Pop(stack, count) => self.move_stack(*stack, count, false),
            Primitive::MarkToDrop => self.mark_to_drop(),
            Primitive::RegisterRead {
                to,
                register,
                index,
            } => {
                self.check_place(to)?;
                let array = &self.ir().registers[register.index()];
                if array.bits > 64 {
                    return Err("a register of more than 64 bits".into());
                }
                let (bits, cells) = (array.bits, array.cells);
                let index = self.index(index)?;
                self.if_inside(index, cells, |emit| {
                    let cell = emit.cell_address(register.index(), index, 3);
                    let value = emit.load(types::I64, Region::State, cell, 0);
                    emit.put(to, vec![value], &Range::field(bits, false))
                })
            }
            Primitive::RegisterWrite {
                register,
                index,
                value,
            } => self.register_write(register.index(), index, value),
            Primitive::Count { counter, index } => {
                let cells = self.ir().counters[counter.index()].cells;
                let array = self.ir().registers.len() + counter.index();
                let index = self.index(index)?;
                self.if_inside(index, cells, |emit| {
                    let cell = emit.cell_address(array, index, 4);
                    let bytes =
                        emit.load_context(types::I64, offset_of!(PassContext, ingress_bytes));
                    let packets = emit.load(types::I64, Region::State, cell, 0);
                    let total = emit.load(types::I64, Region::State, cell, 8);
                    let packets = emit.b.ins().iadd_imm_u(packets, 1);
                    let total = emit.b.ins().iadd(total, bytes);
                    emit.store(Region::State, packets, cell, 0);
                    emit.store(Region::State, total, cell, 8);
                    Ok(())
                })
            }
            other => self.extern_call(other),
        }
    }

    fn extern_call(&mut self, primitive: &Primitive) -> Native {
        let pass = self.pass;
        match primitive {
            Primitive::ExecuteMeter { to, meter, index } => {
                self.check_place(to)?;
                let index = self.index(index)?;
                let meter = self.constant32(u32::try_from(meter.index()).unwrap_or(u32::MAX));
                let color = self.called("execute_meter", &[pass, meter, index])?;
                // Beyond the end of the array there is no colour.
                let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, color, 256);
                self.if_true(inside, |emit| {
                    emit.put(to, vec![color], &Range::field(8, false))
                })
            }
            Primitive::Hash {
                to,
                base,
                calculation,
                size,
            } => {
                self.check_place(to)?;
                let (size, base) = (self.low(size, 1)?[0], self.low(base, 1)?[0]);
                let hash = self.calculation(*calculation)?;
                let one = self.constant(1);
                let size = self.b.ins().umax(size, one);
                let rest = self.b.ins().urem(hash, size);
                let sum = self.b.ins().iadd(rest, base);
                self.put(to, vec![sum], &Range::field(64, false))
            }
            Primitive::Random { to, low, high } => {
                self.check_place(to)?;
                let (low, high) = (self.low(low, 1)?[0], self.low(high, 1)?[0]);
                let some = IntCC::UnsignedGreaterThanOrEqual;
                let some = self.b.ins().icmp(some, high, low);
                self.if_true(some, |emit| {
                    let number = emit.called("random", &[pass, low, high])?;
                    emit.put(to, vec![number], &Range::field(64, false))
                })
            }
            other => self.request(other),
        }
    }

    fn request(&mut self, primitive: &Primitive) -> Native {
        let (value, offset) = match primitive {
            Primitive::Digest(digest) => (digest.0 + 1, offset_of!(Requests, digest)),
            Primitive::Resubmit(list) => {
                (Requests::list_code(*list), offset_of!(Requests, resubmit))
            }
            Primitive::Recirculate(list) => (
                Requests::list_code(*list),
                offset_of!(Requests, recirculate),
            ),
            Primitive::Clone { session, list } => {
                let session = self.low(session, 1)?[0];
                let mask = i64::from(limits::CLONE_SESSION_ID_MAX);
                let session = self.b.ins().band_imm_u(session, mask);
                let session = self.b.ins().ireduce(types::I32, session);
                self.store_context(session, REQUESTS + offset_of!(Requests, clone_session));
                let list = self.constant32(Requests::list_code(*list));
                self.store_context(list, REQUESTS + offset_of!(Requests, clone_list));
                (1, offset_of!(Requests, clone))
            }
            Primitive::Truncate(len) => {
                let len = self.index(len)?;
                let offset = REQUESTS + offset_of!(Requests, truncate_bytes);
                let shortest = self.load_context(types::I64, offset);
                let len = self.b.ins().umin(len, shortest);
                self.store_context(len, offset);
                return Ok(());
            }
            other => return Err(format!("{other:?}")),
        };
        let value = self.constant32(value);
        self.store_context(value, REQUESTS + offset);
        Ok(())
    }

    /// A call that gives a value.
    pub(crate) fn called(&mut self, name: &'static str, args: &[Value]) -> Native<Value> {
        let value = self.call(name, args);
        value.ok_or_else(|| format!("{name} gives nothing"))
    }

    /// Generates what runs where a value is not 0.
    pub(crate) fn if_true(
        &mut self,
        condition: Value,
        body: impl FnOnce(&mut Self) -> Native,
    ) -> Native {
        let (yes, after) = (self.b.create_block(), self.b.create_block());
        self.branch(condition, yes, after);
        self.begin_inner(yes);
        body(self)?;
        self.jump(after);
        self.begin(after);
        Ok(())
    }

    fn if_inside(
        &mut self,
        index: Value,
        cells: usize,
        body: impl FnOnce(&mut Self) -> Native,
    ) -> Native {
        let cells = i64::try_from(cells).unwrap_or(i64::MAX);
        let inside = self
            .b
            .ins()
            .icmp_imm_u(IntCC::UnsignedLessThan, index, cells);
        self.if_true(inside, body)
    }

    /// Whether a place can be written natively; to be asked before blocks are made.
    fn check_place(&mut self, place: &Place) -> Native {
        let fields: Vec<FieldId> = match place {
            Place::Field(field) => vec![*field],
            Place::Access { header, offset } => {
                self.find(header)?;
                self.fields_of(&self.names().candidates(header), *offset)
            }
            Place::LastField { stack, offset } => {
                let stack = AnyStack::Headers(*stack);
                self.fields_of(&self.names().last_candidates(stack, None), *offset)
            }
            Place::RegisterCell { .. } => return Err("a register as a destination".into()),
        };
        for field in fields {
            self.check_field(field)?;
        }
        Ok(())
    }

    fn fields_of(&self, headers: &[HeaderId], offset: u32) -> Vec<FieldId> {
        let headers = headers.iter();
        let ir = self.ir();
        headers
            .map(|header| ir.headers[header.index()].field_at(offset))
            .collect()
    }

    fn check_field(&self, field: FieldId) -> Native {
        let slot = self.layout().field(field);
        match (slot.variable, slot.words) {
            (true, _) => Err("a value for a varbit field".into()),
            (_, 0..=16) => Ok(()),
            _ => Err(format!("a field of {} bits", slot.bits)),
        }
    }

    fn assign(&mut self, to: &Place, from: &Expr) -> Native {
        if let Place::RegisterCell { register, index } = to {
            return self.register_write(register.index(), index, from);
        }
        self.check_place(to)?;
        let words = match to {
            Place::Field(field) => self.layout().field(*field).words as usize,
            _ => self.place_words(to),
        };
        let range = self.names().range(from);
        let value = self.low(from, words)?;
        // A value without a known bound is cut like one of every width.
        let range = range.unwrap_or_else(|| Range {
            low: -(Int::ONE << 4_096usize),
            high: Int::ONE << 4_096usize,
        });
        self.put(to, value, &range)
    }

    fn place_words(&mut self, place: &Place) -> usize {
        let names = self.names();
        let (headers, offset) = match place {
            Place::Access { header, offset } => (names.candidates(header), *offset),
            Place::LastField { stack, offset } => (
                names.last_candidates(AnyStack::Headers(*stack), None),
                *offset,
            ),
            _ => return 1,
        };
        let fields = self.fields_of(&headers, offset);
        let words = fields.iter().map(|field| self.layout().field(*field).words);
        words.max().unwrap_or(1) as usize
    }

    /// Writes a value of a known interval to a place that [`Emit::check_place`] has found good.
    fn put(&mut self, to: &Place, value: Words, range: &Range) -> Native {
        let (found, offset) = match to {
            Place::Field(field) => {
                self.put_field(*field, value, range);
                return Ok(());
            }
            Place::Access { header, offset } => (self.find(header)?, *offset),
            Place::LastField { stack, offset } => {
                let stack = AnyStack::Headers(*stack);
                let candidates = self.names().last_candidates(stack, None);
                let next = self.next_index(stack);
                let last = self.b.ins().iadd_imm_s(next, -1);
                (Found::Among(candidates, last), *offset)
            }
            Place::RegisterCell { .. } => return Err("a register as a destination".into()),
        };
        let ir = self.ir();
        let field_of = |header: HeaderId| ir.headers[header.index()].field_at(offset);
        match found {
            Found::Nothing => {}
            Found::Header(header) => self.put_field(field_of(header), value, range),
            Found::Among(candidates, index) => {
                for (position, header) in (0i64..).zip(candidates) {
                    let is_it = self.b.ins().icmp_imm_u(IntCC::Equal, index, position);
                    let value = value.clone();
                    self.if_true(is_it, |emit| {
                        emit.put_field(field_of(header), value, range);
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Writes a value of a known interval to a field, cut to its width.
    pub(crate) fn put_field(&mut self, field: FieldId, value: Words, range: &Range) {
        let slot = self.layout().field(field);
        let mut words = self.extend(value, range.is_signed(), slot.words as usize);
        if !range.is_within(&Range::field(slot.bits, slot.signed)) {
            words = self.wrap(words, slot.bits, slot.signed);
        }
        for (word, value) in words.into_iter().enumerate() {
            self.put_field_word(field, word, value);
        }
    }

    fn register_write(&mut self, register: usize, index: &Expr, value: &Expr) -> Native {
        let array = &self.ir().registers[register];
        if array.bits > 64 {
            return Err("a register of more than 64 bits".into());
        }
        let (bits, cells) = (array.bits, array.cells);
        let index = self.index(index)?;
        let words = self.low(value, 1)?;
        let within = self.names().range(value);
        let words = match within.is_some_and(|it| it.is_within(&Range::field(bits, false))) {
            true => words,
            false => self.wrap(words, bits, false),
        };
        self.if_inside(index, cells, |emit| {
            let cell = emit.cell_address(register, index, 3);
            emit.store(Region::State, words[0], cell, 0);
            Ok(())
        })
    }

    fn mark_to_drop(&mut self) -> Native {
        let metadata = &self.ir().metadata;
        let drop_port = Int::from(limits::DROP_PORT);
        self.assign(&Place::Field(metadata.egress_spec), &Expr::Const(drop_port))?;
        match metadata.mcast_grp {
            Some(group) => self.assign(&Place::Field(group), &Expr::Const(Int::ZERO)),
            None => Ok(()),
        }
    }

    fn assign_variable(&mut self, to: FieldId, from: FieldId) -> Native {
        let (to_slot, from_slot) = (self.layout().field(to), self.layout().field(from));
        if to_slot.words != from_slot.words || to_slot.words > COPY_WORDS_MAX {
            return Err(format!("a varbit field of up to {} bits", from_slot.bits));
        }
        let ir = self.ir();
        let header = |field: FieldId| ir.fields[field.index()].header;
        let bits = self.variable_bits(header(from));
        self.put_variable_bits(header(to), bits);
        for word in 0..to_slot.words as usize {
            let value = self.field_word(from, word);
            self.put_field_word(to, word, value);
        }
        Ok(())
    }

    /// Makes a header valid, and with it the other members of its union invalid.
    pub(crate) fn set_valid(&mut self, header: HeaderId) {
        let ir = self.ir();
        if let Some(union) = ir.headers[header.index()].union {
            for member in &ir.unions[union.index()].members {
                if *member != header {
                    self.put_valid(*member, false);
                }
            }
        }
        self.put_valid(header, true);
    }

    fn each_header(
        &mut self,
        header: &HeaderExpr,
        mut body: impl FnMut(&mut Self, HeaderId) -> Native,
    ) -> Native {
        let candidates = self.names().candidates(header);
        if let Some(metadata) = candidates
            .iter()
            .find(|it| self.ir().headers[it.index()].metadata)
        {
            let name = &self.ir().headers[metadata.index()].name;
            return Err(format!(
                "metadata \"{name}\" as a header that comes and goes"
            ));
        }
        match self.find(header)? {
            Found::Nothing => Ok(()),
            Found::Header(header) => body(self, header),
            Found::Among(candidates, index) => {
                for (position, header) in (0i64..).zip(candidates) {
                    let is_it = self.b.ins().icmp_imm_u(IntCC::Equal, index, position);
                    self.if_true(is_it, |emit| body(emit, header))?;
                }
                Ok(())
            }
        }
    }

    fn header_bytes(&mut self, header: HeaderId) -> Value {
        let declared = &self.ir().headers[header.index()];
        if declared.variable_field.is_none() {
            return self.constant(u64::from(declared.fixed_bits / 8));
        }
        let bits = self.variable_bits(header);
        let bits = self
            .b
            .ins()
            .iadd_imm_u(bits, i64::from(declared.fixed_bits));
        self.b.ins().ushr_imm_u(bits, 3)
    }

    fn change_length(&mut self, bytes: Value, grows: bool) {
        let offset = offset_of!(PassContext, packet_length);
        let length = self.load_context(types::I64, offset);
        let length = match grows {
            true => self.b.ins().iadd(length, bytes),
            false => self.b.ins().isub(length, bytes),
        };
        self.store_context(length, offset);
    }

    fn add_header(&mut self, header: HeaderId) -> Native {
        let valid = self.valid(header);
        let (absent, after) = (self.b.create_block(), self.b.create_block());
        self.branch(valid, after, absent);
        self.begin_inner(absent);
        let ir = self.ir();
        let zero = self.constant(0);
        for field in ir.headers[header.index()].field_ids() {
            for word in 0..self.layout().field(field).words as usize {
                self.put_field_word(field, word, zero);
            }
        }
        if ir.headers[header.index()].variable_field.is_some() {
            self.put_variable_bits(header, zero);
        }
        self.set_valid(header);
        let bytes = u64::from(ir.headers[header.index()].fixed_bits / 8);
        let bytes = self.constant(bytes);
        self.change_length(bytes, true);
        self.jump(after);
        self.begin(after);
        Ok(())
    }

    fn remove_header(&mut self, header: HeaderId) -> Native {
        let valid = self.valid(header);
        self.if_true(valid, |emit| {
            let bytes = emit.header_bytes(header);
            emit.change_length(bytes, false);
            emit.put_valid(header, false);
            Ok(())
        })
    }

    fn assign_header(&mut self, to: &HeaderExpr, from: &HeaderExpr) -> Native {
        let (to, from) = (self.find(to)?, self.find(from)?);
        let (to, from) = match (to, from) {
            (Found::Nothing, _) => return Ok(()),
            (Found::Header(to), Found::Nothing) => {
                self.set_invalid(to);
                return Ok(());
            }
            (Found::Header(to), Found::Header(from)) => (to, from),
            _ => return Err("an assignment of a header that an index chooses".into()),
        };
        self.check_same_shape(to, from)?;
        self.copy_or_invalidate(to, from);
        Ok(())
    }

    fn copy_or_invalidate(&mut self, to: HeaderId, from: HeaderId) {
        let valid = self.valid(from);
        let (copy, none, after): (Block, Block, Block) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.branch(valid, copy, none);
        self.begin_inner(copy);
        self.set_valid(to);
        if to != from {
            self.copy_header(to, from);
        }
        self.jump(after);
        self.begin(none);
        self.set_invalid(to);
        self.jump(after);
        self.begin(after);
    }

    /// Moves the elements of a header stack by a constant, as the interpreter's header vector does.
    fn move_stack(&mut self, stack: AnyStack, count: &Expr, up: bool) -> Native {
        let AnyStack::Headers(id) = stack else {
            return Err("a stack of unions that moves".into());
        };
        let Expr::Const(count) = count else {
            return Err("a stack that moves by a variable".into());
        };
        let elements = &self.ir().stacks[id.index()].elements;
        let size = elements.len();
        if size > STACK_ELEMENTS_MAX {
            return Err(format!("a stack of {size} elements that moves"));
        }
        for pair in elements.windows(2) {
            self.check_same_shape(pair[0], pair[1])?;
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(size);
        let moved = i64::try_from(count).unwrap_or(i64::MAX);
        let next = self.next_index(stack);
        let next = if up {
            let sum = self.b.ins().iadd_imm_u(next, moved);
            let most = self.constant(size as u64);
            self.b.ins().umin(sum, most)
        } else {
            let by = self.b.ins().iconst(types::I64, moved);
            let least = self.b.ins().umax(next, by);
            self.b.ins().isub(least, by)
        };
        self.put_next_index(stack, next);
        for step in 0..size {
            let to = if up { size - 1 - step } else { step };
            let from = match up {
                true => to.checked_sub(count),
                false => Some(to + count).filter(|from| *from < size),
            };
            match from {
                Some(from) if from != to => self.copy_or_invalidate(elements[to], elements[from]),
                Some(_) => {}
                None => self.set_invalid(elements[to]),
            }
        }
        Ok(())
    }

    fn set_invalid(&mut self, header: HeaderId) {
        if !self.ir().headers[header.index()].metadata {
            self.put_valid(header, false);
        }
    }

    fn check_same_shape(&self, to: HeaderId, from: HeaderId) -> Native {
        let ir = self.ir();
        let (to, from) = (&ir.headers[to.index()], &ir.headers[from.index()]);
        let words = |field: FieldId| self.layout().field(field).words;
        let same = to.field_ids().map(words).eq(from.field_ids().map(words));
        if !same {
            return Err("an assignment between headers of different types".into());
        }
        let total: u32 = to.field_ids().map(words).sum();
        match total <= COPY_WORDS_MAX {
            true => Ok(()),
            false => Err(format!("an assignment of a header of {total} words")),
        }
    }

    fn copy_header(&mut self, to: HeaderId, from: HeaderId) {
        let ir = self.ir();
        let (source, target) = (&ir.headers[from.index()], &ir.headers[to.index()]);
        if source.variable_field.is_some() || target.variable_field.is_some() {
            let bits = self.variable_bits(from);
            self.put_variable_bits(to, bits);
        }
        for (to, from) in target.field_ids().zip(source.field_ids()) {
            for word in 0..self.layout().field(to).words as usize {
                let value = self.field_word(from, word);
                self.put_field_word(to, word, value);
            }
        }
    }

    /// The result of a calculation over the packet as it is now.
    pub(crate) fn calculation(
        &mut self,
        calculation: dataplane::engine::ir::CalculationId,
    ) -> Native<Value> {
        let (pass, vector) = (self.pass, self.vector);
        let number = self.constant32(calculation.0);
        self.called("calculate", &[pass, vector, number])
    }
}
