//! Calls that arrive in pieces, or many at once.

use bmv2_thrift::wire::Kind;
use bmv2_thrift::wire::read::Value;
use bmv2_thrift::wire::write::Writer;

use crate::client::{Arg, call, result};
use crate::harness::Harness;

fn read_register(number: i32) -> Vec<u8> {
    let args = [Arg::I32(0), "EntitiesIngress.last".into(), 0.into()];
    let args: Vec<(i16, Arg)> = (1..).zip(args).collect();
    call("standard:bm_register_read", number, &args)
}

#[tokio::test]
async fn calls_in_one_piece_are_answered_in_their_order() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let all: Vec<u8> = (0..300).flat_map(read_register).collect();
    client.send(&all).await;
    for number in 0..300 {
        let answer = client.answer().await.unwrap();
        assert_eq!(answer.number, number);
        assert_eq!(result(&answer), Ok(Some(Value::I64(0))));
    }
}

#[tokio::test]
async fn a_call_in_many_pieces_is_one() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    client.stream.set_nodelay(true).unwrap();
    for byte in read_register(7) {
        client.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.answer().await.unwrap().number, 7);
}

/// Old message heads have no version.
#[tokio::test]
async fn the_old_form_of_a_call_is_taken() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let name = "simple_switch:get_time_elapsed_us";
    let mut writer = Writer::default();
    writer.bytes(name.as_bytes());
    writer.encoded(&[Kind::Call as u8]);
    writer.i32(9);
    writer.stop();
    client.send(&writer.into_bytes()).await;
    let answer = client.answer().await.unwrap();
    assert_eq!((answer.number, &*answer.name), (9, "get_time_elapsed_us"));
}

#[tokio::test]
async fn who_wants_no_answer_gets_none() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let mut writer = Writer::default();
    writer.head("standard:bm_reset_state", Kind::Oneway, 1);
    writer.stop();
    client.send(&writer.into_bytes()).await;
    client.send(&read_register(2)).await;
    assert_eq!(client.answer().await.unwrap().number, 2);
}

#[tokio::test]
async fn a_program_of_megabytes_is_taken() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let text = format!("{}{}", harness.json, " ".repeat(8 * 1024 * 1024));
    client
        .call("bm_load_new_config", vec![Arg::from(&*text)])
        .await;
    client.call("bm_swap_configs", vec![]).await;
    let found = client.bytes("bm_get_config", vec![]).await.len();
    assert_eq!(found, text.len());
}
