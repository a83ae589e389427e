//! A worker reads jobs from standard input, one per line, and writes each verdict as a line to standard output. A
//! worker is a separate process, so a program that crashes, hangs or exhausts memory ends only the worker.

use std::io::{BufRead, Write, stdin, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use conformance::controller::refusal;
use p4_compiler::{Diagnostic, Options, Output, Severity};

use crate::failure::Failure;
use crate::fuzz::{Fuzzer, Tried};
use crate::golden::Place;
use crate::p4info::{self, Differs};
use crate::pool::{Answer, Ended};
use crate::sample::{Check, Hit, Job, Sample, Verdict, hit};
use crate::tree::Trees;

/// The error codes for a missing `main`, and for a `main` with another package than v1model's.
const FOR_MAIN: [&str; 2] = ["E0507", "E0602"];

pub fn work() -> Result<(), Failure> {
    let mut trees = Trees::new()?;
    let mut fuzzer = Fuzzer::default();
    for line in stdin().lock().lines() {
        let mut answer = match serde_json::from_str(&line?)? {
            Job::Sample(sample) => {
                let verdict = catch_unwind(|| judge(&sample));
                serde_json::to_vec(&verdict.unwrap_or_else(|panic| panicked(&*panic)))?
            }
            Job::Program(subject) => {
                let judge = AssertUnwindSafe(|| trees.judge(&subject));
                let verdict = catch_unwind(judge).unwrap_or_else(|panic| Ok(panicked(&*panic)))?;
                serde_json::to_vec(&verdict)?
            }
            Job::Case { seed, number } => {
                let judge = AssertUnwindSafe(|| fuzzer.judge(seed, number));
                let tried: Tried =
                    catch_unwind(judge).unwrap_or_else(|panic| Ok(panicked(&*panic)))?;
                serde_json::to_vec(&tried)?
            }
        };
        answer.push(b'\n');
        let mut out = stdout().lock();
        out.write_all(&answer)?;
        out.flush()?;
    }
    Ok(())
}

fn panicked<A: Answer>(panic: &(dyn std::any::Any + Send)) -> A {
    A::of_ended(Ended::Crashed(format!("panic: {}", message(panic))))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

fn judge(sample: &Sample) -> Verdict {
    let options = Options {
        emit_externs: sample.emit_externs,
        optimise: sample.optimise,
        ..Options::default()
    };
    match &sample.check {
        Check::Accepted => match accepted(&sample.path, &options) {
            Ok(()) => Verdict::Passed,
            Err(message) => Verdict::Failed(message),
        },
        Check::Refused { errors } => match diagnostics(&sample.path, &options) {
            Ok((true, _)) => Verdict::Failed("accepted".to_owned()),
            Ok((false, ours)) => Verdict::Refused {
                place: errors
                    .as_ref()
                    .map_or(Hit::Unknown, |theirs| hit(&places(&ours), theirs)),
                only_for_main: errors_of(&ours)
                    .all(|error| FOR_MAIN.contains(&error.code.as_str())),
                ours: first_error(&ours),
            },
            Err(message) => Verdict::Failed(message),
        },
        Check::Packets { program } => packets((program, &sample.path), &options),
        Check::P4Info { golden, is_listed } => {
            match p4info::compare(&sample.path, golden, &options) {
                Ok(()) => Verdict::Passed,
                Err(Differs::Refused(message)) if !is_listed => Verdict::LeftOut(message),
                Err(Differs::Refused(message) | Differs::So(message)) => Verdict::Failed(message),
            }
        }
    }
}

fn packets((program, test): (&Path, &Path), options: &Options) -> Verdict {
    let commands = std::fs::read_to_string(test)
        .map_err(|error| error.to_string())
        .and_then(|text| stf::parse(&text).map_err(|error| error.to_string()));
    let loaded = stf::load(program, options).map_err(|error| error.to_string());
    let outcome = match (commands, loaded) {
        (Ok(commands), Ok(program)) => stf::run(program, &commands, None),
        (Err(error), _) | (_, Err(error)) => return Verdict::Failed(error),
    };
    match outcome.failures.split_first() {
        None => Verdict::Passed,
        Some((first, others)) => {
            let first = first.to_string();
            let mut lines = first.lines();
            let mut message = lines.next().unwrap_or_default().to_owned();
            if !others.is_empty() {
                message.push_str(&format!(" (and {} more)", others.len()));
            }
            Verdict::Failed(message)
        }
    }
}

pub fn output(path: &Path, options: &Options) -> Result<Output, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    let provider = |path: &str| std::fs::read_to_string(path).ok();
    let name = path.display().to_string();
    Ok(p4_compiler::compile(&name, &text, &provider, options))
}

fn diagnostics(path: &Path, options: &Options) -> Result<(bool, Vec<Diagnostic>), String> {
    let output = output(path, options)?;
    Ok((output.bmv2_json.is_some(), output.diagnostics))
}

/// Compiles a program, and checks that a controller can load the program with its P4Info.
fn accepted(path: &Path, options: &Options) -> Result<(), String> {
    let output = output(path, options)?;
    let (Some(p4info), Some(json)) = (output.p4info, output.bmv2_json) else {
        return Err(first_error(&output.diagnostics));
    };
    // These programs need a switch that has their externs. This switch does not have these externs.
    if options.emit_externs {
        return Ok(());
    }
    let json = json.to_json().map_err(|error| error.to_string())?;
    match refusal(p4info, json) {
        Some(error) => Err(format!("the switch refuses it: {error}")),
        None => Ok(()),
    }
}

pub fn errors_of(diagnostics: &[Diagnostic]) -> impl Iterator<Item = &Diagnostic> {
    diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
}

pub fn first_error(diagnostics: &[Diagnostic]) -> String {
    errors_of(diagnostics).next().map_or_else(
        || "refused without an error".to_owned(),
        |first| {
            format!(
                "{}:{}: {}: {}",
                first.file_name(),
                first.line,
                first.code,
                first.message
            )
        },
    )
}

/// Gives a file's name without its folder, as in p4c's messages.
trait FileName {
    fn file_name(&self) -> &str;
}

impl FileName for Diagnostic {
    fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

fn places(diagnostics: &[Diagnostic]) -> Vec<Place> {
    errors_of(diagnostics)
        .map(|diagnostic| Place {
            file: diagnostic.file_name().to_owned(),
            line: diagnostic.line,
        })
        .collect()
}
