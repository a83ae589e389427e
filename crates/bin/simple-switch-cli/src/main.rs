//! `simple_switch_CLI` and `runtime_CLI`: BMv2's command line over Thrift, for reprise-switch and BMv2.
//!
//! Standard output has BMv2's format, because scripts parse it; anything more goes to standard error. Commands come
//! from a terminal, with completion, or line by line from a file or pipe.
//!
//! Reading order: `options`, `shell`, `session`, `commands`, `program`, `value`, `connection`.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the macros panic if the reader has closed the pipe; `output` does not"
)]

mod commands;
mod completion;
mod connection;
mod error;
mod limits;
mod lines;
mod options;
mod output;
mod program;
mod session;
mod shell;
mod value;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = options::Options::from_command_line();
    match shell::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ended) => {
            ended.report(options.program);
            ExitCode::FAILURE
        }
    }
}
