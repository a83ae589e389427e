//! Decides which checksums are updated from the changed fields alone.
//!
//! RFC 1624 subtracts a changed field's old value from the checksum and adds the new one, and then cannot tell which of
//! the two zeros of one's complement the result is. This module keeps a sum instead of the checksum. Some fields may
//! change between verification and update: fields that the program writes, alone or with their header, and all
//! metadata. Verification sums everything else (the other fields and the payload), and stores this sum with the packet.
//! The update adds the values that the changing fields then have. Both parts together are the full sum, and the folded
//! sum is 0 only if all summands are 0. So the result is that of the full computation, whether the checksum was right
//! or not. If verification did not compute the sum (its condition did not hold, a header was invalid), or if the
//! payload was cut, the update computes the full sum.

use dataplane::engine::ir::{Algorithm, CalculationInput, Checksum, FieldId, Ir};

use super::calculation::{Element, elements};
use crate::{options::NativeOptions, usage::Usage};

/// The least number of unchanging fields for which storing and loading their sum is faster than adding them again. With
/// a payload, storing the sum is always faster.
const FIELDS_MIN: usize = 4;

/// The sums that are kept from verification to update.
pub(crate) struct Sums {
    changing: Vec<bool>,
    /// For each checksum, the number of the sum that its verification stores (`put`) or its update loads (`used`).
    put: Vec<Option<usize>>,
    used: Vec<Option<usize>>,
    len: usize,
}

impl Sums {
    /// Decides which sums are kept: at most one for each verified checksum.
    pub(crate) fn of(ir: &Ir, options: NativeOptions) -> Self {
        let mut sums = Self {
            changing: Vec::new(),
            put: vec![None; ir.checksums.len()],
            used: vec![None; ir.checksums.len()],
            len: 0,
        };
        if !options.incremental_checksum {
            return sums;
        }
        sums.changing = changing(ir);
        for (position, update) in ir.checksums.iter().enumerate() {
            let inputs = |of: &Checksum| ir.calculations.get(of.calculation.index());
            let Some(input) = inputs(update).filter(|it| it.algorithm == Algorithm::Csum16) else {
                continue;
            };
            if !update.update || !sums.is_worth(ir, &input.input) {
                continue;
            }
            let is_same = |verified: &Checksum| {
                verified.verify
                    && inputs(verified).is_some_and(|of| {
                        of.algorithm == Algorithm::Csum16 && is_same(&of.input, &input.input)
                    })
            };
            let Some(verified) = ir.checksums.iter().position(is_same) else {
                continue;
            };
            let number = *sums.put[verified].get_or_insert(sums.len);
            sums.len = sums.len.max(number + 1);
            sums.used[position] = Some(number);
        }
        sums
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number of the sum that the verification of a checksum stores, if it stores a sum.
    pub(crate) fn kept_by(&self, checksum: usize) -> Option<usize> {
        self.put[checksum]
    }

    /// The number of the sum that the update of a checksum loads, if it loads a sum.
    pub(crate) fn used_by(&self, checksum: usize) -> Option<usize> {
        self.used[checksum]
    }

    /// Whether a field may change between verification and update.
    pub(crate) fn is_changing(&self, field: FieldId) -> bool {
        self.changing[field.index()]
    }

    fn is_worth(&self, ir: &Ir, input: &[CalculationInput]) -> bool {
        let (elements, with_payload) = elements(ir, input);
        let is_lasting = |element: &&Element<'_>| match element {
            Element::Field(field) => !self.is_changing(*field),
            Element::Constant(..) => false,
        };
        with_payload || elements.iter().filter(is_lasting).count() >= FIELDS_MIN
    }
}

/// Whether two inputs are made of the same parts.
fn is_same(one: &[CalculationInput], other: &[CalculationInput]) -> bool {
    let is_same = |(one, other): (&CalculationInput, &CalculationInput)| match (one, other) {
        (CalculationInput::Field(one), CalculationInput::Field(other)) => one == other,
        (CalculationInput::Header(one), CalculationInput::Header(other)) => one == other,
        (
            CalculationInput::Constant { value, bits },
            CalculationInput::Constant {
                value: other,
                bits: width,
            },
        ) => value == other && bits == width,
        (CalculationInput::Payload, CalculationInput::Payload) => true,
        _ => false,
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

fn changing(ir: &Ir) -> Vec<bool> {
    let usage = Usage::of_controls(ir);
    let ids = (0..).take(ir.fields.len()).map(FieldId);
    let is_written = ids.map(|field| {
        let accesses = usage.field(field);
        let header = &ir.headers[ir.fields[field.index()].header.index()];
        header.metadata || accesses.writes + accesses.moves > 0
    });
    let mut changing: Vec<bool> = is_written.collect();
    for updated in ir.checksums.iter().filter(|checksum| checksum.update) {
        changing[updated.target.index()] = true;
    }
    changing
}
