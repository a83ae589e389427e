//! The layout of a packet's header vector: one flat block of 64-bit words, laid out when a program is loaded. This
//! crate calls it the packet's block.
//!
//! The block begins with what every pass (a packet's way through ingress or egress) touches: one validity byte for each
//! header, then the `nextIndex` of each stack, and for each header the width of its varbit field (32 bits each). The
//! metadata fields follow; the last metadata fields are those that nobody reads. Then come the fields of the headers
//! that must be zero before the parser runs ([`crate::blank`]), and then the fields of the other headers. Each of these
//! two groups is in the order of the header ids, so that the elements of a stack in one group are equally spaced.
//! Offsets are in bytes from the beginning of the block, except [`Slot::packed`].
//!
//! A field is *unpacked* or *packed*. An unpacked field takes as many 8-byte words as it needs, the lowest first,
//! sign-extended to whole words if it is signed and zero-extended otherwise. A packed field stays as it is on the wire,
//! in a copy of its header's bytes at the beginning of the header's part of the block. The choice is a matter of speed
//! alone ([`crate::packing`]): every access works on both.

use std::ops::Range;

use dataplane::{
    engine::ir::{
        AnyStack, Field, FieldId, HeaderId, Ir, StackId,
        range::{Range as FieldRange, Widths},
    },
    limits,
};

use crate::{blank::Blanks, packing::Packing};

pub const WORD_BYTES: u32 = 8;

/// Words kept for each checksum (`Layout::sum`).
const SUM_WORDS: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Offset in bytes of the lowest word; for a packed field, of the copy of its header's bytes.
    pub offset: u32,
    pub words: u32,
    /// The width in bits; for a varbit field, the maximum width of all varbit fields.
    pub bits: u32,
    pub signed: bool,
    /// Whether it is a varbit field; its current width is at [`Layout::variable_bits`].
    pub variable: bool,
    /// For a packed field, the offset of its first bit from the beginning of its header's bytes, in bits.
    pub packed: Option<u32>,
}

