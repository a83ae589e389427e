//! The deparser as code: stores the valid headers one after the other, eight bytes at a time. Packed fields, which the
//! packet's block (header vector) keeps as on the wire, are copied; the code inserts unpacked fields from their words.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use dataplane::engine::ir::HeaderId;

use super::{
    UNROLLED_WORDS_MAX,
    bits::{self, Bytes, Part},
};
use crate::compile::Emit;

/// Writes the body of the deparser's function, which stores the valid headers at `out`, where there is room for all
/// headers and `SLACK_BYTES` more. Returns the number of bytes.
pub(crate) fn emit(e: &mut Emit<'_, '_, '_>, out: Value) -> Value {
    prepare(e);
    headers(e, out)
}

/// Generates the code of the deparser's primitives, which run before the headers are written.
pub(crate) fn prepare(e: &mut Emit<'_, '_, '_>) {
    e.place = "deparser".to_owned();
    for primitive in &e.ir().deparser.primitives {
        // Jumps and `exit` have an effect only in a control.
        e.primitive(primitive);
    }
}

pub(crate) fn headers(e: &mut Emit<'_, '_, '_>, out: Value) -> Value {
    let mut end = out;
    for header in &e.ir().deparser.order {
        end = header_at(e, *header, end);
    }
    e.b.ins().isub(end, out)
}

/// The number of bytes that the deparser would write.
pub(crate) fn len(e: &mut Emit<'_, '_, '_>) -> Value {
    let ir = e.ir();
    let mut sum = e.constant(0);
    for header in &ir.deparser.order {
        let bytes = e.header_bytes(*header);
        let is_valid = e.valid(*header);
        let is_valid = e.b.ins().uextend(types::I64, is_valid);
        let bytes = e.b.ins().imul(bytes, is_valid);
        sum = e.b.ins().iadd(sum, bytes);
    }
    sum
}

/// Writes a header if it is valid. Returns where the next header goes.
fn header_at(e: &mut Emit<'_, '_, '_>, header: HeaderId, out: Value) -> Value {
    let is_valid = e.valid(header);
    e.where_true(is_valid, out, |e| fields(e, header, out))
}

fn fields(e: &mut Emit<'_, '_, '_>, header: HeaderId, out: Value) -> Value {
    let ir = e.ir();
    let declared = &ir.headers[header.index()];
    let area = e.layout().header(header);
    if area.len() > (UNROLLED_WORDS_MAX * 8) as usize || declared.variable_field.is_some() {
        let number = e.constant32(header.0);
        let written = e.call_outside("write_header", &[e.pass, e.vector, number, out]);
        return match written {
            Some(bytes) => e.b.ins().iadd(out, bytes),
            None => out,
        };
    }
    let mut parts = Vec::new();
    let mut packed = Vec::new();
    for field in declared.field_ids() {
        let slot = e.layout().field(field);
        if slot.bits == 0 {
            continue;
        }
        let words = match slot.packed {
            Some(start) => {
                packed.push(start..start + slot.bits);
                Vec::new()
            }
            None => (0..slot.words as usize)
                .map(|word| e.field_word(field, word))
                .collect(),
        };
        parts.push(Part {
            words,
            bits: slot.bits,
            is_clean: !slot.signed,
        });
    }
    let joined = bits::join(&mut e.b, &parts);
    let copy = e.layout().packed(header).start;
    for (number, word) in (0_u32..).zip(joined) {
        put_word(e, number, word, kept(&packed, number), copy, out);
    }
    bits::add_const(&mut e.b, out, u64::from(declared.fixed_bits / 8))
}

/// A mask of the bits that the ranges cover in a header's `number`-th word; the header's first bit is the highest bit
/// of the word.
fn kept(ranges: &[std::ops::Range<u32>], number: u32) -> u64 {
    let (start, end) = (number * 64, number * 64 + 64);
    let masks = ranges.iter().map(|range| {
        let (first, behind) = (range.start.max(start), range.end.min(end));
        if first < behind {
            (u64::MAX >> (64 - (behind - first))) << (end - behind)
        } else {
            0
        }
    });
    masks.fold(0, |all, mask| all | mask)
}

/// Writes one word of a header: packed bits from the copy of the header's bytes in the block, others from `joined`.
fn put_word(
    e: &mut Emit<'_, '_, '_>,
    number: u32,
    joined: Option<Value>,
    kept: u64,
    copy: u32,
    out: Value,
) {
    let (block, out) = (e.block_bytes(), Bytes::foreign(out));
    let offset = number * 8;
    match joined {
        None if kept != 0 => {
            let word = e.load_vector(types::I64, copy + offset);
            bits::store_word(&mut e.b, out, offset, word);
        }
        None => {}
        Some(joined) if kept == 0 => bits::store(&mut e.b, out, offset, joined),
        Some(joined) => {
            let word = bits::load_number(&mut e.b, block, copy + offset);
            let mask = bits::iconst(&mut e.b, kept);
            let word = e.b.ins().band(word, mask);
            let word = e.b.ins().bor(word, joined);
            bits::store(&mut e.b, out, offset, word);
        }
    }
}
