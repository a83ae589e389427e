//! P4Runtime's byte strings: integers, big endian, in the shortest form, which is the canonical one.
//!
//! Source: P4Runtime 1.5.0, "Bytestrings". An empty string, and a value wider than its type, are `OUT_OF_RANGE`, as
//! that section requires. The sections on matches and actions mention `INVALID_ARGUMENT`, but allow "a more specific
//! error code" where there is one.

use std::fmt::Display;

use tonic::Code;

use crate::error::{EntityError, EntityResult};

/// Converts a received string to canonical form. Fails if the value has more than `width_bits`.
pub(crate) fn parse(bytes: &[u8], width_bits: u32, what: impl Display) -> EntityResult<Vec<u8>> {
    if bytes.is_empty() {
        return Err(EntityError::new(
            Code::OutOfRange,
            format!("{what}: expected a value of {width_bits} bits, found an empty byte string"),
        ));
    }
    let value = canonical(bytes);
    let bits = bit_len(&value);
    if bits > width_bits {
        return Err(EntityError::new(
            Code::OutOfRange,
            format!("{what}: expected a value of {width_bits} bits, found one of {bits}"),
        ));
    }
    Ok(value)
}

/// Removes leading zero bytes, but leaves at least one byte.
pub(crate) fn canonical(bytes: &[u8]) -> Vec<u8> {
    match bytes.iter().position(|byte| *byte != 0) {
        Some(first) => bytes[first..].to_vec(),
        None => vec![0],
    }
}

/// Converts a received signed string to the data plane's form: two's complement of exactly `width_bits`.
pub(crate) fn parse_signed(
    bytes: &[u8],
    width_bits: u32,
    what: impl Display,
) -> EntityResult<Vec<u8>> {
    let Some(first) = bytes.first() else {
        return parse(bytes, width_bits, what);
    };
    let fill = if first & 0x80 == 0 { 0 } else { 0xff };
    let n_bytes = width_bits.div_ceil(8).max(1) as usize;
    let (beyond, value) = bytes.split_at(bytes.len().saturating_sub(n_bytes));
    let mut full = vec![fill; n_bytes - value.len()];
    full.extend_from_slice(value);
    // All bits above the width must equal the sign bit, which is the highest bit within the width.
    let above = match width_bits % 8 {
        0 => 0x80,
        bits => 0xff << (bits - 1),
    };
    if full[0] & above != fill & above || beyond.iter().any(|byte| *byte != fill) {
        return Err(EntityError::new(
            Code::OutOfRange,
            format!(
                "{what}: expected a signed value of {width_bits} bits, found one that needs more bits"
            ),
        ));
    }
    full[0] &= all_ones(width_bits)[0];
    Ok(canonical(&full))
}

/// Converts a signed number of `width_bits` from the data plane's form to the shortest string.
pub(crate) fn signed(value: &[u8], width_bits: u32) -> Vec<u8> {
    let n_bytes = width_bits.div_ceil(8).max(1) as usize;
    let mut full = vec![0; n_bytes.saturating_sub(value.len())];
    full.extend_from_slice(value);
    let sign = (width_bits.max(1) - 1) % 8;
    let is_negative = full[0] >> sign & 1 == 1;
    if is_negative {
        full[0] |= 0xff << sign;
    }
    let fill = if is_negative { 0xff } else { 0 };
    let is_spare = |pair: &[u8]| pair[0] == fill && (pair[1] ^ fill) & 0x80 == 0;
    let n_spare = full.windows(2).take_while(|pair| is_spare(pair)).count();
    full.split_off(n_spare)
}

pub(crate) fn is_zero(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == 0)
}

/// The largest value of `width_bits`.
pub(crate) fn all_ones(width_bits: u32) -> Vec<u8> {
    let mut bytes = vec![0xff; width_bits.div_ceil(8).max(1) as usize];
    bytes[0] = match width_bits % 8 {
        0 if width_bits == 0 => 0,
        0 => 0xff,
        bits => (1 << bits) - 1,
    };
    bytes
}

