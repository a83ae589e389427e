//! Describes in lines of text what a control plane can read from a switch.

use dataplane::{Program, Switch};

/// Returns lines for tables, action profiles, value sets, registers, counters, multicast groups and clone sessions, in
/// an order that depends only on the program.
pub(super) fn of(switch: &mut Switch) -> Vec<String> {
    let Some(program) = switch.program().cloned() else {
        return Vec::new();
    };
    let mut lines = tables(switch, &program);
    for (id, info) in program.action_profiles() {
        let (members, groups) = (switch.members(id), switch.groups(id));
        lines.push(format!("profile {}: {members:?} {groups:?}", info.name));
    }
    for (id, name) in program.value_sets() {
        lines.push(format!("value set {name}: {:02x?}", switch.value_set(id)));
    }
    lines.extend(arrays(switch, &program));
    lines.push(format!("groups: {:?}", switch.multicast_groups()));
    lines.push(format!("sessions: {:?}", switch.clone_sessions()));
    lines
}

fn tables(switch: &mut Switch, program: &Program) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, info) in program.tables() {
        for entry in switch.entries(id) {
            lines.push(format!("table {}: {entry:02x?}", info.name));
            if info.with_meters {
                let meter = switch.direct_meter(id, &entry.key, entry.priority);
                lines.push(format!("meter of {}: {meter:?}", info.name));
            }
        }
        lines.push(format!(
            "table {}: default {:02x?}",
            info.name,
            switch.default_action(id)
        ));
    }
    lines
}

fn arrays(switch: &Switch, program: &Program) -> Vec<String> {
    let mut lines = Vec::new();
    let ir = program.ir();
    for array in &ir.registers {
        let Some(id) = program.register(&array.name) else {
            continue;
        };
        let cells = (0..switch.register_size(id)).map(|at| (at, switch.register_cell(id, at)));
        let written: Vec<_> = cells
            .filter(|(_, cell)| !matches!(cell, Ok(bytes) if bytes == &[0]))
            .collect();
        lines.push(format!("register {}: {written:02x?}", array.name));
    }
    for array in &ir.counters {
        let Some(id) = program.counter(&array.name) else {
            continue;
        };
        let cells = (0..switch.counter_size(id)).map(|at| (at, switch.counter_cell(id, at)));
        let counted: Vec<_> = cells
            .filter(|(_, cell)| !matches!(cell, Ok(value) if *value == dataplane::CounterValue::default()))
            .collect();
        lines.push(format!("counter {}: {counted:?}", array.name));
    }
    lines
}
