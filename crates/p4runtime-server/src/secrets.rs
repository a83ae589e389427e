//! Fields of keys that no reader is given (`@secret`): what an `exact` field is to be is read as zero, the others as if
//! any value would do. [`control::Reading`] hides arguments and registers.

use p4runtime_proto::p4::v1::TableEntry;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType};

use crate::pipeline::{Pipeline, Table};

/// Hides what an entity that is read has of secret fields.
pub(crate) fn hide_key(pipeline: &Pipeline, kind: &mut Kind) {
    let entry = match kind {
        Kind::TableEntry(entry) => Some(entry),
        Kind::DirectCounterEntry(entry) => entry.table_entry.as_mut(),
        Kind::DirectMeterEntry(entry) => entry.table_entry.as_mut(),
        _ => None,
    };
    let Some(entry) = entry else { return };
    if let Ok(table) = pipeline.table(entry.table_id) {
        hide(table, entry);
    }
}

/// The same of an entry of this table.
pub(crate) fn hide(table: &Table, entry: &mut TableEntry) {
    if !table.fields.iter().any(|field| field.is_secret) {
        return;
    }
    let is_secret = |id: u32| {
        let mut fields = table.fields.iter();
        fields.any(|field| field.id == id && field.is_secret)
    };
    entry
        .r#match
        .retain_mut(|field| match &mut field.field_match_type {
            _ if !is_secret(field.field_id) => true,
            Some(FieldMatchType::Exact(exact)) => {
                *exact = Exact { value: vec![0] };
                true
            }
            _ => false,
        });
}
