//! The program `testdata/compiler/ok/every_entity.p4`: its P4Info, its ids, and frames for it.

use dataplane::{OwnedTransmit, SwitchConfig};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::action::Param;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType};
use p4runtime_proto::p4::v1::{
    Action, FieldMatch, ForwardingPipelineConfig, TableAction, TableEntry, table_action,
};
use p4runtime_proto::text_format;

use crate::harness::Harness;

pub const JSON: &str = include_str!("../../../../../testdata/compiler/ok/every_entity.json");
const P4INFO: &str = include_str!("../../../../../testdata/compiler/ok/every_entity.p4info.txtpb");

/// What the ingress does besides applying its tables depends on the frame's `kind`.
pub mod kinds {
    pub const PLAIN: u8 = 0;
    pub const SEEN: u8 = 1;
    pub const NOTED: u8 = 2;
    pub const METERED: u8 = 3;
    pub const TO_CPU: u8 = 0xff;
}

pub fn p4info() -> P4Info {
    text_format::parse_p4info(P4INFO).unwrap()
}

pub fn config() -> ForwardingPipelineConfig {
    config_of(p4info())
}

pub fn config_of(p4info: P4Info) -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(p4info),
        p4_device_config: JSON.into(),
        cookie: None,
    }
}

/// Starts a server whose switch runs the program.
pub async fn start() -> Harness {
    start_with(p4info()).await
}

pub async fn start_with(p4info: P4Info) -> Harness {
    let harness = Harness::without_pipeline(SwitchConfig::default()).await;
    harness.with_pipeline(p4info, JSON).await
}

/// Returns the id of the object that has this alias.
pub fn id(alias: &str) -> u32 {
    let p4info = p4info();
    let mut found = None;
    macro_rules! look {
        ($($list:ident)*) => {$(
            for preamble in p4info.$list.iter().filter_map(|it| it.preamble.as_ref()) {
                if preamble.alias == alias {
                    found = Some(preamble.id);
                }
            }
        )*};
    }
    look!(tables actions action_profiles counters meters value_sets registers digests);
    found.unwrap_or_else(|| panic!("no \"{alias}\" in the P4Info"))
}

/// Makes a frame with the program's header of marks, which has this `kind` and no marks yet.
pub fn frame(dst: u64, src: u64, ether_type: u16, kind: u8) -> Vec<u8> {
    let mut frame = crate::harness::frame(dst, src, ether_type);
    frame[14..18].copy_from_slice(&[0, 0, 0, kind]);
    frame
}

/// The marks that the program has put into an output frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Marks {
    pub port: u16,
    pub color: u8,
    pub trunk: u8,
    pub chosen: u8,
}

pub fn marks(sent: &OwnedTransmit) -> Marks {
    Marks {
        port: sent.port.0,
        color: sent.frame[14],
        trunk: sent.frame[15],
        chosen: sent.frame[16],
    }
}

/// Expects one output frame and returns its marks.
pub fn only(harness: &Harness) -> Marks {
    let sent = harness.switch.transmitted();
    let [sent] = &sent[..] else {
        panic!("expected one frame, found {}", sent.len())
    };
    marks(sent)
}

/// Sends a frame into a port and returns the marks of the only output frame.
pub fn pass(harness: &Harness, port: u16, frame: &[u8]) -> Marks {
    harness.switch.receive(port, frame);
    only(harness)
}

pub fn exact(field_id: u32, value: &[u8]) -> FieldMatch {
    let value = value.into();
    FieldMatch {
        field_id,
        field_match_type: Some(FieldMatchType::Exact(Exact { value })),
    }
}

pub fn call(action: &str, args: &[u8]) -> Action {
    let params = (1..).zip(args).map(|(param_id, value)| Param {
        param_id,
        value: vec![*value],
    });
    Action {
        action_id: id(action),
        params: params.collect(),
    }
}

pub fn action(kind: table_action::Type) -> Option<TableAction> {
    Some(TableAction { r#type: Some(kind) })
}

/// Makes an entry of a table whose key is one exact field.
pub fn entry(table: &str, key: u8, kind: table_action::Type) -> TableEntry {
    TableEntry {
        table_id: id(table),
        r#match: vec![exact(1, &[key])],
        action: action(kind),
        ..TableEntry::default()
    }
}
