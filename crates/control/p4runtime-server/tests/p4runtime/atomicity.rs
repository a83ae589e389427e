//! Tests of the P4Runtime specification's section "Batch Atomicity": batches that are applied completely or not at all,
//! and the state after a rollback.

use dataplane::SwitchConfig;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::table_action::Type as Runs;
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, CounterData, CounterEntry,
    DigestEntry, Index, MeterConfig, MeterCounterData, MeterEntry, MulticastGroupEntry, P4Data,
    PacketReplicationEngineEntry, RegisterEntry, TableEntry, Update, ValueSetEntry, ValueSetMember,
    WriteRequest, digest_entry, p4_data,
};
use testkit::text::assert_has;
use tonic::Code::{
    self, Aborted, AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unimplemented,
};
use tonic::Status;

use crate::every_entity::{
    action, call, config, entry, exact, frame, id, kinds, marks, pass, start,
};
use crate::harness::{Controller, DEVICE_ID, Harness, details, in_time, update};

async fn write(
    controller: &mut Controller,
    atomicity: Atomicity,
    updates: Vec<Update>,
) -> Result<(), Status> {
    let request = WriteRequest {
        device_id: DEVICE_ID,
        election_id: controller.election_id,
        updates,
        atomicity: atomicity as i32,
        ..Default::default()
    };
    in_time(controller.client.write(request)).await.map(drop)
}

fn codes(status: &Status) -> Vec<Code> {
    let errors = details(status);
    errors
        .iter()
        .map(|error| Code::from(error.canonical_code))
        .collect()
}

fn ordered(priority: i32, mark: u8) -> Kind {
    Kind::TableEntry(TableEntry {
        table_id: id("ordered"),
        priority,
        action: action(Runs::Action(call("mark", &[mark]))),
        ..TableEntry::default()
    })
}

/// Makes an entry like `ordered`, but with a key, so that entries with the same priority differ.
fn masked(key: u8, priority: i32, mark: u8) -> Kind {
    use p4runtime_proto::p4::v1::field_match::{FieldMatchType, Ternary};
    let Kind::TableEntry(mut entry) = ordered(priority, mark) else {
        unreachable!("it is an entry")
    };
    entry.r#match = vec![p4runtime_proto::p4::v1::FieldMatch {
        field_id: 1,
        field_match_type: Some(FieldMatchType::Ternary(Ternary {
            value: vec![key],
            mask: vec![key],
        })),
    }];
    Kind::TableEntry(entry)
}

pub fn limited(key: u8, cir: i64) -> Kind {
    Kind::TableEntry(TableEntry {
        meter_config: Some(MeterConfig {
            cir,
            cburst: 1_000,
            pir: cir,
            pburst: 1_000,
            eburst: 0,
        }),
        idle_timeout_ns: 1_000_000_000,
        metadata: vec![key],
        ..entry("limited", key, Runs::Action(call("metered", &[])))
    })
}

fn every_limited() -> Kind {
    Kind::TableEntry(TableEntry {
        table_id: id("limited"),
        ..TableEntry::default()
    })
}

fn member(member_id: u32, mark: u8) -> Kind {
    Kind::ActionProfileMember(ActionProfileMember {
        action_profile_id: id("spread"),
        member_id,
        action: Some(call("mark", &[mark])),
    })
}

fn group(members: &[u32]) -> Kind {
    use p4runtime_proto::p4::v1::action_profile_group::Member;
    let members = members.iter().map(|member_id| Member {
        member_id: *member_id,
        weight: 1,
        watch_kind: None,
    });
    Kind::ActionProfileGroup(ActionProfileGroup {
        action_profile_id: id("spread"),
        group_id: 1,
        members: members.collect(),
        max_size: 0,
    })
}

fn by_group() -> Kind {
    Kind::TableEntry(entry("many", 7, Runs::ActionProfileGroupId(1)))
}

fn by_member(key: u8, id: u32) -> Kind {
    Kind::TableEntry(entry("many", key, Runs::ActionProfileMemberId(id)))
}

fn replication(of: Replication) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(of) })
}

fn multicast(metadata: u8) -> Kind {
    replication(Replication::MulticastGroupEntry(MulticastGroupEntry {
        multicast_group_id: 1,
        replicas: Vec::new(),
        metadata: vec![metadata],
    }))
}

fn session(class_of_service: u32) -> Kind {
    replication(Replication::CloneSessionEntry(CloneSessionEntry {
        session_id: 1,
        class_of_service,
        ..CloneSessionEntry::default()
    }))
}

fn counter(index: i64, packet_count: i64) -> Kind {
    Kind::CounterEntry(CounterEntry {
        counter_id: id("counts"),
        index: Some(Index { index }),
        data: Some(CounterData {
            packet_count,
            byte_count: 0,
        }),
    })
}

