//! The device behind all protocols: its pipelines, and the way to the threads of its workers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dataplane::{PayloadSignature, PortId, Program, ReadyProgram, Switch};
use tokio::sync::{RwLock, oneshot};

use crate::batch::Batch;
use crate::changes::{Changes, Teller};
use crate::counted::Counted;
use crate::error::{Error, OperationResult};
use crate::pipeline::{Checked, Pipeline, View};
use crate::ports::EnabledSince;
use crate::reading::Reading;
use crate::store::{Store, blocking};
use crate::switch_handle::{LinkSender, Subscriber, SwitchContext, SwitchHandle, Work};
use crate::turn::{Replaced, Turn};
use crate::workers::{Countdown, Registers, expect_one_for_all};

/// What every protocol of a switch shares.
pub struct Device {
    handle: Arc<dyn SwitchHandle>,
    registers: Registers,
    /// Writes exclude reads, so that a read of many visits to the switch's thread sees no half
    /// of a write; frames pass in between.
    order: Arc<RwLock<()>>,
    /// Names of pipelines; none is used twice.
    generation: AtomicU64,
    committed: Mutex<Option<Arc<Pipeline>>>,
    pub(crate) saved: Mutex<Option<Arc<Pipeline>>>,
    pub(crate) changes: Teller,
    /// What control calls have said of ports, and told to everybody: links' changes too.
    pub(crate) enabled: Mutex<BTreeMap<PortId, EnabledSince>>,
    pub(crate) links: LinkSender,
    store: OnceLock<Arc<dyn Store>>,
}

/// What was asked of every worker.
#[must_use = "what was asked is done all the same, but the answer is lost"]
pub struct Answers<R>(Vec<oneshot::Receiver<R>>);

impl<R> Answers<R> {
    /// What nobody had to be asked for.
    pub(crate) fn ready(answer: R) -> Self {
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(answer);
        Self(vec![receiver])
    }

