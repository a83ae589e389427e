//! A line as a command: updates, reads, and what else a line asks for.

use std::path::PathBuf;

use p4runtime_proto::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime_proto::p4::config::v1::{self as config};
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use p4runtime_proto::p4::v1::table_entry::IdleTimeout;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, CounterData, CounterEntry,
    DigestEntry, DirectCounterEntry, DirectMeterEntry, Entity, Index, MeterConfig,
    MeterCounterData, MeterEntry, MulticastGroupEntry, PacketMetadata, PacketOut,
    PacketReplicationEngineEntry, RegisterEntry, TableEntry, Update, ValueSetEntry, digest_entry,
    entity, table_action, update,
};

use super::grammar::usage;
use super::print;
use super::schema::{Object, Parsed, Schema, alias, number};
use super::typed::{
    self, Items, KeyUse, attribute, count_of, counts, duration_of, hex_bytes, hex_of, number_u32,
    rates, replicas, table_entry, value_set_members,
};
use super::words::{Item, Value, items};
use crate::entries::file::id_of;

/// A batch of updates or a read of entities, and what else a line asks for.
#[derive(Clone, Debug)]
pub enum Command {
    Write(Vec<Update>),
    Read(Query),
    /// Delete all entries that the query finds.
    Clear(Query),
    Watch(Watch),
    PacketOut(PacketOut),
    SetPipeline {
        action: PipelineAction,
        program: PathBuf,
        p4info: Option<PathBuf>,
        cookie: Option<u64>,
    },
    CommitPipeline,
    ShowPipeline,
    SaveP4Info(PathBuf),
    SaveConfig(PathBuf),
    Reload,
    Info(Option<String>),
    Begin(Atomicity),
    Commit,
    Abort,
    ShowPrimary,
    TakePrimary(Option<u128>),
    ReleasePrimary,
    Capabilities,
    Source(PathBuf),
    Help(Option<String>),
    Exit,
}

/// A read.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub entities: Vec<Entity>,
    /// What an entry has to have; the rest of it is any.
    pub filter: Option<TableEntry>,
    /// Exactly one is expected.
    pub is_one: bool,
}

/// What to print of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    pub packets: bool,
    pub digests: bool,
    pub idle: bool,
    /// Confirm digests.
    pub acknowledges: bool,
    pub count: Option<u64>,
    pub time_ns: Option<i64>,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            packets: true,
            digests: true,
            idle: true,
            acknowledges: true,
            count: None,
            time_ns: None,
        }
    }
}

/// The command of a line; `None` of an empty one, or of a comment.
pub fn parse(schema: &Schema, line: &str) -> Parsed<Option<Command>> {
    let mut items = Items::new(items(line)?);
    if items.is_empty() {
        return Ok(None);
    }
    let usage = usage(&mut items)?;
    let command = arguments(schema, usage.words, &mut items);
    let command = command.and_then(|command| items.end().map(|()| command));
    command.map(Some)
}

fn arguments(schema: &Schema, words: &str, items: &mut Items) -> Parsed<Command> {
    match words.split_once(' ') {
        Some(("table", verb)) => table(schema, verb, items),
        Some(("member", verb)) => member(schema, verb, items),
        Some(("group", verb)) => group(schema, verb, items),
        Some(("counter", verb)) => counter(schema, verb, items),
        Some(("meter", verb)) => meter(schema, verb, items),
        Some(("register", verb)) => register(schema, verb, items),
        Some(("valueset", verb)) => value_set(schema, verb, items),
        Some(("multicast", verb)) => multicast(verb, items),
        Some(("clone", verb)) => clone(verb, items),
        Some(("digest", verb)) => digest(schema, verb, items),
        Some(("packet", _)) => packet_out(schema, items),
        Some(("pipeline", verb)) => pipeline(verb, items),
        Some(("primary", verb)) => primary(verb, items),
        _ => one_word(schema, words, items),
    }
}

fn one_word(schema: &Schema, word: &str, items: &mut Items) -> Parsed<Command> {
    Ok(match word {
        "watch" => watch(items)?,
        "info" => Command::Info(items.word()),
        "dump" => Command::Read(everything(schema)),
        "begin" => Command::Begin(match items.word().as_deref() {
            None | Some("continue" | "continue_on_error") => Atomicity::ContinueOnError,
            Some("rollback" | "rollback_on_error") => Atomicity::RollbackOnError,
            Some("atomic" | "dataplane_atomic") => Atomicity::DataplaneAtomic,
            Some(other) => {
                return Err(format!(
                    "expected continue, rollback or atomic, got \"{other}\""
                ));
            }
        }),
        "commit" => Command::Commit,
        "abort" => Command::Abort,
        "capabilities" => Command::Capabilities,
        "source" => Command::Source(file(items, "a file of commands")?),
        "help" => {
            let mut words = Vec::new();
            while let Some(word) = items.word() {
                words.push(word);
            }
            Command::Help((!words.is_empty()).then(|| words.join(" ")))
        }
        _ => Command::Exit,
    })
}