fn slot(index: Option<i64>, value: u8) -> Kind {
    let data = Some(p4_data::Data::Bitstring(vec![value]));
    Kind::RegisterEntry(RegisterEntry {
        register_id: id("slots"),
        index: index.map(|index| Index { index }),
        data: Some(P4Data { data }),
    })
}

fn rates(cir: i64) -> Kind {
    Kind::MeterEntry(MeterEntry {
        meter_id: id("rates"),
        index: None,
        config: Some(MeterConfig {
            cir,
            cburst: 2,
            pir: cir,
            pburst: 2,
            eburst: 0,
        }),
        counter_data: None,
    })
}

fn trunks(value: u8) -> Kind {
    Kind::ValueSetEntry(ValueSetEntry {
        value_set_id: id("trunks"),
        members: vec![ValueSetMember {
            r#match: vec![exact(1, &[value])],
        }],
    })
}

fn digest(max_list_size: i32) -> Kind {
    Kind::DigestEntry(DigestEntry {
        digest_id: id("seen_t"),
        config: Some(digest_entry::Config {
            max_list_size,
            ..digest_entry::Config::default()
        }),
    })
}

fn default_of_ordered(mark: u8) -> Kind {
    Kind::TableEntry(TableEntry {
        table_id: id("ordered"),
        is_default_action: true,
        action: action(Runs::Action(call("mark", &[mark]))),
        metadata: vec![mark],
        ..TableEntry::default()
    })
}

/// Returns updates that insert entities of each kind, in an order in which they can be inserted.
pub fn everything() -> Vec<Update> {
    let inserted = [
        masked(1, 5, 1),
        masked(2, 5, 2),
        masked(3, 5, 3),
        limited(1, 10),
        limited(2, 10),
        member(1, 11),
        member(2, 22),
        member(3, 33),
        group(&[1, 3]),
        by_group(),
        by_member(8, 1),
        multicast(1),
        session(1),
        digest(1),
    ];
    let modified = [
        default_of_ordered(9),
        counter(1, 5),
        slot(None, 3),
        rates(1),
        trunks(1),
    ];
    let inserted = inserted.map(|entity| update(Insert, entity));
    let modified = modified.map(|entity| update(Modify, entity));
    inserted.into_iter().chain(modified).collect()
}

/// Changes to all entities of `everything`; some entries and members are deleted and inserted again.
fn changes() -> Vec<Update> {
    let changes = [
        (Delete, masked(1, 5, 1)),
        (Modify, masked(2, 5, 7)),
        (Insert, masked(4, 5, 4)),
        (Delete, limited(2, 10)),
        (Modify, limited(1, 99)),
        (Insert, limited(3, 10)),
        (Delete, by_member(8, 1)),
        (Modify, group(&[2])),
        (Delete, member(1, 11)),
        (Delete, member(3, 33)),
        (Insert, member(4, 44)),
        (Modify, member(2, 55)),
        (Delete, by_group()),
        (Delete, group(&[])),
        (Modify, multicast(2)),
        (Delete, session(1)),
        (Modify, digest(2)),
        (Modify, default_of_ordered(8)),
        (Modify, counter(1, 6)),
        (Modify, slot(Some(2), 4)),
        (Modify, rates(2)),
        (Modify, trunks(2)),
        (Insert, masked(1, 5, 12)),
    ];
    changes.map(|(kind, entity)| update(kind, entity)).into()
}

/// Everything that can be read, including counts and `time_since_last_hit`.
pub async fn state(controller: &mut Controller) -> Vec<Kind> {
    let table = |alias: &str, is_default_action| {
        let is_limited = alias == "limited";
        Kind::TableEntry(TableEntry {
            table_id: id(alias),
            is_default_action,
            meter_config: is_limited.then(MeterConfig::default),
            meter_counter_data: is_limited.then(MeterCounterData::default),
            counter_data: is_limited.then(CounterData::default),
            time_since_last_hit: is_limited.then(Default::default),
            ..TableEntry::default()
        })
    };
    let meters = MeterEntry {
        counter_data: Some(MeterCounterData::default()),
        ..MeterEntry::default()
    };
    let requests = [
        table("ordered", false),
        table("ordered", true),
        table("limited", false),
        table("many", false),
        Kind::ActionProfileMember(ActionProfileMember::default()),
        Kind::ActionProfileGroup(ActionProfileGroup::default()),
        Kind::CounterEntry(CounterEntry::default()),
        Kind::RegisterEntry(RegisterEntry::default()),
        Kind::MeterEntry(meters),
        Kind::ValueSetEntry(ValueSetEntry::default()),
        Kind::DigestEntry(DigestEntry::default()),
        replication(Replication::MulticastGroupEntry(
            MulticastGroupEntry::default(),
        )),
        replication(Replication::CloneSessionEntry(CloneSessionEntry::default())),
    ];
    let mut found = Vec::new();
    for request in requests {
        found.extend(controller.found(request).await);
    }
    found
}

