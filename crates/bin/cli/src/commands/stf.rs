//! `reprise stf`: runs a packet test on the interpreter, in this process.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use dataplane::{Program, TraceEvent, TraceRenderer, TraceSink};

use crate::args::Global;
use crate::compiler::{self, CompilerArgs};
use crate::failure::Failure;
use crate::files;
use crate::output;

pub fn run(
    global: &Global,
    program_path: &Path,
    test: &Path,
    args: &CompilerArgs,
    trace: bool,
) -> Result<(), Failure> {
    in_order(program_path, test)?;
    let text = files::text(test, "a packet test (.stf)")?;
    let commands = stf::parse(&text).map_err(|errors| {
        show_mistakes(test, &text, &errors.0);
        let lines = match errors.0.len() {
            1 => "1 line is no command".to_owned(),
            n => format!("{n} lines are no commands"),
        };
        Failure::in_file(test, &format!("not run, {lines}"))
    })?;
    let program = load(program_path, args)?;
    let story = Story::default();
    let sink = trace.then(|| Box::new(story.clone()) as Box<dyn TraceSink>);
    let outcome = stf::run(program, &commands, sink);
    let document = serde_json::json!({
        "program": program_path.display().to_string(),
        "test": test.display().to_string(),
        "ok": outcome.failures.is_empty(),
        "packets": outcome.n_packets,
        "expected": outcome.n_expected,
        "failures": outcome.failures,
        "trace": trace.then(|| story.text()),
    });
    if !global.json {
        output::error_text(story.text());
        show_failures(test, &text, &outcome.failures);
    }
    if let Some(failure) = verdict(&outcome) {
        return Err(Failure::in_file(test, &failure).with(document));
    }
    if global.json {
        output::json(&document);
    } else {
        output::text(format!(
            "{}: ok, packets {}, expected {}",
            test.display(),
            outcome.n_packets,
            outcome.n_expected
        ));
    }
    Ok(())
}

/// Fails if the arguments look like a test and then a program, which is the wrong order. Reads neither file.
fn in_order(program: &Path, test: &Path) -> Result<(), Failure> {
    let is =
        |path: &Path, extension: &str| path.extension().is_some_and(|found| found == extension);
    if is(program, "stf") && !is(test, "stf") {
        return Err(Failure::in_file(
            program,
            &format!(
                "the program comes first: `reprise stf {} {}`",
                test.display(),
                program.display()
            ),
        ));
    }
    Ok(())
}

/// Compiles P4 source, or reads BMv2 JSON. Warnings are not shown.
fn load(path: &Path, args: &CompilerArgs) -> Result<Program, Failure> {
    let json = if path.extension().is_some_and(|found| found == "json") {
        files::text(path, "BMv2 JSON or a P4 program")?
    } else {
        let compiled = compiler::compile(path, &args.options()?)?;
        let Some(program) = compiled.program else {
            compiler::show(&compiled.diagnostics, args.message_format());
            return Err(compiler::refused(path, &compiled.diagnostics));
        };
        program.json.to_json()?
    };
    Program::from_json_str(&json).map_err(|error| Failure::in_file(path, &error))
}

fn verdict(outcome: &stf::Outcome) -> Option<String> {
    let n = outcome.failures.len();
    let (n_failed, stopped) = match outcome.stopped_at {
        Some(line) => (
            n.saturating_sub(1),
            format!("line {line} cannot be done, the test ends there"),
        ),
        None => (n, String::new()),
    };
    let failed = match n_failed {
        0 => String::new(),
        1 => "1 expectation failed".to_owned(),
        n => format!("{n} expectations failed"),
    };
    match (failed.is_empty(), stopped.is_empty()) {
        (true, true) => None,
        (true, false) => Some(stopped),
        (false, true) => Some(failed),
        (false, false) => Some(format!("{failed}; {stopped}")),
    }
}

fn show_mistakes(test: &Path, text: &str, errors: &[stf::ParseError]) {
    for error in errors {
        show_line(test, text, error.line, &error.message);
    }
}

/// Prints an error and the line of the test that caused it. If `line` is 0, the error occurred at the end of the test.
fn show_line(test: &Path, text: &str, line: usize, message: &str) {
    let test = test.display();
    match line.checked_sub(1).and_then(|at| text.lines().nth(at)) {
        Some(source) => {
            output::error_line(format_args!("{test}:{line}: {message}"));
            output::error_line(format_args!("  {}", source.trim()));
        }
        None => output::error_line(format_args!("{test}: at the end: {message}")),
    }
}

/// Prints each failure with its line and the bytes that differ.
fn show_failures(test: &Path, text: &str, failures: &[stf::Failure]) {
    for failure in failures {
        show_line(test, text, failure.line, &failure.message);
        if let Some(difference) = &failure.difference {
            output::error_text(difference);
        }
    }
}

#[derive(Clone, Default)]
struct Story(Arc<Mutex<(TraceRenderer, String)>>);

impl Story {
    fn text(&self) -> String {
        let story = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        story.1.clone()
    }
}

impl TraceSink for Story {
    fn event(&mut self, event: &TraceEvent) {
        let mut story = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (renderer, text) = &mut *story;
        text.push_str(&renderer.render(event));
    }
}
