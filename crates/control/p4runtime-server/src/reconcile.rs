//! `RECONCILE_AND_COMMIT`: converts the state of a pipeline to operations for the pipeline that replaces it.
//!
//! Everything that controllers have written is carried over, matched by P4Info ids, with current counts and registers.
//! Constant entries are not carried over; they come from the new program. The new program's other initial entries are
//! replaced by the old pipeline's entries. If an object with entries, members, rates or a default action is gone or has
//! changed, the state cannot be preserved. Counts and registers of missing objects or cells are dropped. The counts and
//! buckets of meters and the times of entries' last hits are not preserved.
//!
//! `@secret` values are carried over to the same program only: another program could lack the annotation, or put a
//! secret key into a packet.
//!
//! Source: P4Runtime 1.5.0, "SetForwardingPipelineConfig RPC".

use std::collections::BTreeMap;

use control::{Checked, EntryKey, EntryUpdate, Exclusive, Operation, blank_switch};
use dataplane::{Switch, TableAction};
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, CounterData, CounterEntry,
    DigestEntry, Entity, MeterConfig, MeterEntry, MulticastGroupEntry,
    PacketReplicationEngineEntry, RegisterEntry, TableEntry, Update, ValueSetEntry,
};
use tonic::Code;

use crate::device::{Device, Target};
use crate::entity;
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{Pipeline, Table};
use crate::read::find;
use crate::secrets;

/// The operations that reproduce the committed pipeline's state in the new pipeline.
pub(crate) async fn reconcile(
    device: &Device,
    exclusive: &Exclusive,
    checked: &Checked,
) -> EntityResult<Vec<Operation>> {
    let view = checked.view::<Pipeline>();
    let new = view.expect("the server has checked it");
    let Some(old) = device.committed() else {
        return Ok(Vec::new());
    };
    let state = state(exclusive, &old).await?;
    if !old.pipeline.is_same_program(&new) {
        expect_no_secrets(&old.pipeline, &state)?;
    }
    let mut operations = without_initial_entries(&new);
    for entity in state {
        if let Some(operation) = carried_over(&new, entity)? {
            operations.push(operation);
        }
    }
    Ok(operations)
}

pub(crate) fn not_preserved(error: EntityError) -> EntityError {
    EntityError::invalid(format!(
        "the forwarding state cannot be preserved: {}",
        error.message
    ))
}

/// Refuses to carry secrets over to another program, even if that program marks the same fields as secret.
fn expect_no_secrets(old: &Pipeline, state: &[Entity]) -> EntityResult {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for object in state.iter().filter_map(|it| secrets::holder(old, it)) {
        *found.entry(object).or_default() += 1;
    }
    if found.is_empty() {
        return Ok(());
    }
    let found = found.iter().map(|(object, n)| format!("{n} of {object}"));
    let found: Vec<_> = found.collect();
    let message = format!(
        "@secret values are carried over only to the same program with the same P4Info, and such values are in {}: nothing is \
         changed; set the program with VERIFY_AND_COMMIT and write its entries and cells anew",
        found.join(", ")
    );
    Err(EntityError::new(Code::FailedPrecondition, message))
}

/// The old pipeline's entities, in an order in which they can be inserted.
async fn state(exclusive: &Exclusive, old: &Target) -> EntityResult<Vec<Entity>> {
    let pipeline = &*old.pipeline;
    let registers = pipeline.registers().filter(|it| it.cell.bits().is_some());
    let registers = registers.map(|register| {
        Kind::RegisterEntry(RegisterEntry {
            register_id: register.id,
            ..RegisterEntry::default()
        })
    });
    let first = [
        Kind::ActionProfileMember(ActionProfileMember::default()),
        Kind::ActionProfileGroup(ActionProfileGroup::default()),
        Kind::CounterEntry(CounterEntry::default()),
        Kind::MeterEntry(MeterEntry::default()),
        Kind::ValueSetEntry(ValueSetEntry::default()),
        Kind::DigestEntry(DigestEntry::default()),
        replication(Replication::MulticastGroupEntry(
            MulticastGroupEntry::default(),
        )),
        replication(Replication::CloneSessionEntry(CloneSessionEntry::default())),
    ];
    let mut requests: Vec<_> = first.into_iter().chain(registers).collect();
    requests.extend(pipeline.tables().map(entries));
    let defaults = other_defaults(exclusive, old).await?;
    requests.extend(defaults.map(|table| {
        Kind::TableEntry(TableEntry {
            table_id: table.id,
            is_default_action: true,
            ..TableEntry::default()
        })
    }));
    find(
        exclusive.reading(&old.device).with_secrets(),
        pipeline,
        &requests,
    )
    .await
}

