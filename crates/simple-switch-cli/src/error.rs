//! What keeps a command from being carried out, and what ends the program.

use std::{fmt, io};

use bmv2_thrift::ArgsError;

use crate::output;

/// Why a command was not carried out.
#[derive(Debug)]
pub enum Error {
    /// What was typed is wrong.
    Input(Input, String),
    /// The switch refused, with a code that its service declares.
    Refused {
        /// What kind of operation.
        operation: &'static str,
        /// The code's name.
        code: String,
        /// In words, where the switch has some.
        reason: String,
    },
    /// Nothing more can be done.
    Ended(Ended),
}

/// What of a command is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Whatever is none of the following.
    Other,
    MatchKey,
    RuntimeData,
}

pub type Done = Result<(), Error>;

impl Error {
    /// Something of the command that is neither a key nor an argument of an action.
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

/// As BMv2's command line says it.
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

/// Why the program ends before its input does.
#[derive(Debug)]
pub enum Ended {
    /// There is no switch, or none any more.
    Switch(String),
    /// Nobody reads the output.
    Output,
    /// The input cannot be read.
    Input(io::Error),
    /// Standard output has said it.
    Said(String),
}

impl Ended {
    /// Says it on standard error.
    pub fn tell(&self, program: &str) {
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

/// An answer that is not that of its call.
impl From<ArgsError> for Error {
    fn from(error: ArgsError) -> Self {
        Self::Ended(Ended::Switch(format!(
            "the switch's answer is another than BMv2's: {error}"
        )))
    }
}