/// Sends frames into the switch, and returns the marks and ports of the frames that leave it.
fn traffic(harness: &Harness) -> Vec<crate::every_entity::Marks> {
    let mut sent = Vec::new();
    for dst in [1, 2, 3, 7, 8, 15] {
        for src in [1, 2, 3] {
            harness
                .switch
                .receive(0, &frame(dst, src, 0x800, kinds::METERED));
            sent.extend(harness.switch.transmitted().iter().map(marks));
        }
    }
    sent
}

// spec: atomicity.rollback
#[tokio::test]
async fn what_is_taken_back_is_as_if_it_had_never_been() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    primary.write(everything()).await.unwrap();
    traffic(&harness);
    harness.switch.advance(1_000_000);
    let before = state(&mut primary).await;
    let n_changes = changes().len();
    // The switch refuses an update at each of these positions.
    for place in [1, 5, 10, 15, n_changes] {
        let mut updates = changes();
        updates.insert(place, update(Delete, limited(0x77, 1)));
        let status = write(&mut primary, Atomicity::RollbackOnError, updates).await;
        let mut expected = vec![Aborted; n_changes + 1];
        expected[place] = NotFound;
        assert_eq!(codes(&status.unwrap_err()), expected);
        assert_eq!(state(&mut primary).await, before, "refused at {place}");
    }
    // Output ports and meter buckets equal those of a switch that never saw a change.
    let twin = start().await;
    let mut of_twin = twin.primary().await;
    of_twin.write(everything()).await.unwrap();
    traffic(&twin);
    twin.switch.advance(1_000_000);
    assert_eq!(traffic(&harness), traffic(&twin));
    // The profile still knows which entries use which member, and assigns free positions as before.
    let refused = primary.refused(Delete, member(1, 11)).await;
    assert_eq!(refused, FailedPrecondition);
    let done = write(&mut primary, Atomicity::RollbackOnError, changes()).await;
    done.unwrap();
    let once = write(&mut of_twin, Atomicity::ContinueOnError, changes()).await;
    once.unwrap();
    assert_eq!(state(&mut primary).await, state(&mut of_twin).await);
    assert_eq!(traffic(&harness), traffic(&twin));
}

// spec: atomicity.errors
#[tokio::test]
async fn a_batch_with_an_update_that_makes_no_sense_is_not_begun() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let unknown = Kind::TableEntry(TableEntry {
        table_id: 12,
        ..TableEntry::default()
    });
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let updates = vec![
            update(Insert, limited(1, 1)),
            update(Insert, unknown.clone()),
            update(Delete, limited(0x77, 1)),
        ];
        let status = write(&mut primary, atomicity, updates).await.unwrap_err();
        assert_eq!(codes(&status), [Aborted, InvalidArgument, Aborted]);
        assert_has(&details(&status)[0].message, "update 2");
        assert_eq!(primary.found(every_limited()).await, []);
    }
    let request = WriteRequest {
        device_id: DEVICE_ID,
        election_id: primary.election_id,
        atomicity: 9,
        ..Default::default()
    };
    let refused = in_time(primary.client.write(request)).await.unwrap_err();
    assert_eq!(refused.code(), InvalidArgument);
}

// spec: atomicity.dataplane
#[tokio::test]
async fn no_packet_sees_a_part_of_an_atomic_batch() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let entries = |mark| {
        let of = |key: u8| update(Modify, masked(1_u8 << key, i32::from(key), mark));
        (1..=3_u8).map(of).collect::<Vec<_>>()
    };
    let inserts = (1..=3_u8).map(|key| update(Insert, masked(1_u8 << key, i32::from(key), 0)));
    write(&mut primary, Atomicity::DataplaneAtomic, inserts.collect())
        .await
        .unwrap();
    // At any time, the three entries have the same mark: frames pass only between two pieces of work, and the batch is
    // one piece.
    let before = harness.switch.n_pieces();
    write(&mut primary, Atomicity::DataplaneAtomic, entries(5))
        .await
        .unwrap();
    assert_eq!(harness.switch.n_pieces() - before, 1);
    for key in 1..=3_u8 {
        let sent = pass(&harness, 0, &frame(1 << key, 0, 0x800, kinds::PLAIN));
        assert_eq!(sent.chosen, 5);
    }
    let mut refused = entries(6);
    refused.push(update(Insert, masked(2, 1, 1)));
    let status = write(&mut primary, Atomicity::DataplaneAtomic, refused).await;
    assert_eq!(codes(&status.unwrap_err())[3], AlreadyExists);
    let sent = pass(&harness, 0, &frame(2, 0, 0x800, kinds::PLAIN));
    assert_eq!(sent.chosen, 5);
}

