//! The bytes of a device config: BMv2 JSON, either plain or in the message that BMv2's older controllers send.
//!
//! Source: `p4/tmp/p4config.proto` of p4lang/PI. simple_switch_grpc accepts both forms.

use std::borrow::Cow;

use prost::Message;
use serde_json::Value;

use super::{PipelineError, PipelineResult};

/// How many bytes of an invalid device config an error message shows.
const SHOWN_BYTES: usize = 8;

/// `p4.tmp.P4DeviceConfig`, without the fields that control PI's connection to a separate forwarding process
/// (`reassign` = 1, `extras` = 2).
#[derive(Clone, PartialEq, Message)]
struct P4DeviceConfig {
    /// BMv2 JSON.
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

pub(super) fn bmv2_json(device_config: &[u8]) -> PipelineResult<bmv2_json::Program> {
    let what = if begins_like_json(device_config) {
        "the device config"
    } else {
        "the P4DeviceConfig's device_data"
    };
    bmv2_json::Program::from_json(&bmv2_json_text(device_config)?)
        .map_err(|error| PipelineError(format!("{what} is not BMv2 JSON: {error}")))
}

/// Whether two device configs are the same program. Source locations are ignored, so a program whose source file was
/// moved is the same program.
pub(super) fn are_same(one: &[u8], other: &[u8]) -> bool {
    match (without_source(one), without_source(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

fn without_source(device_config: &[u8]) -> Option<Value> {
    let program = bmv2_json(device_config).ok()?;
    let mut value = serde_json::to_value(program).ok()?;
    value.as_object_mut()?.remove("program");
    remove_places(&mut value);
    Some(value)
}

fn remove_places(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("source_info");
            members.values_mut().for_each(remove_places);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_places),
        _ => {}
    }
}

/// The BMv2 JSON in a device config.
pub(crate) fn bmv2_json_text(device_config: &[u8]) -> PipelineResult<Cow<'_, [u8]>> {
    if device_config.is_empty() {
        return Err(PipelineError(
            "expected a device config (BMv2 JSON), found none".into(),
        ));
    }
    // No `P4DeviceConfig` begins like JSON.
    if begins_like_json(device_config) {
        return Ok(Cow::Borrowed(device_config));
    }
    let message = P4DeviceConfig::decode(device_config).ok();
    let message = message.filter(|message| !message.device_data.is_empty());
    let message = message.ok_or_else(|| neither(device_config))?;
    Ok(Cow::Owned(message.device_data))
}

fn begins_like_json(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'{')
}

fn neither(device_config: &[u8]) -> PipelineError {
    let shown = device_config.get(..SHOWN_BYTES).unwrap_or(device_config);
    let n_bytes = device_config.len();
    PipelineError(format!(
        "expected a device config of BMv2 JSON (which begins with '{{'), or a p4.tmp.P4DeviceConfig \
         with it as device_data, found {n_bytes} bytes that begin with \"{}\": send the .json file \
         that the compiler wrote",
        shown.escape_ascii()
    ))
}
