//! Updates that are carried out one after the other, a piece at a time, so that frames may pass in between; or
//! all of them in one piece, where they are to be done whole or not at all.

use std::sync::Arc;

use dataplane::{ControlError, ControlErrorKind};

use crate::error::{Error, OperationResult};
use crate::limits::{CELLS_PER_UPDATE, UNDIVIDED_UPDATES_MAX, UPDATES_PER_PIECE};
use crate::operation::{Operation, Site};
use crate::undo::Undo;

/// The updates of one call, in their order. Each is carried out wholly or not at all; frames may see the
/// state between two of them, unless the batch is undivided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// What is to be done.
    pub operations: Vec<Operation>,
    /// What becomes of the others where one is refused.
    pub atomicity: Atomicity,
}

impl Batch {
    /// Every one is attempted.
    pub fn new(operations: Vec<Operation>) -> Self {
        Self {
            operations,
            atomicity: Atomicity::ContinueOnError,
        }
    }

    /// What is to be done in one piece is no more than frames can wait for.
    pub(crate) fn expect_possible(&self) -> Result<(), Error> {
        let operations = self.operations.iter();
        let n_updates = operations.fold(0, |sum: usize, it| sum.saturating_add(it.n_updates()));
        if !self.atomicity.is_undivided() || n_updates <= UNDIVIDED_UPDATES_MAX {
            return Ok(());
        }
        let message = format!(
            "expected a batch of {UNDIVIDED_UPDATES_MAX} updates at most that is done whole or not at all, since \
             frames wait for it, found {n_updates}; a replica counts as one, and so do {CELLS_PER_UPDATE} cells"
        );
        Err(ControlError::new(ControlErrorKind::Unimplemented, message).into())
    }
}

/// What becomes of a batch's other operations where one is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Atomicity {
    /// Every one is attempted.
    #[default]
    ContinueOnError,
    /// Those behind it are not; the results end with its own.
    StopAtError,
    /// None is done: those before it are taken back exactly, those behind it not attempted, and their results
    /// are `Aborted`. A worker does all in one piece, so that none of its packets has a pass in between; a packet
    /// may have one pass before and another after it.
    Whole,
    /// The same, done when no packet is between two passes: each is treated as before or as after, whole.
    WholeForPackets,
}

impl Atomicity {
    /// Whether all is done in one piece.
    pub fn is_undivided(self) -> bool {
        matches!(self, Self::Whole | Self::WholeForPackets)
    }

    /// Whether nothing more is attempted behind an operation that came to this.
    pub(crate) fn stops_at(self, last: Option<&OperationResult>) -> bool {
        self == Self::StopAtError && last.is_some_and(Result::is_err)
    }
}

/// A batch on its way, on one worker's thread.
pub(crate) struct Running {
    batch: Arc<Batch>,
    /// Cells that were written of the first update that is not done.
    n_cells: u64,
    /// Of those that are done.
    results: Vec<OperationResult>,
    is_over: bool,
}

impl Running {
    pub(crate) fn new(batch: Arc<Batch>) -> Self {
        Self {
            results: Vec::with_capacity(batch.operations.len()),
            is_over: batch.operations.is_empty(),
            batch,
            n_cells: 0,
        }
    }

    /// Carries out the next piece: [`UPDATES_PER_PIECE`] updates, or one that takes longer; what it
    /// counts for.
    pub(crate) fn go_on(&mut self, site: &mut Site<'_>) -> usize {
        let batch = Arc::clone(&self.batch);
        if batch.atomicity.is_undivided() && !self.is_over {
            self.results = all_or_none(&batch.operations, site);
            self.is_over = true;
            return UPDATES_PER_PIECE.max(batch.operations.len());
        }
        let mut n_updates = 0;
        while n_updates < UPDATES_PER_PIECE
            && !self.is_over
            && let Some(operation) = batch.operations.get(self.results.len())
        {
            n_updates += self.update(operation, UPDATES_PER_PIECE - n_updates, site);
        }
        n_updates
    }

    /// Carries out the operations before the first one on a generator. This runs beside the switch that forwards, and
    /// generators belong to that switch.
    pub(crate) fn go_ahead(&mut self, site: &mut Site<'_>) {
        while !self.is_over
            && let Some(operation) = Arc::clone(&self.batch).operations.get(self.results.len())
            && !operation.is_of_generator()
        {
            self.update(operation, UPDATES_PER_PIECE, site);
        }
    }

    fn update(
        &mut self,
        operation: &Operation,
        n_updates_max: usize,
        site: &mut Site<'_>,
    ) -> usize {
        let Operation::SetCells(value, cells) = operation else {
            self.push(operation.run(site));
            return operation.n_updates();
        };
        let first = cells.start.saturating_add(self.n_cells);
        let n_cells_max = n_updates_max as u64 * CELLS_PER_UPDATE;
        let end = cells.end.min(first.saturating_add(n_cells_max)).max(first);
        let is_there = match self.n_cells {
            0 => value.expect_there(site, cells),
            _ => Ok(()),
        };
        let result = is_there.and_then(|()| value.set(site, first..end));
        self.n_cells = end - cells.start;
        if end >= cells.end || result.is_err() {
            self.n_cells = 0;
            self.push(result);
        }
        let n_updates = (end - first).div_ceil(CELLS_PER_UPDATE).max(1);
        usize::try_from(n_updates).expect("it is no more than was allowed")
    }

    fn push(&mut self, result: OperationResult) {
        self.results.push(result);
        let Batch {
            operations,
            atomicity,
        } = &*self.batch;
        self.is_over =
            self.results.len() == operations.len() || atomicity.stops_at(self.results.last());
    }

    /// One result an update that was attempted, in order, when all are done.
    pub(crate) fn results(&mut self) -> Option<Vec<OperationResult>> {
        self.is_over.then(|| std::mem::take(&mut self.results))
    }
}

/// Carries out all operations, or none.
pub(crate) fn all_or_none(operations: &[Operation], site: &mut Site<'_>) -> Vec<OperationResult> {
    let mut undo = Undo::default();
    let mut attempt = |operation: &Operation| {
        operation.expect_reversible()?;
        undo.note(operation, site);
        operation.run(site)
    };
    let mut attempts = operations.iter().map(&mut attempt).enumerate();
    let refused = attempts.find_map(|(place, result)| Some((place, result.err()?)));
    match refused {
        None => vec![Ok(()); operations.len()],
        Some((place, error)) => {
            undo.take_back(site);
            let mut results = vec![Err(taken_back(place)); operations.len()];
            results[place] = Err(error);
            results
        }
    }
}

fn taken_back(refused: usize) -> ControlError {
    let message = format!(
        "not done, since update {} of the batch was refused",
        refused + 1
    );
    ControlError::new(ControlErrorKind::Aborted, message)
}
