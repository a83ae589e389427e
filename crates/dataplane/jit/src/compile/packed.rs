//! Fields that stay packed among their header's bytes ([`crate::layout`]).

use cranelift_codegen::ir::{MemFlagsData, Value};

use super::{Emit, Region};
use crate::{
    frames::bits::{self, Bytes},
    layout::Slot,
};

/// The place of a word of a packed field in the packet's block (header vector), in bits, and the word's width.
fn place(slot: Slot, word: usize) -> (u32, u32) {
    let below = 64 * u32::try_from(word).expect("a field has a few words");
    let bits = slot.bits.saturating_sub(below).min(64);
    let start = slot.offset * 8 + slot.packed.unwrap_or_default();
    (start + slot.bits - below - bits, bits)
}

impl Emit<'_, '_, '_> {
    pub(crate) fn block_bytes(&self) -> Bytes {
        let region = self.regions[Region::Vector as usize];
        let flags = MemFlagsData::new().with_notrap();
        Bytes {
            base: self.vector,
            flags: flags.with_alias_region(Some(region)),
        }
    }

    /// Loads a word of a packed field and extends it, as the words of unpacked fields are extended.
    pub(super) fn packed_word(&mut self, slot: Slot, word: usize) -> Value {
        let (offset, bits) = place(slot, word);
        let block = self.block_bytes();
        let value = bits::load_chunk(&mut self.b, block, offset, bits);
        if slot.signed && bits < 64 {
            bits::sign_extend(&mut self.b, value, bits)
        } else {
            value
        }
    }

    /// Writes a word of a packed field; bits of the value above the word's width are ignored.
    pub(super) fn put_packed_word(&mut self, slot: Slot, word: usize, value: Value) {
        let (offset, bits) = place(slot, word);
        let block = self.block_bytes();
        bits::store_chunk(&mut self.b, block, offset, bits, value);
    }
}
