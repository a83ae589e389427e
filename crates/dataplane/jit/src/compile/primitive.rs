//! Primitives of actions. A primitive without native code is left to the interpreter.

use std::mem::offset_of;

use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, condcodes::IntCC, types};
use dataplane::{
    DropReason,
    engine::{
        PayloadCall,
        ir::{BoolExpr, Expr, FieldId, Int, Place, Primitive, instances, range::Range},
    },
    limits,
};

use super::{Emit, Emitted, Region, expression::Words};
use crate::{
    context::{PassContext, Requests},
    fallback::Interpretable,
    frames::calculation::{Kept, calculate},
};

/// Generated code copies a header word by word if the header has up to this many words.
pub(super) const COPY_WORDS_MAX: u32 = 64;

const REQUESTS: usize = offset_of!(PassContext, requests);

/// What a primitive does to the control flow of its action.
pub(crate) enum Flow {
    Next,
    /// Jumps to another primitive if the value is not 0, or always if there is no value.
    Jump(usize, Option<Value>),
    /// Ends the control when the action ends.
    Exit,
    /// Ends the packet's pass (its way through ingress or egress) if the value is 0.
    Check(Value, DropReason),
}

impl Emit<'_, '_, '_> {
    /// Computes a condition as a truth value. A condition without native code is computed by the interpreter.
    pub(crate) fn condition(&mut self, condition: &BoolExpr) -> Value {
        match self.truth(condition) {
            Ok(value) => value,
            Err(reason) => {
                let what = Interpretable::Condition(condition.clone());
                let number = self.leave(what, reason);
                let args = self.args_pointer();
                let truth = self.ask("interpret_condition", &[number, args]);
                self.b.ins().ireduce(types::I8, truth)
            }
        }
    }

    pub(crate) fn primitive(&mut self, primitive: &Primitive) -> Flow {
        match primitive {
            Primitive::Jump(target) => return Flow::Jump(*target, None),
            Primitive::JumpIfZero(value, target) => {
                let is_zero = BoolExpr::Not(Box::new(BoolExpr::FromNumber(value.clone())));
                let is_zero = self.condition(&is_zero);
                return Flow::Jump(*target, Some(is_zero));
            }
            Primitive::Exit => return Flow::Exit,
            Primitive::Check(condition, reason) => {
                let holds = self.condition(condition);
                return Flow::Check(holds, *reason);
            }
            _ => {}
        }
        if let Err(reason) = self.effect(primitive) {
            let number = self.leave(Interpretable::Primitive(primitive.clone()), reason);
            let args = self.args_pointer();
            self.call_on_block("interpret_primitive", &[number, args]);
        }
        Flow::Next
    }

    fn effect(&mut self, primitive: &Primitive) -> Emitted {
        match primitive {
            Primitive::NoOp | Primitive::Log { .. } => Ok(()),
            Primitive::Assign {
                to: Place::Field(field),
                ..
            } if self.dead.contains(field) => Ok(()),
            Primitive::Assign { to, from } => self.assign(to, from),
            Primitive::AssignVariable { to, from } => self.assign_variable(*to, *from),
            Primitive::AssignHeader { to, from } => self.assign_header(to, from),
            Primitive::AddHeader(header) => {
                self.each_header(header, |emit, header| emit.add_header(header))
            }
            Primitive::RemoveHeader(header) => {
                self.each_header(header, |emit, header| emit.remove_header(header))
            }
            Primitive::AssignUnion { to, from } => self.assign_union(to, from),
            Primitive::AssignStack { to, from } => self.assign_stack(*to, *from),
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

    fn extern_call(&mut self, primitive: &Primitive) -> Emitted {
        let pass = self.pass;
        match primitive {
            Primitive::ExecuteMeter { to, meter, index } => {
                self.check_place(to)?;
                let index = self.index(index)?;
                let meter = self.constant32(
                    u32::try_from(meter.index()).expect("a program has fewer than 2^32 meters"),
                );
                let color = self.value_of("execute_meter", &[pass, meter, index]);
                // If the index is beyond the end of the meter array, the function gives 256 or more, which is no
                // colour.
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
                let hash = calculate(self, *calculation, Kept::Nothing);
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
                    let number = emit.value_of("random", &[pass, low, high]);
                    emit.put(to, vec![number], &Range::field(64, false))
                })
            }
            other => self.request(other),
        }
    }

    fn request(&mut self, primitive: &Primitive) -> Emitted {
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
            Primitive::ChangePayload { function, args } => {
                return self.change_payload(function.0, args);
            }
            other => return Err(format!("{other:?}")),
        };
        let value = self.constant32(value);
        self.store_context(value, REQUESTS + offset);
        Ok(())
    }

    fn change_payload(&mut self, function: u32, args: &[(Expr, u32)]) -> Emitted {
        let mut values = Vec::new();
        for (arg, bits) in args {
            let word = self.low(arg, 1)?;
            values.push(self.wrap(word, *bits, false)[0]);
        }
        let call = offset_of!(PassContext, payload_call);
        for (position, value) in values.into_iter().enumerate() {
            self.store_context(value, call + offset_of!(PayloadCall, args) + 8 * position);
        }
        let function = self.constant32(function + 1);
        self.store_context(function, call + offset_of!(PayloadCall, function));
        Ok(())
    }

    /// Generates the code of `body` so that it runs only if `condition` is not 0.
    pub(crate) fn if_true(
        &mut self,
        condition: Value,
        body: impl FnOnce(&mut Self) -> Emitted,
    ) -> Emitted {
        let [yes, after] = self.blocks();
        self.branch(condition, yes, after);
        self.begin_inner(yes);
        body(self)?;
        self.jump(after);
        self.begin(after);
        Ok(())
    }

    /// Generates code whose result is the value of `body` if `condition` is not 0, and `otherwise` if it is 0.
    pub(crate) fn where_true(
        &mut self,
        condition: Value,
        otherwise: Value,
        body: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let [yes, after] = self.blocks();
        let result = self.b.append_block_param(after, types::I64);
        let otherwise = [BlockArg::Value(otherwise)];
        let no_args: &[BlockArg] = &[];
        self.b
            .ins()
            .brif(condition, yes, no_args, after, &otherwise);
        self.begin_inner(yes);
        let value = body(self);
        self.b.ins().jump(after, &[BlockArg::Value(value)]);
        // If the condition is 0, the code of `body` does not run, so field values that it cached are invalid here.
        self.begin(after);
        result
    }

    fn if_inside(
        &mut self,
        index: Value,
        cells: usize,
        body: impl FnOnce(&mut Self) -> Emitted,
    ) -> Emitted {
        let cells = i64::try_from(cells).expect("an array has a limit");
        let inside = self
            .b
            .ins()
            .icmp_imm_u(IntCC::UnsignedLessThan, index, cells);
        self.if_true(inside, body)
    }

    /// Checks that native code can write to this place. The caller must call this before it makes basic blocks.
    pub(crate) fn check_place(&mut self, place: &Place) -> Emitted {
        let fields: Vec<FieldId> = match place {
            Place::Field(field) => vec![*field],
            Place::Access { header, offset } => {
                self.find(header)?;
                instances::fields(self.ir(), header, *offset)
            }
            Place::RegisterCell { .. } => return Err("a register as a destination".into()),
        };
        for field in fields {
            self.check_field(field)?;
        }
        Ok(())
    }

    fn check_field(&self, field: FieldId) -> Emitted {
        let slot = self.layout().field(field);
        match (slot.variable, slot.words) {
            (true, _) => Err("a value for a varbit field".into()),
            (_, 0..=16) => Ok(()),
            _ => Err(format!("a field of {} bits", slot.bits)),
        }
    }

    fn assign(&mut self, to: &Place, from: &Expr) -> Emitted {
        if let Place::RegisterCell { register, index } = to {
            self.unit.touches_state = true;
            return self.register_write(register.index(), index, from);
        }
        self.check_place(to)?;
        let words = match to {
            Place::Field(field) => self.layout().field(*field).words as usize,
            _ => self.place_words(to),
        };
        let range = self.names().range(from);
        let value = self.low(from, words)?;
        // A value whose range is unknown is cut to the field's width.
        let range = range.unwrap_or(Range::ANY);
        self.put(to, value, &range)
    }

    fn place_words(&mut self, place: &Place) -> usize {
        let Place::Access { header, offset } = place else {
            return 1;
        };
        let fields = instances::fields(self.ir(), header, *offset).into_iter();
        let words = fields.map(|field| self.layout().field(field).words);
        words.max().unwrap_or(1) as usize
    }

    /// Writes a value of a known range to a place that [`Emit::check_place`] accepted.
    pub(crate) fn put(&mut self, to: &Place, value: Words, range: &Range) -> Emitted {
        match to {
            Place::Field(field) => {
                self.put_field(*field, value, range);
                Ok(())
            }
            Place::Access { header, offset } => {
                let found = self.find(header)?;
                self.for_found(found, |emit, header| {
                    let field = emit.ir().headers[header.index()].field_at(*offset);
                    emit.put_field(field, value.clone(), range);
                    Ok(())
                })
            }
            Place::RegisterCell { .. } => Err("a register as a destination".into()),
        }
    }

    /// Writes a value of a known range to a field, cut to the field's width.
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

    fn register_write(&mut self, register: usize, index: &Expr, value: &Expr) -> Emitted {
        let array = &self.ir().registers[register];
        if array.bits > 64 {
            return Err("a register of more than 64 bits".into());
        }
        let (bits, cells) = (array.bits, array.cells);
        let index = self.index(index)?;
        let words = self.low(value, 1)?;
        let within = self.names().range(value);
        let words = if within.is_some_and(|it| it.is_within(&Range::field(bits, false))) {
            words
        } else {
            self.wrap(words, bits, false)
        };
        self.if_inside(index, cells, |emit| {
            let cell = emit.cell_address(register, index, 3);
            emit.store(Region::State, words[0], cell, 0);
            Ok(())
        })
    }

    fn mark_to_drop(&mut self) -> Emitted {
        let metadata = &self.ir().metadata;
        let drop_port = Int::from(limits::DROP_PORT);
        self.assign(&Place::Field(metadata.egress_spec), &Expr::Const(drop_port))?;
        match metadata.mcast_grp {
            Some(group) => self.assign(&Place::Field(group), &Expr::Const(Int::ZERO)),
            None => Ok(()),
        }
    }

    fn assign_variable(&mut self, to: FieldId, from: FieldId) -> Emitted {
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
}
