//! Counter arrays. Every cell counts packets and bytes. An index beyond the end counts nothing, as
//! in BMv2.

use crate::{CounterId, CounterValue, program::ir::CounterArray};

#[derive(Debug)]
pub(crate) struct Counters {
    arrays: Vec<Vec<CounterValue>>,
}

impl Counters {
    pub(crate) fn new(declared: &[CounterArray]) -> Self {
        let cells = |array: &CounterArray| vec![CounterValue::default(); array.cells];
        Self {
            arrays: declared.iter().map(cells).collect(),
        }
    }

    pub(crate) fn cells(&self, counter: CounterId) -> Option<&[CounterValue]> {
        self.arrays.get(counter.index()).map(Vec::as_slice)
    }

    pub(crate) fn cells_mut(&mut self, counter: CounterId) -> &mut [CounterValue] {
        let cells = self.arrays.get_mut(counter.index());
        cells.map_or(&mut [], Vec::as_mut_slice)
    }
}
