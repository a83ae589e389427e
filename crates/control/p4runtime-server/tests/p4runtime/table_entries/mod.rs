//! Tests of the P4Runtime specification's sections "TableEntry" and "DirectCounterEntry".

mod refused;

use std::slice::from_ref;

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::{
    Action, CounterData, DirectCounterEntry, FieldMatch, TableAction, TableEntry, action,
    table_action,
};
use tonic::Code::{InvalidArgument, NotFound, PermissionDenied, Unimplemented};

use crate::harness::{Controller, Harness, frame, ids};

fn field(field_id: u32, kind: FieldMatchType) -> FieldMatch {
    FieldMatch {
        field_id,
        field_match_type: Some(kind),
    }
}

fn exact(field_id: u32, value: &[u8]) -> FieldMatch {
    let value = value.to_vec();
    field(field_id, FieldMatchType::Exact(Exact { value }))
}

fn lpm(value: &[u8], prefix_len: i32) -> FieldMatch {
    let value = value.to_vec();
    field(1, FieldMatchType::Lpm(Lpm { value, prefix_len }))
}

fn ternary(value: &[u8], mask: &[u8]) -> FieldMatch {
    let (value, mask) = (value.to_vec(), mask.to_vec());
    field(1, FieldMatchType::Ternary(Ternary { value, mask }))
}

fn range(low: &[u8], high: &[u8]) -> FieldMatch {
    let (low, high) = (low.to_vec(), high.to_vec());
    field(2, FieldMatchType::Range(Range { low, high }))
}

fn optional(value: &[u8]) -> FieldMatch {
    let value = value.to_vec();
    field(3, FieldMatchType::Optional(Optional { value }))
}

fn action(action_id: u32, params: &[&[u8]]) -> Option<TableAction> {
    let params = (1..).zip(params).map(|(param_id, value)| action::Param {
        param_id,
        value: value.to_vec(),
    });
    Some(TableAction {
        r#type: Some(table_action::Type::Action(Action {
            action_id,
            params: params.collect(),
        })),
    })
}

fn forward(dst: u8, port: u8) -> TableEntry {
    TableEntry {
        table_id: ids::FORWARD,
        r#match: vec![exact(1, &[dst])],
        action: action(ids::SET_PORT, &[&[port]]),
        ..Default::default()
    }
}

/// An entry of `forward` for a destination address of any length and an output port.
pub fn forward_to(dst: &[u8], port: u8) -> Kind {
    Kind::TableEntry(TableEntry {
        r#match: vec![exact(1, dst)],
        ..forward(0, port)
    })
}

/// An entry of `forward` for a destination address and an output port.
pub fn forward_entry(dst: u8, port: u8) -> Kind {
    Kind::TableEntry(forward(dst, port))
}

/// A request for every entry of a table, or of all tables.
pub fn all(table_id: u32) -> Kind {
    Kind::TableEntry(TableEntry {
        table_id,
        ..Default::default()
    })
}

/// An entry of `forward` that sends to the controller.
pub fn to_cpu_entry(dst: u8) -> Kind {
    Kind::TableEntry(TableEntry {
        action: action(ids::TO_CPU, &[]),
        ..forward(dst, 0)
    })
}

/// An entry of `forward` that replicates packets to a multicast group.
pub fn group_entry(dst: u8, group: u8) -> Kind {
    Kind::TableEntry(TableEntry {
        action: action(ids::SET_GROUP, &[&[group]]),
        ..forward(dst, 0)
    })
}

fn route(value: &[u8], prefix_len: i32) -> TableEntry {
    TableEntry {
        table_id: ids::ROUTES,
        r#match: vec![lpm(value, prefix_len)],
        action: action(ids::SET_PORT, &[&[3]]),
        ..Default::default()
    }
}

fn acl(priority: i32, fields: Vec<FieldMatch>) -> TableEntry {
    TableEntry {
        table_id: ids::ACL,
        r#match: fields,
        priority,
        action: action(ids::DISCARD, &[]),
        ..Default::default()
    }
}

fn counter(packet_count: i64, byte_count: i64) -> Option<CounterData> {
    Some(CounterData {
        byte_count,
        packet_count,
    })
}

async fn read_back(controller: &mut Controller, request: TableEntry) -> Vec<TableEntry> {
    let found = controller.found(Kind::TableEntry(request)).await;
    let entries = found.into_iter().map(|kind| match kind {
        Kind::TableEntry(entry) => entry,
        other => panic!("expected a table entry, got {other:?}"),
    });
    entries.collect()
}

async fn insert(controller: &mut Controller, entry: &TableEntry) {
    let entry = Kind::TableEntry(entry.clone());
    controller.insert(entry).await;
}

