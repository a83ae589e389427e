//! `MulticastGroupEntry` and `CloneSessionEntry`.
//!
//! Source: P4Runtime 1.5.0, "PacketReplicationEngineEntry". In v1model, controllers and the data plane use the same
//! port numbers, so no port is translated.

use std::collections::HashSet;

use control::{ClientData, ClientDataMap, Operation, Update};
use dataplane::limits::{CLONE_SESSION_ID_MAX, MULTICAST_GROUP_ID_MAX, PORT_ID_MAX};
use dataplane::{CloneSession, MulticastGroup, PortId, Replica};
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::replica::PortKind;
use p4runtime_proto::p4::v1::update::Type;

use super::update;
use crate::bytestring;
use crate::error::{EntityError, EntityResult};

/// How a controller wrote the ports of replicas. The entry's client data keeps the form as a number, so that a Read
/// returns the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortForm {
    /// `port`, a byte string.
    Bytes = 0,
    /// `egress_port`, a number; deprecated since P4Runtime 1.4.0.
    Number = 1,
}

impl PortForm {
    fn client_data(self, metadata: &[u8]) -> ClientData {
        ClientData {
            bytes: metadata.to_vec(),
            number: self as u64,
            ..ClientData::default()
        }
    }

    fn of(client_data: &ClientData) -> Self {
        match client_data.number {
            1 => Self::Number,
            _ => Self::Bytes,
        }
    }
}

pub(super) fn group_operation(
    kind: Type,
    entry: &v1::MulticastGroupEntry,
) -> EntityResult<Operation> {
    let id = entry.multicast_group_id;
    let what = format!("multicast group {id}");
    check_id(id, MULTICAST_GROUP_ID_MAX, "multicast group")?;
    if kind == Type::Delete {
        return Ok(Operation::MulticastGroup(
            Update::Delete(id),
            ClientData::default(),
        ));
    }
    let (replicas, ports) = replicas(&entry.replicas, &what)?;
    let group = MulticastGroup {
        id,
        replicas,
        backups: backups(&entry.replicas, &what)?,
    };
    let client_data = ports.client_data(&entry.metadata);
    Ok(Operation::MulticastGroup(update(kind, group), client_data))
}

pub(super) fn session_operation(
    kind: Type,
    entry: &v1::CloneSessionEntry,
) -> EntityResult<Operation> {
    let id = entry.session_id;
    let what = format!("clone session {id}");
    check_id(id, CLONE_SESSION_ID_MAX, "clone session")?;
    if kind == Type::Delete {
        return Ok(Operation::CloneSession(
            Update::Delete(id),
            ClientData::default(),
        ));
    }
    if entry
        .replicas
        .iter()
        .any(|it| !it.backup_replicas.is_empty())
    {
        return Err(EntityError::unimplemented(format!(
            "{what}: only multicast groups have backup replicas"
        )));
    }
    let (replicas, ports) = replicas(&entry.replicas, &what)?;
    let length = u32::try_from(entry.packet_length_bytes).map_err(|_| {
        EntityError::invalid(format!(
            "{what}: expected a packet length from 0, found {}",
            entry.packet_length_bytes
        ))
    })?;
    let session = CloneSession {
        id,
        replicas,
        truncate_bytes: (length != 0).then_some(length),
        class_of_service: entry.class_of_service,
    };
    let client_data = ports.client_data(&[]);
    Ok(Operation::CloneSession(update(kind, session), client_data))
}

fn check_id(id: u32, max: u32, what: &str) -> EntityResult {
    if (1..=max).contains(&id) {
        return Ok(());
    }
    Err(EntityError::invalid(format!(
        "expected the id of a {what} from 1 to {max}, found {id}"
    )))
}

fn replicas(given: &[v1::Replica], what: &str) -> EntityResult<(Vec<Replica>, PortForm)> {
    let mut seen = HashSet::new();
    let mut replicas = Vec::with_capacity(given.len());
    let mut n_numbers = 0;
    for replica in given {
        let port = port(replica, what)?;
        let instance = instance(replica.instance, what)?;
        let replica_of = Replica { port, instance };
        if !seen.insert(replica_of) {
            return Err(EntityError::invalid(format!(
                "{what}: port {port} and instance {instance} are given twice"
            )));
        }
        replicas.push(replica_of);
        #[expect(deprecated, reason = "controllers of before P4Runtime 1.4 write it")]
        let is_number = matches!(replica.port_kind, Some(PortKind::EgressPort(_)));
        n_numbers += usize::from(is_number);
    }
    let all_numbers = !given.is_empty() && n_numbers == given.len();
    let form = if all_numbers {
        PortForm::Number
    } else {
        PortForm::Bytes
    };
    Ok((replicas, form))
}

