//! A pipeline: a program with a unique generation, what clients have stored with its entities (such as the metadata of
//! P4Runtime), and data of the protocol that set the pipeline.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use dataplane::{ControlError, ControlErrorKind, Program, Switch};

use crate::batch::{Batch, all_or_none};
use crate::client_data::{ClientData, ClientDataMap, Digests};
use crate::device::lock;
use crate::error::OperationResult;
use crate::limits::SAVED_UPDATES_MAX;
use crate::operation::{Operation, WorkerState};
use crate::store::{JsonOrigin, Origin, OriginOf, Slot};

/// Protocol data of a pipeline, such as the P4Info of P4Runtime.
pub(crate) type View = Arc<dyn Any + Send + Sync>;

/// A program that all workers together can run as if they were one switch; [`crate::Device::check`] returns it.
#[derive(Clone)]
pub struct Checked {
    pub(crate) program: Program,
    pub(crate) view: View,
    config: Arc<[u8]>,
    pub(crate) origin: OriginOf,
}

impl Checked {
    pub(crate) fn new(program: Program, view: View) -> Self {
        let config = Arc::default();
        Self {
            program,
            view,
            config,
            origin: None,
        }
    }

    /// Adds the text that the program was read from, which protocols return to clients.
    #[must_use]
    pub fn with_config(self, config: impl Into<Arc<[u8]>>) -> Self {
        let config = config.into();
        Self { config, ..self }
    }
}

impl Checked {
    /// Adds the BMv2 JSON of a program for which no protocol has data of its own. Protocols return the JSON to clients,
    /// and a store keeps it.
    #[must_use]
    pub fn with_json(self, json: impl Into<Arc<[u8]>>) -> Self {
        let json = json.into();
        let origin = Arc::new(JsonOrigin(Arc::clone(&json)));
        self.with_config(json).with_origin(origin)
    }

    /// Returns the protocol data; `None` if the data has another type than `V`.
    pub fn view<V: Any + Send + Sync>(&self) -> Option<Arc<V>> {
        Arc::clone(&self.view).downcast().ok()
    }

    /// Adds the origin, from which a store can rebuild the pipeline after a restart.
    pub fn with_origin(self, origin: Arc<dyn Origin>) -> Self {
        let origin = Some(origin);
        Self { origin, ..self }
    }
}

/// A program with the state that reads and writes refer to.
pub struct Pipeline {
    checked: Checked,
    generation: u64,
    client_data: Mutex<ClientDataMap>,
    /// The digest subscriptions of each worker.
    digests: Mutex<Vec<Arc<Mutex<Digests>>>>,
    /// Set if the pipeline is saved, which means that it waits for its commit. Reads and writes then go to the shadow's
    /// switch.
    shadow: Option<Mutex<Shadow>>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Pipeline");
        shown.field("generation", &self.generation);
        shown.finish_non_exhaustive()
    }
}

/// A switch that forwards nothing, and the operations written to it.
struct Shadow {
    switch: Switch,
    written: Vec<Operation>,
}

/// Makes a switch that forwards nothing, with the program's initial state.
pub fn blank_switch(program: &Program) -> Switch {
    Switch::blank(program.clone())
}

impl Pipeline {
    /// The program, which has the names, ids and widths that operations need.
    pub fn program(&self) -> &Program {
        &self.checked.program
    }

    /// Unique number of the pipeline, from 1, which the switch reports ([`Switch::generation`]).
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The text that the program was read from; empty if it was not given.
    pub fn config(&self) -> &Arc<[u8]> {
        &self.checked.config
    }

    /// The checked program from which the pipeline was made, without the operations written to the pipeline. A caller
    /// can set the pipeline again with it.
    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    /// Returns the protocol data; `None` if the data has another type than `V`.
    pub fn view<V: Any + Send + Sync>(&self) -> Option<Arc<V>> {
        Arc::clone(&self.checked.view).downcast().ok()
    }

