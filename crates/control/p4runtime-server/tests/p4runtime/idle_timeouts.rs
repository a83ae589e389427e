//! Tests of the P4Runtime specification: "Idle-timeout" in the section "TableEntry", and the section "Table Entry Idle
//! Timeout Notification".

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::config::v1::table::IdleTimeoutBehavior;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::stream_message_response::Update as ResponseUpdate;
use p4runtime_proto::p4::v1::table_entry::IdleTimeout;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{IdleTimeoutNotification, TableEntry};
use tonic::Code;

use crate::harness::{Controller, Harness, JSON, frame, ids, p4info};
use crate::table_entries::forward_entry;

const SECOND: i64 = 1_000_000_000;

/// The fixture with idle timeouts in the table `forward`.
fn timing() -> (P4Info, Vec<u8>) {
    let mut p4info = p4info();
    let is_forward = |id: u32| id == ids::FORWARD;
    for table in &mut p4info.tables {
        if table.preamble.as_ref().is_some_and(|it| is_forward(it.id)) {
            table.idle_timeout_behavior = IdleTimeoutBehavior::NotifyControl as i32;
        }
    }
    let json = JSON.replace(r#""support_timeout": false"#, r#""support_timeout": true"#);
    (p4info, json.into_bytes())
}

async fn with_timeouts(harness: &Harness) -> Controller {
    let (p4info, json) = timing();
    harness.server.set_pipeline(p4info, json).await.unwrap();
    harness.primary().await
}

fn timed(dst: u8, timeout_ns: i64) -> Kind {
    let Kind::TableEntry(entry) = forward_entry(dst, 2) else {
        panic!("expected a table entry");
    };
    Kind::TableEntry(TableEntry {
        idle_timeout_ns: timeout_ns,
        metadata: vec![dst],
        ..entry
    })
}

async fn notification(controller: &mut Controller) -> IdleTimeoutNotification {
    match controller.next().await {
        Ok(Some(ResponseUpdate::IdleTimeoutNotification(notification))) => notification,
        other => panic!("expected an idle timeout, got {other:?}"),
    }
}

// spec: table-entry.idle-timeout
#[tokio::test]
async fn the_primary_is_notified_of_an_idle_entry_once_and_again_after_a_hit() {
    let harness = Harness::start().await;
    let mut primary = with_timeouts(&harness).await;
    primary.insert(timed(0xa, 3 * SECOND)).await;
    primary.insert(timed(0xb, 0)).await;
    harness.switch.advance(2_000_000_000);
    harness.switch.receive(1, &frame(0xa, 0xc, 0x0800));
    harness.switch.advance(2_000_000_000);
    harness.switch.advance(2_000_000_000);
    let notice = notification(&mut primary).await;
    let [entry] = &notice.table_entry[..] else {
        panic!("expected one entry, got {notice:?}");
    };
    let Kind::TableEntry(written) = timed(0xa, 3 * SECOND) else {
        panic!("expected a table entry");
    };
    assert_eq!(
        *entry,
        TableEntry {
            action: None,
            ..written
        }
    );
    assert!(notice.timestamp > 0);
    // There is no further notification before a hit: the next notification is for the timeout after the second hit.
    harness.switch.advance(20_000_000_000);
    harness.switch.receive(1, &frame(0xa, 0xc, 0x0800));
    harness.switch.advance(5_000_000_000);
    let again = notification(&mut primary).await;
    assert_eq!(again.table_entry, notice.table_entry);
    assert_eq!(harness.switch.transmitted().len(), 2);
    // A modification removes the timeout: only the other entry's notification arrives.
    primary.modify(timed(0xa, 0)).await;
    primary.modify(timed(0xb, SECOND)).await;
    harness.switch.advance(30_000_000_000);
    let other = notification(&mut primary).await;
    assert_eq!(other.table_entry[0].metadata, [0xb]);
}

// spec: table-entry.idle-timeout
#[tokio::test]
async fn an_entrys_idle_timeout_and_the_time_since_its_last_hit_are_read() {
    let harness = Harness::start().await;
    let mut primary = with_timeouts(&harness).await;
    primary.insert(timed(0xa, 9 * SECOND)).await;
    harness.switch.advance(2_000_000_000);
    for (asked, since) in [
        (None, None),
        (
            Some(IdleTimeout::default()),
            Some(IdleTimeout {
                elapsed_ns: 2 * SECOND,
            }),
        ),
    ] {
        let request = TableEntry {
            table_id: ids::FORWARD,
            time_since_last_hit: asked,
            ..Default::default()
        };
        let found = primary.found(Kind::TableEntry(request)).await;
        let [Kind::TableEntry(entry)] = &found[..] else {
            panic!("expected one entry, got {found:?}");
        };
        assert_eq!(entry.idle_timeout_ns, 9 * SECOND);
        assert_eq!(entry.time_since_last_hit, since);
    }
}

// spec: table-entry.idle-timeout-errors
#[tokio::test]
async fn idle_timeouts_that_cannot_be_are_refused() {
    let harness = Harness::start().await;
    let mut primary = with_timeouts(&harness).await;
    let negative = primary.write_one(Type::Insert, timed(0xa, -1)).await;
    let (code, message) = negative.unwrap_err();
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("found -1"), "{message}");
    let workers = Harness::with_workers(2).await;
    let mut primary = with_timeouts(&workers).await;
    let of_two = primary.write_one(Type::Insert, timed(0xa, SECOND)).await;
    let (code, message) = of_two.unwrap_err();
    assert_eq!(code, Code::Unimplemented);
    assert!(message.contains("this one has 2"), "{message}");
}
