//! Refused writes to tables, and their errors.

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::{
    CounterData, FieldMatch, MeterConfig, TableAction, TableEntry, table_action, table_entry,
};
use tonic::Code::{
    AlreadyExists, InvalidArgument, NotFound, OutOfRange, PermissionDenied, ResourceExhausted,
};

use super::{
    acl, action, all, counter, exact, forward, forward_entry, insert, lpm, optional, range,
    read_back, route, ternary,
};
use crate::harness::{Harness, frame, ids};

// spec: table-entry.insert-modify-delete
#[tokio::test]
async fn inserting_modifying_and_deleting_need_the_right_state() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    for kind in [Modify, Delete] {
        assert_eq!(primary.refused(kind, forward_entry(0xa, 2)).await, NotFound);
    }
    primary.insert(forward_entry(0xa, 2)).await;
    let refused = primary.refused(Insert, forward_entry(0xa, 3)).await;
    assert_eq!(refused, AlreadyExists);
    let request = TableEntry {
        action: None,
        ..forward(0xa, 0)
    };
    let found = read_back(&mut primary, request.clone()).await;
    assert_eq!(found, [forward(0xa, 2)]);

    // DELETE ignores everything except the key.
    let nonsense = TableEntry {
        action: action(1, &[]),
        counter_data: counter(-1, -1),
        idle_timeout_ns: 5,
        ..forward(0xa, 0)
    };
    let nonsense = Kind::TableEntry(nonsense);
    primary.delete(nonsense).await;
    assert_eq!(read_back(&mut primary, request).await, []);
}

// spec: table-entry.full
#[tokio::test]
async fn a_full_table_says_so() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    insert(&mut primary, &route(&[1], 48)).await;
    insert(&mut primary, &route(&[2], 48)).await;
    let third = Kind::TableEntry(route(&[3], 48));
    let refused = primary.write_one(Insert, third).await.unwrap_err();
    assert_eq!(refused.0, ResourceExhausted, "{}", refused.1);
}

// spec: table-entry.match-errors
#[tokio::test]
async fn keys_that_the_specification_forbids_are_refused() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let keyed = |key| TableEntry {
        r#match: key,
        ..forward(0xa, 2)
    };
    let routed = |key| TableEntry {
        r#match: key,
        ..route(&[1], 48)
    };
    let with = |change: fn(&mut TableEntry)| {
        let mut entry = forward(0xa, 2);
        change(&mut entry);
        entry
    };
    let no_match = FieldMatch {
        field_id: 1,
        field_match_type: None,
    };
    let counted = TableEntry {
        counter_data: counter(1, 1),
        ..route(&[1], 48)
    };
    let invalid = [
        (keyed(vec![]), "exact field \"hdr.ethernet.dst\""),
        (keyed(vec![exact(2, &[1])]), "no match field with id 2"),
        (keyed(vec![exact(1, &[1]), exact(1, &[1])]), "given twice"),
        (keyed(vec![lpm(&[1], 48)]), "found Lpm"),
        (keyed(vec![no_match]), "found none"),
        (routed(vec![lpm(&[0], 0)]), "prefix of 1 to 48"),
        (routed(vec![lpm(&[0], 49)]), "prefix of 1 to 48"),
        (routed(vec![lpm(&[1], 40)]), "zero bits after the prefix"),
        (acl(1, vec![ternary(&[0], &[0])]), "mask that is not zero"),
        (acl(1, vec![ternary(&[3], &[1])]), "where the mask is zero"),
        (acl(1, vec![range(&[9], &[1])]), "low bound above"),
        (
            acl(1, vec![range(&[0], &[0xff, 0xff])]),
            "range that does not cover all values",
        ),
        (acl(0, vec![]), "priority above 0"),
        (acl(-1, vec![]), "priority above 0"),
        (with(|it| it.priority = 1), "priority of 0"),
        (with(|it| it.table_id = 0), "found 0"),
        (with(|it| it.table_id = ids::COPIES), "id of a table"),
        (with(|it| it.is_const = true), "is_const"),
        (with(|it| it.idle_timeout_ns = 1), "no idle timeout"),
        (
            with(|it| it.meter_config = Some(MeterConfig::default())),
            "no direct meter",
        ),
        (
            with(|it| it.time_since_last_hit = Some(table_entry::IdleTimeout::default())),
            "time_since_last_hit",
        ),
        (counted, "no direct counter"),
        (with(|it| it.counter_data = counter(-1, 1)), "count from 0"),
    ];
    let out_of_range = [
        (keyed(vec![exact(1, &[])]), "empty byte string"),
        (
            keyed(vec![exact(1, &[1, 0, 0, 0, 0, 0, 0])]),
            "expected a value of 48 bits, found one of 49",
        ),
        (acl(1, vec![optional(&[2, 0])]), "9 bits"),
    ];
    let invalid = invalid.map(|(entry, message)| (entry, InvalidArgument, message));
    let out_of_range = out_of_range.map(|(entry, message)| (entry, OutOfRange, message));
    for (entry, code, message) in invalid.into_iter().chain(out_of_range) {
        let refused = primary
            .write_one(Insert, Kind::TableEntry(entry.clone()))
            .await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.0, code, "{}: {entry:?}", refused.1);
        assert!(refused.1.contains(message), "{message}: {}", refused.1);
    }
    let found = primary.found(all(0)).await.len();
    assert_eq!(found, 2, "only the constant entries");
}