fn file(items: &mut Items, what: &str) -> Parsed<PathBuf> {
    items.expect_word(what).map(PathBuf::from)
}

/// Which change of an entity; `None` for a read.
fn change(verb: &str) -> Option<update::Type> {
    match verb {
        "add" => Some(update::Type::Insert),
        "modify" => Some(update::Type::Modify),
        "delete" => Some(update::Type::Delete),
        _ => None,
    }
}

fn write(kind: update::Type, entity: entity::Entity) -> Command {
    Command::Write(vec![Update {
        r#type: kind.into(),
        entity: Some(entity_of(entity)),
    }])
}

fn entity_of(entity: entity::Entity) -> Entity {
    Entity {
        entity: Some(entity),
    }
}

fn read(entities: impl IntoIterator<Item = entity::Entity>) -> Command {
    Command::Read(query(entities))
}

fn query(entities: impl IntoIterator<Item = entity::Entity>) -> Query {
    Query {
        entities: entities.into_iter().map(entity_of).collect(),
        ..Query::default()
    }
}

fn table(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
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
                filter: Some(filter),
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
            let all = TableEntry {
                table_id: id,
                ..TableEntry::default()
            };
            Ok(Command::Clear(query([entity::Entity::TableEntry(all)])))
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

/// Everything of each table, the default entry after the others.
fn all_tables(schema: &Schema) -> Parsed<Vec<entity::Entity>> {
    if schema.is_empty {
        schema.table("")?;
    }
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
    let all = TableEntry {
        table_id: id_of(table.preamble.as_ref()),
        ..TableEntry::default()
    };
    with_resources(schema, table, all)
}

/// What a read gives only if it is asked for.
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
    entity::Entity::TableEntry(TableEntry {
        table_id,
        is_default_action: true,
        ..TableEntry::default()
    })
}

/// A profile's id and an object's in it, both 0 for any.
fn of_profile(schema: &Schema, items: &mut Items, what: &str) -> Parsed<(u32, u32)> {
    let Some(name) = items.word() else {
        return Ok((0, 0));
    };
    let profile = schema.profile(&name)?;
    let id = match items.is_empty() {
        true => 0,
        false => number_u32(items, what)?,
    };
    Ok((id_of(profile.preamble.as_ref()), id))
}

fn member(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
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

fn group(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
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

/// What a counter's or meter's name is.
enum Found<'s> {
    Array(u32, i64),
    /// With the table.
    Direct(&'s config::Table),
}

/// An array, or the direct resource of a table, by its own name or by the table's.
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
            Err(match p4_compiler::nearest(name, names.iter().copied()) {
                Some(near) => format!("no {kind} \"{name}\", did you mean \"{near}\"?"),
                None if names.is_empty() => message,
                None => format!("no {kind} \"{name}\", there are {}", names.join(", ")),
            })
        }
    }
}

/// The index of a cell; `None`: all of them.
fn index(items: &mut Items, size: i64, is_read: bool) -> Parsed<Option<Index>> {
    let word = match items.peek() {
        None if is_read => return Ok(None),
        _ => items.expect_word("an index, or * for every cell")?,
    };
    if word == "*" {
        return Ok(None);
    }
    let index = number(&word).and_then(|it| i64::try_from(it).ok());
    let in_range = index.filter(|it| size <= 0 || *it < size);
    in_range.map(|index| Some(Index { index })).ok_or_else(|| {
        let last = size.max(1) - 1;
        format!("expected an index from 0 to {last}, or * for every cell, got \"{word}\"")
    })
}

/// The key of an entry before `packets=` or `cir=`, which stay.
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
    let usage = match key.is_empty() && usage == KeyUse::Filter {
        true => KeyUse::Filter,
        false => usage,
    };
    let entry = table_entry(schema, table, &mut Items::new(key), usage)?;
    Ok((entry, Items::new(rest)))
}

