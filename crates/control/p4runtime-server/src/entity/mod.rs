//! P4 entities: converts updates to operations on the switch, and the switch's state to entities.
//!
//! An update is checked and translated before it is submitted. Checks that depend on the switch's state happen when the
//! switch executes the operation ([`control::Operation`]). Source: P4Runtime 1.5.0, "P4 Entity Messages".

pub(crate) mod action_profile;
pub(crate) mod counter;
pub(crate) mod digest;
pub(crate) mod generator;
pub(crate) mod meter;
pub(crate) mod register;
pub(crate) mod replication;
pub(crate) mod table_entry;
mod table_key;
pub(crate) mod value_set;

use std::ops::Range;

use control::Operation;
use dataplane::Switch;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{Entity, Index, Update};
use tonic::Code;

use crate::error::{EntityError, EntityResult};
use crate::pipeline::{NamesInUse, Pipeline};

/// Checks and translates an update.
pub(crate) fn operation(pipeline: &Pipeline, update: &Update) -> EntityResult<Operation> {
    let kind = match Type::try_from(update.r#type) {
        Ok(Type::Unspecified) | Err(_) => {
            return Err(EntityError::invalid(format!(
                "expected the update type INSERT, MODIFY or DELETE, found {}",
                update.r#type
            )));
        }
        Ok(kind) => kind,
    };
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(Kind::TableEntry(entry)) => table_entry::operation(pipeline, kind, entry),
        Some(Kind::CounterEntry(entry)) => counter::operation(pipeline, kind, entry),
        Some(Kind::DirectCounterEntry(entry)) => counter::direct_operation(pipeline, kind, entry),
        Some(Kind::ActionProfileMember(entry)) => {
            action_profile::member_operation(pipeline, kind, entry)
        }
        Some(Kind::ActionProfileGroup(entry)) => {
            action_profile::group_operation(pipeline, kind, entry)
        }
        Some(Kind::MeterEntry(entry)) => meter::operation(pipeline, kind, entry),
        Some(Kind::DirectMeterEntry(entry)) => meter::direct_operation(pipeline, kind, entry),
        Some(Kind::ValueSetEntry(entry)) => value_set::operation(pipeline, kind, entry),
        Some(Kind::DigestEntry(entry)) => digest::operation(pipeline, kind, entry),
        Some(Kind::RegisterEntry(entry)) => register::operation(pipeline, kind, entry),
        Some(Kind::ExternEntry(entry)) => generator::operation(kind, entry),
        Some(Kind::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
            Some(Replication::MulticastGroupEntry(entry)) => {
                replication::group_operation(kind, entry)
            }
            Some(Replication::CloneSessionEntry(entry)) => {
                replication::session_operation(kind, entry)
            }
            None => Err(unset("packet_replication_engine_entry.type")),
        },
        None => Err(unset("entity")),
    }
}

/// Collects the names (strings that controllers write in place of numbers) that entries, default actions, members,
/// value sets and registers use.
pub(crate) fn names_in_use(pipeline: &Pipeline, switch: &Switch) -> NamesInUse {
    let mut used = NamesInUse::default();
    for table in pipeline.tables().filter(|table| table.has_names()) {
        for entry in switch.entries(table.table) {
            table_entry::note_names(table, &entry, &mut used);
        }
        if let Some(action) = switch.default_action(table.table) {
            table_entry::note_names_of_action(table, &action, &mut used);
        }
        let Some(profile) = pipeline.profile_of(table) else {
            continue;
        };
        for member in switch.members(profile.profile) {
            table_entry::note_names_of_call(table, &member.action, &mut used);
        }
    }
    for set in pipeline.value_sets() {
        for member in switch.value_set(set.set) {
            table_key::note_names(&set.fields, &member, &mut used);
        }
    }
    for register in pipeline.registers() {
        register::note_names(register, switch, &mut used);
    }
    used
}

pub(crate) fn unset(field: &str) -> EntityError {
    EntityError::invalid(format!("expected {field} to be set, found it unset"))
}

/// Makes an insertion or a modification.
fn update<T, K>(kind: Type, value: T) -> control::Update<T, K> {
    match kind {
        Type::Insert => control::Update::Insert(value),
        _ => control::Update::Modify(value),
    }
}

/// Refuses every type of update except MODIFY, for an entity that always exists.
fn expect_modify(kind: Type, what: &str) -> EntityResult {
    if kind == Type::Modify {
        return Ok(());
    }
    Err(EntityError::invalid(format!(
        "{what} can only be modified, found the update type {}",
        kind.as_str_name()
    )))
}

/// The cells that an index selects in an array of `size` cells. Without an index, these are all cells.
pub(crate) fn cells(index: Option<Index>, size: u64, what: &str) -> EntityResult<Range<u64>> {
    let Some(Index { index }) = index else {
        return Ok(0..size);
    };
    let index = u64::try_from(index).map_err(|_| {
        EntityError::invalid(format!("{what}: expected an index from 0, found {index}"))
    })?;
    if index >= size {
        return Err(EntityError::new(
            Code::OutOfRange,
            format!("{what}: expected an index below {size}, found {index}"),
        ));
    }
    Ok(index..index + 1)
}

pub(crate) fn index(cell: u64) -> Option<Index> {
    let index = i64::try_from(cell).expect("arrays are far shorter than 2^63 cells");
    Some(Index { index })
}

pub(crate) fn entity(kind: Kind) -> Entity {
    Entity { entity: Some(kind) }
}
