//! `reprise-conformance`: runs the samples of a p4c checkout, or any tree of programs, with our compiler and our
//! switch.
//!
//! `checkout` lists the jobs (`sample`), `pool` runs the jobs in worker processes (`worker`), `known` reads the table
//! of docs/conformance.md, and `report` counts the results. `tree` does all of this for a tree of programs. `engines`
//! tests this repository's own programs, and `fuzz` tests with random input.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the macros panic if the output is closed; `output` is for both"
)]

mod args;
mod checkout;
mod cmake;
mod engines;
mod fuzz;
mod golden;
mod known;
mod p4info;
mod pool;
mod report;
mod run;
mod sample;
mod tree;
mod worker;

use std::process::ExitCode;

use clap::Parser as _;
// Every module uses these names through `crate`.
use command_line::{failure, files, output};

use args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| output::of_command_line(&error));
    let done = match &args.command {
        None => run::run(&args),
        Some(Command::Engines(of)) => engines::engines(&args, of),
        Some(Command::Fuzz(of)) => fuzz::fuzz(&args, of),
        Some(Command::Stf { program, test }) => run::packet_test(&args, program, test),
        Some(Command::Worker) => worker::work(),
    };
    failure::conclude(done, "reprise-conformance", args.json)
}
