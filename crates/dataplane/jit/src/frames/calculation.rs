//! Generates the code of calculations, such as checksums. If every header of the input is valid, the generated code
//! adds shifted fields for the Internet checksum, and packs the input of any other algorithm on the stack. If a header
//! is invalid, a runtime function gathers the input.

use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, condcodes::IntCC, types};
use dataplane::engine::ir::{
    Algorithm, Calculation, CalculationId, CalculationInput, FieldId, HeaderId, Int, Ir,
};

use super::bits::{self, Bytes, Part, iconst};
use crate::{compile::Emit, context::PassContext, layout::Layout, vector::words_of};

/// The highest number of input bits of an unrolled sum; also keeps the sum within a word.
const SUM_BITS_MAX: u32 = 4096;
/// The highest number of input bits that are packed on the stack.
const PACKED_BITS_MAX: u32 = 4096;

/// Where the bits of a piece come from.
enum What<'p> {
    Field(FieldId),
    Constant(&'p Int),
    /// Adjacent fields in one word of the packet's block (header vector), which keeps them as they are on the wire. The
    /// number is the block's bit at which they begin. The parser wrote this word with one store, so a load of the word
    /// waits only for this store; a load across two words would wait for two stores.
    Run(u32),
}

struct Piece<'p> {
    what: What<'p>,
    bits: u32,
    /// Bits from the beginning of the input to the end of the piece.
    end: u32,
    /// Whether the piece may have changed since the checksums were verified.
    is_changing: bool,
}

/// The input of a calculation whose headers are all valid.
struct Input<'p> {
    headers: Vec<HeaderId>,
    pieces: Vec<Piece<'p>>,
    bits: u32,
    with_payload: bool,
}

/// Which part of a checksum's sum is kept from verification to update.
#[derive(Clone, Copy)]
pub(crate) enum Kept<'a> {
    Nothing,
    /// Under this number, verification stores the sum of everything that cannot change. The function decides whether a
    /// field may change.
    Put(usize, &'a dyn Fn(FieldId) -> bool),
    /// The update loads the sum with this number, and adds the fields that may have changed.
    Use(usize, &'a dyn Fn(FieldId) -> bool),
}

impl Kept<'_> {
    fn is_changing(self, field: FieldId) -> bool {
        match self {
            Self::Nothing => true,
            Self::Put(_, changes) | Self::Use(_, changes) => changes(field),
        }
    }
}

pub(crate) enum Element<'p> {
    Field(FieldId),
    Constant(&'p Int, u32),
}

/// The fields and constants of an input, one after the other, and whether the payload follows.
pub(crate) fn elements<'p>(ir: &'p Ir, input: &'p [CalculationInput]) -> (Vec<Element<'p>>, bool) {
    let mut all = Vec::new();
    let mut with_payload = false;
    for part in input {
        match part {
            CalculationInput::Field(field) => all.push(Element::Field(*field)),
            CalculationInput::Header(header) => {
                let fields = ir.headers[header.index()].field_ids();
                all.extend(fields.map(Element::Field));
            }
            CalculationInput::Constant { value, bits } => {
                all.push(Element::Constant(value, *bits));
            }
            CalculationInput::Payload => with_payload = true,
        }
    }
    (all, with_payload)
}

impl<'p> Input<'p> {
    /// The input of a calculation; `None` if it has a varbit field, or is very long.
    fn of(
        ir: &'p Ir,
        layout: &Layout,
        calculation: &'p Calculation,
        kept: Kept<'_>,
    ) -> Option<Self> {
        let (all, with_payload) = elements(ir, &calculation.input);
        let mut input = Self {
            headers: Vec::new(),
            pieces: Vec::new(),
            bits: 0,
            with_payload,
        };
        for part in all {
            let (what, bits, is_changing) = match part {
                Element::Constant(value, bits) => (What::Constant(value), bits, false),
                Element::Field(field) => {
                    let slot = layout.field(field);
                    if slot.variable {
                        return None;
                    }
                    let header = ir.fields[field.index()].header;
                    if !ir.headers[header.index()].metadata {
                        input.headers.push(header);
                    }
                    let what = match slot.packed {
                        Some(start) => What::Run(slot.offset * 8 + start),
                        None => What::Field(field),
                    };
                    (what, slot.bits, kept.is_changing(field))
                }
            };
            input.push(what, bits, is_changing);
        }
        // A header without fields adds nothing, so its validity does not matter.
        input.headers.sort_unstable();
        input.headers.dedup();
        (input.bits <= SUM_BITS_MAX.max(PACKED_BITS_MAX)).then_some(input)
    }

