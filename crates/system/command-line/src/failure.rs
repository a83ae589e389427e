//! The failure of a command: one line that says what happened and what to do next.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::output;

/// A failure: its line, and the document that `--json` prints.
#[derive(Debug)]
pub struct Failure {
    line: String,
    /// Whether standard error already has the whole failure, in a format that a further line would break.
    is_reported: bool,
    /// The command's findings, for `--json`.
    document: Value,
}

impl Failure {
    pub fn new(line: impl Into<String>) -> Failure {
        Failure {
            line: line.into(),
            is_reported: false,
            document: json!({}),
        }
    }

    /// Sets the command's findings, which are the members of its JSON document besides `error`.
    pub fn with(self, document: Value) -> Failure {
        Failure { document, ..self }
    }

    pub fn and(mut self, found: Value) -> Failure {
        if let (Some(all), Value::Object(found)) = (self.document.as_object_mut(), found) {
            all.extend(found);
        }
        self
    }

    /// Marks the failure as already reported on standard error.
    pub fn reported(self) -> Failure {
        Failure {
            is_reported: true,
            ..self
        }
    }

    /// Prints the line on standard error, after the program's name.
    pub fn report(&self, program: &str) {
        if !self.is_reported {
            output::error_line(format_args!("{program}: {self}"));
        }
    }

    /// Returns the document of a failed command: its findings and the member `error`. If the findings already have a
    /// member `error`, that member is kept: its text is shorter than the line, because it leaves out what other members
    /// say.
    pub fn to_json(&self) -> Value {
        let mut document = self.document.clone();
        if document["error"].is_null() {
            document["error"] = self.line.as_str().into();
        }
        document
    }

    pub fn in_file(path: &Path, error: &dyn fmt::Display) -> Failure {
        Failure::new(format!("{}: {error}", path.display()))
    }
}

/// Reports a failure on standard error, and with `is_json` also prints its document. Returns the command's exit code.
pub fn conclude(done: Result<(), Failure>, program: &str, is_json: bool) -> ExitCode {
    let Err(failure) = done else {
        return ExitCode::SUCCESS;
    };
    failure.report(program);
    if is_json {
        output::last_json(&failure.to_json());
    }
    ExitCode::FAILURE
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// Makes a failure from an error. The libraries' messages already say what to do next.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(error.to_string())
    }
}