impl Slot {
    /// The slot of an unpacked field at this offset. Every varbit field gets room for `widest` bits.
    fn unpacked(field: &Field, offset: u32, widest: u32) -> Self {
        let bits = if field.variable { widest } else { field.bits };
        Self {
            offset,
            words: bits.div_ceil(64).max(1),
            bits,
            signed: field.signed,
            variable: field.variable,
            packed: None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Layout {
    slots: Vec<Slot>,
    n_headers: u32,
    next_index: u32,
    n_stacks: u32,
    variable_bits: u32,
    metadata: Range<u32>,
    /// Offset of the metadata that nobody reads.
    unread: u32,
    /// End of the headers that must be blank before the parser.
    early: u32,
    late: Vec<HeaderId>,
    headers: Vec<Range<u32>>,
    packed: Vec<Range<u32>>,
    sums: u32,
    size: u32,
    blank: Vec<u8>,
}

fn up_to_word(offset: u32) -> u32 {
    offset.next_multiple_of(WORD_BYTES)
}

fn words(bytes: &Range<u32>) -> Range<usize> {
    (bytes.start / WORD_BYTES) as usize..(bytes.end / WORD_BYTES) as usize
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("a packet has fewer than 2^32 bytes of variables")
}

impl Layout {
    /// Lays out a program's packets with every field unpacked.
    pub fn new(ir: &Ir) -> Self {
        Self::with(ir, &Packing::none(ir), &Blanks::everything(ir), 0)
    }

    /// Lays out a program's packets with this packing, and with room for the sums of `n_sums` checksums.
    pub(crate) fn with(ir: &Ir, packing: &Packing, blanks: &Blanks, n_sums: usize) -> Self {
        let n_headers = count(ir.headers.len());
        let next_index = up_to_word(n_headers);
        let n_stacks = count(ir.stacks.len());
        let variable_bits = next_index + 4 * (n_stacks + count(ir.union_stacks.len()));
        let fields = up_to_word(variable_bits + 4 * n_headers);
        let empty = Slot {
            offset: 0,
            words: 0,
            bits: 0,
            signed: false,
            variable: false,
            packed: None,
        };
        let mut layout = Self {
            slots: vec![empty; ir.fields.len()],
            n_headers,
            next_index,
            n_stacks,
            variable_bits,
            metadata: fields..fields,
            unread: fields,
            early: fields,
            late: blanks.late(ir),
            headers: vec![0..0; ir.headers.len()],
            packed: vec![0..0; ir.headers.len()],
            sums: 0,
            size: fields,
            blank: Vec::new(),
        };
        let widest = widest_variable(ir);
        layout.place_metadata(ir, blanks, widest);
        for is_early in [true, false] {
            let headers = (0..).map(HeaderId).zip(&ir.headers);
            let headers = headers.filter(|(_, header)| !header.metadata);
            for (id, _) in headers.filter(|(id, _)| blanks.is_early(*id) == is_early) {
                layout.place(ir, id, packing, widest);
            }
            if is_early {
                layout.early = layout.size;
            }
        }
        layout.sums = layout.size;
        // A read of the last packed field may touch up to seven bytes after it.
        layout.size += (count(n_sums) * SUM_WORDS + 1) * WORD_BYTES;
        layout.blank = vec![0; layout.size as usize];
        for (valid, header) in layout.blank.iter_mut().zip(&ir.headers) {
            *valid = u8::from(header.metadata);
        }
        layout
    }

    /// Appends all metadata: the fields that something reads, then the others.
    fn place_metadata(&mut self, ir: &Ir, blanks: &Blanks, widest: u32) {
        for is_read in [true, false] {
            for header in ir.headers.iter().filter(|header| header.metadata) {
                let fields = header.field_ids();
                for id in fields.filter(|field| blanks.is_read(*field) == is_read) {
                    let slot = Slot::unpacked(&ir.fields[id.index()], self.size, widest);
                    self.size += slot.words * WORD_BYTES;
                    self.slots[id.index()] = slot;
                }
            }
            if is_read {
                self.unread = self.size;
            }
        }
        self.metadata.end = self.size;
    }

    fn place(&mut self, ir: &Ir, id: HeaderId, packing: &Packing, widest: u32) {
        let header = &ir.headers[id.index()];
        let start = self.size;
        let is_packed = header.field_ids().any(|field| packing.is_packed(field));
        let n_bytes = if is_packed {
            up_to_word(header.fixed_bits.div_ceil(8))
        } else {
            0
        };
        self.packed[id.index()] = start..start + n_bytes;
        let mut end = start + n_bytes;
        let mut on_the_wire = 0;
        for id in header.field_ids() {
            let field = &ir.fields[id.index()];
            let mut slot = Slot::unpacked(field, end, widest);
            if packing.is_packed(id) {
                slot.offset = start;
                slot.packed = Some(on_the_wire);
            } else {
                end += slot.words * WORD_BYTES;
            }
            self.slots[id.index()] = slot;
            on_the_wire += field.bits;
        }
        self.headers[id.index()] = start..end;
        self.size = end;
    }

    /// Bytes of the block; a whole number of words.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// The block of a new packet: only metadata is valid, everything else is zero.
    pub fn blank(&self) -> &[u8] {
        &self.blank
    }

    /// The words that must be blank before the parser.
    pub(crate) fn blank_words(&self) -> [Range<usize>; 2] {
        let headers = self.metadata.end..self.early;
        [0..self.unread, headers].map(|bytes| words(&bytes))
    }

    /// The headers that must be made blank after the parser if it did not extract them.
    pub(crate) fn late_headers(&self) -> &[HeaderId] {
        &self.late
    }

    pub(crate) fn is_read(&self, field: FieldId) -> bool {
        self.slots[field.index()].offset < self.unread
    }

    /// The words that a copy of a packet needs.
    pub(crate) fn copied_words(&self) -> [Range<usize>; 2] {
        let headers = self.metadata.end..self.size;
        [0..self.unread, headers].map(|bytes| words(&bytes))
    }

    pub fn field(&self, field: FieldId) -> Slot {
        self.slots[field.index()]
    }

    /// Offset of the byte that says whether a header is valid: 0 or 1.
    pub fn valid(&self, header: HeaderId) -> u32 {
        debug_assert!(count(header.index()) < self.n_headers);
        count(header.index())
    }

    /// Offset of the `nextIndex` of a stack: 32 bits.
    pub fn next_index(&self, stack: AnyStack) -> u32 {
        let index = match stack {
            AnyStack::Headers(stack) => count(stack.index()),
            AnyStack::Unions(stack) => self.n_stacks + count(stack.index()),
        };
        self.next_index + 4 * index
    }

    /// Offset of the current width, in bits, of a header's varbit field: a 32-bit number.
    pub fn variable_bits(&self, header: HeaderId) -> u32 {
        self.variable_bits + 4 * count(header.index())
    }

    /// The bytes of all metadata fields, which are contiguous.
    pub fn metadata(&self) -> Range<usize> {
        self.metadata.start as usize..self.metadata.end as usize
    }

    /// The bytes of a header's fields; empty for metadata. The header's validity and the width of its varbit field are
    /// not among these bytes.
    pub fn header(&self, header: HeaderId) -> Range<u32> {
        self.headers[header.index()].clone()
    }

    /// The bytes of a header's wire copy, a whole number of words; empty if no field of the header is packed.
    pub fn packed(&self, header: HeaderId) -> Range<u32> {
        self.packed[header.index()].clone()
    }

    /// Offset of a checksum's two words. The first word is 0 while the sum is unknown, else the sum plus 1. The second
    /// word is the length of the payload that the sum includes.
    pub(crate) fn sum(&self, number: usize) -> u32 {
        self.sums + count(number) * SUM_WORDS * WORD_BYTES
    }

    /// Bytes from one element of a stack to the next, if the distance is constant.
    pub fn stride(&self, ir: &Ir, stack: StackId) -> Option<u32> {
        let elements = &ir.stacks[stack.index()].elements;
        let starts = elements.iter().map(|it| self.header(*it).start);
        let starts: Vec<u32> = starts.collect();
        let stride = starts.get(1)?.checked_sub(*starts.first()?)?;
        let regular = starts
            .windows(2)
            .all(|pair| pair[0].checked_add(stride) == Some(pair[1]));
        regular.then_some(stride)
    }
}

/// The maximum width of any varbit field, in bits. All varbit fields get this room, so that each of them may be copied
/// into any other.
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
impl Widths for Layout {
    fn range_of(&self, field: FieldId) -> FieldRange {
        let slot = self.field(field);
        FieldRange::field(slot.bits, slot.signed)
    }
}
