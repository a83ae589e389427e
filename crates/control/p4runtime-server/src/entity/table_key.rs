//! Keys of table entries: `FieldMatch` messages, which omit don't-care fields.
//!
//! Source: P4Runtime 1.5.0, "Match Format".

use dataplane::{KeyField, MatchField, MatchKind};
use p4runtime_proto::p4::v1::FieldMatch;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};

use crate::bytestring::{all_ones, is_within, is_zero, low_bits_are_zero, parse};
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{Field, NamesInUse, NewNames};

/// Converts matches to the data plane's canonical key, one match for each field. `of` names the table or value set in
/// messages.
pub(super) fn key(
    fields: &[Field],
    matches: &[FieldMatch],
    new_names: NewNames,
    of: &str,
) -> EntityResult<Vec<MatchField>> {
    let mut key: Vec<Option<MatchField>> = vec![None; fields.len()];
    for given in matches {
        let position = fields.iter().position(|field| field.id == given.field_id);
        let position = position.ok_or_else(|| {
            EntityError::invalid(format!(
                "{of} has no match field with id {}",
                given.field_id
            ))
        })?;
        let field = &fields[position];
        let what = format!("{of}: match field \"{}\"", field.name);
        if key[position].is_some() {
            return Err(EntityError::invalid(format!("{what} is given twice")));
        }
        let given = given.field_match_type.as_ref();
        key[position] = Some(match_field(field, given, new_names, &what)?);
    }
    let fields = key.into_iter().zip(fields);
    fields
        .map(|(given, field)| match given.or_else(|| dont_care(field)) {
            Some(given) => Ok(given),
            None => Err(EntityError::invalid(format!(
                "{of}: expected a match for the exact field \"{}\", found none",
                field.name
            ))),
        })
        .collect()
}

/// The match for an omitted field. An exact field cannot be omitted.
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
        MatchKind::Range => Some(field.key.every_value()),
        MatchKind::Optional => Some(optional(field, None)),
    }
}

fn match_field(
    field: &Field,
    given: Option<&FieldMatchType>,
    new_names: NewNames,
    what: &str,
) -> EntityResult<MatchField> {
    let one = |bytes: &[u8]| field.values.to_data(bytes, new_names, what);
    match (field.kind, given) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => {
            Ok(MatchField::Exact(one(&exact.value)?))
        }
        (MatchKind::Optional, Some(FieldMatchType::Optional(given))) => {
            Ok(optional(field, Some(one(&given.value)?)))
        }
        (MatchKind::Lpm | MatchKind::Ternary | MatchKind::Range, Some(given)) => {
            partial(field, given, what)
        }
        (kind, given) => Err(wrong_kind(kind, given, what)),
    }
}

/// Converts an LPM, ternary or range match.
fn partial(field: &Field, given: &FieldMatchType, what: &str) -> EntityResult<MatchField> {
    // Single bits of a translated value have no meaning in the data plane.
    let Some(bits) = field.values.common_bits() else {
        return Err(EntityError::unimplemented(format!(
            "{what}: its values are translated, so a match of kind {:?} can only be left out",
            field.kind
        )));
    };
    let value = |bytes: &[u8]| parse(bytes, bits, what);
    match (field.kind, given) {
        (MatchKind::Lpm, FieldMatchType::Lpm(lpm)) => {
            prefix(bits, value(&lpm.value)?, lpm.prefix_len, what)
        }
        (MatchKind::Ternary, FieldMatchType::Ternary(ternary)) => {
            masked(value(&ternary.value)?, value(&ternary.mask)?, what)
        }
        (MatchKind::Range, FieldMatchType::Range(range)) => {
            interval(&field.key, value(&range.low)?, value(&range.high)?, what)
        }
        (kind, given) => Err(wrong_kind(kind, Some(given), what)),
    }
}

fn wrong_kind(kind: MatchKind, given: Option<&FieldMatchType>, what: &str) -> EntityError {
    EntityError::invalid(format!(
        "{what}: expected a match of kind {kind:?}, found {}",
        kind_name(given)
    ))
}

/// Converts an optional match to the match kind that the data plane has for the field. The result matches only `value`,
/// or every value if `value` is `None`.
fn optional(field: &Field, value: Option<Vec<u8>>) -> MatchField {
    match (field.key.kind, value) {
        (MatchKind::Ternary, Some(value)) => MatchField::Ternary {
            value,
            mask: all_ones(field.values.data_bits()),
        },
        (MatchKind::Ternary, None) => MatchField::Ternary {
            value: vec![0],
            mask: vec![0],
        },
        (_, value) => MatchField::Optional(value),
    }
}

