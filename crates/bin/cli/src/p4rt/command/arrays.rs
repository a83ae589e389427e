//! Commands for counters, meters and registers: cells of an array, or entries of a table.

use p4runtime_client::bytestring::parse_number;
use p4runtime_client::entities::every_entry;
use p4runtime_client::{Object, alias, id_of};
use p4runtime_proto::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime_proto::p4::config::v1::{self as config};
use p4runtime_proto::p4::v1::{
    CounterData, CounterEntry, DirectCounterEntry, DirectMeterEntry, Index, MeterCounterData,
    MeterEntry, RegisterEntry, TableEntry, entity, update,
};

use super::{Command, Keeps, Query, query, read, write};
use crate::p4rt::schema::{Parsed, Schema};
use crate::p4rt::typed::{self, Items, KeyUse, counts, rates, table_entry};
use crate::p4rt::words::Item;

/// What the name of a counter or meter refers to.
enum Found<'s> {
    Array(u32, i64),
    /// The direct counter or meter of this table.
    Direct(&'s config::Table),
}

/// Finds an array of counters or meters by its name, or a table's direct counter or meter by its own name or by the
/// table's name.
fn counted<'s>(schema: &'s Schema, kind: &str, name: &str) -> Parsed<Found<'s>> {
    let (array, direct) = match kind {
        "counter" => (
            schema
                .counter(name)
                .map(|it| (id_of(it.preamble.as_ref()), it.size)),
            schema.direct_counter(name).map(|it| it.direct_table_id),
        ),
        _ => (
            schema
                .meter(name)
                .map(|it| (id_of(it.preamble.as_ref()), it.size)),
            schema.direct_meter(name).map(|it| it.direct_table_id),
        ),
    };
    let of_table = |id: u32| match kind {
        "counter" => schema.direct_counter_of(id).is_some(),
        _ => schema.direct_meter_of(id).is_some(),
    };
    let message = match (array, direct) {
        (Ok(_), Ok(_)) => {
            return Err(format!(
                "\"{name}\" is a {kind} and a direct {kind}: use the full name of one (`info`)"
            ));
        }
        (Ok((id, size)), _) => return Ok(Found::Array(id, size)),
        (_, Ok(id)) => {
            let table = schema.table_by_id(id);
            return table
                .map(Found::Direct)
                .ok_or_else(|| format!("direct {kind} \"{name}\" has no table in the P4Info"));
        }
        (Err(message), Err(_)) => message,
    };
    match schema.table(name) {
        Ok(table) if of_table(id_of(table.preamble.as_ref())) => Ok(Found::Direct(table)),
        Ok(_) => Err(format!("table \"{name}\" has no direct {kind}")),
        Err(_) => {
            let (arrays, directs) = match kind {
                "counter" => (Object::Counter, Object::DirectCounter),
                _ => (Object::Meter, Object::DirectMeter),
            };
            let names = [arrays, directs];
            let names = names.iter().flat_map(|it| schema.preambles(*it)).map(alias);
            let names: Vec<&str> = names.collect();
            Err(match names::nearest(name, names.iter().copied()) {
                Some(near) => format!("no {kind} \"{name}\", did you mean \"{near}\"?"),
                None if names.is_empty() => message,
                None => format!("no {kind} \"{name}\", there are {}", names.join(", ")),
            })
        }
    }
}

/// Parses the index of a cell. Returns `None` for all cells.
fn index(items: &mut Items, size: i64, is_read: bool) -> Parsed<Option<Index>> {
    let word = match items.peek() {
        None if is_read => return Ok(None),
        _ => items.expect_word("an index, or * for every cell")?,
    };
    if word == "*" {
        return Ok(None);
    }
    let index = parse_number(&word).and_then(|it| i64::try_from(it).ok());
    let in_range = index.filter(|it| size <= 0 || *it < size);
    in_range.map(|index| Some(Index { index })).ok_or_else(|| {
        let last = size.max(1) - 1;
        format!("expected an index from 0 to {last}, or * for every cell, got \"{word}\"")
    })
}

/// Parses the key of an entry. Returns the entry, and separately the items that have one of the names in `values`, such
/// as `packets=`.
fn entry_key(
    schema: &Schema,
    table: &config::Table,
    items: &mut Items,
    values: &[&str],
    usage: KeyUse,
) -> Parsed<(TableEntry, Items)> {
    let (mut key, mut rest) = (Vec::new(), Vec::new());
    while let Some(item) = items.next() {
        match &item {
            Item::Pair(name, _) if values.contains(&name.as_str()) => rest.push(item),
            _ => key.push(item),
        }
    }
    let mut key = Items::new(key);
    let entry = table_entry(schema, table, &mut key, usage)?;
    items.note(&mut key.into_notes());
    Ok((entry, Items::new(rest)))
}

const COUNT_WORDS: &[&str] = &["packets", "bytes"];
const RATE_WORDS: &[&str] = &["cir", "cburst", "pir", "pburst", "eburst"];

