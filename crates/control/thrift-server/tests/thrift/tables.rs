//! Tables.

use bmv2_thrift::wire::read::{Fields, Value};
use control::{Changed, ClientData, Cursor, EntryKey, EntryUpdate, Operation};
use dataplane::{ActionCall, MatchField, TableEntry};

use crate::client::{
    Arg, Client, Refused, all_bytes, args, as_struct, counted, counts, exact, i32_of, key, lpm,
    priority, range, rates, struct_of, ternary, to_port,
};
use crate::harness::{Harness, NOWHERE, frame, mac};

const FORWARD: &str = "EntitiesIngress.forward";
const ROUTES: &str = "EntitiesIngress.routes";
const ACL: &str = "EntitiesIngress.acl";
const FIXED: &str = "EntitiesIngress.fixed";

const TABLE_FULL: Refused = Refused::Code(1);
const INVALID_HANDLE: Refused = Refused::Code(2);
const EXPIRED_HANDLE: Refused = Refused::Code(3);
const COUNTERS_DISABLED: Refused = Refused::Code(4);
const METERS_DISABLED: Refused = Refused::Code(5);
const AGEING_DISABLED: Refused = Refused::Code(6);
const INVALID_TABLE_NAME: Refused = Refused::Code(7);
const INVALID_ACTION_NAME: Refused = Refused::Code(8);
const WRONG_TABLE_TYPE: Refused = Refused::Code(9);
const DUPLICATE_ENTRY: Refused = Refused::Code(17);
const BAD_MATCH_KEY: Refused = Refused::Code(18);
const DEFAULT_ENTRY_IS_CONST: Refused = Refused::Code(21);
const IMMUTABLE_TABLE_ENTRIES: Refused = Refused::Code(25);
const BAD_ACTION_DATA: Refused = Refused::Code(26);

async fn add(client: &mut Client, dst: u8, port: u8) -> i64 {
    client.number("bm_mt_add_entry", to_port(dst, port)).await
}

fn at(table: &str, handle: i32) -> Vec<Arg> {
    args![0, table, handle]
}

async fn handles(client: &mut Client) -> Vec<i32> {
    let entries = client.list("bm_mt_get_entries", at(FORWARD, 0)).await;
    entries
        .iter()
        .map(|entry| i32_of(as_struct(entry), 3))
        .collect()
}

/// Reads the name and arguments of an entry's action.
fn runs(entry: &Fields) -> (String, Vec<Vec<u8>>) {
    let action = struct_of(entry, 4);
    let Some(Value::Bytes(name)) = action.get(2) else {
        panic!("expected an action: {action:?}")
    };
    let Some(Value::List(args)) = action.get(3) else {
        panic!("expected arguments: {action:?}")
    };
    let args = args.iter().map(|arg| match arg {
        Value::Bytes(arg) => arg.clone(),
        other => panic!("expected a string: {other:?}"),
    });
    (String::from_utf8(name.clone()).unwrap(), args.collect())
}

#[tokio::test]
async fn handles_are_bmv2_s() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    for expected in 0..4 {
        assert_eq!(add(&mut client, expected, 1).await, i64::from(expected));
    }
    for gone in [2, 0] {
        client.call("bm_mt_delete_entry", at(FORWARD, gone)).await;
    }
    // The lowest free position is used first. When a position is used again, its version, in the highest eight bits of
    // the handle, grows by one.
    assert_eq!(add(&mut client, 8, 1).await, 0x0100_0000);
    assert_eq!(add(&mut client, 9, 1).await, 0x0100_0002);
    assert_eq!(add(&mut client, 10, 1).await, 4);
    let found = handles(&mut client).await;
    assert_eq!(found, [0x0100_0000, 1, 0x0100_0002, 3, 4]);
    let refused = client.refused("bm_mt_delete_entry", at(FORWARD, 2)).await;
    assert_eq!(refused, EXPIRED_HANDLE);
    let refused = client.refused("bm_mt_get_entry", at(FORWARD, 5)).await;
    assert_eq!(refused, INVALID_HANDLE);
    let n_entries = client.number("bm_mt_get_num_entries", at(FORWARD, 0)).await;
    assert_eq!(n_entries, 5);
    let keep_default = args![0, FORWARD, Arg::Bool(false)];
    client.call("bm_mt_clear_entries", keep_default).await;
    assert_eq!(handles(&mut client).await, Vec::<i32>::new());
    assert_eq!(add(&mut client, 1, 1).await, 0);
}

