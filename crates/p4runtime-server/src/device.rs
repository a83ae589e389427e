//! The device behind the services: pipelines, order of requests, the way to the switch's thread.
//!
//! A call that changes something has these steps: it waits for its turn ([`Device::order`]); it is
//! checked; its work is submitted to every worker, in one go and while arbitration stands still; the work
//! runs; the answer goes back. A caller that gives up in the first step has changed nothing. From
//! the second on the call goes on without him and keeps its turn to its end ([`carried_out`]), so that
//! nobody reads, writes or sets a pipeline in its middle. Work names the pipeline that it was made for,
//! and is refused where another forwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use dataplane::{PortId, Switch, SwitchConfig};
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, Uint128, Update, WriteRequest};
use tokio::sync::{RwLock, Semaphore, oneshot, watch};
use tonic::{Code, Status};

use crate::arbitration::Arbitration;
use crate::batch::Batch;
use crate::bytes::{Bytes, BytesMax, Kind};
use crate::controller_data::ControllerData;
use crate::entity::{self, Operation, Site};
use crate::error::{EntityError, EntityResult, WriteError, stopped};
use crate::limits::{
    ANSWER_STALL_S, ANSWERS_BYTES_MAX, ANSWERS_BYTES_PER_CONNECTION_MAX, PACKET_OUTS_WAITING_MAX,
    REQUEST_BYTES_MAX, REQUEST_STALL_S, REQUESTS_BYTES_MAX, SAVED_UPDATES_MAX,
};
use crate::pipeline::{Pipeline, PipelineError};
use crate::switch_handle::{IdleTimeoutSender, PacketInSender, SwitchContext, SwitchHandle, Work};
use crate::workers::{Countdown, Registers, expect_one_for_all};

/// What is chosen when a server is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// P4Runtime's number of the switch; 0, which simple_switch_grpc has by default, is one as well.
    pub device_id: u64,
    /// Where packet-outs go in; none refuses them.
    pub cpu_port: Option<PortId>,
    /// What becomes of registers that packets write where there are several workers.
    pub registers: Registers,
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
    pub(crate) handle: Arc<dyn SwitchHandle>,
    pub(crate) arbitration: Mutex<Arbitration>,
    pub(crate) packet_in_drops: PacketInDrops,
    pub(crate) idle_timeout_drops: IdleTimeoutDrops,
    /// Places for packet-outs that wait for the switch.
    pub(crate) packet_outs: Arc<Semaphore>,
    /// Writes exclude reads, so that a read of many visits to the switch's thread sees no half
    /// of a write; frames pass in between.
    pub(crate) order: Arc<RwLock<()>>,
    /// Names of pipelines; none is used twice.
    generation: AtomicU64,
    committed: Mutex<Option<Arc<Target>>>,
    saved: Mutex<Option<Arc<Target>>>,
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

/// A pipeline and the state that reads and writes refer to.
pub(crate) struct Target {
    pub(crate) pipeline: Pipeline,
    /// The switch's name for its program.
    pub(crate) generation: u64,
    pub(crate) data: Mutex<ControllerData>,
    /// Some between `VERIFY_AND_SAVE` and `COMMIT`: writes and reads go to a switch of their own.
    shadow: Option<Mutex<Shadow>>,
}

/// What was asked of every worker.
pub(crate) struct Answers<R>(Vec<oneshot::Receiver<R>>);

impl<R> Answers<R> {
    /// What nobody had to be asked for.
    fn ready(answer: R) -> Self {
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(answer);
        Self(vec![receiver])
    }

    /// All of them, in the workers' order.
    pub(crate) async fn all(self) -> EntityResult<Vec<R>> {
        let mut answers = Vec::with_capacity(self.0.len());
        for answer in self.0 {
            answers.push(answer.await.map_err(|_| stopped())?);
        }
        Ok(answers)
    }
}

/// A switch that forwards nothing, and what was written to it.
struct Shadow {
    switch: Switch,
    written: Vec<Operation>,
}