fn prefix(bits: u32, value: Vec<u8>, prefix_len: i32, what: &str) -> EntityResult<MatchField> {
    let prefix_len = u32::try_from(prefix_len)
        .ok()
        .filter(|len| (1..=bits).contains(len))
        .ok_or_else(|| {
            EntityError::invalid(format!(
                "{what}: expected a prefix of 1 to {} bits (a field that matches everything is left out), found {prefix_len}",
                bits
            ))
        })?;
    if !low_bits_are_zero(&value, bits - prefix_len) {
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

fn interval(key: &KeyField, low: Vec<u8>, high: Vec<u8>, what: &str) -> EntityResult<MatchField> {
    if !key.is_ascending(&low, &high) {
        return Err(EntityError::invalid(format!(
            "{what}: expected a range, found its low bound above its high bound"
        )));
    }
    let range = MatchField::Range { low, high };
    if range == key.every_value() {
        return Err(EntityError::invalid(format!(
            "{what}: expected a range that does not cover all values (a field that matches everything is left out)"
        )));
    }
    Ok(range)
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

/// The inverse of `key`: omits don't-care fields.
pub(super) fn matches(fields: &[Field], key: &[MatchField]) -> Vec<FieldMatch> {
    let fields = fields.iter().zip(key);
    fields
        .filter_map(|(field, given)| {
            let field_match_type = Some(to_proto(field, given)?);
            Some(FieldMatch {
                field_id: field.id,
                field_match_type,
            })
        })
        .collect()
}

fn to_proto(field: &Field, given: &MatchField) -> Option<FieldMatchType> {
    let one = |value: &[u8]| field.values.to_controller(value);
    Some(match given.clone() {
        MatchField::Exact(value) => FieldMatchType::Exact(Exact { value: one(&value) }),
        MatchField::Lpm { prefix_len: 0, .. } | MatchField::Optional(None) => return None,
        MatchField::Lpm { value, prefix_len } => FieldMatchType::Lpm(Lpm {
            value,
            prefix_len: i32::try_from(prefix_len).expect("a field has fewer than 2^31 bits"),
        }),
        MatchField::Ternary { mask, .. } if is_zero(&mask) => return None,
        MatchField::Ternary { value, .. } if field.kind == MatchKind::Optional => {
            FieldMatchType::Optional(Optional { value: one(&value) })
        }
        MatchField::Ternary { value, mask } => FieldMatchType::Ternary(Ternary { value, mask }),
        MatchField::Range { .. } if *given == field.key.every_value() => return None,
        MatchField::Range { low, high } => FieldMatchType::Range(Range { low, high }),
        MatchField::Optional(Some(value)) => {
            FieldMatchType::Optional(Optional { value: one(&value) })
        }
    })
}

pub(super) fn note_names(fields: &[Field], key: &[MatchField], used: &mut NamesInUse) {
    for (field, given) in fields.iter().zip(key) {
        if let Some(number) = number(given) {
            used.add(&field.values, number);
        }
    }
}

/// Returns the number in an exact, ternary or optional match. Controllers may write this number as a name. Returns
/// `None` for a match that has no such number.
fn number(given: &MatchField) -> Option<&[u8]> {
    match given {
        MatchField::Exact(value)
        | MatchField::Ternary { value, .. }
        | MatchField::Optional(Some(value)) => Some(value),
        MatchField::Lpm { .. } | MatchField::Range { .. } | MatchField::Optional(None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Values;

    #[test]
    fn a_range_of_a_signed_key_is_in_the_order_of_its_type() {
        let name = "temperature".to_owned();
        let key_field = KeyField {
            name: name.clone(),
            kind: MatchKind::Range,
            width_bits: 8,
            is_signed: true,
            is_secret: false,
        };
        let fields = [Field {
            id: 1,
            name,
            kind: MatchKind::Range,
            key: key_field,
            values: Values::Numbers {
                controller_bits: 8,
                data_bits: 8,
            },
            is_secret: false,
        }];
        let given = |low: u8, high: u8| FieldMatch {
            field_id: 1,
            field_match_type: Some(FieldMatchType::Range(Range {
                low: vec![low],
                high: vec![high],
            })),
        };
        let range = |low: u8, high: u8| MatchField::Range {
            low: vec![low],
            high: vec![high],
        };
        let key_of = |matches: &[FieldMatch]| key(&fields, matches, NewNames::Bound, "table \"t\"");
        // The range from -3 to 3.
        let around_zero = [given(0xfd, 3)];
        let found = key_of(&around_zero).unwrap();
        assert_eq!(found, [range(0xfd, 3)]);
        assert_eq!(matches(&fields, &found), around_zero);
        let reversed = key_of(&[given(3, 0xfd)]).unwrap_err();
        assert!(reversed.message.contains("low bound above"), "{reversed}");
        // A controller must omit a range of all values, and a Read omits it too.
        let whole = key_of(&[given(0x80, 0x7f)]).unwrap_err();
        assert!(whole.message.contains("is left out"), "{whole}");
        let left_out = key_of(&[]).unwrap();
        assert_eq!(left_out, [range(0x80, 0x7f)]);
        assert_eq!(matches(&fields, &left_out), []);
    }
}
