//! A function that is being written, and the expressions in it: those over fields of up to a word
//! and constants become code, others are left to the interpreter.

use std::collections::HashMap;

use cranelift_codegen::ir::{
    AbiParam, InstBuilder, SigRef, Signature, StackSlotData, StackSlotKind, Value,
    condcodes::IntCC, types,
};
use cranelift_frontend::FunctionBuilder;
use dataplane::engine::{
    Interpreted,
    ir::{BoolExpr, Comparison, Expr, FieldId, HeaderExpr, HeaderId, Ir, ParserOp, Primitive},
};

use super::{
    Emit,
    bits::{self, iconst},
    interpret,
    module::Notes,
    parser::{cut_words, imm, trusted},
};
use crate::layout::Layout;

/// A function that is being written.
pub(crate) struct Code<'f> {
    b: FunctionBuilder<'f>,
    ir: &'f Ir,
    layout: &'f Layout,
    notes: &'f mut Notes,
    parameters: Vec<Value>,
    signatures: HashMap<(usize, bool), SigRef>,
}

impl<'f> Code<'f> {
    pub(crate) fn new(
        b: FunctionBuilder<'f>,
        ir: &'f Ir,
        layout: &'f Layout,
        notes: &'f mut Notes,
        parameters: Vec<Value>,
    ) -> Self {
        Self {
            b,
            ir,
            layout,
            notes,
            parameters,
            signatures: HashMap::new(),
        }
    }

    pub(crate) fn parameter(&self, position: usize) -> Value {
        self.parameters[position]
    }

    pub(crate) fn into_builder(self) -> FunctionBuilder<'f> {
        self.b
    }

    /// The address of something that outlives the code.
    fn address<T>(&mut self, of: *const T) -> Value {
        iconst(&mut self.b, of as usize as u64)
    }

    /// A number that is never negative and has fewer than 64 bits.
    fn plain(&mut self, number: &Expr) -> Option<Value> {
        match number {
            Expr::Const(value) => {
                let value = i64::try_from(value).ok().filter(|value| *value >= 0)?;
                Some(iconst(&mut self.b, value.cast_unsigned()))
            }
            Expr::Field(field) => {
                let slot = self.layout.field(*field);
                let is_plain = slot.words == 1 && !slot.signed && !slot.variable && slot.bits < 64;
                is_plain.then(|| self.load(slot.offset))
            }
            _ => None,
        }
    }

    fn load(&mut self, offset: u32) -> Value {
        let block = self.parameters[1];
        self.b
            .ins()
            .load(types::I64, trusted(), block, imm(offset as usize))
    }

    fn native_condition(&mut self, condition: &BoolExpr) -> Option<Value> {
        match condition {
            BoolExpr::Const(holds) => Some(self.b.ins().iconst(types::I8, i64::from(*holds))),
            BoolExpr::Valid(HeaderExpr::Header(header)) => {
                let offset = self.layout.valid(*header) as usize;
                let block = self.parameters[1];
                Some(self.b.ins().load(types::I8, trusted(), block, imm(offset)))
            }
            BoolExpr::Compare(op, left, right) => {
                let (left, right) = (self.plain(left)?, self.plain(right)?);
                let op = match op {
                    Comparison::Equal => IntCC::Equal,
                    Comparison::NotEqual => IntCC::NotEqual,
                    Comparison::Less => IntCC::UnsignedLessThan,
                    Comparison::LessEqual => IntCC::UnsignedLessThanOrEqual,
                    Comparison::Greater => IntCC::UnsignedGreaterThan,
                    Comparison::GreaterEqual => IntCC::UnsignedGreaterThanOrEqual,
                };
                Some(self.b.ins().icmp(op, left, right))
            }
            // No operand has an effect, so both may be looked at.
            BoolExpr::And(left, right) => {
                let (left, right) = (self.native_condition(left)?, self.native_condition(right)?);
                Some(self.b.ins().band(left, right))
            }
            BoolExpr::Or(left, right) => {
                let (left, right) = (self.native_condition(left)?, self.native_condition(right)?);
                Some(self.b.ins().bor(left, right))
            }
            BoolExpr::Not(operand) => {
                let operand = self.native_condition(operand)?;
                let one = self.b.ins().iconst(types::I8, 1);
                Some(self.b.ins().bxor(operand, one))
            }
            _ => None,
        }
    }
}

