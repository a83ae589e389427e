//! Reads keys, arguments and ids from P4Runtime's messages.

use std::net::Ipv4Addr;

use conference::entities;
use p4runtime_proto::p4::v1::{TableEntry, field_match, table_action};

use super::Key;

pub(super) fn key_of(entry: &TableEntry) -> Key {
    entry
        .r#match
        .iter()
        .map(|field| (field.field_id, entities::bytes(number(field))))
        .collect()
}

pub(super) fn number(field: &p4runtime_proto::p4::v1::FieldMatch) -> u64 {
    match &field.field_match_type {
        Some(field_match::FieldMatchType::Exact(exact)) => {
            entities::number(&exact.value).expect("64 bits")
        }
        other => unreachable!("{other:?}"),
    }
}

pub(super) fn exact(field_id: u32, value: u64) -> p4runtime_proto::p4::v1::FieldMatch {
    let value = field_match::Exact {
        value: entities::bytes(value),
    };
    p4runtime_proto::p4::v1::FieldMatch {
        field_id,
        field_match_type: Some(field_match::FieldMatchType::Exact(value)),
    }
}

pub(super) fn arg(entry: &TableEntry, idx: usize) -> u64 {
    match entry
        .action
        .as_ref()
        .and_then(|action| action.r#type.as_ref())
    {
        Some(table_action::Type::Action(action)) => {
            entities::number(&action.params[idx].value).expect("64 bits")
        }
        other => unreachable!("{other:?}"),
    }
}

pub(super) fn ip(value: u64) -> Ipv4Addr {
    Ipv4Addr::from(u32::try_from(value).expect("32 bits"))
}

pub(super) fn id_of(preamble: Option<&p4runtime_proto::p4::config::v1::Preamble>) -> u32 {
    preamble.map_or(0, |p| p.id)
}

pub(super) fn index_of(index: Option<&p4runtime_proto::p4::v1::Index>) -> u32 {
    u32::try_from(index.expect("an index").index).expect("32 bits")
}
