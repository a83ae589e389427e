//! Protobuf's JSON mapping, to write P4Info files for tools that read no protobuf.
//!
//! Source: Protocol Buffers, "ProtoJSON Format": names in lowerCamelCase, 64-bit integers as
//! strings, bytes in base64, enumerators by name, unset fields left out.

use std::collections::HashMap;

use prost::{Message, Name};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage, Value};

use crate::text_format::dynamic;

/// Writes any message of this crate: one value a line, one space of indent, fields in the order of their numbers.
pub fn print<M: Message + Name>(message: &M) -> String {
    let mut out = String::new();
    print_message(&mut out, 0, &dynamic(message));
    out.push('\n');
    out
}

fn print_message(out: &mut String, depth: usize, message: &DynamicMessage) {
    let mut fields: Vec<_> = message.descriptor().fields().collect();
    fields.sort_by_key(FieldDescriptor::number);
    let set = fields.iter().filter(|field| message.has_field(field));
    let members = set.map(|field| (field.json_name().to_owned(), field));
    let print = |out: &mut String, field: &&FieldDescriptor| {
        let value = message.get_field(field);
        print_value(out, depth + 1, &field.kind(), &value);
    };
    print_all(
        out,
        depth,
        '{',
        '}',
        members.map(|(name, field)| (Some(name), field)),
        print,
    );
}

/// Writes members of an object (with names) or elements of a list (without), one a line.
fn print_all<T>(
    out: &mut String,
    depth: usize,
    open: char,
    close: char,
    items: impl Iterator<Item = (Option<String>, T)>,
    print: impl Fn(&mut String, &T),
) {
    out.push(open);
    let mut first = true;
    for (name, item) in items {
        out.push_str(if first { "\n" } else { ",\n" });
        first = false;
        indent(out, depth + 1);
        if let Some(name) = name {
            print_string(out, &name);
            out.push_str(": ");
        }
        print(out, &item);
    }
    if !first {
        out.push('\n');
        indent(out, depth);
    }
    out.push(close);
}

fn indent(out: &mut String, depth: usize) {
    (0..depth).for_each(|_| out.push(' '));
}

fn print_value(out: &mut String, depth: usize, kind: &Kind, value: &Value) {
    match value {
        Value::Message(message) => print_message(out, depth, message),
        Value::List(elements) => {
            let elements = elements.iter().map(|element| (None, element));
            print_all(out, depth, '[', ']', elements, |out, element| {
                print_value(out, depth + 1, kind, element);
            });
        }
        Value::Map(entries) => print_map(out, depth, kind, entries),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::I32(value) => out.push_str(&value.to_string()),
        Value::U32(value) => out.push_str(&value.to_string()),
        Value::I64(value) => print_string(out, &value.to_string()),
        Value::U64(value) => print_string(out, &value.to_string()),
        Value::F32(value) => print_float(out, f64::from(*value)),
        Value::F64(value) => print_float(out, *value),
        Value::String(value) => print_string(out, value),
        Value::Bytes(value) => print_string(out, &base64(value)),
        Value::EnumNumber(number) => {
            let named = match kind {
                Kind::Enum(descriptor) => descriptor.get_value(*number),
                _ => None,
            };
            match named {
                Some(named) => print_string(out, named.name()),
                None => out.push_str(&number.to_string()),
            }
        }
    }
}

/// Writes a map, sorted by key, so that equal messages have equal texts.
fn print_map(out: &mut String, depth: usize, kind: &Kind, entries: &HashMap<MapKey, Value>) {
    let Kind::Message(entry_type) = kind else {
        return;
    };
    let value_kind = entry_type.map_entry_value_field().kind();
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    let members = entries.into_iter().map(|(key, value)| {
        let key = match key {
            MapKey::Bool(key) => key.to_string(),
            MapKey::I32(key) => key.to_string(),
            MapKey::I64(key) => key.to_string(),
            MapKey::U32(key) => key.to_string(),
            MapKey::U64(key) => key.to_string(),
            MapKey::String(key) => key.clone(),
        };
        (Some(key), value)
    });
    print_all(out, depth, '{', '}', members, |out, value| {
        print_value(out, depth + 1, &value_kind, value);
    });
}

fn print_float(out: &mut String, value: f64) {
    let name = match value {
        value if value.is_nan() => "\"NaN\"",
        f64::INFINITY => "\"Infinity\"",
        f64::NEG_INFINITY => "\"-Infinity\"",
        value => return out.push_str(&value.to_string()),
    };
    out.push_str(name);
}

fn print_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The base64 encoding of RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            if at <= group.len() {
                let sextet = bits >> (18 - 6 * at) & 0x3f;
                out.push(char::from(ALPHABET[sextet as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}
