//! Cyclic redundancy checks, and those whose parameters a control plane has chosen.

use crate::program::ir::{Calculation, CalculationId};

/// The parameters of a CRC in the Rocksoft model, without its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrcParameters {
    /// The polynomial without its highest term.
    pub polynomial: u64,
    /// What the remainder is at the beginning.
    pub initial: u64,
    /// What the result is combined with by exclusive or.
    pub xor_out: u64,
    /// Each byte goes in with its lowest bit first.
    pub reflect_in: bool,
    /// The remainder's bits are turned around at the end.
    pub reflect_out: bool,
}

/// A CRC of a width.
#[derive(Debug, Clone)]
pub(crate) struct Crc {
    pub(super) bits: u32,
    pub(super) parameters: CrcParameters,
}

impl Crc {
    pub(crate) fn compute(&self, bytes: &[u8]) -> u64 {
        let mask = if self.bits == 64 {
            u64::MAX
        } else {
            (1 << self.bits) - 1
        };
        let top = 1u64 << (self.bits - 1);
        let mut remainder = self.parameters.initial;
        for byte in bytes {
            let byte = if self.parameters.reflect_in {
                byte.reverse_bits()
            } else {
                *byte
            };
            remainder ^= u64::from(byte) << (self.bits - 8);
            for _ in 0..8 {
                let carry = remainder & top != 0;
                remainder = (remainder << 1) & mask;
                if carry {
                    remainder ^= self.parameters.polynomial;
                }
            }
        }
        if self.parameters.reflect_out {
            remainder = remainder.reverse_bits() >> (64 - self.bits);
        }
        (remainder ^ self.parameters.xor_out) & mask
    }
}

/// The CRCs that the control plane has changed, a calculation each.
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
            *chosen = Some(Crc { bits, parameters });
        }
    }
}
