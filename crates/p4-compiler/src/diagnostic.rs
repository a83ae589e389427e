//! Errors and warnings as data, and how they are shown.
//!
//! A pass pushes into a [`Sink`] and goes on; nothing stops at the first error. Codes are stable:
//! E01xx preprocessor and lexer, E02xx syntax, E03xx names, E04xx types, E05xx constants and
//! instances, E06xx what the BMv2 back end cannot express, E07xx P4Info. W is a warning.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::source::{SourceMap, Span};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No output is made.
    Error,
    /// Output is made.
    Warning,
}

/// Something to tell the programmer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// The stable code, for example `E0401`.
    pub code: String,
    /// What is wrong: lower case, no final dot.
    pub message: String,
    /// The file as the compiler was given it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// Characters to underline.
    pub length: u32,
    /// The text of that line.
    pub source_line: String,
    /// What to say under the line; empty where the message says it.
    pub label: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// The text that people see, several lines, with a newline at the end.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let gutter = " ".repeat(self.line.to_string().len());
        let before: String = self
            .source_line
            .chars()
            .take(self.column as usize - 1)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let under = "^".repeat(self.length as usize);
        let label = if self.label.is_empty() {
            String::new()
        } else {
            format!(" {}", self.label)
        };
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "{kind}[{}]: {}\n{gutter}--> {}:{}:{}\n{gutter} |\n{} | {}\n{gutter} | {before}{under}{label}\n",
            self.code, self.message, self.file, self.line, self.column, self.line, self.source_line,
        );
        if let Some(help) = &self.help {
            let _ = writeln!(out, "{gutter} = help: {help}");
        }
        out
    }
}

/// A diagnostic before its place is looked up.
pub struct Raw {
    severity: Severity,
    code: &'static str,
    message: String,
    span: Span,
    label: String,
    help: Option<String>,
}

impl Raw {
    /// What to say under the source line.
    pub fn label(&mut self, text: impl Into<String>) -> &mut Self {
        self.label = text.into();
        self
    }

    /// What to do about it.
    pub fn help(&mut self, text: impl Into<String>) -> &mut Self {
        self.help = Some(text.into());
        self
    }
}

/// Where passes push.
#[derive(Default)]
pub struct Sink {
    raw: Vec<Raw>,
}

impl Sink {
    /// Adds an error.
    pub fn error(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
    ) -> &mut Raw {
        self.push(Severity::Error, code, span, message.into())
    }

    /// Adds a warning.
    pub fn warning(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
    ) -> &mut Raw {
        self.push(Severity::Warning, code, span, message.into())
    }

    fn push(
        &mut self,
        severity: Severity,
        code: &'static str,
        span: Span,
        message: String,
    ) -> &mut Raw {
        let raw = Raw {
            severity,
            code,
            message,
            span,
            label: String::new(),
            help: None,
        };
        let at = self.raw.len();
        self.raw.push(raw);
        &mut self.raw[at]
    }

    /// Whether any error was pushed.
    pub fn has_errors(&self) -> bool {
        self.raw.iter().any(|raw| raw.severity == Severity::Error)
    }

    /// Looks the places up; one complaint per place and code, in the order of the source.
    pub fn finish(mut self, sources: &SourceMap) -> Vec<Diagnostic> {
        self.raw.sort_by_key(|raw| raw.span);
        let mut seen = std::collections::HashSet::new();
        self.raw
            .retain(|raw| seen.insert((raw.span, raw.code, raw.message.clone())));
        self.raw.truncate(limits::ERRORS);
        let resolve = |raw: Raw| {
            let at = sources.position(raw.span);
            Diagnostic {
                severity: raw.severity,
                code: raw.code.to_owned(),
                message: raw.message,
                file: at.file.to_string(),
                line: at.line,
                column: at.column,
                length: at.length,
                source_line: at.text,
                label: raw.label,
                help: raw.help,
            }
        };
        self.raw.into_iter().map(resolve).collect()
    }
}
