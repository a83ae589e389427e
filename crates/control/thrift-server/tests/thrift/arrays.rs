//! Counters, registers, meters.

use bmv2_thrift::wire::read::Value;

use crate::client::{Arg, Refused, args, as_struct, counted, counts, i32_of, rates};
use crate::harness::{Harness, frame};

const COUNTER: &str = "EntitiesIngress.port_packets";
const LAST: &str = "EntitiesIngress.last";
const WIDE: &str = "EntitiesIngress.wide";
const METER: &str = "EntitiesIngress.port_rate";

const INVALID_NAME: Refused = Refused::Code(1);
const INVALID_INDEX: Refused = Refused::Code(2);

fn of(array: &str, index: i32) -> Vec<Arg> {
    args![0, array, index]
}

#[tokio::test]
async fn counters_are_read_written_and_reset() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    harness.ports_of(&frame(1));
    let read = client.fields("bm_counter_read", of(COUNTER, 0)).await;
    assert_eq!(counted(&read), (64, 1));
    let value = counts(-1, 5);
    let write = [of(COUNTER, 7), vec![value.clone()]].concat();
    client.call("bm_counter_write", write).await;
    let read = client.fields("bm_counter_read", of(COUNTER, 7)).await;
    assert_eq!(counted(&read), (-1, 5));
    client.call("bm_counter_reset_all", of(COUNTER, 0)).await;
    for cell in [0, 7] {
        let read = client.fields("bm_counter_read", of(COUNTER, cell)).await;
        assert_eq!(read.get(2), Some(&Value::I64(0)));
    }
    for (name, index, expected) in [
        ("nothing", 0, INVALID_NAME),
        (COUNTER, 8, INVALID_INDEX),
        (COUNTER, -1, INVALID_INDEX),
    ] {
        let refused = client.refused("bm_counter_read", of(name, index)).await;
        assert_eq!(refused, expected.clone(), "{name}[{index}]");
        let write = [of(name, index), vec![value.clone()]].concat();
        let refused = client.refused("bm_counter_write", write).await;
        assert_eq!(refused, expected, "{name}[{index}]");
    }
}

#[tokio::test]
async fn registers_have_the_lowest_bits_of_a_number() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let write = |array: &str, index, value| [of(array, index), vec![Arg::I64(value)]].concat();
    client
        .call("bm_register_write", write(LAST, 15, 0x1_0000_0005))
        .await;
    assert_eq!(client.number("bm_register_read", of(LAST, 15)).await, 5);
    client.call("bm_register_write", write(LAST, 1, -1)).await;
    let number = client.number("bm_register_read", of(LAST, 1)).await;
    assert_eq!(number, 0xffff_ffff);
    client.call("bm_register_write", write(WIDE, 1, -7)).await;
    assert_eq!(client.number("bm_register_read", of(WIDE, 1)).await, -7);
    // The range excludes its end.
    let cells = [of(LAST, 2), args![4, Arg::I64(9)]].concat();
    client.call("bm_register_write_range", cells).await;
    let all = client.list("bm_register_read_all", of(LAST, 0)).await;
    let expected = [0, 0xffff_ffff, 9, 9, 0];
    assert_eq!(all.len(), 16);
    assert_eq!(all[..5], expected.map(Value::I64));
    client.call("bm_register_reset", of(LAST, 0)).await;
    let all = client.list("bm_register_read_all", of(LAST, 0)).await;
    assert_eq!(all, vec![Value::I64(0); 16]);
    let beyond = [of(LAST, 3), args![17, Arg::I64(9)]].concat();
    let mistakes = [
        ("bm_register_read", of(LAST, 16), INVALID_INDEX),
        ("bm_register_read", of("nothing", 0), INVALID_NAME),
        ("bm_register_write", write(LAST, -1, 1), INVALID_INDEX),
        ("bm_register_write_range", beyond, INVALID_INDEX),
        ("bm_register_read_all", of("nothing", 0), INVALID_NAME),
    ];
    for (call, args, expected) in mistakes {
        assert_eq!(client.refused(call, args).await, expected, "{call}");
    }
}

#[tokio::test]
async fn what_packets_write_to_a_register_is_read_and_the_reverse() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let start = [of(LAST, 0), vec![Arg::I64(41)]].concat();
    client.call("bm_register_write", start).await;
    harness.ports_of(&frame(1));
    assert_eq!(client.number("bm_register_read", of(LAST, 0)).await, 42);
}

#[tokio::test]
async fn meters_have_two_rates_the_lower_first() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    assert_eq!(client.list("bm_meter_get_rates", of(METER, 0)).await, []);
    let both = rates(&[(0.001, 10), (1.5, 20)]);
    let all = args![0, METER, both.clone()];
    client.call("bm_meter_array_set_rates", all).await;
    let other = rates(&[(0.25, 1), (0.25, 2)]);
    client
        .call("bm_meter_set_rates", [of(METER, 2), vec![other]].concat())
        .await;
    for (cell, expected) in [(0, [(0.001, 10), (1.5, 20)]), (2, [(0.25, 1), (0.25, 2)])] {
        let found = client.list("bm_meter_get_rates", of(METER, cell)).await;
        let found = found.iter().map(|rate| {
            let rate = as_struct(rate);
            let Some(Value::Double(per_micro)) = rate.get(1) else {
                panic!("expected a rate: {rate:?}")
            };
            (*per_micro, i32_of(rate, 2))
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
    let wrong = [
        (0, rates(&[(1.0, 10)]), 3),
        (0, rates(&[(2.0, 10), (1.0, 10)]), 4),
        (0, rates(&[(f64::NAN, 10), (1.0, 10)]), 4),
        (0, rates(&[(-1.0, 10), (1.0, 10)]), 4),
        (4, both.clone(), 2),
        (-1, both, 2),
    ];
    for (cell, rates, code) in wrong {
        let args = [of(METER, cell), vec![rates.clone()]].concat();
        let refused = client.refused("bm_meter_set_rates", args).await;
        assert_eq!(refused, Refused::Code(code), "{rates:?}");
    }
}
