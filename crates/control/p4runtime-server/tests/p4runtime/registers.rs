//! Tests of the P4Runtime specification's section "RegisterEntry".

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, Index, P4Data, RegisterEntry};
use tonic::Code::{InvalidArgument, OutOfRange};

use crate::harness::ids::{COPIES, FLAGS, SLOTS};
use crate::harness::{Controller, Harness, JSON, config, read, update};

#[tokio::test]
async fn a_program_with_a_shared_register_is_refused_with_several_workers_that_have_their_own() {
    let harness = Harness::with_workers(2).await;
    let mut primary = harness.primary().await;
    // In this program, packets write and read the register.
    let action = r#""runtime_data": [{"name": "port", "bitwidth": 9}],
      "primitives": ["#;
    let array = r#"{"type": "register_array", "value": "ingress.slots"}, {"type": "hexstr", "value": "0x0"}"#;
    let field = r#"{"type": "field", "value": ["ethernet", "src"]}"#;
    let passes = format!(
        "{action}{{\"op\": \"register_read\", \"parameters\": [{field}, {array}]}}, {{\"op\": \"register_write\", \"parameters\": [{array}, {field}]}}, "
    );
    let each = JSON.replacen(action, &passes, 1);
    let slots = r#""size": 131072, "bitwidth": 48"#;
    let shared = each.replace(slots, &format!("{slots}, \"shared\": true"));
    assert!(each != JSON && shared != each);
    for (device_config, expected) in [(&shared, false), (&each, true)] {
        let config = ForwardingPipelineConfig {
            p4_device_config: device_config.clone().into_bytes(),
            ..config()
        };
        for action in [
            Action::Verify,
            Action::VerifyAndSave,
            Action::VerifyAndCommit,
        ] {
            let set = primary.set_pipeline(action, Some(config.clone())).await;
            let is_taken = set.is_ok();
            assert_eq!(is_taken, expected, "{action:?}: {set:?}");
            if let Err(refused) = set {
                assert!(refused.message().contains("@shared"), "{refused:?}");
            }
        }
    }
}

fn register(register_id: u32, index: Option<i64>, data: Option<Data>) -> Kind {
    Kind::RegisterEntry(RegisterEntry {
        register_id,
        index: index.map(|index| Index { index }),
        data: data.map(|data| P4Data { data: Some(data) }),
    })
}

/// A cell of the register `slots` with a value.
pub fn cell(index: i64, value: &[u8]) -> Kind {
    register(SLOTS, Some(index), Some(Data::Bitstring(value.into())))
}

/// All cells of the register `slots` with a value.
pub fn every_cell(value: u8) -> Kind {
    register(SLOTS, None, Some(Data::Bitstring(vec![value])))
}

/// A request for all cells of the register `slots`.
pub fn every_register_cell() -> Kind {
    register(SLOTS, None, None)
}

/// Reads the value of a cell of the register `slots`.
pub async fn read_cell(controller: &mut Controller, index: i64) -> Vec<u8> {
    let found = controller.read(register(SLOTS, Some(index), None)).await;
    let [found] = &found.unwrap()[..] else {
        panic!("expected one cell")
    };
    data(found).to_vec()
}

fn data(cell: &Kind) -> &[u8] {
    match cell {
        Kind::RegisterEntry(RegisterEntry {
            data: Some(P4Data {
                data: Some(Data::Bitstring(value)),
            }),
            ..
        }) => value,
        other => panic!("expected a cell with a bit string, got {other:?}"),
    }
}

// spec: register.cells, p4data.numbers
#[tokio::test]
async fn a_cell_is_read_as_it_was_written() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let written = cell(131_071, &[2, 0, 0, 0, 0, 1]);
    primary.modify(written.clone()).await;
    let found = primary.found(register(SLOTS, Some(131_071), None)).await;
    assert_eq!(found, [written]);
    assert_eq!(read_cell(&mut primary, 0).await, [0]);

    // A longer form whose value fits is read back in the shortest form.
    primary.modify(cell(1, &[0, 0, 0, 0, 0, 0, 0, 5])).await;
    assert_eq!(read_cell(&mut primary, 1).await, [5]);
}

