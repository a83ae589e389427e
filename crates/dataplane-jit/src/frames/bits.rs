//! Bit fields between bytes in network order and the words of a packet's block, unrolled.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;

/// Bits of a word.
const WORD: u32 = 64;

/// Bytes are anywhere, and loads and stores of them never trap.
fn flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

pub(crate) fn iconst(b: &mut FunctionBuilder<'_>, value: u64) -> Value {
    b.ins().iconst(types::I64, value.cast_signed())
}

pub(crate) fn add_const(b: &mut FunctionBuilder<'_>, value: Value, addend: u64) -> Value {
    if addend == 0 {
        return value;
    }
    let addend = iconst(b, addend);
    b.ins().iadd(value, addend)
}

fn shift_left(b: &mut FunctionBuilder<'_>, value: Value, bits: u32) -> Value {
    if bits == 0 {
        return value;
    }
    let bits = iconst(b, bits.into());
    b.ins().ishl(value, bits)
}

pub(crate) fn shift_right(b: &mut FunctionBuilder<'_>, value: Value, bits: u32) -> Value {
    if bits == 0 {
        return value;
    }
    let bits = iconst(b, bits.into());
    b.ins().ushr(value, bits)
}

/// The low bits of a word.
pub(crate) fn low(b: &mut FunctionBuilder<'_>, value: Value, bits: u32) -> Value {
    if bits >= WORD {
        return value;
    }
    let mask = iconst(b, (1 << bits) - 1);
    b.ins().band(value, mask)
}

/// The word with the sign of a narrower number above it.
pub(crate) fn sign_extend(b: &mut FunctionBuilder<'_>, value: Value, bits: u32) -> Value {
    let up = iconst(b, (WORD - bits).into());
    let high = b.ins().ishl(value, up);
    b.ins().sshr(high, up)
}

/// Loads a big endian number of 1, 2, 4 or 8 bytes.
fn load_be(b: &mut FunctionBuilder<'_>, base: Value, offset: i32, n_bytes: u32) -> Value {
    let of_type = |b: &mut FunctionBuilder<'_>, ty: Type| {
        let loaded = b.ins().load(ty, flags(), base, offset);
        let turned = b.ins().bswap(loaded);
        b.ins().uextend(types::I64, turned)
    };
    match n_bytes {
        1 => {
            let loaded = b.ins().load(types::I8, flags(), base, offset);
            b.ins().uextend(types::I64, loaded)
        }
        2 => of_type(b, types::I16),
        4 => of_type(b, types::I32),
        _ => {
            let loaded = b.ins().load(types::I64, flags(), base, offset);
            b.ins().bswap(loaded)
        }
    }
}

/// Loads up to 64 bits that begin so many bits behind a pointer; may read up to seven bytes behind
/// them.
fn load_chunk(b: &mut FunctionBuilder<'_>, base: Value, offset: u32, bits: u32) -> Value {
    let first = (offset / 8).cast_signed();
    let skipped = offset % 8;
    let span = (skipped + bits).div_ceil(8);
    if span <= 8 {
        let n_bytes = span.next_power_of_two();
        let loaded = load_be(b, base, first, n_bytes);
        let shifted = shift_right(b, loaded, n_bytes * 8 - skipped - bits);
        return if skipped == 0 {
            shifted
        } else {
            low(b, shifted, bits)
        };
    }
    let high = load_be(b, base, first, 8);
    let last = load_be(b, base, first + 8, 1);
    let surplus = 72 - skipped - bits;
    let high = shift_left(b, high, 8 - surplus);
    let last = shift_right(b, last, surplus);
    let joined = b.ins().bor(high, last);
    low(b, joined, bits)
}

/// Loads bits into words, the lowest first.
pub(crate) fn load(b: &mut FunctionBuilder<'_>, base: Value, offset: u32, bits: u32) -> Vec<Value> {
    let mut words = Vec::new();
    let mut left = bits;
    while left > 0 {
        let n_bits = left.min(WORD);
        left -= n_bits;
        words.push(load_chunk(b, base, offset + left, n_bits));
    }
    words
}

/// A field's words, the lowest first, and its width.
pub(crate) struct Part {
    pub words: Vec<Value>,
    pub bits: u32,
    /// The bits above the width are zero.
    pub is_clean: bool,
}

/// The bits `from..from + bits` of a part, counted from its lowest; at most 64 of them. What is
/// above them need not be zero where `dirty` allows it.
fn slice(b: &mut FunctionBuilder<'_>, part: &Part, from: u32, bits: u32, dirty: bool) -> Value {
    let (word, shift) = ((from / WORD) as usize, from % WORD);
    let mut value = shift_right(b, part.words[word], shift);
    if shift + bits > WORD
        && let Some(next) = part.words.get(word + 1)
    {
        let high = shift_left(b, *next, WORD - shift);
        value = b.ins().bor(value, high);
    }
    let is_top = from + bits == part.bits && part.is_clean;
    let is_word = shift == 0 && bits == WORD;
    if dirty || is_top || is_word {
        value
    } else {
        low(b, value, bits)
    }
}

/// The bits of parts, one after the other, as big endian numbers of 64 bits each; the last one is
/// padded with zeros behind.
pub(crate) fn join(b: &mut FunctionBuilder<'_>, parts: &[Part]) -> Vec<Value> {
    let total: u32 = parts.iter().map(|part| part.bits).sum();
    let mut words = Vec::new();
    for start in (0..total).step_by(WORD as usize) {
        let mut word: Option<Value> = None;
        let mut at = 0;
        for part in parts {
            let (begin, end) = (at.max(start), (at + part.bits).min(start + WORD));
            let part_end = at + part.bits;
            at = part_end;
            if begin >= end {
                continue;
            }
            // Bits above the part are shifted out where it begins the word.
            let value = slice(b, part, part_end - end, end - begin, begin == start);
            let value = shift_left(b, value, start + WORD - end);
            word = Some(match word {
                Some(word) => b.ins().bor(word, value),
                None => value,
            });
        }
        words.extend(word);
    }
    words
}

/// Stores big endian numbers of 64 bits, one after the other.
pub(crate) fn store(b: &mut FunctionBuilder<'_>, base: Value, words: &[Value]) {
    for (word, offset) in words.iter().zip((0..).step_by(8)) {
        let turned = b.ins().bswap(*word);
        b.ins().store(flags(), turned, base, offset);
    }
}

/// A part's share of a one's complement sum of 16-bit words, where its last bit has so many bits
/// of its word behind it. Below 2^49 for each word.
pub(crate) fn summand(b: &mut FunctionBuilder<'_>, part: &Part, behind: u32) -> Vec<Value> {
    let mut out = Vec::new();
    let mut from = 0;
    while from < part.bits {
        let bits = (part.bits - from).min(32);
        let value = slice(b, part, from, bits, false);
        out.push(shift_left(b, value, (behind + from) % 16));
        from += bits;
    }
    out
}

/// Folds a sum of fewer than 2^14 summands to 16 bits, and complements it (RFC 1071).
pub(crate) fn fold(b: &mut FunctionBuilder<'_>, sum: Value) -> Value {
    let mut sum = sum;
    for bits in [32, 16, 16, 16] {
        let high = shift_right(b, sum, bits);
        let rest = low(b, sum, bits);
        sum = b.ins().iadd(high, rest);
    }
    let ones = iconst(b, 0xffff);
    b.ins().bxor(sum, ones)
}