    fn push(&mut self, what: What<'p>, bits: u32, is_changing: bool) {
        self.bits += bits;
        if let What::Run(start) = what
            && let Some(last) = self.pieces.last_mut()
            && let What::Run(before) = last.what
            && before + last.bits == start
            && before / 64 == (start + bits - 1) / 64
            && last.is_changing == is_changing
        {
            last.bits += bits;
            last.end = self.bits;
        } else if bits > 0 {
            self.pieces.push(Piece {
                what,
                bits,
                end: self.bits,
                is_changing,
            });
        }
    }
}

/// Computes a calculation over the packet as it is now. The result is one word.
pub(crate) fn calculate(e: &mut Emit<'_, '_, '_>, id: CalculationId, kept: Kept<'_>) -> Value {
    let ir = e.ir();
    let calculation = &ir.calculations[id.index()];
    let is_sum = calculation.algorithm == Algorithm::Csum16;
    let input = Input::of(ir, e.layout(), calculation, kept);
    let Some(input) = input.filter(|input| is_sum || !input.with_payload) else {
        return gather(e, id);
    };
    let [whole, other, next] = e.blocks();
    let result = e.b.append_block_param(next, types::I64);
    e.b.set_cold_block(other);
    let mut all = e.truth_constant(true);
    for header in &input.headers {
        let valid = e.valid(*header);
        all = e.b.ins().band(all, valid);
    }
    e.branch(all, whole, other);
    e.begin_inner(other);
    let gathered = gather(e, id);
    e.b.ins().jump(next, &[BlockArg::Value(gathered)]);
    e.begin_inner(whole);
    let computed = if is_sum {
        internet_checksum(e, &input, kept)
    } else {
        packed(e, id, &input)
    };
    e.b.ins().jump(next, &[BlockArg::Value(computed)]);
    e.begin(next);
    result
}

fn gather(e: &mut Emit<'_, '_, '_>, id: CalculationId) -> Value {
    let number = e.constant32(id.0);
    let result = e.call_outside("calculate", &[e.pass, e.vector, number]);
    result.unwrap_or_else(|| e.constant(0))
}

fn part(e: &mut Emit<'_, '_, '_>, piece: &Piece<'_>) -> Part {
    let n_words = piece.bits.div_ceil(64) as usize;
    let (words, is_clean) = match &piece.what {
        What::Field(field) => {
            let words = (0..n_words)
                .map(|word| e.field_word(*field, word))
                .collect();
            (words, !e.layout().field(*field).signed)
        }
        What::Constant(value) => {
            let words = words_of(value, n_words).map(|word| e.constant(word));
            (words.collect(), false)
        }
        What::Run(start) => {
            let bytes = e.block_bytes();
            (bits::load(&mut e.b, bytes, *start, piece.bits), true)
        }
    };
    Part {
        words,
        bits: piece.bits,
        is_clean,
    }
}

fn packed(e: &mut Emit<'_, '_, '_>, id: CalculationId, input: &Input<'_>) -> Value {
    let parts: Vec<Part> = input.pieces.iter().map(|piece| part(e, piece)).collect();
    let words = bits::join(&mut e.b, &parts);
    let address = e.room(words.len());
    for (offset, word) in (0..).step_by(8).zip(words) {
        let word = word.unwrap_or_else(|| iconst(&mut e.b, 0));
        bits::store(&mut e.b, Bytes::foreign(address), offset, word);
    }
    let pass = e.pass;
    let number = e.constant32(id.0);
    let len = e.constant(input.bits.div_ceil(8).into());
    let result = e.call_outside("calculate_packed", &[pass, number, address, len]);
    result.unwrap_or_else(|| e.constant(0))
}

