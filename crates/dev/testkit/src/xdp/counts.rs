//! Compares the counters of two switches.

use dataplane::{DropReason, Switch};

/// Fails if the counts of packets, drops, ports, lookups, entries, counters or registers differ.
pub fn difference(beside: &Switch, alone: &Switch) -> Result<(), String> {
    let (ours, theirs) = (beside.counters(), alone.counters());
    for reason in DropReason::ALL {
        let (ours, theirs) = (ours.dropped(*reason), theirs.dropped(*reason));
        same(format_args!("drops: {reason}"), ours, theirs)?;
    }
    same("transmitted", ours.transmitted, theirs.transmitted)?;
    let copies = |of: &Switch| of.counters().created_by_replication;
    same("copies", copies(beside), copies(alone))?;
    for (ours, theirs) in beside.counters().ports().zip(alone.counters().ports()) {
        same("port", format!("{ours:?}"), format!("{theirs:?}"))?;
    }
    let program = alone.program().ok_or("no program")?;
    for (table, info) in program.tables() {
        let lookups = |of: &Switch| format!("{:?}", of.counters().table(table));
        same(&info.name, lookups(beside), lookups(alone))?;
        let hits = |of: &Switch| -> Vec<_> {
            let entries = of.entries(table).into_iter();
            entries
                .map(|entry| of.direct_counter(table, &entry.key, entry.priority).ok())
                .collect()
        };
        same(&info.name, hits(beside), hits(alone))?;
    }
    for (counter, name) in program.counters() {
        for cell in 0..alone.counter_size(counter) {
            let count = |of: &Switch| of.counter_cell(counter, cell).ok();
            same(format_args!("{name}[{cell}]"), count(beside), count(alone))?;
        }
    }
    for (register, name) in program.registers() {
        for cell in 0..alone.register_size(register) {
            let value = |of: &Switch| of.register_cell(register, cell).ok();
            same(format_args!("{name}[{cell}]"), value(beside), value(alone))?;
        }
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: impl std::fmt::Display,
    ours: T,
    theirs: T,
) -> Result<(), String> {
    if ours == theirs {
        Ok(())
    } else {
        Err(format!(
            "{what}: {ours:?} with the kernel, {theirs:?} without"
        ))
    }
}
