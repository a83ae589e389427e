//! Programs, ids, hashes, ports, and refused calls.

use bmv2_thrift::wire::read::Value;

use crate::client::{Arg, Client, Refused, args, as_struct, i32_of, to_port};
use crate::harness::{Harness, NOWHERE, frame};

const ONGOING_SWAP: Refused = Refused::Code(2);
const NO_ONGOING_SWAP: Refused = Refused::Code(3);

async fn forward(client: &mut Client, dst: u8, port: u8) {
    client.call("bm_mt_add_entry", to_port(dst, port)).await;
}

async fn n_entries(client: &mut Client) -> i64 {
    let args = args![0, "EntitiesIngress.forward"];
    client.number("bm_mt_get_num_entries", args).await
}

#[tokio::test]
async fn a_loaded_program_is_written_to_and_forwards_when_it_is_exchanged() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    forward(&mut client, 1, 2).await;
    let refused = client.refused("bm_swap_configs", vec![]).await;
    assert_eq!(refused, NO_ONGOING_SWAP);
    let new = vec![Arg::from(&*harness.json)];
    client.call("bm_load_new_config", new.clone()).await;
    let refused = client.refused("bm_load_new_config", new).await;
    assert_eq!(refused, ONGOING_SWAP);
    assert_eq!(n_entries(&mut client).await, 0);
    forward(&mut client, 1, 6).await;
    assert_eq!(harness.ports_of(&frame(1)), [2]);
    client.call("bm_swap_configs", vec![]).await;
    assert_eq!(harness.ports_of(&frame(1)), [6]);
    assert_eq!(n_entries(&mut client).await, 1);
}

#[tokio::test]
async fn what_is_no_program_is_reported_and_changes_nothing() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    for text in ["", "{}", "[1, 2", "\u{0}"] {
        let refused = client.refused("bm_load_new_config", args![text]).await;
        assert_eq!(refused, Refused::Failure(6), "{text:?}");
    }
    forward(&mut client, 1, 2).await;
    assert_eq!(harness.ports_of(&frame(1)), [2]);
}

#[tokio::test]
async fn a_fresh_start_takes_away_what_was_written() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    forward(&mut client, 1, 2).await;
    let node = args![0, 1, "1", ""];
    client
        .call("simple_pre_lag:bm_mc_node_create", node.clone())
        .await;
    client.call("bm_reset_state", vec![]).await;
    assert_eq!(harness.ports_of(&frame(1)), NOWHERE);
    assert_eq!(n_entries(&mut client).await, 0);
    let fixed = args![0, "EntitiesIngress.fixed"];
    assert_eq!(client.number("bm_mt_get_num_entries", fixed).await, 2);
    let number = client
        .number("simple_pre_lag:bm_mc_node_create", node)
        .await;
    assert_eq!(number, 0);
}

#[tokio::test]
async fn the_program_s_text_comes_back_as_it_was_given() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let text = client.bytes("bm_get_config", vec![]).await;
    assert_eq!(text, harness.json.as_bytes());
    let new = format!("{} ", harness.json);
    client
        .call("bm_load_new_config", vec![Arg::from(&*new)])
        .await;
    let text = client.bytes("bm_get_config", vec![]).await;
    assert_eq!(text, new.as_bytes());
    let digest = client.bytes("bm_get_config_md5", vec![]).await;
    assert_eq!(digest.len(), 16);
    client.call("bm_reset_state", vec![]).await;
    assert_ne!(client.bytes("bm_get_config_md5", vec![]).await, digest);
}

#[tokio::test]
async fn ids_are_those_of_the_program_s_text() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let json: serde_json::Value = serde_json::from_str(&harness.json).unwrap();
    let tables = json["pipelines"][0]["tables"].as_array().unwrap();
    let expected = tables
        .iter()
        .find(|it| it["name"] == "EntitiesIngress.forward")
        .unwrap();
    let id = |resource: i32, name: &str| args![0, resource, name];
    let call = "bm_get_id_from_name";
    let found = client.number(call, id(0, "EntitiesIngress.forward")).await;
    assert_eq!(Some(found), expected["id"].as_i64());
    for (resource, name) in [
        (1, "EntitiesIngress.ecmp"),
        (2, "EntitiesIngress.port_packets"),
        (3, "EntitiesIngress.port_rate"),
        (4, "EntitiesIngress.last"),
    ] {
        client.number(call, id(resource, name)).await;
    }
    for (resource, name, code) in [(0, "nothing", 1), (9, "EntitiesIngress.last", 0)] {
        let refused = client.refused(call, id(resource, name)).await;
        assert_eq!(refused, Refused::Code(code));
    }
}

