//! Converts entities and messages of the stream to JSON. Names are full names, and values are text in the shell's
//! notation. Counts are numbers.

use data_encoding::HEXLOWER;
use p4runtime_client::bytestring::hex;
use p4runtime_client::{Object, SECRET, ValueType, is_secret};
use p4runtime_proto::p4::config::v1::{self as config};
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::{
    Action, ActionProfileActionSet, ActionProfileGroup, CounterData, DigestList, Entity,
    FieldMatch, Index, MeterConfig, MeterCounterData, PacketIn, RegisterEntry, Replica,
    TableAction, TableEntry, ValueSetEntry, action_profile_group, entity, table_action,
};
use serde_json::{Map, Value, json};

use super::print::{
    self, cell, data, match_text, replica_text, watched_by_action, watched_by_member,
};
use super::schema::Schema;

/// Converts an entity to JSON. Its key `text` has the shell command that writes the entity to the switch.
pub fn entity(schema: &Schema, entity: &Entity) -> Value {
    use entity::Entity as E;
    let mut found = match entity.entity.as_ref() {
        Some(E::TableEntry(it)) => table_entry(schema, it),
        Some(E::ActionProfileMember(it)) => json!({
            "kind": "action_profile_member",
            "action_profile": schema.full(Object::ActionProfile, it.action_profile_id),
            "member": it.member_id,
            "action": it.action.as_ref().map(|it| action(schema, it)),
        }),
        Some(E::ActionProfileGroup(it)) => group(schema, it),
        Some(E::CounterEntry(it)) => json!({
            "kind": "counter",
            "counter": schema.full(Object::Counter, it.counter_id),
            "index": index(it.index.as_ref()),
            "counts": it.data.as_ref().map(counts),
        }),
        Some(E::DirectCounterEntry(it)) => json!({
            "kind": "direct_counter",
            "entry": it.table_entry.as_ref().map(|it| table_entry(schema, it)),
            "counts": it.data.as_ref().map(counts),
        }),
        Some(E::MeterEntry(it)) => json!({
            "kind": "meter",
            "meter": schema.full(Object::Meter, it.meter_id),
            "index": index(it.index.as_ref()),
            "rates": it.config.as_ref().map(rates),
            "counts": it.counter_data.as_ref().map(colours),
        }),
        Some(E::DirectMeterEntry(it)) => json!({
            "kind": "direct_meter",
            "entry": it.table_entry.as_ref().map(|it| table_entry(schema, it)),
            "rates": it.config.as_ref().map(rates),
            "counts": it.counter_data.as_ref().map(colours),
        }),
        Some(E::RegisterEntry(it)) => register(schema, it),
        Some(E::ValueSetEntry(it)) => value_set(schema, it),
        Some(E::DigestEntry(it)) => json!({
            "kind": "digest",
            "digest": schema.full(Object::Digest, it.digest_id),
            "list": it.config.as_ref().map(|it| it.max_list_size),
            "timeout_ns": it.config.as_ref().map(|it| it.max_timeout_ns),
            "ack_timeout_ns": it.config.as_ref().map(|it| it.ack_timeout_ns),
        }),
        Some(E::PacketReplicationEngineEntry(it)) => replication(it.r#type.as_ref()),
        Some(E::ExternEntry(it)) => json!({
            "kind": "extern",
            "extern_type_id": it.extern_type_id,
            "extern_id": it.extern_id,
        }),
        None => json!({ "kind": "unknown" }),
    };
    found["text"] = print::line(schema, entity).into();
    found
}

fn group(schema: &Schema, group: &ActionProfileGroup) -> Value {
    let member = |it: &action_profile_group::Member| {
        let port = it.watch_kind.as_ref().map(watched_by_member);
        json!({ "member": it.member_id, "weight": it.weight, "watch": port })
    };
    json!({
        "kind": "action_profile_group",
        "action_profile": schema.full(Object::ActionProfile, group.action_profile_id),
        "group": group.group_id,
        "members": group.members.iter().map(member).collect::<Vec<_>>(),
        "max_size": group.max_size,
    })
}

fn register(schema: &Schema, entry: &RegisterEntry) -> Value {
    let name = schema.full(Object::Register, entry.register_id);
    let register = schema.register_by_id(entry.register_id);
    let spec = register.and_then(|it| it.type_spec.as_ref()?.type_spec.as_ref());
    let preamble = register.and_then(|it| it.preamble.as_ref());
    let value = |it| {
        if preamble.is_some_and(|it| is_secret(&it.annotations)) {
            SECRET.to_owned()
        } else {
            data(schema, it, spec, &name)
        }
    };
    json!({
        "kind": "register",
        "register": name,
        "index": index(entry.index.as_ref()),
        "value": entry.data.as_ref().map(value),
    })
}

fn value_set(schema: &Schema, entry: &ValueSetEntry) -> Value {
    let set = schema.value_set_by_id(entry.value_set_id);
    let fields = set.map_or(&[][..], |it| it.r#match.as_slice());
    let members = entry.members.iter();
    let members = members.map(|it| matches(schema, fields, &it.r#match));
    json!({
        "kind": "value_set",
        "value_set": schema.full(Object::ValueSet, entry.value_set_id),
        "members": members.collect::<Vec<_>>(),
    })
}

fn replication(entry: Option<&PreType>) -> Value {
    match entry {
        Some(PreType::MulticastGroupEntry(it)) => json!({
            "kind": "multicast_group",
            "group": it.multicast_group_id,
            "replicas": replicas(&it.replicas),
            "metadata": metadata(&it.metadata),
        }),
        Some(PreType::CloneSessionEntry(it)) => json!({
            "kind": "clone_session",
            "session": it.session_id,
            "replicas": replicas(&it.replicas),
            "packet_length_bytes": it.packet_length_bytes,
            "class_of_service": it.class_of_service,
        }),
        None => json!({ "kind": "unknown" }),
    }
}

fn table_entry(schema: &Schema, entry: &TableEntry) -> Value {
    let table = schema.table_by_id(entry.table_id);
    let fields = table.map_or(&[][..], |table| table.match_fields.as_slice());
    let mut found = json!({
        "kind": "table_entry",
        "table": schema.full(Object::Table, entry.table_id),
        "default": entry.is_default_action,
        "match": key(schema, fields, entry),
        "priority": entry.priority,
        "action": entry.action.as_ref().map(|it| table_action(schema, it)),
        "metadata": metadata(&entry.metadata),
        "idle_timeout_ns": entry.idle_timeout_ns,
        "const": entry.is_const,
    });
    if let Some(data) = &entry.counter_data {
        found["counts"] = counts(data);
    }
    if let Some(config) = &entry.meter_config {
        found["meter"] = rates(config);
    }
    if let Some(data) = &entry.meter_counter_data {
        found["meter_counts"] = colours(data);
    }
    if let Some(hit) = &entry.time_since_last_hit {
        found["since_last_hit_ns"] = hit.elapsed_ns.into();
    }
    found
}

fn matches(schema: &Schema, fields: &[config::MatchField], found: &[FieldMatch]) -> Value {
    let of_match = |it: &FieldMatch| {
        let field = fields.iter().find(|field| field.id == it.field_id);
        let ty = field.map_or_else(ValueType::default, |field| schema.field_type(field));
        let name = field.map_or_else(|| format!("{:#x}", it.field_id), |field| field.name.clone());
        (name, match_text(&ty, it).into())
    };
    Value::Object(found.iter().map(of_match).collect::<Map<String, Value>>())
}

/// The key of an entry. Secret fields get a placeholder, because the switch may omit them.
fn key(schema: &Schema, fields: &[config::MatchField], entry: &TableEntry) -> Value {
    let mut key = matches(schema, fields, &entry.r#match);
    let secret = fields.iter().filter(|it| is_secret(&it.annotations));
    for field in secret.filter(|_| !entry.is_default_action) {
        key[&field.name] = SECRET.into();
    }
    key
}

fn table_action(schema: &Schema, found: &TableAction) -> Value {
    use table_action::Type as T;
    match found.r#type.as_ref() {
        Some(T::Action(it)) => action(schema, it),
        Some(T::ActionProfileMemberId(id)) => json!({ "member": id }),
        Some(T::ActionProfileGroupId(id)) => json!({ "group": id }),
        Some(T::ActionProfileActionSet(it)) => one_shot(schema, it),
        None => Value::Null,
    }
}

fn one_shot(schema: &Schema, set: &ActionProfileActionSet) -> Value {
    let actions = set.action_profile_actions.iter().map(|it| {
        let port = it.watch_kind.as_ref().map(watched_by_action);
        json!({
            "action": it.action.as_ref().map(|it| action(schema, it)),
            "weight": it.weight,
            "watch": port,
        })
    });
    json!({ "actions": actions.collect::<Vec<_>>() })
}

fn action(schema: &Schema, found: &Action) -> Value {
    let action = schema.action_by_id(found.action_id);
    let params = action.map_or(&[][..], |it| it.params.as_slice());
    let param = |it: &p4runtime_proto::p4::v1::action::Param| {
        let param = params.iter().find(|param| param.id == it.param_id);
        match param {
            Some(param) => (
                param.name.clone(),
                schema.param_type(param).text(&it.value).into(),
            ),
            None => (format!("{:#x}", it.param_id), hex(&it.value).into()),
        }
    };
    let params: Map<String, Value> = found.params.iter().map(param).collect();
    json!({ "name": schema.full(Object::Action, found.action_id), "params": params })
}

/// A cell's index, or `*` for all cells.
fn index(index: Option<&Index>) -> Value {
    match index {
        Some(it) => it.index.into(),
        None => cell(None).into(),
    }
}

fn metadata(bytes: &[u8]) -> Value {
    match bytes {
        [] => Value::Null,
        bytes => hex(bytes).into(),
    }
}

fn counts(data: &CounterData) -> Value {
    json!({ "packets": data.packet_count, "bytes": data.byte_count })
}

fn colours(data: &MeterCounterData) -> Value {
    json!({
        "green": data.green.as_ref().map(counts),
        "yellow": data.yellow.as_ref().map(counts),
        "red": data.red.as_ref().map(counts),
    })
}

fn rates(config: &MeterConfig) -> Value {
    json!({
        "cir": config.cir, "cburst": config.cburst,
        "pir": config.pir, "pburst": config.pburst, "eburst": config.eburst,
    })
}

fn replicas(replicas: &[Replica]) -> Vec<String> {
    replicas.iter().map(replica_text).collect()
}

/// Returns each field of a packet-in's header, with its name and its value as text.
pub fn packet_fields(schema: &Schema, packet: &PacketIn) -> Vec<(String, String)> {
    let header = super::typed::packet_header(schema, "packet_in");
    let fields = header.map_or(&[][..], |it| it.metadata.as_slice());
    let field = |it: &p4runtime_proto::p4::v1::PacketMetadata| match fields
        .iter()
        .find(|field| field.id == it.metadata_id)
    {
        Some(field) => {
            let text = schema.metadata_type(field).text(&it.value);
            (field.name.clone(), text)
        }
        None => (format!("{:#x}", it.metadata_id), hex(&it.value)),
    };
    packet.metadata.iter().map(field).collect()
}

pub fn payload(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

pub fn packet_in(schema: &Schema, packet: &PacketIn) -> Value {
    let fields = packet_fields(schema, packet).into_iter();
    let fields: Map<String, Value> = fields.map(|(name, text)| (name, text.into())).collect();
    json!({ "message": "packet_in", "metadata": fields, "payload": payload(&packet.payload) })
}

pub fn digests(schema: &Schema, list: &DigestList) -> Vec<String> {
    let found = schema.digest_by_id(list.digest_id);
    let spec = found.and_then(|it| it.type_spec.as_ref()?.type_spec.as_ref());
    let name = schema.short(Object::Digest, list.digest_id);
    list.data
        .iter()
        .map(|it| data(schema, it, spec, &name))
        .collect()
}

pub fn digest_list(schema: &Schema, list: &DigestList) -> Value {
    json!({
        "message": "digests",
        "digest": schema.full(Object::Digest, list.digest_id),
        "list_id": list.list_id,
        "timestamp_ns": list.timestamp,
        "values": digests(schema, list),
    })
}

pub fn idle(schema: &Schema, entries: &[TableEntry], timestamp_ns: i64) -> Value {
    let entries = entries.iter().map(|it| table_entry(schema, it));
    json!({
        "message": "idle_timeout",
        "timestamp_ns": timestamp_ns,
        "entries": entries.collect::<Vec<_>>(),
    })
}
