//! Counter and register arrays, bound to the program's.

use std::fmt;

use dataplane::{CounterId, Program, RegisterId};
use p4runtime_proto::p4::config::v1 as p4info;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::config::v1::p4_bitstring_like_type_spec::TypeSpec as BitsSpec;
use p4runtime_proto::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime_proto::p4::config::v1::p4_new_type_spec::Representation;

use super::{PipelineError, PipelineResult};

/// An indirect counter.
pub(crate) struct Counter {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) counter: CounterId,
    pub(crate) size: u64,
}

/// A register.
pub(crate) struct Register {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) register: RegisterId,
    pub(crate) size: u64,
    pub(crate) cell: CellType,
}

/// What a register's cells are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CellType {
    /// `bit<W>`.
    Bits(u32),
    /// `bool`.
    Bool,
    /// A type that cannot be read or written by P4Runtime here: its name.
    Other(String),
}

impl fmt::Display for CellType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CellType::Bits(width_bits) => write!(f, "bit<{width_bits}>"),
            CellType::Bool => f.write_str("bool"),
            CellType::Other(name) => f.write_str(name),
        }
    }
}

/// Every indirect counter of the P4Info, found in the program.
pub(super) fn counters(
    p4info: &P4Info,
    json: &bmv2_json::Program,
    program: &Program,
) -> PipelineResult<Vec<Counter>> {
    let bind = |counter: &p4info::Counter| {
        let preamble = counter.preamble.clone().unwrap_or_default();
        let error = |message: String| {
            PipelineError(format!("P4Info counter \"{}\": {message}", preamble.name))
        };
        let array = json
            .counter_arrays
            .iter()
            .find(|array| !array.is_direct && array.name == preamble.name);
        let (array, id) = array
            .zip(program.counter(&preamble.name))
            .ok_or_else(|| error("the device config has no such counter".into()))?;
        let size = check_size(counter.size, array.size.unwrap_or(0)).map_err(&error)?;
        Ok(Counter {
            id: preamble.id,
            counter: id,
            size,
            name: preamble.name,
        })
    };
    p4info.counters.iter().map(bind).collect()
}

/// Every register of the P4Info, found in the program.
pub(super) fn registers(
    p4info: &P4Info,
    json: &bmv2_json::Program,
    program: &Program,
) -> PipelineResult<Vec<Register>> {
    let bind = |register: &p4info::Register| {
        let preamble = register.preamble.clone().unwrap_or_default();
        let error = |message: String| {
            PipelineError(format!("P4Info register \"{}\": {message}", preamble.name))
        };
        let array = json
            .register_arrays
            .iter()
            .find(|array| array.name == preamble.name);
        let (array, id) = array
            .zip(program.register(&preamble.name))
            .ok_or_else(|| error("the device config has no such register".into()))?;
        let cell = cell_type(p4info, register.type_spec.as_ref()).map_err(&error)?;
        let width_bits = match cell {
            CellType::Bits(width_bits) => width_bits,
            CellType::Bool => 1,
            CellType::Other(_) => array.bitwidth,
        };
        if width_bits != array.bitwidth {
            return Err(error(format!(
                "has cells of {width_bits} bits, in the device config of {}",
                array.bitwidth
            )));
        }
        let size = check_size(i64::from(register.size), array.size).map_err(&error)?;
        Ok(Register {
            id: preamble.id,
            register: id,
            size,
            cell,
            name: preamble.name,
        })
    };
    p4info.registers.iter().map(bind).collect()
}

fn check_size(p4info: i64, json: u32) -> Result<u64, String> {
    if p4info != i64::from(json) {
        return Err(format!("has {p4info} cells, in the device config {json}"));
    }
    Ok(u64::from(json))
}

/// Follows `type` declarations down to what the data plane keeps.
fn cell_type(p4info: &P4Info, spec: Option<&p4info::P4DataTypeSpec>) -> Result<CellType, String> {
    let types = p4info.type_info.as_ref();
    let mut spec = spec.and_then(|spec| spec.type_spec.as_ref());
    // A chain longer than the number of types has a cycle.
    for _ in 0..=types.map_or(0, |types| types.new_types.len()) {
        match spec {
            None => return Err("expected a type, found none".into()),
            Some(TypeSpec::Bitstring(bits)) => return Ok(bits_type(bits)),
            Some(TypeSpec::Bool(_)) => return Ok(CellType::Bool),
            Some(TypeSpec::NewType(named)) => {
                let new_type = types.and_then(|types| types.new_types.get(&named.name));
                let new_type = new_type.ok_or_else(|| format!("no type \"{}\"", named.name))?;
                match &new_type.representation {
                    Some(Representation::OriginalType(original)) => {
                        spec = original.type_spec.as_ref();
                    }
                    Some(Representation::TranslatedType(_)) | None => {
                        return Ok(CellType::Other(format!("translated type {}", named.name)));
                    }
                }
            }
            Some(other) => return Ok(CellType::Other(type_name(other).into())),
        }
    }
    Err("its type refers to itself".into())
}

fn bits_type(bits: &p4info::P4BitstringLikeTypeSpec) -> CellType {
    match &bits.type_spec {
        Some(BitsSpec::Bit(bit)) => CellType::Bits(u32::try_from(bit.bitwidth).unwrap_or(0)),
        Some(BitsSpec::Int(int)) => CellType::Other(format!("int<{}>", int.bitwidth)),
        Some(BitsSpec::Varbit(varbit)) => {
            CellType::Other(format!("varbit<{}>", varbit.max_bitwidth))
        }
        None => CellType::Other("bit string without a type".into()),
    }
}

fn type_name(spec: &TypeSpec) -> &'static str {
    match spec {
        TypeSpec::Bitstring(_) => "bit string",
        TypeSpec::Bool(_) => "bool",
        TypeSpec::Tuple(_) => "tuple",
        TypeSpec::Struct(_) => "struct",
        TypeSpec::Header(_) => "header",
        TypeSpec::HeaderUnion(_) => "header union",
        TypeSpec::HeaderStack(_) => "header stack",
        TypeSpec::HeaderUnionStack(_) => "header union stack",
        TypeSpec::Enum(_) => "enum",
        TypeSpec::Error(_) => "error",
        TypeSpec::SerializableEnum(_) => "serializable enum",
        TypeSpec::NewType(_) => "type",
    }
}
