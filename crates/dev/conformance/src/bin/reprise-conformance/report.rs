//! Reports one line per sample, and totals at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::known::Known;
use crate::sample::{Hit, Kind, Sample, Verdict};

pub struct Report<'k> {
    known: &'k Known,
    totals: BTreeMap<Kind, Total>,
    /// Entries of the table of known failures whose samples passed.
    stale: Vec<String>,
    lines: Vec<Value>,
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Total {
    pub n: usize,
    pub passed: usize,
    /// Number of samples that did not pass and are in the table of known failures.
    pub known: usize,
    /// Number of samples with nothing to compare, not included in `n`.
    pub left_out: usize,
    /// Number of refused samples for which p4c's error is known.
    pub with_place: usize,
    /// Number of samples in `with_place` that our compiler refuses on the line of p4c's error.
    pub on_line: usize,
    /// Number of samples in `with_place` whose first error is at the first place of one of p4c's errors.
    pub on_first: usize,
    /// Number of samples in `with_place` that are refused at another place only because they are not programs for
    /// v1model. p4c judges such samples without a back end.
    pub only_for_main: usize,
}

impl Total {
    /// Returns the number of failed samples that are not in the table.
    pub fn unexpected(&self) -> usize {
        self.n - self.passed - self.known
    }
}

impl<'k> Report<'k> {
    pub fn new(known: &'k Known) -> Self {
        Self {
            known,
            totals: BTreeMap::new(),
            stale: Vec::new(),
            lines: Vec::new(),
        }
    }

    pub fn add(&mut self, sample: &Sample, verdict: &Verdict, took: Duration) -> String {
        let kind = sample.check.kind();
        let total = self.totals.entry(kind).or_default();
        let is_left_out = matches!(verdict, Verdict::LeftOut(_));
        total.n += usize::from(!is_left_out);
        total.left_out += usize::from(is_left_out);
        let reason = self.known.reason(kind, &sample.name);
        let (word, text) = match verdict {
            Verdict::Passed => {
                total.passed += 1;
                ("pass", String::new())
            }
            Verdict::Refused {
                place,
                ours,
                only_for_main,
            } => {
                let is_elsewhere = *place == Hit::Elsewhere;
                total.only_for_main += usize::from(is_elsewhere && *only_for_main);
                total.passed += 1;
                total.with_place += usize::from(*place != Hit::Unknown);
                total.on_line += usize::from(matches!(place, Hit::First | Hit::Line));
                total.on_first += usize::from(*place == Hit::First);
                match place {
                    Hit::Elsewhere => ("elsewhere", ours.clone()),
                    _ => ("pass", String::new()),
                }
            }
            Verdict::LeftOut(message) => ("left out", message.clone()),
            Verdict::Failed(message) => match reason {
                Some(reason) => {
                    total.known += 1;
                    ("known", format!("{message} [{reason}]"))
                }
                None => ("FAIL", message.clone()),
            },
        };
        let is_stale = reason.is_some() && !matches!(verdict, Verdict::Failed(_));
        if is_stale {
            self.stale.push(format!("{} {}", kind.name(), sample.name));
        }
        self.lines.push(json!({
            "check": kind,
            "sample": sample.name,
            "result": word.to_ascii_lowercase(),
            "message": text,
            "known": reason,
            "took_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }));
        let line = format!("{word:9} {:8} {}", kind.name(), sample.name);
        if text.is_empty() {
            line
        } else {
            format!("{line}: {text}")
        }
    }

    /// Returns the known failures whose sample did not fail. If `is_whole` (no sample was left out), also returns the
    /// known failures whose sample does not exist, but only for the checks that ran.
    pub fn stale(&self, samples: &[Sample], is_whole: bool) -> Vec<String> {
        let mut stale = self.stale.clone();
        if is_whole {
            let has = |kind: Kind, name: &str| {
                samples
                    .iter()
                    .any(|sample| sample.check.kind() == kind && sample.name == name)
            };
            let entries = self.known.entries();
            let done = entries.filter(|(kind, _)| self.totals.contains_key(kind));
            let missing = done.filter(|(kind, name)| !has(*kind, name));
            stale.extend(
                missing.map(|(kind, name)| format!("{} {name} (no such sample)", kind.name())),
            );
        }
        stale
    }

    pub fn unexpected(&self) -> usize {
        self.totals.values().map(Total::unexpected).sum()
    }

    pub fn totals(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (kind, total) in &self.totals {
            let what = match kind {
                Kind::Accepted => "programs compile and load",
                Kind::Errors => "wrong programs are refused",
                Kind::Stf => "packet tests pass",
                Kind::P4Info => "P4Info messages are p4c's",
            };
            lines.push(format!(
                "{:8} {} {what}; {} known failures, {} unexpected",
                kind.name(),
                share(total.passed, total.n),
                total.known,
                total.unexpected()
            ));
            if total.left_out > 0 {
                lines.push(format!(
                    "         {} left out: refused here, and not listed for p4c's back end",
                    total.left_out
                ));
            }
            if total.with_place > 0 {
                lines.push(format!(
                    "         {} refused on p4c's line, {} with our first error there",
                    share(total.on_line, total.with_place),
                    share(total.on_first, total.with_place)
                ));
                lines.push(format!(
                    "         {} refused elsewhere, only because they have no `main` for v1model",
                    share(total.only_for_main, total.with_place)
                ));
            }
        }
        lines
    }

    pub fn json(&self, stale: &[String]) -> Value {
        let total = |total: &Total| {
            json!({
                "samples": total.n,
                "passed": total.passed,
                "known": total.known,
                "left_out": total.left_out,
                "unexpected": total.unexpected(),
                "with_place": total.with_place,
                "on_line": total.on_line,
                "on_first": total.on_first,
                "only_for_main": total.only_for_main,
            })
        };
        let totals = self
            .totals
            .iter()
            .map(|(kind, t)| (kind.name().to_owned(), total(t)));
        json!({
            "samples": self.lines,
            "totals": totals.collect::<serde_json::Map<_, _>>(),
            "stale": stale,
        })
    }
}

/// Returns a text like `3 of 4 (75.0 %)`. The percentage is rounded down, so that it is 100 only for all samples.
fn share(part: usize, whole: usize) -> String {
    let per_mille = (part * 1_000).checked_div(whole).unwrap_or(1_000);
    format!(
        "{part} of {whole} ({}.{} %)",
        per_mille / 10,
        per_mille % 10
    )
}
