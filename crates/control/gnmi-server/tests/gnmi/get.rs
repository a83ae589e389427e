//! gNMI specification 2.3, 3.2 and 3.3: capabilities, and the results of a `Get`.

use dataplane::PortId;
use gnmi_proto::gnmi::get_request::DataType;
use gnmi_proto::gnmi::typed_value::Value;
use gnmi_proto::gnmi::{CapabilityRequest, Encoding, GetRequest, ModelData, Path};
use serde_json::{Value as Json, json};
use testkit::text::assert_has;
use tonic::Code::{InvalidArgument, NotFound, Unimplemented};

use crate::harness::*;

#[tokio::test]
async fn capabilities_name_the_models_and_encodings() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let capabilities = client
        .capabilities(CapabilityRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(capabilities.g_nmi_version, "0.10.0");
    let names: Vec<_> = capabilities
        .supported_models
        .iter()
        .map(|model| model.name.as_str())
        .collect();
    assert_eq!(names, ["openconfig-interfaces", "openconfig-p4rt"]);
    let encodings = [Encoding::Json, Encoding::JsonIetf, Encoding::Proto].map(i32::from);
    assert_eq!(capabilities.supported_encodings, encodings);
}

#[tokio::test]
async fn names_are_mapped_to_port_numbers_as_controllers_do_it() {
    let harness = Harness::without_pipeline(1).await;
    for leaf in ["ifindex", "id"] {
        for every in ["[name=*]", "[name=...]", ""] {
            let found = harness
                .get(&format!("/interfaces/interface{every}/state/{leaf}"))
                .await
                .unwrap();
            let ports = (0..4).map(|id| {
                (
                    of(&format!("veth{id}"), &format!("state/{leaf}")),
                    Value::UintVal(id),
                )
            });
            assert_eq!(found, ports.collect::<Vec<_>>());
        }
    }
}

#[tokio::test]
async fn counters_are_the_frames_that_were_sent_of_all_workers() {
    let harness = Harness::with_workers(2).await;
    for _ in 0..3 {
        assert_eq!(harness.ports_of(0), [1]);
    }
    let counter = async |name, leaf| {
        harness
            .leaf(&of(name, &format!("state/counters/{leaf}")))
            .await
    };
    assert_eq!(counter("veth0", "in-pkts").await, Value::UintVal(3));
    assert_eq!(counter("veth0", "in-octets").await, Value::UintVal(180));
    assert_eq!(counter("veth1", "out-pkts").await, Value::UintVal(3));
    assert_eq!(counter("veth1", "out-octets").await, Value::UintVal(180));
    assert_eq!(counter("veth1", "in-pkts").await, Value::UintVal(0));
    // Each worker of the test's switch reports as many lost frames at a port as the port's number.
    assert_eq!(counter("veth3", "out-discards").await, Value::UintVal(6));
}

#[tokio::test]
async fn a_link_that_goes_down_is_reported() {
    let harness = Harness::start().await;
    let found = harness.leaf(&of("veth2", "state/oper-status")).await;
    assert_eq!(found, string("UP"));
    harness.switch.set_port_up(PortId(2), false);
    let found = harness.leaf(&of("veth2", "state/oper-status")).await;
    assert_eq!(found, string("DOWN"));
    let found = harness.leaf(&of("veth2", "state/admin-status")).await;
    assert_eq!(found, string("UP"));
    let found = harness
        .leaf(&of("veth2", "state/counters/carrier-transitions"))
        .await;
    assert_eq!(found, Value::UintVal(1));
}

fn request(text: &str, encoding: Encoding) -> GetRequest {
    GetRequest {
        path: vec![path(text)],
        encoding: encoding.into(),
        ..GetRequest::default()
    }
}

async fn json(harness: &Harness, request: GetRequest) -> Vec<(String, Json)> {
    let response = harness
        .client()
        .await
        .get(request)
        .await
        .unwrap()
        .into_inner();
    let updates = response
        .notification
        .iter()
        .flat_map(updates)
        .collect::<Vec<_>>();
    let parsed = updates.into_iter().map(|(path, value)| match value {
        Value::JsonVal(text) | Value::JsonIetfVal(text) => {
            (path, serde_json::from_slice(&text).unwrap())
        }
        other => panic!("expected JSON, found {other:?}"),
    });
    parsed.collect()
}

