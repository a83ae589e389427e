//! Moves fields between a packet's block (its header vector, [`crate::layout`]) and bytes, one at a time: for headers
//! that generated code does not move itself, and for hashes. Bytes are in network order: a header's first field has the
//! highest bits.

use dataplane::engine::ir::{AnyStack, FieldId, HeaderId, Ir};

use crate::{layout::Layout, vector::Vector};

const WORD: usize = 64;

/// A packet's block, with the layout and the program that give its bytes a meaning.
pub(crate) struct Block<'a> {
    pub vector: Vector,
    pub layout: &'a Layout,
    pub ir: &'a Ir,
}

impl Block<'_> {
    pub(crate) fn is_valid(&self, header: HeaderId) -> bool {
        self.vector.is_valid(self.layout, header)
    }

    pub(crate) fn next_index(&self, stack: AnyStack) -> u32 {
        self.vector.next_index(self.layout, stack)
    }

    pub(crate) fn set_next_index(&mut self, stack: AnyStack, next: u32) {
        self.vector.set_next_index(self.layout, stack, next);
    }

    pub(crate) fn variable_bits(&self, header: HeaderId) -> u32 {
        self.vector.variable_bits(self.layout, header)
    }

    fn bits(&self, field: FieldId) -> u32 {
        let declared = &self.ir.fields[field.index()];
        if declared.variable {
            self.variable_bits(declared.header)
        } else {
            declared.bits
        }
    }

    /// The current length of a header on the wire, in bytes.
    pub(crate) fn header_bytes(&self, header: HeaderId) -> usize {
        let declared = &self.ir.headers[header.index()];
        ((declared.fixed_bits + self.variable_bits(header)) / 8) as usize
    }

    pub(crate) fn push(&self, field: FieldId, bits: &mut BitString) {
        let width = self.bits(field);
        self.vector
            .words(self.layout, field, |words| bits.push(words, width));
    }

    /// Reads a whole header from the first byte on; its varbit field takes `variable_bits` bits.
    pub(crate) fn read_header(&mut self, header: HeaderId, variable_bits: u32, bytes: &[u8]) {
        let declared = &self.ir.headers[header.index()];
        if declared.variable_field.is_some() {
            self.vector
                .set_variable_bits(self.layout, header, variable_bits);
        }
        let mut offset = 0;
        let mut words = Vec::new();
        for field in declared.field_ids() {
            let bits = self.bits(field);
            let slot = self.layout.field(field);
            words.resize(slot.words as usize, 0);
            read_bits(bytes, offset, bits as usize, &mut words);
            wrap(&mut words, bits, slot.signed);
            self.vector.put_words(self.layout, field, &words);
            offset += bits as usize;
        }
        self.vector.set_valid(self.layout, self.ir, header);
    }

    /// Writes a whole header. Returns its length in bytes.
    pub(crate) fn write_header(&self, header: HeaderId, bytes: &mut [u8]) -> usize {
        let n_bytes = self.header_bytes(header);
        let mut offset = 0;
        for field in self.ir.headers[header.index()].field_ids() {
            let bits = self.bits(field) as usize;
            self.vector.words(self.layout, field, |words| {
                write_bits(bytes, offset, words, bits);
            });
            offset += bits;
        }
        n_bytes
    }
}

/// A string of bits that grows at its end.
#[derive(Default)]
pub(crate) struct BitString {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitString {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bits = 0;
    }

    pub(crate) fn push(&mut self, words: &[u64], bits: u32) {
        let end = self.bits + bits as usize;
        self.bytes.resize(end.div_ceil(8), 0);
        write_bits(&mut self.bytes, self.bits, words, bits as usize);
        self.bits = end;
    }

