//! The device behind the services: pipelines, order of requests, the way to the switch's thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dataplane::{PortId, Switch, SwitchConfig};
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{Uint128, WriteRequest};
use tokio::sync::{RwLock, oneshot, watch};
use tonic::{Code, Status};

use crate::arbitration::Arbitration;
use crate::controller_data::ControllerData;
use crate::entity::{self, Operation};
use crate::error::{EntityError, EntityResult, WriteError, stopped};
use crate::limits::SAVED_UPDATES_MAX;
use crate::pipeline::Pipeline;
use crate::switch_handle::{SwitchContext, SwitchHandle};

/// What is chosen when a server is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// P4Runtime's number of the switch; not 0.
    pub device_id: u64,
    /// Where packet-outs go in; none refuses them.
    pub cpu_port: Option<PortId>,
}

/// What all services and streams share.
pub(crate) struct Device {
    pub(crate) config: ServerConfig,
    pub(crate) handle: Arc<dyn SwitchHandle>,
    pub(crate) arbitration: Mutex<Arbitration>,
    pub(crate) packet_in_drops: PacketInDrops,
    /// Writes exclude reads, so that a read of many visits to the switch's thread sees no half
    /// of a write; frames pass in between.
    pub(crate) order: Arc<RwLock<()>>,
    committed: Mutex<Option<Arc<Target>>>,
    saved: Mutex<Option<Arc<Target>>>,
    shutdown: watch::Sender<bool>,
}

/// Packet-ins that reached no controller.
#[derive(Default)]
pub(crate) struct PacketInDrops {
    pub(crate) no_primary: Count,
    pub(crate) queue_full: Count,
    pub(crate) malformed: Count,
}

/// A count that many threads add to.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A pipeline and the state that reads and writes refer to.
pub(crate) struct Target {
    pub(crate) pipeline: Pipeline,
    pub(crate) data: Mutex<ControllerData>,
    /// Some between `VERIFY_AND_SAVE` and `COMMIT`: writes and reads go to a switch of their own.
    shadow: Option<Mutex<Shadow>>,
}

/// A switch that forwards nothing, and what was written to it.
struct Shadow {
    switch: Switch,
    written: Vec<Operation>,
}

impl Target {
    fn new(pipeline: Pipeline) -> Self {
        Self {
            pipeline,
            data: Mutex::default(),
            shadow: None,
        }
    }

    fn saved(pipeline: Pipeline) -> Self {
        let mut switch = Switch::new(SwitchConfig::default());
        switch.set_program(pipeline.program().clone());
        let written = Vec::new();
        Self {
            shadow: Some(Mutex::new(Shadow { switch, written })),
            ..Self::new(pipeline)
        }
    }
}

