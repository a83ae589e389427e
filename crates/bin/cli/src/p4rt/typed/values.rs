//! Parses values of any type for registers and value sets, and finds the headers of packet-in and packet-out.

use p4runtime_client::{Object, alias};
use p4runtime_proto::p4::config::v1::{self as config, p4_data_type_spec::TypeSpec};
use p4runtime_proto::p4::v1::{P4Data, P4StructLike, ValueSetMember, p4_data};

use super::{Items, Key, set};
use crate::p4rt::schema::{Parsed, Schema};
use crate::p4rt::words::{Item, Value};

/// Parses the members of a value set: `{0x800, 0x86dd}` or, if members have several fields, `{ether_type=0x800&&&0xff00
/// port=3, ...}`.
pub fn value_set_members(
    schema: &Schema,
    set: &config::ValueSet,
    items: &mut Items,
) -> Parsed<Vec<ValueSetMember>> {
    let name = set.preamble.as_ref().map_or("", alias);
    let what = "{VALUE, ...}, all members of the value set";
    let mut members = Vec::new();
    for member in self::set(items, what)? {
        let mut key = Key::new(schema, &set.r#match, format!("value set \"{name}\""));
        for item in member {
            key.item(item)?;
        }
        items.note(&mut key.notes);
        members.push(ValueSetMember {
            r#match: key.end(true)?,
        });
    }
    Ok(members)
}

/// Whether the value is the initial value of a register.
pub fn is_zero(value: &P4Data) -> bool {
    use p4_data::Data;
    let is_zero_bits = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    match value.data.as_ref() {
        None => true,
        Some(Data::Bool(it)) => !it,
        Some(Data::Bitstring(it) | Data::EnumValue(it)) => is_zero_bits(it),
        Some(Data::Varbit(it)) => is_zero_bits(&it.bitstring),
        Some(Data::Struct(it) | Data::Tuple(it)) => it.members.iter().all(is_zero),
        Some(Data::Header(it)) => !it.is_valid,
        Some(Data::HeaderUnion(it)) => it.valid_header.is_none(),
        Some(Data::HeaderStack(it)) => it.entries.iter().all(|it| !it.is_valid),
        Some(Data::HeaderUnionStack(it)) => it.entries.iter().all(|it| it.valid_header.is_none()),
        // The members of an enum without values have only names, so we cannot tell which member is the initial one.
        Some(Data::Enum(_) | Data::Error(_)) => false,
    }
}

/// Parses a value of a register or a part of it.
pub fn data(schema: &Schema, value: &Value, spec: Option<&TypeSpec>, name: &str) -> Parsed<P4Data> {
    use p4_data::Data;
    let is_word = |value: &Value, words: &[&str]| words.contains(&value.to_string().as_str());
    let found = match spec {
        Some(TypeSpec::Bool(_)) => match value {
            value if is_word(value, &["true", "1"]) => Data::Bool(true),
            value if is_word(value, &["false", "0"]) => Data::Bool(false),
            other => return Err(format!("expected true or false, got \"{other}\"")),
        },
        Some(TypeSpec::Struct(_)) => Data::Struct(struct_like(schema, value, spec)?),
        Some(TypeSpec::Tuple(_)) => Data::Tuple(struct_like(schema, value, spec)?),
        Some(TypeSpec::Enum(_)) => Data::Enum(value.to_string()),
        Some(TypeSpec::Error(_)) => Data::Error(value.to_string()),
        Some(TypeSpec::SerializableEnum(_)) => Data::EnumValue(bytes(schema, value, spec, name)?),
        Some(TypeSpec::Bitstring(_) | TypeSpec::NewType(_)) => {
            Data::Bitstring(bytes(schema, value, spec, name)?)
        }
        _ => return Err("a value of this type cannot be typed".to_owned()),
    };
    Ok(P4Data { data: Some(found) })
}

fn bytes(schema: &Schema, value: &Value, spec: Option<&TypeSpec>, name: &str) -> Parsed<Vec<u8>> {
    match value {
        Value::Atom(atom) => atom.bytes(&schema.data_type(spec, name)),
        other => Err(format!("expected a value, got \"{other}\"")),
    }
}

fn struct_like(schema: &Schema, value: &Value, spec: Option<&TypeSpec>) -> Parsed<P4StructLike> {
    let members = schema.members_of(spec);
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let expected = || format!("{{{}}}", names.join("=..., "));
    let Value::Set(items) = value else {
        return Err(format!("expected {}, got \"{value}\"", expected()));
    };
    let mut values = vec![None; members.len()];
    for (at, items) in items.iter().enumerate() {
        let (idx, value) = match items.as_slice() {
            [Item::Pair(name, value)] => {
                let idx = names.iter().position(|it| it == name);
                let idx = idx.ok_or_else(|| format!("expected {}, got \"{name}\"", expected()))?;
                (idx, value)
            }
            [Item::Value(value)] => (at, value),
            _ => return Err(format!("expected {}, got \"{value}\"", expected())),
        };
        let Some((name, spec)) = members.get(idx) else {
            return Err(format!("expected {} members, got more", members.len()));
        };
        let found = data(schema, value, *spec, name);
        values[idx] = Some(found.map_err(|message| format!("{name}: {message}"))?);
    }
    let members: Option<Vec<P4Data>> = values.into_iter().collect();
    let members = members.ok_or_else(|| format!("expected {}, all members", expected()))?;
    Ok(P4StructLike { members })
}

/// Finds the header of packet-in or packet-out. Returns `None` if the program has no such header.
pub fn packet_header<'s>(
    schema: &'s Schema,
    name: &str,
) -> Option<&'s config::ControllerPacketMetadata> {
    let all = schema.preambles(Object::PacketHeader);
    all.iter().find(|it| it.name == name)?;
    schema.packet_header(name).ok()
}
