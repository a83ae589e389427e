//! `reprise`: the operator's command. Each run is one command over one connection with one answer.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the macros panic where nobody reads; `output` is for both"
)]

mod args;
mod commands;
mod compat;
mod compiler;
mod conformance;
mod doctor;
mod entries;
mod failure;
mod files;
mod output;
mod p4rt;
mod session;

use std::process::ExitCode;

use args::{Args, Command};
use failure::Failure;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    if let Some(name) = words.next().and_then(|first| compat::Name::of(&first)) {
        return compat::run(name, words);
    }
    let args = Args::from_command_line();
    let json = args.global.json;
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report("reprise");
            if json {
                output::last_json(&failure.to_json());
            }
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let global = &args.global;
    match args.command {
        Command::Compile {
            program,
            preprocess: true,
            compiler,
            ..
        } => commands::program::preprocess(global, &program, &compiler),
        Command::Compile {
            program,
            output,
            compiler,
            ..
        } => commands::program::compile(global, &program, &output, &compiler),
        Command::Check { programs, compiler } => {
            commands::program::check(global, &programs, &compiler)
        }
        Command::Explain { code } => commands::explain::run(global, code.as_deref()),
        Command::Stf {
            program,
            test,
            engine,
            trace,
            compiler,
        } => commands::stf::run(global, &program, &test, &compiler, engine, trace),
        Command::Conformance(args) => commands::conformance::run(global, &args),
        Command::ConformanceWorker => conformance::work(),
        Command::Doctor { interfaces } => doctor::run(global, &interfaces),
        Command::Fmt {
            files,
            check,
            include,
        } => commands::fmt::run(global, &files, &include, check),
        Command::Pipeline(command) => runtime.block_on(commands::pipeline::run(global, command)),
        Command::Entries(command) => runtime.block_on(commands::entries::run(global, command)),
        Command::P4rt(args) => runtime.block_on(p4rt::run(global, args)),
        Command::Address(command) => runtime.block_on(commands::address::run(global, command)),
        Command::Aom(command) => runtime.block_on(commands::aom::run(global, command)),
        Command::Group(command) => runtime.block_on(commands::group::run(global, command)),
        Command::Viewer(command) => runtime.block_on(commands::viewer::run(global, command)),
        Command::Show { watch } => runtime.block_on(commands::show::run(global, watch)),
        Command::Watch { times } => runtime.block_on(commands::watch::run(global, times)),
        Command::Apply { file, dry_run } => {
            runtime.block_on(commands::apply::run(global, &file, dry_run))
        }
        Command::Export {
            file: Some(file),
            program: Some(program),
            format,
            output,
        } => commands::export::of_file(global, (&file, &program), format, output.as_deref()),
        Command::Export { format, output, .. } => runtime.block_on(commands::export::of_switch(
            global,
            format,
            output.as_deref(),
        )),
    }
}
