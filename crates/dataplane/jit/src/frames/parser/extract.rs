//! Extraction: moves a header's bytes into the packet's block (its header vector). Packed fields, which stay as on the
//! wire, are copied with the bytes around them, eight bytes at a time; other fields become words ([`crate::layout`]).

use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use cranelift_frontend::Switch;
use dataplane::engine::ir::{
    AnyStack, Expr, ExtractTarget, FieldId, HeaderId, KeyPart, StackId, State, range::Range,
};

use super::{Writer, bits, iconst};
use crate::{compile::Emitted, frames::UNROLLED_WORDS_MAX};

impl Writer<'_, '_, '_, '_> {
    pub(super) fn extract(&mut self, state: &State, target: &ExtractTarget) -> Emitted {
        match target {
            ExtractTarget::Header(header) => {
                let fixed = self.e.ir().headers[header.index()].fixed_bits;
                let bytes = u64::from(fixed / 8);
                self.need(bytes);
                self.fields(state, *header);
                self.e.set_valid(*header);
                self.advance(bytes);
            }
            ExtractTarget::Next { stack, .. } => match stack {
                AnyStack::Headers(stack) => self.extract_element(state, *stack),
                AnyStack::Unions(_) => self.extract_at_run_time(target, None),
            },
        }
        Ok(())
    }

    /// Extracts the fields of a header whose bytes are present and contiguous.
    fn fields(&mut self, state: &State, header: HeaderId) {
        if let Some(standing) = self.standing {
            return self.keep(&standing, header);
        }
        let ir = self.e.ir();
        let declared = &ir.headers[header.index()];
        let bytes = self.cursor();
        let area = self.e.layout().header(header);
        if area.len() > (UNROLLED_WORDS_MAX * 8) as usize || declared.variable_field.is_some() {
            let header = self.e.constant32(header.0);
            self.e.call_on_block("read_header", &[bytes.base, header]);
            return;
        }
        let mut offset = 0;
        for (at, to) in (0..).step_by(8).zip(self.words_of(header)) {
            // The word keeps its memory order, without a byte swap.
            let word = bits::load_word(&mut self.e.b, bytes, at);
            self.e.store_vector(word, to);
        }
        for field in declared.field_ids() {
            let n_bits = ir.fields[field.index()].bits;
            let is_packed = self.e.layout().field(field).packed.is_some();
            if n_bits > 0 && !is_packed {
                let words = bits::load(&mut self.e.b, bytes, offset, n_bits);
                self.e.put_field(field, words, &Range::field(n_bits, false));
            } else if is_packed {
                self.forget_field(field);
                // A field that the state selects by stays in a processor register, so that the transition need not wait
                // for memory.
                if selects_by(state, field) && !ir.fields[field.index()].signed {
                    let words = bits::load(&mut self.e.b, bytes, offset, n_bits);
                    for (word, value) in words.into_iter().enumerate() {
                        self.e.know(field, word, value);
                    }
                }
            }
            offset += n_bits;
        }
    }

    /// The offsets of the words of a header's wire copy (`Layout::packed`).
    fn words_of(&self, header: HeaderId) -> Vec<u32> {
        self.e.layout().packed(header).step_by(8).collect()
    }

    pub(super) fn forget_field(&mut self, field: FieldId) {
        for word in 0..self.e.layout().field(field).words as usize {
            self.e.forget_word(field, word);
        }
    }

    /// Extracts the next element of a stack. At run time, the code jumps to the part that extracts this element.
    fn extract_element(&mut self, state: &State, stack: StackId) {
        let ir = self.e.ir();
        let elements = &ir.stacks[stack.index()].elements;
        let out_of_bounds = ir.core_errors.stack_out_of_bounds;
        let stack = AnyStack::Headers(stack);
        let next = self.e.next_index(stack);
        let n_elements = iconst(&mut self.e.b, elements.len() as u64);
        let code = IntCC::UnsignedGreaterThanOrEqual;
        let is_full = self.e.b.ins().icmp(code, next, n_elements);
        self.fail_if(is_full, out_of_bounds);
        let Some(first) = elements.first() else {
            return;
        };
        let bytes = u64::from(ir.headers[first.index()].fixed_bits / 8);
        self.need(bytes);
        let done = self.e.b.create_block();
        let mut switch = Switch::new();
        let mut blocks = Vec::new();
        for (position, element) in (0_u128..).zip(elements) {
            let target = self.e.b.create_block();
            switch.set_entry(position, target);
            blocks.push((target, *element));
        }
        // The code above has compared the index with the number of elements, so the default case can be the last
        // element.
        let last = blocks.last().map_or(done, |(target, _)| *target);
        switch.emit(&mut self.e.b, next, last);
        for (target, element) in blocks {
            self.e.begin(target);
            self.fields(state, element);
            self.e.set_valid(element);
            self.e.jump(done);
        }
        self.e.begin(done);
        let after = bits::add_const(&mut self.e.b, next, 1);
        self.e.put_next_index(stack, after);
        self.advance(bytes);
    }

    /// Writes a call of `extract` in `calls.rs`; `bits` is the width of a varbit field.
    pub(super) fn extract_at_run_time(&mut self, target: &ExtractTarget, bits: Option<Value>) {
        let (kind, of, member) = match target {
            ExtractTarget::Header(header) => (0, header.0, 0),
            ExtractTarget::Next { stack, member } => match stack {
                AnyStack::Headers(stack) => (1, stack.0, *member),
                AnyStack::Unions(stack) => (2, stack.0, *member),
            },
        };
        let at = self.taken();
        let b = &mut self.e.b;
        let target = iconst(b, kind << 32 | u64::from(of));
        let member = iconst(b, member.into());
        let bits = bits.unwrap_or_else(|| b.ins().iconst(types::I64, 0));
        let result = self.e.ask("extract", &[at, target, member, bits]);
        self.continue_at(result);
    }
}

fn selects_by(state: &State, field: FieldId) -> bool {
    state.key.iter().any(|part| match part {
        KeyPart::Value {
            value: Expr::Field(of),
            ..
        } => *of == field,
        _ => false,
    })
}
