//! Tests of the P4Runtime specification's section "PacketReplicationEngineEntry".

use std::slice::from_ref;

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::replica::PortKind;
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::{
    BackupReplica, CloneSessionEntry, MulticastGroupEntry, PacketReplicationEngineEntry, Replica,
};
use tonic::Code::{AlreadyExists, InvalidArgument, NotFound, Unimplemented};

use crate::harness::{Harness, frame};
use crate::table_entries::group_entry;

fn entry(kind: Replication) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) })
}

pub fn replica(port: &[u8], instance: u32) -> Replica {
    Replica {
        instance,
        port_kind: Some(PortKind::Port(port.to_vec())),
        ..Default::default()
    }
}

pub fn group(id: u32, replicas: Vec<Replica>) -> Kind {
    entry(Replication::MulticastGroupEntry(MulticastGroupEntry {
        multicast_group_id: id,
        replicas,
        metadata: b"group".to_vec(),
    }))
}

fn session(id: u32, replicas: Vec<Replica>, packet_length_bytes: i32) -> Kind {
    entry(Replication::CloneSessionEntry(CloneSessionEntry {
        session_id: id,
        replicas,
        class_of_service: 0,
        packet_length_bytes,
    }))
}

// spec: multicast.groups
#[tokio::test]
async fn groups_replicate_and_are_read_as_they_were_written() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    primary.insert(group_entry(0xa, 9)).await;
    let first = group(
        9,
        vec![replica(&[2], 7), replica(&[2], 3), replica(&[1], 7)],
    );
    primary.insert(first.clone()).await;
    let second = group(65_535, vec![]);
    primary.insert(second.clone()).await;

    harness.switch.receive(3, &frame(0xa, 0xb, 0x0800));
    let mut ports: Vec<u16> = harness
        .switch
        .transmitted()
        .iter()
        .map(|t| t.port.0)
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [1, 2, 2]);

    assert_eq!(primary.found(group(9, vec![])).await, from_ref(&first));
    let found = primary.found(group(0, vec![])).await;
    assert_eq!(found, [first.clone(), second]);
    assert_eq!(primary.found(group(8, vec![])).await, []);

    assert_eq!(primary.refused(Insert, first).await, AlreadyExists);
    let smaller = group(9, vec![replica(&[1], 1)]);
    primary.modify(smaller.clone()).await;
    assert_eq!(primary.found(group(9, vec![])).await, [smaller]);
    primary.delete(group(9, vec![])).await;
    assert_eq!(primary.found(group(9, vec![])).await, []);
    for kind in [Modify, Delete] {
        let refused = primary.write_one(kind, group(9, vec![])).await;
        assert_eq!(refused.unwrap_err().0, NotFound, "{kind:?}");
    }
}

// spec: clone-session.sessions
#[tokio::test]
async fn sessions_are_read_as_they_were_written() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let first = session(100, vec![replica(&[1, 0xfe], 0)], 0);
    let second = session(101, vec![replica(&[0], 65_535)], 128);
    for session in [&first, &second] {
        primary.insert(session.clone()).await;
    }
    let none = || session(0, vec![], 0);
    assert_eq!(primary.found(none()).await, [first.clone(), second.clone()]);
    assert_eq!(primary.found(session(101, vec![], 0)).await, [second]);

    let changed = session(100, vec![replica(&[3], 1)], 64);
    primary.modify(changed.clone()).await;
    primary.delete(session(101, vec![], 0)).await;
    assert_eq!(primary.found(none()).await, [changed]);
    for kind in [Modify, Delete] {
        let refused = primary.write_one(kind, session(101, vec![], 0)).await;
        assert_eq!(refused.unwrap_err().0, NotFound, "{kind:?}");
    }
}

#[tokio::test]
async fn ports_in_the_deprecated_form_are_read_in_that_form() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    #[expect(deprecated, reason = "older controllers write it")]
    let old = Replica {
        instance: 1,
        port_kind: Some(PortKind::EgressPort(2)),
        ..Default::default()
    };
    let written = group(1, vec![old]);
    primary.insert(written.clone()).await;
    assert_eq!(primary.found(group(1, vec![])).await, [written]);
}

