//! Parser value sets.

use bmv2_thrift::wire::read::Value;
use dataplane::MatchField;

use crate::client::{Arg, Refused, args};
use crate::harness::Harness;

const SET: &str = "EntitiesParser.ip_types";

fn value(name: &str, value: &[u8]) -> Vec<Arg> {
    args![0, name, Arg::Bytes(value.to_vec())]
}

#[tokio::test]
async fn values_come_and_go() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    for it in [[0x88, 0x47], [0, 5], [0x88, 0x47]] {
        client.call("bm_parse_vset_add", value(SET, &it)).await;
    }
    let found = client.list("bm_parse_vset_get", value(SET, &[])).await;
    let expected = [Value::Bytes(vec![0x88, 0x47]), Value::Bytes(vec![0, 5])];
    assert_eq!(found, expected);
    let reading = harness.device.reading().await.unwrap();
    let set = harness.pipeline().program().value_set(SET).unwrap();
    let members = reading
        .of_first(move |switch| switch.value_set(set))
        .await
        .unwrap();
    drop(reading);
    assert_eq!(members[1], [MatchField::Exact(vec![5])]);
    for gone in [[0, 5], [0, 6]] {
        client.call("bm_parse_vset_remove", value(SET, &gone)).await;
    }
    let found = client.list("bm_parse_vset_get", value(SET, &[])).await;
    assert_eq!(found, [Value::Bytes(vec![0x88, 0x47])]);
    client.call("bm_parse_vset_clear", value(SET, &[])).await;
    assert_eq!(client.list("bm_parse_vset_get", value(SET, &[])).await, []);
    let refused = client
        .refused("bm_parse_vset_get", value("ip_types", &[]))
        .await;
    assert_eq!(refused, Refused::Code(1));
    for it in 0..4 {
        client.call("bm_parse_vset_add", value(SET, &[1, it])).await;
    }
    let refused = client
        .refused("bm_parse_vset_add", value(SET, &[1, 9]))
        .await;
    assert_eq!(refused, Refused::Code(2));
}