#[tokio::test]
async fn a_version_begins_again_after_256() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let mut handle = 0;
    for version in 0..257i64 {
        handle = add(&mut client, 1, 1).await;
        let expected = i32::try_from((version % 256) << 24 & 0x7fff_ffff).unwrap();
        assert_eq!(handle & 0x7fff_ffff, i64::from(expected), "{version}");
        let handle = i32::try_from(handle).unwrap();
        client.call("bm_mt_delete_entry", at(FORWARD, handle)).await;
    }
    assert_eq!(handle, 0);
}

#[tokio::test]
async fn packets_find_what_was_written() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    assert_eq!(harness.ports_of(&frame(1)), NOWHERE);
    add(&mut client, 1, 2).await;
    assert_eq!(harness.ports_of(&frame(1)), [2]);
    let modify = args![
        0,
        FORWARD,
        0,
        "EntitiesIngress.forward_to",
        all_bytes(&[&[0, 5]])
    ];
    client.call("bm_mt_modify_entry", modify).await;
    assert_eq!(harness.ports_of(&frame(1)), [5]);
    let default = args![
        0,
        FORWARD,
        "EntitiesIngress.forward_to",
        all_bytes(&[&[0, 7]])
    ];
    client.call("bm_mt_set_default_action", default).await;
    assert_eq!(harness.ports_of(&frame(9)), [7]);
    client
        .call("bm_mt_reset_default_entry", at(FORWARD, 0))
        .await;
    assert_eq!(harness.ports_of(&frame(9)), NOWHERE);
    let read = client.fields("bm_mt_read_counter", at(FORWARD, 0)).await;
    assert_eq!(counted(&read), (128, 2));
}

#[tokio::test]
async fn what_another_protocol_writes_has_a_handle_and_is_changed_by_it() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let pipeline = harness.pipeline();
    let table = pipeline.program().table(FORWARD).unwrap();
    let action = pipeline
        .program()
        .action_of(table, "EntitiesIngress.forward_to")
        .unwrap();
    let key_of = |dst: u8| vec![MatchField::Exact(vec![dst])];
    let call = ActionCall {
        action,
        args: vec![vec![3]],
    };
    let client_data = ClientData {
        bytes: b"theirs".to_vec(),
        number: 7,
        form: 0,
    };
    harness
        .write(Operation::Entry(EntryUpdate::Insert {
            table,
            entry: TableEntry::new(key_of(1), 0, call),
            client_data: client_data.clone(),
        }))
        .await;
    assert_eq!(add(&mut client, 2, 4).await, 1);
    let entry = client.fields("bm_mt_get_entry", at(FORWARD, 0)).await;
    let seen = runs(&entry);
    assert_eq!(seen, ("EntitiesIngress.forward_to".into(), vec![vec![3]]));
    let modify = args![
        0,
        FORWARD,
        0,
        "EntitiesIngress.forward_to",
        all_bytes(&[&[0, 6]])
    ];
    client.call("bm_mt_modify_entry", modify).await;
    let reading = harness.device.reading().await.unwrap();
    let entries = reading
        .entries(table, &mut Cursor::From(0))
        .await
        .unwrap()
        .unwrap();
    let of = |entry: &TableEntry| (entry.key.clone(), entry.action.call().unwrap().args.clone());
    let found: Vec<_> = entries.iter().map(of).collect();
    // As in P4Runtime, the values have no leading zeros.
    let expected = [(key_of(1), vec![vec![6]]), (key_of(2), vec![vec![4]])];
    assert_eq!(found, expected);
    let key = EntryKey {
        table,
        key: key_of(1),
        priority: 0,
    };
    assert_eq!(pipeline.client_data().entry(&key), client_data);
}