// spec: table-entry.actions
#[tokio::test]
async fn actions_that_do_not_fit_are_refused() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let twice = {
        let mut twice = action(ids::SET_PORT, &[&[1], &[2]]).unwrap();
        if let Some(table_action::Type::Action(action)) = &mut twice.r#type {
            action.params[1].param_id = 1;
        }
        Some(twice)
    };
    let member = Some(TableAction {
        r#type: Some(table_action::Type::ActionProfileMemberId(1)),
    });
    for (action, code, message) in [
        (None, InvalidArgument, "action"),
        (member, InvalidArgument, "action profile"),
        (
            action(ids::SERVE, &[]),
            InvalidArgument,
            "no action with id",
        ),
        (action(ids::DISCARD, &[]), PermissionDenied, "DEFAULT_ONLY"),
        (action(ids::SET_PORT, &[]), InvalidArgument, "found none"),
        (
            action(ids::SET_PORT, &[&[1], &[2]]),
            InvalidArgument,
            "id 2",
        ),
        (twice, InvalidArgument, "given twice"),
        (action(ids::SET_PORT, &[&[2, 0]]), OutOfRange, "9 bits"),
        (action(ids::SET_PORT, &[&[]]), OutOfRange, "empty"),
    ] {
        let entry = TableEntry {
            action,
            ..forward(0xa, 0)
        };
        let refused = primary.write_one(Insert, Kind::TableEntry(entry)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.0, code, "{}", refused.1);
        assert!(refused.1.contains(message), "{message}: {}", refused.1);
    }
}

// spec: table-entry.constant
#[tokio::test]
async fn constant_tables_are_read_but_not_written() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0806));
    let verdict = |ether_type: &[u8], action_id, counter_data| TableEntry {
        table_id: ids::VERDICTS,
        r#match: vec![exact(1, ether_type)],
        action: action(action_id, &[]),
        counter_data,
        is_const: true,
        ..Default::default()
    };
    let table = TableEntry {
        table_id: ids::VERDICTS,
        counter_data: Some(CounterData::default()),
        ..Default::default()
    };
    let mut found = read_back(&mut primary, table).await;
    found.sort_by_key(|entry| entry.counter_data.map(|data| data.packet_count));
    assert_eq!(
        found,
        [
            verdict(&[8, 0], ids::SERVE, counter(0, 0)),
            verdict(&[8, 6], ids::DROP_OTHER, counter(1, 64)),
        ]
    );

    let writable = |entry: TableEntry| TableEntry {
        is_const: false,
        counter_data: None,
        ..entry
    };
    let entry = writable(verdict(&[8, 0], ids::SERVE, None));
    for kind in [Insert, Modify, Delete] {
        let refused = primary
            .write_one(kind, Kind::TableEntry(entry.clone()))
            .await;
        assert_eq!(refused.unwrap_err().0, PermissionDenied, "{kind:?}");
    }
    // The direct counter of a constant entry can be set.
    let count = TableEntry {
        action: None,
        counter_data: counter(5, 6),
        ..entry
    };
    let update = Kind::TableEntry(count.clone());
    primary.modify(update).await;
    let found = read_back(&mut primary, count).await;
    assert_eq!(found[0].counter_data, counter(5, 6));
}

// spec: table-entry.preinitialized
#[tokio::test]
async fn entries_that_a_program_begins_with_are_changed_unless_they_are_constant() {
    use crate::every_entity::{call, entry, frame, pass, start};
    use p4runtime_proto::p4::v1::table_action::Type as Runs;
    let harness = start().await;
    let mut primary = harness.primary().await;
    let mark =
        |key, value| Kind::TableEntry(entry("begun", key, Runs::Action(call("mark", &[value]))));
    let chosen = |key| pass(&harness, 0, &frame(key, 0, 0x800, 0)).chosen;
    assert_eq!([0xb1, 0xb2].map(chosen), [71, 72]);
    let all = Kind::TableEntry(TableEntry {
        table_id: crate::every_entity::id("begun"),
        ..TableEntry::default()
    });
    let constant = |is_const: bool, entity: &Kind| matches!(entity, Kind::TableEntry(entry) if entry.is_const == is_const);
    let read = primary.found(all.clone()).await;
    assert!(
        constant(false, &read[0]) && constant(true, &read[1]),
        "{read:?}"
    );
    primary.modify(mark(0xb1, 9)).await;
    for kind in [Modify, Delete] {
        assert_eq!(primary.refused(kind, mark(0xb2, 9)).await, PermissionDenied);
    }
    assert_eq!([0xb1, 0xb2].map(chosen), [9, 72]);
    primary.insert(mark(0xb3, 10)).await;
    // The entries' state is carried over to another pipeline, and so is the deletion of one of them.
    let config = Some(crate::every_entity::config());
    let action =
        p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action::ReconcileAndCommit;
    primary.set_pipeline(action, config.clone()).await.unwrap();
    assert_eq!([0xb1, 0xb2, 0xb3].map(chosen), [9, 72, 10]);
    primary.delete(mark(0xb1, 9)).await;
    primary.set_pipeline(action, config).await.unwrap();
    assert_eq!([0xb1, 0xb2, 0xb3].map(chosen), [0, 72, 10]);
    assert_eq!(primary.found(all).await.len(), 2);
}
