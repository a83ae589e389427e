//! Runs the program that has the other commands, in place of this one.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;

/// The program with the commands of conferences that people join. Its dependencies are as many as all others of
/// `reprise`.
const CONFERENCE: &str = "reprise-conference";

/// Runs it with the words of this command line. Returns only if it cannot be run.
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