/// The command that reads the counters or meters of all entries that match a filter.
fn filtered(entity: impl Fn(TableEntry) -> entity::Entity, filter: TableEntry) -> Command {
    let all = every_entry(filter.table_id);
    Command::Read(Query {
        keeps: Keeps::Like(Box::new(filter)),
        ..query([entity(all)])
    })
}

pub(super) fn counter(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
    let is_read = verb == "list";
    let cells = |counter_id, index, data| {
        entity::Entity::CounterEntry(CounterEntry {
            counter_id,
            index,
            data,
        })
    };
    let direct = |entry: TableEntry, data| {
        entity::Entity::DirectCounterEntry(DirectCounterEntry {
            table_entry: Some(entry),
            data,
        })
    };
    if is_read && items.is_empty() {
        let mut all = vec![cells(0, None, None)];
        let tables = schema
            .p4info
            .direct_counters
            .iter()
            .map(|it| it.direct_table_id);
        all.extend(tables.map(|table_id| direct(every_entry(table_id), None)));
        return Ok(read(all));
    }
    let name = items.expect_word("a counter's name")?;
    match counted(schema, "counter", &name)? {
        Found::Array(id, size) => {
            let index = index(items, size, is_read)?;
            if is_read {
                return Ok(read([cells(id, index, None)]));
            }
            let data = match verb {
                "reset" => CounterData::default(),
                _ => counts(items)?,
            };
            Ok(write(update::Type::Modify, cells(id, index, Some(data))))
        }
        Found::Direct(table) if is_read => {
            let filter = table_entry(schema, table, items, KeyUse::Filter)?;
            Ok(filtered(|entry| direct(entry, None), filter))
        }
        Found::Direct(table) => {
            let (entry, mut rest) = entry_key(schema, table, items, COUNT_WORDS, KeyUse::Whole)?;
            let data = match verb {
                "reset" => {
                    rest.end()?;
                    CounterData::default()
                }
                _ => counts(&mut rest)?,
            };
            Ok(write(update::Type::Modify, direct(entry, Some(data))))
        }
    }
}

pub(super) fn meter(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
    let is_read = verb == "list";
    let counted_too = is_read.then(MeterCounterData::default);
    let cells = |meter_id, index, config| {
        entity::Entity::MeterEntry(MeterEntry {
            meter_id,
            index,
            config,
            counter_data: counted_too,
        })
    };
    let direct = |entry: TableEntry, config| {
        entity::Entity::DirectMeterEntry(DirectMeterEntry {
            table_entry: Some(entry),
            config,
            counter_data: counted_too,
        })
    };
    if is_read && items.is_empty() {
        let mut all = vec![cells(0, None, None)];
        let tables = schema
            .p4info
            .direct_meters
            .iter()
            .map(|it| it.direct_table_id);
        all.extend(tables.map(|table_id| direct(every_entry(table_id), None)));
        return Ok(read(all));
    }
    let name = items.expect_word("a meter's name")?;
    match counted(schema, "meter", &name)? {
        Found::Array(id, size) => {
            let index = index(items, size, is_read)?;
            if is_read {
                return Ok(read([cells(id, index, None)]));
            }
            let config = (verb == "set").then(|| rates(items)).transpose()?;
            Ok(write(update::Type::Modify, cells(id, index, config)))
        }
        Found::Direct(table) if is_read => {
            let filter = table_entry(schema, table, items, KeyUse::Filter)?;
            Ok(filtered(|entry| direct(entry, None), filter))
        }
        Found::Direct(table) => {
            let (entry, mut rest) = entry_key(schema, table, items, RATE_WORDS, KeyUse::Whole)?;
            let config = match verb {
                "reset" => {
                    rest.end()?;
                    None
                }
                _ => Some(rates(&mut rest)?),
            };
            Ok(write(update::Type::Modify, direct(entry, config)))
        }
    }
}

pub(super) fn register(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
    let cells = |register_id, index, data| {
        entity::Entity::RegisterEntry(RegisterEntry {
            register_id,
            index,
            data,
        })
    };
    let is_read = verb == "list";
    if is_read && items.is_empty() {
        return Ok(read([cells(0, None, None)]));
    }
    let name = items.expect_word("a register's name")?;
    let register = schema.register(&name)?;
    let id = id_of(register.preamble.as_ref());
    let index = index(items, i64::from(register.size), is_read)?;
    if is_read {
        return Ok(read([cells(id, index, None)]));
    }
    let short = register.preamble.as_ref().map_or("", alias);
    let value = match items.next() {
        Some(Item::Value(value)) => value,
        Some(item) => return Err(format!("expected a value, got \"{item}\"")),
        None => return Err("expected a value, the line ends".to_owned()),
    };
    let data = typed::data(schema, &value, register_spec(register), short)
        .map_err(|message| format!("register \"{short}\": {message}"))?;
    Ok(write(update::Type::Modify, cells(id, index, Some(data))))
}

fn register_spec(register: &config::Register) -> Option<&TypeSpec> {
    register.type_spec.as_ref()?.type_spec.as_ref()
}