#[tokio::test]
async fn every_mistake_has_bmv2_s_code_and_changes_nothing() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    add(&mut client, 1, 1).await;
    let changed = |place: usize, arg: Arg| {
        let mut args = to_port(2, 1);
        args[place] = arg;
        args
    };
    let mut fixed = to_port(2, 1);
    fixed[1] = FIXED.into();
    fixed[2] = key(vec![exact(&[8, 0])]);
    fixed[3] = "EntitiesIngress.drop".into();
    fixed[4] = all_bytes(&[]);
    let mistakes = [
        (to_port(1, 2), DUPLICATE_ENTRY),
        (changed(1, "nothing".into()), INVALID_TABLE_NAME),
        (
            changed(1, "EntitiesIngress.groups".into()),
            WRONG_TABLE_TYPE,
        ),
        (changed(2, key(vec![])), BAD_MATCH_KEY),
        (changed(2, key(vec![exact(&[1, 2])])), BAD_MATCH_KEY),
        (changed(2, key(vec![lpm(&mac(2), 48)])), BAD_MATCH_KEY),
        (changed(3, "forward_to".into()), INVALID_ACTION_NAME),
        (changed(4, all_bytes(&[])), BAD_ACTION_DATA),
        (fixed, IMMUTABLE_TABLE_ENTRIES),
        (changed(0, 1.into()), Refused::Failure(7)),
        (changed(2, 1.into()), Refused::Failure(7)),
    ];
    for (args, expected) in mistakes {
        let refused = client.refused("bm_mt_add_entry", args.clone()).await;
        assert_eq!(refused, expected, "{args:?}");
    }
    let default = args![0, FIXED, "EntitiesIngress.drop", all_bytes(&[])];
    let of_handles = [
        ("bm_mt_set_default_action", default, DEFAULT_ENTRY_IS_CONST),
        ("bm_mt_read_counter", at(ROUTES, 0), COUNTERS_DISABLED),
        ("bm_mt_read_counter", at(FORWARD, 4), INVALID_HANDLE),
        ("bm_mt_get_meter_rates", at(FORWARD, 0), METERS_DISABLED),
        (
            "bm_mt_set_entry_ttl",
            [at(ROUTES, 0), args![5]].concat(),
            AGEING_DISABLED,
        ),
        ("bm_mt_get_entries", at("nothing", 0), INVALID_TABLE_NAME),
    ];
    for (call, args, expected) in of_handles {
        assert_eq!(client.refused(call, args).await, expected, "{call}");
    }
    assert_eq!(handles(&mut client).await, [0]);
    assert_eq!(harness.ports_of(&frame(1)), [1]);
}

#[tokio::test]
async fn a_full_table_says_so() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let route = |n: u8| {
        args![
            0,
            ROUTES,
            key(vec![lpm(&[10, 0, n, 0], 24)]),
            "EntitiesIngress.drop",
            all_bytes(&[]),
            priority(0)
        ]
    };
    for n in 0..128 {
        client.call("bm_mt_add_entry", route(n)).await;
    }
    let refused = client.refused("bm_mt_add_entry", route(200)).await;
    assert_eq!(refused, TABLE_FULL);
}

#[tokio::test]
async fn bits_beyond_a_width_a_prefix_or_a_mask_are_left_aside() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let args = args![
        0,
        ROUTES,
        key(vec![lpm(&[10, 1, 2, 0xff], 23)]),
        "EntitiesIngress.rewrite",
        all_bytes(&[&mac(7), &[0xff, 0x02]]),
        priority(0)
    ];
    client.call("bm_mt_add_entry", args).await;
    let entry = client.fields("bm_mt_get_entry", at(ROUTES, 0)).await;
    assert_eq!(runs(&entry).1, [vec![7], vec![0x01, 0x02]]);
    let Some(Value::List(found)) = entry.get(1) else {
        panic!("expected a key: {entry:?}")
    };
    let prefix = struct_of(as_struct(&found[0]), 3);
    assert_eq!(prefix.get(1), Some(&Value::Bytes(vec![10, 1, 2, 0])));
    assert_eq!(i32_of(prefix, 2), 23);
    assert_eq!(i32_of(struct_of(&entry, 2), 1), -1);
}

fn acl(source: u8, found: i32) -> Vec<Arg> {
    let fields = vec![
        ternary(&[source, 9, 9, 9], &[0xff, 0, 0, 0]),
        range(&[0], &[64]),
        exact(&[0, 0]),
    ];
    let action = "EntitiesIngress.drop";
    args![0, ACL, key(fields), action, all_bytes(&[]), priority(found)]
}

