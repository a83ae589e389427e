//! Exclusive access to the device: nobody else reads, writes or sets a pipeline until the call ends.
//!
//! Methods that submit work never wait. So a protocol can take a lock, check whether its client may write, and hold the
//! lock until the work is submitted. These methods return a value, such as [`Written`]. The access ends when the caller
//! has awaited this value's result, or drops it.

use std::sync::{Arc, Mutex};

use dataplane::{ControlError, ControlErrorKind, ProgramLoader, ReadyProgram, Switch};
use tokio::sync::OwnedRwLockWriteGuard;

use crate::batch::{Atomicity, Batch, Running};
use crate::changes::Changed;
use crate::device::{Answers, Device, expect_generation, lock};
use crate::error::{Error, OperationResult};
use crate::limits::{UPDATES_PER_PIECE, WAITS_BEFORE_EXCHANGE_MAX, WAITS_FOR_PACKETS_MAX};
use crate::operation::Operation;
use crate::pipeline::{Checked, Pipeline};
use crate::reading::Reading;
use crate::store::{Kept, Slot, beside, blocking};
use crate::switch_handle::SwitchContext;

/// Exclusive access of one caller; [`Device::exclusively`] passes it to the call that it runs.
pub struct Exclusive {
    device: Arc<Device>,
    _alone: OwnedRwLockWriteGuard<()>,
}

/// A batch that was submitted to every worker.
#[must_use = "exclusive access ends with it, and others may begin before the batch is carried out"]
pub struct Written {
    exclusive: Exclusive,
    pipeline: Arc<Pipeline>,
    batch: Arc<Batch>,
    answers: Answers<Result<Vec<OperationResult>, Error>>,
}

/// A pipeline that was submitted to every worker.
#[must_use = "exclusive access ends with it, and others may begin before the pipeline is set"]
pub struct Committed {
    exclusive: Exclusive,
    pipeline: Arc<Pipeline>,
    batch: Arc<Batch>,
    saved: Option<Arc<Pipeline>>,
    answers: Answers<(Vec<OperationResult>, Option<Replaced>)>,
}

/// A worker's old program and pipeline. Freeing them may take long, so another thread does it.
pub(crate) struct Replaced {
    pub(crate) _program: ReadyProgram,
    pub(crate) _pipeline: Option<Arc<Pipeline>>,
}

impl Exclusive {
    pub(crate) fn new(device: Arc<Device>, alone: OwnedRwLockWriteGuard<()>) -> Self {
        Self {
            device,
            _alone: alone,
        }
    }

    /// The device to which the caller has access.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Makes a `Reading`, with which the caller reads from a pipeline while the access lasts.
    pub fn reading(&self, pipeline: &Arc<Pipeline>) -> Reading {
        Reading::new(Arc::clone(&self.device), Arc::clone(pipeline), None)
    }

    /// Submits a batch that was made for this pipeline. The operations are executed in order. Frames may pass between
    /// two pieces of the batch, and workers may be at different pieces.
    pub fn write(self, pipeline: &Arc<Pipeline>, batch: Batch) -> Written {
        let batch = Arc::new(batch);
        let answers = match batch.expect_possible() {
            Err(error) => Answers::ready(Err(error)),
            Ok(()) if pipeline.is_saved() => Answers::ready(self.write_saved(pipeline, &batch)),
            Ok(()) => self.submit(pipeline, &batch),
        };
        Written {
            exclusive: self,
            pipeline: Arc::clone(pipeline),
            batch,
            answers,
        }
    }

    fn write_saved(
        &self,
        pipeline: &Arc<Pipeline>,
        batch: &Batch,
    ) -> Result<Vec<OperationResult>, Error> {
        let made_for = pipeline.generation();
        let found = self.device.pipeline()?.generation();
        let is_there = (found == made_for).then_some(pipeline);
        let results = is_there.and_then(|it| it.write_saved(batch, self.device.n_workers()));
        results.ok_or(Error::Replaced { made_for, found })
    }

