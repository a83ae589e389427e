//! Errors of a command, and reasons to end the program.

use std::{fmt, io};

use bmv2_thrift::ArgsError;

use crate::output;

#[derive(Debug)]
pub enum Error {
    Input(Input, String),
    /// The switch refused with a code that its service declares.
    Refused {
        /// Kind of operation, as in BMv2's messages.
        operation: &'static str,
        code: String,
        /// The switch's message; empty if it has none.
        reason: String,
    },
    Ended(Ended),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Neither a match key nor runtime data.
    Other,
    MatchKey,
    RuntimeData,
}

pub type Done = Result<(), Error>;

impl Error {
    /// An error in neither a key nor an action's argument.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input(Input::Other, message.into())
    }

    pub fn match_key(message: impl Into<String>) -> Self {
        Self::Input(Input::MatchKey, message.into())
    }

    pub fn runtime_data(message: impl Into<String>) -> Self {
        Self::Input(Input::RuntimeData, message.into())
    }
}

/// Formats the error as BMv2's command line does.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(input, message) => {
                let what = match input {
                    Input::Other => "Error",
                    Input::MatchKey => "Invalid match key",
                    Input::RuntimeData => "Invalid runtime data",
                };
                write!(f, "{what}: {message}")
            }
            Self::Refused {
                operation, code, ..
            } => write!(f, "Invalid {operation} ({code})"),
            Self::Ended(_) => Ok(()),
        }
    }
}

/// Why the program ends before the end of its input.
#[derive(Debug)]
pub enum Ended {
    /// There is no switch, or the connection to it failed.
    Switch(String),
    /// The output has no reader.
    Output,
    Input(io::Error),
    /// Standard output already has the error; this reason goes to standard error.
    Said(String),
}

impl Ended {
    pub fn report(&self, program: &str) {
        match self {
            Self::Switch(message) | Self::Said(message) => {
                output::error_line(format_args!("{program}: {message}"));
            }
            Self::Input(error) => {
                output::error_line(format_args!("{program}: standard input: {error}"));
            }
            Self::Output => {}
        }
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

/// The program ends if an answer has another type than the call's result.
impl From<ArgsError> for Error {
    fn from(error: ArgsError) -> Self {
        Self::Ended(Ended::Switch(format!(
            "the switch's answer has another type than BMv2's: {error}"
        )))
    }
}
