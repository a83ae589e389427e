//! CRCs with fixed parameters, and their tables of 256 words of 4 bytes.

use dataplane::engine::ir::Algorithm;

/// A CRC. Input and output have the same bit order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crc {
    pub bits: u32,
    polynomial: u32,
    pub initial: u64,
    pub xor_out: u64,
    /// Whether the lowest bit goes in first.
    pub is_reflected: bool,
}

/// CRC-16/ARC.
const CRC_16: Crc = Crc {
    bits: 16,
    polynomial: 0x8005,
    initial: 0,
    xor_out: 0,
    is_reflected: true,
};

/// CRC-16/IBM-3740, also called CCITT-FALSE.
const CCITT: Crc = Crc {
    bits: 16,
    polynomial: 0x1021,
    initial: 0xffff,
    xor_out: 0,
    is_reflected: false,
};

/// CRC-32/ISO-HDLC.
const CRC_32: Crc = Crc {
    bits: 32,
    polynomial: 0x04c1_1db7,
    initial: 0xffff_ffff,
    xor_out: 0xffff_ffff,
    is_reflected: true,
};

impl Crc {
    pub(super) const ALL: [Self; 3] = [CRC_16, CCITT, CRC_32];
    pub(super) const TABLE_BYTES: u32 = 4 * 256;

    pub(super) fn of(algorithm: Algorithm) -> Option<Self> {
        match algorithm {
            Algorithm::Crc16 => Some(CRC_16),
            Algorithm::CrcCcitt => Some(CCITT),
            Algorithm::Crc32 => Some(CRC_32),
            _ => None,
        }
    }

    /// Returns the remainder of each byte, in host order.
    pub(super) fn table(&self) -> Vec<u8> {
        let entries = (0..=u8::MAX).map(|byte| self.entry(byte));
        entries.flat_map(u32::to_ne_bytes).collect()
    }

    fn entry(&self, byte: u8) -> u32 {
        let first = match self.is_reflected {
            true => byte.reverse_bits(),
            false => byte,
        };
        // Left-aligns the polynomial in the word.
        let (polynomial, mut remainder) =
            (self.polynomial << (32 - self.bits), u32::from(first) << 24);
        for _ in 0..8 {
            let carry = remainder >> 31 == 1;
            remainder <<= 1;
            if carry {
                remainder ^= polynomial;
            }
        }
        match self.is_reflected {
            true => remainder.reverse_bits(),
            false => remainder >> (32 - self.bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes a CRC as the generated code does.
    fn compute(crc: &Crc, bytes: &[u8]) -> u64 {
        let table = crc.table();
        let entry = |at: u64| {
            let word = &table.as_chunks::<4>().0[(at & 0xff) as usize];
            u64::from(u32::from_ne_bytes(*word))
        };
        let remainder = bytes.iter().fold(crc.initial, |remainder, byte| {
            let byte = u64::from(*byte);
            match crc.is_reflected {
                true => remainder >> 8 ^ entry(remainder ^ byte),
                false => {
                    let next = remainder << 8 ^ entry(remainder >> (crc.bits - 8) ^ byte);
                    next & (u64::MAX >> (64 - crc.bits))
                }
            }
        });
        remainder ^ crc.xor_out
    }

    #[test]
    fn the_catalogue_s_check_values() {
        let checks = Crc::ALL.map(|crc| compute(&crc, b"123456789"));
        assert_eq!(checks, [0xbb3d, 0x29b1, 0xcbf4_3926]);
    }
}
