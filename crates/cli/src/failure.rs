//! The failure of a command: one line that says what happened and what to do next.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use crate::output;

/// The line, and the text behind it where there is more (a compiler's diagnostics).
#[derive(Debug)]
pub struct Failure {
    line: String,
    /// Standard error has all of it already, in a form that a line more would break.
    is_told: bool,
    /// The command's findings, for readers of JSON.
    document: Value,
}

impl Failure {
    pub fn new(line: impl Into<String>) -> Failure {
        Failure {
            line: line.into(),
            is_told: false,
            document: json!({}),
        }
    }

    /// Adds an object with the other content of the command's one JSON document.
    pub fn with(self, document: Value) -> Failure {
        Failure { document, ..self }
    }

    /// Adds the members of an object to that content.
    pub fn and(mut self, found: Value) -> Failure {
        if let (Some(all), Value::Object(found)) = (self.document.as_object_mut(), found) {
            all.extend(found);
        }
        self
    }

    /// Without a line on standard error, which has all of it already.
    pub fn told(self) -> Failure {
        Failure {
            is_told: true,
            ..self
        }
    }

    /// Says it on standard error, after the program's name.
    pub fn report(&self, program: &str) {
        if !self.is_told {
            output::told(format_args!("{program}: {self}"));
        }
    }

    /// The document of a failed command: its findings, and `error`, which may be there already without what other
    /// members say.
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// Every error of the libraries already says what to do.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(error.to_string())
    }
}
