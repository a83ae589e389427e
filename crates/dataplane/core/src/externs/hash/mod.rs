//! The hash and checksum algorithms of v1model's `HashAlgorithm`.
//!
//! CRC parameters: crc16 is CRC-16/ARC, crc32 is CRC-32/ISO-HDLC. The `_custom` algorithms use the
//! same parameters until the control plane sets others.

mod crc;

use std::sync::LazyLock;

pub use self::crc::Crc;
pub(crate) use self::crc::CustomCrcs;

use super::random::Random;
use crate::{CrcParameters, program::ir::Algorithm};

impl Algorithm {
    /// Computes the result over bytes; [`Algorithm::Random`] draws it from `random`.
    pub(crate) fn compute(self, bytes: &[u8], random: &mut Random) -> u64 {
        if let Some(crc) = self.crc() {
            return crc.compute(bytes);
        }
        match self {
            Self::Xor16 => xor_words(bytes, 2),
            Self::Xor32 => xor_words(bytes, 4),
            Self::Xxh64 => xxh64(bytes),
            Self::HashEx => u64::from(hash_ex(bytes)),
            Self::Random => random.next(),
            Self::Identity => big_endian(&bytes[..bytes.len().min(8)]),
            _ => u64::from(internet_checksum(bytes)),
        }
    }

    /// The CRC; `None` if the algorithm is not a CRC. For a custom CRC, the parameters are those that it has before the
    /// control plane changes them.
    pub fn crc(self) -> Option<&'static Crc> {
        static CRC_8: LazyLock<Crc> = LazyLock::new(|| plain_crc(8, 0x07, 0, false));
        static CRC_16: LazyLock<Crc> = LazyLock::new(|| plain_crc(16, 0x8005, 0, true));
        static CCITT: LazyLock<Crc> = LazyLock::new(|| plain_crc(16, 0x1021, 0xffff, false));
        static CRC_32: LazyLock<Crc> =
            LazyLock::new(|| plain_crc(32, 0x04c1_1db7, 0xffff_ffff, true));
        static CRC_64: LazyLock<Crc> = LazyLock::new(|| plain_crc(64, 0x1b, 0, true));
        Some(match self {
            Self::Crc8Custom => &CRC_8,
            Self::Crc16 | Self::Crc16Custom => &CRC_16,
            Self::CrcCcitt => &CCITT,
            Self::Crc32 | Self::Crc32Custom => &CRC_32,
            Self::Crc64Custom => &CRC_64,
            _ => return None,
        })
    }

    /// The width of a custom CRC, whose parameters the control plane may set; `None` for other algorithms.
    pub fn custom_crc_bits(self) -> Option<u32> {
        match self {
            Self::Crc8Custom | Self::Crc16Custom | Self::Crc32Custom | Self::Crc64Custom => {
                self.crc().map(|crc| crc.bits)
            }
            _ => None,
        }
    }
}

/// Makes a CRC. If the CRC is reflected, its final XOR value is its initial value; otherwise its final XOR value is 0.
/// Among v1model's reflected CRCs, only CRC-32 has a final XOR value other than 0.
fn plain_crc(bits: u32, polynomial: u64, initial: u64, reflected: bool) -> Crc {
    let parameters = CrcParameters {
        polynomial,
        initial,
        xor_out: if reflected { initial } else { 0 },
        reflect_in: reflected,
        reflect_out: reflected,
    };
    Crc::new(bits, parameters)
}

/// RFC 1071: the one's complement of the one's complement sum.
fn internet_checksum(bytes: &[u8]) -> u16 {
    // Sums 32-bit words, each of which is two 16-bit words. Folding adds the high half of the sum to its low half.
    let (words, rest) = bytes.as_chunks::<4>();
    let words = words
        .iter()
        .map(|word| u64::from(u32::from_be_bytes(*word)));
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let mut sum = words.sum::<u64>() + u64::from(u32::from_be_bytes(last));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded to 16 bits")
}

