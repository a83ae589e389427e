//! Decides which fields stay packed, as they are on the wire, and which become words.
//!
//! A packed field costs nothing in the parser and the deparser, which copy its header's bytes. Each access to the field
//! costs a little more, for byte swaps and shifts. So a field that nobody reads or writes is not extracted
//! (`parser-specialisation`), and a field that is seldom read or written is edited in place, among its header's bytes
//! (`inline-editing`). A field that is used often is converted to a word once and written back once; the paper on
//! PISCES (a P4 software switch) calls this post-pipeline editing. The choice affects speed alone.

use std::collections::HashMap;

use dataplane::engine::ir::{ExtractTarget, FieldId, Header, HeaderId, Ir, ParserOp, instances};

use crate::{
    options::NativeOptions,
    usage::{Counted, Usage},
};

/// The widest packed field: four words.
pub(crate) const PACKED_BITS_MAX: u32 = 256;

pub(crate) struct Packing {
    packed: Vec<bool>,
}

/// Costs in instructions. `read` and `write`: how many more instructions an access to a packed field needs than an
/// access to a word. `conversion`: how many instructions it takes to convert a word in the parser, and also in the
/// deparser.
struct Cost {
    read: u32,
    write: u32,
    conversion: u32,
}

impl Cost {
    /// The costs for the field's shape: a number that the processor loads at once, whole bytes, or bits.
    fn of(start: u32, bits: u32) -> Self {
        let [read, write, conversion] = match (start % 8, bits) {
            (0, 8) => [0, 0, 2],
            (0, 16 | 32 | 64) => [1, 1, 3],
            (0, bits) if bits.is_multiple_of(8) => [2, 3, 4],
            _ => [3, 5, 5],
        };
        Self {
            read,
            write,
            conversion,
        }
    }
}

/// The fields at one position in all headers of one type.
#[derive(Default, Clone, Copy)]
struct Kind {
    accesses: Counted,
    n_headers: u32,
    /// How often the field would be converted on a packet's way: once if the parser extracts it, once if the deparser
    /// emits it.
    n_conversions: u32,
    /// Whether the field must be a word.
    is_fixed: bool,
}

impl Packing {
    pub(crate) fn none(ir: &Ir) -> Self {
        Self {
            packed: vec![false; ir.fields.len()],
        }
    }

    /// Chooses the packing that costs the program least.
    pub(crate) fn choose(ir: &Ir, options: NativeOptions) -> Self {
        let mut packing = Self::none(ir);
        if !options.parser_specialisation && !options.inline_editing {
            return packing;
        }
        // Headers that may be assigned to each other are laid out alike.
        let kinds = kinds(ir);
        for header in ir.headers.iter().filter(|header| may_be_packed(header)) {
            let mut start = 0;
            for (offset, field) in (0..).zip(header.field_ids()) {
                let bits = ir.fields[field.index()].bits;
                let kind = kinds.get(&(header.type_index, offset));
                packing.packed[field.index()] = kind.is_some_and(|kind| {
                    is_better_packed(options, *kind, &Cost::of(start, bits), bits)
                });
                start += bits;
            }
        }
        packing
    }

    pub(crate) fn is_packed(&self, field: FieldId) -> bool {
        self.packed[field.index()]
    }
}

fn may_be_packed(header: &Header) -> bool {
    !header.metadata && header.variable_field.is_none() && header.fixed_bits.is_multiple_of(8)
}

fn is_better_packed(options: NativeOptions, kind: Kind, cost: &Cost, bits: u32) -> bool {
    if kind.is_fixed || bits == 0 || bits > PACKED_BITS_MAX || kind.n_conversions == 0 {
        return false;
    }
    let Counted { reads, writes, .. } = kind.accesses;
    if reads + writes == 0 {
        return options.parser_specialisation;
    }
    // The estimate assumes that a packet passes half of the places in the program that access the field. A conversion
    // converts each word of the field.
    let per_header = |count: u32| count.div_ceil(kind.n_headers.max(1));
    let packed = per_header(reads) * cost.read + per_header(writes) * cost.write;
    let unpacked = 2 * cost.conversion * kind.n_conversions * bits.div_ceil(64);
    options.inline_editing && packed <= unpacked
}

fn extracted(ir: &Ir) -> Vec<HeaderId> {
    let mut all = Vec::new();
    for op in ir.parser.states.iter().flat_map(|state| &state.ops) {
        let (ParserOp::Extract(target) | ParserOp::ExtractVariable { target, .. }) = op else {
            continue;
        };
        match target {
            ExtractTarget::Header(header) => all.push(*header),
            ExtractTarget::Next { stack, member } => {
                all.extend(instances::elements(ir, *stack, *member));
            }
        }
    }
    all
}

fn kinds(ir: &Ir) -> HashMap<(usize, u32), Kind> {
    let usage = Usage::of_program(ir);
    let extracted = extracted(ir);
    let mut kinds: HashMap<(usize, u32), Kind> = HashMap::new();
    for (id, header) in (0..).map(HeaderId).zip(&ir.headers) {
        let conversions = [extracted.contains(&id), ir.deparser.order.contains(&id)];
        let n_conversions = conversions.into_iter().map(u32::from).sum();
        for (offset, field) in (0..).zip(header.field_ids()) {
            let kind = kinds.entry((header.type_index, offset)).or_default();
            let accesses = usage.field(field);
            kind.accesses.reads += accesses.reads;
            kind.accesses.writes += accesses.writes;
            kind.accesses.moves += accesses.moves;
            kind.n_headers += 1;
            kind.n_conversions = kind.n_conversions.max(n_conversions);
            kind.is_fixed |= !may_be_packed(header);
        }
    }
    // Field lists are copied from vector to vector as words.
    for field in ir.field_lists.iter().flat_map(|list| &list.fields) {
        let header = &ir.headers[ir.fields[field.index()].header.index()];
        let offset = field.0 - header.fields.start;
        let kind = kinds.entry((header.type_index, offset)).or_default();
        kind.is_fixed = true;
    }
    kinds
}
