//! Unrolled moves of bit fields between bytes in network order and the words of a packet's block (its header vector,
//! [`crate::layout`]).

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;

const WORD: u32 = 64;

/// Bytes in memory, of any alignment; their loads and stores never trap.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub base: Value,
    pub flags: MemFlagsData,
}

impl Bytes {
    pub(crate) fn foreign(base: Value) -> Self {
        Self {
            base,
            flags: MemFlagsData::new().with_notrap(),
        }
    }

    fn load(self, b: &mut FunctionBuilder<'_>, ty: Type, offset: i32) -> Value {
        b.ins().load(ty, self.flags, self.base, offset)
    }

    fn store(self, b: &mut FunctionBuilder<'_>, value: Value, offset: i32) {
        b.ins().store(self.flags, value, self.base, offset);
    }
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

pub(crate) fn shift_left(b: &mut FunctionBuilder<'_>, value: Value, bits: u32) -> Value {
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

pub(crate) fn low(b: &mut FunctionBuilder<'_>, value: Value, bits: u32) -> Value {
    if bits >= WORD {
        return value;
    }
    let mask = iconst(b, (1 << bits) - 1);
    b.ins().band(value, mask)
}

/// Extends the sign of a number of `bits` bits to the whole word.
pub(crate) fn sign_extend(b: &mut FunctionBuilder<'_>, value: Value, bits: u32) -> Value {
    let up = iconst(b, (WORD - bits).into());
    let high = b.ins().ishl(value, up);
    b.ins().sshr(high, up)
}

/// Loads eight bytes in memory order.
pub(crate) fn load_word(b: &mut FunctionBuilder<'_>, from: Bytes, offset: u32) -> Value {
    from.load(b, types::I64, offset.cast_signed())
}

/// Stores eight bytes in memory order.
pub(crate) fn store_word(b: &mut FunctionBuilder<'_>, to: Bytes, offset: u32, word: Value) {
    to.store(b, word, offset.cast_signed());
}

/// The type of 1, 2, 4 or 8 bytes.
fn int_of(n_bytes: u32) -> Type {
    match n_bytes {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}

fn swap_bytes(b: &mut FunctionBuilder<'_>, value: Value, n_bytes: u32) -> Value {
    match n_bytes {
        1 => value,
        _ => b.ins().bswap(value),
    }
}

/// Loads a big endian number of 1, 2, 4 or 8 bytes.
fn load_be(b: &mut FunctionBuilder<'_>, from: Bytes, offset: i32, n_bytes: u32) -> Value {
    let loaded = from.load(b, int_of(n_bytes), offset);
    let swapped = swap_bytes(b, loaded, n_bytes);
    match n_bytes {
        8 => swapped,
        _ => b.ins().uextend(types::I64, swapped),
    }
}

/// Stores the low bytes of a word as a big endian number of 1, 2, 4 or 8 bytes.
fn store_be(b: &mut FunctionBuilder<'_>, to: Bytes, offset: i32, n_bytes: u32, value: Value) {
    let value = match n_bytes {
        8 => value,
        _ => b.ins().ireduce(int_of(n_bytes), value),
    };
    let swapped = swap_bytes(b, value, n_bytes);
    to.store(b, swapped, offset);
}

/// Loads up to 64 bits from bit `offset` on. May read up to seven bytes that follow these bits.
pub(crate) fn load_chunk(
    b: &mut FunctionBuilder<'_>,
    from: Bytes,
    offset: u32,
    bits: u32,
) -> Value {
    let first = (offset / 8).cast_signed();
    let skipped = offset % 8;
    let span = (skipped + bits).div_ceil(8);
    if span <= 8 {
        let n_bytes = span.next_power_of_two();
        let loaded = load_be(b, from, first, n_bytes);
        let shifted = shift_right(b, loaded, n_bytes * 8 - skipped - bits);
        return if skipped == 0 {
            shifted
        } else {
            low(b, shifted, bits)
        };
    }
    let high = load_be(b, from, first, 8);
    let last = load_be(b, from, first + 8, 1);
    let surplus = 72 - skipped - bits;
    let high = shift_left(b, high, 8 - surplus);
    let last = shift_right(b, last, surplus);
    let joined = b.ins().bor(high, last);
    low(b, joined, bits)
}

/// Loads bits into words, the lowest first.
pub(crate) fn load(b: &mut FunctionBuilder<'_>, from: Bytes, offset: u32, bits: u32) -> Vec<Value> {
    let mut words = Vec::new();
    let mut left = bits;
    while left > 0 {
        let n_bits = left.min(WORD);
        left -= n_bits;
        words.push(load_chunk(b, from, offset + left, n_bits));
    }
    words
}

/// Stores the low `bits` bits of a word (at most 64). They begin at bit `offset`, counted from a word-aligned address.
/// The surrounding bits in memory do not change.
pub(crate) fn store_chunk(
    b: &mut FunctionBuilder<'_>,
    to: Bytes,
    offset: u32,
    bits: u32,
    value: Value,
) {
    if offset.is_multiple_of(8) && bits.is_multiple_of(8) {
        let mut first = offset / 8;
        let mut left = bits / 8;
        while left > 0 {
            let n_bytes = 1 << left.ilog2();
            left -= n_bytes;
            let part = shift_right(b, value, left * 8);
            store_be(b, to, first.cast_signed(), n_bytes, part);
            first += n_bytes;
        }
        return;
    }
    let (first, last) = (offset / 8, (offset + bits - 1) / 8);
    let sizes = [1, 2, 4, 8];
    let window = sizes.into_iter().find(|size| first / size == last / size);
    let Some(n_bytes) = window else {
        // The bits cross the end of the word that they begin in.
        let behind = offset + bits - last / 8 * WORD;
        let high = shift_right(b, value, behind);
        store_chunk(b, to, offset, bits - behind, high);
        store_chunk(b, to, last / 8 * WORD, behind, value);
        return;
    };
    let start = first / n_bytes * n_bytes;
    let shift = (start + n_bytes) * 8 - offset - bits;
    let ones = u64::MAX >> (WORD - bits) << shift;
    let ty = int_of(n_bytes);
    // The mask in memory order.
    let in_memory = ones.swap_bytes() >> (WORD - n_bytes * 8);
    let kept = b.ins().iconst(
        ty,
        (!in_memory & u64::MAX >> (WORD - n_bytes * 8)).cast_signed(),
    );
    let before = to.load(b, ty, start.cast_signed());
    let around = b.ins().band(before, kept);
    let part = low(b, value, bits);
    let part = shift_left(b, part, shift);
    let part = match n_bytes {
        8 => part,
        _ => b.ins().ireduce(ty, part),
    };
    let part = swap_bytes(b, part, n_bytes);
    let after = b.ins().bor(around, part);
    to.store(b, after, start.cast_signed());
}

/// A field's words, the lowest first, and its width.
pub(crate) struct Part {
    /// Empty if other code writes these bits.
    pub words: Vec<Value>,
    pub bits: u32,
    /// Whether the bits above the width are zero.
    pub is_clean: bool,
}

/// Returns the bits `from..from + bits` of a part, counted from the part's lowest bit, as the low bits of a word;
/// `bits` is at most 64. With `dirty`, higher bits of the returned word may be set.
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

/// Joins the bits of parts, one after the other, to big endian numbers of 64 bits. Zeros pad the end of the last
/// number. A number to which no part contributes words is `None`.
pub(crate) fn join(b: &mut FunctionBuilder<'_>, parts: &[Part]) -> Vec<Option<Value>> {
    let total: u32 = parts.iter().map(|part| part.bits).sum();
    let mut words = Vec::new();
    for start in (0..total).step_by(WORD as usize) {
        let mut word: Option<Value> = None;
        let mut at = 0;
        for part in parts {
            let (begin, end) = (at.max(start), (at + part.bits).min(start + WORD));
            let part_end = at + part.bits;
            at = part_end;
            if begin >= end || part.words.is_empty() {
                continue;
            }
            // If a part begins the word, bits above it are shifted out.
            let value = slice(b, part, part_end - end, end - begin, begin == start);
            let value = shift_left(b, value, start + WORD - end);
            word = Some(match word {
                Some(word) => b.ins().bor(word, value),
                None => value,
            });
        }
        words.push(word);
    }
    words
}

/// Stores a big endian number of 64 bits.
pub(crate) fn store(b: &mut FunctionBuilder<'_>, to: Bytes, offset: u32, word: Value) {
    store_be(b, to, offset.cast_signed(), 8, word);
}

/// Loads a big endian number of 64 bits.
pub(crate) fn load_number(b: &mut FunctionBuilder<'_>, from: Bytes, offset: u32) -> Value {
    load_be(b, from, offset.cast_signed(), 8)
}

/// Returns what a part adds to a one's complement sum of 16-bit words, as summands that are each below 2^49. `behind`
/// is the number of bits of the input that follow the part.
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
