//! "CounterEntry".

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{CounterData, CounterEntry, Index};
use tonic::Code;

use crate::harness::{Harness, frame, ids};
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
    primary
        .write_one(Type::Insert, forward_entry(0xa, 2))
        .await
        .unwrap();
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    let one = primary
        .read(counter(ids::COPIES, Some(2), None))
        .await
        .unwrap();
    assert_eq!(one, [counter(ids::COPIES, Some(2), Some((1, 64)))]);

    let written = counter(ids::COPIES, Some(2), Some((i64::MAX, 0)));
    primary
        .write_one(Type::Modify, written.clone())
        .await
        .unwrap();
    let unset = counter(ids::COPIES, Some(2), None);
    primary
        .write_one(Type::Modify, unset.clone())
        .await
        .unwrap();
    assert_eq!(primary.read(unset).await.unwrap(), [written]);
}

// spec: counter.indexed
#[tokio::test]
async fn without_an_index_all_cells_are_meant() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let all = counter(ids::COPIES, None, Some((3, 4)));
    primary.write_one(Type::Modify, all).await.unwrap();
    for request in [counter(ids::COPIES, None, None), counter(0, None, None)] {
        let cells = primary.read(request).await.unwrap();
        let expected: Vec<_> = (0..16)
            .map(|index| counter(ids::COPIES, Some(index), Some((3, 4))))
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
    for (kind, entity, code) in [
        (
            Type::Insert,
            counter(ids::COPIES, Some(0), some),
            Code::InvalidArgument,
        ),
        (
            Type::Delete,
            counter(ids::COPIES, Some(0), some),
            Code::InvalidArgument,
        ),
        (
            Type::Modify,
            counter(ids::COPIES, Some(-1), some),
            Code::InvalidArgument,
        ),
        (
            Type::Modify,
            counter(ids::COPIES, Some(16), some),
            Code::OutOfRange,
        ),
        (
            Type::Modify,
            counter(ids::COPIES, Some(0), Some((-1, 0))),
            Code::InvalidArgument,
        ),
        (
            Type::Modify,
            counter(ids::FORWARD, Some(0), some),
            Code::InvalidArgument,
        ),
        (Type::Modify, counter(0, None, some), Code::InvalidArgument),
    ] {
        assert_eq!(primary.write_one(kind, entity).await.unwrap_err().0, code);
    }
    for (request, code) in [
        (counter(ids::COPIES, Some(16), None), Code::OutOfRange),
        (counter(ids::COPIES, Some(-1), None), Code::InvalidArgument),
        (counter(0, Some(0), None), Code::InvalidArgument),
    ] {
        assert_eq!(primary.read_error(request).await, code);
    }
}
