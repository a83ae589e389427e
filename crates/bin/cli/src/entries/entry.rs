//! The entries of a switch in comparable form: table entries, default actions, multicast groups and clone sessions,
//! each as a key and its content. Converts from and to P4Runtime's messages.

use std::collections::BTreeMap;

use p4runtime_client::bytestring::canonical;
use p4runtime_client::entities::{self, of_engine, of_table};
use p4runtime_client::field_match::Match;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::{
    CloneSessionEntry, Entity, MulticastGroupEntry, Replica, TableAction, TableEntry, entity,
    table_action,
};

/// Identifies an entry. The order of keys is the order of writing: an entry comes after the objects to which it refers.
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    Call {
        action_id: u32,
        params: BTreeMap<u32, Vec<u8>>,
    },
    /// The replicas of a multicast group or clone session, in the order in which the packet is copied to them.
    Replicas {
        replicas: Vec<(u16, u32)>,
        packet_length_bytes: i32,
    },
}

#[derive(Clone, Debug)]
pub struct Held {
    /// `None` if a runtime file cannot express the content, for example a member of an action profile.
    pub content: Option<Content>,
    pub is_const: bool,
    /// The entry as read from the switch. A change of the entry keeps the fields that a runtime file does not have.
    pub entity: Entity,
}

/// Converts an entity that was read from a switch. Returns `None` if the entity is not a table entry, default action,
/// multicast group or clone session.
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
    let fields = entry.r#match.iter();
    let fields = fields.map(|field| Some((field.field_id, Match::of(field)?)));
    Some(Key::Entry {
        table_id: entry.table_id,
        fields: fields.collect::<Option<_>>()?,
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
        Key::Default { table_id } => of_table(entities::default_entry(*table_id)),
        Key::Entry {
            table_id,
            fields,
            priority,
        } => of_table(TableEntry {
            table_id: *table_id,
            r#match: fields
                .iter()
                .map(|(id, it)| it.clone().field(*id))
                .collect(),
            priority: *priority,
            ..TableEntry::default()
        }),
    };
    with_content(new, content)
}

pub fn with_content(mut entity: Entity, content: &Content) -> Entity {
    match (entity.entity.as_mut(), content) {
        (Some(entity::Entity::TableEntry(entry)), Content::Call { action_id, params }) => {
            let params = params.iter().map(|(id, value)| (*id, value.clone()));
            let action = entities::action(*action_id, params);
            entry.action = Some(entities::table_action(action));
            // Remove fields that come from the read. A write with counter data would set the counter.
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

fn to_replicas(replicas: &[(u16, u32)]) -> Vec<Replica> {
    let replicas = replicas.iter();
    replicas
        .map(|(port, instance)| entities::replica(*port, *instance))
        .collect()
}
