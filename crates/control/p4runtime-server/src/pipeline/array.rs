//! Binds the counter, meter and register arrays of the P4Info to the arrays of the program.

use dataplane::{CounterId, MeterId, Program, RegisterId};
use p4runtime_proto::p4::config::v1 as p4info;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::config::v1::meter_spec::Type as MeterType;

use super::data::{DataType, data_type};
use super::translation::Types;
use super::{PipelineError, PipelineResult};

/// An indirect counter.
pub(crate) struct Counter {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) counter: CounterId,
    pub(crate) size: u64,
}

pub(crate) struct Register {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) register: RegisterId,
    pub(crate) size: u64,
    pub(crate) cell: DataType,
}

pub(crate) struct Meter {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) meter: MeterId,
    pub(crate) size: u64,
    pub(crate) kind: MeterType,
}

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

pub(super) fn registers(
    p4info: &P4Info,
    json: &bmv2_json::Program,
    program: &Program,
    types: &mut Types<'_>,
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
        let spec = register.type_spec.as_ref();
        let cell = data_type(p4info, spec, types, Some(array.bitwidth)).map_err(&error)?;
        let width_bits = cell.bits().unwrap_or(array.bitwidth);
        if width_bits != array.bitwidth {
            return Err(error(format!(
                "has cells of {width_bits} bits, but of {} bits in the device config",
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

pub(super) fn meters(
    p4info: &P4Info,
    json: &bmv2_json::Program,
    program: &Program,
) -> PipelineResult<Vec<Meter>> {
    let bind = |meter: &p4info::Meter| {
        let preamble = meter.preamble.clone().unwrap_or_default();
        let error = |message: String| {
            PipelineError(format!("P4Info meter \"{}\": {message}", preamble.name))
        };
        let array = json
            .meter_arrays
            .iter()
            .find(|array| !array.is_direct && array.name == preamble.name);
        let (array, id) = array
            .zip(program.meter(&preamble.name))
            .ok_or_else(|| error("the device config has no such meter".into()))?;
        let size = check_size(meter.size, array.size.unwrap_or(0)).map_err(&error)?;
        Ok(Meter {
            id: preamble.id,
            meter: id,
            size,
            kind: meter_type(meter.spec.as_ref()).map_err(&error)?,
            name: preamble.name,
        })
    };
    p4info.meters.iter().map(bind).collect()
}

/// The type of a meter. A meter without a spec has two rates and three colors.
pub(super) fn meter_type(spec: Option<&p4info::MeterSpec>) -> Result<MeterType, String> {
    let kind = spec.map_or(0, |spec| spec.r#type);
    MeterType::try_from(kind).map_err(|_| format!("meters of type {kind} are not supported"))
}

fn check_size(p4info: i64, json: u32) -> Result<u64, String> {
    if p4info != i64::from(json) {
        return Err(format!(
            "has {p4info} cells, but {json} in the device config"
        ));
    }
    Ok(u64::from(json))
}
