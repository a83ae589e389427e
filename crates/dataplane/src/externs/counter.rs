//! Counter arrays. Packets and bytes are always both counted; an index beyond the end counts
//! nothing, as in BMv2.

use crate::{CounterId, CounterValue, program::ir::CounterArray};

/// Every indexed counter array of a program.
#[derive(Debug)]
pub(crate) struct Counters {
    arrays: Vec<Vec<CounterValue>>,
}

impl Counters {
    pub(crate) fn new(declared: &[CounterArray]) -> Self {
        Self {
            arrays: declared
                .iter()
                .map(|array| vec![CounterValue::default(); array.cells])
                .collect(),
        }
    }

    pub(crate) fn cells(&self, counter: CounterId) -> Option<&[CounterValue]> {
        self.arrays.get(counter.index()).map(Vec::as_slice)
    }

    pub(crate) fn cells_mut(&mut self, counter: CounterId) -> &mut [CounterValue] {
        let cells = self.arrays.get_mut(counter.index());
        cells.map_or(&mut [], Vec::as_mut_slice)
    }

    pub(crate) fn cell_mut(
        &mut self,
        counter: CounterId,
        index: usize,
    ) -> Option<&mut CounterValue> {
        self.arrays.get_mut(counter.index())?.get_mut(index)
    }
}

/// Counts a packet.
pub(crate) fn count(cell: &mut CounterValue, bytes: usize) {
    let one = CounterValue {
        packets: 1,
        bytes: bytes as u64,
    };
    add(cell, one);
}

/// Counts packets.
pub(crate) fn add(cell: &mut CounterValue, counted: CounterValue) {
    cell.packets = cell.packets.wrapping_add(counted.packets);
    cell.bytes = cell.bytes.wrapping_add(counted.bytes);
}
