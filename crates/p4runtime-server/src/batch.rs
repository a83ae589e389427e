//! Updates that are carried out one after the other, a piece at a time, so that frames may pass in between.

use std::sync::Arc;

use crate::entity::{Operation, Site};
use crate::error::EntityResult;
use crate::limits::{CELLS_PER_UPDATE, UPDATES_PER_PIECE};

/// The updates of one call, on one worker's thread. Every one is attempted.
pub(crate) struct Batch {
    operations: Arc<[EntityResult<Operation>]>,
    /// Cells that were written of the first update that is not done.
    n_cells: u64,
    /// Of those that are done.
    results: Vec<EntityResult>,
}

impl Batch {
    pub(crate) fn new(operations: Arc<[EntityResult<Operation>]>) -> Self {
        let results = Vec::with_capacity(operations.len());
        Self {
            operations,
            n_cells: 0,
            results,
        }
    }

    /// Carries out the next piece: [`UPDATES_PER_PIECE`] updates, or one that takes longer; what it
    /// counts for.
    pub(crate) fn go_on(&mut self, site: &mut Site<'_>) -> usize {
        let operations = Arc::clone(&self.operations);
        let mut n_updates = 0;
        while n_updates < UPDATES_PER_PIECE
            && let Some(operation) = operations.get(self.results.len())
        {
            n_updates += match operation {
                Ok(operation) => self.update(operation, UPDATES_PER_PIECE - n_updates, site),
                Err(error) => {
                    self.results.push(Err(error.clone()));
                    1
                }
            };
        }
        n_updates
    }

    fn update(
        &mut self,
        operation: &Operation,
        n_updates_max: usize,
        site: &mut Site<'_>,
    ) -> usize {
        let (run, cells) = match operation {
            Operation::Whole { run, n_updates } => {
                self.results.push(run(site));
                return *n_updates;
            }
            Operation::Cells { run, cells } => (run, cells),
        };
        let first = cells.start + self.n_cells;
        let end = cells
            .end
            .min(first + n_updates_max as u64 * CELLS_PER_UPDATE);
        let result = run(site, first..end);
        self.n_cells = end - cells.start;
        if end == cells.end || result.is_err() {
            self.n_cells = 0;
            self.results.push(result);
        }
        let n_updates = (end - first).div_ceil(CELLS_PER_UPDATE);
        usize::try_from(n_updates).expect("it is no more than was allowed")
    }

    /// One result an update, in order, when all are done.
    pub(crate) fn results(&mut self) -> Option<Vec<EntityResult>> {
        (self.results.len() == self.operations.len()).then(|| std::mem::take(&mut self.results))
    }
}
