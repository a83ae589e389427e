//! Cyclic redundancy checks, including those with parameters from the control plane.
//!
//! The division processes eight bytes at a time. The remainder is kept in 64 bits, whatever the CRC's width, so eight
//! bytes replace the whole remainder. For each position among the eight bytes there is a table; it holds, for each
//! value of the byte, what the byte contributes to the new remainder.

use crate::{
    CrcParameters,
    program::ir::{Calculation, CalculationId},
};

/// Table `n` has the contribution of a byte followed by `n` zero bytes.
type Tables = [[u64; 256]; 8];

/// A CRC with its tables.
#[derive(Debug, Clone)]
pub struct Crc {
    /// The width in bits, 8 to 64.
    pub bits: u32,
    /// The polynomial and the other parameters.
    pub parameters: CrcParameters,
    tables: Box<Tables>,
}

/// Advances the remainder by one zero byte; the remainder's highest term is the top bit of the word.
fn one_byte(mut remainder: u64, polynomial: u64) -> u64 {
    for _ in 0..8 {
        let carry = remainder >> 63 == 1;
        remainder <<= 1;
        if carry {
            remainder ^= polynomial;
        }
    }
    remainder
}

impl Crc {
    pub(crate) fn new(bits: u32, parameters: CrcParameters) -> Self {
        let polynomial = parameters.polynomial << (64 - bits);
        let mut tables = Box::new([[0; 256]; 8]);
        for byte in 0..=u8::MAX {
            // With `reflect_in`, tables are stored reflected, so that input bytes need no reversal.
            let mut remainder = if parameters.reflect_in {
                u64::from(byte.reverse_bits()) << 56
            } else {
                u64::from(byte) << 56
            };
            for table in tables.iter_mut() {
                remainder = one_byte(remainder, polynomial);
                table[usize::from(byte)] = if parameters.reflect_in {
                    remainder.reverse_bits()
                } else {
                    remainder
                };
            }
        }
        Self {
            bits,
            parameters,
            tables,
        }
    }

    /// Returns the remainder of one byte. The remainder's highest term is the lowest bit with `reflect_in`, otherwise
    /// bit `bits - 1`.
    pub fn remainder(&self, byte: u8) -> u64 {
        let remainder = self.tables[0][usize::from(byte)];
        if self.parameters.reflect_in {
            remainder
        } else {
            remainder >> (64 - self.bits)
        }
    }

    pub(crate) fn compute(&self, bytes: &[u8]) -> u64 {
        let parameters = &self.parameters;
        let initial = parameters.initial << (64 - self.bits);
        let mut remainder = if parameters.reflect_in {
            self.divide_reflected(initial.reverse_bits(), bytes)
        } else {
            self.divide(initial, bytes)
        };
        // Moves the CRC to the lowest bits of the word, with the bits in the order that `reflect_out` asks for.
        remainder = match (parameters.reflect_in, parameters.reflect_out) {
            (false, false) => remainder >> (64 - self.bits),
            (false, true) => remainder.reverse_bits(),
            (true, true) => remainder,
            (true, false) => remainder.reverse_bits() >> (64 - self.bits),
        };
        let mask = u64::MAX >> (64 - self.bits);
        (remainder ^ parameters.xor_out) & mask
    }

    /// Divides, and returns the remainder. The remainder's highest term is in the word's highest bit.
    fn divide(&self, mut remainder: u64, bytes: &[u8]) -> u64 {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            let all = (remainder ^ u64::from_be_bytes(*chunk)).to_be_bytes();
            remainder = self.look_up(all);
        }
        for byte in rest {
            let [first, ..] = remainder.to_be_bytes();
            let table = &self.tables[0];
            remainder = remainder << 8 ^ table[usize::from(first ^ byte)];
        }
        remainder
    }

    /// Divides, and returns the remainder. The remainder's highest term is in the word's lowest bit.
    fn divide_reflected(&self, mut remainder: u64, bytes: &[u8]) -> u64 {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            let all = (remainder ^ u64::from_le_bytes(*chunk)).to_le_bytes();
            remainder = self.look_up(all);
        }
        for byte in rest {
            let [first, ..] = remainder.to_le_bytes();
            let table = &self.tables[0];
            remainder = remainder >> 8 ^ table[usize::from(first ^ byte)];
        }
        remainder
    }

    /// Returns what eight bytes contribute to the remainder. The first byte uses the last table, because seven bytes
    /// follow it.
    fn look_up(&self, bytes: [u8; 8]) -> u64 {
        let tables = self.tables.iter().rev();
        let parts = tables
            .zip(bytes)
            .map(|(table, byte)| table[usize::from(byte)]);
        parts.fold(0, |all, part| all ^ part)
    }
}

