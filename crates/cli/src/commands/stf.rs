//! `reprise stf`: a packet test on the switch, in this process.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use dataplane::{TraceEvent, TraceRenderer, TraceSink};
use stf::ProgramError;

use crate::args::Global;
use crate::compiler::{self, CompilerArgs};
use crate::failure::Failure;
use crate::output;

pub fn run(
    global: &Global,
    (program_path, test): (&Path, &Path),
    args: &CompilerArgs,
    trace: bool,
) -> Result<(), Failure> {
    let text = fs::read_to_string(test).map_err(|error| Failure::in_file(test, &error))?;
    let commands = stf::parse(&text).map_err(|error| Failure::in_file(test, &error))?;
    let program = match stf::load(program_path, &args.options()?) {
        Ok(program) => program,
        Err(ProgramError::Compile { path, diagnostics }) => {
            compiler::show(&diagnostics, args.message_format());
            return Err(compiler::refused(&path, &diagnostics));
        }
        Err(error) => return Err(error.into()),
    };
    let story = Story::default();
    let sink = trace.then(|| Box::new(story.clone()) as Box<dyn TraceSink>);
    let outcome = stf::run(program, &commands, sink);
    if global.json {
        output::json(&serde_json::json!({
            "program": program_path.display().to_string(),
            "test": test.display().to_string(),
            "ok": outcome.failures.is_empty(),
            "packets": outcome.n_packets,
            "expected": outcome.n_expected,
            "failures": outcome.failures,
            "trace": trace.then(|| story.text()),
        }));
    } else {
        eprint!("{}", story.text());
        show_failures(test, &text, &outcome.failures);
    }
    match outcome.failures.len() {
        0 => {}
        1 => return Err(Failure::in_file(test, &"1 expectation failed")),
        n => {
            return Err(Failure::in_file(test, &format!("{n} expectations failed")));
        }
    }
    if !global.json {
        output::text(format!(
            "{}: ok, packets {}, expected {}",
            test.display(),
            outcome.n_packets,
            outcome.n_expected
        ));
    }
    Ok(())
}

/// Each failure with the line that it is of and the bytes that differ.
fn show_failures(test: &Path, text: &str, failures: &[stf::Failure]) {
    let test = test.display();
    for failure in failures {
        let line = failure.line.checked_sub(1);
        match line.and_then(|line| text.lines().nth(line)) {
            Some(line) => {
                eprintln!("{test}:{}: {}", failure.line, failure.message);
                eprintln!("  {}", line.trim());
            }
            None => eprintln!("{test}: at the end: {}", failure.message),
        }
        if let Some(difference) = &failure.difference {
            eprint!("{difference}");
        }
    }
}

/// What happened to the packets, as text.
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
