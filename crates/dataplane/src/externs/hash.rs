//! Hash and checksum algorithms of v1model's `HashAlgorithm`, and their input.
//!
//! Parameters of the CRCs: crc16 is CRC-16/ARC, crc32 is CRC-32/ISO-HDLC; the `_custom` ones have
//! the same parameters until a control plane can change them.

use crate::{
    bits::BitWriter,
    packet::Payload,
    phv::Phv,
    program::ir::{Calculation, CalculationInput, HeaderId, Ir},
};

/// An algorithm over bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Csum16,
    Xor16,
    Xor32,
    Crc8Custom,
    Crc16,
    Crc16Custom,
    CrcCcitt,
    Crc32,
    Crc32Custom,
    Crc64Custom,
    Identity,
    Xxh64,
}

/// The parameters of a CRC in the Rocksoft model.
struct Crc {
    bits: u32,
    polynomial: u64,
    initial: u64,
    reflected: bool,
    xor_out: u64,
}

impl Algorithm {
    /// The algorithm of a name as BMv2 JSON writes it.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "csum16" | "cksum16" => Self::Csum16,
            "xor16" => Self::Xor16,
            "xor32" => Self::Xor32,
            "crc8_custom" => Self::Crc8Custom,
            "crc16" => Self::Crc16,
            "crc16_custom" => Self::Crc16Custom,
            "crcCCITT" => Self::CrcCcitt,
            "crc32" => Self::Crc32,
            "crc32_custom" => Self::Crc32Custom,
            "crc64_custom" => Self::Crc64Custom,
            "identity" => Self::Identity,
            "xxh64" | "bmv2_hash" => Self::Xxh64,
            _ => return None,
        })
    }

    pub(crate) fn compute(self, bytes: &[u8]) -> u64 {
        let crc = |bits, polynomial, initial, reflected, xor_out| {
            Crc { bits, polynomial, initial, reflected, xor_out }.compute(bytes)
        };
        match self {
            Self::Csum16 => u64::from(internet_checksum(bytes)),
            Self::Xor16 => xor_words(bytes, 2),
            Self::Xor32 => xor_words(bytes, 4),
            Self::Crc8Custom => crc(8, 0x07, 0, false, 0),
            Self::Crc16 | Self::Crc16Custom => crc(16, 0x8005, 0, true, 0),
            Self::CrcCcitt => crc(16, 0x1021, 0xffff, false, 0),
            Self::Crc32 | Self::Crc32Custom => {
                crc(32, 0x04c1_1db7, 0xffff_ffff, true, 0xffff_ffff)
            }
            Self::Crc64Custom => crc(64, 0x1b, 0, true, 0),
            Self::Identity => {
                bytes.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
            }
            Self::Xxh64 => xxh64(bytes),
        }
    }
}

/// RFC 1071: the one's complement of the one's complement sum.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        let high = u64::from(pair[0]) << 8;
        sum += high | pair.get(1).map_or(0, |low| u64::from(*low));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

/// The words of so many bytes, the last padded with zeros behind, under exclusive or.
fn xor_words(bytes: &[u8], word_bytes: usize) -> u64 {
    bytes.chunks(word_bytes).fold(0, |result, word| {
        let number = word.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte));
        result ^ (number << (8 * (word_bytes - word.len())))
    })
}

impl Crc {
    fn compute(&self, bytes: &[u8]) -> u64 {
        let mask = if self.bits == 64 { u64::MAX } else { (1 << self.bits) - 1 };
        let top = 1u64 << (self.bits - 1);
        let mut remainder = self.initial;
        for byte in bytes {
            let byte = if self.reflected { byte.reverse_bits() } else { *byte };
            remainder ^= u64::from(byte) << (self.bits - 8);
            for _ in 0..8 {
                let carry = remainder & top != 0;
                remainder = (remainder << 1) & mask;
                if carry {
                    remainder ^= self.polynomial;
                }
            }
        }
        if self.reflected {
            remainder = remainder.reverse_bits() >> (64 - self.bits);
        }
        (remainder ^ self.xor_out) & mask
    }
}

/// XXH64 with seed 0, as its specification (xxHash, doc/xxhash_spec.md) describes it.
fn xxh64(bytes: &[u8]) -> u64 {
    const P1: u64 = 0x9e37_79b1_85eb_ca87;
    const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
    const P3: u64 = 0x1656_67b1_9e37_79f9;
    const P4: u64 = 0x85eb_ca77_c2b2_ae63;
    const P5: u64 = 0x27d4_eb2f_1656_67c5;
    let word = |bytes: &[u8]| {
        bytes.iter().rev().fold(0u64, |number, byte| (number << 8) | u64::from(*byte))
    };
    let round = |lane: u64, input: u64| {
        lane.wrapping_add(input.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
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
            .fold(0u64, |hash, (turn, lane)| hash.wrapping_add(lane.rotate_left(*turn)));
        for lane in lanes {
            hash = (hash ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4);
        }
        hash
    } else {
        P5
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((input, more)) = rest.split_at_checked(8) {
        hash = (hash ^ round(0, word(input))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        rest = more;
    }
    if let Some((input, more)) = rest.split_at_checked(4) {
        hash = (hash ^ word(input).wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2);
        hash = hash.wrapping_add(P3);
        rest = more;
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}

/// Computes a calculation over a packet. What belongs to an invalid header is left out.
pub(crate) fn calculate(ir: &Ir, phv: &Phv, payload: &Payload, calculation: &Calculation) -> u64 {
    let mut writer = BitWriter::with_capacity(64);
    for input in &calculation.input {
        match input {
            CalculationInput::Field(field) => {
                if phv.is_valid(ir.fields[field.index()].header) {
                    writer.push(phv.get(*field), phv.bits(ir, *field));
                }
            }
            CalculationInput::Header(header) => {
                if phv.is_valid(*header) {
                    push_header(&mut writer, ir, phv, *header);
                }
            }
            CalculationInput::Constant { value, bits } => writer.push(value, *bits),
            CalculationInput::Payload => writer.push_bytes(payload.as_slice()),
        }
    }
    calculation.algorithm.compute(&writer.finish())
}

/// Appends the fields of a header.
pub(crate) fn push_header(writer: &mut BitWriter, ir: &Ir, phv: &Phv, header: HeaderId) {
    for field in ir.headers[header.index()].field_ids() {
        let bits = phv.bits(ir, field);
        if bits > 0 {
            writer.push(phv.get(field), bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: &[u8] = b"123456789";

    #[test]
    fn crcs_give_the_catalogues_check_values() {
        assert_eq!(Algorithm::Crc16.compute(CHECK), 0xbb3d);
        assert_eq!(Algorithm::Crc32.compute(CHECK), 0xcbf4_3926);
        assert_eq!(Algorithm::CrcCcitt.compute(CHECK), 0x29b1);
        assert_eq!(Algorithm::Crc8Custom.compute(CHECK), 0xf4);
        // One byte with its first bit set: the polynomial 0x1b shifted seven times, reflected.
        assert_eq!(Algorithm::Crc64Custom.compute(&[1]), (0x1bu64 << 7).reverse_bits());
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
        assert_eq!(Algorithm::Xor16.compute(&[0x12, 0x34, 0x56]), 0x1234 ^ 0x5600);
        assert_eq!(Algorithm::Identity.compute(&[1, 2]), 0x0102);
    }
}
