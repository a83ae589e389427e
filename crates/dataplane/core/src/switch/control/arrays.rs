//! Counter arrays, register arrays, and the parameters of hashes.

use std::ops::Range;

use crate::{
    ControlErrorKind, Controlled, CounterId, CounterValue, CrcParameters, RegisterId,
    engine::Change,
    invalid, match_action, missing,
    program::ir::{CalculationId, RegisterArray},
    refuse,
    switch::{Switch, control::place},
    value,
};

impl Switch {
    /// Reads a cell of a counter array.
    ///
    /// # Errors
    /// `NotFound` if the array does not exist, `OutOfRange` if the index is beyond its end.
    pub fn counter_cell(&self, counter: CounterId, index: u64) -> Controlled<CounterValue> {
        let cells = self.loaded()?.externs.counters.cells(counter);
        let cells = cells.ok_or_else(|| missing("counter", counter.index()))?;
        let declared = self.model.state.program.ir.counters.get(counter.index());
        let name = declared.map_or("", |declared| declared.name.as_str());
        Ok(cells[place(("counter", name), index, cells.len())?])
    }

    /// Writes a cell of a counter array.
    ///
    /// # Errors
    /// The same as for [`Switch::counter_cell`].
    pub fn set_counter_cell(
        &mut self,
        counter: CounterId,
        index: u64,
        value: CounterValue,
    ) -> Controlled {
        // The index is checked first, because `index + 1` overflows for `u64::MAX`.
        self.counter_cell(counter, index)?;
        self.set_counter_cells(counter, index..index + 1, value)
    }

    /// Writes one value to a range of cells; on an error writes no cell.
    ///
    /// # Errors
    /// The same as for [`Switch::counter_cell`].
    pub fn set_counter_cells(
        &mut self,
        counter: CounterId,
        cells: Range<u64>,
        value: CounterValue,
    ) -> Controlled {
        if let Some(last) = last(&cells) {
            self.counter_cell(counter, last)?;
            self.collect();
            let array = self.loaded_mut()?.externs.counters.cells_mut(counter);
            array[places(cells)].fill(value);
        }
        Ok(())
    }

    /// Number of cells of a counter array; 0 if it does not exist.
    pub fn counter_size(&self, counter: CounterId) -> u64 {
        let cells = self.model.state.externs.counters.cells(counter);
        cells.map_or(0, |cells| cells.len() as u64)
    }

    /// Reads a cell of a register array.
    ///
    /// # Errors
    /// `NotFound` if the array does not exist, `OutOfRange` if the index is beyond its end.
    pub fn register_cell(&self, register: RegisterId, index: u64) -> Controlled<Vec<u8>> {
        let registers = &self.loaded()?.externs.registers;
        let declared = self.declared_register(register);
        let declared = declared.ok_or_else(|| missing("register", register.index()))?;
        let place = place(("register", &declared.name), index, declared.cells)?;
        let cell = registers.get(register, place).unwrap_or_default();
        Ok(value::to_canonical_bytes(&cell, declared.bits))
    }

    /// Writes a cell of a register array.
    ///
    /// # Errors
    /// The same as for [`Switch::register_cell`], and `InvalidArgument` if the value does not fit.
    pub fn set_register_cell(
        &mut self,
        register: RegisterId,
        index: u64,
        value: &[u8],
    ) -> Controlled {
        // The index is checked first, because `index + 1` overflows for `u64::MAX`.
        self.register_cell(register, index)?;
        self.set_register_cells(register, index..index + 1, value)
    }

    /// Writes one value to a range of cells; on an error writes no cell.
    ///
    /// # Errors
    /// The same as for [`Switch::set_register_cell`].
    pub fn set_register_cells(
        &mut self,
        register: RegisterId,
        cells: Range<u64>,
        value: &[u8],
    ) -> Controlled {
        if let Some(last) = last(&cells) {
            self.register_cell(register, last)?;
            let bits = self.register_width_bits(register);
            let name = format!("register {}", register.index());
            let number = match_action::number(&name, value, bits)?;
            let registers = &mut self.loaded_mut()?.externs.registers;
            registers.fill(register, places(cells.clone()), &number);
            self.notify(&Change::Register(register, places(cells)));
        }
        Ok(())
    }

    /// Number of cells of a register array; 0 if it does not exist.
    pub fn register_size(&self, register: RegisterId) -> u64 {
        let register = self.declared_register(register);
        register.map_or(0, |register| register.cells as u64)
    }

    /// Width of a register's cells in bits; 0 if it does not exist.
    pub fn register_width_bits(&self, register: RegisterId) -> u32 {
        let register = self.declared_register(register);
        register.map_or(0, |register| register.bits)
    }

    fn declared_register(&self, register: RegisterId) -> Option<&RegisterArray> {
        let declared = &self.model.state.program.ir.registers;
        declared.get(register.index())
    }

    /// Sets the parameters of a hash whose algorithm is a custom CRC.
    ///
    /// # Errors
    /// `NotFound` for the calculation, `FailedPrecondition` if it is not a custom CRC,
    /// `InvalidArgument` if a parameter does not fit its width.
    pub fn set_crc_parameters(
        &mut self,
        calculation: &str,
        parameters: CrcParameters,
    ) -> Controlled {
        let loaded = self.loaded_mut()?;
        let calculations = &loaded.program.ir.calculations;
        let position = calculations.iter().position(|it| it.name == calculation);
        let Some((position, found)) = position.map(|at| (at, &calculations[at])) else {
            let message = format!("no calculation \"{calculation}\"");
            return refuse(ControlErrorKind::NotFound, message);
        };
        let Some(bits) = found.algorithm.custom_crc_bits() else {
            let message = format!("calculation \"{calculation}\" is no custom CRC");
            return refuse(ControlErrorKind::FailedPrecondition, message);
        };
        let set_bits = parameters.polynomial | parameters.initial | parameters.xor_out;
        if bits < u64::BITS && set_bits >> bits != 0 {
            let found = format!("a parameter does not fit {bits} bits");
            return invalid(format!("calculation \"{calculation}\": {found}"));
        }
        let id = u32::try_from(position).expect("a program has fewer than 2^32 calculations");
        let id = CalculationId(id);
        loaded.externs.crcs.set(id, bits, parameters);
        self.done(&Change::Calculation(id))
    }
}

fn last(cells: &Range<u64>) -> Option<u64> {
    cells.clone().next_back()
}

/// Converts a range of cells to `usize`. The caller has checked that the array has these cells.
fn places(cells: Range<u64>) -> Range<usize> {
    let place = |cell| usize::try_from(cell).expect("an array is in memory");
    place(cells.start)..place(cells.end)
}
