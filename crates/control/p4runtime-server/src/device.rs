//! The device as P4Runtime sees it: who may write, the queues to controllers, and pipelines with a P4Info.
//!
//! The crate [`control`] owns pipelines, batches and the queue to the switch; its documentation lists the steps of a
//! call. A Write submits its batch under the arbitration lock, so that a former primary's batch runs before its
//! successor is notified.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use control::{
    Atomicity, Batch, Checked, Committed, DigestSender, Exclusive, IdleTimeoutSender, Operation,
    PacketInSender,
};
use dataplane::PortId;
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, Uint128, Update, WriteRequest};
use tokio::sync::{Notify, Semaphore, watch};
use tonic::{Code, Status};

use crate::arbitration::Arbitration;
use crate::bytes::{Bytes, BytesMax, Kind};
use crate::digests::DigestLists;
use crate::entity;
use crate::error::{EntityError, EntityResult, WriteError, no_p4info};
use crate::limits::{
    ANSWER_STALL_S, ANSWERS_BYTES_MAX, ANSWERS_BYTES_PER_CONNECTION_MAX, HANDSHAKE_S,
    PACKET_OUTS_WAITING_MAX, READ_ALONE_MS, REQUEST_BYTES_MAX, REQUEST_STALL_S, REQUESTS_BYTES_MAX,
};
use crate::pace::PerSecond;
use crate::pipeline::device_config::bmv2_json_text;
use crate::pipeline::{Pipeline, PipelineError};
use crate::roles::{Access, RoleName};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// P4Runtime's device id. 0 is valid too: it is the default of simple_switch_grpc.
    pub device_id: u64,
    /// The port that packet-outs enter. If the switch has no CPU port, packet-outs are refused.
    pub cpu_port: Option<PortId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    pub requests: BytesMax,
    /// The longest pause within a request.
    pub request_stall: Duration,
    pub answers: BytesMax,
    /// The longest time for which a client may take nothing of an answer.
    pub answer_stall: Duration,
    /// How long a Read of many entities blocks writes. After this time the Read lets writes in before it handles the
    /// next filter (an entity in its request).
    pub read_alone: Duration,
    pub handshake: Duration,
    /// The limit for the messages of one connection. Messages above the limit wait. `None` means no limit.
    pub rate: Option<PerSecond>,
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
            read_alone: Duration::from_millis(READ_ALONE_MS),
            handshake: Duration::from_secs(HANDSHAKE_S),
            rate: None,
        }
    }
}

pub(crate) struct Device {
    pub(crate) config: ServerConfig,
    /// The number of this process. Controllers see from a new number that the switch was restarted.
    pub(crate) instance: u64,
    pub(crate) limits: ServerLimits,
    pub(crate) answers: Bytes,
    pub(crate) requests: Bytes,
    /// The device as the crate [`control`] has it. Other protocols share it.
    pub(crate) control: Arc<control::Device>,
    pub(crate) arbitration: Mutex<Arbitration>,
    pub(crate) packet_in_drops: PacketInDrops,
    pub(crate) idle_timeout_drops: IdleTimeoutDrops,
    pub(crate) digest_drops: DigestDrops,
    pub(crate) digest_lists: Mutex<DigestLists>,
    /// Notified after a Write, which may have changed a digest's configuration.
    pub(crate) digests_changed: Notify,
    /// Bounds the number of packet-outs that wait for the switch: each takes a permit.
    pub(crate) packet_outs: Arc<Semaphore>,
    shutdown: watch::Sender<bool>,
}

/// The reasons why packet-ins, digests and idle timeouts reached no controller, in the order of
/// [`Device::controller_drops`].
pub const CONTROLLER_DROPS: [&str; 11] = [
    "digest_no_primary",
    "digest_queue_full",
    "digest_pipeline_changed",
    "digest_not_wanted",
    "idle_timeout_no_primary",
    "idle_timeout_queue_full",
    "idle_timeout_pipeline_changed",
    "packet_in_no_primary",
    "packet_in_stream_full",
    "packet_in_malformed",
    "packet_in_pipeline_changed",
];

#[derive(Default)]
pub(crate) struct DigestDrops {
    pub(crate) no_primary: Count,
    pub(crate) queue_full: Count,
    /// The queue from the switch, which drops events, too, when it is full.
    pub(crate) from_switch: OnceLock<DigestSender>,
    /// The pipeline that made the digest was replaced before the digest was sent.
    pub(crate) pipeline_changed: Count,
    /// No controller has configured this digest.
    pub(crate) not_wanted: Count,
}

impl DigestDrops {
    pub(crate) fn queue_full(&self) -> u64 {
        let from_switch = self.from_switch.get().map_or(0, DigestSender::n_lost);
        self.queue_full.get() + from_switch
    }
}