    fn submit(
        &self,
        pipeline: &Arc<Pipeline>,
        batch: &Arc<Batch>,
    ) -> Answers<Result<Vec<OperationResult>, Error>> {
        let n_workers = self.device.n_workers();
        let gate = Gate::new(batch.atomicity);
        self.device.submit_steps(|worker| {
            let (pipeline, mut gate) = (Arc::clone(pipeline), gate.clone());
            let mut running = Running::new(Arc::clone(batch));
            move |context: &mut SwitchContext<'_>| {
                if let Err(error) = expect_generation(context.switch, pipeline.generation()) {
                    return Some(Err(error));
                }
                match gate.pass(context.switch) {
                    Ok(true) => {}
                    Ok(false) => {
                        context.n_updates += UPDATES_PER_PIECE;
                        return None;
                    }
                    Err(error) => return Some(Err(error)),
                }
                let worker = (worker, n_workers);
                context.n_updates +=
                    pipeline.with_state(worker, context.switch, |state| running.go_on(state));
                running.results().map(Ok)
            }
        })
    }

    /// Prepares a program so that it can forward, with the initial state that the program declares.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub async fn ready(&self, checked: Checked) -> Result<Ready, Error> {
        self.make_ready(checked, Vec::new).await
    }

    /// Like [`Exclusive::ready`], for a pipeline whose initial state includes the effects of these operations. The
    /// operations are first tried in a switch that forwards nothing.
    ///
    /// # Errors
    /// The error of the first operation that fails; [`Error::Stopped`].
    pub async fn ready_with(
        &self,
        checked: Checked,
        operations: Vec<Operation>,
    ) -> Result<Ready, Error> {
        let (n_workers, tried) = (self.device.n_workers(), checked.clone());
        let operations = beside(move || try_out(tried, operations, n_workers)).await??;
        self.make_ready(checked, || operations).await
    }

    /// Prepares the saved pipeline with everything written to it so far.
    ///
    /// # Errors
    /// `NotFound`: no pipeline is saved. [`Error::Stopped`].
    pub async fn ready_saved(&self) -> Result<Ready, Error> {
        let saved = lock(&self.device.saved).clone();
        let saved = saved.ok_or_else(|| {
            ControlError::new(ControlErrorKind::NotFound, "no pipeline config is saved")
        })?;
        let checked = saved.checked().clone();
        self.make_ready(checked, move || saved.written()).await
    }

    /// Puts into operation a pipeline that was prepared under this access. The new pipeline replaces the pipeline that
    /// forwards, and a saved pipeline is discarded.
    pub fn commit(self, ready: Ready) -> Committed {
        let Ready {
            pipeline,
            batch,
            workers,
        } = ready;
        let saved = lock(&self.device.saved).take();
        let mut workers = workers.into_iter();
        let n_workers = self.device.n_workers();
        let answers = self.device.submit_steps(|worker| {
            let (device, pipeline) = (Arc::clone(&self.device), Arc::clone(&pipeline));
            let (program, running) = workers.next().expect("one was made for each worker");
            let (mut program, mut running) = (Some(program), running);
            let (mut replaced, mut n_waits) = (None, 0);
            move |context: &mut SwitchContext<'_>| {
                if program.is_some() && !may_exchange(context.switch, &mut n_waits) {
                    context.n_updates += UPDATES_PER_PIECE;
                    return None;
                }
                if let Some(program) = program.take() {
                    replaced = Some(device.realize(worker, context, &pipeline, program));
                }
                let worker = (worker, n_workers);
                context.n_updates +=
                    pipeline.with_state(worker, context.switch, |state| running.go_on(state));
                Some((running.results()?, replaced.take()))
            }
        });
        Committed {
            exclusive: self,
            pipeline,
            batch,
            saved,
            answers,
        }
    }

    /// Saves a pipeline: from now on reads and writes refer to the saved pipeline, while the old pipeline goes on
    /// forwarding.
    pub fn save(self, checked: Checked) -> Saved {
        let saved = Arc::new(Pipeline::saved(checked, self.device.next_generation()));
        *lock(&self.device.saved) = Some(Arc::clone(&saved));
        Saved(self, saved)
    }

    /// Prepares a pipeline from a store, with the stored operations, except those that a new process must not repeat
    /// (writes to registers that packets write too).
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub async fn ready_again(
        &self,
        checked: Checked,
        operations: Vec<Operation>,
    ) -> Result<Ready, Error> {
        let n_kept = operations.len();
        let operations = operations.into_iter();
        let operations = operations.filter_map(|it| it.in_a_new_process(&checked.program));
        let operations: Vec<Operation> = operations.collect();
        let n_left_out = n_kept - operations.len();
        if n_left_out > 0 {
            tracing::warn!(
                event = "registers_begin_anew",
                writes = n_left_out,
                "{n_left_out} writes in the state file are not repeated, since packets write these registers too: the registers begin with the program's initial values"
            );
        }
        self.make_ready(checked, || operations).await
    }

    pub(crate) async fn keep(&self, kept: Kept) -> Result<(), Error> {
        let stored = blocking(self.device.store(), |store| store.keep(kept)).await;
        stored.map_err(|error| match error {
            Error::NotStored(why) => Error::NotStored(format!(
                "the switch has it, but a restart may lose it, since it is not stored: {why}"
            )),
            other => other,
        })
    }

    /// Compiles a program for every worker and executes the operations. The workers' programs are compiled one after
    /// the other, so that the compilation takes at most one processor away from the workers that forward.
    async fn make_ready(
        &self,
        checked: Checked,
        operations: impl FnOnce() -> Vec<Operation> + Send + 'static,
    ) -> Result<Ready, Error> {
        let loaders = self.device.submit(|_, context| context.switch.loader());
        let loaders = loaders.all().await?;
        let generation = self.device.next_generation();
        beside(move || Ready::new(&loaders, checked, generation, operations())).await
    }
}

