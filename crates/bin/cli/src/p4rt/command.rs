//! Parses a line into a command: an update, a read, or one of the other commands.

mod arrays;
mod tables;

use std::path::PathBuf;

use data_encoding::HEXLOWER_PERMISSIVE;
use p4runtime_client::{entities, id_of};
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, DigestEntry, Entity, MeterEntry,
    MulticastGroupEntry, PacketMetadata, PacketOut, PacketReplicationEngineEntry, RegisterEntry,
    TableEntry, Update, ValueSetEntry, digest_entry, entity, table_action, update,
};

use super::grammar::usage;
use super::print;
use super::schema::{Parsed, Schema, find_of};
use super::typed::{
    self, Items, attribute, count_of, duration_of, hex_of, is_zero, number_u32, replicas,
    value_set_members,
};
use super::words::{Item, Value, items};

use arrays::{counter, meter, register};
use tables::{all_tables, group, member, table};

#[derive(Clone, Debug)]
pub enum Command {
    Write(Vec<Update>),
    Read(Query),
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

#[derive(Clone, Debug, Default)]
pub struct Query {
    pub entities: Vec<Entity>,
    pub keeps: Keeps,
    /// Whether exactly one entity is expected.
    pub is_one: bool,
}

#[derive(Clone, Debug, Default)]
pub enum Keeps {
    #[default]
    All,
    /// Keeps the entries that have everything that this entry has. What this entry leaves out may have any value.
    Like(Box<TableEntry>),
    /// Keeps the entities that differ from a program's initial state.
    Written,
}

impl Keeps {
    pub fn passes(&self, entity: &Entity) -> bool {
        match self {
            Keeps::All => true,
            Keeps::Like(filter) => is_like(entity, filter),
            Keeps::Written => is_written(entity),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    pub packets: bool,
    pub digests: bool,
    pub idle: bool,
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

/// Parses a line; `None` if it is empty or a comment. `notes` gets remarks about values that the shell changed.
pub fn parse(schema: &Schema, line: &str, notes: &mut Vec<String>) -> Parsed<Option<Command>> {
    let mut items = Items::new(items(line)?);
    if items.is_empty() {
        return Ok(None);
    }
    let usage = usage(&mut items)?;
    let command = arguments(schema, usage.words, &mut items)?;
    items.end()?;
    *notes = items.into_notes();
    Ok(Some(command))
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
        "dump" => {
            let with_registers = match items.word().as_deref() {
                None => false,
                Some("--registers" | "registers") => true,
                Some(other) => return Err(format!("expected --registers, got \"{other}\"")),
            };
            Command::Read(everything(schema, with_registers)?)
        }
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

/// The type of update that a verb stands for; `None` if the verb is a read.
fn change(verb: &str) -> Option<update::Type> {
    match verb {
        "add" => Some(update::Type::Insert),
        "modify" => Some(update::Type::Modify),
        "delete" => Some(update::Type::Delete),
        _ => None,
    }
}

fn write(kind: update::Type, entity: entity::Entity) -> Command {
    Command::Write(vec![entities::update(kind, entities::entity(entity))])
}

fn read(entities: impl IntoIterator<Item = entity::Entity>) -> Command {
    Command::Read(query(entities))
}

fn query(entities: impl IntoIterator<Item = entity::Entity>) -> Query {
    Query {
        entities: entities.into_iter().map(entities::entity).collect(),
        ..Query::default()
    }
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
    // By default the switch sends each digest at once, in a list of one.
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
    schema.expect_names()?;
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
                let idx = find_of("field of the packet_out header", &name, names)?;
                let Value::Atom(atom) = &value else {
                    return Err(format!(
                        "field \"{name}\": expected a value, got \"{value}\""
                    ));
                };
                let bytes = atom.bytes(&schema.metadata_type(&fields[idx]));
                let bytes = bytes.map_err(|message| format!("field \"{name}\": {message}"))?;
                values[idx] = Some(bytes);
            }
            Item::Value(Value::Atom(atom)) => {
                let digits = atom.text.strip_prefix("0x").unwrap_or(&atom.text);
                let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
                payload.extend(bytes.map_err(|_| {
                    format!("expected FIELD=VALUE or a payload in pairs of hexadecimal digits, got \"{atom}\"")
                })?);
            }
            item => return Err(format!("expected FIELD=VALUE or a payload, got \"{item}\"")),
        }
    }
    let mut metadata = Vec::new();
    for (field, value) in fields.iter().zip(values) {
        // Padding has no meaning, so it may be left out.
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
        "take" => match items.expect_number("an election id", u128::MAX)? {
            0 => return Err("expected an election id from 1, got \"0\"".to_owned()),
            id => Command::TakePrimary(Some(id)),
        },
        "release" => Command::ReleasePrimary,
        _ => Command::ShowPrimary,
    })
}

/// Makes a query for everything that a controller can write. Objects come before the entries that refer to them.
/// Counters are left out, because packets write them. Registers are left out too, unless `with_registers` is set.
fn everything(schema: &Schema, with_registers: bool) -> Parsed<Query> {
    schema.expect_names()?;
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
    all.extend(all_tables(schema)?);
    if !info.meters.is_empty() {
        all.push(entity::Entity::MeterEntry(MeterEntry::default()));
    }
    if !info.value_sets.is_empty() {
        all.push(entity::Entity::ValueSetEntry(ValueSetEntry::default()));
    }
    if with_registers && !info.registers.is_empty() {
        all.push(entity::Entity::RegisterEntry(RegisterEntry::default()));
    }
    if !info.digests.is_empty() {
        all.push(entity::Entity::DigestEntry(DigestEntry::default()));
    }
    Ok(Query {
        keeps: Keeps::Written,
        ..query(all)
    })
}

/// Whether an entity differs from the program's initial state. A register cell does if it is not zero, a meter if it
/// has rates, and a value set if it has members. Any other entity always does, because it exists only if a controller
/// wrote it.
fn is_written(entity: &Entity) -> bool {
    match entity.entity.as_ref() {
        Some(entity::Entity::RegisterEntry(it)) => !it.data.as_ref().is_none_or(is_zero),
        Some(entity::Entity::MeterEntry(it)) => it.config.is_some(),
        Some(entity::Entity::ValueSetEntry(it)) => !it.members.is_empty(),
        _ => true,
    }
}

/// Whether an entity has everything that the filter asks for.
fn is_like(entity: &Entity, filter: &TableEntry) -> bool {
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

/// The key of an entry, in the words with which a shell command names the entry.
pub fn key_words(schema: &Schema, entry: &TableEntry) -> String {
    print::key(schema, entry).join(" ")
}