    /// Appends bytes from the next byte boundary on.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bits = self.bytes.len() * 8;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads up to 64 bits of a byte string, right aligned.
fn chunk(bytes: &[u8], offset: usize, bits: usize) -> u64 {
    let end = offset + bits;
    let mut number = 0_u128;
    for byte in &bytes[offset / 8..end.div_ceil(8)] {
        number = number << 8 | u128::from(*byte);
    }
    number >>= end.next_multiple_of(8) - end;
    let [.., low] = split(number);
    low & mask(bits)
}

fn split(number: u128) -> [u64; 2] {
    let bytes = number.to_be_bytes();
    let word = |at: usize| {
        bytes[at..at + 8]
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    [word(0), word(8)]
}

fn mask(bits: usize) -> u64 {
    match bits {
        0 => 0,
        _ => u64::MAX >> (WORD - bits.min(WORD)),
    }
}

/// Reads bits into words, the lowest first; words beyond the bits become zero.
pub(crate) fn read_bits(bytes: &[u8], offset: usize, bits: usize, words: &mut [u64]) {
    let mut left = bits;
    for word in words {
        let n_bits = left.min(WORD);
        left -= n_bits;
        *word = match n_bits {
            0 => 0,
            _ => chunk(bytes, offset + left, n_bits),
        };
    }
}

/// Writes the low bits of a number, whose lowest word comes first, into `bytes`; the other bits of `bytes` stay.
pub(crate) fn write_bits(bytes: &mut [u8], offset: usize, words: &[u64], bits: usize) {
    let mut end = offset + bits;
    let mut left = bits;
    for word in words {
        let mut word = *word;
        let mut n_bits = left.min(WORD);
        left -= n_bits;
        while n_bits > 0 {
            // The part that is in the byte before `end`.
            let shift = end.next_multiple_of(8) - end;
            let part = n_bits.min(8 - shift);
            let [ones, value] =
                [mask(part) << shift, (word & mask(part)) << shift].map(|it| it.to_le_bytes()[0]);
            let byte = &mut bytes[(end - 1) / 8];
            *byte = *byte & !ones | value;
            // `part` is at most 8.
            word >>= part;
            (end, n_bits) = (end - part, n_bits - part);
        }
    }
}

/// Cuts a number to `bits` bits, with zeros or copies of the sign above them.
pub(crate) fn wrap(words: &mut [u64], bits: u32, signed: bool) {
    let bits = bits as usize;
    let is_negative = signed
        && bits > 0
        && words
            .get((bits - 1) / WORD)
            .is_some_and(|word| word >> ((bits - 1) % WORD) & 1 == 1);
    let fill = if is_negative { u64::MAX } else { 0 };
    for (position, word) in words.iter_mut().enumerate() {
        let kept = mask(bits.saturating_sub(position * WORD).min(WORD));
        *word = *word & kept | fill & !kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_from_where_they_were_put() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let (offset, bits) = (rng.usize(..40), rng.usize(1..200));
            let before: Vec<u8> = (0..32).map(|_| rng.u8(..)).collect();
            let mut words: Vec<u64> = (0..4).map(|_| rng.u64(..)).collect();
            let mut bytes = before.clone();
            write_bits(&mut bytes, offset, &words, bits);
            let mut found = vec![1; 4];
            read_bits(&bytes, offset, bits, &mut found);
            wrap(&mut words, u32::try_from(bits).unwrap_or(0), false);
            assert_eq!(found, words, "{bits} bits at {offset}");
            // Writing the old bits back restores the bytes.
            read_bits(&before, offset, bits, &mut words);
            write_bits(&mut bytes, offset, &words, bits);
            assert_eq!(bytes, before, "{bits} bits at {offset}");
        }
    }

    #[test]
    fn signs_fill_the_words_above() {
        let mut words = [0x80, 5];
        wrap(&mut words, 8, true);
        assert_eq!(words, [0u64.wrapping_sub(0x80), u64::MAX]);
        let mut words = [u64::MAX, u64::MAX];
        wrap(&mut words, 65, false);
        assert_eq!(words, [u64::MAX, 1]);
        wrap(&mut words, 65, true);
        assert_eq!(words, [u64::MAX, u64::MAX]);
    }
}
