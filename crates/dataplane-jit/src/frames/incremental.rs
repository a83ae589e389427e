//! Which checksums are updated from the changed fields alone.
//!
//! RFC 1624 subtracts a changed field's old value from the checksum and adds the new one, and is then
//! at a loss which of the two zeros of one's complement the result is. Here the sum is kept, not the
//! checksum: verification splits it into what the program may change before the update (headers'
//! fields that are written, or whose header is written as a whole; every field of metadata) and
//! what it cannot (the others, the payload), and puts the latter down with the packet. The
//! update adds up the former as they are then. Both parts together are the full sum, and the folded
//! sum is 0 only if all summands are 0. So the result is that of the full computation, whether the
//! checksum was right or not. Where verification did not compute the sum (its condition did not
//! hold, some header was not there), or the payload was cut, the update computes all of it.

use dataplane::engine::ir::{Algorithm, CalculationInput, Checksum, FieldId, Ir};

use super::calculation::{Element, elements};
use crate::{options::NativeOptions, usage::Usage};

/// Fields from which on putting a sum down and finding it again beats adding them up once more; a
/// payload always does.
const FIELDS_MIN: usize = 4;

/// The sums that are kept.
pub(crate) struct Sums {
    changing: Vec<bool>,
    /// By checksum: the number of the sum, where it is verified or updated.
    put: Vec<Option<usize>>,
    used: Vec<Option<usize>>,
    len: usize,
}

impl Sums {
    /// Finds them; each verified checksum has one sum at most.
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

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The sum that the verification of a checksum puts down.
    pub(crate) fn kept_by(&self, checksum: usize) -> Option<usize> {
        self.put[checksum]
    }

    /// The sum that the update of a checksum finds.
    pub(crate) fn used_by(&self, checksum: usize) -> Option<usize> {
        self.used[checksum]
    }

    /// Whether a field may become another between verification and update.
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
