//! Formats the results of a run: CSV for the report, JSON with data of the machine, and a table for the terminal.

use std::{fmt::Write as _, path::Path};

use serde_json::json;

use crate::{
    clock,
    measure::{Measured, Spread},
    workload::Workload,
};

/// Columns of `pipeline.csv`. The columns after `tsc_ticks_per_packet` say more about each result.
const PIPELINE_COLUMNS: &str = "program,engine,optimisations,packet_size_bytes,flows,ns_per_packet,\
    tsc_ticks_per_packet,part,variant,ns_per_packet_min,ns_per_packet_max,rounds,viewers,\
    copies_per_packet,ns_per_copy,checksum";

/// Columns of `growth.csv`.
const GROWTH_COLUMNS: &str = "program,engine,optimisations,grows,value,packet_size_bytes,flows,\
    ns_per_packet,tsc_ticks_per_packet,ns_per_packet_min,ns_per_packet_max,rounds,viewers,\
    copies_per_packet,ns_per_copy,checksum";

/// The results of one workload.
pub struct Result {
    pub workload: Workload,
    /// If the run measures how cost grows with a size, such as the number of viewers: the size's name and its value.
    pub growth: Option<(&'static str, usize)>,
    pub measured: Vec<Measured>,
    pub rounds: usize,
}

fn ticks(ticks: f64) -> String {
    // Zero ticks mean that there is no counter.
    if ticks > 0.0 {
        format!("{ticks:.1}")
    } else {
        String::new()
    }
}

impl Result {
    /// Returns the columns from `ns_per_packet_min` to the last.
    fn tail(&self, measured: &Measured, ns: &Spread) -> String {
        let viewers = if self.workload.pipeline.is_sfu() {
            self.workload.viewers.to_string()
        } else {
            String::new()
        };
        format!(
            "{:.2},{:.2},{},{viewers},{:.0},{:.2},{:016x}",
            ns.min,
            ns.max,
            self.rounds,
            measured.copies,
            ns.median / measured.copies.max(1.0),
            measured.checksum
        )
    }

    fn head(&self, measured: &Measured) -> String {
        let variant = &measured.variant;
        let program = self.workload.pipeline.name();
        format!("{program},{},{}", variant.engine(), variant.optimisations())
    }

    fn pipeline_rows(&self, out: &mut String) {
        let Workload {
            frame_bytes, flows, ..
        } = self.workload;
        for measured in &self.measured {
            let ticks_per_ns = measured.ticks.median / measured.ns.median;
            let whole = std::iter::once(("whole", &measured.ns));
            let parts = measured.parts.iter();
            for (part, ns) in whole.chain(parts.map(|(part, ns)| (part.name(), ns))) {
                let (head, tail) = (self.head(measured), self.tail(measured, ns));
                let ticks = ticks(ns.median * ticks_per_ns);
                let variant = measured.variant.roles.join("; ");
                // Writing to a string cannot fail.
                let _ = writeln!(
                    out,
                    "{head},{frame_bytes},{flows},{:.2},{ticks},{part},{variant},{tail}",
                    ns.median
                );
            }
        }
    }

    fn growth_rows(&self, out: &mut String) {
        let Workload {
            frame_bytes, flows, ..
        } = self.workload;
        let (grows, value) = self.growth.unwrap_or_default();
        for measured in &self.measured {
            let (head, tail) = (self.head(measured), self.tail(measured, &measured.ns));
            let ticks = ticks(measured.ticks.median);
            let _ = writeln!(
                out,
                "{head},{grows},{value},{frame_bytes},{flows},{:.2},{ticks},{tail}",
                measured.ns.median
            );
        }
    }

    /// Returns a table of the variants, each compared with the native engine without optimisations.
    pub fn table(&self) -> String {
        let Workload {
            pipeline,
            flows,
            frame_bytes,
            ..
        } = self.workload;
        let mut out = format!("{}, {frame_bytes} bytes, {flows} flows", pipeline.name());
        if pipeline.is_sfu() {
            let Workload {
                groups, viewers, ..
            } = self.workload;
            let _ = write!(out, ", {groups} groups of {viewers} viewers");
        }
        if let Some((grows, value)) = self.growth {
            let _ = write!(out, ", {grows} {value}");
        }
        let naive = self.measured.iter().find(|it| it.variant.is("naive"));
        for measured in &self.measured {
            let Spread { median, min, max } = measured.ns;
            let _ = write!(
                out,
                "\n  {:>10.1} ns ({min:.1} to {max:.1}), {:>9} ticks",
                median,
                ticks(measured.ticks.median)
            );
            if let Some(naive) = naive {
                let _ = write!(out, ", {:>6.1} %", median / naive.ns.median * 100.0);
            }
            let (engine, roles) = (measured.variant.engine(), measured.variant.roles.join("; "));
            let _ = write!(out, "  {engine}: {roles}");
            if measured.copies > 1.0 {
                let _ = write!(out, "; {:.1} ns a copy", median / measured.copies);
            }
            if !measured.parts.is_empty() {
                let parts = measured.parts.iter();
                let parts = parts.map(|(part, ns)| format!("{} {:.1}", part.name(), ns.median));
                let parts: Vec<String> = parts.collect();
                let _ = write!(out, "\n{:14}{}", "", parts.join(", "));
            }
        }
        out
    }
}

/// Returns the results of a run as CSV, with the columns of `growth.csv` if the run measures how cost grows with a
/// size.
pub fn csv(results: &[Result]) -> String {
    let is_growth = results.iter().any(|result| result.growth.is_some());
    let mut out = if is_growth {
        GROWTH_COLUMNS.to_owned()
    } else {
        PIPELINE_COLUMNS.to_owned()
    };
    out.push('\n');
    for result in results {
        if is_growth {
            result.growth_rows(&mut out)
        } else {
            result.pipeline_rows(&mut out)
        }
    }
    out
}

/// Returns a run as JSON, with data of the machine.
pub fn json(results: &[Result], cpu: Option<usize>) -> serde_json::Value {
    let text = csv(results);
    let mut lines = text.lines().map(|line| line.split(','));
    let columns: Vec<&str> = lines.next().map(Iterator::collect).unwrap_or_default();
    let row = |cells: std::str::Split<'_, char>| -> serde_json::Value {
        let pairs = columns.iter().zip(cells);
        let value = |cell: &str| {
            let number = cell.parse::<f64>().ok().map(|number| json!(number));
            number.unwrap_or_else(|| json!(cell))
        };
        pairs
            .map(|(name, cell)| ((*name).to_owned(), value(cell)))
            .collect()
    };
    json!({
        "command": std::env::args().collect::<Vec<_>>(),
        "processor": processor(),
        "cpu": cpu,
        "tsc_hz": clock::tsc_hz(),
        "rows": lines.map(row).collect::<Vec<_>>(),
    })
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut lines = text.lines();
    let line = lines.find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Creates a folder and writes `NAME.csv` and `NAME.json` into the folder.
///
/// # Errors
/// A file cannot be written. The error contains the file and the reason.
pub fn write(
    folder: &Path,
    name: &str,
    results: &[Result],
    cpu: Option<usize>,
) -> std::result::Result<(), String> {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    write(&folder.join(name).with_extension("csv"), csv(results))?;
    let json = format!("{:#}\n", json(results, cpu));
    write(&folder.join(name).with_extension("json"), json)
}