// spec: table-entry.matches, read.symmetry
#[tokio::test]
async fn every_match_kind_is_read_as_it_was_written() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let mut entries = vec![
        forward(0xa, 2),
        route(&[0x0a, 0, 0, 0, 0, 0], 8),
        route(&[1], 48),
        acl(10, vec![ternary(&[0x0b, 0], &[0xff, 0])]),
        acl(11, vec![range(&[1], &[9, 0])]),
        acl(12, vec![optional(&[1, 0])]),
        acl(
            13,
            vec![ternary(&[1], &[1]), range(&[0], &[0xff]), optional(&[0])],
        ),
        acl(14, vec![]),
    ];
    entries[0].metadata = b"cookie".to_vec();
    #[expect(deprecated, reason = "still has to be returned")]
    {
        entries[3].controller_metadata = 99;
    }
    for entry in &entries {
        insert(&mut primary, entry).await;
    }
    let mut found = Vec::new();
    for table_id in [ids::FORWARD, ids::ROUTES, ids::ACL] {
        let table = TableEntry {
            table_id,
            ..Default::default()
        };
        let mut part = read_back(&mut primary, table).await;
        part.sort_by_key(|entry| (entry.priority, entry.r#match[..].len()));
        found.extend(part);
    }
    assert_eq!(found.len(), entries.len());
    for entry in &entries {
        assert!(found.contains(entry), "{entry:?} is not in {found:?}");
    }
}

#[tokio::test]
async fn what_is_written_decides_where_frames_go() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    insert(&mut primary, &forward(0xa, 2)).await;
    insert(&mut primary, &acl(5, vec![optional(&[3])])).await;
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    harness.switch.receive(3, &frame(0xa, 0xb, 0x0800));
    let sent = harness.switch.transmitted();
    assert_eq!(sent.len(), 1, "port 3 is closed by the acl");
    assert_eq!(sent[0].port.0, 2);

    let entry = Kind::TableEntry(forward(0xa, 1));
    primary.modify(entry).await;
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    assert_eq!(harness.switch.transmitted()[0].port.0, 1);
}

// spec: table-entry.default
#[tokio::test]
async fn default_entries_are_modified_and_reset() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let default = |action| TableEntry {
        table_id: ids::FORWARD,
        action,
        is_default_action: true,
        ..Default::default()
    };
    let request = || default(None);
    let initial = default(action(ids::NO_ACTION, &[]));
    assert_eq!(read_back(&mut primary, request()).await, from_ref(&initial));

    let discard = TableEntry {
        metadata: b"mine".to_vec(),
        ..default(action(ids::DISCARD, &[]))
    };
    let update = Kind::TableEntry(discard.clone());
    primary.modify(update).await;
    assert_eq!(read_back(&mut primary, request()).await, [discard]);
    harness.switch.receive(1, &frame(0xff, 0xb, 0x0800));
    assert_eq!(harness.switch.transmitted(), []);

    let reset = Kind::TableEntry(request());
    primary.modify(reset).await;
    assert_eq!(read_back(&mut primary, request()).await, [initial]);

    let of = |table_id, action| TableEntry {
        table_id,
        ..default(action)
    };
    let no_action = || action(ids::NO_ACTION, &[]);
    for (kind, entry, code) in [
        (Insert, default(no_action()), InvalidArgument),
        (Delete, default(None), InvalidArgument),
        (
            Modify,
            TableEntry {
                priority: 1,
                ..default(no_action())
            },
            InvalidArgument,
        ),
        (
            Modify,
            TableEntry {
                r#match: vec![exact(1, &[1])],
                ..default(no_action())
            },
            InvalidArgument,
        ),
        (
            Modify,
            default(action(ids::SET_PORT, &[&[1]])),
            PermissionDenied,
        ),
        (Modify, of(ids::ROUTES, no_action()), PermissionDenied),
        (
            Modify,
            TableEntry {
                counter_data: counter(0, 0),
                ..default(no_action())
            },
            Unimplemented,
        ),
    ] {
        let refused = primary
            .write_one(kind, Kind::TableEntry(entry.clone()))
            .await;
        assert_eq!(refused.unwrap_err().0, code, "{entry:?}");
    }
    let constant = read_back(&mut primary, of(ids::ROUTES, None)).await;
    assert!(constant[0].is_const);
}

