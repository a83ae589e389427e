//! The packet's block as the functions that generated code calls see it.
#![expect(unsafe_code, reason = "the block is where generated code has it")]

use std::ptr;

use dashu_int::{IBig, UBig};
use dataplane::engine::{
    interpret::Phv,
    ir::{AnyStack, FieldId, HeaderId, Int, Ir, StackId, UnionStackId},
};

use crate::layout::{Layout, Slot};

/// A packet's block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vector {
    base: *mut u8,
}

/// Words as a number without a sign.
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

/// The lowest words of a number in two's complement.
pub(crate) fn words_of(value: &Int, n: usize) -> impl Iterator<Item = u64> {
    let mut rest = value.clone();
    (0..n).map(move |_| {
        let word = u64::try_from(&rest)
            .unwrap_or_else(|_| u64::try_from(&(&rest & Int::from(u64::MAX))).unwrap_or_default());
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

    fn words(&self, slot: Slot) -> impl DoubleEndedIterator<Item = u64> + '_ {
        (0..slot.words).map(move |word| self.read::<u64>(slot.offset + 8 * word))
    }

    /// The value of a field.
    pub(crate) fn get(&self, layout: &Layout, field: FieldId) -> Int {
        let slot = layout.field(field);
        if slot.words == 1 {
            let word = self.read::<u64>(slot.offset);
            return match slot.signed {
                true => Int::from(word.cast_signed()),
                false => Int::from(word),
            };
        }
        let words: Vec<u64> = self.words(slot).collect();
        let used = words
            .iter()
            .rposition(|word| *word != 0)
            .map_or(1, |it| it + 1);
        if !slot.signed {
            return unsigned(&words[..used]);
        }
        let is_negative = words.last().is_some_and(|word| word.cast_signed() < 0);
        let value = unsigned(&words);
        match is_negative {
            true => value - (Int::ONE << (64 * words.len())),
            false => value,
        }
    }

    /// Writes a value that fits the field.
    pub(crate) fn put(&mut self, layout: &Layout, field: FieldId, value: &Int) {
        let slot = layout.field(field);
        for (word, part) in (0..).zip(words_of(value, slot.words as usize)) {
            self.write(slot.offset + 8 * word, part);
        }
    }

    pub(crate) fn is_valid(&self, layout: &Layout, header: HeaderId) -> bool {
        self.read::<u8>(layout.valid(header)) != 0
    }

    /// Everything as the interpreter has it.
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

    /// Everything back from the interpreter.
    pub(crate) fn take_phv(&mut self, layout: &Layout, ir: &Ir, phv: &Phv) {
        for (header, declared) in (0..).map(HeaderId).zip(&ir.headers) {
            self.write(layout.valid(header), u8::from(phv.is_valid(header)));
            self.write(layout.variable_bits(header), phv.variable_bits(header));
            for field in declared.field_ids() {
                self.put(layout, field, phv.get(field));
            }
        }
        for stack in all_stacks(ir) {
            let next = u32::try_from(phv.next_index(stack)).unwrap_or(u32::MAX);
            self.write(layout.next_index(stack), next);
        }
    }
}
