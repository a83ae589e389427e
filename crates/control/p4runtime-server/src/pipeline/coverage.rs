//! Logs where a P4Info differs from its program: objects that the P4Info lacks, and tables with another size.
//!
//! Neither difference is refused: BMv2's simple_switch_grpc does not compare P4Info and program (PI/src/pi_imp.cpp,
//! `_pi_update_device_start`), and a controller may omit objects on purpose. But a controller can neither write nor
//! read an object that the P4Info lacks, hence the warning.

use dataplane::Program;
use p4runtime_proto::p4::config::v1::{P4Info, Preamble};

/// How many names one log line shows.
const NAMES_SHOWN: usize = 5;

/// Logs at most one line for each of the two differences.
pub(super) fn log(p4info: &P4Info, program: &Program) {
    let lacks = left_out(p4info, program);
    if !lacks.is_empty() {
        let (objects, names) = (lacks.len(), shown(&lacks));
        tracing::warn!(
            event = "p4info_lacks",
            objects,
            "no controller can write or read what the device config has and the P4Info lacks: {names}"
        );
    }
    let sizes = other_sizes(p4info, program);
    if !sizes.is_empty() {
        let (tables, sizes) = (sizes.len(), shown(&sizes));
        tracing::warn!(
            event = "p4info_sizes",
            tables,
            "these tables have the size in the device config, not the one in the P4Info: {sizes}"
        );
    }
}

fn left_out(p4info: &P4Info, program: &Program) -> Vec<String> {
    fn has<T>(objects: &[T], preamble: impl Fn(&T) -> Option<&Preamble>, name: &str) -> bool {
        let mut names = objects.iter().filter_map(preamble);
        names.any(|preamble| preamble.name == name)
    }
    let tables = program.tables().map(|(_, info)| info);
    let tables = tables.filter(|info| {
        !info.is_generated() && !has(&p4info.tables, |t| t.preamble.as_ref(), &info.name)
    });
    let tables = tables.map(|info| format!("table \"{}\"", info.name));
    let counters = program.counters().map(|(_, name)| name);
    let counters = counters.filter(|name| !has(&p4info.counters, |c| c.preamble.as_ref(), name));
    let counters = counters.map(|name| format!("counter \"{name}\""));
    let registers = program.registers().map(|(_, name)| name);
    let registers = registers.filter(|name| !has(&p4info.registers, |r| r.preamble.as_ref(), name));
    let registers = registers.map(|name| format!("register \"{name}\""));
    tables.chain(counters).chain(registers).collect()
}

/// Returns the tables whose size in the P4Info differs from the size in the program. Ignores size 0, which guarantees
/// nothing. Also ignores tables to which no controller adds entries, because p4c writes its default size for such
/// tables.
fn other_sizes(p4info: &P4Info, program: &Program) -> Vec<String> {
    let line = |table: &p4runtime_proto::p4::config::v1::Table| {
        let name = &table.preamble.as_ref()?.name;
        let info = program.table_info(program.table(name)?)?;
        let (found, promised) = (info.size, usize::try_from(table.size).ok()?);
        let takes_entries = !info.is_const && !info.key.is_empty();
        let differs = takes_entries && promised != 0 && promised != found;
        differs.then(|| format!("table \"{name}\" {found}, not {promised}"))
    };
    p4info.tables.iter().filter_map(line).collect()
}

fn shown(items: &[String]) -> String {
    let first = &items[..items.len().min(NAMES_SHOWN)];
    match items.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
