//! Where the packet state is: a flat block of words for each packet, laid out when a program is
//! loaded.
//!
//! The block begins with what a pass always touches: validity (a byte a header), the `nextIndex` of
//! stacks and the widths of varbit fields (32 bits each), then the fields of metadata, then those
//! of headers in the order of their ids, so that the elements of a stack stand at equal distances.
//! A field is as many 8-byte words as it needs, the lowest first; signed ones are sign-extended to
//! whole words, others zero-extended. All offsets are in bytes from the beginning of the block.

use std::ops::Range;

use dataplane::{
    engine::ir::{AnyStack, FieldId, HeaderId, Ir, StackId},
    limits,
};

/// Bytes of a word.
pub const WORD_BYTES: u32 = 8;

/// Where a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Of the lowest word.
    pub offset: u32,
    /// How many words there are.
    pub words: u32,
    /// The width; for a varbit field the widest it can be.
    pub bits: u32,
    /// Whether the words are sign-extended.
    pub signed: bool,
    /// A varbit field; its width is at [`Layout::variable_bits`].
    pub variable: bool,
}

/// The layout of a program's packet state.
#[derive(Debug, Clone)]
pub struct Layout {
    slots: Vec<Slot>,
    n_headers: u32,
    next_index: u32,
    n_stacks: u32,
    variable_bits: u32,
    metadata: Range<u32>,
    size: u32,
    blank: Vec<u8>,
}

fn up_to_word(offset: u32) -> u32 {
    offset.next_multiple_of(WORD_BYTES)
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Layout {
    /// Lays out the state of a program's packets.
    pub fn new(ir: &Ir) -> Self {
        let n_headers = count(ir.headers.len());
        let next_index = up_to_word(n_headers);
        let n_stacks = count(ir.stacks.len());
        let variable_bits = next_index + 4 * (n_stacks + count(ir.union_stacks.len()));
        let fields = up_to_word(variable_bits + 4 * n_headers);
        let widest = widest_variable(ir);
        let empty = Slot {
            offset: 0,
            words: 0,
            bits: 0,
            signed: false,
            variable: false,
        };
        let mut slots = vec![empty; ir.fields.len()];
        let mut end = fields;
        let mut metadata = fields..fields;
        for of_metadata in [true, false] {
            let headers = ir.headers.iter();
            for header in headers.filter(|header| header.metadata == of_metadata) {
                for id in header.field_ids() {
                    let field = &ir.fields[id.index()];
                    let bits = if field.variable { widest } else { field.bits };
                    let words = bits.div_ceil(64).max(1);
                    slots[id.index()] = Slot {
                        offset: end,
                        words,
                        bits,
                        signed: field.signed,
                        variable: field.variable,
                    };
                    end += words * WORD_BYTES;
                }
            }
            if of_metadata {
                metadata.end = end;
            }
        }
        let mut blank = vec![0; end as usize];
        for (valid, header) in blank.iter_mut().zip(&ir.headers) {
            *valid = u8::from(header.metadata);
        }
        Self {
            slots,
            n_headers,
            next_index,
            n_stacks,
            variable_bits,
            metadata,
            size: end,
            blank,
        }
    }

    /// Bytes of the block; a whole number of words.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// The block of a packet of which nothing is known: no header is valid, everything is zero.
    pub fn blank(&self) -> &[u8] {
        &self.blank
    }

    /// Where a field is.
    pub fn field(&self, field: FieldId) -> Slot {
        self.slots[field.index()]
    }

    /// Where the byte is that says whether a header is valid: 0 or 1.
    pub fn valid(&self, header: HeaderId) -> u32 {
        debug_assert!(count(header.index()) < self.n_headers);
        count(header.index())
    }

    /// Where the `nextIndex` of a stack is: 32 bits.
    pub fn next_index(&self, stack: AnyStack) -> u32 {
        let index = match stack {
            AnyStack::Headers(stack) => count(stack.index()),
            AnyStack::Unions(stack) => self.n_stacks + count(stack.index()),
        };
        self.next_index + 4 * index
    }

    /// Where the width of a header's varbit field is: 32 bits, in bits.
    pub fn variable_bits(&self, header: HeaderId) -> u32 {
        self.variable_bits + 4 * count(header.index())
    }

    /// Where the fields of metadata are, all of them and nothing else.
    pub fn metadata(&self) -> Range<usize> {
        self.metadata.start as usize..self.metadata.end as usize
    }

    /// Where the fields of a header are: from its first field's word to behind its last one's.
    pub fn header(&self, ir: &Ir, header: HeaderId) -> Range<u32> {
        let mut fields = ir.headers[header.index()].field_ids();
        let Some(first) = fields.next() else {
            return 0..0;
        };
        let first = self.field(first);
        let last = fields.next_back().map_or(first, |last| self.field(last));
        first.offset..last.offset + last.words * WORD_BYTES
    }

    /// Bytes from an element of a stack to the next one, where they are all the same.
    pub fn stride(&self, ir: &Ir, stack: StackId) -> Option<u32> {
        let elements = &ir.stacks[stack.index()].elements;
        let starts = elements.iter().map(|it| self.header(ir, *it).start);
        let starts: Vec<u32> = starts.collect();
        let stride = starts.get(1)?.checked_sub(*starts.first()?)?;
        let regular = starts
            .windows(2)
            .all(|pair| pair[0].checked_add(stride) == Some(pair[1]));
        regular.then_some(stride)
    }
}

/// Bits of the widest value that any varbit field can take: all get the same room, so that one
/// may be copied into another.
fn widest_variable(ir: &Ir) -> u32 {
    let widths = ir.headers.iter().filter_map(|header| {
        header.variable_field?;
        Some(match header.max_bytes {
            0 => count(limits::FRAME_BYTES_MAX) * 8,
            bytes => (bytes * 8).saturating_sub(header.fixed_bits),
        })
    });
    widths.max().unwrap_or(0)
}
