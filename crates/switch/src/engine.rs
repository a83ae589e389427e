//! Which engine runs the programs.

use dataplane::engine::{EngineFactory, interpret::InterpreterFactory};

/// As `--engine` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineOption {
    /// The reference interpreter.
    Interpreter,
}

impl EngineOption {
    /// What makes the engine for a program.
    pub(crate) fn factory(self) -> Box<dyn EngineFactory> {
        match self {
            EngineOption::Interpreter => Box::new(InterpreterFactory),
        }
    }
}
