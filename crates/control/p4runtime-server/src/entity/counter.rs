//! `CounterEntry` and `DirectCounterEntry`.
//!
//! Source: P4Runtime 1.5.0, "CounterEntry & DirectCounterEntry".

use control::{CellValue, EntryChange, EntryUpdate, Operation};
use dataplane::CounterValue;
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::update::Type;

use super::table_entry::{entry_key, key_to_proto};
use super::{cells, expect_modify, index, unset};
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{Counter, NewNames, Pipeline, Table};

/// Translates an update. Without an index, the update applies to all cells.
pub(super) fn operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::CounterEntry,
) -> EntityResult<Operation> {
    let counter = pipeline.counter(entry.counter_id)?;
    let what = format!("counter \"{}\"", counter.name);
    expect_modify(kind, &what)?;
    let mut cells = cells(entry.index, counter.size, &what)?;
    let value = match &entry.data {
        Some(data) => counter_value(data, &what)?,
        None => {
            // Without data nothing changes.
            cells.end = cells.start;
            CounterValue::default()
        }
    };
    let value = CellValue::Counter(counter.counter, value);
    Ok(Operation::Cells(value, cells))
}

pub(super) fn direct_operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::DirectCounterEntry,
) -> EntityResult<Operation> {
    let of = entry
        .table_entry
        .as_ref()
        .ok_or_else(|| unset("table_entry"))?;
    let table = pipeline.table(of.table_id)?;
    expect_direct_counter(table, of)?;
    expect_modify(kind, &format!("table \"{}\": a direct counter", table.name))?;
    let key = entry_key(table, of, NewNames::Refused)?;
    let value = entry.data.as_ref();
    let value = value.map(|data| counter_value(data, &table.name));
    let change = EntryChange {
        counter: value.transpose()?,
        ..EntryChange::default()
    };
    Ok(Operation::Entry(EntryUpdate::Modify(key, change)))
}

/// Checks that a direct counter can be read and written.
pub(crate) fn expect_direct_counter(table: &Table, of: &v1::TableEntry) -> EntityResult {
    if !table.has_direct_counter {
        return Err(EntityError::invalid(format!(
            "table \"{}\" has no direct counter",
            table.name
        )));
    }
    if of.is_default_action {
        // BMv2 counts hits only.
        return Err(EntityError::unimplemented(format!(
            "table \"{}\": the default entry has no direct counter",
            table.name
        )));
    }
    Ok(())
}

pub(crate) fn direct_to_proto(
    table: &Table,
    entry: &dataplane::TableEntry,
) -> v1::DirectCounterEntry {
    v1::DirectCounterEntry {
        table_entry: Some(key_to_proto(table, entry)),
        data: Some(counter_data(entry.counter)),
    }
}

pub(crate) fn to_proto(counter: &Counter, cell: u64, value: CounterValue) -> v1::CounterEntry {
    v1::CounterEntry {
        counter_id: counter.id,
        index: index(cell),
        data: Some(counter_data(value)),
    }
}

/// P4Runtime counts in `int64`; negative counts are refused.
pub(super) fn counter_value(data: &v1::CounterData, what: &str) -> EntityResult<CounterValue> {
    let count = |count: i64| {
        u64::try_from(count).map_err(|_| {
            EntityError::invalid(format!("{what}: expected a count from 0, found {count}"))
        })
    };
    Ok(CounterValue {
        packets: count(data.packet_count)?,
        bytes: count(data.byte_count)?,
    })
}

/// Counts above `i64::MAX` read as `i64::MAX`.
pub(super) fn counter_data(value: CounterValue) -> v1::CounterData {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    v1::CounterData {
        packet_count: count(value.packets),
        byte_count: count(value.bytes),
    }
}
