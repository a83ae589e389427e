//! Matches of key fields.

use p4runtime_proto::p4::v1::FieldMatch;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};

use crate::bytestring::{and, canonical, ones};

/// A match of a key field. All values are canonical byte strings. An entry omits a field that matches everything.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Match {
    /// The only value that matches.
    Exact(Vec<u8>),
    /// The value and the length of its prefix.
    Lpm(Vec<u8>, i32),
    /// The value and its mask.
    Ternary(Vec<u8>, Vec<u8>),
    /// The lowest value and the highest.
    Range(Vec<u8>, Vec<u8>),
    /// The only value that matches.
    Optional(Vec<u8>),
}

impl Match {
    /// Makes a match of the first `len` bits of a field of `bits` bits; `None` if every value matches.
    pub fn lpm(value: &[u8], len: u32, bits: u32) -> Option<Match> {
        (len > 0).then(|| Match::Lpm(and(value, &ones(len, bits)), len.cast_signed()))
    }

    /// Makes a match of a value under a mask; `None` if every value matches.
    pub fn ternary(value: &[u8], mask: &[u8]) -> Option<Match> {
        (mask != [0]).then(|| Match::Ternary(and(value, mask), mask.to_vec()))
    }

    /// Makes a match of a range of values of a field of `bits` bits; `None` if every value matches.
    pub fn range(low: Vec<u8>, high: Vec<u8>, bits: u32) -> Option<Match> {
        let is_any = low == [0] && high == ones(bits, bits);
        (!is_any).then_some(Match::Range(low, high))
    }

    /// Returns the match that a message holds; `None` if it holds none, or a match kind that is specific to a target.
    pub fn of(field: &FieldMatch) -> Option<Match> {
        use FieldMatchType as T;
        Some(match field.field_match_type.as_ref()? {
            T::Exact(it) => Match::Exact(canonical(&it.value)),
            T::Lpm(it) => Match::Lpm(canonical(&it.value), it.prefix_len),
            T::Ternary(it) => Match::Ternary(canonical(&it.value), canonical(&it.mask)),
            T::Range(it) => Match::Range(canonical(&it.low), canonical(&it.high)),
            T::Optional(it) => Match::Optional(canonical(&it.value)),
            T::Other(_) => return None,
        })
    }

    /// Makes the message that holds this match for the field with this id.
    pub fn field(self, field_id: u32) -> FieldMatch {
        use FieldMatchType as T;
        let field = match self {
            Match::Exact(value) => T::Exact(Exact { value }),
            Match::Lpm(value, prefix_len) => T::Lpm(Lpm { value, prefix_len }),
            Match::Ternary(value, mask) => T::Ternary(Ternary { value, mask }),
            Match::Range(low, high) => T::Range(Range { low, high }),
            Match::Optional(value) => T::Optional(Optional { value }),
        };
        FieldMatch {
            field_id,
            field_match_type: Some(field),
        }
    }
}

/// Whether a range can be valid. P4Info does not mark signed fields. In a signed field, numbers with the highest bit
/// set are negative and lower than all others. So a range from such a number to a number without this bit may be valid,
/// and the switch must check it.
pub fn may_be_range(low: &[u8], high: &[u8], bits: u32) -> bool {
    let is_negative = |end: &[u8]| bits > 0 && and(end, &ones(1, bits)) != [0];
    (low.len(), low) <= (high.len(), high) || is_negative(low) && !is_negative(high)
}

#[cfg(test)]
mod tests {
    use super::may_be_range;

    #[test]
    fn a_range_begins_at_its_lowest_value_which_may_be_negative() {
        assert!(may_be_range(&[255], &[1, 0], 16) && may_be_range(&[7], &[7], 16));
        assert!(!may_be_range(&[1, 0], &[255], 16));
        // The first range goes from -3 to 3 if the field is signed. The second range goes from 3 to 253 if the field is
        // unsigned.
        assert!(may_be_range(&[0xfd], &[3], 8) && may_be_range(&[3], &[0xfd], 8));
        assert!(!may_be_range(&[0xfe], &[0xfd], 8));
    }
}
