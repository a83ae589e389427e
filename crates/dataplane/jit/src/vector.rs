//! Access to the packet's block (its header vector, [`crate::layout`]) for functions that generated code calls.
#![expect(unsafe_code, reason = "the block is where generated code has it")]

use std::{ops::Range, ptr};

use dashu_int::{IBig, UBig};
use dataplane::{
    engine::ir::{AnyStack, FieldId, HeaderId, Int, Ir, StackId, UnionStackId},
    interpret::Phv,
};

use crate::{layout::Layout, packing::PACKED_BITS_MAX, wire};

/// Words of the widest packed field.
const PACKED_WORDS_MAX: usize = PACKED_BITS_MAX.div_ceil(64) as usize;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Vector {
    base: *mut u8,
}

/// Converts words, the lowest first, to an unsigned number.
pub(crate) fn unsigned(words: &[u64]) -> Int {
    match words {
        [word] => Int::from(*word),
        [low, high] => Int::from((u128::from(*high) << 64) | u128::from(*low)),
        _ => {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            IBig::from(UBig::from_le_bytes(&bytes))
        }
    }
}

/// The lowest `n` words of a number in two's complement.
pub(crate) fn words_of(value: &Int, n: usize) -> impl Iterator<Item = u64> {
    let mut rest = value.clone();
    (0..n).map(move |_| {
        let word = u64::try_from(&rest)
            .unwrap_or_else(|_| u64::try_from(&(&rest & Int::from(u64::MAX))).expect("64 bits"));
        rest >>= 64usize;
        word
    })
}

fn all_stacks(ir: &Ir) -> impl Iterator<Item = AnyStack> {
    let headers = (0..)
        .take(ir.stacks.len())
        .map(StackId)
        .map(AnyStack::Headers);
    let unions = (0..).take(ir.union_stacks.len());
    headers.chain(unions.map(UnionStackId).map(AnyStack::Unions))
}

impl Vector {
    /// # Safety
    /// `base` leads to a block of the layout that the methods will be given, and nobody else uses
    /// it as long as this lives.
    pub(crate) unsafe fn new(base: *mut u8) -> Self {
        Self { base }
    }

    fn read<T: Copy>(&self, offset: u32) -> T {
        // SAFETY: offsets come from the layout of the block, see `new`.
        unsafe { ptr::read_unaligned(self.base.add(offset as usize).cast()) }
    }

    fn write<T>(&mut self, offset: u32, value: T) {
        // SAFETY: offsets come from the layout of the block, see `new`.
        unsafe { ptr::write_unaligned(self.base.add(offset as usize).cast(), value) }
    }

    fn bytes(&self, range: Range<u32>) -> &[u8] {
        // SAFETY: ranges come from the layout of the block, see `new`.
        unsafe { std::slice::from_raw_parts(self.base.add(range.start as usize), range.len()) }
    }

    fn bytes_mut(&mut self, range: Range<u32>) -> &mut [u8] {
        // SAFETY: as in `bytes`; the vector is borrowed for as long as the bytes are.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(range.start as usize), range.len()) }
    }

    /// Calls `run` with the words of a field, the lowest first, extended to whole words.
    pub(crate) fn words<R>(
        &self,
        layout: &Layout,
        field: FieldId,
        run: impl FnOnce(&[u64]) -> R,
    ) -> R {
        let slot = layout.field(field);
        if let Some(start) = slot.packed {
            let mut words = [0; PACKED_WORDS_MAX];
            let words = &mut words[..slot.words as usize];
            let bytes = self.bytes(slot.offset..slot.offset + (start + slot.bits).div_ceil(8));
            wire::read_bits(bytes, start as usize, slot.bits as usize, words);
            wire::wrap(words, slot.bits, slot.signed);
            return run(words);
        }
        // SAFETY: slots come from the layout of the block, which is aligned to a word.
        let words = unsafe {
            let first = self.base.add(slot.offset as usize);
            std::slice::from_raw_parts(first.cast::<u64>(), slot.words as usize)
        };
        run(words)
    }

