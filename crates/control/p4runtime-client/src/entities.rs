//! Builds P4Runtime's entities and updates, and reads a replica's port, which a message has in one of two fields.

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    Action, CloneSessionEntry, CounterData, Entity, MulticastGroupEntry,
    PacketReplicationEngineEntry, Replica, TableAction, TableEntry, Update, action, replica,
    table_action,
};

use crate::bytestring::{bytes, number};

/// Makes an update of type INSERT.
pub fn insert(entity: Entity) -> Update {
    update(Type::Insert, entity)
}

/// Makes an update of type MODIFY.
pub fn modify(entity: Entity) -> Update {
    update(Type::Modify, entity)
}

/// Makes an update of type DELETE.
pub fn delete(entity: Entity) -> Update {
    update(Type::Delete, entity)
}

/// Makes an update of a type.
pub fn update(of: Type, entity: Entity) -> Update {
    Update {
        r#type: of.into(),
        entity: Some(entity),
    }
}

/// An entity of any kind.
pub fn entity(kind: Kind) -> Entity {
    Entity { entity: Some(kind) }
}

/// Wraps a table entry in an entity.
pub fn of_table(entry: TableEntry) -> Entity {
    entity(Kind::TableEntry(entry))
}

/// Wraps a multicast group or a clone session in an entity.
pub fn of_engine(entry: PreType) -> Entity {
    entity(Kind::PacketReplicationEngineEntry(
        PacketReplicationEngineEntry {
            r#type: Some(entry),
        },
    ))
}

/// Makes an action from its id and its parameters. A parameter is a pair of the parameter's id and its value.
pub fn action(action_id: u32, params: impl IntoIterator<Item = (u32, Vec<u8>)>) -> Action {
    let param = |(param_id, value)| action::Param { param_id, value };
    Action {
        action_id,
        params: params.into_iter().map(param).collect(),
    }
}

/// The action of a table entry.
pub fn table_action(action: Action) -> TableAction {
    TableAction {
        r#type: Some(table_action::Type::Action(action)),
    }
}

/// Makes a wildcard that stands for all entries of a table.
pub fn every_entry(table_id: u32) -> TableEntry {
    TableEntry {
        table_id,
        ..TableEntry::default()
    }
}

/// Makes the message that stands for a table's default entry.
pub fn default_entry(table_id: u32) -> TableEntry {
    TableEntry {
        is_default_action: true,
        ..every_entry(table_id)
    }
}

/// A wildcard that reads every entry of a table with its counter.
pub fn wildcard_table(table_id: u32) -> Entity {
    of_table(TableEntry {
        counter_data: Some(CounterData::default()),
        ..every_entry(table_id)
    })
}

/// Keeps only the fields that identify a table entry, as DELETE needs them.
pub fn key_of(entry: TableEntry) -> TableEntry {
    TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match,
        priority: entry.priority,
        ..TableEntry::default()
    }
}

/// A multicast group with a replica for each pair of port and instance.
pub fn multicast_group(id: u16, replicas: impl IntoIterator<Item = (u16, u16)>) -> Entity {
    let replicas = replicas.into_iter();
    of_engine(PreType::MulticastGroupEntry(MulticastGroupEntry {
        multicast_group_id: id.into(),
        replicas: replicas
            .map(|(port, instance)| replica(port, instance.into()))
            .collect(),
        metadata: Vec::new(),
    }))
}

/// A clone session with one replica.
pub fn clone_session(id: u32, port: u16) -> Entity {
    of_engine(PreType::CloneSessionEntry(CloneSessionEntry {
        session_id: id,
        replicas: vec![replica(port, 0)],
        class_of_service: 0,
        packet_length_bytes: 0,
    }))
}

/// A wildcard that reads every multicast group: id 0 stands for all.
pub fn any_multicast_group() -> Entity {
    of_engine(PreType::MulticastGroupEntry(MulticastGroupEntry::default()))
}

/// A wildcard that reads every clone session. A session's number cannot be 0, so 0 stands for all.
pub fn any_clone_session() -> Entity {
    of_engine(PreType::CloneSessionEntry(CloneSessionEntry::default()))
}

/// A replica at a port, without backups.
pub fn replica(port: u16, instance: u32) -> Replica {
    Replica {
        instance,
        backup_replicas: Vec::new(),
        port_kind: Some(replica::PortKind::Port(bytes(port))),
    }
}

/// Returns the port of a replica; `None` if the replica has no port or the port's number exceeds 16 bits.
#[expect(
    deprecated,
    reason = "an older controller may have written the deprecated field"
)]
pub fn replica_port(replica: &Replica) -> Option<u16> {
    let port = match replica.port_kind.as_ref()? {
        replica::PortKind::Port(port) => number(port)?,
        replica::PortKind::EgressPort(port) => u64::from(*port),
    };
    port.try_into().ok()
}
