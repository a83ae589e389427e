//! The device as P4Runtime has it: who may write, what is for controllers, and pipelines with a P4Info.
//!
//! Pipelines, batches and the way to the switch are [`control`]'s, whose first page lists the steps of a call.
//! Work is handed over while arbitration stands still, so that a former primary's comes before its successor is told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use control::{Batch, Checked, Committed, IdleTimeoutSender, Operation, PacketInSender, Turn};
use dataplane::PortId;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, Uint128, Update, WriteRequest};
use tokio::sync::{Semaphore, watch};
use tonic::{Code, Status};

use crate::arbitration::Arbitration;
use crate::bytes::{Bytes, BytesMax, Kind};
use crate::entity;
use crate::error::{EntityError, EntityResult, WriteError};
use crate::limits::{
    ANSWER_STALL_S, ANSWERS_BYTES_MAX, ANSWERS_BYTES_PER_CONNECTION_MAX, PACKET_OUTS_WAITING_MAX,
    REQUEST_BYTES_MAX, REQUEST_STALL_S, REQUESTS_BYTES_MAX,
};
use crate::pipeline::{Pipeline, PipelineError};

/// What is chosen when a server is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// P4Runtime's number of the switch; 0, which simple_switch_grpc has by default, is one as well.
    pub device_id: u64,
    /// Where packet-outs go in; none refuses them.
    pub cpu_port: Option<PortId>,
}

/// What clients may take of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Requests that are being sent, or carried out.
    pub requests: BytesMax,
    /// How long nothing may come of a request that is not whole.
    pub request_stall: Duration,
    /// Answers to Reads that wait for whoever asked.
    pub answers: BytesMax,
    /// How long nothing may be taken of an answer.
    pub answer_stall: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            requests: BytesMax {
                of_all: REQUESTS_BYTES_MAX,
                of_connection: REQUEST_BYTES_MAX,
            },
            request_stall: Duration::from_secs(REQUEST_STALL_S),
            answers: BytesMax {
                of_all: ANSWERS_BYTES_MAX,
                of_connection: ANSWERS_BYTES_PER_CONNECTION_MAX,
            },
            answer_stall: Duration::from_secs(ANSWER_STALL_S),
        }
    }
}

/// What all services and streams share.
pub(crate) struct Device {
    pub(crate) config: ServerConfig,
    pub(crate) limits: ServerLimits,
    /// Room for answers to Reads.
    pub(crate) answers: Bytes,
    /// Room for requests.
    pub(crate) requests: Bytes,
    /// What it shares with other protocols.
    pub(crate) control: Arc<control::Device>,
    pub(crate) arbitration: Mutex<Arbitration>,
    pub(crate) packet_in_drops: PacketInDrops,
    pub(crate) idle_timeout_drops: IdleTimeoutDrops,
    /// Places for packet-outs that wait for the switch.
    pub(crate) packet_outs: Arc<Semaphore>,
    shutdown: watch::Sender<bool>,
}

/// Why packet-ins and notices of idle entries reached no controller; in the order of [`Device::controller_drops`].
pub const CONTROLLER_DROPS: [&str; 7] = [
    "idle_timeout_no_primary",
    "idle_timeout_queue_full",
    "idle_timeout_pipeline_changed",
    "packet_in_no_primary",
    "packet_in_stream_full",
    "packet_in_malformed",
    "packet_in_pipeline_changed",
];

/// Idle timeouts that reached no controller.
#[derive(Default)]
pub(crate) struct IdleTimeoutDrops {
    pub(crate) no_primary: Count,
    pub(crate) queue_full: Count,
    /// The way from the switch, of which some are lost too.
    pub(crate) from_switch: OnceLock<IdleTimeoutSender>,
    /// The pipeline that has the entry was replaced before it was told.
    pub(crate) pipeline_changed: Count,
}

impl IdleTimeoutDrops {
    /// Lost, since whoever was to take them did not keep up.
    pub(crate) fn queue_full(&self) -> u64 {
        let from_switch = self.from_switch.get().map_or(0, IdleTimeoutSender::n_lost);
        self.queue_full.get() + from_switch
    }
}

/// Packet-ins that reached no controller.
#[derive(Default)]
pub(crate) struct PacketInDrops {
    pub(crate) no_primary: Count,
    pub(crate) queue_full: Count,
    /// The way from the switch, of which some are lost too.
    pub(crate) from_switch: OnceLock<PacketInSender>,
    pub(crate) malformed: Count,
    /// The pipeline that had made it was replaced before it was told.
    pub(crate) pipeline_changed: Count,
}

