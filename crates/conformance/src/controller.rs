//! The real controller and the real P4Runtime server around a switch that belongs to the caller: what
//! the controller writes is there when a call returns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conference::{backend::SfuProgram as Backend, model::Conference};
use dataplane::{Switch, SwitchConfig};
use p4runtime_proto::p4::v1::WriteRequest;
use p4runtime_server::{
    DrainWaiters, Registers, Server, ServerConfig, SwitchContext, SwitchHandle, Work,
};
use tokio::sync::mpsc::UnboundedSender;

use crate::sfu::SfuProgram;

pub(crate) const DEVICE_ID: u64 = 1;

/// The switch, lent to the server. Work runs at once, in the thread that hands it over; no packet
/// comes meanwhile.
pub(crate) struct Lent(pub(crate) Arc<Mutex<Switch>>);

impl SwitchHandle for Lent {
    fn submit(&self, _worker: usize, work: Work) {
        let mut switch = lock(&self.0);
        let mut waiters = DrainWaiters::default();
        work(&mut SwitchContext {
            switch: &mut switch,
            now: 0,
            ports: &[],
            drain_waiters: &mut waiters,
        });
        waiters.notify(&switch);
    }

    fn subscribe_packet_in(&self, _sender: UnboundedSender<Vec<u8>>) {}
}

fn lock(switch: &Mutex<Switch>) -> MutexGuard<'_, Switch> {
    switch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads one of the SFU programs into a switch and has the controller write a conference.
///
/// # Errors
/// What the conference, the controller or the switch refused.
pub fn set_up(
    switch: Switch,
    program: SfuProgram,
    fill: impl FnOnce(&mut Conference) -> Result<(), String>,
) -> Result<Switch, String> {
    let (p4info, json) = crate::compile::pipeline(&crate::compile::root().join(program.path()));
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
    let lent = Arc::new(Mutex::new(switch));
    let config = ServerConfig {
        device_id: DEVICE_ID,
        cpu_port: None,
        registers: Registers::OfTheSwitch,
    };
    let server = Server::new(config, Arc::new(Lent(Arc::clone(&lent))));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let set = server.set_pipeline(p4info, json).await;
        set.map_err(|error| error.to_string())?;
        let written = server.write(&request).await;
        written.map_err(|error| error.to_string())
    })?;
    // The server may still hold the handle; what is left to it is a switch that is never used.
    let rest = Switch::new(SwitchConfig::default());
    Ok(std::mem::replace(&mut *lock(&lent), rest))
}
