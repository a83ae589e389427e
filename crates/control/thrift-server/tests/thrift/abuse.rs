//! Malformed calls and misbehaving clients.

use bmv2_thrift::limits::{CALL_BYTES_MAX, DEPTH_MAX, VALUES_MAX};
use bmv2_thrift::wire::write::Writer;
use bmv2_thrift::wire::{Kind, Type};
use thrift_server::limits::CONNECTIONS_MAX;

use crate::client::{Arg, Client, Refused, args, call, result, to_port};
use crate::harness::Harness;

const PROTOCOL: Refused = Refused::Failure(7);

fn add(dst: u8) -> Vec<u8> {
    let args: Vec<(i16, Arg)> = (1..).zip(to_port(dst, 1)).collect();
    call("standard:bm_mt_add_entry", 1, &args)
}

async fn n_entries(client: &mut Client) -> i64 {
    let args = args![0, "EntitiesIngress.forward"];
    client.number("bm_mt_get_num_entries", args).await
}

#[tokio::test]
async fn what_there_is_not_is_reported_and_the_connection_goes_on() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    for name in [
        "bm_mt_add_entry",
        "pna_nic:add",
        "standard:add",
        "standard:",
        ":",
        "",
    ] {
        client.send(&call(name, 3, &[])).await;
        let answer = client.answer().await.unwrap();
        assert_eq!(result(&answer), Err(Refused::Failure(1)), "{name}");
    }
    let mut writer = Writer::default();
    writer.head("standard:bm_reset_state", Kind::Reply, 4);
    writer.stop();
    client.send(&writer.into_bytes()).await;
    assert_eq!(
        result(&client.answer().await.unwrap()),
        Err(Refused::Failure(2))
    );
    assert_eq!(n_entries(&mut client).await, 0);
}

/// A call with these bytes as arguments.
fn with_arguments(bytes: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.head("standard:bm_reset_state", Kind::Call, 5);
    writer.encoded(bytes);
    writer.into_bytes()
}

#[tokio::test]
async fn what_is_no_call_is_reported_and_ends_its_connection_alone() {
    let harness = Harness::start().await;
    let mut other = harness.client().await;
    let list = |n_values: i32| {
        let mut writer = Writer::default();
        writer.field(1, Type::List).encoded(&[Type::I32 as u8]);
        writer.i32(n_values);
        writer.into_bytes()
    };
    let mut deep = Writer::default();
    for _ in 0..=DEPTH_MAX + 1 {
        deep.field(1, Type::Struct);
    }
    let mut text = Writer::default();
    text.field(1, Type::Bytes).i32(-1);
    let wrong = [
        vec![99, 0, 1],
        list(-5),
        list(i32::MAX),
        list(i32::try_from(VALUES_MAX + 1).unwrap()),
        deep.into_bytes(),
        text.into_bytes(),
    ];
    for arguments in wrong {
        let mut client = harness.client().await;
        client.send(&with_arguments(&arguments)).await;
        let answer = client.answer().await.expect("it gets a reason");
        assert_eq!(
            (result(&answer), answer.number),
            (Err(PROTOCOL), 5),
            "{arguments:?}"
        );
        assert!(client.answer().await.is_none(), "{arguments:?}");
    }
    for head in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x80, 2, 0, 1],
        &[0xff; 16],
    ] {
        let mut client = harness.client().await;
        client.send(head).await;
        assert!(client.answer().await.is_none(), "{head:?}");
    }
    assert_eq!(n_entries(&mut other).await, 0);
}