/// Locks for a short while; a panic elsewhere does not make the data wrong.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    pub(crate) fn new(config: ServerConfig, handle: Arc<dyn SwitchHandle>) -> Self {
        Self {
            arbitration: Mutex::new(Arbitration::new(config.device_id)),
            config,
            handle,
            packet_in_drops: PacketInDrops::default(),
            order: Arc::default(),
            committed: Mutex::default(),
            saved: Mutex::default(),
            shutdown: watch::Sender::new(false),
        }
    }

    /// Ends every stream and every waiting call.
    pub(crate) fn begin_shutdown(&self) {
        self.shutdown.send_replace(true);
    }

    pub(crate) async fn shutdown_begun(&self) {
        let mut shutdown = self.shutdown.subscribe();
        // The sender lives as long as this device, so waiting cannot fail.
        let _ = shutdown.wait_for(|begun| *begun).await;
    }

    /// The pipeline that forwards.
    pub(crate) fn committed(&self) -> Option<Arc<Target>> {
        lock(&self.committed).clone()
    }

    /// The pipeline that reads and writes refer to: the saved one, if there is one.
    pub(crate) fn target(&self) -> Option<Arc<Target>> {
        lock(&self.saved).clone().or_else(|| self.committed())
    }

    /// Runs work on the switch's thread. The answer never comes if the switch stops.
    pub(crate) fn submit<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SwitchContext<'_>) -> R + Send + 'static,
    ) -> oneshot::Receiver<R> {
        let (sender, receiver) = oneshot::channel();
        self.handle.submit(Box::new(move |context| {
            // Nobody waits any more: the call was cancelled, the work is done all the same.
            let _ = sender.send(work(context));
        }));
        receiver
    }

    /// Runs work on the target's switch, the real one or the one of a saved pipeline.
    fn submit_to<R: Send + 'static>(
        &self,
        target: &Target,
        work: impl FnOnce(&mut Switch, &mut Vec<Operation>) -> R + Send + 'static,
    ) -> oneshot::Receiver<R> {
        let Some(shadow) = &target.shadow else {
            return self.submit(|context| work(context.switch, &mut Vec::new()));
        };
        let (sender, receiver) = oneshot::channel();
        let mut shadow = lock(shadow);
        let Shadow { switch, written } = &mut *shadow;
        let _ = sender.send(work(switch, written));
        receiver
    }

    /// Reads something from the target's switch.
    pub(crate) async fn read<R: Send + 'static>(
        &self,
        target: &Target,
        work: impl FnOnce(&Switch) -> R + Send + 'static,
    ) -> EntityResult<R> {
        self.submit_to(target, |switch, _| work(switch))
            .await
            .map_err(|_| stopped())
    }

    /// Applies a batch; `election_id` is checked when the batch is handed over, if there is one to
    /// check. Every update is attempted, all of them between the same two passes of packets.
    pub(crate) async fn write(
        &self,
        request: &WriteRequest,
        election_id: Option<Option<Uint128>>,
    ) -> Result<(), WriteError> {
        let _no_reads = self.order.write().await;
        let refused = |code, message: &str| WriteError::Refused(EntityError::new(code, message));
        let target = self
            .target()
            .ok_or_else(|| refused(Code::FailedPrecondition, "no forwarding pipeline is set"))?;
        if request.atomicity != Atomicity::ContinueOnError as i32 {
            return Err(refused(
                Code::Unimplemented,
                "only the atomicity CONTINUE_ON_ERROR is supported",
            ));
        }
        let operations: Vec<_> = request
            .updates
            .iter()
            .map(|update| entity::operation(&target.pipeline, update))
            .collect();
        let target_there = Arc::clone(&target);
        let work = move |switch: &mut Switch, written: &mut Vec<Operation>| {
            apply(&target_there, operations, switch, written)
        };
        let results = {
            // Held while submitting: a new primary's writes come after this batch.
            let arbitration = lock(&self.arbitration);
            if let Some(election_id) = election_id {
                let denied = |status: Status| refused(status.code(), status.message());
                arbitration.expect_primary(election_id).map_err(denied)?;
            }
            self.submit_to(&target, work)
        };
        let results = results.await.map_err(|_| WriteError::Refused(stopped()))?;
        if results.iter().any(Result::is_err) {
            return Err(WriteError::Updates(results));
        }
        Ok(())
    }

    /// Makes a pipeline forward, in place of whatever there was; all state is cleared.
    pub(crate) fn commit(self: &Arc<Self>, pipeline: Pipeline) -> oneshot::Receiver<()> {
        lock(&self.saved).take();
        let device = Arc::clone(self);
        self.submit(move |context| {
            device.realize(context, Target::new(pipeline));
        })
    }

    /// Makes a pipeline the one that reads and writes refer to.
    pub(crate) fn save(&self, pipeline: Pipeline) {
        *lock(&self.saved) = Some(Arc::new(Target::saved(pipeline)));
    }

    /// Makes the saved pipeline forward and writes to it again what was written since.
    pub(crate) fn commit_saved(
        self: &Arc<Self>,
    ) -> Option<Result<oneshot::Receiver<EntityResult>, Status>> {
        let saved = lock(&self.saved).take()?;
        let config = saved.pipeline.config().clone();
        let pipeline = match Pipeline::new(config) {
            Ok(pipeline) => pipeline,
            Err(error) => return Some(Err(Status::internal(error.to_string()))),
        };
        let written = match &saved.shadow {
            Some(shadow) => std::mem::take(&mut lock(shadow).written),
            None => Vec::new(),
        };
        let device = Arc::clone(self);
        Some(Ok(self.submit(move |context| {
            let target = device.realize(context, Target::new(pipeline));
            let mut data = lock(&target.data);
            let mut writes = written.iter();
            writes.try_for_each(|operation| operation(context.switch, &mut data))
        })))
    }

    fn realize(&self, context: &mut SwitchContext<'_>, target: Target) -> Arc<Target> {
        context
            .switch
            .set_program(target.pipeline.program().clone());
        let target = Arc::new(target);
        *lock(&self.committed) = Some(Arc::clone(&target));
        target
    }
}

/// On the switch's thread. `written` is kept of a saved pipeline only.
fn apply(
    target: &Target,
    operations: Vec<EntityResult<Operation>>,
    switch: &mut Switch,
    written: &mut Vec<Operation>,
) -> Vec<EntityResult> {
    let mut data = lock(&target.data);
    let results = operations.into_iter().map(|operation| {
        let operation = operation?;
        if target.shadow.is_some() && written.len() >= SAVED_UPDATES_MAX {
            return Err(EntityError::new(
                Code::ResourceExhausted,
                format!("{SAVED_UPDATES_MAX} updates wait for the saved pipeline's COMMIT already"),
            ));
        }
        operation(switch, &mut data)?;
        if target.shadow.is_some() {
            written.push(operation);
        }
        Ok(())
    });
    results.collect()
}
