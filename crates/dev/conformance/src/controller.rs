//! Runs the real SFU controller and the real P4Runtime server on a switch that the caller provides. All writes of the
//! controller are complete when a function of this file returns.

use std::sync::Arc;

use conference::{backend::SfuProgram as Backend, model::Conference};
use control::{BorrowedSwitch, Device, Registers};
use dataplane::Switch;
use p4_compiler::P4Info;
use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, WriteRequest};
use p4runtime_server::{Server, ServerConfig, check_pipeline};

use crate::sfu::SfuProgram;

pub const DEVICE_ID: u64 = 1;

/// Makes a P4Runtime server for a switch that still belongs to the caller.
pub fn server(borrowed: &BorrowedSwitch) -> Server {
    server_of(device(borrowed))
}

pub fn device(borrowed: &BorrowedSwitch) -> Device {
    Device::new(Arc::new(borrowed.clone()), Registers::OfTheSwitch)
}

pub fn server_of(device: Device) -> Server {
    let config = ServerConfig {
        device_id: DEVICE_ID,
        cpu_port: None,
    };
    Server::new(config, Arc::new(device))
}

/// Returns why the server refuses to load a pipeline, or `None` if it loads the pipeline.
pub fn refusal(p4info: P4Info, json: String) -> Option<String> {
    let config = ForwardingPipelineConfig {
        p4info: Some(p4info),
        p4_device_config: json.into_bytes(),
        cookie: None,
    };
    let error = check_pipeline(config).err()?;
    Some(error.to_string())
}

/// Loads one of the SFU programs into a switch, and writes a conference as the controller does.
///
/// # Errors
/// The conference, the controller or the switch refuses a step.
pub fn set_up(
    switch: Switch,
    program: SfuProgram,
    fill: impl FnOnce(&mut Conference) -> Result<(), String>,
) -> Result<Switch, String> {
    let (p4info, json) =
        crate::compile::pipeline(&testkit::repository::root().join(program.path()));
    let backend = Backend::detect(&p4info).map_err(|error| error.to_string())?;
    let mut conference = Conference::new(backend.capabilities());
    fill(&mut conference)?;
    let plan = backend.plan(&backend.empty(), &conference);
    let plan = plan.map_err(|error| error.to_string())?;
    let request = WriteRequest {
        device_id: DEVICE_ID,
        updates: plan.into_updates_for_empty_switch(),
        ..WriteRequest::default()
    };
    let borrowed = BorrowedSwitch::new(switch);
    let server = server(&borrowed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let set = server.set_pipeline(p4info, json).await;
        set.map_err(|error| error.to_string())?;
        let written = server.write(&request).await;
        written.map_err(|error| error.to_string())
    })?;
    Ok(borrowed.take())
}
