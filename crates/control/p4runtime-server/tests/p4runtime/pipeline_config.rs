//! Tests of the P4Runtime specification's sections "SetForwardingPipelineConfig RPC" and "GetForwardingPipelineConfig
//! RPC".

use dataplane::{Program, SwitchConfig};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::forwarding_pipeline_config::Cookie;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, SetForwardingPipelineConfigRequest,
};
use prost::Message;
use testkit::text::assert_has;
use tonic::Code::{AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied};
use tonic::{Response, Status};

use crate::harness::{Controller, DEVICE_ID, Harness, JSON, config, frame, in_time, p4info};
use crate::registers::{cell, read_cell};
use crate::table_entries::{all, forward_entry};

async fn get(
    controller: &mut Controller,
    response_type: ResponseType,
) -> Option<ForwardingPipelineConfig> {
    let reply = try_get(controller, response_type).await;
    reply.unwrap().into_inner().config
}

async fn try_get(
    controller: &mut Controller,
    response_type: ResponseType,
) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
    let request = GetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        response_type: response_type as i32,
    };
    in_time(controller.client.get_forwarding_pipeline_config(request)).await
}

// spec: get-pipeline
#[tokio::test]
async fn before_there_is_a_pipeline_each_call_fails_as_pi_s() {
    let harness = Harness::without_pipeline(SwitchConfig::default()).await;
    let mut primary = harness.primary().await;
    let expect_refused = |refused: Status| {
        assert_eq!(refused.code(), FailedPrecondition);
        // p4-utils, finsy and others look for these words before they set a pipeline.
        let words = "No forwarding pipeline config set for this device";
        assert_eq!(refused.message(), words);
    };
    for response_type in [
        ResponseType::All,
        ResponseType::CookieOnly,
        ResponseType::P4infoAndCookie,
        ResponseType::DeviceConfigAndCookie,
    ] {
        expect_refused(try_get(&mut primary, response_type).await.unwrap_err());
    }
    expect_refused(primary.write(vec![]).await.unwrap_err());
    expect_refused(primary.read(all(0)).await.unwrap_err());
}

#[tokio::test]
async fn of_a_program_whose_p4info_nobody_sent_there_is_the_device_config_alone() {
    let harness = Harness::without_pipeline(SwitchConfig::default()).await;
    let mut primary = harness.primary().await;
    let device = harness.server.device();
    let program = Program::from_json_str(JSON).unwrap();
    let checked = device.check(program, ()).unwrap();
    let set = device.set_pipeline(checked.with_json(JSON.as_bytes()));
    set.await.unwrap();
    let device_config = get(&mut primary, ResponseType::DeviceConfigAndCookie).await;
    let expected = ForwardingPipelineConfig {
        p4_device_config: JSON.as_bytes().to_vec(),
        ..Default::default()
    };
    assert_eq!(device_config, Some(expected));
    let expect_refused = |refused: Status| {
        assert_eq!(refused.code(), FailedPrecondition);
        let message = refused.message();
        let words =
            "No forwarding pipeline config set for this device: its program came without P4Info";
        assert!(message.starts_with(words), "{message}");
    };
    for response_type in [
        ResponseType::All,
        ResponseType::CookieOnly,
        ResponseType::P4infoAndCookie,
    ] {
        expect_refused(try_get(&mut primary, response_type).await.unwrap_err());
    }
    expect_refused(primary.write(vec![]).await.unwrap_err());
    expect_refused(primary.read(all(0)).await.unwrap_err());

    // Then the controller sets a pipeline, as on a switch without a program.
    primary.commit(config()).await;
    assert_eq!(get(&mut primary, ResponseType::All).await, Some(config()));
}

// spec: get-pipeline
#[tokio::test]
async fn a_committed_config_is_read_back_whole_and_in_parts() {
    let harness = Harness::without_pipeline(SwitchConfig::default()).await;
    let mut primary = harness.primary().await;
    let config = ForwardingPipelineConfig {
        cookie: Some(Cookie { cookie: 0 }),
        ..config()
    };
    primary.commit(config.clone()).await;

    let whole = get(&mut primary, ResponseType::All).await.unwrap();
    assert_eq!(whole, config);
    let cookie = config.cookie;
    let expected = ForwardingPipelineConfig {
        cookie,
        ..Default::default()
    };
    let part = get(&mut primary, ResponseType::CookieOnly).await.unwrap();
    assert_eq!(part, expected);
    let part = get(&mut primary, ResponseType::P4infoAndCookie)
        .await
        .unwrap();
    assert_eq!(part.p4info, Some(p4info()));
    assert_eq!(part.p4_device_config.len(), 0);
    let part = get(&mut primary, ResponseType::DeviceConfigAndCookie)
        .await
        .unwrap();
    assert_eq!((part.p4info, part.p4_device_config), (None, JSON.into()));
    assert_eq!(part.cookie, cookie);
}

