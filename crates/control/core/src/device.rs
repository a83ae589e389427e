//! The device behind all protocols: its pipelines, and the access to the workers' threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dataplane::{PayloadSignature, PortId, Program, ReadyProgram, Switch};
use tokio::sync::{RwLock, oneshot};

use crate::batch::Batch;
use crate::changes::{Changes, Publisher};
use crate::counted::Counted;
use crate::error::{Error, OperationResult};
use crate::exclusive::{Exclusive, Replaced};
use crate::pipeline::{Checked, Pipeline, View};
use crate::ports::EnabledSince;
use crate::reading::Reading;
use crate::store::{Store, blocking};
use crate::switch_handle::{LinkSender, Subscriber, SwitchContext, SwitchHandle, Work};
use crate::workers::{Countdown, Registers, expect_one_for_all};

/// The state of a switch that the servers of all protocols share.
pub struct Device {
    handle: Arc<dyn SwitchHandle>,
    registers: Registers,
    /// A lock that a writer holds alone and readers share. A read may take several visits to the switch's thread,
    /// between which frames pass. The lock keeps such a read from seeing half a write.
    order: Arc<RwLock<()>>,
    /// The unique number of the pipeline that was made last.
    generation: AtomicU64,
    committed: Mutex<Option<Arc<Pipeline>>>,
    pub(crate) saved: Mutex<Option<Arc<Pipeline>>>,
    pub(crate) changes: Publisher,
    /// Ports that control calls have enabled or disabled. `links` notifies of these changes and of link changes.
    pub(crate) enabled: Mutex<BTreeMap<PortId, EnabledSince>>,
    pub(crate) links: LinkSender,
    store: OnceLock<Arc<dyn Store>>,
}

/// The answers of all workers to one request.
#[must_use = "what was asked is done all the same, but the answer is lost"]
pub struct Answers<R>(Vec<oneshot::Receiver<R>>);

impl<R> Answers<R> {
    /// Wraps an answer that is known without asking a worker.
    pub(crate) fn ready(answer: R) -> Self {
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(answer);
        Self(vec![receiver])
    }

    /// Waits for all answers, in the order of the workers.
    ///
    /// # Errors
    /// The switch has stopped.
    pub async fn all(self) -> Result<Vec<R>, Error> {
        let mut answers = Vec::with_capacity(self.0.len());
        for answer in self.0 {
            answers.push(answer.await.map_err(|_| Error::Stopped)?);
        }
        Ok(answers)
    }
}