#[tokio::test]
async fn the_lowest_priority_wins_here_and_is_the_highest_of_p4runtime() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    client.call("bm_mt_add_entry", acl(10, 5)).await;
    // Another priority makes another entry; bits outside the mask do not.
    client.call("bm_mt_add_entry", acl(10, 0)).await;
    let refused = client.refused("bm_mt_add_entry", acl(10, 5)).await;
    assert_eq!(refused, DUPLICATE_ENTRY);
    let refused = client.refused("bm_mt_add_entry", acl(10, -1)).await;
    assert_eq!(refused, BAD_MATCH_KEY);
    let reading = harness.device.reading().await.unwrap();
    let table = harness.pipeline().program().table(ACL).unwrap();
    let entries = reading
        .entries(table, &mut Cursor::From(0))
        .await
        .unwrap()
        .unwrap();
    let found: Vec<i32> = entries.iter().map(|entry| entry.priority).collect();
    assert_eq!(found, [i32::MAX - 5, i32::MAX]);
    drop(reading);
    let mut of_key = acl(10, 0);
    of_key.drain(3..5);
    let entry = client.fields("bm_mt_get_entry_from_key", of_key).await;
    assert_eq!(i32_of(&entry, 3), 1);
    assert_eq!(i32_of(struct_of(&entry, 2), 1), 0);
}

#[tokio::test]
async fn an_entry_is_found_by_its_key_and_the_default_action_by_none() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    add(&mut client, 1, 2).await;
    let of_key = |key: Arg| args![0, FORWARD, key, priority(0)];
    let name = "bm_mt_get_entry_from_key";
    let entry = client.fields(name, of_key(key(vec![exact(&mac(1))]))).await;
    assert_eq!(i32_of(&entry, 3), 0);
    assert_eq!(runs(&entry).1, [vec![2]]);
    let refused = client
        .refused(name, of_key(key(vec![exact(&mac(9))])))
        .await;
    assert_eq!(refused, BAD_MATCH_KEY);
    let default = client.fields(name, of_key(key(vec![]))).await;
    assert_eq!(runs(&default).0, "EntitiesIngress.drop");
    let default = client
        .fields("bm_mt_get_default_entry", at(FORWARD, 0))
        .await;
    assert_eq!(i32_of(&default, 1), 1);
    assert_eq!(
        default.get(2),
        Some(&Value::Bytes(b"EntitiesIngress.drop".to_vec()))
    );
}

#[tokio::test]
async fn counters_meters_and_timeouts_of_entries_go_by_the_place() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    add(&mut client, 1, 2).await;
    client.call("bm_mt_delete_entry", at(FORWARD, 0)).await;
    add(&mut client, 1, 2).await;
    // The handle of the entry is 0x01000000 now, but scripts still use the handle 0.
    let value = counts(900, 3);
    let write = [at(FORWARD, 0), vec![value]].concat();
    client.call("bm_mt_write_counter", write).await;
    let read = client
        .fields("bm_mt_read_counter", at(FORWARD, 0x0100_0000))
        .await;
    assert_eq!(counted(&read), (900, 3));
    client.call("bm_mt_reset_counters", at(FORWARD, 0)).await;
    let read = client.fields("bm_mt_read_counter", at(FORWARD, 0)).await;
    assert_eq!(read.get(2), Some(&Value::I64(0)));
    let ttl = [at(FORWARD, 0), args![1_500]].concat();
    client.call("bm_mt_set_entry_ttl", ttl).await;
    harness.switch.advance(700_000_000);
    let entry = client
        .fields("bm_mt_get_entry", at(FORWARD, 0x0100_0000))
        .await;
    let life = struct_of(&entry, 5);
    assert_eq!((i32_of(life, 1), i32_of(life, 2)), (1_500, 700));
    client.call("bm_mt_add_entry", acl(10, 5)).await;
    assert_eq!(client.list("bm_mt_get_meter_rates", at(ACL, 0)).await, []);
    let set = |of: &[(f64, i32)]| [at(ACL, 0), vec![rates(of)]].concat();
    let name = "bm_mt_set_meter_rates";
    client.call(name, set(&[(0.5, 10), (2.0, 20)])).await;
    for wrong in [&[(0.5, 10)][..], &[(2.0, 10), (0.5, 10)]] {
        let found = client.try_call(name, set(wrong)).await;
        assert_eq!(found, Err(Refused::Code(100)));
    }
    let all = client.list("bm_mt_get_meter_rates", at(ACL, 0)).await;
    let found: Vec<_> = all
        .iter()
        .map(|rate| as_struct(rate).get(1).cloned())
        .collect();
    assert_eq!(found, [Some(Value::Double(0.5)), Some(Value::Double(2.0))]);
}