const COUNT_WORDS: &[&str] = &["packets", "bytes"];
const RATE_WORDS: &[&str] = &["cir", "cburst", "pir", "pburst", "eburst"];

/// A filter with a whole key is a read of one entry.
fn filtered(entity: impl Fn(TableEntry) -> entity::Entity, filter: TableEntry) -> Command {
    let all = TableEntry {
        table_id: filter.table_id,
        ..TableEntry::default()
    };
    Command::Read(Query {
        filter: Some(filter),
        ..query([entity(all)])
    })
}

fn counter(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
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
        all.extend(tables.map(|table_id| direct(of_table(table_id), None)));
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

fn of_table(table_id: u32) -> TableEntry {
    TableEntry {
        table_id,
        ..TableEntry::default()
    }
}

fn meter(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
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
        all.extend(tables.map(|table_id| direct(of_table(table_id), None)));
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

fn register(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
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

fn value_set(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
    let all = |value_set_id, members| {
        entity::Entity::ValueSetEntry(ValueSetEntry {
            value_set_id,
            members,
        })
    };
    if verb == "list" && items.is_empty() {
        return Ok(read([all(0, Vec::new())]));
    }
    let set = schema.value_set(&items.expect_word("a value set's name")?)?;
    let id = id_of(set.preamble.as_ref());
    match verb {
        "list" => Ok(read([all(id, Vec::new())])),
        "clear" => Ok(write(update::Type::Modify, all(id, Vec::new()))),
        _ => {
            let members = value_set_members(schema, set, items)?;
            Ok(write(update::Type::Modify, all(id, members)))
        }
    }
}

fn replication(entry: PreType) -> entity::Entity {
    entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(entry),
    })
}

fn multicast(verb: &str, items: &mut Items) -> Parsed<Command> {
    let mut group = MulticastGroupEntry::default();
    if verb != "list" || !items.is_empty() {
        group.multicast_group_id = number_u32(items, "a multicast group's id")?;
    }
    if verb == "add" || verb == "modify" {
        group.replicas = replicas(items)?;
        while let Some(item) = items.next() {
            match item {
                Item::Pair(name, value) if name == "metadata" => {
                    group.metadata = hex_of(&name, &value)?;
                }
                item => return Err(format!("expected metadata=HEX, got \"{item}\"")),
            }
        }
    }
    let group = replication(PreType::MulticastGroupEntry(group));
    Ok(match change(verb) {
        Some(kind) => write(kind, group),
        None => read([group]),
    })
}

fn clone(verb: &str, items: &mut Items) -> Parsed<Command> {
    let mut session = CloneSessionEntry::default();
    if verb != "list" || !items.is_empty() {
        session.session_id = number_u32(items, "a clone session's id")?;
    }
    if verb == "add" || verb == "modify" {
        session.replicas = replicas(items)?;
        while let Some(item) = items.next() {
            let (name, value) = match &item {
                Item::Pair(name, value) => (name.as_str(), value),
                item => return Err(format!("expected length=BYTES or class=N, got \"{item}\"")),
            };
            match name {
                "length" => {
                    let length = attribute(name, value, i32::MAX as u128)?;
                    session.packet_length_bytes = i32::try_from(length).unwrap_or(i32::MAX);
                }
                "class" => {
                    let class = attribute(name, value, u128::from(u32::MAX))?;
                    session.class_of_service = u32::try_from(class).unwrap_or(u32::MAX);
                }
                _ => return Err(format!("expected length=BYTES or class=N, got \"{item}\"")),
            }
        }
    }
    let session = replication(PreType::CloneSessionEntry(session));
    Ok(match change(verb) {
        Some(kind) => write(kind, session),
        None => read([session]),
    })
}

fn digest(schema: &Schema, verb: &str, items: &mut Items) -> Parsed<Command> {
    let all = |digest_id, config| entity::Entity::DigestEntry(DigestEntry { digest_id, config });
    if verb == "list" && items.is_empty() {
        return Ok(read([all(0, None)]));
    }
    let digest = schema.digest(&items.expect_word("a digest's name")?)?;
    let id = id_of(digest.preamble.as_ref());
    let Some(kind) = change(verb) else {
        return Ok(read([all(id, None)]));
    };
    if kind == update::Type::Delete {
        return Ok(write(kind, all(id, None)));
    }
    // One in a list and at once is what a person wants to see.
    let mut config = digest_entry::Config {
        max_timeout_ns: 0,
        max_list_size: 1,
        ack_timeout_ns: 0,
    };
    while let Some(item) = items.next() {
        let Item::Pair(name, value) = &item else {
            return Err(format!(
                "expected list=N, timeout=TIME or ack=TIME, got \"{item}\""
            ));
        };
        match name.as_str() {
            "list" => {
                let list = attribute(name, value, i32::MAX as u128)?;
                config.max_list_size = i32::try_from(list).unwrap_or(i32::MAX);
            }
            "timeout" => config.max_timeout_ns = duration_of(name, value)?,
            "ack" => config.ack_timeout_ns = duration_of(name, value)?,
            _ => {
                return Err(format!(
                    "expected list=N, timeout=TIME or ack=TIME, got \"{item}\""
                ));
            }
        }
    }
    Ok(write(kind, all(id, Some(config))))
}

fn watch(items: &mut Items) -> Parsed<Command> {
    let mut watch = Watch::default();
    let (mut packets, mut digests, mut idle) = (false, false, false);
    while let Some(item) = items.next() {
        match &item {
            Item::Value(Value::Atom(atom)) => match atom.text.as_str() {
                "packets" => packets = true,
                "digests" => digests = true,
                "idle" => idle = true,
                _ => return Err(format!("expected packets, digests or idle, got \"{item}\"")),
            },
            Item::Pair(name, value) => match (name.as_str(), value.to_string().as_str()) {
                ("count", _) => {
                    watch.count = u64::try_from(count_of(name, value)?).ok();
                }
                ("time", _) => watch.time_ns = Some(duration_of(name, value)?),
                ("ack", "no") => watch.acknowledges = false,
                ("ack", "yes") => watch.acknowledges = true,
                _ => {
                    return Err(format!(
                        "expected count=N, time=TIME or ack=no, got \"{item}\""
                    ));
                }
            },
            item => return Err(format!("expected packets, digests or idle, got \"{item}\"")),
        }
    }
    if packets || digests || idle {
        (watch.packets, watch.digests, watch.idle) = (packets, digests, idle);
    }
    Ok(Command::Watch(watch))
}

fn packet_out(schema: &Schema, items: &mut Items) -> Parsed<Command> {
    if schema.is_empty {
        schema.packet_header("")?;
    }
    let header = typed::packet_header(schema, "packet_out");
    let fields = header.map_or(&[][..], |it| it.metadata.as_slice());
    let (mut values, mut payload) = (vec![None; fields.len()], Vec::new());
    while let Some(item) = items.next() {
        match item {
            Item::Pair(name, value) => {
                let names = fields
                    .iter()
                    .enumerate()
                    .map(|(idx, it)| (idx, it.name.as_str()));
                if fields.is_empty() {
                    return Err("the program has no header @controller_header(\"packet_out\"), so a packet-out has no fields".to_owned());
                }
                let idx = stf::find_name("field of the packet_out header", &name, names)?;
                let Value::Atom(atom) = &value else {
                    return Err(format!(
                        "field \"{name}\": expected a value, got \"{value}\""
                    ));
                };
                let bytes = schema.metadata_type(&fields[idx]).bytes(atom);
                let bytes = bytes.map_err(|message| format!("field \"{name}\": {message}"))?;
                values[idx] = Some(bytes);
            }
            Item::Value(Value::Atom(atom)) => {
                let digits = atom.text.strip_prefix("0x").unwrap_or(&atom.text);
                payload.extend(hex_bytes(digits).ok_or_else(|| {
                    format!("expected FIELD=VALUE or a payload in pairs of hexadecimal digits, got \"{atom}\"")
                })?);
            }
            item => return Err(format!("expected FIELD=VALUE or a payload, got \"{item}\"")),
        }
    }
    let mut metadata = Vec::new();
    for (field, value) in fields.iter().zip(values) {
        // What pads the header has no meaning.
        let is_padding = field.name.starts_with('_') || field.name.starts_with("pad");
        let value = match value {
            None if is_padding => vec![0],
            None => {
                return Err(format!(
                    "expected {}={} of the packet_out header",
                    field.name,
                    schema.metadata_type(field).format.example()
                ));
            }
            Some(value) => value,
        };
        metadata.push(PacketMetadata {
            metadata_id: field.id,
            value,
        });
    }
    if payload.is_empty() {
        return Err("expected the packet's payload in hexadecimal, the line ends".to_owned());
    }
    Ok(Command::PacketOut(PacketOut { payload, metadata }))
}

fn pipeline(verb: &str, items: &mut Items) -> Parsed<Command> {
    let action = match verb {
        "set" => PipelineAction::VerifyAndCommit,
        "verify" => PipelineAction::Verify,
        "save" => PipelineAction::VerifyAndSave,
        "reconcile" => PipelineAction::ReconcileAndCommit,
        "commit" => return Ok(Command::CommitPipeline),
        "p4info" => return file(items, "a file to write").map(Command::SaveP4Info),
        "config" => return file(items, "a file to write").map(Command::SaveConfig),
        "reload" => return Ok(Command::Reload),
        _ => return Ok(Command::ShowPipeline),
    };
    let program = file(items, "a program, P4 source or BMv2 JSON")?;
    let (mut p4info, mut cookie) = (None, None);
    while let Some(item) = items.next() {
        match &item {
            Item::Pair(name, Value::Atom(atom)) if name == "p4info" => {
                p4info = Some(PathBuf::from(&atom.text));
            }
            Item::Pair(name, value) if name == "cookie" => {
                let found = attribute(name, value, u128::from(u64::MAX))?;
                cookie = u64::try_from(found).ok();
            }
            item => return Err(format!("expected p4info=FILE or cookie=N, got \"{item}\"")),
        }
    }
    Ok(Command::SetPipeline {
        action,
        program,
        p4info,
        cookie,
    })
}

fn primary(verb: &str, items: &mut Items) -> Parsed<Command> {
    Ok(match verb {
        "take" if items.is_empty() => Command::TakePrimary(None),
        "take" => Command::TakePrimary(Some(items.expect_number("an election id", u128::MAX)?)),
        "release" => Command::ReleasePrimary,
        _ => Command::ShowPrimary,
    })
}

/// All that a controller can write, what others point to first. Counts are the data plane's.
fn everything(schema: &Schema) -> Query {
    let mut all = Vec::new();
    let info = &schema.p4info;
    if !info.action_profiles.is_empty() {
        all.push(entity::Entity::ActionProfileMember(
            ActionProfileMember::default(),
        ));
    }
    if info.action_profiles.iter().any(|it| it.with_selector) {
        all.push(entity::Entity::ActionProfileGroup(
            ActionProfileGroup::default(),
        ));
    }
    all.push(replication(PreType::MulticastGroupEntry(
        MulticastGroupEntry::default(),
    )));
    all.push(replication(PreType::CloneSessionEntry(
        CloneSessionEntry::default(),
    )));
    all.extend(all_tables(schema).unwrap_or_default());
    if !info.meters.is_empty() {
        all.push(entity::Entity::MeterEntry(MeterEntry::default()));
    }
    if !info.value_sets.is_empty() {
        all.push(entity::Entity::ValueSetEntry(ValueSetEntry::default()));
    }
    if !info.registers.is_empty() {
        all.push(entity::Entity::RegisterEntry(RegisterEntry::default()));
    }
    if !info.digests.is_empty() {
        all.push(entity::Entity::DigestEntry(DigestEntry::default()));
    }
    query(all)
}

/// Does an entity have what the filter asks for?
pub fn passes(entity: &Entity, filter: &TableEntry) -> bool {
    let entry = match entity.entity.as_ref() {
        Some(entity::Entity::TableEntry(entry)) => entry,
        Some(entity::Entity::DirectCounterEntry(it)) => match it.table_entry.as_ref() {
            Some(entry) => entry,
            None => return false,
        },
        Some(entity::Entity::DirectMeterEntry(it)) => match it.table_entry.as_ref() {
            Some(entry) => entry,
            None => return false,
        },
        _ => return false,
    };
    let has_field = |wanted| {
        let mut found = entry.r#match.iter();
        found.any(|it: &p4runtime_proto::p4::v1::FieldMatch| it == wanted)
    };
    let has_action = || match (filter.action.as_ref(), entry.action.as_ref()) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wanted), Some(found)) => match (wanted.r#type.as_ref(), found.r#type.as_ref()) {
            (Some(table_action::Type::Action(wanted)), Some(table_action::Type::Action(found))) => {
                wanted.action_id == found.action_id
                    && wanted.params.iter().all(|it| found.params.contains(it))
            }
            (wanted, found) => wanted == found,
        },
    };
    filter.r#match.iter().all(has_field)
        && (filter.priority == 0 || filter.priority == entry.priority)
        && (filter.metadata.is_empty() || filter.metadata == entry.metadata)
        && has_action()
}

/// Of the printed line of an entity, for a filter that is shown again.
pub fn key_words(schema: &Schema, entry: &TableEntry) -> String {
    print::key(schema, entry).join(" ")
}
