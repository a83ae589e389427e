//! Tests of `RECONCILE_AND_COMMIT`, from the P4Runtime specification's section "SetForwardingPipelineConfig RPC".

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, forwarding_pipeline_config::Cookie};
use testkit::text::assert_has;
use tonic::Code::{FailedPrecondition, InvalidArgument, PermissionDenied};

use crate::atomicity::{everything, state};
use crate::every_entity::{config, config_of, frame, id, kinds, p4info, pass, start};
use crate::harness;

// spec: set-pipeline.reconcile
#[tokio::test]
async fn the_state_goes_over_to_another_pipeline() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    primary.write(everything()).await.unwrap();
    pass(&harness, 0, &frame(9, 1, 0x800, kinds::PLAIN));
    let mut before = state(&mut primary).await;
    // The same program and ids with another cookie.
    let next = ForwardingPipelineConfig {
        cookie: Some(Cookie { cookie: 7 }),
        ..config()
    };
    primary
        .set_pipeline(Action::ReconcileAndCommit, Some(next))
        .await
        .unwrap();
    let mut after = state(&mut primary).await;
    // Meter counts and times of hits start anew.
    for entity in before.iter_mut().chain(&mut after) {
        match entity {
            Kind::TableEntry(entry) => {
                entry.meter_counter_data = None;
                entry.time_since_last_hit = None;
            }
            Kind::MeterEntry(entry) => entry.counter_data = None,
            _ => {}
        }
    }
    assert_eq!(after, before);
    assert_eq!(
        pass(&harness, 0, &frame(2, 1, 0x800, kinds::PLAIN)).chosen,
        2
    );
}

// spec: set-pipeline.reconcile-refused
#[tokio::test]
async fn a_pipeline_that_cannot_have_the_state_changes_nothing() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    primary.write(everything()).await.unwrap();
    let before = state(&mut primary).await;
    let mut without_table = p4info();
    without_table.tables.retain(|table| {
        let preamble = table.preamble.as_ref().unwrap();
        preamble.id != id("limited")
    });
    let refused = primary
        .set_pipeline(
            Action::ReconcileAndCommit,
            Some(config_of(without_table.clone())),
        )
        .await
        .unwrap_err();
    assert_eq!(refused.code(), InvalidArgument);
    assert_has(refused.message(), "cannot be preserved");
    let none = primary.set_pipeline(Action::ReconcileAndCommit, None).await;
    assert_eq!(none.unwrap_err().code(), InvalidArgument);
    let other = primary
        .set_pipeline(Action::ReconcileAndCommit, Some(harness::config()))
        .await;
    assert_eq!(other.unwrap_err().code(), InvalidArgument);
    assert_eq!(state(&mut primary).await, before);

    // The pipeline is accepted once the missing objects have no entries.
    for key in [1, 2] {
        let entry = crate::atomicity::limited(key, 10);
        primary.delete(entry).await;
    }
    let set = primary
        .set_pipeline(Action::ReconcileAndCommit, Some(config_of(without_table)))
        .await;
    set.unwrap();
    assert_eq!(
        pass(&harness, 0, &frame(2, 1, 0x800, kinds::PLAIN)).chosen,
        2
    );
}

/// Without a pipeline there is nothing to preserve. Only the primary may reconcile.
#[tokio::test]
async fn it_begins_where_there_is_none_and_only_for_the_primary() {
    let harness = harness::Harness::without_pipeline(Default::default()).await;
    let mut primary = harness.primary().await;
    let set = primary
        .set_pipeline(Action::ReconcileAndCommit, Some(config()))
        .await;
    set.unwrap();
    let (mut backup, _) = harness.controller(0).await;
    let set = backup
        .set_pipeline(Action::ReconcileAndCommit, Some(config()))
        .await;
    assert_eq!(set.unwrap_err().code(), PermissionDenied);
}

/// Returns the fixture's program with secret action arguments `port` and a secret register.
fn secret_json() -> String {
    let secret = |json: &str, before: &str| {
        assert!(json.contains(before));
        let with = before.replace('}', ", \"secret\": true}");
        json.replace(before, &with)
    };
    let json = secret(harness::JSON, r#"{"name": "port", "bitwidth": 9}"#);
    let slots = r#"{"name": "ingress.slots", "id": 0, "size": 131072, "bitwidth": 48}"#;
    secret(&json, slots)
}

fn config_with(json: &str) -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4_device_config: json.into(),
        ..harness::config()
    }
}

