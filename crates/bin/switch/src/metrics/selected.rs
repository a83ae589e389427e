//! Shows counters of the program, for each cell of an array and for each entry of a table. Shows only the counters that
//! were asked for, within a limit of series.
//!
//! The switch does not know what a program counts: a conference's program counts by group and viewer, in counter arrays
//! and in the direct counters of its tables. The counters are read a few cells or entries at a time, so that a large
//! table delays packets no more than a small one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use control::Device;
use data_encoding::HEXLOWER;
use dataplane::{CounterValue, KeyField, MatchField, Switch, TableEntry, TableInfo};

use super::{Labels, Metrics};

/// Cells or entries that one event-loop iteration reads, which takes some tens of microseconds.
const CHUNK: usize = 512;

/// Key fields up to this width are shown in decimal: most are ports, groups or instances. Wider fields are shown in
/// hexadecimal, since most are addresses.
const DECIMAL_BITS_MAX: u32 = 16;

#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Counter arrays, by their fully qualified names.
    pub(crate) counters: Vec<String>,
    /// Tables with direct counters, by their fully qualified names.
    pub(crate) tables: Vec<String>,
    /// Maximum number of series, of all selected counters and tables together.
    pub(crate) series_max: usize,
    /// Names that were logged already, because the limit leaves out some of their series or the program lacks them.
    pub(crate) logged: Mutex<BTreeSet<String>>,
}

#[derive(Debug, Default)]
pub(crate) struct Selected {
    cells: Vec<Cell>,
    entries: Vec<Entry>,
    /// How many cells or entries of each counter or table were left out because of the limit.
    left_out: Vec<(String, u64)>,
    /// Names that the program does not have, or that have no counters.
    unknown: Vec<String>,
}

#[derive(Debug)]
struct Cell {
    counter: String,
    index: u64,
    value: CounterValue,
}

#[derive(Debug)]
struct Entry {
    table: String,
    labels: Vec<(String, String)>,
    value: CounterValue,
}

/// The number of series that may still be shown; a cell or an entry takes two, one for packets and one for bytes.
struct Room(usize);

impl Room {
    fn n_pairs(&self) -> usize {
        self.0 / 2
    }

    fn take(&mut self) -> bool {
        let has_some = self.0 >= 2;
        if has_some {
            self.0 -= 2;
        }
        has_some
    }
}

/// Reads everything selected; `None` if the switch has stopped.
pub(crate) async fn read(device: &Device, selection: &Selection) -> Option<Selected> {
    let mut selected = Selected::default();
    let mut room = Room(selection.series_max);
    for name in &selection.counters {
        counter(device, name, &mut room, &mut selected).await?;
    }
    for name in &selection.tables {
        entries(device, name, &mut room, &mut selected).await?;
    }
    selection.log(&selected);
    Some(selected)
}

/// Runs `question` in every worker; returns the answers in the order of the workers.
async fn ask<T: Send + 'static>(
    device: &Device,
    question: impl Fn(&Switch) -> T + Send + Sync + 'static,
) -> Option<Vec<T>> {
    let answers = device.submit(move |_, context| {
        context.switch.collect();
        question(context.switch)
    });
    answers.all().await.ok()
}

/// Returns the cells that are not zero, and the array's size; `None` if there is no such array.
fn cells(
    switch: &Switch,
    name: &str,
    range: Range<usize>,
) -> Option<(Vec<(u64, CounterValue)>, usize)> {
    let counter = switch.program()?.counter(name)?;
    let n_cells = switch.counter_size(counter) as usize;
    let cells = range.start..range.end.min(n_cells);
    let cells = cells.filter_map(|index| {
        let value = switch.counter_cell(counter, index as u64).ok()?;
        (value != CounterValue::default()).then_some((index as u64, value))
    });
    Some((cells.collect(), n_cells))
}

async fn counter(
    device: &Device,
    name: &str,
    room: &mut Room,
    selected: &mut Selected,
) -> Option<()> {
    let mut first = 0;
    loop {
        let (asked, range) = (name.to_owned(), first..first + CHUNK);
        let answers = ask(device, move |switch| cells(switch, &asked, range.clone())).await?;
        let mut n_cells = 0;
        let mut values: BTreeMap<u64, CounterValue> = BTreeMap::new();
        for (cells, size) in answers.into_iter().flatten() {
            n_cells = size;
            for (index, value) in cells {
                add(values.entry(index).or_default(), value);
            }
        }
        if n_cells == 0 {
            selected.unknown.push(name.to_owned());
            return Some(());
        }
        for (index, value) in values {
            if !room.take() {
                // All cells from `index` on count as left out, although some may be zero.
                let n_left_out = n_cells as u64 - index;
                selected.left_out.push((name.to_owned(), n_left_out));
                return Some(());
            }
            let counter = name.to_owned();
            selected.cells.push(Cell {
                counter,
                index,
                value,
            });
        }
        first += CHUNK;
        if first >= n_cells {
            return Some(());
        }
    }
}

