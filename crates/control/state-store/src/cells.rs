//! Stores the cells of arrays as disjoint ranges of cells with equal values. So a write of one value to a million cells
//! is one value in the file.

use std::ops::Range;

use control::{CellValue, EntityKey, Operation, Slot};
use redb::{ReadableTable, Table};

use crate::file::{Result, decode, encode};
use crate::key;

/// The array to which a value belongs; `None` for a counter, which is not stored.
fn array_of(value: &CellValue) -> Option<EntityKey> {
    match value {
        CellValue::Counter(..) => None,
        CellValue::Meter(meter, _) | CellValue::MeterAnew(meter, _) => {
            Some(EntityKey::Meter(*meter))
        }
        CellValue::Register(register, _) => Some(EntityKey::Register(*register)),
    }
}

/// Stores a new value for a range of cells. Parts of older ranges that lie outside of the new range stay.
pub(crate) fn put(
    table: &mut Table<'_, &'static [u8], &'static [u8]>,
    slot: Slot,
    value: &CellValue,
    cells: &Range<u64>,
) -> Result<()> {
    let Some(array) = array_of(value).filter(|_| !cells.is_empty()) else {
        return Ok(());
    };
    let at = |start| key::cells(slot, &array, start);
    for (value, there) in overlapped(table, &at, cells)? {
        table.remove(&at(there.start)[..])?;
        let outside = [
            there.start..cells.start.min(there.end),
            cells.end.max(there.start)..there.end,
        ];
        for left in outside.into_iter().filter(|left| !left.is_empty()) {
            insert(table, &at(left.start), &value, left)?;
        }
    }
    insert(table, &at(cells.start), value, cells.clone())
}

fn insert(
    table: &mut Table<'_, &'static [u8], &'static [u8]>,
    key: &[u8],
    value: &CellValue,
    cells: Range<u64>,
) -> Result<()> {
    let kept = encode(&[Operation::Cells(value.clone(), cells)]);
    table.insert(key, &kept[..])?;
    Ok(())
}

/// The stored ranges that overlap with `cells`: those that begin within `cells`, and the last range before `cells` if
/// it reaches into `cells`.
fn overlapped(
    table: &Table<'_, &'static [u8], &'static [u8]>,
    at: &impl Fn(u64) -> Vec<u8>,
    cells: &Range<u64>,
) -> Result<Vec<(CellValue, Range<u64>)>> {
    let (first, start, end) = (at(0), at(cells.start), at(cells.end));
    let before = table.range(&first[..]..&start[..])?.next_back();
    let within = table.range(&start[..]..&end[..])?;
    let mut found = Vec::new();
    for kept in before.into_iter().chain(within) {
        let operations = decode(kept?.1.value())?;
        let of_cells = operations
            .into_iter()
            .filter_map(|operation| match operation {
                Operation::Cells(value, there) => Some((value, there)),
                _ => None,
            });
        found.extend(of_cells.filter(|(_, there)| there.end > cells.start));
    }
    Ok(found)
}
