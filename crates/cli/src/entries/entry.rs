//! The entries of a switch in comparable form: table entries, default actions, multicast groups and clone sessions,
//! each as a key and its content. Converts from and to P4Runtime's messages.

use std::collections::BTreeMap;

use conference::entities;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::{
    Action, CloneSessionEntry, Entity, FieldMatch, MulticastGroupEntry,
    PacketReplicationEngineEntry, Replica, TableAction, TableEntry, action, entity, field_match,
    replica, table_action,
};

use super::value::canonical;

/// Identifies an entry. Keys are ordered as they are written: an entry comes after the objects to which it refers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Key {
    MulticastGroup(u32),
    CloneSession(u32),
    Default {
        table_id: u32,
    },
    Entry {
        table_id: u32,
        fields: BTreeMap<u32, Match>,
        priority: i32,
    },
}

/// A field's match. An entry omits a field that matches everything.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Match {
    Exact(Vec<u8>),
    Lpm(Vec<u8>, i32),
    Ternary(Vec<u8>, Vec<u8>),
    Range(Vec<u8>, Vec<u8>),
    Optional(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    Call {
        action_id: u32,
        params: BTreeMap<u32, Vec<u8>>,
    },
    /// Replicas, in the order of the copies.
    Replicas {
        replicas: Vec<(u16, u32)>,
        packet_length_bytes: i32,
    },
}

#[derive(Clone, Debug)]
pub struct Held {
    /// `None` if a runtime file cannot express it, for example a member of an action profile.
    pub content: Option<Content>,
    pub is_const: bool,
    /// The entry as read: a change keeps the fields that a runtime file lacks.
    pub entity: Entity,
}

/// Converts an entity of a switch; `None` if it is of another kind.
pub fn of_entity(entity: Entity) -> Option<(Key, Held)> {
    let (key, content, is_const) = match entity.entity.as_ref()? {
        entity::Entity::TableEntry(entry) => {
            let key = if entry.is_default_action {
                let table_id = entry.table_id;
                Key::Default { table_id }
            } else {
                key_of(entry)?
            };
            (key, call_of(entry.action.as_ref()), entry.is_const)
        }
        entity::Entity::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            PreType::MulticastGroupEntry(group) => {
                let key = Key::MulticastGroup(group.multicast_group_id);
                (key, replicas_of(&group.replicas, 0), false)
            }
            PreType::CloneSessionEntry(session) => {
                let length = session.packet_length_bytes;
                let key = Key::CloneSession(session.session_id);
                (key, replicas_of(&session.replicas, length), false)
            }
        },
        _ => return None,
    };
    let held = Held {
        content,
        is_const,
        entity,
    };
    Some((key, held))
}

fn key_of(entry: &TableEntry) -> Option<Key> {
    let field = |field: &FieldMatch| {
        use field_match::FieldMatchType as T;
        let found = match field.field_match_type.as_ref()? {
            T::Exact(exact) => Match::Exact(canonical(&exact.value)),
            T::Lpm(lpm) => Match::Lpm(canonical(&lpm.value), lpm.prefix_len),
            T::Ternary(it) => Match::Ternary(canonical(&it.value), canonical(&it.mask)),
            T::Range(range) => Match::Range(canonical(&range.low), canonical(&range.high)),
            T::Optional(optional) => Match::Optional(canonical(&optional.value)),
            T::Other(_) => return None,
        };
        Some((field.field_id, found))
    };
    Some(Key::Entry {
        table_id: entry.table_id,
        fields: entry.r#match.iter().map(field).collect::<Option<_>>()?,
        priority: entry.priority,
    })
}

fn call_of(action: Option<&TableAction>) -> Option<Content> {
    let Some(table_action::Type::Action(action)) = action.and_then(|it| it.r#type.as_ref()) else {
        return None;
    };
    let params = action.params.iter();
    Some(Content::Call {
        action_id: action.action_id,
        params: params
            .map(|param| (param.param_id, canonical(&param.value)))
            .collect(),
    })
}

