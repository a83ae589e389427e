//! Converts a key field of a test to the table's match kind.

use dataplane::{KeyField, MatchField, MatchKind};

use crate::command::Match;

fn ones(width_bits: u32) -> Vec<u8> {
    let mut bytes = vec![0xff; width_bits.div_ceil(8) as usize];
    if let (Some(first), rest @ 1..) = (bytes.first_mut(), width_bits % 8) {
        *first = (1 << rest) - 1;
    }
    bytes
}

/// Converts a key field. As in p4c's driver, a missing field matches everything, except that a missing exact field
/// counts as zero.
pub(crate) fn match_field(field: &KeyField, given: Option<&Match>) -> Result<MatchField, String> {
    let width_bits = field.width_bits;
    let any = Match::Mask(vec![0], vec![0]);
    let zero = Match::Value(vec![0]);
    let given = given.unwrap_or(match field.kind {
        MatchKind::Exact => &zero,
        _ => &any,
    });
    let wrong = || {
        format!(
            "key field \"{}\" is {}, found {given}",
            field.name,
            accepted(field.kind)
        )
    };
    let is_any = |mask: &[u8]| mask.iter().all(|byte| *byte == 0);
    Ok(match (field.kind, given.clone()) {
        (MatchKind::Exact, Match::Value(value)) => MatchField::Exact(value),
        (MatchKind::Lpm, Match::Value(value)) => MatchField::Lpm {
            value,
            prefix_len: width_bits,
        },
        (MatchKind::Lpm, Match::Prefix(value, prefix_len)) => MatchField::Lpm { value, prefix_len },
        (MatchKind::Lpm, Match::Mask(value, mask)) => MatchField::Lpm {
            value,
            prefix_len: prefix_len(&mask, width_bits).ok_or_else(wrong)?,
        },
        (MatchKind::Ternary, Match::Value(value)) => MatchField::Ternary {
            value,
            mask: ones(width_bits),
        },
        (MatchKind::Ternary, Match::Prefix(value, prefix_len)) => {
            let mask = prefix_mask(prefix_len, width_bits).ok_or_else(wrong)?;
            MatchField::Ternary { value, mask }
        }
        (MatchKind::Ternary, Match::Mask(value, mask)) => MatchField::Ternary { value, mask },
        (MatchKind::Range, Match::Range(low, high)) => MatchField::Range { low, high },
        (MatchKind::Range, Match::Value(value)) => MatchField::Range {
            low: value.clone(),
            high: value,
        },
        (MatchKind::Range, Match::Mask(_, mask)) if is_any(&mask) => field.every_value(),
        (MatchKind::Optional, Match::Value(value)) => MatchField::Optional(Some(value)),
        (MatchKind::Optional, Match::Mask(_, mask)) if is_any(&mask) => MatchField::Optional(None),
        _ => return Err(wrong()),
    })
}

/// Name of a match kind and the syntax of its values.
fn accepted(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "exact: expected VALUE",
        MatchKind::Lpm => "lpm: expected VALUE/BITS or a mask of leading bits",
        MatchKind::Ternary => "ternary: expected VALUE, VALUE/BITS or VALUE&&&MASK",
        MatchKind::Range => "range: expected VALUE or LOW..HIGH",
        MatchKind::Optional => "optional: expected VALUE, or the field left out",
    }
}

/// The least significant `width_bits` bits of a number, the most significant first.
fn bits(number: &[u8], width_bits: u32) -> Vec<bool> {
    let bit = |at: u32| {
        let byte = number.len().checked_sub(1 + at as usize / 8);
        byte.is_some_and(|byte| number[byte] >> (at % 8) & 1 == 1)
    };
    (0..width_bits).rev().map(bit).collect()
}

/// Number of leading ones in a mask; `None` if other bits are set too.
fn prefix_len(mask: &[u8], width_bits: u32) -> Option<u32> {
    let bits = bits(mask, width_bits);
    let n_ones = bits.iter().take_while(|bit| **bit).count();
    let is_prefix = bits[n_ones..].iter().all(|bit| !bit);
    is_prefix.then(|| u32::try_from(n_ones).ok()).flatten()
}

/// A mask of `prefix_len` leading ones; `None` if the field is narrower.
fn prefix_mask(prefix_len: u32, width_bits: u32) -> Option<Vec<u8>> {
    let rest = width_bits.checked_sub(prefix_len)?;
    let mut mask = ones(width_bits);
    for at in 0..rest as usize {
        let byte = mask.len() - 1 - at / 8;
        mask[byte] &= !(1 << (at % 8));
    }
    Some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_prefixes_are_two_words_for_one_thing() {
        assert_eq!(prefix_len(&[0xff, 0xf0], 16), Some(12));
        assert_eq!(prefix_len(&[0xf0], 16), None);
        assert_eq!(prefix_len(&[0], 16), Some(0));
        assert_eq!(prefix_mask(12, 16), Some(vec![0xff, 0xf0]));
        assert_eq!(prefix_mask(3, 9), Some(vec![1, 0xc0]));
        assert_eq!(prefix_mask(10, 9), None);
    }
}
