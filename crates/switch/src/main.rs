//! The command; see the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    reprise_switch::main(&reprise_switch::Parts::default())
}
