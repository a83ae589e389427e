use std::collections::BTreeMap;

use p4runtime_client::field_match::Match;
use p4runtime_client::{Kind, P4InfoIndex, entities};
use p4runtime_proto::p4::v1::{CounterData, Entity, TableEntry, entity};
use serde_json::json;

use super::difference::{State, difference};
use super::entry::{Content, Key, of_entity, to_entity};
use super::file::{Entries, Wanted};
use super::node::Node;
use super::value::{bytes, text};

/// Converts a JSON value for a field of `bits` bits to a byte string, or returns the error message.
fn value(value: &serde_json::Value, bits: u32) -> Result<Vec<u8>, String> {
    bytes(&Node::root(value), Kind::Bits(bits)).map_err(|error| error.message)
}

#[test]
fn values_are_what_the_tutorials_write() {
    for (given, bits, expected) in [
        (json!(0), 9, vec![0]),
        (json!(511), 9, vec![1, 255]),
        (json!([3]), 16, vec![3]),
        (json!("0x1f"), 8, vec![0x1f]),
        (json!("0xABC"), 12, vec![0x0a, 0xbc]),
        (json!("17"), 8, vec![17]),
        (json!("08:00:00:00:01:11"), 48, vec![8, 0, 0, 0, 1, 0x11]),
        (json!("00:00:00:00:01:11"), 48, vec![1, 0x11]),
        (json!("10.0.1.1"), 32, vec![10, 0, 1, 1]),
        (json!("0.0.0.0"), 32, vec![0]),
        (json!("::1"), 128, vec![1]),
        (json!(u64::MAX), 64, vec![255; 8]),
        (json!(-1), 8, vec![255]),
        (json!(-1), 12, vec![15, 255]),
        (json!(-128), 8, vec![128]),
        (json!(-2), 128, [vec![255; 15], vec![254]].concat()),
    ] {
        assert_eq!(value(&given, bits), Ok(expected), "{given} in {bits} bits");
    }
}

#[test]
fn a_value_that_does_not_fit_says_what_was_expected_and_what_came() {
    let number = |bits| format!("expected a number of {bits} bits, like 1 or \"0x1\", got ");
    for (given, bits, expected) in [
        (json!(512), 9, number(9) + "512"),
        (json!(-129), 8, number(8) + "-129"),
        (json!(1.5), 8, "expected a number of 8 bits, like 1 or \"0x1\" (a large number as text: \"0x...\"), got 1.5".to_owned()),
        (json!("10.0.1.1"), 16, number(16) + "\"10.0.1.1\""),
        (json!("010"), 16, number(16) + "\"010\""),
        (json!("+1"), 16, number(16) + "\"+1\""),
        (json!("0x"), 16, number(16) + "\"0x\""),
        (json!("é1"), 16, number(16) + "\"é1\""),
        (json!(true), 1, number(1) + "true"),
        (json!([1, 2]), 8, number(8) + "a list of 2"),
        (json!({}), 8, number(8) + "an object"),
        (
            json!("10.0.1"),
            32,
            "expected an IPv4 address like \"10.0.1.1\", or a number of 32 bits, got \"10.0.1\"".to_owned(),
        ),
        (
            json!("08:00:00:00:01"),
            48,
            "expected an Ethernet address like \"08:00:00:00:01:11\", or a number of 48 bits, got \"08:00:00:00:01\"".to_owned(),
        ),
    ] {
        assert_eq!(value(&given, bits), Err(expected), "{given} in {bits} bits");
    }
}

#[test]
fn values_are_shown_as_what_they_are() {
    let shown = |bytes: &[u8], bits, name| text(bytes, Kind::Bits(bits), name);
    assert_eq!(shown(&[1, 0x11], 48, "dstAddr"), "00:00:00:00:01:11");
    assert_eq!(shown(&[10, 0, 1, 1], 32, "hdr.ipv4.dstAddr"), "10.0.1.1");
    assert_eq!(shown(&[1, 0], 32, "swid"), "256");
    assert_eq!(shown(&[1], 128, "src_addr"), "::1");
    assert_eq!(shown(&[255; 9], 72, "key"), "0xffffffffffffffffff");
    assert_eq!(text(b"Ethernet0", Kind::Text, "port"), "\"Ethernet0\"");
}

/// Returns the key and the content of an entry of table 1. The key field has the value 7, and the action has no
/// parameters.
fn entry(action_id: u32) -> (Key, Content) {
    let key = Key::Entry {
        table_id: 1,
        fields: BTreeMap::from([(1, Match::Exact(vec![7]))]),
        priority: 0,
    };
    let params = BTreeMap::new();
    (key, Content::Call { action_id, params })
}

#[test]
fn a_modified_entry_keeps_what_a_file_says_nothing_about() {
    let (key, before) = entry(2);
    let Some(entity::Entity::TableEntry(plain)) = to_entity(&key, &before).entity else {
        panic!("a table entry");
    };
    let more = TableEntry {
        idle_timeout_ns: 5_000,
        metadata: vec![1, 2, 3],
        counter_data: Some(CounterData::default()),
        ..plain
    };
    let held: State = of_entity(entities::of_table(more.clone()))
        .into_iter()
        .collect();
    let (_, content) = entry(3);
    let at = "table_entries[0]".to_owned();
    let entries = Entries {
        wanted: BTreeMap::from([(
            key.clone(),
            Wanted {
                at,
                content: content.clone(),
            },
        )]),
        order: vec![key.clone()],
    };
    let changes =
        difference(&held, &entries, &P4InfoIndex::default(), false).expect("none is const");
    let [change] = changes.as_slice() else {
        panic!("one change, not {changes:?}");
    };
    let Some(Entity {
        entity: Some(entity::Entity::TableEntry(new)),
    }) = &change.update.entity
    else {
        panic!("a table entry, not {:?}", change.update);
    };
    let Some(entity::Entity::TableEntry(expected)) = to_entity(&key, &content).entity else {
        panic!("a table entry");
    };
    // With counter data, a write would set the counter.
    let expected = TableEntry {
        idle_timeout_ns: 5_000,
        metadata: vec![1, 2, 3],
        ..expected
    };
    assert_eq!(*new, expected);
}
