//! `reprise conformance`: runs p4c's own samples, or any tree of programs, through our compiler and switch.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::args::{Conformance, Global};
use crate::compiler;
use crate::conformance::tree::{self, Plan, Subject};
use crate::conformance::{self, Answer, Job, Known, Pool, Report, Sample};
use crate::failure::Failure;
use crate::files;
use crate::output;

pub fn run(global: &Global, args: &Conformance) -> Result<(), Failure> {
    match (&args.corpus.p4c, &args.corpus.tree) {
        (Some(checkout), _) => samples(global, args, checkout),
        (_, Some(root)) => programs(global, args, root),
        _ => Err(Failure::new("expected --p4c or --tree, found neither")),
    }
}

fn pool(args: &Conformance) -> Pool {
    let n_jobs = args
        .jobs
        .or_else(|| std::thread::available_parallelism().ok());
    Pool {
        n_workers: n_jobs.map_or(1, NonZero::get),
        time_limit: Duration::from_secs(args.time_limit_s),
        memory_limit_mib: args.memory_limit_mib,
    }
}

fn is_wanted(args: &Conformance, name: &str) -> bool {
    let filter = args.filter.as_ref();
    filter.is_none_or(|part| name.contains(part.as_str()))
}

fn samples(global: &Global, args: &Conformance, checkout: &Path) -> Result<(), Failure> {
    let known = match &args.known {
        Some(path) => {
            let text = files::text(path, "a document with a table of known failures")?;
            Known::read(&text).map_err(|error| Failure::in_file(path, &error))?
        }
        None => Known::built_in().map_err(Failure::new)?,
    };
    let root = checkout;
    let checkout = conformance::checkout(root)?;
    let is_wanted = |sample: &Sample| {
        args.only.is_none_or(|only| only == sample.check.kind()) && is_wanted(args, &sample.name)
    };
    let mut samples: Vec<Sample> = checkout.samples.into_iter().filter(is_wanted).collect();
    if samples.is_empty() {
        return Err(Failure::new(format!(
            "{}: no sample is left by --only and --filter",
            root.display()
        )));
    }
    for sample in &mut samples {
        sample.optimise = args.optimise;
    }
    let mut report = Report::new(&known);
    let jobs: Vec<Job> = samples.iter().cloned().map(Job::Sample).collect();
    judge(global, pool(args), &jobs, |position, verdict, took| {
        Some(report.add(&samples[position], &verdict, took))
    })?;
    let stale = report.stale(&samples, args.filter.is_none());
    if !global.json {
        summarize(&report, &stale, &checkout.skipped);
    }
    let failure = (report.unexpected() > 0).then(|| {
        let (n, of) = (report.unexpected(), samples.len());
        Failure::new(format!("{n} of {of} samples failed that are not known to"))
    });
    conclude(global, report.json(&stale), failure)
}

fn conclude(global: &Global, document: Value, failure: Option<Failure>) -> Result<(), Failure> {
    match failure {
        Some(failure) => return Err(failure.with(document)),
        None if global.json => output::json(&document),
        None => {}
    }
    Ok(())
}

fn programs(global: &Global, args: &Conformance, root: &Path) -> Result<(), Failure> {
    let defines = args.tree.defines.iter();
    let plan = Plan {
        root: root.to_owned(),
        include_dirs: args.tree.include_dirs.clone(),
        defines: defines
            .map(|text| compiler::parse_define(text))
            .collect::<Result<_, _>>()?,
        optimise: args.optimise,
        packets: args.tree.packets,
        seed: args.tree.seed,
    };
    let names = tree::programs(root)?.into_iter();
    let subjects = names
        .filter(|name| is_wanted(args, name))
        .map(|name| Subject {
            name,
            plan: plan.clone(),
        });
    let subjects: Vec<Subject> = subjects.collect();
    if subjects.is_empty() {
        return Err(Failure::in_file(
            root,
            &"expected a folder with P4 files below it that --filter leaves, found none",
        ));
    }
    let jobs: Vec<Job> = subjects.iter().cloned().map(Job::Program).collect();
    let mut report = tree::Report::default();
    judge(global, pool(args), &jobs, |position, verdict, took| {
        report.add(&subjects[position], &verdict, took)
    })?;
    if !global.json {
        output::text("");
        report.totals().iter().for_each(output::text);
        output::text(format!("seed {}", plan.seed));
    }
    let failure = (report.n_faults() > 0).then(|| {
        let faults = format!(
            "{} faults of ours, which the totals name",
            report.n_faults()
        );
        Failure::in_file(root, &faults)
    });
    conclude(global, report.json(), failure)
}

/// Runs the jobs; prints lines in the order of the jobs.
fn judge<A: Answer>(
    global: &Global,
    pool: Pool,
    jobs: &[Job],
    mut line: impl FnMut(usize, A, Duration) -> Option<String>,
) -> Result<(), Failure> {
    let bar = ProgressBar::new(jobs.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    let run = conformance::run(pool, jobs, |(position, answer, took)| {
        bar.inc(1);
        let line = line(position, answer, took).filter(|_| !global.json);
        if let Some(line) = line {
            bar.suspend(|| output::text(line));
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