#[tokio::test]
async fn a_call_that_says_it_is_too_long_is_not_waited_for() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let mut writer = Writer::default();
    let half = i32::try_from(CALL_BYTES_MAX / 2 + 1).unwrap();
    writer
        .field(1, Type::Bytes)
        .i32(i32::try_from(CALL_BYTES_MAX + 1).unwrap());
    client.send(&with_arguments(&writer.into_bytes())).await;
    assert_eq!(result(&client.answer().await.unwrap()), Err(PROTOCOL));
    assert!(client.answer().await.is_none());
    // A call is also refused if only its parts together are too long.
    let mut client = harness.client().await;
    let mut writer = Writer::default();
    writer.field(1, Type::Bytes).i32(half);
    client.send(&with_arguments(&writer.into_bytes())).await;
    let part = vec![0; CALL_BYTES_MAX / 2 + 1];
    client.send(&part).await;
    let mut writer = Writer::default();
    writer.field(2, Type::Bytes).i32(half);
    client.send(&writer.into_bytes()).await;
    assert_eq!(result(&client.answer().await.unwrap()), Err(PROTOCOL));
}

#[tokio::test]
async fn a_call_that_is_cut_off_anywhere_is_done_wholly_or_not() {
    let harness = Harness::start().await;
    let whole = add(1);
    for length in 0..whole.len() {
        let mut client = harness.client().await;
        client.send(&whole[..length]).await;
        drop(client);
    }
    let mut client = harness.client().await;
    assert_eq!(n_entries(&mut client).await, 0);
    // The call is carried out completely, though nobody waits for the answer.
    let mut gone = harness.client().await;
    gone.send(&whole).await;
    drop(gone);
    while n_entries(&mut client).await == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_sends_no_more_still_gets_its_answer() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    client.send(&add(1)).await;
    tokio::io::AsyncWriteExt::shutdown(&mut client.stream)
        .await
        .unwrap();
    assert!(result(&client.answer().await.unwrap()).is_ok());
    assert!(client.answer().await.is_none());
}

#[tokio::test]
async fn a_thousand_silent_connections_keep_nobody_out() {
    let harness = Harness::start().await;
    let mut busy = harness.client().await;
    let mut silent = Vec::new();
    for n in 0..1_000 {
        silent.push(harness.client().await);
        if n % 50 == 0 {
            n_entries(&mut busy).await;
        }
    }
    let mut new = harness.client().await;
    assert_eq!(n_entries(&mut new).await, 0);
    // The oldest connections were closed to make room for the newest.
    for client in &mut silent[..1_000 - CONNECTIONS_MAX] {
        assert!(client.answer().await.is_none());
    }
}

/// Random bytes, and calls with mutated bytes: the server still works, and no other client is affected.
#[tokio::test]
async fn mutated_calls_hurt_nobody_else() {
    let harness = Harness::start().await;
    let mut other = harness.client().await;
    let mut rng = fastrand::Rng::with_seed(9);
    let session = [Arg::I32(5), Arg::Struct(vec![(1, Arg::I32(2))])];
    let session: Vec<(i16, Arg)> = (1..).zip(session).collect();
    let calls = [
        add(1),
        call(
            "standard:bm_mt_get_entries",
            2,
            &[(2, "EntitiesIngress.forward".into())],
        ),
        call("simple_pre_lag:bm_mc_get_entries", 3, &[]),
        call("simple_switch:mirroring_session_add", 4, &session),
        call("standard:bm_serialize_state", 5, &[]),
    ];
    let mut n_answered = 0;
    for round in 0..1_500 {
        let mut bytes = calls[rng.usize(..calls.len())].clone();
        for _ in 0..rng.usize(..4) {
            match rng.u8(..3) {
                0 => bytes = bytes[..rng.usize(..=bytes.len())].to_vec(),
                1 => bytes.insert(rng.usize(..=bytes.len()), rng.u8(..)),
                _ => {
                    let place = rng.usize(..bytes.len().max(1));
                    if let Some(byte) = bytes.get_mut(place) {
                        *byte = rng.u8(..);
                    }
                }
            }
        }
        let mut client = harness.client().await;
        client.send(&bytes).await;
        tokio::io::AsyncWriteExt::shutdown(&mut client.stream)
            .await
            .unwrap();
        n_answered += usize::from(client.answer().await.is_some());
        if round % 100 == 0 {
            other
                .number("simple_switch:get_time_elapsed_us", vec![])
                .await;
        }
    }
    assert!(n_answered > 300, "only {n_answered} were answered");
}
