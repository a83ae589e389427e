//! `reprise`: the command-line program of an operator. Each run executes one command.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the macros panic if the reader has closed the pipe; `output` does not"
)]

mod args;
mod commands;
mod compat;
mod compiler;
mod doctor;
mod entries;
mod other_program;
mod p4rt;
mod session;

use std::process::ExitCode;

use args::{AnySwitch, Args, Command, Conference, Global, Machine, P4};
// Imported here so that every module can write `crate::failure` and so on.
use command_line::{failure, files, output};
use failure::Failure;

/// Runs the command, with the arguments of the process.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os();
    if let Some(name) = words.next().and_then(|first| compat::Name::of(&first)) {
        return compat::run(name, words);
    }
    let args = Args::from_command_line();
    let json = args.global.json;
    failure::conclude(run(args), "reprise", json)
}

/// The command line as a clap command, from which manual pages and completions are generated.
pub fn command() -> clap::Command {
    Args::offline_without_switch()
}

fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let global = &args.global;
    match args.command {
        Command::P4(command) => p4(global, command),
        Command::Switch(command) => runtime.block_on(any_switch(global, command)),
        Command::Service(_) => other_program::run(),
        Command::Conference(command) => runtime.block_on(conference(global, command)),
        Command::Machine(Machine::Doctor { service, .. }) if service.service.is_some() => {
            other_program::run()
        }
        Command::Machine(Machine::Doctor { interfaces, .. }) => doctor::run(global, &interfaces),
    }
}

fn p4(global: &Global, command: P4) -> Result<(), Failure> {
    match command {
        P4::Compile {
            program,
            preprocess: true,
            compiler,
            ..
        } => commands::program::preprocess(global, &program, &compiler),
        P4::Compile {
            program,
            output,
            compiler,
            ..
        } => commands::program::compile(global, &program, &output, &compiler),
        P4::Check { programs, compiler } => commands::program::check(global, &programs, &compiler),
        P4::Explain { code } => commands::explain::run(global, code.as_deref()),
        P4::Fmt {
            files,
            check,
            include,
        } => commands::fmt::run(global, &files, &include, check),
        P4::Stf {
            program,
            test,
            trace,
            compiler,
        } => commands::stf::run(global, &program, &test, &compiler, trace),
    }
}

async fn any_switch(global: &Global, command: AnySwitch) -> Result<(), Failure> {
    match command {
        AnySwitch::Pipeline(command) => commands::pipeline::run(global, command).await,
        AnySwitch::Entries(command) => commands::entries::run(global, command).await,
        AnySwitch::P4rt(args) => p4rt::run(global, args).await,
        AnySwitch::Watch { times } => commands::watch::run(global, times).await,
    }
}

async fn conference(global: &Global, command: Conference) -> Result<(), Failure> {
    match command {
        Conference::Address(command) => commands::address::run(global, command).await,
        Conference::Group(command) => commands::group::run(global, command).await,
        Conference::Viewer(command) => commands::viewer::run(global, command).await,
        Conference::Show { watch } => commands::show::run(global, watch).await,
        Conference::Apply { file, dry_run } => commands::apply::run(global, &file, dry_run).await,
        Conference::Export {
            file: Some(file),
            program: Some(program),
            format,
            output,
        } => commands::export::of_file(global, (&file, &program), format, output.as_deref()),
        Conference::Export { format, output, .. } => {
            commands::export::of_switch(global, format, output.as_deref()).await
        }
        Conference::Aom(command) => commands::aom::run(global, command).await,
    }
}