/// For each calculation of the program, the CRC with the parameters that the control plane has set, if any.
#[derive(Debug)]
pub(crate) struct CustomCrcs {
    chosen: Vec<Option<Crc>>,
}

impl CustomCrcs {
    pub(crate) fn new(calculations: &[Calculation]) -> Self {
        Self {
            chosen: vec![None; calculations.len()],
        }
    }

    pub(crate) fn get(&self, id: CalculationId) -> Option<&Crc> {
        self.chosen.get(id.index())?.as_ref()
    }

    pub(crate) fn set(&mut self, id: CalculationId, bits: u32, parameters: CrcParameters) {
        if let Some(chosen) = self.chosen.get_mut(id.index()) {
            *chosen = Some(Crc::new(bits, parameters));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::externs::random::Random;

    /// Computes a CRC by division bit by bit.
    fn slowly(bits: u32, parameters: &CrcParameters, bytes: &[u8]) -> u64 {
        let mask = u64::MAX >> (64 - bits);
        let mut remainder = parameters.initial & mask;
        for byte in bytes {
            let byte = if parameters.reflect_in {
                byte.reverse_bits()
            } else {
                *byte
            };
            remainder ^= u64::from(byte) << (bits - 8);
            for _ in 0..8 {
                let carry = remainder >> (bits - 1) & 1 == 1;
                remainder = remainder << 1 & mask;
                if carry {
                    remainder ^= parameters.polynomial & mask;
                }
            }
        }
        if parameters.reflect_out {
            remainder = remainder.reverse_bits() >> (64 - bits);
        }
        (remainder ^ parameters.xor_out) & mask
    }

    #[test]
    fn any_parameters_give_what_dividing_bit_by_bit_does() {
        let mut random = Random::new(64);
        for round in 0_u32..400 {
            let bits = [8, 16, 32, 64][round as usize % 4];
            let parameters = CrcParameters {
                polynomial: random.next(),
                initial: random.next(),
                xor_out: random.next(),
                reflect_in: random.next() & 1 == 1,
                reflect_out: random.next() & 1 == 1,
            };
            let crc = Crc::new(bits, parameters);
            for len in [
                0,
                1,
                7,
                8,
                9,
                16,
                31,
                usize::from(random.next().to_le_bytes()[0]),
            ] {
                let bytes: Vec<u8> = (0..len).map(|_| random.next().to_le_bytes()[0]).collect();
                let wanted = slowly(bits, &parameters, &bytes);
                assert_eq!(crc.compute(&bytes), wanted, "{bits}: {parameters:x?}");
            }
        }
    }

    #[test]
    fn the_catalogue_s_check_values_of_crcs_of_every_kind() {
        // Check values from the "Catalogue of parametrised CRC algorithms": CRC-64/XZ, CRC-64/ECMA-182, CRC-32/BZIP2,
        // CRC-16/XMODEM, CRC-8/MAXIM-DOW.
        let all = u64::MAX;
        for (bits, polynomial, initial, is_reflected, xor_out, check) in [
            (
                64,
                0x42f0_e1eb_a9ea_3693,
                all,
                true,
                all,
                0x995d_c9bb_df19_39fa,
            ),
            (
                64,
                0x42f0_e1eb_a9ea_3693,
                0,
                false,
                0,
                0x6c40_df5f_0b49_7347,
            ),
            (
                32,
                0x04c1_1db7,
                0xffff_ffff,
                false,
                0xffff_ffff,
                0xfc89_1918,
            ),
            (16, 0x1021, 0, false, 0, 0x31c3),
            (8, 0x31, 0, true, 0, 0xa1),
        ] {
            let parameters = CrcParameters {
                polynomial,
                initial,
                xor_out,
                reflect_in: is_reflected,
                reflect_out: is_reflected,
            };
            let found = Crc::new(bits, parameters).compute(b"123456789");
            assert_eq!(found, check, "{bits} bits, {polynomial:#x}");
        }
    }
}
