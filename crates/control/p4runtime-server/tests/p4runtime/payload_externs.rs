//! Programs that call externs of the switch (docs/payload-externs.md).

use dataplane::SwitchConfig;
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::update::Type;
use serde_json::{Value, json};
use testkit::mask::Mask;
use tonic::Code;

use crate::harness::{Harness, JSON, config, frame};
use crate::table_entries::forward_entry;

const KEY: u8 = 0x2a;

/// The fixture's pipeline, whose egress masks every payload.
fn masking() -> ForwardingPipelineConfig {
    let mut program: Value = serde_json::from_str(JSON).unwrap();
    program["actions"].as_array_mut().unwrap().push(json!({
        "name": "egress.mask", "id": 99, "runtime_data": [], "primitives": [
            {"op": "mask_payload", "parameters": [{"type": "hexstr", "value": format!("{KEY:#x}")}]},
        ],
    }));
    let mut table = program["pipelines"][0]["tables"][0].clone();
    table["name"] = json!("egress.tbl_mask");
    table["id"] = json!(99);
    table["action_ids"] = json!([99]);
    table["actions"] = json!(["egress.mask"]);
    table["next_tables"] = json!({"egress.mask": null});
    table["base_default_next"] = json!(null);
    table["default_entry"]["action_id"] = json!(99);
    program["pipelines"][1]["tables"] = json!([table]);
    program["pipelines"][1]["init_table"] = json!("egress.tbl_mask");
    ForwardingPipelineConfig {
        p4_device_config: program.to_string().into(),
        ..config()
    }
}

#[tokio::test]
async fn a_switch_refuses_a_program_by_the_name_of_an_extern_that_it_lacks() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    for action in [
        Action::Verify,
        Action::VerifyAndSave,
        Action::VerifyAndCommit,
    ] {
        let refused = primary.set_pipeline(action, Some(masking())).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        for part in ["egress.mask", "\"mask_payload\"", "docs/payload-externs.md"] {
            assert!(refused.message().contains(part), "{refused}");
        }
    }
    // The current pipeline still works.
    let entry = forward_entry(1, 2);
    primary.insert(entry).await;
}

#[tokio::test]
async fn a_switch_that_was_built_with_the_extern_runs_the_program_however_it_is_set() {
    let saved = (Action::VerifyAndSave, Action::Commit);
    for (first, last) in [(Action::Verify, Action::VerifyAndCommit), saved] {
        let harness = Harness::without_pipeline(SwitchConfig::default()).await;
        harness.switch.in_switch(0, |switch| {
            let registered = switch.register_payload_extern("mask_payload", Box::new(Mask));
            registered.unwrap();
        });
        let mut primary = harness.primary().await;
        let set = primary.set_pipeline(first, Some(masking())).await;
        set.unwrap();
        let is_saved = last == Action::Commit;
        if is_saved {
            let entry = forward_entry(1, 2);
            primary.insert(entry).await;
        }
        let config = (!is_saved).then(masking);
        primary.set_pipeline(last, config).await.unwrap();
        let written = primary.write_one(Type::Insert, forward_entry(1, 2)).await;
        assert_eq!(
            written.is_err(),
            is_saved,
            "it is there already: {written:?}"
        );
        let frame = frame(1, 9, 0x0800);
        harness.switch.receive(1, &frame);
        let sent = harness.switch.transmitted().remove(0).frame;
        let (headers, payload) = sent.split_at(14);
        assert_eq!(headers, &frame[..14]);
        assert!(
            payload
                .iter()
                .zip(&frame[14..])
                .all(|(is, was)| *is == was ^ KEY),
            "{payload:?}"
        );
    }
}