#[derive(Default)]
pub(crate) struct IdleTimeoutDrops {
    pub(crate) no_primary: Count,
    pub(crate) queue_full: Count,
    /// The queue from the switch, which drops events, too, when it is full.
    pub(crate) from_switch: OnceLock<IdleTimeoutSender>,
    /// The pipeline that has the entry was replaced before the notification was sent.
    pub(crate) pipeline_changed: Count,
}

impl IdleTimeoutDrops {
    pub(crate) fn queue_full(&self) -> u64 {
        let from_switch = self.from_switch.get().map_or(0, IdleTimeoutSender::n_lost);
        self.queue_full.get() + from_switch
    }
}

#[derive(Default)]
pub(crate) struct PacketInDrops {
    pub(crate) no_primary: Count,
    pub(crate) queue_full: Count,
    /// The queue from the switch, which drops events, too, when it is full.
    pub(crate) from_switch: OnceLock<PacketInSender>,
    pub(crate) malformed: Count,
    /// The pipeline that made the packet-in was replaced before the packet-in was sent.
    pub(crate) pipeline_changed: Count,
}

impl PacketInDrops {
    pub(crate) fn queue_full(&self) -> u64 {
        let from_switch = self.from_switch.get().map_or(0, PacketInSender::n_lost);
        self.queue_full.get() + from_switch
    }
}

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
    pub(crate) pipeline: Arc<Pipeline>,
    /// The same pipeline as the crate [`control`] has it.
    pub(crate) device: Arc<control::Pipeline>,
}

impl Target {
    /// Returns `None` if the pipeline was not set with a P4Info.
    pub(crate) fn of(device: &Arc<control::Pipeline>) -> Option<Self> {
        let (pipeline, device) = (device.view()?, Arc::clone(device));
        Some(Self { pipeline, device })
    }
}

/// Ignores poisoning: a panic elsewhere does not make the data wrong.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a random number other than 0, which no other process has.
fn instance() -> u64 {
    let random = getrandom::u64().expect("the kernel has random numbers once it has booted");
    random.max(1)
}

