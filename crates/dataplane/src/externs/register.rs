//! Register arrays. v1model `register<T>`; an index beyond the end reads and writes nothing.

use std::ops::Range;

use crate::{
    RegisterId,
    program::ir::RegisterArray,
    value::{self, Int},
};

/// The cells of one array: machine words where they suffice.
#[derive(Debug)]
enum Cells {
    Words(Vec<u64>),
    Wide(Vec<Int>),
}

/// Every register array of a program.
#[derive(Debug)]
pub(crate) struct Registers {
    arrays: Vec<(Cells, u32)>,
}

impl Registers {
    pub(crate) fn new(declared: &[RegisterArray]) -> Self {
        let arrays = declared
            .iter()
            .map(|array| {
                let cells = if array.bits <= 64 {
                    Cells::Words(vec![0; array.cells])
                } else {
                    Cells::Wide(vec![Int::ZERO; array.cells])
                };
                (cells, array.bits)
            })
            .collect();
        Self { arrays }
    }

    pub(crate) fn get(&self, register: RegisterId, index: usize) -> Option<Int> {
        match &self.arrays.get(register.index())?.0 {
            Cells::Words(words) => words.get(index).map(|word| Int::from(*word)),
            Cells::Wide(cells) => cells.get(index).cloned(),
        }
    }

    /// Writes a cell, cut to its width; false where there is none.
    pub(crate) fn set(&mut self, register: RegisterId, index: usize, value: Int) -> bool {
        let Some((cells, bits)) = self.arrays.get_mut(register.index()) else {
            return false;
        };
        let value = value::wrap(value, *bits, false);
        match cells {
            Cells::Words(words) => words
                .get_mut(index)
                .map(|word| *word = value::low_u64(&value))
                .is_some(),
            Cells::Wide(cells) => cells.get_mut(index).map(|cell| *cell = value).is_some(),
        }
    }

    /// Writes a value that fits to cells that are there.
    pub(crate) fn fill(&mut self, register: RegisterId, places: Range<usize>, value: &Int) {
        match &mut self.arrays[register.index()].0 {
            Cells::Words(words) => words[places].fill(value::low_u64(value)),
            Cells::Wide(cells) => cells[places].fill(value.clone()),
        }
    }

    /// The cells where they are machine words.
    pub(crate) fn words_mut(&mut self, register: RegisterId) -> Option<&mut [u64]> {
        match &mut self.arrays.get_mut(register.index())?.0 {
            Cells::Words(words) => Some(words),
            Cells::Wide(_) => None,
        }
    }
}
