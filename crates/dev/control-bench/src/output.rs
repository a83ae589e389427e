//! Prints the results as text or JSON: medians over the rounds, with minimum and maximum.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::measure::{Effort, Figures};

/// Returns the names of the values in order, each with the sorted values over the rounds.
fn by_name(rounds: &[Figures]) -> Vec<(&str, Vec<f64>)> {
    let names = rounds.first().map_or(&[][..], |first| &first.0);
    let of = |name: &str| {
        let values = rounds.iter().flat_map(|it| &it.0);
        let values = values.filter(|(it, _)| it == name).map(|(_, value)| *value);
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values
    };
    names.iter().map(|(name, _)| (&**name, of(name))).collect()
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn json(effort: &Effort, rows: &[(&'static str, Vec<Figures>)]) -> String {
    let rows = rows.iter().map(|(name, rounds)| {
        let figures = by_name(rounds).into_iter().map(|(name, sorted)| {
            let figure = json!({"median": median(&sorted), "rounds": sorted});
            (name.to_owned(), figure)
        });
        let figures: Map<String, Value> = figures.collect();
        json!({"switch": name, "figures": figures})
    });
    json!({
        "entries": effort.n_entries,
        "batch": effort.batch,
        "writes_per_s": effort.writes_per_s,
        "seconds": effort.seconds,
        "readers": effort.n_readers,
        "frames_per_s": effort.frames_per_s,
        "rows": rows.collect::<Vec<_>>(),
    })
    .to_string()
}

/// Returns the results as text: for each switch, the median, the minimum and the maximum of each value.
pub(crate) fn text(effort: &Effort, rows: &[(&'static str, Vec<Figures>)]) -> String {
    let mut text = format!(
        "{} entries, batches of {}, {} writes a second, {} readers, {} frames a second\n",
        effort.n_entries, effort.batch, effort.writes_per_s, effort.n_readers, effort.frames_per_s
    );
    for (name, rounds) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{name}, median of {} (least to most)", rounds.len());
        for (name, sorted) in by_name(rounds) {
            let (least, most) = (sorted.first(), sorted.last());
            let [median, least, most] =
                [Some(&median(&sorted)), least, most].map(|it| shown(it.copied()));
            let _ = writeln!(text, "{name:<40} {median:>12}   ({least} to {most})");
        }
    }
    text.trim_end().to_owned()
}

fn shown(value: Option<f64>) -> String {
    match value {
        Some(value) if value.fract() == 0.0 || value.abs() >= 1_000.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
        None => "none".to_owned(),
    }
}
