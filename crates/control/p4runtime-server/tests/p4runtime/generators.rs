//! Tests of the P4Runtime specification's section "ExternEntry": the switch's packet generators, as clients write and
//! read them.

use std::collections::BTreeMap;

use p4runtime_proto::p4::v1::ExternEntry;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use prost::Message;
use prost_types::value::Kind as Value;
use prost_types::{Any, ListValue, Struct};
use tonic::Code::{self, FailedPrecondition, InvalidArgument, NotFound, Unimplemented};

use crate::harness::{Controller, Harness, config, update};
use crate::table_entries::forward_entry;

const GENERATOR_1: u32 = 0x8100_0001;

type Members<'a> = &'a [(&'a str, Value)];

fn number(number: u32) -> Value {
    Value::NumberValue(number.into())
}

fn text(text: &str) -> Value {
    Value::StringValue(text.into())
}

fn list(kinds: Vec<Value>) -> Value {
    let value = |kind| prost_types::Value { kind: Some(kind) };
    let values = kinds.into_iter().map(value).collect();
    Value::ListValue(ListValue { values })
}

/// An entry of packet generator 1.
fn generator(members: Members<'_>) -> Kind {
    let member = |(name, kind): &(&str, Value)| {
        let kind = Some(kind.clone());
        ((*name).to_owned(), prost_types::Value { kind })
    };
    let entry = Struct {
        fields: members.iter().map(member).collect(),
    };
    of(
        0x81,
        GENERATOR_1,
        Some((
            "type.googleapis.com/google.protobuf.Struct",
            entry.encode_to_vec(),
        )),
    )
}

fn of(extern_type_id: u32, extern_id: u32, entry: Option<(&str, Vec<u8>)>) -> Kind {
    Kind::ExternEntry(ExternEntry {
        extern_type_id,
        extern_id,
        entry: entry.map(|(url, value)| Any {
            type_url: url.to_owned(),
            value,
        }),
    })
}

/// Two frames to MAC address 00:00:00:00:00:01, of 14 and 15 bytes.
fn frames() -> Value {
    list(vec![
        text("AAAAAAABAAAAAAAAEjQ="),
        text("AAAAAAABAAAAAAAAEjRW"),
    ])
}

/// Members of a generator that sends three frames into port 2, one every 100 ns.
fn whole() -> Vec<(&'static str, Value)> {
    vec![
        ("port", number(2)),
        ("frames", frames()),
        ("period_ns", number(100)),
        ("count", number(3)),
    ]
}

/// A complete generator, which can be inserted.
pub fn a_generator() -> Kind {
    generator(&whole())
}

async fn read_one(controller: &mut Controller) -> BTreeMap<String, Value> {
    let found = controller.found(of(0, 0, None)).await;
    let [Kind::ExternEntry(found)] = &found[..] else {
        panic!("one generator, found {found:?}");
    };
    assert_eq!((found.extern_type_id, found.extern_id), (0x81, GENERATOR_1));
    let entry = found.entry.as_ref().unwrap();
    assert_eq!(entry.type_url, "type.googleapis.com/google.protobuf.Struct");
    let members = Struct::decode(&*entry.value).unwrap().fields.into_iter();
    members
        .map(|(name, value)| (name, value.kind.unwrap()))
        .collect()
}

// spec: extern-entry.generators
#[tokio::test]
async fn a_generator_is_inserted_started_read_stopped_and_deleted() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    primary.insert(forward_entry(1, 3)).await;
    primary.insert(generator(&whole())).await;
    harness.switch.advance(1_000);
    assert_eq!(harness.switch.transmitted(), []);
    let found = read_one(&mut primary).await;
    let expected = [
        ("name", text("generator 1")),
        ("port", number(2)),
        ("frames", frames()),
        ("period_ns", number(100)),
        ("count", number(3)),
        ("running", Value::BoolValue(false)),
        ("state", text("stopped")),
        ("sent", number(0)),
        ("dropped", number(0)),
        ("late", number(0)),
        ("late_max_ns", number(0)),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(found, BTreeMap::from(expected));

    let runs = |runs| generator(&[("running", Value::BoolValue(runs))]);
    primary.modify(runs(true)).await;
    harness.switch.advance(1);
    harness.switch.advance(100);
    let lengths: Vec<_> = harness
        .switch
        .transmitted()
        .iter()
        .map(|it| (it.port.0, it.frame.len()))
        .collect();
    assert_eq!(lengths, [(3, 14), (3, 15)]);
    primary.modify(runs(false)).await;
    harness.switch.advance(1_000_000);
    assert_eq!(harness.switch.transmitted(), []);
    let found = read_one(&mut primary).await;
    assert_eq!(found["state"], text("stopped"));
    assert_eq!(found["sent"], number(2));

    // One update makes the generator faster and endless, starts it, and gives it another name.
    let other = generator(&[
        ("rate_pps", text("1000000000")),
        ("count", Value::NullValue(0)),
        ("name", text("load")),
        ("running", Value::BoolValue(true)),
    ]);
    primary.modify(other).await;
    harness.switch.advance(1);
    harness.switch.advance(10);
    assert_eq!(harness.switch.transmitted().len(), 11);
    let found = read_one(&mut primary).await;
    assert_eq!(found["name"], text("load"));
    assert_eq!(found["rate_pps"], number(1_000_000_000));
    assert_eq!(found["count"], Value::NullValue(0));
    assert_eq!(found["state"], text("running"));
    assert_eq!(found["sent"], number(13));
    primary.delete(of(0x81, GENERATOR_1, None)).await;
    harness.switch.advance(1_000);
    assert_eq!(harness.switch.transmitted(), []);
    assert_eq!(primary.found(of(0x81, 0, None)).await, []);
}

#[tokio::test]
async fn a_new_pipeline_leaves_generators_running() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let mut endless = whole();
    endless.retain(|(name, _)| *name != "count");
    endless.push(("running", Value::BoolValue(true)));
    primary.insert(generator(&endless)).await;
    harness.switch.advance(1);
    harness.switch.transmitted();
    primary.commit(config()).await;
    primary.insert(forward_entry(1, 3)).await;
    harness.switch.advance(100);
    assert_eq!(harness.switch.transmitted().len(), 1);
    let found = read_one(&mut primary).await;
    assert_eq!(found["state"], text("running"));
    assert_eq!(found["sent"], number(2));
}

#[tokio::test]
async fn while_a_saved_pipeline_waits_generators_are_neither_written_nor_read() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let save = primary.set_pipeline(Action::VerifyAndSave, Some(config()));
    save.await.unwrap();
    let refused = primary.refused(Insert, generator(&whole())).await;
    assert_eq!(refused, FailedPrecondition);
    assert_eq!(primary.read_error(of(0, 0, None)).await, FailedPrecondition);
    primary.set_pipeline(Action::Commit, None).await.unwrap();
    primary.insert(generator(&whole())).await;
}

