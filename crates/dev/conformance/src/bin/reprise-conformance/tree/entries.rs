//! Generates entries for every table from the P4Info alone, as a controller would.
//!
//! The first entry of a table gives every field a value. The second omits every optional field.
//! Further entries use other values, until every action has occurred.

use p4runtime_client::bytestring::{bytes, ones};
use p4runtime_client::entities::{self, action, default_entry, every_entry, table_action};
use p4runtime_client::field_match::Match;
use p4runtime_client::{P4InfoIndex, has_order, id_of, match_type};
use p4runtime_proto::p4::config::v1::match_field::MatchType;
use p4runtime_proto::p4::config::v1::p4_new_type_spec::Representation;
use p4runtime_proto::p4::config::v1::p4_new_type_translation::SdnType;
use p4runtime_proto::p4::config::v1::{
    Action, MatchField, P4NamedType, P4NewTypeTranslation, Table,
};
use p4runtime_proto::p4::v1::{FieldMatch, TableAction, TableEntry, Update};

/// Number of entries per table, unless the table's actions need more entries or the table's size allows fewer.
const ENTRIES: usize = 4;

pub fn has_key(table: &Table) -> bool {
    !table.match_fields.is_empty()
}

/// Returns whether a controller can insert entries. Returns false for tables with an action profile, which are left
/// out.
pub fn is_writable(table: &Table) -> bool {
    has_key(table) && !table.is_const_table && table.implementation_id == 0
}

/// Makes entries for a table, with distinct keys, and a default action.
pub fn of_table(index: &P4InfoIndex, table: &Table) -> Vec<Update> {
    let entries = if is_writable(table) {
        entries(index, table)
    } else {
        Vec::new()
    };
    let entries = entries.into_iter().map(entities::of_table);
    let inserts = entries.map(entities::insert);
    inserts.chain(default_of(index, table)).collect()
}

fn entries(index: &P4InfoIndex, table: &Table) -> Vec<TableEntry> {
    let actions = index.actions_of(table, false);
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
        let key: Option<Vec<FieldMatch>> = keys(index, table, number).into_iter().collect();
        let Some(key) = key else { break };
        if entries.iter().any(|entry| entry.r#match == key) {
            continue;
        }
        let priority = if has_order(table) { number + 1 } else { 0 };
        entries.push(TableEntry {
            r#match: key,
            action: Some(call(index, actions[number % actions.len()], number)),
            priority: i32::try_from(priority).unwrap_or(i32::MAX),
            ..every_entry(id_of(table.preamble.as_ref()))
        });
    }
    entries
}

/// Makes another default action, unless the program fixes the default action.
fn default_of(index: &P4InfoIndex, table: &Table) -> Option<Update> {
    let is_open = table.const_default_action_id == 0 && table.implementation_id == 0;
    let actions = index.actions_of(table, true);
    let last = actions.last().filter(|_| is_open)?;
    let entry = TableEntry {
        action: Some(call(index, last, 0)),
        ..default_entry(id_of(table.preamble.as_ref()))
    };
    Some(entities::modify(entities::of_table(entry)))
}

/// Makes the key of entry `number`. A field with an unknown match kind is `None`.
fn keys(index: &P4InfoIndex, table: &Table, number: usize) -> Vec<Option<FieldMatch>> {
    let fields = table.match_fields.iter().map(|field| {
        let form = Form::of(index, field.type_name.as_ref(), field.bitwidth);
        (field, form)
    });
    // A field of zero bits must be omitted if its match kind allows the omission. A translated field must be omitted
    // too if its match kind needs more than a single value.
    let is_left_out = |(field, form): &(&MatchField, Form)| match match_type(field) {
        Some(MatchType::Exact) => false,
        Some(MatchType::Optional) => number == 1 || *form == Form::Bits(0),
        _ => {
            let is_translated = translation(index, field.type_name.as_ref()).is_some();
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
    let bits = u32::try_from(field.bitwidth).unwrap_or(0);
    let matched = match match_type(field)? {
        MatchType::Exact => Match::Exact(value),
        MatchType::Lpm => Match::Lpm(value, field.bitwidth),
        MatchType::Ternary => Match::Ternary(value, ones(bits, bits)),
        MatchType::Range => Match::Range(value.clone(), value),
        MatchType::Optional => Match::Optional(value),
        MatchType::Unspecified => return None,
    };
    Some(matched.field(field.id))
}

fn call(index: &P4InfoIndex, called: &Action, number: usize) -> TableAction {
    let params = called.params.iter().map(|param| {
        let form = Form::of(index, param.type_name.as_ref(), param.bitwidth);
        (param.id, form.value(number + 1))
    });
    table_action(action(id_of(called.preamble.as_ref()), params))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bits(u32),
    /// A string that represents a number (`@p4runtime_translation`).
    String,
}

impl Form {
    fn of(index: &P4InfoIndex, name: Option<&P4NamedType>, bitwidth: i32) -> Self {
        match translation(index, name).and_then(|it| it.sdn_type.as_ref()) {
            Some(SdnType::SdnString(_)) => Self::String,
            _ => Self::Bits(u32::try_from(bitwidth).unwrap_or(0)),
        }
    }

    /// Returns a value for entry `number`. The value is small, because fields of random packets often contain small
    /// numbers.
    fn value(self, number: usize) -> Vec<u8> {
        let Self::Bits(bits) = self else {
            return format!("name-{number}").into_bytes();
        };
        let mask = 1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1);
        bytes(number as u64 & mask)
    }
}

/// Returns the translation of a type for controllers, if the type has a translation.
fn translation<'a>(
    index: &'a P4InfoIndex,
    name: Option<&P4NamedType>,
) -> Option<&'a P4NewTypeTranslation> {
    let types = index.p4info.type_info.as_ref()?;
    let spec = types.new_types.get(&name?.name)?;
    match spec.representation.as_ref()? {
        Representation::TranslatedType(translation) => Some(translation),
        Representation::OriginalType(_) => None,
    }
}
