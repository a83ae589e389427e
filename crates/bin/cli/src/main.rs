//! The executable `reprise`; the library of the same name implements it.

use std::process::ExitCode;

fn main() -> ExitCode {
    reprise::main()
}