#[tokio::test]
async fn a_pipeline_that_the_switch_was_started_with_is_read_the_same_way() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    assert_eq!(get(&mut primary, ResponseType::All).await, Some(config()));
}

// spec: set-pipeline.verify
#[tokio::test]
async fn verify_changes_nothing_and_commit_clears_everything() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    primary.insert(forward_entry(0xa, 2)).await;
    primary
        .set_pipeline(Action::Verify, Some(config()))
        .await
        .unwrap();
    assert_eq!(primary.found(all(0)).await.len(), 3);
    primary.commit(config()).await;
    // Only the constant entries are left.
    assert_eq!(primary.found(all(0)).await.len(), 2);
}

// spec: set-pipeline.save
#[tokio::test]
async fn writes_to_a_saved_config_take_effect_on_commit() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    primary.insert(forward_entry(0xa, 2)).await;
    primary
        .set_pipeline(Action::VerifyAndSave, Some(config()))
        .await
        .unwrap();

    // Reads and writes refer to the new config, which has only the program's constant entries; frames are still processed
    // with the old config.
    primary.insert(forward_entry(0xa, 3)).await;
    let refused = primary.refused(Type::Insert, forward_entry(0xa, 3)).await;
    assert_eq!(refused, AlreadyExists);
    primary.modify(cell(5, &[9])).await;
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    assert_eq!(harness.switch.transmitted()[0].port.0, 2);

    primary.set_pipeline(Action::Commit, None).await.unwrap();
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    assert_eq!(harness.switch.transmitted()[0].port.0, 3);
    assert_eq!(read_cell(&mut primary, 5).await, [9]);

    let again = primary
        .set_pipeline(Action::Commit, None)
        .await
        .unwrap_err();
    assert_eq!(again.code(), NotFound);
}

// spec: set-pipeline.errors
#[tokio::test]
async fn actions_that_make_no_sense_are_refused() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    for (action, config, code) in [
        (Action::Unspecified, Some(config()), InvalidArgument),
        (Action::Verify, None, InvalidArgument),
        (Action::VerifyAndSave, None, InvalidArgument),
        (Action::VerifyAndCommit, None, InvalidArgument),
        (Action::Commit, Some(config()), InvalidArgument),
        (Action::Commit, None, NotFound),
        (Action::ReconcileAndCommit, None, InvalidArgument),
    ] {
        let refused = primary.set_pipeline(action, config).await.unwrap_err();
        assert_eq!(refused.code(), code, "{action:?}: {refused:?}");
    }
    let request = SetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        election_id: primary.election_id,
        action: 7,
        ..Default::default()
    };
    let set = primary.client.set_forwarding_pipeline_config(request);
    let refused = in_time(set).await.unwrap_err();
    assert!(refused.message().ends_with(", found 7"), "{refused:?}");
}

// spec: set-pipeline.errors
#[tokio::test]
async fn only_the_primary_of_the_right_device_sets_a_pipeline() {
    let harness = Harness::start().await;
    let _primary = harness.primary().await;
    let (mut backup, _) = harness.controller(0).await;
    let set = backup.set_pipeline(Action::VerifyAndCommit, Some(config()));
    assert_eq!(set.await.unwrap_err().code(), PermissionDenied);
    let request = GetForwardingPipelineConfigRequest {
        device_id: 99,
        ..Default::default()
    };
    let get = in_time(backup.client.get_forwarding_pipeline_config(request)).await;
    assert_eq!(get.unwrap_err().code(), NotFound);
}

