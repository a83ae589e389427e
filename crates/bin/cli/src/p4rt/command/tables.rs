//! Commands for tables and action profiles.

use p4runtime_client::entities::{default_entry, every_entry};
use p4runtime_client::{alias, id_of};
use p4runtime_proto::p4::config::v1::{self as config};
use p4runtime_proto::p4::v1::table_entry::IdleTimeout;
use p4runtime_proto::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CounterData, MeterConfig, MeterCounterData,
    TableEntry, entity, update,
};

use super::{Command, Keeps, Query, change, query, read, write};
use crate::p4rt::schema::{Parsed, Schema};
use crate::p4rt::typed::{self, Items, KeyUse, number_u32, table_entry};

pub(super) fn table(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
    if verb == "list" && items.is_empty() {
        return Ok(read(all_tables(schema)?));
    }
    let name = items.expect_word("a table's name")?;
    let table = schema.table(&name)?;
    let id = id_of(table.preamble.as_ref());
    let short = table.preamble.as_ref().map_or("", alias);
    match verb {
        "list" if items.is_empty() => Ok(read([entries_of(schema, table), default_of(id)])),
        "list" => {
            let filter = table_entry(schema, table, items, KeyUse::Filter)?;
            Ok(Command::Read(Query {
                keeps: Keeps::Like(Box::new(filter)),
                ..query([entries_of(schema, table)])
            }))
        }
        "get" => {
            let wanted = table_entry(schema, table, items, KeyUse::Whole)?;
            if wanted.action.is_some() {
                return Err(
                    "`table get` takes a key; `table list TABLE -> ACTION` finds by action"
                        .to_owned(),
                );
            }
            Ok(Command::Read(Query {
                is_one: true,
                ..query([with_resources(schema, table, wanted)])
            }))
        }
        "clear" => {
            items.end()?;
            let all = entity::Entity::TableEntry(every_entry(id));
            Ok(Command::Clear(query([all])))
        }
        "default" if items.is_empty() => Ok(read([default_of(id)])),
        "default" | "reset" => {
            let entry = table_entry(schema, table, items, KeyUse::Default)?;
            if (verb == "reset") == entry.action.is_some() {
                return Err(format!(
                    "expected `table default {short} -> ACTION(...)`, or `table reset {short}` for the program's own"
                ));
            }
            Ok(write(
                update::Type::Modify,
                entity::Entity::TableEntry(entry),
            ))
        }
        _ => {
            let kind = change(verb).unwrap_or(update::Type::Unspecified);
            let entry = table_entry(schema, table, items, KeyUse::Whole)?;
            let is_delete = kind == update::Type::Delete;
            if is_delete && entry.action.is_some() {
                return Err("`table delete` takes a key, without \"->\"".to_owned());
            }
            if kind == update::Type::Insert && entry.action.is_none() {
                return Err(format!(
                    "expected \"-> ACTION(...)\" after the key of table \"{short}\", the line ends"
                ));
            }
            Ok(write(kind, entity::Entity::TableEntry(entry)))
        }
    }
}

/// Returns what a read must ask for to get all entries of each table, with the default entry last.
pub(super) fn all_tables(schema: &Schema) -> Parsed<Vec<entity::Entity>> {
    schema.expect_names()?;
    let mut all = Vec::new();
    for table in &schema.p4info.tables {
        if !table.match_fields.is_empty() {
            all.push(entries_of(schema, table));
        }
        all.push(default_of(id_of(table.preamble.as_ref())));
    }
    Ok(all)
}

fn entries_of(schema: &Schema, table: &config::Table) -> entity::Entity {
    let id = id_of(table.preamble.as_ref());
    with_resources(schema, table, every_entry(id))
}

/// Returns `entry` as the entity of a read, and asks in it for the parts that a switch returns only on request.
fn with_resources(schema: &Schema, table: &config::Table, entry: TableEntry) -> entity::Entity {
    use config::table::IdleTimeoutBehavior;
    let id = id_of(table.preamble.as_ref());
    let has_counter = schema.direct_counter_of(id).is_some();
    let has_meter = schema.direct_meter_of(id).is_some();
    let has_timeout = table.idle_timeout_behavior() != IdleTimeoutBehavior::NoTimeout;
    entity::Entity::TableEntry(TableEntry {
        counter_data: has_counter.then(CounterData::default),
        meter_config: has_meter.then(MeterConfig::default),
        meter_counter_data: has_meter.then(MeterCounterData::default),
        time_since_last_hit: has_timeout.then(IdleTimeout::default),
        ..entry
    })
}

fn default_of(table_id: u32) -> entity::Entity {
    entity::Entity::TableEntry(default_entry(table_id))
}

/// Parses the name of a profile and the id of an object in it. Returns the ids of both. An id that the line does not
/// give is 0, which means any.
fn of_profile(schema: &Schema, items: &mut Items, what: &str) -> Parsed<(u32, u32)> {
    let Some(name) = items.word() else {
        return Ok((0, 0));
    };
    let profile = schema.profile(&name)?;
    let id = if items.is_empty() {
        0
    } else {
        number_u32(items, what)?
    };
    Ok((id_of(profile.preamble.as_ref()), id))
}

pub(super) fn member(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
    if let Some(kind) = change(verb) {
        let has_action = kind != update::Type::Delete;
        let member = typed::member(schema, items, has_action)?;
        return Ok(write(kind, entity::Entity::ActionProfileMember(member)));
    }
    let (action_profile_id, member_id) = of_profile(schema, items, "a member's id")?;
    Ok(read([entity::Entity::ActionProfileMember(
        ActionProfileMember {
            action_profile_id,
            member_id,
            action: None,
        },
    )]))
}

pub(super) fn group(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
    if let Some(kind) = change(verb) {
        let has_members = kind != update::Type::Delete;
        let group = typed::group(schema, items, has_members)?;
        return Ok(write(kind, entity::Entity::ActionProfileGroup(group)));
    }
    let (action_profile_id, group_id) = of_profile(schema, items, "a group's id")?;
    Ok(read([entity::Entity::ActionProfileGroup(
        ActionProfileGroup {
            action_profile_id,
            group_id,
            ..ActionProfileGroup::default()
        },
    )]))
}