#[tokio::test]
async fn direct_meters_are_an_array_too_by_the_places_of_their_entries() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    for priority in [5, 6] {
        client
            .call("bm_mt_add_entry", acl(10 + priority as u8, priority))
            .await;
    }
    let both = |one: f64| rates(&[(one, 10), (2.0, 20)]);
    let name: Arg = "EntitiesIngress.acl_rate".into();
    let all = args![0, name.clone(), both(0.5)];
    client.call("bm_meter_array_set_rates", all).await;
    let cell = |index: i32| args![0, name.clone(), index];
    let one = [cell(1), vec![both(0.25)]].concat();
    client.call("bm_meter_set_rates", one).await;
    for (place, expected) in [(0, 0.5), (1, 0.25)] {
        for (call, args) in [
            ("bm_meter_get_rates", cell(place)),
            ("bm_mt_get_meter_rates", at(ACL, place)),
        ] {
            let found = client.list(call, args).await;
            let first = as_struct(&found[0]).get(1).cloned();
            assert_eq!(first, Some(Value::Double(expected)), "{call} {place}");
        }
    }
    // Setting the rates at a position without an entry changes nothing; a position beyond the table is refused.
    let free = [cell(2), vec![both(0.5)]].concat();
    client.call("bm_meter_set_rates", free).await;
    assert_eq!(client.list("bm_meter_get_rates", cell(2)).await, []);
    let refused = client.refused("bm_meter_get_rates", cell(1 << 24)).await;
    assert_eq!(refused, Refused::Code(2));
}

#[tokio::test]
async fn what_several_workers_count_adds_up() {
    let harness = Harness::with_workers(3).await;
    let mut client = harness.client().await;
    add(&mut client, 1, 2).await;
    let value = counts(640, 10);
    let write = [at(FORWARD, 0), vec![value]].concat();
    client.call("bm_mt_write_counter", write).await;
    assert_eq!(harness.ports_of(&frame(1)), [2]);
    let read = client.fields("bm_mt_read_counter", at(FORWARD, 0)).await;
    assert_eq!(counted(&read), (704, 11));
}

#[tokio::test]
async fn clients_that_write_at_once_get_handles_of_their_own() {
    let harness = Harness::start().await;
    let writers = (0..4u8).map(|writer| {
        let address = harness.address;
        tokio::spawn(async move {
            let mut client = Client::connect(address).await;
            let mut handles = Vec::new();
            for n in 0..40 {
                handles.push(add(&mut client, writer * 40 + n, 1).await);
            }
            handles
        })
    });
    let mut all = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        all.extend(writer.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..160).collect::<Vec<i64>>());
}

/// `Device::changes` and the store identify an entry by the bytes of its key, so two forms of one key would be two
/// entries.
#[tokio::test]
async fn keys_are_as_short_as_those_of_other_protocols() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let mut changes = harness.device.changes();
    client
        .call(
            "bm_mt_add_entry",
            to_port(1, 2).into_iter().chain([priority(0)]).collect(),
        )
        .await;
    let change = changes.next().await.unwrap().unwrap();
    let Changed::Written(batch, _) = change.what else {
        panic!("expected a batch, found {:?}", change.what)
    };
    let [Operation::Entry(EntryUpdate::Insert { entry, .. })] = &batch.operations[..] else {
        panic!("expected an insert, found {batch:?}")
    };
    let [MatchField::Exact(value)] = &entry.key[..] else {
        panic!("expected an exact match, found {:?}", entry.key)
    };
    let first = value.first();
    assert!(value.len() == 1 || first != Some(&0), "{value:?}");
}