fn internet_checksum(e: &mut Emit<'_, '_, '_>, input: &Input<'_>, kept: Kept<'_>) -> Value {
    let lasting = match kept {
        Kept::Nothing => None,
        Kept::Put(number, _) => {
            let sum = lasting_sum(e, input);
            put_down(e, number, sum);
            Some(sum)
        }
        Kept::Use(number, _) => Some(known_sum(e, input, number)),
    };
    let mut sum = sum(e, input, true);
    match lasting {
        Some(lasting) => sum = e.b.ins().iadd(sum, lasting),
        None => {
            let rest = lasting_sum(e, input);
            sum = e.b.ins().iadd(sum, rest);
        }
    }
    bits::fold(&mut e.b, sum)
}

/// The unfolded sum of the pieces that may change if `is_changing`, or of the pieces that cannot change.
fn sum(e: &mut Emit<'_, '_, '_>, input: &Input<'_>, is_changing: bool) -> Value {
    let mut sum = iconst(&mut e.b, 0);
    // Zeros pad the input to a whole number of 16-bit words.
    let total = input.bits.next_multiple_of(16);
    for piece in &input.pieces {
        if piece.is_changing != is_changing {
            continue;
        }
        let part = part(e, piece);
        for summand in bits::summand(&mut e.b, &part, total - piece.end) {
            sum = e.b.ins().iadd(sum, summand);
        }
    }
    sum
}

/// The sum of everything that cannot change between verification and update, the payload included.
fn lasting_sum(e: &mut Emit<'_, '_, '_>, input: &Input<'_>) -> Value {
    let fields = sum(e, input, false);
    if !input.with_payload {
        return fields;
    }
    // The payload begins on the first byte boundary after the other input.
    let begins_low = input.bits.div_ceil(8) % 2;
    let begins_low = e.constant(begins_low.into());
    let pass = e.pass;
    match e.call_outside("sum_payload", &[pass, begins_low]) {
        Some(payload) => e.b.ins().iadd(fields, payload),
        None => fields,
    }
}

fn payload_len(e: &mut Emit<'_, '_, '_>) -> Value {
    let head = e.load_context(types::I64, std::mem::offset_of!(PassContext, head_len));
    let payload = e.load_context(types::I64, std::mem::offset_of!(PassContext, payload_len));
    e.b.ins().iadd(head, payload)
}

fn put_down(e: &mut Emit<'_, '_, '_>, number: usize, sum: Value) {
    let offset = e.layout().sum(number);
    let known = bits::add_const(&mut e.b, sum, 1);
    e.store_vector(known, offset);
    let len = payload_len(e);
    e.store_vector(len, offset + 8);
}

/// Marks a sum as unknown.
pub(crate) fn put_nothing(e: &mut Emit<'_, '_, '_>, number: usize) {
    let nothing = e.constant(0);
    e.store_vector(nothing, e.layout().sum(number));
}

/// The sum of everything that cannot change: the stored sum if it is known, else a sum computed now.
fn known_sum(e: &mut Emit<'_, '_, '_>, input: &Input<'_>, number: usize) -> Value {
    let offset = e.layout().sum(number);
    let known = e.load_vector(types::I64, offset);
    let mut is_known = e.b.ins().icmp_imm_u(IntCC::NotEqual, known, 0);
    if input.with_payload {
        // If the payload was cut after the verification, the stored sum includes bytes that are gone.
        let len = payload_len(e);
        let then = e.load_vector(types::I64, offset + 8);
        let is_whole = e.b.ins().icmp(IntCC::Equal, len, then);
        is_known = e.b.ins().band(is_known, is_whole);
    }
    let one = iconst(&mut e.b, 1);
    let known = e.b.ins().isub(known, one);
    let [compute, next] = e.blocks();
    let result = e.b.append_block_param(next, types::I64);
    e.b.set_cold_block(compute);
    let arguments = [BlockArg::Value(known)];
    e.b.ins()
        .brif(is_known, next, &arguments, compute, &[] as &[BlockArg]);
    e.begin_inner(compute);
    let computed = lasting_sum(e, input);
    e.b.ins().jump(next, &[BlockArg::Value(computed)]);
    e.begin(next);
    result
}