/// Locks a mutex, even a poisoned one: a panic in another thread leaves the data valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// Makes a device without a pipeline.
    pub fn new(handle: Arc<dyn SwitchHandle>, registers: Registers) -> Self {
        let links = LinkSender::default();
        handle.subscribe(Subscriber::Links(links.clone()));
        Self {
            handle,
            registers,
            order: Arc::default(),
            generation: AtomicU64::new(0),
            committed: Mutex::default(),
            saved: Mutex::default(),
            changes: Publisher::default(),
            enabled: Mutex::default(),
            links,
            store: OnceLock::new(),
        }
    }

    /// From now on, stores the result of each call before the call is answered. A second call of this method has no
    /// effect.
    pub fn keep_in(&self, store: Arc<dyn Store>) {
        // A second store would lack the earlier changes.
        let _ = self.store.set(store);
    }

    pub(crate) fn store(&self) -> Option<Arc<dyn Store>> {
        self.store.get().cloned()
    }

    /// Number of workers; constant for the life of the device.
    pub fn n_workers(&self) -> usize {
        self.handle.n_workers()
    }

    /// The pipeline that forwards in the first worker.
    pub fn committed(&self) -> Option<Arc<Pipeline>> {
        lock(&self.committed).clone()
    }

    /// The pipeline to which reads and writes refer: the saved pipeline if there is one, otherwise the pipeline that
    /// forwards.
    ///
    /// # Errors
    /// [`Error::NoPipeline`].
    pub fn pipeline(&self) -> Result<Arc<Pipeline>, Error> {
        let saved = lock(&self.saved).clone();
        saved.or_else(|| self.committed()).ok_or(Error::NoPipeline)
    }

    /// The externs that programs of this switch may call. [`Program::from_json_with`] loads a program with them.
    pub fn payload_signatures(&self) -> Vec<PayloadSignature> {
        self.handle.payload_signatures()
    }

    /// Checks that all workers together can run a program as if they were one switch. Returns the program together with
    /// `view`, the protocol's data.
    ///
    /// # Errors
    /// `FailedPrecondition`: what a packet reads would depend on the worker that processes it.
    pub fn check<V: Send + Sync + 'static>(
        &self,
        program: Program,
        view: V,
    ) -> Result<Checked, Error> {
        expect_one_for_all(&program, self.n_workers(), self.registers)?;
        let view: View = Arc::new(view);
        Ok(Checked::new(program, view))
    }

    /// Waits for exclusive access, and then runs a call as a task of the caller's Tokio runtime. While the call runs,
    /// nobody else reads, writes or sets a pipeline. If the caller drops the future while it waits for access, nothing
    /// happens. Once the call runs, it runs to its end, even if the caller drops the future.
    ///
    /// # Errors
    /// [`Error::Stopped`]: the runtime ends. [`Error::NotStored`]: the store could not store the changes of earlier
    /// calls.
    pub async fn exclusively<R, F>(
        self: &Arc<Self>,
        call: impl FnOnce(Exclusive) -> F,
    ) -> Result<R, Error>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let alone = Arc::clone(&self.order).write_owned().await;
        let exclusive = Exclusive::new(Arc::clone(self), alone);
        let caught_up = blocking(self.store(), |store| store.catch_up()).await;
        caught_up.map_err(nothing_done)?;
        carried_out(call(exclusive)).await
    }

    /// Whether the store contains the changes of all calls that were answered with success; `None` if the device has no
    /// store.
    pub fn is_stored(&self) -> Option<bool> {
        self.store().map(|store| store.is_current())
    }

    /// Writes a batch that was made for a pipeline; returns one result for each attempted operation, in order.
    ///
    /// # Errors
    /// [`Error::Replaced`], [`Error::Apart`], [`Error::Stopped`]; `NotStored` if the store fails.
    pub async fn write(
        self: &Arc<Self>,
        pipeline: Arc<Pipeline>,
        batch: Batch,
    ) -> Result<Vec<OperationResult>, Error> {
        let call =
            |exclusive: Exclusive| async move { exclusive.write(&pipeline, batch).results().await };
        self.exclusively(call).await?
    }

    /// Puts a program into operation in every worker. It replaces the old program, and all state is cleared.
    ///
    /// # Errors
    /// [`Error::Stopped`]; `NotStored` if the store fails.
    pub async fn set_pipeline(self: &Arc<Self>, checked: Checked) -> Result<Arc<Pipeline>, Error> {
        let call = |exclusive: Exclusive| async move {
            let ready = exclusive.ready(checked).await?;
            exclusive.commit(ready).done().await
        };
        self.exclusively(call).await?
    }

    /// Waits until nobody writes, and returns a reading that keeps writers out until it is dropped.
    ///
    /// # Errors
    /// [`Error::NoPipeline`].
    pub async fn reading(self: &Arc<Self>) -> Result<Reading, Error> {
        let no_writes = Arc::clone(&self.order).read_owned().await;
        let pipeline = self.pipeline()?;
        Ok(Reading::new(Arc::clone(self), pipeline, Some(no_writes)))
    }

    pub(crate) fn order(&self) -> Arc<RwLock<()>> {
        Arc::clone(&self.order)
    }

    /// Subscribes to every change from now on.
    pub fn changes(&self) -> Changes {
        self.changes.follow()
    }

    /// Reads from every worker's switch, or from a saved pipeline's only switch, without exclusive access. The counters
    /// include the offload's counts. `n_updates` is the cost of `work` in updates. It counts against the limit of
    /// updates that an event-loop iteration executes.
    ///
    /// # Errors
    /// [`Error::Replaced`], [`Error::Stopped`].
    pub async fn read<R: Send + 'static>(
        &self,
        pipeline: &Pipeline,
        n_updates: usize,
        work: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, Error> {
        if pipeline.is_saved() {
            return Ok(Vec::from_iter(pipeline.read_saved(work)));
        }
        let generation = pipeline.generation();
        let answers = self.submit(move |_, context| {
            expect_generation(context.switch, generation)?;
            context.n_updates += n_updates;
            context.switch.collect();
            Ok(work(context.switch))
        });
        answers.all().await?.into_iter().collect()
    }

    /// Returns all counters, summed over all workers. Each worker is read at one moment, but two workers may be read at
    /// different moments.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub async fn counted(&self) -> Result<Counted, Error> {
        let answers = self.submit(|_, context| Counted::of(context));
        Counted::sum(answers.all().await?).ok_or(Error::Stopped)
    }

    /// Waits until every packet that is inside the switch now has left. The caller may drop the future at any time.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub async fn drain(&self) -> Result<(), Error> {
        let waiting = self.submit(|_, context| {
            let (done, drained) = oneshot::channel();
            let token = context.switch.begin_drain();
            context.drain_waiters.push(token, done);
            drained
        });
        for worker in waiting.all().await? {
            worker.await.map_err(|_| Error::Stopped)?;
        }
        Ok(())
    }

    /// Lets the switch receive a frame of the control plane at `port`, in order with all other work. Calls `done` on
    /// the first worker's thread, or drops `done` if the switch has stopped. `done` gets [`Error::Replaced`] if the
    /// frame was made for another pipeline.
    pub fn packet_out(
        &self,
        pipeline: &Pipeline,
        port: PortId,
        frame: Vec<u8>,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let generation = pipeline.generation();
        let work = move |context: &mut SwitchContext<'_>| {
            let is_there = expect_generation(context.switch, generation);
            if is_there.is_ok() {
                context.switch.handle_frame(context.now, port, &frame);
            }
            done(is_there);
        };
        // All packet-outs go to one worker, so that they stay in order.
        self.handle.submit(0, Box::new(work));
    }

    /// Registers a channel for events of the switches.
    pub fn subscribe(&self, subscriber: Subscriber) {
        self.handle.subscribe(subscriber);
    }

    /// Runs `work` on every worker's thread, with the worker's number, without exclusive access. `work` must not change
    /// the state of a pipeline, because its changes would not be published. If the switch stops, there are no answers.
    pub fn submit<R: Send + 'static>(
        &self,
        work: impl Fn(usize, &mut SwitchContext<'_>) -> R + Send + Sync + 'static,
    ) -> Answers<R> {
        let work = Arc::new(work);
        self.submit_steps(|worker| {
            let work = Arc::clone(&work);
            move |context: &mut SwitchContext<'_>| Some(work(worker, context))
        })
    }

    /// Runs long work on every worker's thread, in steps. `begin` makes a worker's step, which the worker repeats until
    /// the step returns an answer. Between two steps frames may pass, but no other work runs. An offload applies all
    /// changes of a step together.
    pub(crate) fn submit_steps<R, S>(&self, mut begin: impl FnMut(usize) -> S) -> Answers<R>
    where
        R: Send + 'static,
        S: FnMut(&mut SwitchContext<'_>) -> Option<R> + Send + 'static,
    {
        let workers = 0..self.n_workers();
        let answers = workers.map(|worker| {
            let (sender, receiver) = oneshot::channel();
            self.handle.submit(worker, steps(begin(worker), sender));
            receiver
        });
        Answers(answers.collect())
    }

    /// Calls `done` when every worker has run all work that was submitted before this call.
    pub fn after_work(&self, done: impl FnOnce() + Send + 'static) {
        let n_workers = self.n_workers();
        let countdown = Countdown::new(n_workers, done);
        for worker in 0..n_workers {
            let countdown = Arc::clone(&countdown);
            let report = move |_: &mut SwitchContext<'_>| countdown.count_down();
            self.handle.submit(worker, Box::new(report));
        }
    }

    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Runs on a worker's thread: puts the new program into operation and returns the old program.
    pub(crate) fn realize(
        &self,
        worker: usize,
        context: &mut SwitchContext<'_>,
        pipeline: &Arc<Pipeline>,
        mut program: ReadyProgram,
    ) -> Replaced {
        let generation = pipeline.generation();
        context.switch.set_ready_program(&mut program, generation);
        // The first worker sets the committed pipeline: packet-outs go to this worker and are built for that pipeline.
        let before = match worker {
            0 => lock(&self.committed).replace(Arc::clone(pipeline)),
            _ => None,
        };
        Replaced {
            _program: program,
            _pipeline: before,
        }
    }
}

