//! `reprise conformance`: p4c's own samples through our compiler and switch.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Conformance, Global};
use crate::conformance::{self, Known, Pool, Report, Sample};
use crate::failure::Failure;
use crate::files;
use crate::output;

pub fn run(global: &Global, args: &Conformance) -> Result<(), Failure> {
    let known = match &args.known {
        Some(path) => {
            let text = files::text(path, "a document with a table of known failures")?;
            Known::read(&text).map_err(|error| Failure::in_file(path, &error))?
        }
        None => Known::built_in().map_err(Failure::new)?,
    };
    let checkout = conformance::checkout(&args.p4c)?;
    let is_wanted = |sample: &Sample| {
        args.only.is_none_or(|only| only == sample.check.kind())
            && args
                .filter
                .as_ref()
                .is_none_or(|part| sample.name.contains(part.as_str()))
    };
    let mut samples: Vec<Sample> = checkout.samples.into_iter().filter(is_wanted).collect();
    if samples.is_empty() {
        return Err(Failure::new(format!(
            "{}: no sample is left by --only and --filter",
            args.p4c.display()
        )));
    }
    for sample in &mut samples {
        sample.optimise = args.optimise;
    }
    let n_jobs = args
        .jobs
        .or_else(|| std::thread::available_parallelism().ok());
    let pool = Pool {
        n_jobs: n_jobs.map_or(1, NonZero::get),
        time_limit: Duration::from_secs(args.time_limit_s),
    };
    let mut report = Report::new(&known);
    judge(global, pool, &samples, &mut report)?;
    let stale = report.stale(&samples, args.filter.is_none());
    if global.json {
        output::json(&report.json(&stale));
    } else {
        summarize(&report, &stale, &checkout.skipped);
    }
    match report.unexpected() {
        0 => Ok(()),
        n => Err(Failure::new(format!(
            "{n} of {} samples failed that are not known to",
            samples.len()
        ))),
    }
}

/// Runs the samples; lines come in the samples' order.
fn judge(
    global: &Global,
    pool: Pool,
    samples: &[Sample],
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let bar = ProgressBar::new(samples.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    let mut early = BTreeMap::new();
    let mut next = 0;
    let run = conformance::run(pool, samples, |(position, verdict, took)| {
        bar.inc(1);
        early.insert(position, (verdict, took));
        while let Some((verdict, took)) = early.remove(&next) {
            let line = report.add(&samples[next], &verdict, took);
            if !global.json {
                bar.suspend(|| output::text(line));
            }
            next += 1;
        }
    });
    bar.finish_and_clear();
    run
}

fn summarize(report: &Report<'_>, stale: &[String], skipped: &BTreeMap<&'static str, usize>) {
    output::text("");
    for (reason, n) in skipped {
        output::text(format!("left out of errors: {n}, {reason}"));
    }
    for entry in stale {
        output::text(format!("stale in the table of known failures: {entry}"));
    }
    report.totals().iter().for_each(output::text);
}
