//! `RegisterEntry`.
//!
//! Source: P4Runtime 1.5.0, "RegisterEntry".

use control::{CellValue, Operation};
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::update::Type;

use super::{cells, expect_modify, index, unset};
use crate::bytestring;
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{CellType, Pipeline, Register};

/// Checks and translates an update of a register; without an index, of all its cells.
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
    let data = entry.data.as_ref().and_then(|data| data.data.as_ref());
    let value = match (&register.cell, data) {
        (CellType::Bits(width_bits), Some(Data::Bitstring(bits))) => {
            bytestring::parse(bits, *width_bits, what)?
        }
        (CellType::Bool, Some(Data::Bool(value))) => vec![u8::from(*value)],
        (_, None) => return Err(unset("data")),
        (cell, Some(_)) => {
            return Err(EntityError::invalid(format!(
                "{what}: expected data of type {cell}, found another"
            )));
        }
    };
    let value = CellValue::Register(register.register, value);
    Ok(Operation::SetCells(value, cells))
}

/// The register's cells can be read and written.
pub(crate) fn expect_supported(register: &Register) -> EntityResult {
    match &register.cell {
        CellType::Bits(_) | CellType::Bool => Ok(()),
        CellType::Other(name) => Err(EntityError::unimplemented(format!(
            "register \"{}\": cells of type {name} are not supported",
            register.name
        ))),
    }
}

/// A cell as a controller reads it.
pub(crate) fn to_proto(register: &Register, cell: u64, value: Vec<u8>) -> v1::RegisterEntry {
    let data = match register.cell {
        CellType::Bool => Data::Bool(!bytestring::is_zero(&value)),
        CellType::Bits(_) | CellType::Other(_) => Data::Bitstring(value),
    };
    v1::RegisterEntry {
        register_id: register.id,
        index: index(cell),
        data: Some(v1::P4Data { data: Some(data) }),
    }
}
