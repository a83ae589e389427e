//! A batch of updates. A worker (a thread with its own instance of the switch) executes a batch in pieces, so that
//! frames may pass between two pieces. An undivided batch is a single piece, which is executed completely or not at
//! all.

use std::sync::Arc;

use dataplane::{ControlError, ControlErrorKind};

use crate::error::{Error, OperationResult};
use crate::limits::{CELLS_PER_UPDATE, UNDIVIDED_UPDATES_MAX, UPDATES_PER_PIECE};
use crate::operation::{Operation, Undo, WorkerState};

/// The updates of one call, in order. Each update is done completely or not at all. Frames may see the state between
/// two updates, unless the batch is undivided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The updates, in the order of execution.
    pub operations: Vec<Operation>,
    /// What happens to the other updates when an update is refused.
    pub atomicity: Atomicity,
}

impl Batch {
    /// Makes a batch that attempts every update.
    pub fn new(operations: Vec<Operation>) -> Self {
        Self {
            operations,
            atomicity: Atomicity::ContinueOnError,
        }
    }

    /// Refuses an undivided batch with so many updates that frames would wait too long.
    pub(crate) fn expect_possible(&self) -> Result<(), Error> {
        let operations = self.operations.iter();
        let n_updates = operations.fold(0, |sum: usize, it| sum.saturating_add(it.n_updates()));
        if !self.atomicity.is_undivided() || n_updates <= UNDIVIDED_UPDATES_MAX {
            return Ok(());
        }
        let message = format!(
            "expected at most {UNDIVIDED_UPDATES_MAX} updates in a batch that is done as a whole or not at all, since \
             frames wait for it, found {n_updates}; a replica counts as one, and so do {CELLS_PER_UPDATE} cells"
        );
        Err(ControlError::new(ControlErrorKind::Unimplemented, message).into())
    }
}

/// What happens to a batch's other operations when an operation is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Atomicity {
    /// All other operations are attempted.
    #[default]
    ContinueOnError,
    /// Later operations are not attempted; the last result is that of the refused operation.
    StopAtError,
    /// None of the batch's operations takes effect: earlier operations are undone exactly, later operations are not
    /// attempted, and the result of all these other operations is `Aborted`. A worker executes the batch in one piece,
    /// so a packet's pass through ingress and egress sees all of the batch or nothing of it. But a packet that makes
    /// two passes may make the first pass before the batch and the second pass after it.
    Whole,
    /// Like `Whole`, but executed when no packet is between two passes through ingress and egress, so that every packet
    /// is processed entirely before or entirely after the batch.
    WholeForPackets,
}

impl Atomicity {
    /// Whether a worker executes the batch in one piece.
    pub fn is_undivided(self) -> bool {
        matches!(self, Self::Whole | Self::WholeForPackets)
    }

    /// Whether the batch ends after an operation with this result.
    pub(crate) fn stops_at(self, last: Option<&OperationResult>) -> bool {
        self == Self::StopAtError && last.is_some_and(Result::is_err)
    }
}

/// The progress of a batch on one worker's thread.
pub(crate) struct Running {
    batch: Arc<Batch>,
    /// Cells already written by the first unfinished update.
    n_cells: u64,
    /// Results of the finished updates.
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

    /// Executes the next piece: operations until their cost reaches [`UPDATES_PER_PIECE`] updates, or the whole of an
    /// undivided batch. Returns the cost of the piece in updates.
    pub(crate) fn go_on(&mut self, state: &mut WorkerState<'_>) -> usize {
        let batch = Arc::clone(&self.batch);
        if batch.atomicity.is_undivided() && !self.is_over {
            self.results = all_or_none(&batch.operations, state);
            self.is_over = true;
            return UPDATES_PER_PIECE.max(batch.operations.len());
        }
        let mut n_updates = 0;
        while n_updates < UPDATES_PER_PIECE
            && !self.is_over
            && let Some(operation) = batch.operations.get(self.results.len())
        {
            n_updates += self.update(operation, UPDATES_PER_PIECE - n_updates, state);
        }
        n_updates
    }

    /// Executes the operations before the first one that changes a packet generator, in a switch that does not forward
    /// yet. Packet generators belong to the switch that forwards, so [`Running::go_on`] executes the remaining
    /// operations in that switch.
    pub(crate) fn go_ahead(&mut self, state: &mut WorkerState<'_>) {
        while !self.is_over
            && let Some(operation) = Arc::clone(&self.batch).operations.get(self.results.len())
            && !operation.is_of_generator()
        {
            self.update(operation, UPDATES_PER_PIECE, state);
        }
    }

    fn update(
        &mut self,
        operation: &Operation,
        n_updates_max: usize,
        state: &mut WorkerState<'_>,
    ) -> usize {
        let Operation::Cells(value, cells) = operation else {
            self.push(operation.run(state));
            return operation.n_updates();
        };
        let first = cells.start.saturating_add(self.n_cells);
        let n_cells_max = n_updates_max as u64 * CELLS_PER_UPDATE;
        let end = cells.end.min(first.saturating_add(n_cells_max)).max(first);
        let is_there = match self.n_cells {
            0 => value.expect_there(state, cells),
            _ => Ok(()),
        };
        let result = is_there.and_then(|()| value.set(state, first..end));
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

    /// Returns one result for each attempted update, in order, when the batch is over.
    pub(crate) fn results(&mut self) -> Option<Vec<OperationResult>> {
        self.is_over.then(|| std::mem::take(&mut self.results))
    }
}

pub(crate) fn all_or_none(
    operations: &[Operation],
    state: &mut WorkerState<'_>,
) -> Vec<OperationResult> {
    let mut undo = Undo::default();
    let mut attempt = |operation: &Operation| {
        operation.expect_reversible()?;
        operation.record(&mut undo, state);
        operation.run(state)
    };
    let mut attempts = operations.iter().map(&mut attempt).enumerate();
    let refused = attempts.find_map(|(place, result)| Some((place, result.err()?)));
    match refused {
        None => vec![Ok(()); operations.len()],
        Some((place, error)) => {
            undo.take_back(state);
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