fn replication(of: Replication) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(of) })
}

/// Makes a filter that requests a table's entries with everything that a client can write.
fn entries(table: &Table) -> Kind {
    Kind::TableEntry(TableEntry {
        table_id: table.id,
        counter_data: table.has_direct_counter.then(CounterData::default),
        meter_config: table.direct_meter.map(|_| MeterConfig::default()),
        ..TableEntry::default()
    })
}

/// Returns the tables whose current default action differs from the default action in the program.
async fn other_defaults<'a>(
    exclusive: &Exclusive,
    old: &'a Target,
) -> EntityResult<impl Iterator<Item = &'a Table>> {
    let fresh = blank_switch(old.pipeline.program());
    let tables: Vec<_> = old.pipeline.tables().collect();
    let ids: Vec<_> = tables.iter().map(|table| table.table).collect();
    let read = move |switch: &Switch| -> Vec<Option<TableAction>> {
        let actions = ids.iter().map(|id| switch.default_action(*id));
        actions.collect()
    };
    let reading = exclusive.reading(&old.device);
    let actions = reading.of_first(read).await?;
    let tables = tables.into_iter().zip(actions);
    Ok(tables
        .filter(move |(table, action)| *action != fresh.default_action(table.table))
        .map(|(table, _)| table))
}

/// Returns operations that delete the new program's initial entries, except constant ones. The old pipeline's entries
/// are inserted afterwards.
fn without_initial_entries(new: &Pipeline) -> Vec<Operation> {
    let switch = blank_switch(new.program());
    let of_table = |table: &Table| {
        let entries = switch.entries(table.table);
        let entries = entries.into_iter().filter(|entry| !entry.is_const);
        let delete = |entry: dataplane::TableEntry| {
            Operation::Entry(EntryUpdate::Delete(EntryKey {
                table: table.table,
                key: entry.key,
                priority: entry.priority,
            }))
        };
        entries.map(delete).collect::<Vec<_>>()
    };
    new.tables().flat_map(of_table).collect()
}

/// The operation that makes an entity in the new pipeline. `None` if the entity has its initial value, is constant,
/// or is a count or register of an object that is gone.
fn carried_over(new: &Pipeline, entity: Entity) -> EntityResult<Option<Operation>> {
    let Some(kind) = &entity.entity else {
        return Ok(None);
    };
    let of = match kind {
        Kind::TableEntry(entry) if entry.is_default_action => Type::Modify,
        // A constant entry comes with the program, so it is not carried over.
        Kind::TableEntry(entry) if entry.is_const => return Ok(None),
        Kind::CounterEntry(entry) if is_gone_or_zero_count(new, entry) => return Ok(None),
        Kind::RegisterEntry(entry) if is_gone_or_zero(new, entry) => return Ok(None),
        Kind::MeterEntry(entry) if entry.config.is_none() => return Ok(None),
        Kind::ValueSetEntry(entry) if entry.members.is_empty() => return Ok(None),
        Kind::CounterEntry(_)
        | Kind::RegisterEntry(_)
        | Kind::MeterEntry(_)
        | Kind::ValueSetEntry(_) => Type::Modify,
        _ => Type::Insert,
    };
    let update = Update {
        r#type: of as i32,
        entity: Some(without_default_const(entity)),
    };
    let operation = entity::operation(new, &update);
    operation.map(Some).map_err(not_preserved)
}

/// Clears `is_const`, which clients can read but not write.
fn without_default_const(mut entity: Entity) -> Entity {
    if let Some(Kind::TableEntry(entry)) = &mut entity.entity {
        entry.is_const = false;
    }
    entity
}

fn is_gone_or_zero_count(new: &Pipeline, entry: &CounterEntry) -> bool {
    let size = new
        .counter(entry.counter_id)
        .map_or(0, |counter| counter.size);
    entry.data.unwrap_or_default() == CounterData::default() || is_beyond(entry.index, size)
}

fn is_gone_or_zero(new: &Pipeline, entry: &RegisterEntry) -> bool {
    let Ok(register) = new.register(entry.register_id) else {
        return true;
    };
    let zero = register.cell.to_proto(&mut std::iter::once(&vec![0]));
    entry.data == zero || is_beyond(entry.index, register.size)
}

fn is_beyond(index: Option<p4runtime_proto::p4::v1::Index>, size: u64) -> bool {
    let index = index.map_or(0, |index| index.index.unsigned_abs());
    index >= size
}
