//! Replaces this process by `reprise-conference`, the program that carries out the commands that `reprise` only lists.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;

/// The program with the commands for conferences that people join. It is a separate program because it has as many
/// dependencies as all the rest of `reprise`.
const CONFERENCE: &str = "reprise-conference";

/// Replaces this process by `reprise-conference`, with the arguments of this command line. Returns only if that program
/// cannot be run.
pub fn run() -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let beside = own.with_file_name(CONFERENCE);
    let program = if beside.is_file() {
        beside.as_path()
    } else {
        Path::new(CONFERENCE)
    };
    let error = Command::new(program)
        .args(std::env::args_os().skip(1))
        .exec();
    Err(Failure::new(format!(
        "this command is in the program {CONFERENCE}, expected beside {} or in a folder of PATH: {error}; `make build` compiles it",
        own.display()
    )))
}