    /// Locks the client data of the entities. The caller must hold the lock only briefly.
    pub fn client_data(&self) -> MutexGuard<'_, ClientDataMap> {
        lock(&self.client_data)
    }

    /// Whether the pipeline is saved and waits for its commit.
    pub fn is_saved(&self) -> bool {
        self.shadow.is_some()
    }

    pub(crate) fn new(checked: Checked, generation: u64) -> Self {
        Self {
            checked,
            generation,
            client_data: Mutex::default(),
            digests: Mutex::default(),
            shadow: None,
        }
    }

    pub(crate) fn saved(checked: Checked, generation: u64) -> Self {
        let switch = blank_switch(&checked.program);
        let written = Vec::new();
        Self {
            shadow: Some(Mutex::new(Shadow { switch, written })),
            ..Self::new(checked, generation)
        }
    }

    pub(crate) fn origin(&self) -> OriginOf {
        self.checked.origin.clone()
    }

    pub(crate) fn slot(&self) -> Slot {
        if self.is_saved() {
            Slot::Saved
        } else {
            Slot::Forwards
        }
    }

    /// Calls `work` with a worker's state. Reads return the first worker's client data, so only the first worker's
    /// client data is kept.
    pub(crate) fn with_state<R>(
        &self,
        (worker, n_workers): (usize, usize),
        switch: &mut Switch,
        work: impl FnOnce(&mut WorkerState<'_>) -> R,
    ) -> R {
        let (mut kept, mut not_kept);
        let client_data = if worker == 0 {
            kept = self.client_data();
            &mut *kept
        } else {
            not_kept = ClientDataMap::default();
            &mut not_kept
        };
        let digests = self.digests_of(worker);
        work(&mut WorkerState {
            switch,
            client_data,
            digests: &mut lock(&digests),
            worker,
            n_workers,
            forwards: !self.is_saved(),
        })
    }

    fn digests_of(&self, worker: usize) -> Arc<Mutex<Digests>> {
        let mut all = lock(&self.digests);
        let n_workers = all.len().max(worker + 1);
        all.resize_with(n_workers, Arc::default);
        Arc::clone(&all[worker])
    }

    /// Returns the digests to which a client has subscribed, as a map from each digest's name to the client data of its
    /// subscription.
    pub fn digests(&self) -> BTreeMap<String, ClientData> {
        lock(&self.digests_of(0)).clone()
    }

    /// The client data of a subscription to this digest; `None` if no client has subscribed to it.
    pub fn digest(&self, name: &str) -> Option<ClientData> {
        lock(&self.digests_of(0)).get(name).cloned()
    }

    /// Reads from the switch of a saved pipeline; `None` if the pipeline forwards.
    pub(crate) fn read_saved<R>(&self, work: impl FnOnce(&Switch) -> R) -> Option<R> {
        Some(work(&lock(self.shadow.as_ref()?).switch))
    }

    /// Executes a batch in the switch of a saved pipeline, and keeps the updates so that the pipeline's commit can
    /// repeat them; returns `None` if the pipeline forwards.
    pub(crate) fn write_saved(
        &self,
        batch: &Batch,
        n_workers: usize,
    ) -> Option<Vec<OperationResult>> {
        let Shadow { switch, written } = &mut *lock(self.shadow.as_ref()?);
        let mut one = |state: &mut WorkerState<'_>, operation: &Operation| {
            expect_room(written, 1)?;
            operation.run(state)?;
            written.push(operation.clone());
            Ok(())
        };
        if batch.atomicity.is_undivided() {
            let room = expect_room(written, batch.operations.len());
            let whole = |state: &mut WorkerState<'_>| all_or_none(&batch.operations, state);
            let results = match room {
                Ok(()) => self.with_state((0, n_workers), switch, whole),
                Err(error) => vec![Err(error); batch.operations.len()],
            };
            if results.iter().all(Result::is_ok) {
                written.extend_from_slice(&batch.operations);
            }
            return Some(results);
        }
        self.with_state((0, n_workers), switch, |state| {
            let mut results = Vec::with_capacity(batch.operations.len());
            for operation in &batch.operations {
                results.push(one(state, operation));
                if batch.atomicity.stops_at(results.last()) {
                    break;
                }
            }
            Some(results)
        })
    }

    /// Returns the operations written to a saved pipeline so far, which the pipeline's commit repeats.
    pub(crate) fn written(&self) -> Vec<Operation> {
        let shadow = self.shadow.as_ref();
        shadow.map_or_else(Vec::new, |shadow| lock(shadow).written.clone())
    }
}

fn expect_room(written: &[Operation], n_more: usize) -> OperationResult {
    if written.len() + n_more <= SAVED_UPDATES_MAX {
        return Ok(());
    }
    let message =
        format!("{SAVED_UPDATES_MAX} updates already wait for the saved pipeline's COMMIT");
    Err(ControlError::new(
        ControlErrorKind::ResourceExhausted,
        message,
    ))
}
