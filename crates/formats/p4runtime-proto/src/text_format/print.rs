//! Writes a message as protobuf text: one field a line, a repeated field once per element.
//!
//! `prost-reflect` can print too, but puts repeated messages into `[{ }]` lists, which P4Info files of other tools do
//! not have.

use std::collections::HashMap;
use std::fmt::Write;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage, Value};

const INDENT: &str = "  ";

/// Appends the set fields of `message`, by field number.
pub(super) fn print_fields(out: &mut String, depth: usize, message: &DynamicMessage) {
    let mut fields: Vec<_> = message.descriptor().fields().collect();
    fields.sort_by_key(FieldDescriptor::number);
    for field in fields.iter().filter(|field| message.has_field(field)) {
        match message.get_field(field).as_ref() {
            Value::List(elements) => {
                for element in elements {
                    print_field(out, depth, field.name(), &field.kind(), element);
                }
            }
            Value::Map(entries) => print_map(out, depth, field, entries),
            value => print_field(out, depth, field.name(), &field.kind(), value),
        }
    }
}

fn print_field(out: &mut String, depth: usize, name: &str, kind: &Kind, value: &Value) {
    if let Value::Message(message) = value {
        open(out, depth, name);
        print_fields(out, depth + 1, message);
        close(out, depth);
        return;
    }
    indent(out, depth);
    out.push_str(name);
    out.push_str(": ");
    print_scalar(out, kind, value);
    out.push('\n');
}

/// Writes a map as a repeated message of `key` and `value`, sorted by key, so that equal messages have equal texts.
fn print_map(
    out: &mut String,
    depth: usize,
    field: &FieldDescriptor,
    entries: &HashMap<MapKey, Value>,
) {
    let Kind::Message(entry_type) = field.kind() else {
        return;
    };
    let (key_kind, value_kind) = (
        entry_type.map_entry_key_field().kind(),
        entry_type.map_entry_value_field().kind(),
    );
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    for (key, value) in entries {
        open(out, depth, field.name());
        let key = Value::from(key.clone());
        print_field(out, depth + 1, "key", &key_kind, &key);
        print_field(out, depth + 1, "value", &value_kind, value);
        close(out, depth);
    }
}

fn open(out: &mut String, depth: usize, name: &str) {
    indent(out, depth);
    out.push_str(name);
    out.push_str(" {\n");
}

fn close(out: &mut String, depth: usize) {
    indent(out, depth);
    out.push_str("}\n");
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str(INDENT);
    }
}

fn print_scalar(out: &mut String, kind: &Kind, value: &Value) {
    // Writing to a String cannot fail.
    let _ = match value {
        Value::Bool(value) => write!(out, "{value}"),
        Value::I32(value) => write!(out, "{value}"),
        Value::I64(value) => write!(out, "{value}"),
        Value::U32(value) => write!(out, "{value}"),
        Value::U64(value) => write!(out, "{value}"),
        Value::F32(value) => write!(out, "{value:?}"),
        Value::F64(value) => write!(out, "{value:?}"),
        Value::String(value) => {
            print_string(out, value);
            Ok(())
        }
        Value::Bytes(value) => {
            print_bytes(out, value);
            Ok(())
        }
        Value::EnumNumber(number) => match kind {
            Kind::Enum(descriptor) => match descriptor.get_value(*number) {
                Some(value) => write!(out, "{}", value.name()),
                None => write!(out, "{number}"),
            },
            _ => write!(out, "{number}"),
        },
        // The callers write the parts of these values one by one.
        Value::Message(_) | Value::List(_) | Value::Map(_) => Ok(()),
    };
}

/// Writes a `string`. Printable characters outside ASCII are written as they are, other characters as in `print_bytes`.
fn print_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        if c.is_ascii() || c.is_control() {
            let mut utf8 = [0; 4];
            c.encode_utf8(&mut utf8)
                .bytes()
                .for_each(|byte| print_byte(out, byte));
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

/// Writes a `bytes` value. Bytes that are not printable ASCII are escaped, most of them as three octal digits.
fn print_bytes(out: &mut String, bytes: &[u8]) {
    out.push('"');
    bytes.iter().for_each(|byte| print_byte(out, *byte));
    out.push('"');
}

fn print_byte(out: &mut String, byte: u8) {
    match byte {
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        0x20..=0x7e => out.push(char::from(byte)),
        byte => {
            let _ = write!(out, "\\{byte:03o}");
        }
    }
}
