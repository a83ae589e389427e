//! `reprise-conference`: the commands for conferences that people join by themselves. `reprise serve` and the other
//! commands of conferences run this program. It is separate from `reprise`, so that users who need only a switch and a
//! compiler need not compile an HTTP service.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the macros panic if the reader has closed the pipe; `output` does not"
)]

mod commands;
mod conference_program;
mod reloading;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;
// Imported here so that every module can write `crate::failure` and so on.
use command_line::{failure, files, output};
use failure::Failure;
use reprise_conference::args;

fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| output::of_command_line(&error));
    let json = args.global.json;
    failure::conclude(run(args), "reprise", json)
}

fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let global = &args.global;
    match args.command {
        Command::Serve(options) => runtime.block_on(commands::serve::run(global, options)),
        Command::Why(why) => runtime.block_on(commands::why::run(global, &why)),
        Command::Join(join) => runtime.block_on(commands::join::run(global, join)),
        Command::Record(record) => runtime.block_on(commands::record::run(global, record)),
        Command::Load(load) => runtime.block_on(commands::load::run(global, load)),
        Command::Doctor(options) => commands::doctor::run(global, &options, &runtime),
        Command::Drain(drain) => runtime.block_on(commands::drain::run(global, drain)),
        Command::Backup(backup) => runtime.block_on(commands::backup::run(global, backup)),
        Command::Restore(restore) => runtime.block_on(commands::restore::run(global, restore)),
    }
}