impl Device {
    pub(crate) fn controller_drops(&self) -> [(&'static str, u64); CONTROLLER_DROPS.len()] {
        let (idle, packet_in) = (&self.idle_timeout_drops, &self.packet_in_drops);
        let digest = &self.digest_drops;
        let counts = [
            digest.no_primary.get(),
            digest.queue_full(),
            digest.pipeline_changed.get(),
            digest.not_wanted.get(),
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
            instance: instance(),
            control,
            packet_in_drops: PacketInDrops::default(),
            idle_timeout_drops: IdleTimeoutDrops::default(),
            digest_drops: DigestDrops::default(),
            digest_lists: Mutex::default(),
            digests_changed: Notify::new(),
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

    pub(crate) fn committed(&self) -> Option<Target> {
        Target::of(&self.control.committed()?)
    }

    /// Checks a pipeline config, and checks that all workers together can run the program as if they were one switch.
    pub(crate) fn check(&self, config: ForwardingPipelineConfig) -> Result<Checked, PipelineError> {
        let text: Arc<[u8]> = bmv2_json_text(&config.p4_device_config)?.into();
        let pipeline = Pipeline::new(config, &self.control.payload_signatures())?;
        let checked = self.control.check(pipeline.program().clone(), pipeline);
        let checked = checked.map_err(|error| PipelineError(error.to_string()))?;
        let checked = checked.with_config(text);
        Ok(match checked.view::<Pipeline>() {
            Some(origin) => checked.with_origin(origin),
            None => checked,
        })
    }

    /// Applies a batch, in order. If there is a `caller`, checks its access again when the batch is submitted.
    pub(crate) async fn write(
        self: &Arc<Self>,
        request: WriteRequest,
        caller: Option<Writer>,
    ) -> Result<(), WriteError> {
        let device = Arc::clone(self);
        let call =
            |exclusive| async move { device.write_exclusively(exclusive, &request, caller).await };
        self.control.exclusively(call).await.map_err(refused)?
    }

    async fn write_exclusively(
        &self,
        exclusive: Exclusive,
        request: &WriteRequest,
        caller: Option<Writer>,
    ) -> Result<(), WriteError> {
        let target = Target::of(&exclusive.device().pipeline().map_err(refused)?);
        let target = target.ok_or_else(|| WriteError::Refused(no_p4info()))?;
        let atomicity = atomicity(request).map_err(WriteError::Refused)?;
        let access = self.access(caller.as_ref()).map_err(WriteError::Refused)?;
        let operations = self
            .operations(&target, access.as_deref(), &request.updates)
            .await;
        let operations = operations.map_err(WriteError::Refused)?;
        if atomicity.is_undivided() && operations.iter().any(Result::is_err) {
            return Err(WriteError::Updates(none_done(operations)));
        }
        let (batch, wrong) = parted(operations, atomicity);
        let written = {
            // The lock is held while the batch is submitted, so a new primary's writes come after this batch.
            let arbitration = lock(&self.arbitration);
            let now = access_of(&arbitration, caller.as_ref()).map_err(WriteError::Refused)?;
            if now != access {
                return Err(WriteError::Refused(role_changed()));
            }
            exclusive.write(&target.device, batch)
        };
        let results = written.results().await.map_err(refused)?;
        self.digests_changed.notify_one();
        let mut results = results.into_iter();
        let results = wrong.into_iter().map(|wrong| match wrong {
            Some(error) => Err(error),
            None => Ok(results.next().expect("every one was attempted")?),
        });
        let results: Vec<EntityResult> = results.collect();
        if results.iter().any(Result::is_err) {
            Err(WriteError::Updates(results))
        } else {
            Ok(())
        }
    }

    /// Returns what the caller's role may do, if the caller is the role's primary. Without a caller the result is
    /// `None`, and everything may be written.
    fn access(&self, caller: Option<&Writer>) -> EntityResult<Option<Arc<Access>>> {
        access_of(&lock(&self.arbitration), caller)
    }

    /// Checks and translates the updates of a batch. Names are strings that controllers write in place of numbers. If
    /// there are no numbers left for new names, the names that no entry uses any more are forgotten, and the batch is
    /// translated again.
    async fn operations(
        &self,
        target: &Target,
        access: Option<&Access>,
        updates: &[Update],
    ) -> EntityResult<Vec<EntityResult<Operation>>> {
        let pipeline = &target.pipeline;
        let translate = || -> Vec<_> {
            let updates = updates.iter();
            let operations = updates.map(|update| {
                access.map_or(Ok(()), |access| access.expect(pipeline, update))?;
                entity::operation(pipeline, update)
            });
            operations.collect()
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
        // Names belong to entries, which are the same in every worker.
        if let Some(used) = used.await?.first() {
            pipeline.keep_names(used);
        }
        Ok(translate())
    }
}

/// Waits until the pipeline forwards, and then logs that it does.
pub(crate) async fn pipeline_set(committed: Committed) -> Result<(), control::Error> {
    let target = Target::of(committed.pipeline());
    let done = committed.done().await.map(drop);
    if done != Err(control::Error::Stopped)
        && let Some(target) = target
    {
        target.pipeline.log_set();
    }
    done
}

/// Splits a batch. Returns the operations that can be attempted, and a list that has for each update, in order, the
/// error if the update cannot be attempted.
fn parted(
    operations: Vec<EntityResult<Operation>>,
    atomicity: Atomicity,
) -> (Batch, Vec<Option<EntityError>>) {
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
    let batch = Batch {
        operations: sound,
        atomicity,
    };
    (batch, wrong)
}

/// Makes the results of an atomic batch in which some updates cannot be attempted, so that no update is done.
fn none_done(operations: Vec<EntityResult<Operation>>) -> Vec<EntityResult> {
    let first = operations.iter().position(Result::is_err).unwrap_or(0) + 1;
    let aborted = || {
        let message = format!("not done, since update {first} of the batch was refused");
        EntityError::new(Code::Aborted, message)
    };
    let results = operations.into_iter();
    results
        .map(|result| Err(result.err().unwrap_or_else(aborted)))
        .collect()
}

fn atomicity(request: &WriteRequest) -> EntityResult<Atomicity> {
    match v1::write_request::Atomicity::try_from(request.atomicity) {
        Ok(v1::write_request::Atomicity::ContinueOnError) => Ok(Atomicity::ContinueOnError),
        Ok(v1::write_request::Atomicity::RollbackOnError) => Ok(Atomicity::Whole),
        Ok(v1::write_request::Atomicity::DataplaneAtomic) => Ok(Atomicity::WholeForPackets),
        Err(_) => Err(EntityError::invalid(format!(
            "expected an atomicity from 0 to 2, found {}",
            request.atomicity
        ))),
    }
}

/// The role and the election id in a request.
pub(crate) struct Writer {
    pub(crate) role: RoleName,
    pub(crate) election_id: Option<Uint128>,
}

fn access_of(
    arbitration: &Arbitration,
    caller: Option<&Writer>,
) -> EntityResult<Option<Arc<Access>>> {
    let Some(Writer { role, election_id }) = caller else {
        return Ok(None);
    };
    let access = arbitration.expect_primary(role, *election_id);
    let denied = |status: Status| EntityError::new(status.code(), status.message());
    access.map(Some).map_err(denied)
}

fn role_changed() -> EntityError {
    let message =
        "nothing was done, since the config of a role has changed meanwhile: send it again";
    EntityError::new(Code::Aborted, message)
}

fn refused(error: control::Error) -> WriteError {
    WriteError::Refused(error.into())
}
