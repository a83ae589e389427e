//! Converts keys of table entries between BMv2's parameters and the control plane's match fields.

use dataplane::{KeyField, MatchField, MatchKind, TableInfo};

use crate::call::Refusal;
use crate::values::{and, canonical, cut, n_bytes, prefix_mask};
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, TableCode};
use bmv2_thrift::message::{MatchParam, Structure};

fn bad(message: String) -> Refusal {
    Exception::new(TableCode::BadMatchKey, message).into()
}

/// Converts a call's key, one match per field. Like BMv2, ignores bits beyond a width, a prefix or a mask.
pub(crate) fn key(info: &TableInfo, params: &[Args<'_>]) -> Result<Vec<MatchField>, Refusal> {
    if params.len() != info.key.len() {
        let (n_fields, found) = (info.key.len(), params.len());
        let name = &info.name;
        return Err(bad(format!(
            "table \"{name}\": expected {n_fields} match fields, found {found}"
        )));
    }
    let fields = info.key.iter().zip(params);
    fields
        .map(|(field, param)| Ok(shortest(match_field(field, *param)?)))
        .collect()
}

/// Converts a match to the canonical form of P4Runtime and the data plane. Client data and the state file identify an
/// entry by these bytes, whichever protocol writes it.
fn shortest(field: MatchField) -> MatchField {
    match field {
        MatchField::Exact(value) => MatchField::Exact(canonical(value)),
        MatchField::Lpm { value, prefix_len } => MatchField::Lpm {
            value: canonical(value),
            prefix_len,
        },
        MatchField::Ternary { value, mask } => MatchField::Ternary {
            value: canonical(value),
            mask: canonical(mask),
        },
        MatchField::Range { low, high } => MatchField::Range {
            low: canonical(low),
            high: canonical(high),
        },
        MatchField::Optional(value) => MatchField::Optional(value.map(canonical)),
    }
}

fn match_field(field: &KeyField, param: Args<'_>) -> Result<MatchField, Refusal> {
    let number = |bytes: &[u8]| number(field, bytes);
    let bits = field.width_bits;
    Ok(match (field.kind, MatchParam::read(param)?) {
        (MatchKind::Exact, MatchParam::Exact(value)) => MatchField::Exact(number(&value)?),
        (MatchKind::Exact, MatchParam::Valid(value)) => MatchField::Exact(vec![u8::from(value)]),
        (MatchKind::Lpm, MatchParam::Lpm(value, prefix_len)) => {
            let prefix_len = self::prefix_len(field, prefix_len)?;
            let value = and(&number(&value)?, &prefix_mask(prefix_len, bits));
            MatchField::Lpm { value, prefix_len }
        }
        (MatchKind::Ternary, MatchParam::Ternary(value, mask)) => {
            let mask = number(&mask)?;
            let value = and(&number(&value)?, &mask);
            MatchField::Ternary { value, mask }
        }
        (MatchKind::Optional, MatchParam::Exact(value)) => {
            MatchField::Optional(Some(number(&value)?))
        }
        (MatchKind::Optional, MatchParam::Ternary(value, mask)) => {
            optional(field, number(&value)?, &number(&mask)?)?
        }
        (MatchKind::Range, MatchParam::Range(low, high)) => {
            let (low, high) = (number(&low)?, number(&high)?);
            MatchField::Range { low, high }
        }
        (kind, found) => {
            let (name, what, found) = match &found {
                MatchParam::None(of) => (&field.name, "none of BMv2's type", *of),
                found => (&field.name, "BMv2's type", found.type_number()),
            };
            return Err(bad(format!(
                "key \"{name}\": expected a match of kind {kind:?}, found {what} {found}"
            )));
        }
    })
}

/// BMv2 requires exactly as many bytes as the field has.
fn number(field: &KeyField, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let (expected, found) = (n_bytes(field.width_bits), bytes.len());
    if found != expected {
        let name = &field.name;
        return Err(bad(format!(
            "key \"{name}\": expected {expected} bytes, found {found}"
        )));
    }
    Ok(cut(bytes, field.width_bits))
}

fn prefix_len(field: &KeyField, found: i32) -> Result<u32, Refusal> {
    let bits = field.width_bits;
    let length = u32::try_from(found).ok().filter(|length| *length <= bits);
    length.ok_or_else(|| {
        let name = &field.name;
        bad(format!(
            "key \"{name}\": expected a prefix of 0 to {bits} bits, found {found}"
        ))
    })
}

fn optional(field: &KeyField, value: Vec<u8>, mask: &[u8]) -> Result<MatchField, Refusal> {
    if mask.iter().all(|byte| *byte == 0) {
        return Ok(MatchField::Optional(None));
    }
    if mask == prefix_mask(field.width_bits, field.width_bits) {
        return Ok(MatchField::Optional(Some(value)));
    }
    let name = &field.name;
    Err(bad(format!(
        "key \"{name}\": expected a mask whose bits are all 1 or all 0, found both"
    )))
}

/// Converts BMv2's priority, where the lowest number wins, to the control plane's, where the highest number wins.
pub(crate) fn priority(info: &TableInfo, found: i32) -> Result<i32, Refusal> {
    if !info.has_priority() {
        return Ok(0);
    }
    if (0..i32::MAX).contains(&found) {
        return Ok(i32::MAX - found);
    }
    let (name, max) = (&info.name, i32::MAX - 1);
    Err(bad(format!(
        "table \"{name}\": expected a priority of 0 to {max}, found {found}"
    )))
}

/// The inverse of `priority`. -1 if the table has no priorities.
pub(crate) fn bmv2_priority(info: &TableInfo, priority: i32) -> i32 {
    if info.has_priority() {
        i32::MAX - priority
    } else {
        -1
    }
}

/// Converts a key to BMv2's parameters. Secret fields become zeros.
pub(crate) fn params(info: &TableInfo, key: &[MatchField]) -> Vec<MatchParam> {
    let fields = info.key.iter().zip(key);
    fields
        .map(|(field, matched)| {
            if field.is_secret {
                param(field.width_bits, &hidden(matched))
            } else {
                param(field.width_bits, matched)
            }
        })
        .collect()
}

/// Returns a match of the same kind whose values are zeros; for an optional match, one without a value.
pub(crate) fn hidden(matched: &MatchField) -> MatchField {
    let zero = || vec![0];
    match matched {
        MatchField::Exact(_) => MatchField::Exact(zero()),
        MatchField::Lpm { .. } => MatchField::Lpm {
            value: zero(),
            prefix_len: 0,
        },
        MatchField::Ternary { .. } => MatchField::Ternary {
            value: zero(),
            mask: zero(),
        },
        MatchField::Range { .. } => MatchField::Range {
            low: zero(),
            high: zero(),
        },
        MatchField::Optional(_) => MatchField::Optional(None),
    }
}

fn param(bits: u32, matched: &MatchField) -> MatchParam {
    let full = |value: &[u8]| cut(value, bits);
    let zeros = || cut(&[], bits);
    match matched {
        MatchField::Exact(value) => MatchParam::Exact(full(value)),
        MatchField::Lpm { value, prefix_len } => {
            MatchParam::Lpm(full(value), prefix_len.cast_signed())
        }
        MatchField::Ternary { value, mask } => MatchParam::Ternary(full(value), full(mask)),
        MatchField::Range { low, high } => MatchParam::Range(full(low), full(high)),
        MatchField::Optional(None) => MatchParam::Ternary(zeros(), zeros()),
        MatchField::Optional(Some(value)) => {
            MatchParam::Ternary(full(value), prefix_mask(bits, bits))
        }
    }
}