/// A change that makes a good config invalid, and a part of the error message that the change causes.
type Spoiled = (fn(&mut P4Info, &mut String), &'static str);

// spec: pipeline.checked, pipeline.ids
#[tokio::test]
async fn p4info_and_device_config_must_fit_each_other() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let cases: &[Spoiled] = &[
        (|_, json| json.clear(), "expected a device config"),
        (|_, json| json.truncate(100), "not BMv2 JSON"),
        (
            |p4info, _| p4info.tables[0].preamble.as_mut().unwrap().name += "x",
            "table \"ingress.forwardx\": the device config has no such table",
        ),
        (
            |p4info, _| p4info.tables[0].match_fields[0].bitwidth = 47,
            "match field 1 is \"hdr.ethernet.dst\" (Exact, 47 bits), but in the device config it is \"hdr.ethernet.dst\" (Exact, 48 bits)",
        ),
        (
            |p4info, _| drop(p4info.tables[2].match_fields.pop()),
            "has 2 match fields",
        ),
        (
            |p4info, _| p4info.tables[3].is_const_table = false,
            "is_const_table",
        ),
        (
            |p4info, _| p4info.actions[0].params[0].bitwidth = 16,
            "action \"ingress.set_port\" has the parameter \"port\" (16 bits), but the parameter \"port\" (9 bits) in the device config",
        ),
        (
            |p4info, _| p4info.tables[1].action_refs[0].id = 16_777_221,
            "in the device config it has no action \"ingress.serve\"",
        ),
        (
            |p4info, _| p4info.registers[0].size = 5,
            "register \"ingress.slots\": has 5 cells, but 131072 in the device config",
        ),
        (
            |_, json| *json = json.replace("\"bitwidth\": 48}", "\"bitwidth\": 47}"),
            "register \"ingress.slots\": has cells of 48 bits, but of 47 bits in the device config",
        ),
        (
            |p4info, _| p4info.counters[0].size = 17,
            "counter \"ingress.copies\"",
        ),
        (
            |p4info, _| p4info.registers[1].preamble.as_mut().unwrap().id = 369_098_753,
            "another object has its id",
        ),
        (
            |p4info, _| p4info.counters[0].preamble.as_mut().unwrap().id = 0,
            "expected an id, found 0",
        ),
        (
            |p4info, _| p4info.controller_packet_metadata[0].metadata[1].bitwidth = 8,
            "its fields have 9, 8 bits, but the fields of header type \"packet_out_t\" in the device config have 9, 7",
        ),
        (
            |p4info, _| p4info.tables[1].direct_resource_ids.push(318_767_105),
            "has a direct counter, but none in the device config",
        ),
    ];
    for (spoil, message) in cases {
        let (mut p4info, mut json) = (p4info(), JSON.to_owned());
        spoil(&mut p4info, &mut json);
        let config = ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config: json.into(),
            cookie: None,
        };
        let set = primary.set_pipeline(Action::VerifyAndCommit, Some(config));
        let refused = set.await.unwrap_err();
        assert_eq!(refused.code(), InvalidArgument, "{refused:?}");
        assert_has(refused.message(), message);
    }
}

/// `p4.tmp.P4DeviceConfig` as p4runtime_lib, the tutorials' library, fills it in.
#[derive(Clone, PartialEq, Message)]
struct P4DeviceConfig {
    #[prost(bool, tag = "1")]
    reassign: bool,
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

async fn set_device_config(
    controller: &mut Controller,
    device_config: Vec<u8>,
) -> Result<(), Status> {
    let config = ForwardingPipelineConfig {
        p4_device_config: device_config,
        ..config()
    };
    let set = controller.set_pipeline(Action::VerifyAndCommit, Some(config));
    set.await
}

// spec: pipeline.device-config
#[tokio::test]
async fn a_program_may_come_in_the_message_that_older_controllers_send() {
    let harness = Harness::without_pipeline(SwitchConfig::default()).await;
    let mut primary = harness.primary().await;
    let wrapped = P4DeviceConfig {
        reassign: true,
        device_data: JSON.into(),
    };
    let wrapped = wrapped.encode_to_vec();
    set_device_config(&mut primary, wrapped.clone())
        .await
        .unwrap();
    // The config is read back as sent, and the program runs.
    let whole = get(&mut primary, ResponseType::All).await.unwrap();
    assert_eq!(whole.p4_device_config, wrapped);
    primary.insert(forward_entry(0xa, 2)).await;
    // White space may precede the JSON.
    set_device_config(&mut primary, format!("\n {JSON}").into())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_device_config_that_is_no_program_is_refused_with_what_it_is() {
    let harness = Harness::without_pipeline(SwitchConfig::default()).await;
    let mut primary = harness.primary().await;
    let wrapped = |device_data: &str| {
        let device_data = device_data.into();
        let message = P4DeviceConfig {
            reassign: true,
            device_data,
        };
        message.encode_to_vec()
    };
    let cases = [
        (vec![], "expected a device config (BMv2 JSON), found none"),
        (
            b"\x7fELF\x02\x01\x01\0\0".to_vec(),
            "found 9 bytes that begin with \"\\x7fELF\\x02\\x01\\x01\\x00\"",
        ),
        (b"[]".to_vec(), "found 2 bytes that begin with \"[]\""),
        (wrapped(""), "p4.tmp.P4DeviceConfig with it as device_data"),
        (b"{\"a\": }".to_vec(), "the device config is not BMv2 JSON"),
        (wrapped("{"), "the P4DeviceConfig's device_data is not BMv2"),
    ];
    for (device_config, message) in cases {
        let set = set_device_config(&mut primary, device_config.clone());
        let refused = set.await.unwrap_err();
        assert_eq!(refused.code(), InvalidArgument, "{refused:?}");
        let said = refused.message();
        assert!(said.contains(message), "{message}: {said}");
    }
}