fn big_endian(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter();
    bytes.fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// XOR of the words of `word_bytes` bytes; the last word is padded with trailing zeros.
fn xor_words(bytes: &[u8], word_bytes: usize) -> u64 {
    bytes.chunks(word_bytes).fold(0, |result, word| {
        result ^ (big_endian(word) << (8 * (word_bytes - word.len())))
    })
}

/// XXH64 with seed 0, as its specification (xxHash, doc/xxhash_spec.md) describes it.
fn xxh64(bytes: &[u8]) -> u64 {
    const P1: u64 = 0x9e37_79b1_85eb_ca87;
    const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
    const P3: u64 = 0x1656_67b1_9e37_79f9;
    const P4: u64 = 0x85eb_ca77_c2b2_ae63;
    const P5: u64 = 0x27d4_eb2f_1656_67c5;
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0u64, |number, byte| (number << 8) | u64::from(*byte))
    };
    let round = |lane: u64, input: u64| {
        lane.wrapping_add(input.wrapping_mul(P2))
            .rotate_left(31)
            .wrapping_mul(P1)
    };
    let stripes = bytes.chunks_exact(32);
    let mut rest = stripes.remainder();
    let mut hash = if bytes.len() >= 32 {
        let mut lanes = [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)];
        for stripe in stripes {
            for (lane, input) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
                *lane = round(*lane, word(input));
            }
        }
        let mut hash = [1, 7, 12, 18]
            .iter()
            .zip(lanes)
            .fold(0u64, |hash, (bits, lane)| {
                hash.wrapping_add(lane.rotate_left(*bits))
            });
        for lane in lanes {
            hash = (hash ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4);
        }
        hash
    } else {
        P5
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((input, more)) = rest.split_at_checked(8) {
        hash = (hash ^ round(0, word(input)))
            .rotate_left(27)
            .wrapping_mul(P1)
            .wrapping_add(P4);
        rest = more;
    }
    if let Some((input, more)) = rest.split_at_checked(4) {
        hash = (hash ^ word(input).wrapping_mul(P1))
            .rotate_left(23)
            .wrapping_mul(P2);
        hash = hash.wrapping_add(P3);
        rest = more;
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(P5))
            .rotate_left(11)
            .wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}

/// BMv2's `hash_ex`, which treats bytes as signed.
fn hash_ex(bytes: &[u8]) -> u32 {
    let mut hash = bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        let byte = i32::from(byte.cast_signed()).cast_unsigned();
        (hash ^ byte).wrapping_mul(0x0100_0193)
    });
    hash = hash.wrapping_add(hash << 13);
    hash ^= hash >> 7;
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 17;
    hash.wrapping_add(hash << 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: &[u8] = b"123456789";

    fn compute(algorithm: Algorithm, bytes: &[u8]) -> u64 {
        algorithm.compute(bytes, &mut Random::new(1))
    }

    #[test]
    fn crcs_give_the_catalogues_check_values() {
        assert_eq!(compute(Algorithm::Crc16, CHECK), 0xbb3d);
        assert_eq!(compute(Algorithm::Crc32, CHECK), 0xcbf4_3926);
        assert_eq!(compute(Algorithm::CrcCcitt, CHECK), 0x29b1);
        assert_eq!(compute(Algorithm::Crc8Custom, CHECK), 0xf4);
        // The input is one byte with only its lowest bit set. The expected CRC is the polynomial 0x1b shifted left
        // seven times, then reflected.
        assert_eq!(
            compute(Algorithm::Crc64Custom, &[1]),
            (0x1bu64 << 7).reverse_bits()
        );
    }

    #[test]
    fn xxh64_gives_the_known_values() {
        assert_eq!(xxh64(b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"abc"), 0x44bc_2cf5_ad77_0999);
    }

    #[test]
    fn the_internet_checksum_of_a_header_with_its_checksum_is_zero() {
        let mut header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        let sum = internet_checksum(&header);
        assert_eq!(sum, 0xb861);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(internet_checksum(&header), 0);
        assert_eq!(internet_checksum(&[0x12]), !0x1200);
    }

    #[test]
    fn short_words_are_padded_behind() {
        assert_eq!(
            compute(Algorithm::Xor16, &[0x12, 0x34, 0x56]),
            0x1234 ^ 0x5600
        );
        assert_eq!(compute(Algorithm::Identity, &[1, 2]), 0x0102);
    }

    #[test]
    fn hash_ex_takes_its_bytes_as_signed() {
        // The final mix. Below, 2_166_136_261 and 16_777_619 are FNV-1a's offset basis and prime.
        let mixed = |mut hash: u32| {
            hash = hash.wrapping_add(hash << 13);
            hash ^= hash >> 7;
            hash = hash.wrapping_add(hash << 3);
            hash ^= hash >> 17;
            hash.wrapping_add(hash << 5)
        };
        assert_eq!(hash_ex(b""), mixed(2_166_136_261));
        let high = (2_166_136_261u32 ^ 0xffff_ff80).wrapping_mul(16_777_619);
        assert_eq!(hash_ex(&[0x80]), mixed(high));
    }

    #[test]
    fn random_follows_from_the_seed_and_not_from_the_bytes() {
        let mut random = Random::new(7);
        let drawn: Vec<u64> = (0..3)
            .map(|_| Algorithm::Random.compute(CHECK, &mut random))
            .collect();
        let mut again = Random::new(7);
        assert_eq!(drawn[0], again.next());
        assert_ne!(drawn[0], drawn[1]);
    }
}
