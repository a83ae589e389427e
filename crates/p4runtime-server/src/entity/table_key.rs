//! Keys of table entries: `FieldMatch` messages, with don't-care fields left out.
//!
//! Source: P4Runtime 1.5.0, "Match Format".

use std::cmp::Ordering;

use dataplane::{MatchField, MatchKind};
use p4runtime_proto::p4::v1::FieldMatch;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};

use crate::bytestring::{all_ones, compare, is_within, is_zero, low_bits_are_zero, parse};
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{Field, Table};

/// The data plane's key, canonical, one match a field.
pub(super) fn key(table: &Table, matches: &[FieldMatch]) -> EntityResult<Vec<MatchField>> {
    let mut key: Vec<Option<MatchField>> = vec![None; table.fields.len()];
    for given in matches {
        let (position, field) = table.field(given.field_id).ok_or_else(|| {
            EntityError::invalid(format!(
                "table \"{}\" has no match field with id {}",
                table.name, given.field_id
            ))
        })?;
        let what = format!("table \"{}\": match field \"{}\"", table.name, field.name);
        if key[position].is_some() {
            return Err(EntityError::invalid(format!("{what} is given twice")));
        }
        key[position] = Some(match_field(field, given.field_match_type.as_ref(), &what)?);
    }
    let fields = key.into_iter().zip(&table.fields);
    fields
        .map(|(given, field)| match given.or_else(|| dont_care(field)) {
            Some(given) => Ok(given),
            None => Err(EntityError::invalid(format!(
                "table \"{}\": expected a match for the exact field \"{}\", found none",
                table.name, field.name
            ))),
        })
        .collect()
}

/// What an omitted field matches; an exact one cannot be omitted.
fn dont_care(field: &Field) -> Option<MatchField> {
    let zero = || vec![0];
    match field.kind {
        MatchKind::Exact => None,
        MatchKind::Lpm => Some(MatchField::Lpm {
            value: zero(),
            prefix_len: 0,
        }),
        MatchKind::Ternary => Some(MatchField::Ternary {
            value: zero(),
            mask: zero(),
        }),
        MatchKind::Range => Some(MatchField::Range {
            low: zero(),
            high: all_ones(field.width_bits),
        }),
        MatchKind::Optional => Some(MatchField::Optional(None)),
    }
}

fn match_field(
    field: &Field,
    given: Option<&FieldMatchType>,
    what: &str,
) -> EntityResult<MatchField> {
    let value = |bytes: &[u8]| parse(bytes, field.width_bits, what);
    match (field.kind, given) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => {
            Ok(MatchField::Exact(value(&exact.value)?))
        }
        (MatchKind::Optional, Some(FieldMatchType::Optional(optional))) => {
            Ok(MatchField::Optional(Some(value(&optional.value)?)))
        }
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            prefix(field, value(&lpm.value)?, lpm.prefix_len, what)
        }
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            masked(value(&ternary.value)?, value(&ternary.mask)?, what)
        }
        (MatchKind::Range, Some(FieldMatchType::Range(range))) => {
            interval(field, value(&range.low)?, value(&range.high)?, what)
        }
        (kind, given) => Err(EntityError::invalid(format!(
            "{what}: expected a match of kind {kind:?}, found {}",
            kind_name(given)
        ))),
    }
}

fn prefix(field: &Field, value: Vec<u8>, prefix_len: i32, what: &str) -> EntityResult<MatchField> {
    let prefix_len = u32::try_from(prefix_len)
        .ok()
        .filter(|len| (1..=field.width_bits).contains(len))
        .ok_or_else(|| {
            EntityError::invalid(format!(
                "{what}: expected a prefix of 1 to {} bits (a field that matches everything is left out), found {prefix_len}",
                field.width_bits
            ))
        })?;
    if !low_bits_are_zero(&value, field.width_bits - prefix_len) {
        return Err(EntityError::invalid(format!(
            "{what}: expected zero bits after the prefix of {prefix_len} bits, found others"
        )));
    }
    Ok(MatchField::Lpm { value, prefix_len })
}

fn masked(value: Vec<u8>, mask: Vec<u8>, what: &str) -> EntityResult<MatchField> {
    if is_zero(&mask) {
        return Err(EntityError::invalid(format!(
            "{what}: expected a mask that is not zero (a field that matches everything is left out)"
        )));
    }
    if !is_within(&value, &mask) {
        return Err(EntityError::invalid(format!(
            "{what}: expected zero bits where the mask is zero, found others"
        )));
    }
    Ok(MatchField::Ternary { value, mask })
}

fn interval(field: &Field, low: Vec<u8>, high: Vec<u8>, what: &str) -> EntityResult<MatchField> {
    if compare(&low, &high) == Ordering::Greater {
        return Err(EntityError::invalid(format!(
            "{what}: expected a range, found its low bound above its high bound"
        )));
    }
    if is_zero(&low) && high == all_ones(field.width_bits) {
        return Err(EntityError::invalid(format!(
            "{what}: expected a part of all values (a field that matches everything is left out)"
        )));
    }
    Ok(MatchField::Range { low, high })
}

fn kind_name(given: Option<&FieldMatchType>) -> &'static str {
    match given {
        None => "none",
        Some(FieldMatchType::Exact(_)) => "Exact",
        Some(FieldMatchType::Ternary(_)) => "Ternary",
        Some(FieldMatchType::Lpm(_)) => "Lpm",
        Some(FieldMatchType::Range(_)) => "Range",
        Some(FieldMatchType::Optional(_)) => "Optional",
        Some(FieldMatchType::Other(_)) => "other",
    }
}

/// The way back: don't-care fields are left out.
pub(super) fn matches(table: &Table, key: &[MatchField]) -> Vec<FieldMatch> {
    let fields = table.fields.iter().zip(key);
    fields
        .filter_map(|(field, given)| {
            let given = match given.clone() {
                MatchField::Exact(value) => FieldMatchType::Exact(Exact { value }),
                MatchField::Lpm { prefix_len: 0, .. } | MatchField::Optional(None) => return None,
                MatchField::Lpm { value, prefix_len } => FieldMatchType::Lpm(Lpm {
                    value,
                    prefix_len: i32::try_from(prefix_len).unwrap_or(i32::MAX),
                }),
                MatchField::Ternary { mask, .. } if is_zero(&mask) => return None,
                MatchField::Ternary { value, mask } => {
                    FieldMatchType::Ternary(Ternary { value, mask })
                }
                MatchField::Range { low, high }
                    if is_zero(&low) && high == all_ones(field.width_bits) =>
                {
                    return None;
                }
                MatchField::Range { low, high } => FieldMatchType::Range(Range { low, high }),
                MatchField::Optional(Some(value)) => FieldMatchType::Optional(Optional { value }),
            };
            Some(FieldMatch {
                field_id: field.id,
                field_match_type: Some(given),
            })
        })
        .collect()
}