fn add(ours: &mut CounterValue, theirs: CounterValue) {
    ours.packets = ours.packets.wrapping_add(theirs.packets);
    ours.bytes = ours.bytes.wrapping_add(theirs.bytes);
}

struct Part {
    entries: Vec<TableEntry>,
    info: TableInfo,
    n_entries: usize,
    n_places: usize,
}

/// Reads the entries in a range of the table's places; each place may hold one entry. Returns `None` if the table has
/// no direct counters.
fn part(switch: &Switch, name: &str, places: Range<usize>) -> Option<Part> {
    let table = switch.program()?.table(name)?;
    let info = switch.program()?.table_info(table)?.clone();
    info.with_counters.then(|| Part {
        entries: switch.entries_in(table, places),
        info,
        n_entries: switch.entry_count(table),
        n_places: switch.entry_places(table),
    })
}

async fn entries(
    device: &Device,
    name: &str,
    room: &mut Room,
    selected: &mut Selected,
) -> Option<()> {
    let mut shown: Vec<TableEntry> = Vec::new();
    let mut others: HashMap<(Vec<MatchField>, i32), CounterValue> = HashMap::new();
    let mut first = 0;
    let (info, n_entries) = loop {
        let (asked, places) = (name.to_owned(), first..first + CHUNK);
        let answers = ask(device, move |switch| part(switch, &asked, places.clone())).await?;
        let mut parts = answers.into_iter().flatten();
        let Some(part) = parts.next() else {
            selected.unknown.push(name.to_owned());
            return Some(());
        };
        shown.extend(part.entries);
        // Every worker has the same entries, so the other workers' counters are added to the first worker's.
        for entry in parts.flat_map(|other| other.entries) {
            let key = (entry.key, entry.priority);
            add(others.entry(key).or_default(), entry.counter);
        }
        first += CHUNK;
        if first >= part.n_places || shown.len() > room.n_pairs() {
            break (part.info, part.n_entries);
        }
    };
    let n_pairs = room.n_pairs();
    let n_left_out = n_entries.saturating_sub(n_pairs);
    if n_left_out > 0 {
        selected.left_out.push((name.to_owned(), n_left_out as u64));
    }
    for (number, entry) in (1..).zip(shown.into_iter().take(n_pairs)) {
        room.take();
        let labels = labels(&info, &entry, number);
        let mut value = entry.counter;
        if let Some(theirs) = others.get(&(entry.key, entry.priority)) {
            add(&mut value, *theirs);
        }
        selected.entries.push(Entry {
            table: name.to_owned(),
            labels,
            value,
        });
    }
    Some(())
}

/// Makes a label for each key field, and one for the priority if the table has priorities. Entries with a secret in the
/// key are distinguished by numbers.
fn labels(info: &TableInfo, entry: &TableEntry, number: usize) -> Vec<(String, String)> {
    let mut labels: Vec<(String, String)> = Vec::new();
    for (field, matched) in info.key.iter().zip(&entry.key) {
        let mut name = label_name(&field.name);
        // Two fields may differ only in a character that is not legal in a label's name.
        while labels.iter().any(|(other, _)| *other == name) {
            name.push('_');
        }
        labels.push((name, shown(field, matched)));
    }
    if info.key.iter().any(|field| field.is_secret) {
        labels.push(("entry".to_owned(), number.to_string()));
    }
    if info.has_priority() {
        labels.push(("priority".to_owned(), entry.priority.to_string()));
    }
    labels
}

/// Makes the name of a label from the name of a key field: `key_headers_ipv4_dst_addr` from `headers.ipv4.dst_addr`.
fn label_name(field: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("key_{}", field.chars().map(legal).collect::<String>())
}

fn shown(field: &KeyField, matched: &MatchField) -> String {
    if field.is_secret {
        return "<secret>".to_owned();
    }
    let number = |bytes: &[u8]| number(field.width_bits, bytes);
    match matched {
        MatchField::Exact(value) => number(value),
        MatchField::Lpm { value, prefix_len } => format!("{}/{prefix_len}", number(value)),
        MatchField::Ternary { mask, .. } if mask.iter().all(|byte| *byte == 0) => "*".to_owned(),
        MatchField::Ternary { value, mask } => format!("{}&{}", number(value), hex(mask)),
        MatchField::Range { low, high } => format!("{}..{}", number(low), number(high)),
        MatchField::Optional(Some(value)) => number(value),
        MatchField::Optional(None) => "*".to_owned(),
    }
}