// spec: table-entry.direct-counter
#[tokio::test]
async fn an_unset_action_or_counter_is_not_modified() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let with = |action, counter_data| TableEntry {
        action,
        counter_data,
        ..forward(0xa, 0)
    };
    let port = |port: u8| action(ids::SET_PORT, &[&[port]]);
    insert(&mut primary, &with(port(2), counter(10, 20))).await;
    let request = || with(None, counter(0, 0));

    for (change, expected) in [
        (with(port(3), None), with(port(3), counter(10, 20))),
        (with(None, counter(7, 8)), with(port(3), counter(7, 8))),
        (with(None, None), with(port(3), counter(7, 8))),
        (with(port(2), counter(1, 2)), with(port(2), counter(1, 2))),
    ] {
        primary.modify(Kind::TableEntry(change)).await;
        assert_eq!(read_back(&mut primary, request()).await, [expected]);
    }
    let unasked = read_back(&mut primary, with(None, None)).await;
    assert_eq!(
        unasked[0].counter_data, None,
        "only those who ask get the counter"
    );
}

// spec: table-entry.filters
#[tokio::test]
async fn reads_are_filtered() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let tagged = TableEntry {
        metadata: b"tag".to_vec(),
        ..acl(2, vec![optional(&[1])])
    };
    let passing = TableEntry {
        action: action(ids::NO_ACTION, &[]),
        ..acl(1, vec![])
    };
    for entry in [&tagged, &passing, &acl(2, vec![range(&[1], &[2])])] {
        insert(&mut primary, entry).await;
    }
    let of = |table_id| TableEntry {
        table_id,
        ..Default::default()
    };
    let by_key = TableEntry {
        r#match: vec![optional(&[1])],
        ..of(ids::ACL)
    };
    let by_priority = TableEntry {
        priority: 2,
        ..of(ids::ACL)
    };
    let by_metadata = TableEntry {
        metadata: b"tag".to_vec(),
        ..of(ids::ACL)
    };
    let by_action = TableEntry {
        action: action(ids::NO_ACTION, &[]),
        ..of(ids::ACL)
    };
    assert_eq!(read_back(&mut primary, by_key).await, from_ref(&tagged));
    assert_eq!(read_back(&mut primary, by_priority.clone()).await.len(), 2);
    assert_eq!(read_back(&mut primary, by_metadata.clone()).await, [tagged]);
    assert_eq!(read_back(&mut primary, by_action).await, [passing]);
    assert_eq!(read_back(&mut primary, of(ids::ROUTES)).await, []);
    assert_eq!(read_back(&mut primary, of(0)).await.len(), 3 + 2);

    for (filter, code) in [
        (
            TableEntry {
                table_id: 0,
                ..by_priority
            },
            InvalidArgument,
        ),
        (
            TableEntry {
                table_id: 0,
                ..by_metadata
            },
            InvalidArgument,
        ),
        (
            TableEntry {
                r#match: vec![exact(1, &[1])],
                ..of(ids::ACL)
            },
            InvalidArgument,
        ),
        (of(12), InvalidArgument),
    ] {
        assert_eq!(primary.read_error(Kind::TableEntry(filter)).await, code);
    }
}

// spec: counter.direct
#[tokio::test]
async fn direct_counters_count_and_are_written() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    insert(&mut primary, &forward(0xa, 2)).await;
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    let direct = |entry: TableEntry, data| {
        let table_entry = Some(TableEntry {
            action: None,
            ..entry
        });
        Kind::DirectCounterEntry(DirectCounterEntry { table_entry, data })
    };
    let of = |table_id| TableEntry {
        table_id,
        ..Default::default()
    };
    let counted = direct(forward(0xa, 2), counter(2, 128));
    let one = primary.found(direct(forward(0xa, 2), None)).await;
    assert_eq!(one, from_ref(&counted));
    let table = primary.found(direct(of(ids::FORWARD), None)).await;
    assert_eq!(table, from_ref(&counted));
    let every_table = primary.found(direct(of(0), None)).await;
    assert_eq!(every_table.len(), 3, "one entry, two constant ones");
    assert!(every_table.contains(&counted));

    let zero = direct(forward(0xa, 2), counter(0, 0));
    primary.modify(zero.clone()).await;
    // Without a value nothing changes, but the entry must exist.
    let unset = direct(forward(0xa, 2), None);
    primary.modify(unset.clone()).await;
    assert_eq!(primary.found(unset).await, from_ref(&zero));

    primary
        .expect_refused([
            (Insert, zero.clone(), InvalidArgument),
            (Delete, zero, InvalidArgument),
            (Modify, direct(forward(0xb, 2), None), NotFound),
            (Modify, direct(route(&[1], 48), None), InvalidArgument),
        ])
        .await;
    let missing = direct(forward(0xb, 2), None);
    assert_eq!(primary.read_error(missing).await, NotFound);
    let uncounted = direct(of(ids::ROUTES), None);
    assert_eq!(primary.read_error(uncounted).await, InvalidArgument);
}
