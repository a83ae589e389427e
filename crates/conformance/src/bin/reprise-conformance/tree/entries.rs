//! Generates entries for every table from the P4Info alone, as a controller would.
//!
//! The first entry of a table gives every field a value. The second omits every optional field.
//! Further entries use other values, until every action has occurred.

use p4_compiler::P4Info;
use p4runtime_proto::p4::config::v1::action_ref::Scope;
use p4runtime_proto::p4::config::v1::match_field::{Match, MatchType};
use p4runtime_proto::p4::config::v1::p4_new_type_spec::Representation;
use p4runtime_proto::p4::config::v1::p4_new_type_translation::SdnType;
use p4runtime_proto::p4::config::v1::{MatchField, P4NamedType, P4NewTypeTranslation, Table};
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use p4runtime_proto::p4::v1::{
    Action, Entity, FieldMatch, TableAction, TableEntry, Update, action, entity, table_action,
    update,
};

/// Entries per table, unless its actions need more or its size allows fewer.
const ENTRIES: usize = 4;

pub fn has_key(table: &Table) -> bool {
    !table.match_fields.is_empty()
}

/// Whether a controller can insert entries. This leaves out tables with an action profile.
pub fn is_writable(table: &Table) -> bool {
    has_key(table) && !table.is_const_table && table.implementation_id == 0
}

/// Entries for a table, with distinct keys, and a default action.
pub fn of_table(p4info: &P4Info, table: &Table) -> Vec<Update> {
    let entries = if is_writable(table) {
        entries(p4info, table)
    } else {
        Vec::new()
    };
    let entries = entries.into_iter();
    let entries = entries.map(|entry| update(update::Type::Insert, entry));
    entries.chain(default_of(p4info, table)).collect()
}

fn entries(p4info: &P4Info, table: &Table) -> Vec<TableEntry> {
    let actions = actions(table, Scope::DefaultOnly);
    if actions.is_empty() {
        return Vec::new();
    }
    let size = usize::try_from(table.size).unwrap_or(0);
    let wanted = match size {
        0 => ENTRIES.max(actions.len()),
        _ => size.min(ENTRIES.max(actions.len())),
    };
    let mut entries: Vec<TableEntry> = Vec::new();
    for number in 0..wanted {
        let key: Option<Vec<FieldMatch>> = keys(p4info, table, number).into_iter().collect();
        let Some(key) = key else { break };
        if entries.iter().any(|entry| entry.r#match == key) {
            continue;
        }
        entries.push(TableEntry {
            table_id: id_of(table),
            r#match: key,
            action: Some(call(p4info, actions[number % actions.len()], number)),
            priority: priority(table, number),
            ..TableEntry::default()
        });
    }
    entries
}

/// Another default action, unless the program fixes it.
fn default_of(p4info: &P4Info, table: &Table) -> Option<Update> {
    let is_open = table.const_default_action_id == 0 && table.implementation_id == 0;
    let action = *actions(table, Scope::TableOnly)
        .last()
        .filter(|_| is_open)?;
    let entry = TableEntry {
        table_id: id_of(table),
        action: Some(call(p4info, action, 0)),
        is_default_action: true,
        ..TableEntry::default()
    };
    Some(update(update::Type::Modify, entry))
}

fn update(kind: update::Type, entry: TableEntry) -> Update {
    Update {
        r#type: kind.into(),
        entity: Some(Entity {
            entity: Some(entity::Entity::TableEntry(entry)),
        }),
    }
}

fn id_of(table: &Table) -> u32 {
    table.preamble.as_ref().map_or(0, |preamble| preamble.id)
}

fn actions(table: &Table, but: Scope) -> Vec<u32> {
    let refs = table.action_refs.iter();
    let refs = refs.filter(|action| action.scope() != but);
    refs.map(|action| action.id).collect()
}

fn kind(field: &MatchField) -> Option<MatchType> {
    match field.r#match {
        Some(Match::MatchType(kind)) => MatchType::try_from(kind).ok(),
        _ => None,
    }
}

fn priority(table: &Table, number: usize) -> i32 {
    let needs_one = table.match_fields.iter().any(|field| {
        matches!(
            kind(field),
            Some(MatchType::Ternary | MatchType::Range | MatchType::Optional)
        )
    });
    if needs_one {
        i32::try_from(number + 1).unwrap_or(i32::MAX)
    } else {
        0
    }
}

