//! Reads keys, arguments and indices from P4Runtime messages, and makes exact matches.

use std::net::Ipv4Addr;

use p4runtime_client::bytestring;
use p4runtime_client::field_match::Match;
use p4runtime_proto::p4::v1::{FieldMatch, Index, TableEntry, table_action};

use super::Key;

pub(super) fn key_of(entry: &TableEntry) -> Key {
    let fields = entry.r#match.iter();
    fields
        .map(|field| (field.field_id, bytestring::bytes(number(field))))
        .collect()
}

pub(super) fn number(field: &FieldMatch) -> u64 {
    match Match::of(field) {
        Some(Match::Exact(value)) => bytestring::number(&value).expect("64 bits"),
        other => unreachable!("{other:?}"),
    }
}

pub(super) fn exact(field_id: u32, value: u64) -> FieldMatch {
    Match::Exact(bytestring::bytes(value)).field(field_id)
}

pub(super) fn arg(entry: &TableEntry, idx: usize) -> u64 {
    match entry
        .action
        .as_ref()
        .and_then(|action| action.r#type.as_ref())
    {
        Some(table_action::Type::Action(action)) => {
            bytestring::number(&action.params[idx].value).expect("64 bits")
        }
        other => unreachable!("{other:?}"),
    }
}

pub(super) fn ip(value: u64) -> Ipv4Addr {
    Ipv4Addr::from(u32::try_from(value).expect("32 bits"))
}

pub(super) fn index_of(index: Option<&Index>) -> u32 {
    u32::try_from(index.expect("an index").index).expect("32 bits")
}