/// The backups of each replica, by the replica's position. The list ends at the last replica that has backups.
fn backups(given: &[v1::Replica], what: &str) -> EntityResult<Vec<Vec<Replica>>> {
    let backup = |backup: &v1::BackupReplica| {
        Ok(Replica {
            port: port_number(&backup.port, what)?,
            instance: instance(backup.instance, what)?,
        })
    };
    let of = |replica: &v1::Replica| replica.backup_replicas.iter().map(backup).collect();
    let mut backups: Vec<Vec<Replica>> = given.iter().map(of).collect::<EntityResult<_>>()?;
    let n = backups.iter().rposition(|backups| !backups.is_empty());
    backups.truncate(n.map_or(0, |last| last + 1));
    Ok(backups)
}

fn instance(given: u32, what: &str) -> EntityResult<u16> {
    u16::try_from(given).map_err(|_| {
        let max = u16::MAX;
        EntityError::invalid(format!(
            "{what}: expected an instance up to {max}, found {given}"
        ))
    })
}

fn port(replica: &v1::Replica, what: &str) -> EntityResult<PortId> {
    #[expect(deprecated, reason = "controllers of before P4Runtime 1.4 write it")]
    match &replica.port_kind {
        Some(PortKind::EgressPort(number)) => port_number(&number.to_be_bytes(), what),
        Some(PortKind::Port(bytes)) => port_number(bytes, what),
        None => Err(no_port(what, "none")),
    }
}

pub(super) fn port_number(bytes: &[u8], what: &str) -> EntityResult<PortId> {
    let value = bytestring::parse(bytes, u32::BITS, what);
    let value = value.map_err(|_| no_port(what, &format!("{} bytes", bytes.len())))?;
    let number = value.iter().fold(0, |n, byte| n << 8 | u32::from(*byte));
    let port = u16::try_from(number).ok();
    let port = port.filter(|port| *port <= PORT_ID_MAX).map(PortId);
    port.ok_or_else(|| no_port(what, &number.to_string()))
}

fn no_port(what: &str, found: &str) -> EntityError {
    EntityError::invalid(format!(
        "{what}: expected a port from 0 to {PORT_ID_MAX}, found {found}"
    ))
}

pub(super) fn port_to_proto(port: PortId) -> Vec<u8> {
    bytestring::canonical(&port.0.to_be_bytes())
}

pub(crate) fn group_to_proto(
    group: &MulticastGroup,
    client_data: &ClientDataMap,
) -> v1::PacketReplicationEngineEntry {
    let client_data = client_data.group(group.id);
    entry(Replication::MulticastGroupEntry(v1::MulticastGroupEntry {
        multicast_group_id: group.id,
        replicas: replicas_to_proto(&group.replicas, &group.backups, PortForm::of(&client_data)),
        metadata: client_data.bytes,
    }))
}

pub(crate) fn session_to_proto(
    session: &CloneSession,
    client_data: &ClientDataMap,
) -> v1::PacketReplicationEngineEntry {
    let ports = PortForm::of(&client_data.session(session.id));
    let length = session.truncate_bytes.unwrap_or(0);
    entry(Replication::CloneSessionEntry(v1::CloneSessionEntry {
        session_id: session.id,
        replicas: replicas_to_proto(&session.replicas, &[], ports),
        class_of_service: session.class_of_service,
        packet_length_bytes: i32::try_from(length).expect("the length was written as an i32"),
    }))
}

fn entry(kind: Replication) -> v1::PacketReplicationEngineEntry {
    v1::PacketReplicationEngineEntry { r#type: Some(kind) }
}

#[expect(deprecated, reason = "controllers of before P4Runtime 1.4 read it")]
fn replicas_to_proto(
    replicas: &[Replica],
    backups: &[Vec<Replica>],
    form: PortForm,
) -> Vec<v1::Replica> {
    let backup = |backup: &Replica| v1::BackupReplica {
        port: port_to_proto(backup.port),
        instance: u32::from(backup.instance),
    };
    let backups = backups.iter().map(Vec::as_slice);
    let backups = backups.chain(std::iter::repeat(&[][..]));
    let replicas = replicas.iter().zip(backups).map(|(replica, backups)| {
        let port_kind = match form {
            PortForm::Number => PortKind::EgressPort(u32::from(replica.port.0)),
            PortForm::Bytes => PortKind::Port(port_to_proto(replica.port)),
        };
        v1::Replica {
            instance: u32::from(replica.instance),
            backup_replicas: backups.iter().map(backup).collect(),
            port_kind: Some(port_kind),
        }
    });
    replicas.collect()
}