impl Target {
    /// Where a worker carries out updates. What controllers store is the first worker's, which is
    /// read; the others' is not kept.
    fn with_site<R>(
        &self,
        worker: usize,
        switch: &mut Switch,
        work: impl FnOnce(&mut Site<'_>) -> R,
    ) -> R {
        if worker > 0 {
            let data = &mut ControllerData::default();
            return work(&mut Site {
                switch,
                data,
                worker,
            });
        }
        let data = &mut *lock(&self.data);
        work(&mut Site {
            switch,
            data,
            worker,
        })
    }

    /// Whether it waits for its COMMIT.
    pub(crate) fn is_saved(&self) -> bool {
        self.shadow.is_some()
    }

    fn new(pipeline: Pipeline, generation: u64) -> Self {
        Self {
            pipeline,
            generation,
            data: Mutex::default(),
            shadow: None,
        }
    }

    /// Carries out updates in the switch of the saved pipeline, this one, and keeps them for its COMMIT.
    fn write_saved(
        &self,
        shadow: &mut Shadow,
        operations: &[EntityResult<Operation>],
    ) -> Vec<EntityResult> {
        let Shadow { switch, written } = shadow;
        let mut one = |site: &mut Site<'_>, operation: &EntityResult<Operation>| {
            let operation = operation.as_ref().map_err(Clone::clone)?;
            if written.len() >= SAVED_UPDATES_MAX {
                return Err(EntityError::new(
                    Code::ResourceExhausted,
                    format!(
                        "{SAVED_UPDATES_MAX} updates wait for the saved pipeline's COMMIT already"
                    ),
                ));
            }
            operation.run(site)?;
            written.push(operation.clone());
            Ok(())
        };
        self.with_site(0, switch, |site| {
            let results = operations.iter().map(|operation| one(site, operation));
            results.collect()
        })
    }

