//! `MeterEntry` and `DirectMeterEntry`.
//!
//! Source: P4Runtime 1.5.0, "MeterEntry & DirectMeterEntry".

use control::{CellValue, EntryChange, EntryUpdate, Operation};
use dataplane::{MeterConfig, MeterCounts};
use p4runtime_proto::p4::config::v1::meter_spec::Type as MeterType;
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::update::Type;

use super::counter::counter_data;
use super::table_entry::{entry_key, key_to_proto};
use super::{cells, expect_modify, index, unset};
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{Meter, NewNames, Pipeline, Table};

/// Translates an update. Without an index, the update applies to all cells.
pub(super) fn operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::MeterEntry,
) -> EntityResult<Operation> {
    let meter = pipeline.meter(entry.meter_id)?;
    let what = format!("meter \"{}\"", meter.name);
    expect_modify(kind, &what)?;
    let cells = cells(entry.index, meter.size, &what)?;
    let config = entry.config.as_ref();
    let config = config.map(|config| meter_config(meter.kind, config, &what));
    let config = config.transpose()?;
    let value = if resets(entry.counter_data.as_ref(), &what)? {
        CellValue::MeterAnew(meter.meter, config)
    } else {
        CellValue::Meter(meter.meter, config)
    };
    Ok(Operation::Cells(value, cells))
}

pub(super) fn direct_operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::DirectMeterEntry,
) -> EntityResult<Operation> {
    let of = entry.table_entry.as_ref();
    let of = of.ok_or_else(|| unset("table_entry"))?;
    let table = pipeline.table(of.table_id)?;
    let meter = expect_direct_meter(table, of)?;
    let what = format!("table \"{}\": a direct meter", table.name);
    expect_modify(kind, &what)?;
    let key = entry_key(table, of, NewNames::Refused)?;
    let config = entry.config.as_ref();
    let config = config.map(|config| meter_config(meter, config, &what));
    let change = EntryChange {
        meter: Some(config.transpose()?),
        resets_meter_counts: resets(entry.counter_data.as_ref(), &what)?,
        ..EntryChange::default()
    };
    Ok(Operation::Entry(EntryUpdate::Modify(key, change)))
}

/// Checks that a direct meter can be read and written, and returns its type.
pub(crate) fn expect_direct_meter(table: &Table, of: &v1::TableEntry) -> EntityResult<MeterType> {
    let name = &table.name;
    let Some(meter) = table.direct_meter else {
        let message = format!("table \"{name}\" has no direct meter");
        return Err(EntityError::invalid(message));
    };
    if of.is_default_action {
        // BMv2 meters hits only.
        return Err(EntityError::unimplemented(format!(
            "table \"{name}\": the default entry has no direct meter"
        )));
    }
    Ok(meter)
}

/// Checks that rates fit the meter's type.
pub(super) fn meter_config(
    kind: MeterType,
    config: &v1::MeterConfig,
    what: &str,
) -> EntityResult<MeterConfig> {
    let number = |name: &str, value: i64| {
        u64::try_from(value).map_err(|_| {
            EntityError::invalid(format!("{what}: expected a {name} from 0, found {value}"))
        })
    };
    let v1::MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
        eburst,
    } = *config;
    let refuse = |expected: &str| {
        let kind = kind.as_str_name();
        let message = format!("{what}: a meter of type {kind} has {expected}, found {config:?}");
        Err(EntityError::invalid(message))
    };
    if kind != MeterType::TwoRateThreeColor && (pir, pburst) != (cir, cburst) {
        return refuse("pir equal to cir and pburst equal to cburst");
    }
    if kind != MeterType::SingleRateThreeColor && eburst != 0 {
        return refuse("no eburst");
    }
    Ok(MeterConfig {
        committed_rate: number("cir", cir)?,
        committed_burst: number("cburst", cburst)?,
        peak_rate: number("pir", pir)?,
        peak_burst: number("pburst", pburst)?,
        excess_burst: number("eburst", eburst)?,
    })
}

/// Whether a write resets the meter's counters. A write cannot set them to other values than zero.
pub(super) fn resets(data: Option<&v1::MeterCounterData>, what: &str) -> EntityResult<bool> {
    let Some(v1::MeterCounterData { green, yellow, red }) = data else {
        return Ok(false);
    };
    let mut counts = [green, yellow, red].into_iter().flatten();
    if counts.any(|count| *count != v1::CounterData::default()) {
        return Err(EntityError::invalid(format!(
            "{what}: expected the counters of all colours to be zero, which resets them, found another value"
        )));
    }
    Ok(true)
}

pub(super) fn config_to_proto(config: Option<MeterConfig>) -> Option<v1::MeterConfig> {
    let config = config?;
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Some(v1::MeterConfig {
        cir: number(config.committed_rate),
        cburst: number(config.committed_burst),
        pir: number(config.peak_rate),
        pburst: number(config.peak_burst),
        eburst: number(config.excess_burst),
    })
}

pub(super) fn counts_to_proto(counts: MeterCounts) -> v1::MeterCounterData {
    v1::MeterCounterData {
        green: Some(counter_data(counts.green)),
        yellow: Some(counter_data(counts.yellow)),
        red: Some(counter_data(counts.red)),
    }
}

pub(crate) fn to_proto(
    meter: &Meter,
    cell: u64,
    (config, counts): (Option<MeterConfig>, MeterCounts),
    with_counts: bool,
) -> v1::MeterEntry {
    v1::MeterEntry {
        meter_id: meter.id,
        index: index(cell),
        config: config_to_proto(config),
        counter_data: with_counts.then(|| counts_to_proto(counts)),
    }
}

pub(crate) fn direct_to_proto(
    table: &Table,
    entry: &dataplane::TableEntry,
    with_counts: bool,
) -> v1::DirectMeterEntry {
    v1::DirectMeterEntry {
        table_entry: Some(key_to_proto(table, entry)),
        config: config_to_proto(entry.meter),
        counter_data: with_counts.then(|| counts_to_proto(entry.meter_counts)),
    }
}