/// Returns cell 7 of the register `ingress.slots` and the arguments of every entry of `ingress.forward`, as the switch
/// holds them.
fn kept(harness: &harness::Harness) -> (Vec<u8>, Vec<Vec<Vec<u8>>>) {
    harness.switch.in_switch(0, |switch| {
        let program = switch.program().unwrap();
        let (slots, table) = (
            program.register("ingress.slots"),
            program.table("ingress.forward"),
        );
        let entries = switch.entries(table.unwrap());
        let args = entries.iter().filter_map(|entry| entry.action.call());
        let args = args.map(|call| call.args.clone()).collect();
        (switch.register_cell(slots.unwrap(), 7).unwrap(), args)
    })
}

/// Secrets are carried over unchanged, not as the zeros that readers see.
#[tokio::test]
async fn secrets_go_over_to_the_same_program_though_nobody_reads_them() {
    let json = secret_json();
    let harness = harness::Harness::without_pipeline(Default::default()).await;
    let mut primary = harness.primary().await;
    primary.commit(config_with(&json)).await;
    let forward = crate::table_entries::forward_entry(0xa, 2);
    primary.insert(forward).await;
    let cell = crate::registers::cell(7, &[9]);
    primary.modify(cell).await;
    assert_eq!(crate::registers::read_cell(&mut primary, 7).await, [0]);
    let before = kept(&harness);
    assert_eq!(before, (vec![9], vec![vec![vec![2]]]));
    // The program is the same if its source was moved or its JSON is formatted differently.
    let mut moved: serde_json::Value = serde_json::from_str(&json).unwrap();
    moved["program"] = "elsewhere/bridge.p4".into();
    moved["pipelines"][0]["tables"][0]["source_info"] = serde_json::json!({"filename": "elsewhere/bridge.p4", "line": 7, "column": 1, "source_fragment": "forward"});
    for json in [json.clone(), moved.to_string()] {
        let set = primary.set_pipeline(Action::ReconcileAndCommit, Some(config_with(&json)));
        set.await.unwrap();
        assert_eq!(kept(&harness), before);
    }
}

/// Secrets are not carried over to another program, since that program could reveal them even if it marks them secret.
/// They are not carried over to the same program with other ids either.
#[tokio::test]
async fn secrets_go_over_to_no_other_program() {
    let json = secret_json();
    let harness = harness::Harness::without_pipeline(Default::default()).await;
    let mut primary = harness.primary().await;
    primary.commit(config_with(&json)).await;
    let other = json.replace(r#""size": 131072"#, r#""size": 131071"#);
    assert_ne!(other, json);
    let mut other_ids = config_with(&json);
    let p4info = other_ids.p4info.as_mut().unwrap();
    let preamble = p4info.registers[0].preamble.as_mut().unwrap();
    preamble.id += 0x77;
    let programs = [
        config_with(harness::JSON),
        ForwardingPipelineConfig {
            p4info: {
                let mut p4info = harness::p4info();
                p4info.registers[0].size = 131_071;
                Some(p4info)
            },
            ..config_with(&other)
        },
        other_ids,
    ];
    let entry = || crate::table_entries::forward_entry(0xa, 2);
    let holders: [(&dyn Fn(bool) -> Kind, &str); 2] = [
        (&|_| entry(), r#"1 of table "ingress.forward""#),
        (
            &|is_there| crate::registers::cell(7, &[u8::from(is_there)]),
            r#"1 of register "ingress.slots""#,
        ),
    ];
    for (entity, named) in holders {
        let is_entry = named.contains("table");
        let make = if is_entry { Type::Insert } else { Type::Modify };
        primary.write_one(make, entity(true)).await.unwrap();
        let before = kept(&harness);
        for program in &programs {
            let set = primary.set_pipeline(Action::ReconcileAndCommit, Some(program.clone()));
            let refused = set.await.unwrap_err();
            assert_eq!(refused.code(), FailedPrecondition, "{refused:?}");
            assert!(refused.message().contains(named), "{refused:?}");
            assert_has(refused.message(), "VERIFY_AND_COMMIT");
            assert_eq!(kept(&harness), before);
        }
        let unmake = if is_entry { Type::Delete } else { Type::Modify };
        primary.write_one(unmake, entity(false)).await.unwrap();
    }
    // Without secrets, any program works.
    let set = primary.set_pipeline(Action::ReconcileAndCommit, Some(config_with(harness::JSON)));
    set.await.unwrap();
}