/// Whether every bit of `value` is set in `mask`; lengths may differ.
pub(crate) fn is_within(value: &[u8], mask: &[u8]) -> bool {
    let mask = mask.iter().rev().chain(std::iter::repeat(&0));
    value.iter().rev().zip(mask).all(|(v, m)| v & !m == 0)
}

pub(crate) fn low_bits_are_zero(value: &[u8], n_bits: u32) -> bool {
    let (bytes, bits) = ((n_bits / 8) as usize, n_bits % 8);
    let mut low = value.iter().rev();
    low.by_ref().take(bytes).all(|byte| *byte == 0)
        && low.next().is_none_or(|byte| byte & ((1 << bits) - 1) == 0)
}

fn bit_len(value: &[u8]) -> u32 {
    match value {
        [0] | [] => 0,
        [first, rest @ ..] => {
            8 - first.leading_zeros() + u32::try_from(rest.len()).unwrap_or(u32::MAX / 8) * 8
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: bytestring.unsigned
    #[test]
    fn any_length_is_taken_if_the_value_fits() {
        assert_eq!(parse(&[0, 0, 0x63], 12, "x").unwrap(), [0x63]);
        assert_eq!(parse(&[0x0f, 0xff], 12, "x").unwrap(), [0x0f, 0xff]);
        assert_eq!(parse(&[0, 0], 1, "x").unwrap(), [0]);
        for (bytes, width) in [
            (&[0x10, 0x63][..], 12),
            (&[1, 0x63], 8),
            (&[], 8),
            (&[2], 1),
        ] {
            let error = parse(bytes, width, "field \"x\"").unwrap_err();
            assert_eq!(error.code, Code::OutOfRange, "{bytes:?}");
            assert!(
                error.message.starts_with("field \"x\": expected"),
                "{error}"
            );
        }
    }

    /// The specification's tables of valid and invalid examples.
    // spec: bytestring.signed
    #[test]
    fn signed_values_are_read_and_written_as_the_specification_s_examples() {
        for (sent, width, held, read) in [
            (&[0x63][..], 8, &[0x63][..], &[0x63][..]),
            (&[0x9d], 8, &[0x9d], &[0x9d]),
            (&[0xff, 0x9d], 8, &[0x9d], &[0x9d]),
            (&[0xfd, 0x1d], 12, &[0x0d, 0x1d], &[0xfd, 0x1d]),
            (&[0, 0], 16, &[0], &[0]),
            (&[0xff], 12, &[0x0f, 0xff], &[0xff]),
            (&[0, 0x80], 16, &[0x80], &[0, 0x80]),
        ] {
            assert_eq!(parse_signed(sent, width, "x").unwrap(), held, "{sent:?}");
            assert_eq!(signed(held, width), read, "{held:?}");
        }
        for (sent, width) in [
            (&[0, 0x9d][..], 8),
            (&[0x8d, 0x1d], 12),
            (&[], 16),
            (&[0x08, 0], 12),
        ] {
            let error = parse_signed(sent, width, "x").unwrap_err();
            assert_eq!(error.code, Code::OutOfRange, "{sent:?}");
        }
    }

    #[test]
    fn low_bits_and_masks() {
        assert_eq!(all_ones(9), [1, 0xff]);
        assert_eq!(all_ones(16), [0xff, 0xff]);
        assert!(low_bits_are_zero(&[10, 0, 0, 0], 24));
        assert!(!low_bits_are_zero(&[10, 0, 1, 0], 24));
        assert!(low_bits_are_zero(&[0x80], 7));
        assert!(!low_bits_are_zero(&[0x40], 7));
        assert!(low_bits_are_zero(&[0], 32));
        assert!(is_within(&[5], &[1, 0xff]));
        assert!(!is_within(&[1, 5], &[0xff]));
        assert!(!is_within(&[5], &[4]));
    }
}
