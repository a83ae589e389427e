//! Tests of the P4Runtime specification's section "ValueSetEntry".

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::field_match::{FieldMatchType, Ternary};
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::{FieldMatch, ValueSetEntry, ValueSetMember};
use tonic::Code::{AlreadyExists, InvalidArgument, OutOfRange, ResourceExhausted};

use crate::every_entity::{exact, frame, id, kinds, pass, start};
use crate::harness::Harness;

fn set(name: &str, members: &[Vec<FieldMatch>]) -> Kind {
    let members = members.iter().map(|fields| ValueSetMember {
        r#match: fields.clone(),
    });
    Kind::ValueSetEntry(ValueSetEntry {
        value_set_id: id(name),
        members: members.collect(),
    })
}

fn ternary(value: &[u8], mask: &[u8]) -> FieldMatch {
    FieldMatch {
        field_id: 1,
        field_match_type: Some(FieldMatchType::Ternary(Ternary {
            value: value.into(),
            mask: mask.into(),
        })),
    }
}

fn is_trunk(harness: &Harness, port: u16, ether_type: u16) -> bool {
    pass(harness, port, &frame(7, 0, ether_type, kinds::PLAIN)).trunk == 1
}

// spec: value-set.members
#[tokio::test]
async fn the_parser_follows_a_value_set_and_it_is_read_as_it_was_written() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let trunks = set(
        "trunks",
        &[vec![exact(1, &[0x22, 0xf3])], vec![exact(1, &[0x89, 0x3b])]],
    );
    primary.modify(trunks.clone()).await;
    let found = [0x22f3, 0x893b, 0x0800].map(|it| is_trunk(&harness, 0, it));
    assert_eq!(found, [true, true, false]);
    let read = primary.found(set("trunks", &[])).await;
    assert_eq!(read, std::slice::from_ref(&trunks));
    let found = primary
        .found(Kind::ValueSetEntry(ValueSetEntry::default()))
        .await;
    assert_eq!(found, [set("port_trunks", &[]), trunks]);

    // The first member matches two fields, one of them with a mask. The second member omits the field that matches
    // everything.
    let pairs = set(
        "port_trunks",
        &[
            vec![ternary(&[0x90, 0], &[0xff, 0]), exact(2, &[1])],
            vec![exact(2, &[2])],
        ],
    );
    primary.modify(pairs.clone()).await;
    let found = [(1, 0x9001), (0, 0x9001), (1, 0x9100), (2, 0x0800)];
    let found = found.map(|(port, ether_type)| is_trunk(&harness, port, ether_type));
    assert_eq!(found, [true, false, false, true]);
    assert_eq!(primary.found(set("port_trunks", &[])).await, [pairs]);

    primary.modify(set("trunks", &[])).await;
    assert!(!is_trunk(&harness, 0, 0x22f3));
}

// spec: value-set.errors
#[tokio::test]
async fn wrong_value_sets_are_refused() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let one = |value: u8| vec![exact(1, &[value])];
    let trunks = |members: &[Vec<FieldMatch>]| set("trunks", members);
    let unknown = Kind::ValueSetEntry(ValueSetEntry {
        value_set_id: id("one"),
        members: Vec::new(),
    });
    primary
        .expect_refused([
            (Insert, trunks(&[one(1)]), InvalidArgument),
            (Delete, trunks(&[]), InvalidArgument),
            (Modify, trunks(&[1, 2, 3, 4, 5].map(one)), ResourceExhausted),
            (Modify, trunks(&[one(1), one(1)]), AlreadyExists),
            (Modify, trunks(&[vec![]]), InvalidArgument),
            (Modify, trunks(&[vec![exact(2, &[1])]]), InvalidArgument),
            (Modify, trunks(&[vec![exact(1, &[1, 0, 0])]]), OutOfRange),
            (
                Modify,
                trunks(&[vec![ternary(&[1], &[1])]]),
                InvalidArgument,
            ),
            (Modify, unknown.clone(), InvalidArgument),
        ])
        .await;
    assert_eq!(primary.read_error(unknown).await, InvalidArgument);
    let found = primary.found(trunks(&[])).await;
    assert_eq!(found, [trunks(&[])]);
}
