//! Updates that are carried out one after the other, a piece at a time, so that frames may pass in between.

use std::sync::Arc;

use crate::error::OperationResult;
use crate::limits::{CELLS_PER_UPDATE, UPDATES_PER_PIECE};
use crate::operation::{Operation, Site};

/// The updates of one call, in their order. Each is carried out wholly or not at all; frames may see the
/// state between two of them.
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
}

/// What becomes of a batch's other operations where one is refused. Nothing is ever taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Atomicity {
    /// Every one is attempted.
    #[default]
    ContinueOnError,
    /// Those behind it are not; the results end with its own.
    StopAtError,
}

impl Atomicity {
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
        let mut n_updates = 0;
        while n_updates < UPDATES_PER_PIECE
            && !self.is_over
            && let Some(operation) = batch.operations.get(self.results.len())
        {
            n_updates += self.update(operation, UPDATES_PER_PIECE - n_updates, site);
        }
        n_updates
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