/// Reads the custom CRCs that the program has computed for the last packet.
async fn hashes(client: &mut Client) -> (i64, i64) {
    let cell = |cell: i32| args![0, "EntitiesIngress.wide", cell];
    let narrow = client.number("bm_register_read", cell(2)).await;
    (narrow, client.number("bm_register_read", cell(3)).await)
}

#[tokio::test]
async fn crc_parameters_are_those_of_a_custom_crc_of_their_width() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let json: serde_json::Value = serde_json::from_str(&harness.json).unwrap();
    let name_of = |algorithm: &str| {
        let calculations = json["calculations"].as_array().unwrap();
        let found = calculations
            .iter()
            .find(|it| it["algo"] == algorithm)
            .unwrap();
        found["name"].as_str().unwrap().to_owned()
    };
    let (narrow, wide) = (name_of("crc16_custom"), name_of("crc32_custom"));
    let parameters = |number: fn(i32) -> Arg| {
        let numbers = [0x1021, -1, 0].map(number);
        let fields = (1..).zip(numbers);
        let flags = [(4, Arg::Bool(true)), (5, Arg::Bool(false))];
        Arg::Struct(fields.chain(flags).collect())
    };
    let i16s = parameters(|number| Arg::I16(number as i16));
    let set = |name: &str, parameters: &Arg| args![0, name, parameters.clone()];
    harness.ports_of(&frame(1));
    let before = hashes(&mut client).await;
    let i32s = parameters(Arg::I32);
    client
        .call("bm_set_crc16_custom_parameters", set(&narrow, &i16s))
        .await;
    client
        .call("bm_set_crc32_custom_parameters", set(&wide, &i32s))
        .await;
    harness.ports_of(&frame(1));
    let after = hashes(&mut client).await;
    assert!(
        before.0 != after.0 && before.1 != after.1,
        "{before:?} {after:?}"
    );
    for (call, name, parameters, code) in [
        ("bm_set_crc16_custom_parameters", &*wide, &i16s, 2),
        ("bm_set_crc32_custom_parameters", &*narrow, &i32s, 2),
        ("bm_set_crc32_custom_parameters", "nothing", &i32s, 1),
        (
            "bm_set_toeplitz_hash_key",
            &*wide,
            &Arg::Bytes(vec![0; 4]),
            2,
        ),
    ] {
        let refused = client.refused(call, set(name, parameters)).await;
        assert_eq!(refused, Refused::Code(code), "{call} {name}");
    }
}

#[tokio::test]
async fn ports_and_the_switch_are_reported() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let ports = client.list("bm_dev_mgr_show_ports", vec![]).await;
    assert_eq!(ports.len(), 8);
    let port = as_struct(&ports[3]);
    assert_eq!(i32_of(port, 1), 3);
    assert_eq!(port.get(2), Some(&Value::Bytes(b"veth3".to_vec())));
    assert_eq!(port.get(3), Some(&Value::Bool(true)));
    let info = client.fields("bm_mgmt_get_info", vec![]).await;
    assert_eq!(info.get(1), Some(&Value::I64(3)));
    assert_eq!(i32_of(&info, 2), i32::from(harness.address.port()));
    let add = args!["veth9", 9, ""];
    let refused = client.refused("bm_dev_mgr_add_port", add).await;
    assert_eq!(refused, Refused::Code(1));
    let refused = client.refused("bm_dev_mgr_remove_port", args![3]).await;
    assert_eq!(refused, Refused::Code(1));
}

#[tokio::test]
async fn the_state_is_reported_as_json() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    forward(&mut client, 1, 2).await;
    let text = client.bytes("bm_serialize_state", vec![]).await;
    let state: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let entry = &state["tables"]["EntitiesIngress.forward"]["entries"][0];
    assert_eq!(entry["key"][0], "0x01");
    assert_eq!(entry["action"]["args"][0], "0x02");
    assert_eq!(
        state["registers"]["EntitiesIngress.last"]
            .as_array()
            .unwrap()
            .len(),
        16
    );
}

#[tokio::test]
async fn without_a_program_calls_are_refused() {
    let switch = std::sync::Arc::new(testkit::memory_loop::MemoryLoop::start(
        dataplane::SwitchConfig::default(),
        1,
    ));
    let device = control::Device::new(switch, control::Registers::OfTheSwitch);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = thrift_server::ServerConfig {
        device_id: 0,
        port: 1,
        notifications: None,
    };
    let server = thrift_server::Server::new(config, std::sync::Arc::new(device));
    tokio::spawn(server.serve(listener, std::future::pending()));
    let mut client = Client::connect(address).await;
    let args = args![0, "EntitiesIngress.forward"];
    let refused = client.refused("bm_mt_get_num_entries", args).await;
    assert_eq!(refused, Refused::Failure(6));
    assert_eq!(client.bytes("bm_get_config", vec![]).await, b"");
}