#[tokio::test]
async fn a_port_that_is_none_is_named_as_it_came() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    #[expect(deprecated, reason = "older controllers write it")]
    let old = Replica {
        port_kind: Some(PortKind::EgressPort(511)),
        ..Default::default()
    };
    for (replica, found) in [
        (old, "511"),
        (replica(&[1, 0xff], 1), "511"),
        (replica(&[1, 0, 0, 0, 0], 1), "5 bytes"),
        (Replica::default(), "none"),
    ] {
        let refused = primary.write_one(Insert, group(1, vec![replica])).await;
        let (code, message) = refused.unwrap_err();
        assert_eq!(code, InvalidArgument);
        let expected = format!("expected a port from 0 to 510, found {found}");
        assert!(message.ends_with(&expected), "{message}");
    }
}

// spec: multicast.errors, clone-session.errors
#[tokio::test]
async fn wrong_updates_are_refused() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let backup = Replica {
        backup_replicas: vec![BackupReplica {
            port: vec![1],
            instance: 2,
        }],
        ..replica(&[2], 1)
    };
    let own_backup = Replica {
        backup_replicas: vec![BackupReplica {
            port: vec![2],
            instance: 2,
        }],
        ..replica(&[2], 1)
    };
    let no_port = Replica::default();
    let invalid = InvalidArgument;
    for (entity, code) in [
        (group(0, vec![]), invalid),
        (group(65_536, vec![]), invalid),
        (group(1, vec![replica(&[1], 1), replica(&[1], 1)]), invalid),
        (group(1, vec![replica(&[1], 65_536)]), invalid),
        (group(1, vec![replica(&[1, 0xff], 1)]), invalid),
        (group(1, vec![replica(&[], 1)]), invalid),
        (group(1, vec![no_port]), invalid),
        (group(1, vec![own_backup]), invalid),
        (group(1, vec![backup.clone(), replica(&[1], 2)]), invalid),
        (session(1, vec![backup], 0), Unimplemented),
        (session(0, vec![], 0), invalid),
        (session(32_768, vec![], 0), invalid),
        (session(1, vec![], -1), invalid),
        (
            Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry::default()),
            invalid,
        ),
    ] {
        let refused = primary.write_one(Insert, entity.clone()).await.unwrap_err();
        assert_eq!(refused.0, code, "{entity:?}: {}", refused.1);
    }
    let unset = Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry::default());
    assert_eq!(primary.read_error(unset).await, invalid);
}

// spec: multicast.backup-replicas
#[tokio::test]
async fn a_backup_stands_in_while_the_port_of_its_replica_is_down() {
    use crate::every_entity::{call, entry, frame, kinds, marks, start};
    use dataplane::PortId;
    use p4runtime_proto::p4::v1::table_action::Type as Runs;
    let harness = start().await;
    let mut primary = harness.primary().await;
    let backup = |port: u8, instance| BackupReplica {
        port: vec![port],
        instance,
    };
    let first = Replica {
        backup_replicas: vec![backup(2, 20), backup(3, 30)],
        ..replica(&[1], 10)
    };
    let group = group(1, vec![first, replica(&[0], 40)]);
    primary.insert(group.clone()).await;
    let by_type = entry("replicated", 9, Runs::Action(call("to_group", &[1])));
    let by_type = Kind::TableEntry(by_type);
    primary.insert(by_type).await;
    // Sends a frame, and returns the ports and instances of its copies.
    let copies = || {
        harness.switch.receive(0, &frame(7, 0, 9, kinds::PLAIN));
        let sent = harness.switch.transmitted();
        let copies = sent
            .iter()
            .map(marks)
            .map(|marks| (marks.port, marks.chosen));
        copies.collect::<Vec<_>>()
    };
    let set = |port, is_up| harness.switch.set_port_up(PortId(port), is_up);
    assert_eq!(copies(), [(1, 10), (0, 40)]);
    set(1, false);
    assert_eq!(copies(), [(2, 20), (0, 40)]);
    set(2, false);
    assert_eq!(copies(), [(3, 30), (0, 40)]);
    // If the ports of a replica and of all its backups are down, the copy goes to the replica's own port.
    set(3, false);
    assert_eq!(copies(), [(1, 10), (0, 40)]);
    set(2, true);
    assert_eq!(copies(), [(2, 20), (0, 40)]);
    set(1, true);
    assert_eq!(copies(), [(1, 10), (0, 40)]);
    assert_eq!(primary.found(group.clone()).await, from_ref(&group));
    primary.modify(group).await;
    // A new pipeline knows which ports were already down before it was set.
    set(1, false);
    use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
    let config = crate::every_entity::config();
    let set = primary
        .set_pipeline(Action::ReconcileAndCommit, Some(config))
        .await;
    set.unwrap();
    assert_eq!(copies(), [(2, 20), (0, 40)]);
}
