//! A pipeline: a program under a name that is never used twice, what clients store with its entities, and
//! what the protocol that set it knows of it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use dataplane::{
    ControlError, ControlErrorKind, ParamInfo, PayloadBatch, PayloadExtern, PayloadSignature,
    Program, Switch, SwitchConfig,
};

use crate::batch::Batch;
use crate::device::lock;
use crate::error::OperationResult;
use crate::limits::SAVED_UPDATES_MAX;
use crate::notes::Notes;
use crate::operation::{Operation, Site};
use crate::store::{Origin, OriginOf, Slot};

/// What the protocol that set a pipeline knows of it: P4Runtime its P4Info, for example.
pub(crate) type View = Arc<dyn Any + Send + Sync>;

/// A program that the workers can run as one switch: [`crate::Device::check`] makes it.
#[derive(Clone)]
pub struct Checked {
    pub(crate) program: Program,
    pub(crate) view: View,
    pub(crate) origin: OriginOf,
}

impl Checked {
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

/// Stands where the switch that forwards has an extern: no packet comes.
struct StandIn(PayloadSignature);

impl PayloadExtern for StandIn {
    fn params(&self) -> Vec<ParamInfo> {
        self.0.params.clone()
    }

    fn growth_bytes_max(&self) -> usize {
        self.0.growth_bytes_max
    }

    fn transform(&mut self, _: PayloadBatch<'_>) {}
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
            shadow: None,
        }
    }

    pub(crate) fn saved(checked: Checked, generation: u64) -> Self {
        let mut switch = Switch::new(SwitchConfig::default());
        for signature in &checked.program.ir().payload_externs {
            let stand_in = Box::new(StandIn(signature.clone()));
            let registered = switch.register_payload_extern(&signature.name, stand_in);
            registered.expect("the switch that forwards has it under this name");
        }
        switch.set_program(checked.program.clone());
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

    pub(crate) fn checked(&self) -> &Checked {
        &self.checked
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
        work(&mut Site {
            switch,
            notes,
            worker,
            n_workers,
            forwards: !self.is_saved(),
        })
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
            expect_room(written)?;
            operation.run(site)?;
            written.push(operation.clone());
            Ok(())
        };
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
    pub(crate) fn take_written(&self) -> Vec<Operation> {
        let shadow = self.shadow.as_ref();
        shadow.map_or_else(Vec::new, |shadow| std::mem::take(&mut lock(shadow).written))
    }
}

fn expect_room(written: &[Operation]) -> OperationResult {
    if written.len() < SAVED_UPDATES_MAX {
        return Ok(());
    }
    let message =
        format!("{SAVED_UPDATES_MAX} updates wait for the saved pipeline's COMMIT already");
    Err(ControlError::new(
        ControlErrorKind::ResourceExhausted,
        message,
    ))
}
