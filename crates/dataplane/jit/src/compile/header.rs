//! Generates code for operations on whole headers: validity, copies, and moves in stacks.

use std::mem::offset_of;

use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use dataplane::engine::ir::{
    AnyStack, Expr, FieldId, HeaderExpr, HeaderId, UnionExpr, UnionId, instances,
};

use super::{Emit, Emitted, expression::Found, primitive::COPY_WORDS_MAX};
use crate::{context::PassContext, layout::WORD_BYTES};

/// Unrolled code moves stacks of up to this many elements.
const STACK_ELEMENTS_MAX: usize = 16;

/// A word of a field, and its offset in the packet's block (header vector).
#[derive(Debug, Clone, Copy)]
struct Word {
    field: FieldId,
    word: usize,
    offset: u32,
}

impl Emit<'_, '_, '_> {
    /// The words of a header's unpacked fields, which have words of their own ([`crate::layout`]), in the order of the
    /// packet's block.
    fn words(&self, header: HeaderId) -> impl Iterator<Item = Word> + use<> {
        let layout = self.layout();
        let fields = self.ir().headers[header.index()].field_ids();
        let fields = fields.map(|field| (field, layout.field(field)));
        let words = fields.filter(|(_, slot)| slot.packed.is_none());
        let words: Vec<Word> = words
            .flat_map(|(field, slot)| {
                (0..slot.words).map(move |word| Word {
                    field,
                    word: word as usize,
                    offset: slot.offset + 8 * word,
                })
            })
            .collect();
        words.into_iter()
    }

    fn knows(&self, word: &Word) -> bool {
        self.known.contains_key(&(word.field, word.word))
    }

    /// The words of a header's packed fields.
    fn packed_fields(&self, header: HeaderId) -> impl Iterator<Item = (FieldId, usize)> + use<> {
        let layout = self.layout();
        let fields = self.ir().headers[header.index()].field_ids();
        let packed = fields.filter(|field| layout.field(*field).packed.is_some());
        let words: Vec<(FieldId, usize)> = packed
            .flat_map(|field| (0..layout.field(field).words as usize).map(move |it| (field, it)))
            .collect();
        words.into_iter()
    }

    /// Zeroes the fields of a header, except the fields that the action writes before anything reads them. One store
    /// zeroes two adjacent words.
    fn clear(&mut self, header: HeaderId, zero: Value) {
        let words = self.words(header);
        let words: Vec<Word> = words
            .filter(|word| !self.dead.contains(&word.field))
            .collect();
        for offset in self.layout().packed(header).step_by(WORD_BYTES as usize) {
            self.store_vector(zero, offset);
        }
        for (field, word) in self.packed_fields(header) {
            self.know(field, word, zero);
        }
        let both = if self.unit.options.action_specialisation && words.len() > 1 {
            Some(self.b.ins().splat(types::I64X2, zero))
        } else {
            None
        };
        let mut rest = &words[..];
        while let [word, others @ ..] = rest {
            rest = others;
            let pair = others.first().filter(|next| next.offset == word.offset + 8);
            if let (Some(both), Some(next)) = (both, pair) {
                self.store_vector(both, word.offset);
                self.know(word.field, word.word, zero);
                self.know(next.field, next.word, zero);
                rest = &others[1..];
            } else {
                self.put_field_word(word.field, word.word, zero);
            }
        }
    }

    /// Zeroes, after the parser, the fields of each invalid header that later code may read (`Layout::late_headers`).
    pub(crate) fn blank_late_headers(&mut self) {
        for header in self.layout().late_headers() {
            let valid = self.valid(*header);
            let [blank, after] = self.blocks();
            self.branch(valid, after, blank);
            self.begin_inner(blank);
            let zero = self.constant(0);
            self.clear(*header, zero);
            self.jump(after);
            self.begin(after);
        }
    }

    /// Makes a header valid, and the other members of its union invalid.
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

    pub(super) fn each_header(
        &mut self,
        header: &HeaderExpr,
        body: impl FnMut(&mut Self, HeaderId) -> Emitted,
    ) -> Emitted {
        let candidates = instances::headers(self.ir(), header);
        if let Some(metadata) = candidates
            .iter()
            .find(|it| self.ir().headers[it.index()].metadata)
        {
            let name = &self.ir().headers[metadata.index()].name;
            return Err(format!(
                "metadata \"{name}\" as a header that comes and goes"
            ));
        }
        let found = self.find(header)?;
        self.for_found(found, body)
    }

    /// Generates the code of `body` for the found header. If an index chooses the header at run time, generates the
    /// code once for each possible header.
    pub(super) fn for_found(
        &mut self,
        found: Found,
        mut body: impl FnMut(&mut Self, HeaderId) -> Emitted,
    ) -> Emitted {
        match found {
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

    /// The length of a header on the wire, in bytes.
    pub(crate) fn header_bytes(&mut self, header: HeaderId) -> Value {
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
        let length = if grows {
            self.b.ins().iadd(length, bytes)
        } else {
            self.b.ins().isub(length, bytes)
        };
        self.store_context(length, offset);
    }

    pub(super) fn add_header(&mut self, header: HeaderId) -> Emitted {
        let valid = self.valid(header);
        let [absent, after] = self.blocks();
        self.branch(valid, after, absent);
        self.begin_inner(absent);
        let ir = self.ir();
        let zero = self.constant(0);
        self.clear(header, zero);
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

    pub(super) fn remove_header(&mut self, header: HeaderId) -> Emitted {
        let valid = self.valid(header);
        self.if_true(valid, |emit| {
            let bytes = emit.header_bytes(header);
            emit.change_length(bytes, false);
            emit.put_valid(header, false);
            Ok(())
        })
    }

    pub(super) fn assign_header(&mut self, to: &HeaderExpr, from: &HeaderExpr) -> Emitted {
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
        let [copy, none, after] = self.blocks();
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

    pub(super) fn assign_stack(&mut self, to: AnyStack, from: AnyStack) -> Emitted {
        let ir = self.ir();
        let size = ir.stack_size(to);
        if size > STACK_ELEMENTS_MAX {
            return Err(format!("an assignment of a stack of {size} elements"));
        }
        match (to, from) {
            (AnyStack::Headers(a), AnyStack::Headers(b)) => {
                let [targets, sources] = [a, b].map(|id| &ir.stacks[id.index()].elements);
                let pairs = targets.iter().zip(sources);
                let is_same =
                    |(to, from): (&HeaderId, &HeaderId)| self.check_same_shape(*to, *from);
                pairs.clone().try_for_each(is_same)?;
                self.copy_next_index(to, from);
                pairs.for_each(|(to, from)| self.copy_or_invalidate(*to, *from));
                Ok(())
            }
            (AnyStack::Unions(a), AnyStack::Unions(b)) => {
                let [targets, sources] = [a, b].map(|id| &ir.union_stacks[id.index()].elements);
                let mut pairs = targets.iter().zip(sources);
                let is_same = |(to, from): (&UnionId, &UnionId)| self.check_same_union(*to, *from);
                pairs.clone().try_for_each(is_same)?;
                self.copy_next_index(to, from);
                pairs.try_for_each(|(to, from)| self.copy_union(*to, *from))
            }
            _ => Err("an assignment between stacks of different kinds".into()),
        }
    }

    pub(super) fn assign_union(&mut self, to: &UnionExpr, from: &UnionExpr) -> Emitted {
        let (UnionExpr::Union(to), UnionExpr::Union(from)) = (to, from) else {
            return Err("an assignment of a union that an index chooses".into());
        };
        self.check_same_union(*to, *from)?;
        self.copy_union(*to, *from)
    }

    fn copy_next_index(&mut self, to: AnyStack, from: AnyStack) {
        let next = self.next_index(from);
        self.put_next_index(to, next);
    }

    fn check_same_union(&self, to: UnionId, from: UnionId) -> Emitted {
        let unions = &self.ir().unions;
        let (targets, sources) = (&unions[to.index()].members, &unions[from.index()].members);
        let mut pairs = targets.iter().zip(sources);
        pairs.try_for_each(|(to, from)| self.check_same_shape(*to, *from))
    }

    /// Makes all members of `to` invalid, then copies the valid member of `from`.
    fn copy_union(&mut self, to: UnionId, from: UnionId) -> Emitted {
        if to == from {
            return Ok(());
        }
        let unions = &self.ir().unions;
        let (targets, sources) = (&unions[to.index()].members, &unions[from.index()].members);
        for member in targets {
            self.set_invalid(*member);
        }
        for (to, from) in targets.iter().zip(sources) {
            let valid = self.valid(*from);
            self.if_true(valid, |emit| {
                emit.set_valid(*to);
                emit.copy_header(*to, *from);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Moves the elements of a header stack by a constant number of positions, as the interpreter's header vector does.
    pub(super) fn move_stack(&mut self, stack: AnyStack, count: &Expr, up: bool) -> Emitted {
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
        let moved = i64::try_from(count).expect("at most the size of a stack");
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
            let from = if up {
                to.checked_sub(count)
            } else {
                Some(to + count).filter(|from| *from < size)
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

    fn check_same_shape(&self, to: HeaderId, from: HeaderId) -> Emitted {
        let ir = self.ir();
        let (to, from) = (&ir.headers[to.index()], &ir.headers[from.index()]);
        let shape = |field: FieldId| {
            let slot = self.layout().field(field);
            (slot.words, slot.bits, slot.signed, slot.packed)
        };
        if !to.field_ids().map(shape).eq(from.field_ids().map(shape)) {
            return Err("an assignment between headers of different types".into());
        }
        let total: u32 = to.field_ids().map(|field| shape(field).0).sum();
        if total <= COPY_WORDS_MAX {
            Ok(())
        } else {
            Err(format!("an assignment of a header of {total} words"))
        }
    }

    fn copy_header(&mut self, to: HeaderId, from: HeaderId) {
        let ir = self.ir();
        let (source, target) = (&ir.headers[from.index()], &ir.headers[to.index()]);
        if source.variable_field.is_some() || target.variable_field.is_some() {
            let bits = self.variable_bits(from);
            self.put_variable_bits(to, bits);
        }
        let (sources, targets) = (self.layout().packed(from), self.layout().packed(to));
        for (source, target) in sources.zip(targets).step_by(WORD_BYTES as usize) {
            let word = self.load_vector(types::I64, source);
            self.store_vector(word, target);
        }
        for (field, word) in self.packed_fields(to) {
            self.forget_word(field, word);
        }
        let pairs: Vec<(Word, Word)> = self.words(to).zip(self.words(from)).collect();
        let mut rest = &pairs[..];
        while let [(to, from), others @ ..] = rest {
            rest = others;
            if let [(next_to, next_from), behind @ ..] = others
                && self.unit.options.action_specialisation
                && next_to.offset == to.offset + 8
                && next_from.offset == from.offset + 8
                && !self.knows(from)
                && !self.knows(next_from)
            {
                let both = self.load_vector(types::I64X2, from.offset);
                self.store_vector(both, to.offset);
                self.forget_word(to.field, to.word);
                self.forget_word(next_to.field, next_to.word);
                rest = behind;
            } else {
                let value = self.field_word(from.field, from.word);
                self.put_field_word(to.field, to.word, value);
            }
        }
    }
}