// spec: register.cells
#[tokio::test]
async fn without_an_index_all_cells_are_written_and_read_quickly() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let before = harness.switch.n_pieces();
    primary.modify(every_cell(0xab)).await;
    // Each piece of the write sets 4,096 cells, and packets are processed between two pieces.
    assert_eq!(harness.switch.n_pieces() - before, 32);
    primary.modify(cell(70_000, &[1])).await;

    let cells = primary.found(register(SLOTS, None, None)).await;
    assert_eq!(cells.len(), 131_072);
    for (index, found) in (0..).zip(&cells) {
        let value = if index == 70_000 { 1 } else { 0xab };
        assert_eq!(*found, cell(index, &[value]));
    }

    let flags = register(FLAGS, None, Some(Data::Bitstring(vec![1])));
    primary.modify(flags).await;
    let every_register = primary.found(register(0, None, None)).await;
    assert_eq!(every_register.len(), 131_072 + 8);
    assert!(every_register.contains(&register(FLAGS, Some(7), Some(Data::Bitstring(vec![1])))));
}

#[tokio::test]
async fn data_of_another_type_is_refused_in_words_of_p4() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let bool = register(SLOTS, Some(0), Some(Data::Bool(true)));
    let (code, message) = primary.write_one(Modify, bool).await.unwrap_err();
    assert_eq!(code, InvalidArgument);
    let expected = "register \"ingress.slots\": expected data of type bit<48>, found another";
    assert_eq!(message, expected);
}

// spec: register.errors
#[tokio::test]
async fn wrong_updates_are_refused() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let bits = |bytes: &[u8]| Some(Data::Bitstring(bytes.into()));
    primary
        .expect_refused([
            (Insert, cell(0, &[1]), InvalidArgument),
            (Delete, cell(0, &[1]), InvalidArgument),
            (Modify, cell(-1, &[1]), InvalidArgument),
            (Modify, cell(131_072, &[1]), OutOfRange),
            (Modify, cell(0, &[1, 0, 0, 0, 0, 0, 0]), OutOfRange),
            (Modify, cell(0, &[]), OutOfRange),
            (Modify, register(FLAGS, Some(0), bits(&[2])), OutOfRange),
            (Modify, register(SLOTS, Some(0), None), InvalidArgument),
            (
                Modify,
                register(SLOTS, Some(0), Some(Data::Bool(true))),
                InvalidArgument,
            ),
            (Modify, register(0, None, bits(&[1])), InvalidArgument),
            (
                Modify,
                register(COPIES, Some(0), bits(&[1])),
                InvalidArgument,
            ),
        ])
        .await;
    for (entity, code) in [
        (register(SLOTS, Some(131_072), None), OutOfRange),
        (register(SLOTS, Some(-1), None), InvalidArgument),
        (register(12, None, None), InvalidArgument),
        (register(0, Some(1), None), InvalidArgument),
    ] {
        assert_eq!(primary.read_error(entity).await, code);
    }
}

// spec: read.consistent
#[tokio::test]
async fn a_long_read_sees_no_half_of_a_write() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let mut reader = harness.client().await;
    let reading = tokio::spawn(async move {
        for _ in 0..4 {
            let all = register(SLOTS, None, None);
            let cells = read(&mut reader, vec![all]).await.unwrap();
            let values: Vec<_> = [0, 131_071]
                .map(|index| data(&cells[index]).to_vec())
                .into();
            assert_eq!(values[0], values[1]);
        }
    });
    let mut n_writes = 0_u32;
    while !reading.is_finished() {
        let value = &bytes(n_writes);
        let both = [cell(0, value), cell(131_071, value)];
        let batch = both.map(|cell| update(Modify, cell)).into();
        primary.write(batch).await.unwrap();
        n_writes += 1;
    }
    reading.await.unwrap();
    assert!(n_writes > 1);
}

/// Encodes a number as the shortest possible byte string.
fn bytes(number: u32) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(3);
    bytes[first..].to_vec()
}