    /// Writes a field's words, which the caller has cut to the field's width and extended to whole words.
    pub(crate) fn put_words(&mut self, layout: &Layout, field: FieldId, words: &[u64]) {
        let slot = layout.field(field);
        if let Some(start) = slot.packed {
            let range = slot.offset..slot.offset + (start + slot.bits).div_ceil(8);
            let bytes = self.bytes_mut(range);
            wire::write_bits(bytes, start as usize, words, slot.bits as usize);
            return;
        }
        for (word, part) in (0..slot.words).zip(words) {
            self.write(slot.offset + 8 * word, *part);
        }
    }

    pub(crate) fn get(&self, layout: &Layout, field: FieldId) -> Int {
        let slot = layout.field(field);
        self.words(layout, field, |words| {
            if let [word] = words {
                return if slot.signed {
                    Int::from(word.cast_signed())
                } else {
                    Int::from(*word)
                };
            }
            let used = words
                .iter()
                .rposition(|word| *word != 0)
                .map_or(1, |it| it + 1);
            if !slot.signed {
                return unsigned(&words[..used]);
            }
            let is_negative = words.last().is_some_and(|word| word.cast_signed() < 0);
            let value = unsigned(words);
            if is_negative {
                value - (Int::ONE << (64 * words.len()))
            } else {
                value
            }
        })
    }

    pub(crate) fn put(&mut self, layout: &Layout, field: FieldId, value: &Int) {
        let slot = layout.field(field);
        if slot.words == 1
            && slot.packed.is_none()
            && let Some(word) = words_of(value, 1).next()
        {
            self.write(slot.offset, word);
            return;
        }
        let words: Vec<u64> = words_of(value, slot.words as usize).collect();
        self.put_words(layout, field, &words);
    }

    pub(crate) fn is_valid(&self, layout: &Layout, header: HeaderId) -> bool {
        self.read::<u8>(layout.valid(header)) != 0
    }

    /// Makes a header valid, and the other members of its union invalid.
    pub(crate) fn set_valid(&mut self, layout: &Layout, ir: &Ir, header: HeaderId) {
        if let Some(union) = ir.headers[header.index()].union {
            for member in &ir.unions[union.index()].members {
                self.write(layout.valid(*member), 0_u8);
            }
        }
        self.write(layout.valid(header), 1_u8);
    }

    pub(crate) fn next_index(&self, layout: &Layout, stack: AnyStack) -> u32 {
        self.read(layout.next_index(stack))
    }

    pub(crate) fn set_next_index(&mut self, layout: &Layout, stack: AnyStack, next: u32) {
        self.write(layout.next_index(stack), next);
    }

    /// The current width of a header's varbit field.
    pub(crate) fn variable_bits(&self, layout: &Layout, header: HeaderId) -> u32 {
        self.read(layout.variable_bits(header))
    }

    pub(crate) fn set_variable_bits(&mut self, layout: &Layout, header: HeaderId, bits: u32) {
        self.write(layout.variable_bits(header), bits);
    }

    /// Copies the whole block to the interpreter's header vector.
    pub(crate) fn give_phv(self, layout: &Layout, ir: &Ir, phv: &mut Phv) {
        for (header, declared) in (0..).map(HeaderId).zip(&ir.headers) {
            phv.put_validity(header, self.is_valid(layout, header));
            let bits = self.read::<u32>(layout.variable_bits(header));
            for field in declared.field_ids() {
                let value = self.get(layout, field);
                if declared.variable_field == Some(field) {
                    phv.set_variable(ir, field, value, bits);
                } else {
                    phv.set(ir, field, value);
                }
            }
        }
        for stack in all_stacks(ir) {
            let next = self.read::<u32>(layout.next_index(stack));
            phv.set_next_index(stack, next as usize);
        }
    }

    /// Copies the interpreter's header vector back to the block.
    pub(crate) fn take_phv(&mut self, layout: &Layout, ir: &Ir, phv: &Phv) {
        for (header, declared) in (0..).map(HeaderId).zip(&ir.headers) {
            self.write(layout.valid(header), u8::from(phv.is_valid(header)));
            self.write(layout.variable_bits(header), phv.variable_bits(header));
            for field in declared.field_ids() {
                self.put(layout, field, phv.get(field));
            }
        }
        for stack in all_stacks(ir) {
            let next = u32::try_from(phv.next_index(stack)).expect("at most the size of a stack");
            self.write(layout.next_index(stack), next);
        }
    }
}
