//! Numbers as big-endian byte strings of the width that the program defines. Like BMv2, takes strings of any length
//! and ignores excess bits.

pub(crate) fn n_bytes(bits: u32) -> usize {
    bits.div_ceil(8) as usize
}

/// Returns the lowest `bits` bits of a number, extended with zeros if the number is shorter.
pub(crate) fn cut(bytes: &[u8], bits: u32) -> Vec<u8> {
    let n_bytes = n_bytes(bits);
    let kept = &bytes[bytes.len().saturating_sub(n_bytes)..];
    let mut number = vec![0; n_bytes - kept.len()];
    number.extend(kept);
    if let Some(highest) = number.first_mut()
        && !bits.is_multiple_of(8)
    {
        *highest &= (1 << (bits % 8)) - 1;
    }
    number
}

/// Removes leading zero bytes, but leaves at least one byte.
pub(crate) fn canonical(mut number: Vec<u8>) -> Vec<u8> {
    let n_zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.drain(..n_zeros.min(number.len().saturating_sub(1)));
    number
}

/// Sign-extends or cuts a number to `bits`.
pub(crate) fn of_i64(value: i64, bits: u32) -> Vec<u8> {
    let sign = if value < 0 { 0xff } else { 0 };
    let mut number = vec![sign; n_bytes(bits).saturating_sub(8)];
    number.extend(value.to_be_bytes());
    cut(&number, bits)
}

/// The lowest 64 bits of a number.
pub(crate) fn to_i64(bytes: &[u8]) -> i64 {
    let number = cut(bytes, 64);
    number.try_into().map_or(0, i64::from_be_bytes)
}

pub(crate) fn and(value: &[u8], mask: &[u8]) -> Vec<u8> {
    value
        .iter()
        .zip(mask)
        .map(|(value, mask)| value & mask)
        .collect()
}

/// Makes a mask of `bits` bits, of which the highest `n_ones` are set.
pub(crate) fn prefix_mask(n_ones: u32, bits: u32) -> Vec<u8> {
    let n_unused = n_bytes(bits) * 8 - bits as usize;
    let bit = |place: usize| place >= n_unused && place < n_unused + n_ones as usize;
    let byte = |at: usize| (0..8).fold(0, |byte, place| byte << 1 | u8::from(bit(at * 8 + place)));
    (0..n_bytes(bits)).map(byte).collect()
}

/// Splits a number into parts of these widths, the highest bits first.
pub(crate) fn split(bytes: &[u8], parts: &[u32]) -> Vec<Vec<u8>> {
    let mut n_below: u32 = parts.iter().sum();
    let parts = parts.iter().map(|bits| {
        n_below -= bits;
        cut(&shifted_right(bytes, n_below), *bits)
    });
    parts.collect()
}

fn shifted_right(bytes: &[u8], n_bits: u32) -> Vec<u8> {
    let kept = &bytes[..bytes.len().saturating_sub((n_bits / 8) as usize)];
    let shift = n_bits % 8;
    let mut carry = 0u16;
    let byte = |byte: &u8| {
        let both = carry << 8 | u16::from(*byte);
        carry = u16::from(*byte);
        (both >> shift) as u8
    };
    kept.iter().map(byte).collect()
}

/// The inverse of [`split`].
pub(crate) fn join(values: &[impl AsRef<[u8]>], parts: &[u32]) -> Vec<u8> {
    let bits = values.iter().zip(parts).flat_map(|(value, bits)| {
        let value = cut(value.as_ref(), *bits);
        let n_unused = value.len() * 8 - *bits as usize;
        let bit = move |place: usize| value[place / 8] >> (7 - place % 8) & 1;
        (n_unused..n_unused + *bits as usize)
            .map(bit)
            .collect::<Vec<u8>>()
    });
    let bits: Vec<u8> = bits.collect();
    let n_unused = n_bytes(bits.len() as u32) * 8 - bits.len();
    let padded: Vec<u8> = std::iter::repeat_n(0, n_unused).chain(bits).collect();
    let byte = |bits: &[u8]| bits.iter().fold(0, |byte, bit| byte << 1 | bit);
    padded.chunks(8).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_cut_to_its_width() {
        assert_eq!(cut(&[0xff, 0xff], 9), [0x01, 0xff]);
        assert_eq!(cut(&[5], 16), [0, 5]);
        assert_eq!(cut(&[1, 2, 3], 8), [3]);
        assert_eq!(cut(&[], 12), [0, 0]);
        assert_eq!(canonical(vec![0, 0]), [0]);
        assert_eq!(canonical(vec![0, 1, 0]), [1, 0]);
    }

    #[test]
    fn a_sign_goes_to_the_highest_bit() {
        assert_eq!(of_i64(-1, 9), [0x01, 0xff]);
        assert_eq!(
            of_i64(-2, 72),
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]
        );
        assert_eq!(to_i64(&[0xff; 8]), -1);
        assert_eq!(to_i64(&[7, 0, 0, 0, 0, 0, 0, 0, 1]), 1);
        assert_eq!(to_i64(&[1, 0]), 256);
    }

    #[test]
    fn a_prefix_begins_at_the_highest_bit_of_the_width() {
        assert_eq!(prefix_mask(0, 32), [0; 4]);
        assert_eq!(prefix_mask(12, 32), [0xff, 0xf0, 0, 0]);
        assert_eq!(prefix_mask(3, 9), [0x01, 0xc0]);
        assert_eq!(prefix_mask(9, 9), [0x01, 0xff]);
        assert_eq!(and(&[0x0f, 0xff], &[0x3c, 0x0f]), [0x0c, 0x0f]);
    }

    #[test]
    fn parts_come_apart_and_together() {
        for parts in [&[4, 12][..], &[9, 3, 20], &[16], &[1, 1, 1]] {
            let bits: u32 = parts.iter().sum();
            let number = cut(&[0xa5, 0x3c, 0x96, 0x69], bits);
            let apart = split(&number, parts);
            assert_eq!(join(&apart, parts), number, "{parts:?}");
        }
        assert_eq!(split(&[0x81, 0x00], &[4, 12]), [vec![8], vec![1, 0]]);
    }
}
