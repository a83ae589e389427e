//! Tests of the P4Runtime specification's section "CounterEntry".

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::{CounterData, CounterEntry, Index};
use tonic::Code::{InvalidArgument, OutOfRange};

use crate::harness::ids::{COPIES, FORWARD};
use crate::harness::{Harness, frame};
use crate::table_entries::forward_entry;

fn counter(counter_id: u32, index: Option<i64>, counts: Option<(i64, i64)>) -> Kind {
    Kind::CounterEntry(CounterEntry {
        counter_id,
        index: index.map(|index| Index { index }),
        data: counts.map(|(packet_count, byte_count)| CounterData {
            byte_count,
            packet_count,
        }),
    })
}

// spec: counter.indexed
#[tokio::test]
async fn cells_count_packets_and_bytes_and_are_written() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    primary.insert(forward_entry(0xa, 2)).await;
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    let one = primary.found(counter(COPIES, Some(2), None)).await;
    assert_eq!(one, [counter(COPIES, Some(2), Some((1, 64)))]);

    let written = counter(COPIES, Some(2), Some((i64::MAX, 0)));
    primary.modify(written.clone()).await;
    let unset = counter(COPIES, Some(2), None);
    primary.modify(unset.clone()).await;
    assert_eq!(primary.found(unset).await, [written]);
}

// spec: counter.indexed
#[tokio::test]
async fn without_an_index_all_cells_are_meant() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let all = counter(COPIES, None, Some((3, 4)));
    primary.modify(all).await;
    for request in [counter(COPIES, None, None), counter(0, None, None)] {
        let cells = primary.found(request).await;
        let expected: Vec<_> = (0..16)
            .map(|index| counter(COPIES, Some(index), Some((3, 4))))
            .collect();
        assert_eq!(cells, expected);
    }
}

// spec: counter.errors
#[tokio::test]
async fn wrong_updates_are_refused() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let some = Some((1, 1));
    primary
        .expect_refused([
            (Insert, counter(COPIES, Some(0), some), InvalidArgument),
            (Delete, counter(COPIES, Some(0), some), InvalidArgument),
            (Modify, counter(COPIES, Some(-1), some), InvalidArgument),
            (Modify, counter(COPIES, Some(16), some), OutOfRange),
            (
                Modify,
                counter(COPIES, Some(0), Some((-1, 0))),
                InvalidArgument,
            ),
            (Modify, counter(FORWARD, Some(0), some), InvalidArgument),
            (Modify, counter(0, None, some), InvalidArgument),
        ])
        .await;
    for (request, code) in [
        (counter(COPIES, Some(16), None), OutOfRange),
        (counter(COPIES, Some(-1), None), InvalidArgument),
        (counter(0, Some(0), None), InvalidArgument),
    ] {
        assert_eq!(primary.read_error(request).await, code);
    }
}