/// A pipeline that is ready to forward: compiled for each worker, with its initial state. Neither packets nor clients
/// see it yet.
#[must_use = "it forwards when it is committed"]
pub struct Ready {
    pipeline: Arc<Pipeline>,
    batch: Arc<Batch>,
    /// For each worker its program and the batch's progress. The worker itself executes the remaining operations.
    workers: Vec<(ReadyProgram, Running)>,
}

impl Ready {
    fn new(
        loaders: &[ProgramLoader],
        checked: Checked,
        generation: u64,
        operations: Vec<Operation>,
    ) -> Self {
        let pipeline = Arc::new(Pipeline::new(checked, generation));
        let batch = Arc::new(Batch::new(operations));
        let workers = loaders.iter().enumerate().map(|(worker, loader)| {
            let mut program = loader.load(pipeline.program().clone());
            let mut running = Running::new(Arc::clone(&batch));
            let worker = (worker, loaders.len());
            pipeline.with_state(worker, program.switch_mut(), |state| {
                running.go_ahead(state)
            });
            (program, running)
        });
        Self {
            workers: workers.collect(),
            pipeline,
            batch,
        }
    }
}

/// Whether the worker may replace the program now. It may as soon as the offload has stopped and either the engine's
/// queues are empty or the worker has waited long enough for them to become empty.
fn may_exchange(switch: &mut Switch, n_waits: &mut usize) -> bool {
    if !switch.withdraw_offload() {
        return false;
    }
    *n_waits += 1;
    switch.is_engine_empty() || *n_waits > WAITS_BEFORE_EXCHANGE_MAX
}

/// Executes operations in a switch that forwards nothing, and returns them.
///
/// # Errors
/// The error of the first operation that fails.
fn try_out(
    checked: Checked,
    operations: Vec<Operation>,
    n_workers: usize,
) -> Result<Vec<Operation>, Error> {
    let trial = Pipeline::saved(checked, 0);
    let mut batch = Batch::new(operations);
    batch.atomicity = Atomicity::StopAtError;
    let results = trial.write_saved(&batch, n_workers).unwrap_or_default();
    results.into_iter().collect::<OperationResult>()?;
    Ok(batch.operations)
}

/// Lets every worker execute a batch at a moment when no packet in that worker is between two passes through ingress
/// and egress, or lets no worker execute the batch.
#[derive(Clone)]
struct Gate {
    /// `None` if the batch's atomicity is not `WholeForPackets`: then every worker executes the batch at once.
    state: Option<Arc<Mutex<Passing>>>,
    n_waits: usize,
}

/// The workers' common decision on a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    Undecided,
    /// One worker executes the batch, so all workers will.
    Passes,
    /// One worker waited too long before any worker executed the batch.
    Refused,
}

impl Gate {
    fn new(atomicity: Atomicity) -> Self {
        let waits = atomicity == Atomicity::WholeForPackets;
        Self {
            state: waits.then(|| Arc::new(Mutex::new(Passing::Undecided))),
            n_waits: 0,
        }
    }