    fn saved(pipeline: Pipeline, generation: u64) -> Self {
        let mut switch = Switch::new(SwitchConfig::default());
        switch.set_program(pipeline.program().clone());
        let written = Vec::new();
        Self {
            shadow: Some(Mutex::new(Shadow { switch, written })),
            ..Self::new(pipeline, generation)
        }
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
        handle: Arc<dyn SwitchHandle>,
    ) -> Self {
        Self {
            answers: Bytes::new(Kind::Answers, limits.answers),
            requests: Bytes::new(Kind::Requests, limits.requests),
            limits,
            arbitration: Mutex::new(Arbitration::new(config.device_id)),
            config,
            handle,
            packet_in_drops: PacketInDrops::default(),
            idle_timeout_drops: IdleTimeoutDrops::default(),
            packet_outs: Arc::new(Semaphore::new(PACKET_OUTS_WAITING_MAX)),
            order: Arc::default(),
            generation: AtomicU64::new(0),
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

    /// A checked pipeline that the workers can run as one switch.
    pub(crate) fn pipeline(
        &self,
        config: ForwardingPipelineConfig,
    ) -> Result<Pipeline, PipelineError> {
        let pipeline = Pipeline::new(config)?;
        let n_workers = self.handle.n_workers();
        expect_one_for_all(pipeline.program(), n_workers, self.config.registers)?;
        Ok(pipeline)
    }

    /// Runs work on every worker's thread, which is told its number. The answers never come if the
    /// switch stops.
    pub(crate) fn submit<R: Send + 'static>(
        &self,
        work: impl Fn(usize, &mut SwitchContext<'_>) -> R + Send + Sync + 'static,
    ) -> Answers<R> {
        let work = Arc::new(work);
        self.submit_steps(|worker| {
            let work = Arc::clone(&work);
            move |context: &mut SwitchContext<'_>| Some(work(worker, context))
        })
    }

    /// Runs work that takes long on every worker's thread: the steps that `begin` gives for a worker,
    /// until one has an answer. Frames may pass between two steps, and no other work.
    fn submit_steps<R, S>(&self, begin: impl Fn(usize) -> S) -> Answers<R>
    where
        R: Send + 'static,
        S: FnMut(&mut SwitchContext<'_>) -> Option<R> + Send + 'static,
    {
        let workers = 0..self.handle.n_workers();
        let answers = workers.map(|worker| {
            let (sender, receiver) = oneshot::channel();
            self.handle.submit(worker, steps(begin(worker), sender));
            receiver
        });
        Answers(answers.collect())
    }

    /// Does something when all work that was submitted before has run.
    pub(crate) fn after_work(&self, done: impl FnOnce() + Send + 'static) {
        let n_workers = self.handle.n_workers();
        let countdown = Countdown::new(n_workers, done);
        for worker in 0..n_workers {
            let countdown = Arc::clone(&countdown);
            let tell = move |_: &mut SwitchContext<'_>| countdown.tell();
            self.handle.submit(worker, Box::new(tell));
        }
    }

    /// Reads something from each of the target's switches: every worker's, or the one of a saved
    /// pipeline. `n_updates` is what it counts for in a worker's turn.
    pub(crate) async fn read<R: Send + 'static>(
        &self,
        target: &Target,
        n_updates: usize,
        work: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> EntityResult<Vec<R>> {
        let Some(shadow) = &target.shadow else {
            let generation = target.generation;
            let answers = self.submit(move |_, context| {
                expect_generation(context.switch, generation)?;
                context.n_updates += n_updates;
                Ok(work(context.switch))
            });
            return answers.all().await?.into_iter().collect();
        };
        Ok(vec![work(&lock(shadow).switch)])
    }

    /// Applies a batch; `election_id` is checked when the batch is handed over, if there is one to
    /// check. Every update is attempted, in order; a worker's frames may pass between two pieces
    /// ([`Batch`]), and one worker may be earlier than another.
    pub(crate) async fn write(
        self: &Arc<Self>,
        request: WriteRequest,
        election_id: Option<Option<Uint128>>,
    ) -> Result<(), WriteError> {
        let alone = Arc::clone(&self.order).write_owned().await;
        let device = Arc::clone(self);
        let written = carried_out(async move {
            let written = device.write_alone(&request, election_id).await;
            drop(alone);
            written
        });
        written.await.map_err(WriteError::Refused)?
    }

    async fn write_alone(
        &self,
        request: &WriteRequest,
        election_id: Option<Option<Uint128>>,
    ) -> Result<(), WriteError> {
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
        let operations = self.operations(&target, &request.updates).await;
        let operations: Arc<[_]> = operations.map_err(WriteError::Refused)?.into();
        let answers = {
            // Held while submitting: a new primary's writes come after this batch.
            let arbitration = lock(&self.arbitration);
            if let Some(election_id) = election_id {
                let denied = |status: Status| refused(status.code(), status.message());
                arbitration.expect_primary(election_id).map_err(denied)?;
            }
            match &target.shadow {
                None => self.submit_batch(&target, operations),
                Some(shadow) => {
                    let results = target.write_saved(&mut lock(shadow), &operations);
                    Answers::ready(Ok(results))
                }
            }
        };
        let of_workers = answers.all().await.map_err(WriteError::Refused)?;
        let of_workers: EntityResult<_> = of_workers.into_iter().collect();
        let results = of_workers.and_then(agreed).map_err(WriteError::Refused)?;
        if results.iter().any(Result::is_err) {
            return Err(WriteError::Updates(results));
        }
        Ok(())
    }

    /// Carries out updates on every worker's thread.
    fn submit_batch(
        &self,
        target: &Arc<Target>,
        operations: Arc<[EntityResult<Operation>]>,
    ) -> Answers<EntityResult<Vec<EntityResult>>> {
        self.submit_steps(|worker| {
            let target = Arc::clone(target);
            let mut batch = Batch::new(Arc::clone(&operations));
            move |context: &mut SwitchContext<'_>| {
                if let Err(error) = expect_generation(context.switch, target.generation) {
                    return Some(Err(error));
                }
                context.n_updates +=
                    target.with_site(worker, context.switch, |site| batch.go_on(site));
                batch.results().map(Ok)
            }
        })
    }

    fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Checks and translates the updates of a batch. Where there are too few numbers for new names,
    /// those that no entry has any more are forgotten first.
    async fn operations(
        &self,
        target: &Arc<Target>,
        updates: &[Update],
    ) -> EntityResult<Vec<EntityResult<Operation>>> {
        let pipeline = &target.pipeline;
        let translate = || -> Vec<_> {
            let updates = updates.iter();
            updates
                .map(|update| {
                    entity::expect_workers(pipeline, update, self.handle.n_workers())?;
                    let kind = update.entity.as_ref().and_then(|it| it.entity.as_ref());
                    entity::expect_forwarding(kind, target.is_saved())?;
                    entity::operation(pipeline, update)
                })
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
        let target_there = Arc::clone(target);
        let used = self.read(target, 0, move |switch| {
            entity::names_in_use(&target_there.pipeline, switch)
        });
        // Names are of entries, which are the same in every worker.
        if let Some(used) = used.await?.first() {
            pipeline.keep_names(used);
        }
        Ok(translate())
    }

    /// Makes a pipeline forward, in place of whatever there was, if `election_id` is the primary's or
    /// none is to be checked; all state is cleared.
    pub(crate) fn commit(
        self: &Arc<Self>,
        pipeline: Pipeline,
        election_id: Option<Option<Uint128>>,
    ) -> Result<Answers<()>, Status> {
        // Held while submitting: a new primary is told after the commit.
        let arbitration = lock(&self.arbitration);
        if let Some(election_id) = election_id {
            arbitration.expect_primary(election_id)?;
        }
        lock(&self.saved).take();
        let target = Arc::new(Target::new(pipeline, self.next_generation()));
        let device = Arc::clone(self);
        Ok(self.submit(move |worker, context| device.realize(worker, context, &target)))
    }

    /// Makes a pipeline the one that reads and writes refer to.
    pub(crate) fn save(
        &self,
        pipeline: Pipeline,
        election_id: Option<Uint128>,
    ) -> Result<(), Status> {
        let arbitration = lock(&self.arbitration);
        arbitration.expect_primary(election_id)?;
        let saved = Target::saved(pipeline, self.next_generation());
        *lock(&self.saved) = Some(Arc::new(saved));
        Ok(())
    }

    /// Makes the saved pipeline forward and writes to it again what was written since.
    pub(crate) fn commit_saved(
        self: &Arc<Self>,
        election_id: Option<Uint128>,
    ) -> Result<Answers<EntityResult>, Status> {
        let arbitration = lock(&self.arbitration);
        arbitration.expect_primary(election_id)?;
        let saved = lock(&self.saved).take();
        let saved = saved.ok_or_else(|| Status::not_found("no pipeline config is saved"))?;
        let config = saved.pipeline.config().clone();
        let pipeline = self.pipeline(config);
        let pipeline = pipeline.map_err(|error| Status::internal(error.to_string()))?;
        let written = match &saved.shadow {
            Some(shadow) => std::mem::take(&mut lock(shadow).written),
            None => Vec::new(),
        };
        pipeline.adopt_names(&saved.pipeline);
        let target = Arc::new(Target::new(pipeline, self.next_generation()));
        let written: Arc<[_]> = written.into_iter().map(Ok).collect();
        Ok(self.submit_steps(|worker| {
            let (device, target) = (Arc::clone(self), Arc::clone(&target));
            let mut batch = Batch::new(Arc::clone(&written));
            let mut is_realized = false;
            move |context: &mut SwitchContext<'_>| {
                if !std::mem::replace(&mut is_realized, true) {
                    device.realize(worker, context, &target);
                }
                context.n_updates +=
                    target.with_site(worker, context.switch, |site| batch.go_on(site));
                let results = batch.results()?;
                Some(results.into_iter().collect())
            }
        }))
    }

    /// On a worker's thread.
    fn realize(&self, worker: usize, context: &mut SwitchContext<'_>, target: &Arc<Target>) {
        let program = target.pipeline.program().clone();
        context.switch.set_program_as(program, target.generation);
        // Packet-outs, which are made as the pipeline says, go to the first.
        if worker == 0 {
            *lock(&self.committed) = Some(Arc::clone(target));
            target.pipeline.tell_set();
        }
    }
}

/// Work that runs step by step until one has the answer.
fn steps<R: Send + 'static>(
    mut step: impl FnMut(&mut SwitchContext<'_>) -> Option<R> + Send + 'static,
    sender: oneshot::Sender<R>,
) -> Work {
    Box::new(move |context| match step(context) {
        // Nobody waits any more: the call was cancelled, the work is done all the same.
        Some(answer) => drop(sender.send(answer)),
        None => context.rest = Some(steps(step, sender)),
    })
}

/// Carries a call out to its end, whatever becomes of the caller meanwhile.
///
/// # Errors
/// The server ends.
pub(crate) async fn carried_out<R: Send + 'static>(
    call: impl Future<Output = R> + Send + 'static,
) -> EntityResult<R> {
    match tokio::spawn(call).await {
        Ok(result) => Ok(result),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(stopped()),
    }
}

/// Work was made for one pipeline: its ids and widths say nothing of another's.
pub(crate) fn expect_generation(switch: &Switch, generation: u64) -> EntityResult {
    if switch.generation() == generation {
        return Ok(());
    }
    Err(EntityError::new(
        Code::Aborted,
        "nothing was done, since the forwarding pipeline was replaced meanwhile: look at the pipeline \
         config, and call again with what is meant for it",
    ))
}

/// What all workers say of a batch. What a write comes to depends on what was written before, which
/// is the same in all.
fn agreed(all: Vec<Vec<EntityResult>>) -> EntityResult<Vec<EntityResult>> {
    let mut all = all.into_iter();
    let first = all.next().ok_or_else(stopped)?;
    if all.any(|other| other != first) {
        let message = "the workers do not agree about the write: their state has gone apart";
        return Err(EntityError::new(Code::Internal, message));
    }
    Ok(first)
}
