//! `reprise-switch`: a program, ports and a P4Runtime server around the data plane.
//!
//! One thread, this one, owns the switch and its ports ([`event_loop`]); the others serve P4Runtime
//! and wait for signals ([`control`]), and reach the switch through [`handle`].

#![forbid(unsafe_code)]

mod clock;
mod control;
mod engine;
mod error;
mod event_loop;
mod handle;
mod metrics;
mod options;
mod ports;
mod program;
mod totals;
mod trace;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use dataplane::Switch;

use crate::clock::Clock;
use crate::control::Control;
use crate::error::SwitchError;
use crate::event_loop::EventLoop;
use crate::options::Options;
use crate::totals::{Detail, Totals};

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Everything that can be wrong is looked at before the first packet: command line, program,
/// entries, ports, address, in this order.
fn run(options: &Options) -> Result<(), SwitchError> {
    options.check()?;
    let program = options
        .program
        .as_deref()
        .map(|path| program::load(path, options))
        .transpose()?;
    let entries = options
        .entries
        .as_deref()
        .map(program::read_entries)
        .transpose()?;
    options.check_entries(program.as_ref())?;
    let ports = ports::open(options)?;
    let described: Vec<String> = ports.iter().map(|port| port.described.clone()).collect();

    let engine = options.engine.factory(options.optimise);
    let mut switch = Switch::with_engine(options.switch_config(), engine);
    switch.set_trace(trace::sink(options)?);
    let clock = match options.is_replay() {
        true => Clock::Virtual { now: 0 },
        false => Clock::monotonic(),
    };
    let (handle, mailbox) = handle::mailbox().map_err(|source| SwitchError::System {
        operation: "make the event loop",
        source,
    })?;
    let mut event_loop = EventLoop::new(switch, clock, mailbox);
    event_loop.set_wait(options.wait);
    for port in ports {
        event_loop.add_port(port.id, &port.name, port.port);
    }
    let mut control = Control::start(handle, options)?;
    let result = match control.configure(&mut event_loop, program, entries)? {
        true => {
            if options.explain_engine {
                explain(event_loop.switch_mut());
            }
            control.serve()?;
            say(&ready_line(options, &described, &control));
            event_loop.run(options.after_replay())
        }
        false => Ok(()),
    };
    let result = result.and(event_loop.close());
    // What is buffered of the trace stands before the totals.
    event_loop.switch_mut().set_trace(None);
    let totals = event_loop.totals();
    drop(event_loop);
    control.stop();
    print_totals(options, &totals)?;
    Ok(result?)
}

/// Says which engine runs the program, and what it leaves to the interpreter.
fn explain(switch: &mut Switch) {
    let name = switch.engine_name();
    let interpreted = switch.interpreted();
    if interpreted.is_empty() {
        return say(&format!("engine: {name}, the whole program"));
    }
    say(&format!("engine: {name}, interpreted are:"));
    for construct in interpreted {
        say(&format!("  {}: {}", construct.place, construct.reason));
    }
}

/// A line on standard error; if nobody reads that, nobody is to be told.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Scripts wait for a line that begins with "ready: ".
fn ready_line(options: &Options, ports: &[String], control: &Control) -> String {
    let ports = if ports.is_empty() {
        "none".to_owned()
    } else {
        ports.join(" ")
    };
    let address = match control.grpc_address() {
        Some(address) => format!("on {address}"),
        None => "off".to_owned(),
    };
    let program = match &options.program {
        Some(path) => path.display().to_string(),
        None => "none yet".to_owned(),
    };
    let metrics = match control.metrics_address() {
        Some(address) => format!(", metrics on {address}"),
        None => String::new(),
    };
    format!("ready: ports {ports}, P4Runtime {address}, program {program}{metrics}")
}

fn print_totals(options: &Options, totals: &Totals) -> Result<(), SwitchError> {
    let text = match (options.json, options.stats) {
        (true, _) => totals.to_json() + "\n",
        (false, true) => totals.to_text(Detail::Full),
        (false, false) => totals.to_text(Detail::Short),
    };
    match io::stdout().write_all(text.as_bytes()) {
        // Nobody reads it any more; what was to be done is done.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| SwitchError::System {
            operation: "print the totals",
            source,
        }),
    }
}
