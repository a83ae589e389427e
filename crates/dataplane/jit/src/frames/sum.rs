//! One's complement sums of bytes (RFC 1071), eight bytes at a time.

/// Adds 16-bit numbers in memory, in the machine's byte order. If the number of bytes is odd, a zero byte is added at
/// the end. The result is folded to 16 bits, and is 0 only if all bytes are 0.
fn in_memory(bytes: &[u8]) -> u16 {
    // Each quarter of a chunk is added to a sum of 64 bits: no frame is long enough to overflow it.
    let mut sums = [0_u64; 4];
    let chunks = bytes.chunks_exact(16);
    let mut rest = [0; 16];
    let tail = chunks.remainder();
    rest[..tail.len()].copy_from_slice(tail);
    for chunk in chunks.chain([rest.as_slice()]) {
        for (sum, part) in sums.iter_mut().zip(chunk.chunks_exact(4)) {
            let part = <[u8; 4]>::try_from(part).expect("a chunk of four bytes");
            *sum += u64::from(u32::from_ne_bytes(part));
        }
    }
    fold(sums.iter().sum())
}

/// Folds a sum to 16 bits. The result is 0 only if the sum is 0.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded to 16 bits")
}

/// The folded sum of bytes in network order. With `begins_low`, the first byte is the low byte of a 16-bit word.
pub(crate) fn of(bytes: &[u8], begins_low: bool) -> u16 {
    // If the bytes of every word are swapped, the bytes of the sum are swapped, too (RFC 1071, section 2 (B)).
    let sum = in_memory(bytes);
    if begins_low ^ cfg!(target_endian = "little") {
        sum.swap_bytes()
    } else {
        sum
    }
}

pub(crate) fn of_pieces(pieces: [&[u8]; 2], begins_low: bool) -> u16 {
    let [first, second] = pieces;
    let is_odd = !first.len().is_multiple_of(2);
    fold(u64::from(of(first, begins_low)) + u64::from(of(second, begins_low ^ is_odd)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds the bytes one by one, as RFC 1071 describes it.
    fn slowly(bytes: &[u8], begins_low: bool) -> u16 {
        let mut is_low = begins_low;
        let mut sum = 0_u64;
        for byte in bytes {
            sum += u64::from(*byte) << if is_low { 0 } else { 8 };
            is_low = !is_low;
        }
        fold(sum)
    }

    #[test]
    fn sums_of_any_bytes_in_any_pieces_are_those_of_the_rfc() {
        let mut random = fastrand::Rng::with_seed(1071);
        for round in 0..4_000 {
            let kind = round % 4;
            let bytes: Vec<u8> = (0..random.usize(..150))
                .map(|_| match kind {
                    0 => 0,
                    1 => 0xff,
                    2 => [0, 0xff][random.usize(..2)],
                    _ => random.u8(..),
                })
                .collect();
            let (first, second) = bytes.split_at(random.usize(..=bytes.len()));
            for begins_low in [false, true] {
                let wanted = slowly(&bytes, begins_low);
                assert_eq!(of(&bytes, begins_low), wanted, "{bytes:x?}");
                let found = of_pieces([first, second], begins_low);
                assert_eq!(found, wanted, "{first:x?} {second:x?}");
            }
        }
    }
}
