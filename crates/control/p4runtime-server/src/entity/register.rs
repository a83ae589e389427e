//! `RegisterEntry`.
//!
//! Source: P4Runtime 1.5.0, "RegisterEntry".

use control::{CellValue, Operation};
use dataplane::Switch;
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::update::Type;

use super::{cells, expect_modify, index, unset};
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{DataType, NamesInUse, Pipeline, Register};

/// Translates an update. Without an index, the update applies to all cells.
pub(super) fn operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::RegisterEntry,
) -> EntityResult<Operation> {
    let register = pipeline.register(entry.register_id)?;
    let what = format!("register \"{}\"", register.name);
    expect_modify(kind, &what)?;
    expect_supported(register)?;
    let cells = cells(entry.index, register.size, &what)?;
    let data = entry.data.as_ref().ok_or_else(|| unset("data"))?;
    let value = register.cell.number(data, &what)?;
    let value = CellValue::Register(register.register, value);
    Ok(Operation::Cells(value, cells))
}

/// Checks that the register's cells can be read and written.
pub(crate) fn expect_supported(register: &Register) -> EntityResult {
    match register.cell.bits() {
        Some(_) => Ok(()),
        None => Err(EntityError::unimplemented(format!(
            "register \"{}\": cells of type {} are not supported, since a cell is one number in BMv2 JSON",
            register.name, register.cell
        ))),
    }
}

pub(crate) fn to_proto(register: &Register, cell: u64, value: Vec<u8>) -> v1::RegisterEntry {
    v1::RegisterEntry {
        register_id: register.id,
        index: index(cell),
        data: register.cell.to_proto(&mut std::iter::once(&value)),
    }
}

pub(super) fn note_names(register: &Register, switch: &Switch, used: &mut NamesInUse) {
    let DataType::Translated(_, values) = &register.cell else {
        return;
    };
    if values.names().is_none() {
        return;
    }
    for cell in 0..register.size {
        if let Ok(number) = switch.register_cell(register.register, cell) {
            used.add(values, &number);
        }
    }
}