impl PacketInDrops {
    /// Lost, since whoever was to take them did not keep up.
    pub(crate) fn queue_full(&self) -> u64 {
        let from_switch = self.from_switch.get().map_or(0, PacketInSender::n_lost);
        self.queue_full.get() + from_switch
    }
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

/// A pipeline that was set with a P4Info.
#[derive(Clone)]
pub(crate) struct Target {
    /// The P4Info, bound to the program.
    pub(crate) pipeline: Arc<Pipeline>,
    /// What the device knows it by.
    pub(crate) device: Arc<control::Pipeline>,
}

impl Target {
    /// None of a pipeline that another protocol has set.
    pub(crate) fn of(device: &Arc<control::Pipeline>) -> Option<Self> {
        let (pipeline, device) = (device.view()?, Arc::clone(device));
        Some(Self { pipeline, device })
    }
}

/// Locks for a short while; a panic elsewhere does not make the data wrong.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// What reached no controller, by reason.
    pub(crate) fn controller_drops(&self) -> [(&'static str, u64); CONTROLLER_DROPS.len()] {
        let (idle, packet_in) = (&self.idle_timeout_drops, &self.packet_in_drops);
        let counts = [
            idle.no_primary.get(),
            idle.queue_full(),
            idle.pipeline_changed.get(),
            packet_in.no_primary.get(),
            packet_in.queue_full(),
            packet_in.malformed.get(),
            packet_in.pipeline_changed.get(),
        ];
        std::array::from_fn(|place| (CONTROLLER_DROPS[place], counts[place]))
    }

    pub(crate) fn new(
        config: ServerConfig,
        limits: ServerLimits,
        control: Arc<control::Device>,
    ) -> Self {
        Self {
            answers: Bytes::new(Kind::Answers, limits.answers),
            requests: Bytes::new(Kind::Requests, limits.requests),
            limits,
            arbitration: Mutex::new(Arbitration::new(config.device_id)),
            config,
            control,
            packet_in_drops: PacketInDrops::default(),
            idle_timeout_drops: IdleTimeoutDrops::default(),
            packet_outs: Arc::new(Semaphore::new(PACKET_OUTS_WAITING_MAX)),
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
    pub(crate) fn committed(&self) -> Option<Target> {
        Target::of(&self.control.committed()?)
    }

    /// A checked pipeline that the workers can run as one switch.
    pub(crate) fn check(&self, config: ForwardingPipelineConfig) -> Result<Checked, PipelineError> {
        let pipeline = Pipeline::new(config, &self.control.payload_signatures())?;
        let checked = self.control.check(pipeline.program().clone(), pipeline);
        let checked = checked.map_err(|error| PipelineError(error.to_string()))?;
        Ok(match checked.view::<Pipeline>() {
            Some(origin) => checked.with_origin(origin),
            None => checked,
        })
    }

    /// Applies a batch; `election_id` is checked when the batch is handed over, if there is one to
    /// check. Every update is attempted, in order.
    pub(crate) async fn write(
        self: &Arc<Self>,
        request: WriteRequest,
        election_id: Option<Option<Uint128>>,
    ) -> Result<(), WriteError> {
        let device = Arc::clone(self);
        let call = |turn| async move { device.write_in_turn(turn, &request, election_id).await };
        self.control.in_turn(call).await.map_err(refused)?
    }

    async fn write_in_turn(
        &self,
        turn: Turn,
        request: &WriteRequest,
        election_id: Option<Option<Uint128>>,
    ) -> Result<(), WriteError> {
        let target = Target::of(&turn.device().pipeline().map_err(refused)?);
        let target = target.ok_or_else(|| refused(control::Error::NoPipeline))?;
        if request.atomicity != Atomicity::ContinueOnError as i32 {
            return Err(WriteError::Refused(EntityError::unimplemented(
                "only the atomicity CONTINUE_ON_ERROR is supported",
            )));
        }
        let operations = self.operations(&target, &request.updates).await;
        let (batch, wrong) = parted(operations.map_err(WriteError::Refused)?);
        let written = {
            // Held while submitting: a new primary's writes come after this batch.
            let arbitration = lock(&self.arbitration);
            if let Some(election_id) = election_id {
                let denied = |status: Status| EntityError::new(status.code(), status.message());
                let primary = arbitration.expect_primary(election_id).map_err(denied);
                primary.map_err(WriteError::Refused)?;
            }
            turn.write(&target.device, batch)
        };
        let results = written.results().await.map_err(refused)?;
        let mut results = results.into_iter();
        let results = wrong.into_iter().map(|wrong| match wrong {
            Some(error) => Err(error),
            None => Ok(results.next().expect("every one was attempted")?),
        });
        let results: Vec<EntityResult> = results.collect();
        match results.iter().any(Result::is_err) {
            true => Err(WriteError::Updates(results)),
            false => Ok(()),
        }
    }

    /// Checks and translates the updates of a batch. Where there are too few numbers for new names,
    /// those that no entry has any more are forgotten first.
    async fn operations(
        &self,
        target: &Target,
        updates: &[Update],
    ) -> EntityResult<Vec<EntityResult<Operation>>> {
        let pipeline = &target.pipeline;
        let translate = || -> Vec<_> {
            let updates = updates.iter();
            updates
                .map(|update| entity::operation(pipeline, update))
                .collect()
        };
        let operations = translate();
        let is_short = |operation: &EntityResult<Operation>| {
            let error = operation.as_ref().err();
            error.is_some_and(|error| error.code == Code::ResourceExhausted)
        };
        if !operations.iter().any(is_short) {
            return Ok(operations);
        }
        let there = Arc::clone(pipeline);
        let used = self.control.read(&target.device, 0, move |switch| {
            entity::names_in_use(&there, switch)
        });
        // Names are of entries, which are the same in every worker.
        if let Some(used) = used.await?.first() {
            pipeline.keep_names(used);
        }
        Ok(translate())
    }
}

/// Waits until a pipeline forwards, and tells the log.
pub(crate) async fn pipeline_set(committed: Committed) -> Result<(), control::Error> {
    let target = Target::of(committed.pipeline());
    let done = committed.done().await.map(drop);
    if done != Err(control::Error::Stopped)
        && let Some(target) = target
    {
        target.pipeline.tell_set();
    }
    done
}

/// What can be attempted; and of every update, in order, the error of what cannot.
fn parted(operations: Vec<EntityResult<Operation>>) -> (Batch, Vec<Option<EntityError>>) {
    let (mut sound, mut wrong) = (Vec::new(), Vec::with_capacity(operations.len()));
    for operation in operations {
        match operation {
            Ok(operation) => {
                sound.push(operation);
                wrong.push(None);
            }
            Err(error) => wrong.push(Some(error)),
        }
    }
    (Batch::new(sound), wrong)
}

fn refused(error: control::Error) -> WriteError {
    WriteError::Refused(error.into())
}
