//! What a command fails with: one line that says what happened and what to do next.

use std::fmt;
use std::path::Path;

/// The line, and the text behind it where there is more (a compiler's diagnostics).
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub fn new(line: impl Into<String>) -> Failure {
        Failure(line.into())
    }

    /// All was said already, in a form that a line more would break.
    pub fn reported() -> Failure {
        Failure(String::new())
    }

    /// Says it on standard error, after the program's name.
    pub fn report(&self, program: &str) {
        if !self.0.is_empty() {
            eprintln!("{program}: {self}");
        }
    }

    /// Says it on standard output as well, for who reads JSON there.
    pub fn report_json(&self) {
        if !self.0.is_empty() {
            crate::output::json(&serde_json::json!({ "error": self.0 }));
        }
    }

    pub fn in_file(path: &Path, error: &dyn fmt::Display) -> Failure {
        Failure(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Every error of the libraries says in its own words what to do.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.to_string())
    }
}