#[tokio::test]
async fn json_has_a_node_whole_and_names_models_where_rfc_7951_says() {
    let harness = Harness::start().await;
    harness.ports_of(1);
    let leaf = of("veth1", "config/enabled");
    let found = json(&harness, request(&leaf, Encoding::Json)).await;
    assert_eq!(found, [(leaf, json!(true))]);
    let config = of("veth1", "config");
    let plain =
        json!({"name": "veth1", "type": "iana-if-type:ethernetCsmacd", "enabled": true, "id": 1});
    let found = json(&harness, request(&config, Encoding::Json)).await;
    assert_eq!(found, [(config.clone(), plain)]);
    let qualified = json!({
        "openconfig-interfaces:name": "veth1",
        "openconfig-interfaces:type": "iana-if-type:ethernetCsmacd",
        "openconfig-interfaces:enabled": true,
        "openconfig-p4rt:id": 1,
    });
    let found = json(&harness, request(&config, Encoding::JsonIetf)).await;
    assert_eq!(found, [(config, qualified)]);
    let counters = &json(&harness, request(&of("veth1", "state"), Encoding::JsonIetf)).await[0].1;
    assert_eq!(
        counters["openconfig-interfaces:counters"]["in-octets"],
        json!("60")
    );
    let counters = &json(&harness, request(&of("veth1", "state"), Encoding::Json)).await[0].1;
    assert_eq!(counters["counters"]["in-octets"], json!(60));
    let all = json(&harness, request("/", Encoding::Json)).await;
    assert_eq!(all.len(), 1);
    let interfaces = &all[0].1["interfaces"]["interface"];
    assert_eq!(interfaces.as_array().unwrap().len(), 4);
    assert_eq!(interfaces[3]["state"]["ifindex"], json!(3));
    let all = json(&harness, request("/interfaces", Encoding::JsonIetf)).await;
    let first = &all[0].1["openconfig-interfaces:interface"][0]["config"];
    assert_eq!(first["name"], "veth0");
    assert_eq!(first["openconfig-p4rt:id"], 0);
}

#[tokio::test]
async fn a_type_or_models_leave_the_rest_out() {
    let harness = Harness::start().await;
    let asked = |r#type: DataType, models: &[&str]| GetRequest {
        r#type: r#type.into(),
        use_models: models
            .iter()
            .map(|name| ModelData {
                name: (*name).into(),
                ..ModelData::default()
            })
            .collect(),
        ..request(&of("veth1", ""), Encoding::Json)
    };
    let found = json(&harness, asked(DataType::Config, &[])).await;
    let members: Vec<_> = found[0].1.as_object().unwrap().keys().collect();
    assert_eq!(members, ["name", "config"]);
    let found = json(&harness, asked(DataType::Operational, &[])).await;
    assert!(
        found[0].1["state"].get("enabled").is_none()
            && found[0].1["state"].get("ifindex").is_some()
    );
    let found = json(&harness, asked(DataType::All, &["openconfig-p4rt"])).await;
    assert_eq!(found[0].1, json!({"config": {"id": 1}, "state": {"id": 1}}));
    let refused = harness
        .client()
        .await
        .get(asked(DataType::All, &["openconfig-lldp"]))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), InvalidArgument);
    assert!(refused.message().contains("openconfig-lldp"), "{refused:?}");
}

#[tokio::test]
async fn the_client_s_target_and_origin_come_back_in_the_prefix() {
    let harness = Harness::start().await;
    let prefix = Path {
        target: "s1".into(),
        origin: "openconfig".into(),
        ..path("/interfaces/interface[name=veth1]")
    };
    let asked = GetRequest {
        prefix: Some(prefix),
        ..request("/state/ifindex", Encoding::Proto)
    };
    let response = harness
        .client()
        .await
        .get(asked)
        .await
        .unwrap()
        .into_inner();
    let notification = &response.notification[0];
    let prefix = notification.prefix.clone().unwrap();
    assert_eq!(
        (
            prefix.target.as_str(),
            prefix.origin.as_str(),
            prefix.elem.len()
        ),
        ("s1", "openconfig", 0)
    );
    let found = updates(notification);
    assert_eq!(found, [(of("veth1", "state/ifindex"), Value::UintVal(1))]);
    assert!(notification.timestamp > 1_500_000_000_000_000_000);
}

#[tokio::test]
async fn what_is_not_there_is_refused_by_its_path() {
    let harness = Harness::start().await;
    let code = async |text: &str| {
        let refused = harness.get(text).await.unwrap_err();
        assert!(refused.message().contains(text), "{refused:?}");
        refused.code()
    };
    assert_eq!(code("/onos-gnmi-ping").await, InvalidArgument);
    assert_eq!(code(&of("veth9", "state")).await, NotFound);
    assert_eq!(code(&of("veth1", "state/mtu")).await, NotFound);
    let found = code(&of("veth1", "ethernet/state/port-speed")).await;
    assert_eq!(found, Unimplemented);
    let mut client = harness.client().await;
    for encoding in [Encoding::Ascii, Encoding::Bytes] {
        let refused = client.get(request("/", encoding)).await.unwrap_err();
        assert_eq!(refused.code(), Unimplemented);
        assert_has(refused.message(), encoding.as_str_name());
    }
}

#[tokio::test]
async fn a_switch_without_ports_has_no_interfaces() {
    let harness = Harness::with_ports(0).await;
    assert_eq!(
        harness
            .get("/interfaces/interface[name=*]/state/ifindex")
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        json(&harness, request("/", Encoding::Json)).await[0].1,
        json!({"interfaces": {"interface": []}})
    );
}