/// The key of entry `number`; `None` for a field whose match kind is unknown.
fn keys(p4info: &P4Info, table: &Table, number: usize) -> Vec<Option<FieldMatch>> {
    let fields = table.match_fields.iter().map(|field| {
        let form = Form::of(p4info, field.type_name.as_ref(), field.bitwidth);
        (field, form)
    });
    // A field without bits must be omitted, if its match kind allows that. So must a translated
    // field with more than a single value.
    let is_left_out = |(field, form): &(&MatchField, Form)| match kind(field) {
        Some(MatchType::Exact) => false,
        Some(MatchType::Optional) => number == 1 || *form == Form::Bits(0),
        _ => {
            let is_translated = translation(p4info, field.type_name.as_ref()).is_some();
            number == 1 || *form == Form::Bits(0) || is_translated
        }
    };
    let fields = fields.filter(|field| !is_left_out(field));
    fields
        .map(|(field, form)| field_match(field, form, number))
        .collect()
}

fn field_match(field: &MatchField, form: Form, number: usize) -> Option<FieldMatch> {
    let value = form.value(number);
    let matched = match kind(field)? {
        MatchType::Exact => FieldMatchType::Exact(Exact { value }),
        MatchType::Lpm => FieldMatchType::Lpm(Lpm {
            value,
            prefix_len: field.bitwidth,
        }),
        MatchType::Ternary => FieldMatchType::Ternary(Ternary {
            value,
            mask: ones(field.bitwidth),
        }),
        MatchType::Range => FieldMatchType::Range(Range {
            high: value.clone(),
            low: value,
        }),
        MatchType::Optional => FieldMatchType::Optional(Optional { value }),
        MatchType::Unspecified => return None,
    };
    Some(FieldMatch {
        field_id: field.id,
        field_match_type: Some(matched),
    })
}

fn call(p4info: &P4Info, action: u32, number: usize) -> TableAction {
    let has_id = |it: &&p4runtime_proto::p4::config::v1::Action| {
        it.preamble
            .as_ref()
            .is_some_and(|preamble| preamble.id == action)
    };
    let declared = p4info.actions.iter().find(has_id);
    let params = declared.into_iter().flat_map(|action| &action.params);
    let params = params.map(|param| action::Param {
        param_id: param.id,
        value: Form::of(p4info, param.type_name.as_ref(), param.bitwidth).value(number + 1),
    });
    TableAction {
        r#type: Some(table_action::Type::Action(Action {
            action_id: action,
            params: params.collect(),
        })),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bits(u32),
    /// A string that stands for a number (`@p4runtime_translation`).
    String,
}

impl Form {
    fn of(p4info: &P4Info, name: Option<&P4NamedType>, bitwidth: i32) -> Self {
        match translation(p4info, name).and_then(|it| it.sdn_type.as_ref()) {
            Some(SdnType::SdnString(_)) => Self::String,
            _ => Self::Bits(u32::try_from(bitwidth).unwrap_or(0)),
        }
    }

    /// A small number, as random packets' fields often have.
    fn value(self, number: usize) -> Vec<u8> {
        let Self::Bits(bits) = self else {
            return format!("name-{number}").into_bytes();
        };
        let mask = 1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1);
        canonical((number as u64 & mask).to_be_bytes().to_vec())
    }
}

/// The translation of a type for controllers, if it has one.
fn translation<'a>(
    p4info: &'a P4Info,
    name: Option<&P4NamedType>,
) -> Option<&'a P4NewTypeTranslation> {
    let spec = p4info.type_info.as_ref()?.new_types.get(&name?.name)?;
    match spec.representation.as_ref()? {
        Representation::TranslatedType(translation) => Some(translation),
        Representation::OriginalType(_) => None,
    }
}

fn ones(bitwidth: i32) -> Vec<u8> {
    let bits = usize::try_from(bitwidth).unwrap_or(0);
    let mut bytes = vec![0xff; bits.div_ceil(8)];
    if let Some(first) = bytes.first_mut().filter(|_| bits % 8 != 0) {
        *first = (1 << (bits % 8)) - 1;
    }
    bytes
}

/// Removes leading zero bytes, as P4Runtime requires.
fn canonical(bytes: Vec<u8>) -> Vec<u8> {
    match bytes.iter().position(|byte| *byte != 0) {
        Some(first) => bytes[first..].to_vec(),
        None => vec![0],
    }
}