/// Returns work that repeats `step` until it returns an answer.
fn steps<R: Send + 'static>(
    mut step: impl FnMut(&mut SwitchContext<'_>) -> Option<R> + Send + 'static,
    sender: oneshot::Sender<R>,
) -> Work {
    Box::new(move |context| {
        context.switch.begin_batch();
        let answer = step(context);
        context.switch.end_batch();
        match answer {
            // The receiver is gone if the caller gave up. The work was done even so.
            Some(answer) => drop(sender.send(answer)),
            None => context.rest = Some(steps(step, sender)),
        }
    })
}

/// Runs a call to its end, even if the caller gives up.
async fn carried_out<R: Send + 'static>(
    call: impl Future<Output = R> + Send + 'static,
) -> Result<R, Error> {
    match tokio::spawn(call).await {
        Ok(result) => Ok(result),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(Error::Stopped),
    }
}

fn nothing_done(error: Error) -> Error {
    match error {
        Error::NotStored(why) => Error::NotStored(format!(
            "nothing was done, since an earlier change is not stored yet: {why}"
        )),
        other => other,
    }
}

/// Refuses work that was made for another pipeline than the switch has, since ids and widths may differ.
pub(crate) fn expect_generation(switch: &Switch, made_for: u64) -> Result<(), Error> {
    match switch.generation() {
        found if found == made_for => Ok(()),
        found => Err(Error::Replaced { made_for, found }),
    }
}
