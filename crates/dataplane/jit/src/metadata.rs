//! The metadata fields that the engine itself reads or writes. Generated code writes all other metadata fields
//! ([`crate::passes`]).

use std::ops::Range;

use dataplane::engine::ir::{FieldId, Ir};

use crate::{
    layout::{Layout, WORD_BYTES},
    lookup::shape::low_ones,
    wire,
};

/// A metadata field in a packet's block (header vector, [`crate::layout`]). If the program lacks the field or never
/// reads it, `set` does nothing and `get` returns 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataSlot {
    word: u32,
    /// 0 if there is no such field.
    words: u32,
    /// A mask of the field's width, if the field is unsigned and has one word; 0 for any other field.
    mask: u64,
    bits: u32,
    signed: bool,
}

impl MetadataSlot {
    const NONE: Self = Self {
        word: 0,
        words: 0,
        mask: 0,
        bits: 0,
        signed: false,
    };

    fn new(field: FieldId, layout: &Layout) -> Self {
        let slot = layout.field(field);
        Self {
            word: slot.offset / WORD_BYTES,
            words: slot.words,
            bits: slot.bits,
            signed: slot.signed,
            mask: if slot.words == 1 && !slot.signed {
                low_ones(slot.bits)
            } else {
                0
            },
        }
    }

    fn range(&self) -> Range<usize> {
        self.word as usize..(self.word + self.words) as usize
    }

    /// Reads the low 64 bits of the field.
    #[inline]
    pub(crate) fn get(&self, block: &[u64]) -> u64 {
        match self.words {
            0 => 0,
            _ => block[self.word as usize],
        }
    }

    /// Writes a number, cut to the field's width.
    #[inline]
    pub(crate) fn set(&self, block: &mut [u64], number: u64) {
        if self.mask != 0 {
            block[self.word as usize] = number & self.mask;
        } else if self.words != 0 {
            self.set_words(&mut block[self.range()], number);
        }
    }

    #[cold]
    fn set_words(&self, words: &mut [u64], number: u64) {
        words.fill(0);
        words[0] = number;
        wire::wrap(words, self.bits, self.signed);
    }
}

#[derive(Debug, Clone)]
pub(crate) struct MetadataSlots {
    pub egress_spec: MetadataSlot,
    pub ingress_port: MetadataSlot,
    pub mcast_grp: MetadataSlot,
    pub egress_rid: MetadataSlot,
    pub priority: MetadataSlot,
    /// Whether some header has a varbit field.
    pub has_variable: bool,
}

impl MetadataSlots {
    pub(crate) fn new(ir: &Ir, layout: &Layout) -> Self {
        let slot = |field: FieldId| {
            if layout.is_read(field) {
                MetadataSlot::new(field, layout)
            } else {
                MetadataSlot::NONE
            }
        };
        let maybe = |field: Option<FieldId>| field.map_or(MetadataSlot::NONE, slot);
        let metadata = &ir.metadata;
        let mut headers = ir.headers.iter();
        Self {
            egress_spec: slot(metadata.egress_spec),
            ingress_port: slot(metadata.ingress_port),
            mcast_grp: maybe(metadata.mcast_grp),
            egress_rid: maybe(metadata.egress_rid),
            priority: maybe(metadata.priority),
            has_variable: headers.any(|header| header.variable_field.is_some()),
        }
    }
}