#[tokio::test]
async fn several_workers_have_no_generators() {
    let harness = Harness::with_workers(2).await;
    let mut primary = harness.primary().await;
    let refused = primary.refused(Insert, generator(&whole())).await;
    assert_eq!(refused, Unimplemented);
    assert_eq!(primary.found(of(0, 0, None)).await, []);
}

#[tokio::test]
async fn one_wrong_update_of_a_batch_is_reported_and_the_others_are_done() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let status = primary
        .write(vec![
            update(Insert, generator(&whole())),
            update(Insert, generator(&whole())),
            update(Insert, forward_entry(1, 3)),
        ])
        .await
        .unwrap_err();
    let codes: Vec<_> = crate::harness::details(&status)
        .iter()
        .map(|it| it.canonical_code)
        .collect();
    let expected = [Code::Ok as i32, Code::AlreadyExists as i32, Code::Ok as i32];
    assert_eq!(codes, expected);
}

#[tokio::test]
async fn what_is_wrong_with_an_entry_is_said() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let with = |name: &'static str, value: Value| {
        let mut members = whole();
        members.retain(|(member, _)| *member != name);
        members.push((name, value));
        generator(&members)
    };
    let without = |name: &'static str| {
        let mut members = whole();
        members.retain(|(member, _)| *member != name);
        generator(&members)
    };
    let url = "type.googleapis.com/google.protobuf.Struct";
    let invalid = [
        (
            of(0x81, 5, None),
            "0x81000001 (generator 1) to 0x81ffffff, found 0x5",
        ),
        (of(0x81, 0x8100_0000, None), "found 0x81000000"),
        (of(0x81, GENERATOR_1, None), "expected entry to be set"),
        (
            of(0x81, GENERATOR_1, Some(("x/google.protobuf.Value", vec![]))),
            "expected a google.protobuf.Struct",
        ),
        (of(0x81, GENERATOR_1, Some((url, vec![0xff]))), "as bytes"),
        (without("port"), "generator 1: port is missing"),
        (without("frames"), "frames is missing"),
        (without("period_ns"), "period_ns or rate_pps is missing"),
        (with("rate_pps", number(1)), "found both"),
        (
            with("port", number(511)),
            "port: expected 0 to 510, found 511",
        ),
        (
            with("port", Value::NumberValue(1.5)),
            "port: expected a whole number, found 1.5",
        ),
        (with("port", Value::NumberValue(-1.0)), "found -1"),
        (with("port", text("two")), "found \"two\""),
        (with("name", number(1)), "name: expected a string, found 1"),
        (
            with("running", text("yes")),
            "running: expected true or false",
        ),
        (with("frames", text("AAAA")), "a list of base64 strings"),
        (with("frames", list(vec![])), "at least one frame"),
        (
            with("frames", list(vec![text("AAAA")])),
            "frame 1: expected 14 to 65792 bytes, found 3",
        ),
        (
            with("frames", list(vec![text("#")])),
            "frame 1: expected base64",
        ),
        (
            with("frames", list(vec![number(1)])),
            "frame 1: expected a base64 string, found 1",
        ),
        (with("count", number(0)), "a count of 1 at least"),
        (with("period_ns", number(0)), "1 at least, found 0"),
        (with("sent", number(0)), "sent cannot be written"),
        (with("speed", number(0)), "found \"speed\""),
    ];
    let not_found = (of(0x82, 0x8200_0001, None), NotFound, "extern type 0x81");
    let invalid = invalid.map(|(entry, message)| (entry, InvalidArgument, message));
    for (entry, code, message) in [not_found].into_iter().chain(invalid) {
        let refused = primary.write_one(Insert, entry.clone()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.0, code, "{entry:?}: {}", refused.1);
        assert!(refused.1.contains(message), "{message}: {}", refused.1);
    }
    for kind in [Modify, Delete] {
        let refused = primary.write_one(kind, generator(&[])).await.unwrap_err();
        assert_eq!(refused.0, NotFound, "{}", refused.1);
    }
    let unknown_type = of(0x90, 0, None);
    assert_eq!(primary.read_error(unknown_type).await, NotFound);
    assert_eq!(primary.found(of(0x81, 0x8100_0009, None)).await, []);
}
