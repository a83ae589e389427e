//! Describes a program for a user: its objects, or one of them in detail.

use p4runtime_client::{Object, ValueType, alias, match_type};
use p4runtime_proto::p4::config::v1::match_field::MatchType;
use p4runtime_proto::p4::config::v1::{self as config, action_ref, counter_spec, meter_spec};
use serde_json::{Value, json};

use super::print::short_field;
use super::schema::{Lack, Parsed, Schema};
use crate::output;

pub const KINDS: &[Object] = &[
    Object::Table,
    Object::Action,
    Object::ActionProfile,
    Object::Counter,
    Object::DirectCounter,
    Object::Meter,
    Object::DirectMeter,
    Object::Register,
    Object::ValueSet,
    Object::Digest,
    Object::PacketHeader,
];

/// Describes the program in one line: its name, and how many objects of each kind it has.
pub fn summary(schema: &Schema) -> String {
    match schema.lack {
        Some(Lack::Pipeline) => return "no pipeline".to_owned(),
        Some(Lack::P4Info) => return "a program without P4Info".to_owned(),
        None => {}
    }
    let package = schema.p4info.pkg_info.as_ref();
    let name = package
        .map(|it| it.name.as_str())
        .filter(|it| !it.is_empty());
    let counts = KINDS.iter().filter_map(|kind| {
        let n = schema.preambles(*kind).len();
        (n > 0).then(|| output::count(n, kind.noun()))
    });
    let counts: Vec<String> = counts.collect();
    let name = name.or(schema.file.as_deref()).unwrap_or("a program");
    match counts.as_slice() {
        [] => format!("{name} without tables"),
        counts => format!("{name} with {}", counts.join(", ")),
    }
}

pub fn about(schema: &Schema, name: Option<&str>) -> Parsed<String> {
    let Some(name) = name else {
        let lines = KINDS.iter().flat_map(|kind| {
            let all = schema.preambles(*kind).into_iter();
            all.map(|it| line(schema, *kind, it.id, alias(it)))
        });
        let lines: Vec<String> = lines.collect();
        schema.expect_names()?;
        return Ok(lines.join("\n"));
    };
    let mut found = Vec::new();
    for kind in KINDS {
        let is_it = |it: &&config::Preamble| {
            alias(it) == name || it.name == name || it.name.ends_with(&format!(".{name}"))
        };
        for preamble in schema.preambles(*kind).into_iter().filter(is_it) {
            found.push(details(schema, *kind, preamble));
        }
    }
    if found.is_empty() {
        schema.expect_names()?;
        let names = KINDS
            .iter()
            .flat_map(|kind| schema.preambles(*kind))
            .map(alias);
        return Err(match names::nearest(name, names) {
            Some(near) => format!("the program has no \"{name}\", did you mean \"{near}\"?"),
            None => format!("the program has no \"{name}\": `info` lists all"),
        });
    }
    Ok(found.join("\n"))
}

fn line(schema: &Schema, kind: Object, id: u32, name: &str) -> String {
    let sized = |what: &str| {
        size(schema, kind, id).map_or(String::new(), |size| {
            let size = usize::try_from(size).unwrap_or_default();
            output::count(size, what)
        })
    };
    let what = match kind {
        Object::Table => schema.table_by_id(id).map_or(String::new(), |table| {
            let field = |it: &config::MatchField| {
                format!(
                    "{}:{}",
                    short_field(&table.match_fields, it),
                    match_word(it)
                )
            };
            let key: Vec<String> = table.match_fields.iter().map(field).collect();
            let actions = table
                .action_refs
                .iter()
                .map(|it| schema.short(Object::Action, it.id));
            let actions: Vec<String> = actions.collect();
            format!("[{}] -> {}", key.join(" "), actions.join(" | "))
        }),
        Object::Action => schema.action_by_id(id).map_or(String::new(), |action| {
            let param = |it: &config::action::Param| {
                format!("{}: {}", it.name, type_words(&schema.param_type(it)))
            };
            let params: Vec<String> = action.params.iter().map(param).collect();
            format!("({})", params.join(", "))
        }),
        Object::DirectCounter | Object::DirectMeter => {
            let table = match kind {
                Object::DirectCounter => {
                    schema.direct_counter_by_id(id).map(|it| it.direct_table_id)
                }
                _ => schema.direct_meter_by_id(id).map(|it| it.direct_table_id),
            };
            table.map_or(String::new(), |id| {
                format!("of table {}", schema.short(Object::Table, id))
            })
        }
        Object::PacketHeader => {
            let header = schema.packet_header_by_id(id);
            let fields = header.map_or(&[][..], |it| it.metadata.as_slice()).iter();
            let field = |it: &config::controller_packet_metadata::Metadata| {
                format!("{}: {}", it.name, type_words(&schema.metadata_type(it)))
            };
            fields.map(field).collect::<Vec<_>>().join(", ")
        }
        Object::ActionProfile | Object::ValueSet => sized("member"),
        _ => sized("cell"),
    };
    let text = format!("{:14} {name} {what}", kind.noun());
    text.trim_end().to_owned()
}

fn size(schema: &Schema, kind: Object, id: u32) -> Option<i64> {
    match kind {
        Object::Table => schema.table_by_id(id).map(|it| it.size),
        Object::ActionProfile => schema.profile_by_id(id).map(|it| it.size),
        Object::Counter => schema.counter_by_id(id).map(|it| it.size),
        Object::Meter => schema.meter_by_id(id).map(|it| it.size),
        Object::Register => schema.register_by_id(id).map(|it| it.size.into()),
        Object::ValueSet => schema.value_set_by_id(id).map(|it| it.size.into()),
        _ => None,
    }
}