fn replicas_of(replicas: &[Replica], packet_length_bytes: i32) -> Option<Content> {
    let replica = |it: &Replica| Some((entities::replica_port(it)?, it.instance));
    Some(Content::Replicas {
        replicas: replicas.iter().map(replica).collect::<Option<_>>()?,
        packet_length_bytes,
    })
}

pub fn to_entity(key: &Key, content: &Content) -> Entity {
    let new = match key {
        Key::MulticastGroup(id) => of_engine(PreType::MulticastGroupEntry(MulticastGroupEntry {
            multicast_group_id: *id,
            ..MulticastGroupEntry::default()
        })),
        Key::CloneSession(id) => of_engine(PreType::CloneSessionEntry(CloneSessionEntry {
            session_id: *id,
            ..CloneSessionEntry::default()
        })),
        Key::Default { table_id } => entities::of_table(TableEntry {
            table_id: *table_id,
            is_default_action: true,
            ..TableEntry::default()
        }),
        Key::Entry {
            table_id,
            fields,
            priority,
        } => entities::of_table(TableEntry {
            table_id: *table_id,
            r#match: fields.iter().map(|(id, it)| field_match(*id, it)).collect(),
            priority: *priority,
            ..TableEntry::default()
        }),
    };
    with_content(new, content)
}

pub fn with_content(mut entity: Entity, content: &Content) -> Entity {
    match (entity.entity.as_mut(), content) {
        (Some(entity::Entity::TableEntry(entry)), Content::Call { action_id, params }) => {
            entry.action = Some(call(*action_id, params));
            // Fields that only a read has: a write would set the counter.
            entry.counter_data = None;
            entry.time_since_last_hit = None;
            entry.is_const = false;
        }
        (
            Some(entity::Entity::PacketReplicationEngineEntry(entry)),
            Content::Replicas {
                replicas,
                packet_length_bytes,
            },
        ) => match entry.r#type.as_mut() {
            Some(PreType::MulticastGroupEntry(group)) => group.replicas = to_replicas(replicas),
            Some(PreType::CloneSessionEntry(session)) => {
                session.replicas = to_replicas(replicas);
                session.packet_length_bytes = *packet_length_bytes;
            }
            None => {}
        },
        _ => {}
    }
    entity
}

fn call(action_id: u32, params: &BTreeMap<u32, Vec<u8>>) -> TableAction {
    let param = |(id, value): (&u32, &Vec<u8>)| action::Param {
        param_id: *id,
        value: value.clone(),
    };
    TableAction {
        r#type: Some(table_action::Type::Action(Action {
            action_id,
            params: params.iter().map(param).collect(),
        })),
    }
}

pub fn field_match(field_id: u32, wanted: &Match) -> FieldMatch {
    use field_match::FieldMatchType as T;
    let field = match wanted.clone() {
        Match::Exact(value) => T::Exact(field_match::Exact { value }),
        Match::Lpm(value, prefix_len) => T::Lpm(field_match::Lpm { value, prefix_len }),
        Match::Ternary(value, mask) => T::Ternary(field_match::Ternary { value, mask }),
        Match::Range(low, high) => T::Range(field_match::Range { low, high }),
        Match::Optional(value) => T::Optional(field_match::Optional { value }),
    };
    FieldMatch {
        field_id,
        field_match_type: Some(field),
    }
}

fn to_replicas(replicas: &[(u16, u32)]) -> Vec<Replica> {
    let replica = |(port, instance): &(u16, u32)| Replica {
        instance: *instance,
        port_kind: Some(replica::PortKind::Port(entities::bytes(*port))),
        backup_replicas: Vec::new(),
    };
    replicas.iter().map(replica).collect()
}

fn of_engine(entry: PreType) -> Entity {
    Entity {
        entity: Some(entity::Entity::PacketReplicationEngineEntry(
            PacketReplicationEngineEntry {
                r#type: Some(entry),
            },
        )),
    }
}