// spec: atomicity.limits
#[tokio::test]
async fn what_frames_cannot_wait_for_is_refused_whole() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let many = || vec![update(Modify, slot(Some(0), 1)); 8_193];
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let refused = write(&mut primary, atomicity, many()).await.unwrap_err();
        assert_eq!(refused.code(), Unimplemented);
        assert!(refused.message().contains("8192"), "{refused:?}");
    }
    write(&mut primary, Atomicity::ContinueOnError, many())
        .await
        .unwrap();
    let generator = crate::generators::a_generator();
    let updates = vec![update(Modify, slot(Some(1), 9)), update(Insert, generator)];
    let status = write(&mut primary, Atomicity::RollbackOnError, updates).await;
    assert_eq!(codes(&status.unwrap_err()), [Aborted, Unimplemented]);
}

/// If a packet were between ingress and egress, it would see the state before the batch in ingress and the state after
/// the batch in egress.
#[tokio::test]
async fn while_packets_are_held_between_passes_no_batch_is_atomic_to_them() {
    let limits = SwitchConfig {
        egress_rate_pps: Some(1),
        ..SwitchConfig::default()
    };
    let harness = Harness::without_pipeline(limits).await;
    let mut primary = harness.primary().await;
    primary.commit(config()).await;
    for _ in 0..3 {
        harness.switch.receive(0, &frame(7, 0, 0x800, kinds::PLAIN));
    }
    let insert = || vec![update(Insert, limited(1, 1))];
    let refused = write(&mut primary, Atomicity::DataplaneAtomic, insert()).await;
    assert_eq!(refused.unwrap_err().code(), Unimplemented);
    assert_eq!(primary.found(every_limited()).await, []);
    for _ in 0..4 {
        harness.switch.advance(1_000_000_000);
    }
    write(&mut primary, Atomicity::DataplaneAtomic, insert())
        .await
        .unwrap();
}

/// Batches to a saved pipeline, which is not yet committed, are rolled back too. When the pipeline is committed, the
/// writes that were not rolled back are replayed.
#[tokio::test]
async fn a_saved_pipeline_takes_batches_back_too() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let saved = primary
        .set_pipeline(Action::VerifyAndSave, Some(config()))
        .await;
    saved.unwrap();
    let mut refused = everything();
    refused.push(update(Delete, limited(0x77, 1)));
    let status = write(&mut primary, Atomicity::RollbackOnError, refused).await;
    assert_eq!(*codes(&status.unwrap_err()).last().unwrap(), NotFound);
    let kept = write(
        &mut primary,
        Atomicity::RollbackOnError,
        vec![update(Insert, limited(1, 1))],
    );
    kept.await.unwrap();
    primary.set_pipeline(Action::Commit, None).await.unwrap();
    let found = state(&mut primary).await;
    let entries = found
        .iter()
        .filter(|it| matches!(it, Kind::TableEntry(it) if !it.is_default_action));
    assert_eq!(entries.count(), 1);
}

/// All workers reach the same state, in whatever order they run.
#[tokio::test]
async fn several_workers_take_a_batch_back_alike() {
    let harness = Harness::with_workers(3).await;
    let mut primary = harness.primary().await;
    primary.commit(config()).await;
    let without_timeouts = |updates: Vec<Update>| -> Vec<Update> {
        let mut updates = updates;
        for update in &mut updates {
            if let Some(Kind::TableEntry(entry)) = update.entity.as_mut().unwrap().entity.as_mut() {
                entry.idle_timeout_ns = 0;
            }
        }
        updates
    };
    primary.write(without_timeouts(everything())).await.unwrap();
    let before = state(&mut primary).await;
    let mut refused = without_timeouts(changes());
    refused.push(update(Insert, digest(3)));
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let status = write(&mut primary, atomicity, refused.clone())
            .await
            .unwrap_err();
        assert_eq!(*codes(&status).last().unwrap(), AlreadyExists);
        assert_eq!(state(&mut primary).await, before);
    }
    write(
        &mut primary,
        Atomicity::DataplaneAtomic,
        without_timeouts(changes()),
    )
    .await
    .unwrap();
}

/// If the caller cancels a batch, the batch is still applied completely.
#[tokio::test]
async fn a_caller_that_gives_up_leaves_a_whole_batch() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    harness.switch.hold();
    let request = WriteRequest {
        device_id: DEVICE_ID,
        election_id: primary.election_id,
        updates: (1..=20)
            .map(|key| update(Insert, limited(key, 1)))
            .collect(),
        atomicity: Atomicity::DataplaneAtomic as i32,
        ..Default::default()
    };
    let mut client = primary.client.clone();
    let call = tokio::spawn(async move { client.write(request).await });
    while harness.switch.n_held() == 0 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    harness.switch.release();
    assert_eq!(primary.found(every_limited()).await.len(), 20);
}