fn match_word(field: &config::MatchField) -> &'static str {
    match match_type(field) {
        Some(MatchType::Exact) => "exact",
        Some(MatchType::Lpm) => "lpm",
        Some(MatchType::Ternary) => "ternary",
        Some(MatchType::Range) => "range",
        Some(MatchType::Optional) => "optional",
        _ => "other",
    }
}

/// A type in words: `9 bits`, or `string`, then the names of its values.
fn type_words(ty: &ValueType) -> String {
    let mut words = match ty.format.bits() {
        0 => "string".to_owned(),
        1 => "1 bit".to_owned(),
        bits => format!("{bits} bits"),
    };
    let names = ty.all_names();
    if !names.is_empty() {
        words.push_str(&format!(" ({})", names.join(" | ")));
    }
    words
}

fn details(schema: &Schema, kind: Object, preamble: &config::Preamble) -> String {
    let mut lines = vec![format!(
        "{} {} (id {:#x})",
        kind.noun(),
        preamble.name,
        preamble.id
    )];
    if let Some(brief) = preamble
        .doc
        .as_ref()
        .map(|it| it.brief.as_str())
        .filter(|it| !it.is_empty())
    {
        lines.push(format!("  {brief}"));
    }
    match kind {
        Object::Table => lines.extend(table_lines(schema, preamble.id)),
        Object::Counter | Object::DirectCounter | Object::Meter | Object::DirectMeter => {
            lines.extend(unit(schema, kind, preamble.id).map(|it| format!("  counts {it}")));
            lines.push(format!(
                "  {}",
                line(schema, kind, preamble.id, "")
                    .trim_start_matches(kind.noun())
                    .trim()
            ));
        }
        _ => lines.push(format!(
            "  {}",
            line(schema, kind, preamble.id, "")
                .trim_start_matches(kind.noun())
                .trim()
        )),
    }
    lines.extend(preamble.annotations.iter().map(|it| format!("  {it}")));
    lines.retain(|line| !line.trim().is_empty());
    lines.join("\n")
}

fn unit(schema: &Schema, kind: Object, id: u32) -> Option<&'static str> {
    let counter = |spec: Option<&config::CounterSpec>| match spec?.unit() {
        counter_spec::Unit::Packets => Some("packets"),
        counter_spec::Unit::Bytes => Some("bytes"),
        counter_spec::Unit::Both => Some("packets and bytes"),
        counter_spec::Unit::Unspecified => None,
    };
    let meter = |spec: Option<&config::MeterSpec>| match spec?.unit() {
        meter_spec::Unit::Packets => Some("packets"),
        meter_spec::Unit::Bytes => Some("bytes"),
        meter_spec::Unit::Unspecified => None,
    };
    match kind {
        Object::Counter => counter(schema.counter_by_id(id)?.spec.as_ref()),
        Object::DirectCounter => counter(schema.direct_counter_by_id(id)?.spec.as_ref()),
        Object::Meter => meter(schema.meter_by_id(id)?.spec.as_ref()),
        Object::DirectMeter => meter(schema.direct_meter_by_id(id)?.spec.as_ref()),
        _ => None,
    }
}

fn table_lines(schema: &Schema, id: u32) -> Vec<String> {
    let Some(table) = schema.table_by_id(id) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for field in &table.match_fields {
        let words = type_words(&schema.field_type(field));
        lines.push(format!(
            "  key {} {}, {words}",
            field.name,
            match_word(field)
        ));
    }
    for reference in &table.action_refs {
        let scope = match reference.scope() {
            action_ref::Scope::TableAndDefault => "",
            action_ref::Scope::TableOnly => ", entries only",
            action_ref::Scope::DefaultOnly => ", default only",
        };
        let name = schema.short(Object::Action, reference.id);
        let action = line(schema, Object::Action, reference.id, &name);
        let action = action.trim_start_matches("action").trim();
        lines.push(format!("  action {action}{scope}"));
    }
    if let Some(default) = &table.initial_default_action {
        let name = schema.short(Object::Action, default.action_id);
        let word = match table.const_default_action_id {
            0 => "default",
            _ => "const default",
        };
        lines.push(format!("  {word} {name}"));
    }
    if table.implementation_id != 0 {
        let name = schema.short(Object::ActionProfile, table.implementation_id);
        lines.push(format!("  action profile {name}"));
    }
    if let Some(counter) = schema
        .direct_counter_of(id)
        .and_then(|it| it.preamble.as_ref())
    {
        lines.push(format!("  direct counter {}", alias(counter)));
    }
    if let Some(meter) = schema
        .direct_meter_of(id)
        .and_then(|it| it.preamble.as_ref())
    {
        lines.push(format!("  direct meter {}", alias(meter)));
    }
    if table.idle_timeout_behavior() != config::table::IdleTimeoutBehavior::NoTimeout {
        lines.push("  idle timeouts".to_owned());
    }
    if table.is_const_table {
        lines.push("  const entries".to_owned());
    }
    lines.push(format!("  size {}", table.size));
    lines
}

/// Returns the kind, name and id of all objects, or only of the objects with this name.
pub fn json(schema: &Schema, name: Option<&str>) -> Value {
    let all = KINDS.iter().flat_map(|kind| {
        schema
            .preambles(*kind)
            .into_iter()
            .map(move |it| (kind, it))
    });
    let wanted = all.filter(|(_, it)| {
        name.is_none_or(|name| {
            alias(it) == name || it.name == name || it.name.ends_with(&format!(".{name}"))
        })
    });
    let objects = wanted.map(|(kind, it)| {
        json!({
            "kind": kind.noun(),
            "name": it.name,
            "alias": alias(it),
            "id": it.id,
            "size": size(schema, *kind, it.id),
            "text": details(schema, *kind, it),
        })
    });
    Value::Array(objects.collect())
}
