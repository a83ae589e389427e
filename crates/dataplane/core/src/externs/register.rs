//! Register arrays: v1model's `register<T>`. Beyond the end, reads and writes have no effect.

use std::ops::Range;

use crate::{
    RegisterId,
    program::ir::RegisterArray,
    value::{self, Int},
};

/// The cells of one array; machine words if the cell's width allows.
#[derive(Debug)]
enum Cells {
    Words(Vec<u64>),
    Wide(Vec<Int>),
}

#[derive(Debug)]
pub(crate) struct Registers {
    arrays: Vec<(Cells, u32)>,
}

impl Registers {
    pub(crate) fn new(declared: &[RegisterArray]) -> Self {
        let arrays = declared.iter().map(|array| {
            let cells = match array.bits {
                ..=64 => Cells::Words(vec![0; array.cells]),
                _ => Cells::Wide(vec![Int::ZERO; array.cells]),
            };
            (cells, array.bits)
        });
        Self {
            arrays: arrays.collect(),
        }
    }

    pub(crate) fn get(&self, register: RegisterId, index: usize) -> Option<Int> {
        match &self.arrays.get(register.index())?.0 {
            Cells::Words(words) => words.get(index).map(|word| Int::from(*word)),
            Cells::Wide(cells) => cells.get(index).cloned(),
        }
    }

    /// Writes a value to a cell, truncated to the cell's width. Does nothing if the index is beyond the end.
    pub(crate) fn set(&mut self, register: RegisterId, index: usize, value: Int) {
        let array = self.arrays.get_mut(register.index());
        let Some((cells, bits)) = array else { return };
        let value = value::wrap(value, *bits, false);
        match cells {
            Cells::Words(words) if index < words.len() => words[index] = value::low_u64(&value),
            Cells::Wide(cells) if index < cells.len() => cells[index] = value,
            _ => {}
        }
    }

    /// Writes a value to a range of cells. The value must fit in a cell, and the range must lie in the array.
    pub(crate) fn fill(&mut self, register: RegisterId, places: Range<usize>, value: &Int) {
        match &mut self.arrays[register.index()].0 {
            Cells::Words(words) => words[places].fill(value::low_u64(value)),
            Cells::Wide(cells) => cells[places].fill(value.clone()),
        }
    }

    /// The cells, if they are machine words.
    pub(crate) fn words_mut(&mut self, register: RegisterId) -> Option<&mut [u64]> {
        match &mut self.arrays.get_mut(register.index())?.0 {
            Cells::Words(words) => Some(words),
            Cells::Wide(_) => None,
        }
    }
}
