//! The commands that run p4c's own samples, any tree of programs, or one packet test.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

use conformance::engines::{choices, native_failures};
use indicatif::{ProgressBar, ProgressStyle};
use p4_compiler::Options;
use serde_json::{Value, json};

use crate::args::Args;
use crate::checkout;
use crate::failure::Failure;
use crate::files;
use crate::known::Known;
use crate::output;
use crate::pool::{self, Answer, Pool};
use crate::report::Report;
use crate::sample::{Job, Sample};
use crate::tree::{self, Plan, Subject};

pub fn run(args: &Args) -> Result<(), Failure> {
    match (&args.corpus.p4c, &args.corpus.tree) {
        (Some(root), _) => samples(args, root),
        (_, Some(root)) => programs(args, root),
        _ => Err(Failure::new("expected --p4c or --tree, found neither")),
    }
}

/// Runs a packet test with every choice of optimisations.
pub fn packet_test(args: &Args, program: &Path, test: &Path) -> Result<(), Failure> {
    let program = stf::load(program, &Options::default())?;
    let choices = choices();
    let failures = native_failures(&program, test, &choices);
    let (name, n_choices) = (test.display().to_string(), choices.len());
    if !args.json {
        failures.iter().for_each(output::error_line);
        if failures.is_empty() {
            output::text(format!(
                "{name}: ok with {n_choices} choices of optimisations"
            ));
        }
    }
    let failure = (!failures.is_empty()).then(|| {
        let n = output::count(failures.len(), "failure");
        Failure::in_file(test, &n)
    });
    let document = json!({ "test": name, "choices": n_choices, "failures": failures });
    conclude(args, document, failure)
}

fn pool_of(args: &Args) -> Pool {
    Pool {
        n_workers: args.jobs.map_or_else(pool::processors, NonZero::get),
        time_limit: Duration::from_secs(args.time_limit_s),
        memory_limit_mib: args.memory_limit_mib,
    }
}

fn is_wanted(args: &Args, name: &str) -> bool {
    let filter = args.filter.as_ref();
    filter.is_none_or(|part| name.contains(part.as_str()))
}

fn samples(args: &Args, root: &Path) -> Result<(), Failure> {
    let known = match &args.known {
        Some(path) => {
            let text = files::text(path, "a document with a table of known failures")?;
            Known::read(&text).map_err(|error| Failure::in_file(path, &error))?
        }
        None => Known::built_in().map_err(Failure::new)?,
    };
    let checkout = checkout::read(root)?;
    let is_wanted = |sample: &Sample| {
        args.only.is_none_or(|only| only == sample.check.kind()) && is_wanted(args, &sample.name)
    };
    let mut samples: Vec<Sample> = checkout.samples.into_iter().filter(is_wanted).collect();
    if samples.is_empty() {
        let error = "--only and --filter select no sample";
        return Err(Failure::in_file(root, &error));
    }
    for sample in &mut samples {
        sample.optimise = args.optimise;
    }
    let mut report = Report::new(&known);
    let jobs: Vec<Job> = samples.iter().cloned().map(Job::Sample).collect();
    judge(args, &jobs, |position, verdict, took| {
        Some(report.add(&samples[position], &verdict, took))
    })?;
    let stale = report.stale(&samples, args.filter.is_none());
    if !args.json {
        summarize(&report, &stale, &checkout.skipped);
    }
    let failure = (report.unexpected() > 0).then(|| {
        let (n, of) = (report.unexpected(), samples.len());
        Failure::new(format!(
            "{n} of {of} samples failed unexpectedly (not in the table of known failures)"
        ))
    });
    conclude(args, report.json(&stale), failure)
}

/// Ends a command. If there is a failure, returns it together with the document. If there is none, prints the document,
/// but only with `--json`. The caller has already printed the findings as text.
pub fn conclude(args: &Args, document: Value, failure: Option<Failure>) -> Result<(), Failure> {
    match failure {
        Some(failure) => return Err(failure.with(document)),
        None if args.json => output::json(&document),
        None => {}
    }
    Ok(())
}

fn programs(args: &Args, root: &Path) -> Result<(), Failure> {
    let defines = args.tree.defines.iter();
    let plan = Plan {
        root: root.to_owned(),
        include_dirs: args.tree.include_dirs.clone(),
        defines: defines
            .map(|text| Options::parse_define(text).map_err(Failure::new))
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
        let mut expected = "P4 files below this folder".to_owned();
        if let Some(part) = &args.filter {
            expected.push_str(&format!(" whose path contains \"{part}\" (--filter)"));
        }
        let error = format!("expected {expected}, found none");
        return Err(Failure::in_file(root, &error));
    }
    let jobs: Vec<Job> = subjects.iter().cloned().map(Job::Program).collect();
    let mut report = tree::Report::default();
    judge(args, &jobs, |position, verdict, took| {
        report.add(&subjects[position], &verdict, took)
    })?;
    if !args.json {
        output::text("");
        report.totals().iter().for_each(output::text);
        output::text(format!("seed {}", plan.seed));
    }
    let failure = (report.n_faults() > 0).then(|| {
        let faults = output::count(report.n_faults(), "fault");
        Failure::in_file(root, &format!("{faults} of Reprise (see the totals)"))
    });
    conclude(args, report.json(), failure)
}

/// Runs the jobs, and prints the lines that `line` makes from the answers, in the order of the jobs.
fn judge<A: Answer>(
    args: &Args,
    jobs: &[Job],
    mut line: impl FnMut(usize, A, Duration) -> Option<String>,
) -> Result<(), Failure> {
    let bar = ProgressBar::new(jobs.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    let run = pool::run(pool_of(args), jobs, |(position, answer, took)| {
        bar.inc(1);
        let line = line(position, answer, took).filter(|_| !args.json);
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
