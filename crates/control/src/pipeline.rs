//! A pipeline: a program under a name that is never used twice, what clients store with its entities, and
//! what the protocol that set it knows of it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use dataplane::{ControlError, ControlErrorKind, Program, Switch};

use crate::batch::{Batch, all_or_none};
use crate::device::lock;
use crate::error::OperationResult;
use crate::limits::SAVED_UPDATES_MAX;
use crate::notes::{Digests, Note, Notes};
use crate::operation::{Operation, Site};
use crate::store::{JsonOrigin, Origin, OriginOf, Slot};

/// What the protocol that set a pipeline knows of it: P4Runtime its P4Info, for example.
pub(crate) type View = Arc<dyn Any + Send + Sync>;

/// A program that the workers can run as one switch: [`crate::Device::check`] makes it.
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

    /// With the text that the program was read from, for protocols that hand it out again.
    #[must_use]
    pub fn with_config(self, config: impl Into<Arc<[u8]>>) -> Self {
        let config = config.into();
        Self { config, ..self }
    }
}

impl Checked {
    /// Of a program that was read from this JSON of BMv2's, and of which no protocol knows more: protocols hand
    /// it out again, and a store keeps it.
    #[must_use]
    pub fn with_json(self, json: impl Into<Arc<[u8]>>) -> Self {
        let json = json.into();
        let origin = Arc::new(JsonOrigin(Arc::clone(&json)));
        self.with_config(json).with_origin(origin)
    }

    /// What the protocol that has checked it knows of it, if that is so.
    pub fn view<V: Any + Send + Sync>(&self) -> Option<Arc<V>> {
        Arc::clone(&self.view).downcast().ok()
    }

    /// The same, which a store can keep.
    pub fn with_origin(self, origin: Arc<dyn Origin>) -> Self {
        let origin = Some(origin);
        Self { origin, ..self }
    }
}

/// A pipeline and the state that reads and writes refer to.
pub struct Pipeline {
    checked: Checked,
    generation: u64,
    notes: Mutex<Notes>,
    /// Each worker's.
    digests: Mutex<Vec<Arc<Mutex<Digests>>>>,
    /// Some between saving and commit: writes and reads go to a switch of their own.
    shadow: Option<Mutex<Shadow>>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Pipeline");
        shown.field("generation", &self.generation);
        shown.finish_non_exhaustive()
    }
}

/// A switch that forwards nothing, and what was written to it.
struct Shadow {
    switch: Switch,
    written: Vec<Operation>,
}

/// A switch that forwards nothing, with a program as it begins.
pub fn blank_switch(program: &Program) -> Switch {
    Switch::blank(program.clone())
}

impl Pipeline {
    /// Its program: names, ids and widths of everything that operations are about.
    pub fn program(&self) -> &Program {
        &self.checked.program
    }

    /// The switch's name for it ([`Switch::generation`]); from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The text that the program was read from; empty where whoever set it did not say.
    pub fn config(&self) -> &Arc<[u8]> {
        &self.checked.config
    }

    /// What it was made of: for whoever sets it once more, without what was written to it.
    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    /// What a protocol knows of it, if it was set by that one.
    pub fn view<V: Any + Send + Sync>(&self) -> Option<Arc<V>> {
        Arc::clone(&self.checked.view).downcast().ok()
    }

    /// What clients store with its entities; held for a short while.
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        lock(&self.notes)
    }

    /// Whether it waits for its commit.
    pub fn is_saved(&self) -> bool {
        self.shadow.is_some()
    }

    pub(crate) fn new(checked: Checked, generation: u64) -> Self {
        Self {
            checked,
            generation,
            notes: Mutex::default(),
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
        match self.is_saved() {
            true => Slot::Saved,
            false => Slot::Forwards,
        }
    }

    /// Where a worker carries out updates. The first worker's notes are kept, which are read; the
    /// others' are not.
    pub(crate) fn with_site<R>(
        &self,
        (worker, n_workers): (usize, usize),
        switch: &mut Switch,
        work: impl FnOnce(&mut Site<'_>) -> R,
    ) -> R {
        let (mut kept, mut not_kept);
        let notes = if worker == 0 {
            kept = self.notes();
            &mut *kept
        } else {
            not_kept = Notes::default();
            &mut not_kept
        };
        let digests = self.digests_of(worker);
        work(&mut Site {
            switch,
            notes,
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

    /// The digests of which a client wants to be told, by name, and what it stores with them.
    pub fn digests(&self) -> BTreeMap<String, Note> {
        lock(&self.digests_of(0)).clone()
    }

    /// What a client stores with a digest of which it wants to be told.
    pub fn digest(&self, name: &str) -> Option<Note> {
        lock(&self.digests_of(0)).get(name).cloned()
    }

    /// Reads something from the switch of a saved pipeline; none of one that forwards.
    pub(crate) fn read_saved<R>(&self, work: impl FnOnce(&Switch) -> R) -> Option<R> {
        Some(work(&lock(self.shadow.as_ref()?).switch))
    }

    /// Carries out updates in the switch of a saved pipeline, and keeps them for its commit; none of one
    /// that forwards.
    pub(crate) fn write_saved(
        &self,
        batch: &Batch,
        n_workers: usize,
    ) -> Option<Vec<OperationResult>> {
        let Shadow { switch, written } = &mut *lock(self.shadow.as_ref()?);
        let mut one = |site: &mut Site<'_>, operation: &Operation| {
            expect_room(written, 1)?;
            operation.run(site)?;
            written.push(operation.clone());
            Ok(())
        };
        if batch.atomicity.is_undivided() {
            let room = expect_room(written, batch.operations.len());
            let whole = |site: &mut Site<'_>| all_or_none(&batch.operations, site);
            let results = match room {
                Ok(()) => self.with_site((0, n_workers), switch, whole),
                Err(error) => vec![Err(error); batch.operations.len()],
            };
            if results.iter().all(Result::is_ok) {
                written.extend_from_slice(&batch.operations);
            }
            return Some(results);
        }
        self.with_site((0, n_workers), switch, |site| {
            let mut results = Vec::with_capacity(batch.operations.len());
            for operation in &batch.operations {
                results.push(one(site, operation));
                if batch.atomicity.stops_at(results.last()) {
                    break;
                }
            }
            Some(results)
        })
    }

    /// What was written to a saved pipeline, for its commit.
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
        format!("{SAVED_UPDATES_MAX} updates wait for the saved pipeline's COMMIT already");
    Err(ControlError::new(
        ControlErrorKind::ResourceExhausted,
        message,
    ))
}