impl<'f> Emit<'f> for Code<'f> {
    fn b(&mut self) -> &mut FunctionBuilder<'f> {
        &mut self.b
    }

    fn ir(&self) -> &'f Ir {
        self.ir
    }

    fn layout(&self) -> &'f Layout {
        self.layout
    }

    fn context(&self) -> Value {
        self.parameters[0]
    }

    fn block(&self) -> Value {
        self.parameters[1]
    }

    fn call(&mut self, function: usize, arguments: &[Value], has_result: bool) -> Option<Value> {
        let b = &mut self.b;
        let call_conv = b.func.signature.call_conv;
        let signature = self.signatures.entry((arguments.len(), has_result));
        let signature = *signature.or_insert_with(|| {
            let mut signature = Signature::new(call_conv);
            signature.params = vec![AbiParam::new(types::I64); arguments.len()];
            if has_result {
                signature.returns = vec![AbiParam::new(types::I64)];
            }
            b.import_signature(signature)
        });
        let address = iconst(b, function as u64);
        let call = b.ins().call_indirect(signature, address, arguments);
        b.inst_results(call).first().copied()
    }

    fn primitive(&mut self, primitive: &Primitive) {
        let made = Box::new(primitive.clone());
        let address = self.address(&raw const *made);
        self.notes.made.push(made);
        let arguments = [self.context(), self.block(), address];
        self.call(
            interpret::primitive as *const () as usize,
            &arguments,
            false,
        );
    }

    fn condition(&mut self, condition: &BoolExpr) -> Value {
        if let Some(holds) = self.native_condition(condition) {
            return holds;
        }
        let address = self.address(&raw const *condition);
        let arguments = [self.context(), self.block(), address];
        let result = self.call(interpret::condition as *const () as usize, &arguments, true);
        match result {
            Some(result) => self.b.ins().ireduce(types::I8, result),
            None => self.b.ins().iconst(types::I8, 0),
        }
    }

    fn low(&mut self, number: &Expr, bits: u32) -> Value {
        let words = self.words(number, bits);
        words[0]
    }

    fn words(&mut self, number: &Expr, bits: u32) -> Vec<Value> {
        let n_words = bits.div_ceil(64).max(1);
        let mut words: Vec<Value> = match number {
            Expr::Const(value) => cut_words(value, n_words as usize)
                .into_iter()
                .map(|word| iconst(&mut self.b, word))
                .collect(),
            Expr::Field(field) if self.layout.field(*field).words >= n_words => {
                let first = self.layout.field(*field).offset;
                (0..n_words)
                    .map(|word| self.load(first + word * 8))
                    .collect()
            }
            other => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, n_words * 8, 3);
                let slot = self.b.create_sized_stack_slot(data);
                let out = self.b.ins().stack_addr(types::I64, slot, 0);
                let address = self.address(&raw const *other);
                let n_words = iconst(&mut self.b, n_words.into());
                let arguments = [self.context(), self.block(), address, out, n_words];
                self.call(interpret::number as *const () as usize, &arguments, false);
                (0..bits.div_ceil(64).max(1))
                    .map(|word| {
                        let offset = imm(word as usize * 8);
                        self.b
                            .ins()
                            .stack_load(types::I64, types::I64, slot, offset)
                    })
                    .collect()
            }
        };
        if let Some(top) = words.last_mut() {
            *top = match bits {
                0 => iconst(&mut self.b, 0),
                bits => bits::low(&mut self.b, *top, (bits - 1) % 64 + 1),
            };
        }
        words
    }

    fn exact(&mut self, number: &Expr) -> Option<Value> {
        if let Some(number) = self.plain(number) {
            return Some(number);
        }
        let address = self.address(&raw const *number);
        let arguments = [self.context(), self.block(), address];
        self.call(interpret::length as *const () as usize, &arguments, true)
    }

    fn set_valid(&mut self, header: HeaderId) {
        let ir = self.ir;
        let block = self.block();
        let union = ir.headers[header.index()].union;
        let members = union.map(|union| ir.unions[union.index()].members.as_slice());
        for (of, valid) in members
            .unwrap_or_default()
            .iter()
            .map(|member| (*member, 0))
            .chain([(header, 1)])
        {
            let offset = imm(self.layout.valid(of) as usize);
            let valid = self.b.ins().iconst(types::I8, valid);
            self.b.ins().store(trusted(), valid, block, offset);
        }
    }

    fn is_read(&self, _field: FieldId) -> bool {
        true
    }

    fn interpret(&mut self, operation: &ParserOp, at: Value) -> Option<Value> {
        let address = self.address(&raw const *operation);
        let arguments = [self.context(), self.block(), at, address];
        self.call(
            interpret::parser_operation as *const () as usize,
            &arguments,
            true,
        )
    }

    fn note(&mut self, place: String, reason: String) {
        self.notes.interpreted.push(Interpreted { place, reason });
    }
}
