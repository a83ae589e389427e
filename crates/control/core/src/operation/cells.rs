//! Cells of counter, meter and register arrays.

use std::ops::Range;

use dataplane::{CounterId, CounterValue, MeterConfig, MeterId, RegisterId};
use serde::{Deserialize, Serialize};

use super::{Rules, Stored, Undo, WorkerState};
use crate::error::OperationResult;
use crate::limits::CELLS_PER_UPDATE;

/// The new value of a range of an array's cells.
pub(super) struct Cells<'a>(pub(super) &'a CellValue, pub(super) &'a Range<u64>);

/// The new value of array cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellValue {
    /// A counter's value, summed over all workers.
    Counter(CounterId, CounterValue),
    /// A meter's new rates; its buckets are full again. With `None`, the meter's color is always green.
    Meter(MeterId, Option<MeterConfig>),
    /// Like `Meter`, but the meter's counts also restart from zero.
    MeterAnew(MeterId, Option<MeterConfig>),
    /// A register's value in every worker.
    Register(RegisterId, Vec<u8>),
}

impl Rules for Cells<'_> {
    fn n_updates(&self) -> usize {
        let n_cells = self.1.end.saturating_sub(self.1.start);
        1 + usize::try_from(n_cells / CELLS_PER_UPDATE).unwrap_or(usize::MAX - 1)
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        let Self(value, cells) = *self;
        value.expect_there(state, cells)?;
        value.set(state, cells.clone())
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        let cells = self.1.clone();
        match *self.0 {
            CellValue::Counter(counter, _) => {
                let was = cells
                    .clone()
                    .map_while(|cell| state.switch.counter_cell(counter, cell).ok());
                let was: Vec<_> = was.collect();
                undo.push(move |state| {
                    let mut cells = cells.zip(was);
                    cells.try_for_each(|(cell, was)| {
                        state.switch.set_counter_cell(counter, cell, was)
                    })
                });
            }
            CellValue::Meter(meter, _) | CellValue::MeterAnew(meter, _) => {
                let was = state.switch.meter_snapshot(meter, cells);
                undo.push(move |state| {
                    state.switch.restore_meter(was);
                    Ok(())
                });
            }
            CellValue::Register(register, _) => {
                let was = cells
                    .clone()
                    .map_while(|cell| state.switch.register_cell(register, cell).ok());
                let was: Vec<_> = was.collect();
                undo.push(move |state| {
                    let mut cells = cells.zip(was);
                    cells.try_for_each(|(cell, was)| {
                        state.switch.set_register_cell(register, cell, &was)
                    })
                });
            }
        }
    }

    fn stored(&self) -> Stored {
        Stored::Cells
    }
}

impl CellValue {
    /// Checks that the array has all these cells. This method is called once, before the first cell is written.
    pub(crate) fn expect_there(
        &self,
        state: &WorkerState<'_>,
        cells: &Range<u64>,
    ) -> OperationResult {
        let Some(last) = cells.clone().next_back() else {
            return Ok(());
        };
        match self {
            Self::Counter(counter, _) => state.switch.counter_cell(*counter, last).map(drop),
            Self::Meter(meter, _) | Self::MeterAnew(meter, _) => {
                state.switch.meter_cell(*meter, last).map(drop)
            }
            Self::Register(register, _) => state.switch.register_cell(*register, last).map(drop),
        }
    }

    /// Writes the value to existing cells: to all of them, or to none if the value is refused.
    pub(crate) fn set(
        &self,
        state: &mut WorkerState<'_>,
        mut cells: Range<u64>,
    ) -> OperationResult {
        match self {
            Self::Counter(counter, value) => {
                let value = state.share_of(*value);
                state.switch.set_counter_cells(*counter, cells, value)
            }
            // A meter refuses invalid rates at the first cell, before any cell has changed.
            Self::Meter(meter, config) => {
                cells.try_for_each(|cell| state.switch.set_meter_cell(*meter, cell, *config))
            }
            Self::MeterAnew(meter, config) => cells.try_for_each(|cell| {
                state.switch.set_meter_cell(*meter, cell, *config)?;
                state.switch.reset_meter_counts(*meter, cell)
            }),
            Self::Register(register, value) => {
                state.switch.set_register_cells(*register, cells, value)
            }
        }
    }
}
