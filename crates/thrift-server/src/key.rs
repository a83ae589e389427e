//! Keys of table entries between BMv2's parameters and the control plane's match fields.

use dataplane::{KeyField, MatchField, MatchKind, TableInfo};

use crate::call::{Args, Refusal};
use crate::exception::{Exception, TableCode};
use crate::values::{and, canonical, cut, n_bytes, prefix_mask};
use crate::wire::Type;
use crate::wire::write::Writer;

const EXACT: i32 = 0;
const LPM: i32 = 1;
const TERNARY: i32 = 2;
const VALID: i32 = 3;
const RANGE: i32 = 4;

fn bad(message: String) -> Refusal {
    Exception::new(TableCode::BadMatchKey, message).into()
}

/// A key of a call, one match a field; bits beyond a width, a prefix or a mask are left aside, as in BMv2.
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

/// As P4Runtime and the data plane have keys: notes and stores know an entry by its bytes, whoever writes it.
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
    let found = param.i32(1)?;
    let of = |id| Ok(param.fields(id)?.ok_or_else(|| missing(field))?) as Result<Args<'_>, Refusal>;
    let number = |args: Args<'_>, id| number(field, args.bytes(id)?);
    let bits = field.width_bits;
    Ok(match (field.kind, found) {
        (MatchKind::Exact, EXACT) => MatchField::Exact(number(of(2)?, 1)?),
        (MatchKind::Exact, VALID) => MatchField::Exact(vec![u8::from(of(5)?.bool(1)?)]),
        (MatchKind::Lpm, LPM) => {
            let prefix_len = prefix_len(field, of(3)?.i32(2)?)?;
            let value = and(&number(of(3)?, 1)?, &prefix_mask(prefix_len, bits));
            MatchField::Lpm { value, prefix_len }
        }
        (MatchKind::Ternary, TERNARY) => {
            let mask = number(of(4)?, 2)?;
            let value = and(&number(of(4)?, 1)?, &mask);
            MatchField::Ternary { value, mask }
        }
        (MatchKind::Optional, EXACT) => MatchField::Optional(Some(number(of(2)?, 1)?)),
        (MatchKind::Optional, TERNARY) => optional(field, number(of(4)?, 1)?, &number(of(4)?, 2)?)?,
        (MatchKind::Range, RANGE) => {
            let (low, high) = (number(of(6)?, 1)?, number(of(6)?, 2)?);
            MatchField::Range { low, high }
        }
        (kind, _) => {
            let name = &field.name;
            return Err(bad(format!(
                "key \"{name}\": expected a match of kind {kind:?}, found BMv2's type {found}"
            )));
        }
    })
}

fn missing(field: &KeyField) -> Refusal {
    bad(format!(
        "key \"{}\": the match of its type is left out",
        field.name
    ))
}

/// BMv2 has the bytes of a field's width, no more and no fewer.
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
        "key \"{name}\": expected a mask of ones or of zeros, found another"
    )))
}

/// A priority of BMv2's, where the lowest wins, as the control plane's, where the highest does.
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

/// The reverse; -1 where the table has none.
pub(crate) fn bmv2_priority(info: &TableInfo, priority: i32) -> i32 {
    match info.has_priority() {
        true => i32::MAX - priority,
        false => -1,
    }
}

/// A list of BMv2's parameters.
pub(crate) fn write(writer: &mut Writer, info: &TableInfo, key: &[MatchField]) {
    writer.list(Type::Struct, key.len());
    for (field, matched) in info.key.iter().zip(key) {
        write_param(writer, field.width_bits, matched);
        writer.stop();
    }
}

fn write_param(writer: &mut Writer, bits: u32, matched: &MatchField) {
    let full = |value: &[u8]| cut(value, bits);
    let zeros = || cut(&[], bits);
    match matched {
        MatchField::Exact(value) => write_one(writer, EXACT, &[full(value)]),
        MatchField::Lpm { value, prefix_len } => {
            writer.field(1, Type::I32).i32(LPM);
            writer.field(3, Type::Struct);
            writer.field(1, Type::Bytes).bytes(&full(value));
            writer.field(2, Type::I32).i32(prefix_len.cast_signed());
            writer.stop();
        }
        MatchField::Ternary { value, mask } => {
            write_one(writer, TERNARY, &[full(value), full(mask)]);
        }
        MatchField::Range { low, high } => write_one(writer, RANGE, &[full(low), full(high)]),
        MatchField::Optional(None) => write_one(writer, TERNARY, &[zeros(), zeros()]),
        MatchField::Optional(Some(value)) => {
            write_one(writer, TERNARY, &[full(value), prefix_mask(bits, bits)]);
        }
    }
}

/// A parameter of byte strings.
fn write_one(writer: &mut Writer, of: i32, values: &[Vec<u8>]) {
    writer.field(1, Type::I32).i32(of);
    let field = match of {
        EXACT => 2,
        TERNARY => 4,
        _ => 6,
    };
    writer.field(field, Type::Struct);
    for (id, value) in (1..).zip(values) {
        writer.field(id, Type::Bytes).bytes(value);
    }
    writer.stop();
}