    /// Whether the worker may execute the batch now; if false, the worker asks again in its next iteration.
    fn pass(&mut self, switch: &Switch) -> Result<bool, Error> {
        let Some(state) = &self.state else {
            return Ok(true);
        };
        let state = &mut *lock(state);
        if *state == Passing::Refused {
            return Err(packets_between());
        }
        if switch.is_between_packets() {
            *state = Passing::Passes;
            return Ok(true);
        }
        self.n_waits += 1;
        if *state == Passing::Undecided && self.n_waits > WAITS_FOR_PACKETS_MAX {
            *state = Passing::Refused;
            return Err(packets_between());
        }
        Ok(false)
    }
}

fn packets_between() -> Error {
    let message = "the batch waits for a moment without a packet between two passes, and there was none: \
                   rates hold packets in queues, or packets come faster than the switch processes them";
    ControlError::new(ControlErrorKind::Unimplemented, message).into()
}

/// A saved pipeline (one that waits for its commit) that the store does not have yet.
#[must_use = "exclusive access ends with it, and others may begin before the pipeline is stored"]
pub struct Saved(Exclusive, Arc<Pipeline>);

impl Saved {
    /// Waits until the pipeline is stored, returns it and ends the exclusive access.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub async fn done(self) -> Result<Arc<Pipeline>, Error> {
        let Self(exclusive, pipeline) = self;
        let none = (Arc::new(Batch::new(Vec::new())), Arc::default());
        let kept = Kept::Pipeline(Slot::Saved, pipeline.origin(), none.0, none.1);
        exclusive.keep(kept).await.map(|()| pipeline)
    }
}

impl Written {
    /// Waits until every worker has executed the batch, returns one result for each attempted operation, in order, and
    /// ends the exclusive access.
    ///
    /// # Errors
    /// [`Error::Replaced`], [`Error::Apart`], [`Error::Stopped`]; `NotStored` if the store fails.
    pub async fn results(self) -> Result<Vec<OperationResult>, Error> {
        let of_workers: Result<Vec<_>, _> = self.answers.all().await?.into_iter().collect();
        let mut of_workers = of_workers?.into_iter();
        // The result of a write depends only on earlier writes, which are the same in all workers. So the first
        // worker's results count.
        let results = of_workers.next().ok_or(Error::Stopped)?;
        let agree = of_workers.all(|others| others == results);
        let mut kept = Ok(());
        if results.iter().any(Result::is_ok) {
            let (batch, results) = (Arc::clone(&self.batch), results.as_slice().into());
            let (slot, origin) = (self.pipeline.slot(), self.pipeline.origin());
            let written = Kept::Written(slot, origin, batch, results);
            kept = self.exclusive.keep(written).await;
        }
        if !self.pipeline.is_saved() && results.iter().any(Result::is_ok) {
            let written = || Changed::Written(self.batch, results.as_slice().into());
            self.exclusive
                .device
                .changes
                .publish(&self.pipeline, written);
        }
        if agree {
            kept.map(|()| results)
        } else {
            Err(Error::Apart)
        }
    }
}

impl Committed {
    /// The new pipeline, which may not forward yet.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Waits until the pipeline forwards in every worker, returns it and ends the exclusive access.
    ///
    /// # Errors
    /// [`Error::Refused`]: the pipeline forwards, but an operation of its initial state was refused.
    /// [`Error::Stopped`]; `NotStored` if the store fails.
    pub async fn done(self) -> Result<Arc<Pipeline>, Error> {
        let answers = self.answers.all().await?;
        let (replayed, replaced): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
        let saved = self.saved;
        let freed = beside(move || drop((replaced, saved)));
        let of_first = replayed.first().map_or(&[][..], Vec::as_slice);
        let origin = self.pipeline.origin();
        let kept = Kept::Pipeline(Slot::Forwards, origin, self.batch, of_first.into());
        let kept = self.exclusive.keep(kept).await;
        let changes = &self.exclusive.device.changes;
        changes.publish(&self.pipeline, || Changed::Pipeline);
        // Waits under the exclusive access until the old programs are freed, so that at most two programs take memory.
        freed.await?;
        kept?;
        let replayed: OperationResult = replayed.into_iter().flatten().collect();
        replayed?;
        Ok(self.pipeline)
    }
}
