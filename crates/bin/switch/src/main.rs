//! The executable `reprise-switch`; the library of the same name implements it.

use std::process::ExitCode;

fn main() -> ExitCode {
    reprise_switch::main(&reprise_switch::Parts::default())
}