fn number(width_bits: u32, bytes: &[u8]) -> String {
    if width_bits > DECIMAL_BITS_MAX {
        return hex(bytes);
    }
    let value = bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    value.to_string()
}

/// Leaves out leading zero bytes, so that a value has only one form.
fn hex(bytes: &[u8]) -> String {
    let n_zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let n_zeros = n_zeros.min(bytes.len().saturating_sub(1));
    format!("0x{}", HEXLOWER.encode(&bytes[n_zeros..]))
}

impl Selection {
    /// Logs the names that the program lacks, and those whose series are partly left out. Each name is logged once, and
    /// again only if the fault had ended in between.
    fn log(&self, selected: &Selected) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *logged);
        for (of, left_out) in &selected.left_out {
            if !before.contains(of) {
                let series_max = self.series_max;
                tracing::warn!(
                    event = "metrics_cut",
                    of,
                    left_out,
                    series_max,
                    "metrics: {left_out} of \"{of}\" are left out beyond {series_max} series (--metrics-series)"
                );
            }
            logged.insert(of.clone());
        }
        for of in &selected.unknown {
            if !before.contains(of) {
                tracing::warn!(
                    event = "metrics_unknown",
                    of,
                    "metrics: the program has no counter and no table with direct counters \"{of}\""
                );
            }
            logged.insert(of.clone());
        }
    }
}

pub(super) fn render(metrics: &mut Metrics, selected: &Selected) {
    type Part = (&'static str, fn(CounterValue) -> u64);
    let parts: [Part; 2] = [("packets", |it| it.packets), ("bytes", |it| it.bytes)];
    for (unit, read) in parts {
        let name = format!("reprise_counter_{unit}_total");
        let help = "Selected counter arrays of the program: the cells that have counted.";
        metrics.family(&name, "counter", help);
        for cell in &selected.cells {
            let labels: Labels<'_> = &[("counter", &cell.counter), ("index", &cell.index)];
            metrics.sample(&name, labels, read(cell.value));
        }
    }
    for (unit, read) in parts {
        let name = format!("reprise_entry_{unit}_total");
        let help = "Direct counters of tables that were asked for, by the entry's key.";
        metrics.family(&name, "counter", help);
        for entry in &selected.entries {
            let key = entry.labels.iter();
            let key = key.map(|(name, value)| (name.as_str(), value as &dyn std::fmt::Display));
            let labels: Vec<_> = std::iter::once(("table", &entry.table as &dyn std::fmt::Display))
                .chain(key)
                .collect();
            metrics.sample(&name, &labels, read(entry.value));
        }
    }
    let name = "reprise_metrics_left_out";
    let help = "Cells or entries that are not shown, beyond --metrics-series.";
    metrics.family(name, "gauge", help);
    for (of, left_out) in &selected.left_out {
        metrics.sample(name, &[("of", of)], left_out);
    }
    let name = "reprise_metrics_unknown";
    let help = "1 for each selected name that is no counter, and no table with direct counters, of the program.";
    metrics.family(name, "gauge", help);
    for of in &selected.unknown {
        metrics.sample(name, &[("of", of)], 1);
    }
}

#[cfg(test)]
mod tests {
    use dataplane::MatchKind;

    use super::*;

    #[test]
    fn keys_are_shown_in_one_form_each() {
        let shown_as = |width_bits, matched: MatchField| {
            let field = KeyField {
                name: "a.b".into(),
                kind: MatchKind::Exact,
                width_bits,
                is_signed: false,
                is_secret: false,
            };
            shown(&field, &matched)
        };
        let exact = |bytes: &[u8]| MatchField::Exact(bytes.to_vec());
        assert_eq!(shown_as(16, exact(&[1, 0])), "256");
        assert_eq!(shown_as(16, exact(&[0, 1, 0])), "256");
        assert_eq!(shown_as(32, exact(&[10, 0, 0, 5])), "0x0a000005");
        assert_eq!(shown_as(48, exact(&[0, 0, 2])), "0x02");
        assert_eq!(shown_as(32, exact(&[0])), "0x00");
        let lpm = MatchField::Lpm {
            value: vec![10, 0, 0, 0],
            prefix_len: 8,
        };
        assert_eq!(shown_as(32, lpm), "0x0a000000/8");
        let anything = MatchField::Ternary {
            value: vec![0],
            mask: vec![0],
        };
        assert_eq!(shown_as(32, anything), "*");
        assert_eq!(shown_as(9, MatchField::Optional(None)), "*");
        let range = MatchField::Range {
            low: vec![5],
            high: vec![1, 4],
        };
        assert_eq!(shown_as(16, range), "5..260");
        assert_eq!(label_name("hdr.ipv4.dst[0]"), "key_hdr_ipv4_dst_0_");
    }
}
