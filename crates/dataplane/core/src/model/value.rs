//! Integers of any width, and their conversion from and to bytes.
//!
//! "Arithmetic is done with infinite precision, truncated when copied into a field" (BMv2 `JSON_format.md`). So every
//! operand is an integer without a width, and a width applies only when a value is written to a field. An integer of up
//! to 128 bits needs no heap allocation.

use dashu_int::{
    IBig, Sign, UBig,
    ops::{BitTest, UnsignedAbs},
};

/// An integer without a width.
pub type Int = IBig;

/// Returns the number whose lowest `bits` bits are one and all others zero.
pub(crate) fn ones(bits: u32) -> Int {
    (Int::ONE << bits as usize) - Int::ONE
}

/// Returns a mask of `bits` bits, of which the leading `prefix_len` bits are one.
pub(crate) fn prefix_mask(bits: u32, prefix_len: u32) -> Int {
    let prefix_len = prefix_len.min(bits);
    ones(prefix_len) << (bits - prefix_len) as usize
}

/// Whether an unsigned field of `bits` bits can hold the value.
pub(crate) fn fits(value: &Int, bits: u32) -> bool {
    value.sign() == Sign::Positive && value.bit_len() <= bits as usize
}

/// Truncates a value as an assignment to a field of `bits` bits does.
pub(crate) fn wrap(value: Int, bits: u32, signed: bool) -> Int {
    if !signed {
        return if fits(&value, bits) {
            value
        } else {
            value & ones(bits)
        };
    }
    let Some(sign_bit) = bits.checked_sub(1) else {
        return Int::ZERO;
    };
    let low = value & ones(bits);
    if low.bit(sign_bit as usize) {
        low - (Int::ONE << bits as usize)
    } else {
        low
    }
}

/// Clamps a value to the range of a field.
pub(crate) fn saturate(value: Int, bits: u32, signed: bool) -> Int {
    let (low, high) = if signed && bits > 0 {
        (-(Int::ONE << (bits - 1) as usize), ones(bits - 1))
    } else {
        (Int::ZERO, ones(bits))
    };
    value.clamp(low, high)
}

/// The bit pattern of a value in a field of `bits` bits.
fn pattern(value: &Int, bits: u32) -> UBig {
    if fits(value, bits) {
        value.unsigned_abs()
    } else {
        (value & ones(bits)).unsigned_abs()
    }
}

pub(crate) fn low_u64(value: &Int) -> u64 {
    u64::try_from(value)
        .or_else(|_| u64::try_from(&(value & ones(64))))
        .expect("masked to 64 bits")
}

/// The value as an index or a count; `None` if it is negative or too large for a `usize`.
pub(crate) fn as_usize(value: &Int) -> Option<usize> {
    usize::try_from(value).ok()
}

pub(crate) fn from_be_bytes(bytes: &[u8]) -> Int {
    if bytes.len() <= 16 {
        let mut number = 0u128;
        for byte in bytes {
            number = (number << 8) | u128::from(*byte);
        }
        return Int::from(number);
    }
    Int::from(UBig::from_be_bytes(bytes))
}

/// Appends the value's bit pattern in a field of `bits` bits, padded with leading zeros to whole bytes.
pub(crate) fn push_be_bytes(out: &mut Vec<u8>, value: &Int, bits: u32) {
    let len = bits.div_ceil(8) as usize;
    if len <= 8
        && let Ok(number) = u64::try_from(value)
        && (bits == 64 || number >> bits == 0)
    {
        out.extend_from_slice(&number.to_be_bytes()[8 - len..]);
        return;
    }
    let pattern = pattern(value, bits);
    if len <= 16 {
        let number = u128::try_from(&pattern).expect("a pattern of at most 16 bytes");
        out.extend_from_slice(&number.to_be_bytes()[16 - len..]);
        return;
    }
    let bytes = pattern.to_be_bytes();
    out.resize(out.len() + len - bytes.len(), 0);
    out.extend_from_slice(&bytes);
}

pub(crate) fn to_be_bytes(value: &Int, bits: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(bits.div_ceil(8) as usize);
    push_be_bytes(&mut out, value, bits);
    out
}

/// The bit pattern in P4Runtime's canonical form: no leading zero byte, at least one byte.
pub(crate) fn to_canonical_bytes(value: &Int, bits: u32) -> Vec<u8> {
    let bytes = to_be_bytes(value, bits);
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    match bytes.get(zeros..) {
        Some(rest) if !rest.is_empty() => rest.to_vec(),
        _ => vec![0],
    }
}

/// Parses a hexadecimal number with an optional `-` and an optional `0x` after it, which is the form of constants in
/// BMv2 JSON.
pub(crate) fn from_hex(text: &str) -> Option<Int> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let digits = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
        .unwrap_or(digits);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = Int::from(UBig::from_str_radix(digits, 16).ok()?);
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_field_wraps_in_twos_complement() {
        assert_eq!(wrap(Int::from(-129), 8, true), Int::from(127));
        assert_eq!(wrap(Int::from(128), 8, true), Int::from(-128));
        assert_eq!(wrap(Int::from(-1), 8, false), Int::from(255));
        assert_eq!(to_be_bytes(&Int::from(-1), 12), [0x0f, 0xff]);
    }

    #[test]
    fn bytes_come_back_at_any_width() {
        for bits in [1u32, 7, 8, 9, 64, 127, 128, 129, 2048] {
            let value = ones(bits) - Int::ONE;
            assert_eq!(
                from_be_bytes(&to_be_bytes(&value, bits)),
                value,
                "{bits} bits"
            );
        }
        assert_eq!(to_canonical_bytes(&Int::ZERO, 48), [0]);
        assert_eq!(to_canonical_bytes(&Int::from(0x1234), 48), [0x12, 0x34]);
    }

    #[test]
    fn saturation_stops_at_the_ends() {
        assert_eq!(saturate(Int::from(-5), 8, false), Int::ZERO);
        assert_eq!(saturate(Int::from(500), 8, false), Int::from(255));
        assert_eq!(saturate(Int::from(-500), 8, true), Int::from(-128));
        assert_eq!(saturate(Int::from(500), 8, true), Int::from(127));
    }

    #[test]
    fn hexadecimal_constants_have_signs_and_any_length() {
        assert_eq!(from_hex("-0x10"), Some(Int::from(-16)));
        assert_eq!(from_hex("0x"), None);
        assert_eq!(from_hex("0xzz"), None);
        assert_eq!(from_hex(&format!("0x{}", "f".repeat(64))), Some(ones(256)));
    }
}