    /// All of them, in the workers' order.
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

/// Locks for a short while; a panic elsewhere does not make the data wrong.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// A device without a pipeline.
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
            changes: Teller::default(),
            enabled: Mutex::default(),
            links,
            store: OnceLock::new(),
        }
    }

    /// Keeps from now on what calls come to, before they are answered. Only the first store is one.
    pub fn keep_in(&self, store: Arc<dyn Store>) {
        // A second one would not know what was before.
        let _ = self.store.set(store);
    }

    pub(crate) fn store(&self) -> Option<Arc<dyn Store>> {
        self.store.get().cloned()
    }

    /// How many workers there are, as long as the device lives.
    pub fn n_workers(&self) -> usize {
        self.handle.n_workers()
    }

    /// The pipeline that forwards, in the first worker.
    pub fn committed(&self) -> Option<Arc<Pipeline>> {
        lock(&self.committed).clone()
    }

    /// The pipeline that reads and writes refer to: the saved one, if there is one.
    ///
    /// # Errors
    /// [`Error::NoPipeline`].
    pub fn pipeline(&self) -> Result<Arc<Pipeline>, Error> {
        let saved = lock(&self.saved).clone();
        saved.or_else(|| self.committed()).ok_or(Error::NoPipeline)
    }

    /// The externs that programs of this switch may call: programs are loaded with them
    /// ([`Program::from_json_with`]).
    pub fn payload_signatures(&self) -> Vec<PayloadSignature> {
        self.handle.payload_signatures()
    }

    /// A program, with what a protocol knows of it, that the workers can run as one switch.
    ///
    /// # Errors
    /// `FailedPrecondition`: packets would find what others have left, or not, by the worker they come to.
    pub fn check<V: Send + Sync + 'static>(
        &self,
        program: Program,
        view: V,
    ) -> Result<Checked, Error> {
        expect_one_for_all(&program, self.n_workers(), self.registers)?;
        let view: View = Arc::new(view);
        Ok(Checked::new(program, view))
    }

    /// Waits for a turn, in which nobody else reads, writes or sets a pipeline, and carries out a call in
    /// it, as a task of the Tokio runtime that it is called in. Given up while it waits, it has changed
    /// nothing; from then on it goes on without its caller.
    ///
    /// # Errors
    /// [`Error::Stopped`]: the runtime ends. [`Error::NotStored`]: the store has not caught up with the calls before.
    pub async fn in_turn<R, F>(self: &Arc<Self>, call: impl FnOnce(Turn) -> F) -> Result<R, Error>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let alone = Arc::clone(&self.order).write_owned().await;
        let turn = Turn::new(Arc::clone(self), alone);
        let caught_up = blocking(self.store(), |store| store.catch_up()).await;
        caught_up.map_err(nothing_done)?;
        carried_out(call(turn)).await
    }

    /// Whether the store has all that was answered as done; none where there is no store.
    pub fn is_stored(&self) -> Option<bool> {
        self.store().map(|store| store.is_current())
    }

    /// Writes a batch that was made for a pipeline: one result an operation that was attempted, in order.
    ///
    /// # Errors
    /// [`Error::Replaced`], [`Error::Apart`], [`Error::Stopped`].
    pub async fn write(
        self: &Arc<Self>,
        pipeline: Arc<Pipeline>,
        batch: Batch,
    ) -> Result<Vec<OperationResult>, Error> {
        let call = |turn: Turn| async move { turn.write(&pipeline, batch).results().await };
        self.in_turn(call).await?
    }

    /// Makes a program forward in every worker, in place of whatever there was; all state is cleared.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub async fn set_pipeline(self: &Arc<Self>, checked: Checked) -> Result<Arc<Pipeline>, Error> {
        let call = |turn: Turn| async move {
            let ready = turn.ready(checked).await?;
            turn.commit(ready).done().await
        };
        self.in_turn(call).await?
    }

    /// The pipeline that reads refer to, once nobody writes, and until the reading is dropped.
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

    /// Every change that is carried out from now on.
    pub fn changes(&self) -> Changes {
        self.changes.follow()
    }

    /// Reads something from each of the pipeline's switches, at once and without a turn: every worker's, or
    /// the one of a saved pipeline. What an offload has counted until then is in it. `n_updates` is what it
    /// counts for in a worker's turn.
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

    /// Everything that is counted, of all workers together; each one's part is one consistent view.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub async fn counted(&self) -> Result<Counted, Error> {
        let answers = self.submit(|_, context| Counted::of(context));
        Counted::sum(answers.all().await?).ok_or(Error::Stopped)
    }

    /// Waits until every packet that is inside at the call has left; given up, nothing is left of it.
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

    /// Hands the switch a frame, as one that comes from its control plane at `port`. It is in order with
    /// all other work. `done` is told on the first worker's thread, and dropped if the switch has stopped;
    /// [`Error::Replaced`] says that the frame was made for another pipeline.
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
        // One worker for all, so that they stay in order.
        self.handle.submit(0, Box::new(work));
    }

    /// Registers a channel that is told of what happens in the switches.
    pub fn subscribe(&self, subscriber: Subscriber) {
        self.handle.subscribe(subscriber);
    }

    /// Runs `work` on every worker's thread, with the worker's number, at once and without a turn. Not for the state of
    /// a pipeline: what `work` writes is not told as a change. The answers never come if the switch stops.
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

    /// Runs work that takes long on every worker's thread: the steps that `begin` gives for a worker,
    /// until one has an answer. Frames may pass between two steps, and no other work. What a step changes,
    /// an offload shows as one.
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

    /// Does something when all work that was submitted before has run.
    pub fn after_work(&self, done: impl FnOnce() + Send + 'static) {
        let n_workers = self.n_workers();
        let countdown = Countdown::new(n_workers, done);
        for worker in 0..n_workers {
            let countdown = Arc::clone(&countdown);
            let tell = move |_: &mut SwitchContext<'_>| countdown.tell();
            self.handle.submit(worker, Box::new(tell));
        }
    }

    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// On a worker's thread: what it has had before.
    pub(crate) fn realize(
        &self,
        worker: usize,
        context: &mut SwitchContext<'_>,
        pipeline: &Arc<Pipeline>,
        mut program: ReadyProgram,
    ) -> Replaced {
        let generation = pipeline.generation();
        context.switch.set_ready_program(&mut program, generation);
        // Packet-outs, which are made as the pipeline says, go to the first.
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

/// Work that runs step by step until one has the answer.
fn steps<R: Send + 'static>(
    mut step: impl FnMut(&mut SwitchContext<'_>) -> Option<R> + Send + 'static,
    sender: oneshot::Sender<R>,
) -> Work {
    Box::new(move |context| {
        context.switch.begin_batch();
        let answer = step(context);
        context.switch.end_batch();
        match answer {
            // Nobody waits any more: the call was cancelled, the work is done all the same.
            Some(answer) => drop(sender.send(answer)),
            None => context.rest = Some(steps(step, sender)),
        }
    })
}

/// Carries a call out to its end, whatever becomes of the caller meanwhile.
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

/// Work was made for one pipeline: its ids and widths say nothing of another's.
pub(crate) fn expect_generation(switch: &Switch, made_for: u64) -> Result<(), Error> {
    match switch.generation() {
        found if found == made_for => Ok(()),
        found => Err(Error::Replaced { made_for, found }),
    }
}
