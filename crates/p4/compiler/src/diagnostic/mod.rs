//! Errors and warnings as data.
//!
//! A pass pushes its diagnostics into a [`Sink`] and continues after an error. The code of an error or warning never
//! changes. A warning's code begins with W. An error's code says where the error belongs: E01xx to the preprocessor
//! and lexer, E02xx to the syntax, E03xx to names, E04xx to types, E05xx to constants and instances, E06xx to limits
//! of the BMv2 back end, E07xx to P4Info. [`crate::explain`] explains a code, `render` prints a diagnostic.

mod render;

use std::collections::HashSet;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::source::{SourceMap, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The compilation produces no output.
    Error,
    Warning,
}

/// A range in a source text, for people and editors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file's path, or the name that a `#line` gave it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    pub end_line: u32,
    /// One past the last character.
    pub end_column: u32,
    /// The number of characters to underline in the first line; 0 for a position between two characters.
    pub length: u32,
    pub source_line: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub message: String,
    /// `None` for a remark about the whole program.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// A change of the source that an editor can apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The text that the user reads, for example "did you mean `x`?".
    pub message: String,
    /// Replaces the text at `place`, or is inserted there if the `length` of `place` is 0.
    pub replacement: String,
    #[serde(flatten)]
    pub place: Place,
}

/// An error or a warning, with the fields of a `Place`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Stable, for example `E0401`.
    pub code: String,
    pub message: String,
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub end_line: u32,
    pub end_column: u32,
    pub length: u32,
    pub source_line: String,
    /// The text below the underlined characters; empty if the message is enough.
    pub label: String,
    pub notes: Vec<Note>,
    pub help: Option<String>,
    pub suggestion: Option<Suggestion>,
}

impl Diagnostic {
    /// Returns the diagnostic as one line of JSON, without a newline, for editors. The keys are `severity`, `code`,
    /// `message`, `file`, `line`, `column`, `end_line`, `end_column`, `length`, `source_line`, `label`, `notes`, `help`
    /// and `suggestion`. Each of the `notes` has a `message` and, if the note has a place, the keys of the place
    /// (`file`, `line` and so on).
    pub fn json_line(&self) -> String {
        // A struct of strings and numbers always serialises.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A diagnostic whose spans are not yet resolved to lines and columns.
pub struct Raw {
    severity: Severity,
    code: &'static str,
    message: String,
    span: Span,
    label: String,
    notes: Vec<(String, Option<Span>)>,
    help: Option<String>,
    suggestion: Option<(String, String, Span)>,
}

impl Raw {
    pub fn label(&mut self, text: impl Into<String>) -> &mut Self {
        self.label = text.into();
        self
    }

    pub fn help(&mut self, text: impl Into<String>) -> &mut Self {
        self.help = Some(text.into());
        self
    }

    /// Adds a remark without a place.
    pub fn note(&mut self, text: impl Into<String>) -> &mut Self {
        self.notes.push((text.into(), None));
        self
    }

    /// Adds a remark about another place. Drops the remark if `span` is `Span::default()`: this span stands for code
    /// that the compiler made and that is in no source text.
    pub fn note_at(&mut self, span: Span, text: impl Into<String>) -> &mut Self {
        if span != Span::default() {
            self.notes.push((text.into(), Some(span)));
        }
        self
    }

    /// Suggests text to replace the text at `span`, or to insert there if the span is empty.
    pub fn suggest(
        &mut self,
        span: Span,
        replacement: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Self {
        self.suggestion = Some((message.into(), replacement.into(), span));
        self
    }

    /// Suggests a similar name, if there is one.
    pub fn did_you_mean(&mut self, span: Span, name: Option<String>) -> &mut Self {
        if let Some(name) = name {
            let message = format!("did you mean `{name}`?");
            self.suggest(span, name, message);
        }
        self
    }

    fn resolve(self, sources: &SourceMap) -> Diagnostic {
        let at = place(sources, self.span);
        let note = |(message, span): (String, Option<Span>)| Note {
            message,
            place: span.map(|span| place(sources, span)),
        };
        let mut notes: Vec<Note> = self.notes.into_iter().map(note).collect();
        if let Some(used) = sources.macro_use(self.span) {
            let what = if used.is_argument {
                "is in an argument of"
            } else {
                "comes from"
            };
            let message = format!(
                "the marked text {what} the macro `{}`, defined here",
                used.name
            );
            let place = Some(place(sources, used.defined));
            let said = notes.iter().any(|note| note.place == place);
            if !said {
                notes.push(Note { message, place });
            }
        }
        if let Some(included) = sources.included_at(self.span) {
            notes.push(Note {
                message: "included here".to_owned(),
                place: Some(place(sources, included)),
            });
        }
        Diagnostic {
            severity: self.severity,
            code: self.code.to_owned(),
            message: self.message,
            file: at.file,
            line: at.line,
            column: at.column,
            end_line: at.end_line,
            end_column: at.end_column,
            length: at.length,
            source_line: at.source_line,
            label: self.label,
            notes,
            help: self.help,
            suggestion: self
                .suggestion
                .map(|(message, replacement, span)| Suggestion {
                    message,
                    replacement,
                    place: place(sources, span),
                }),
        }
    }
}

fn place(sources: &SourceMap, span: Span) -> Place {
    let at = sources.position(span);
    Place {
        file: at.file.to_string(),
        line: at.line,
        column: at.column,
        end_line: at.end_line,
        end_column: at.end_column,
        length: at.length,
        source_line: at.text,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    Hide,
    Show,
    Deny,
}

#[derive(Default)]
pub struct Sink {
    raw: Vec<Raw>,
    /// Names whose declarations may be in text that could not be read. A failed lookup of such a name is not an error
    /// of its own.
    unreliable: HashSet<Rc<str>>,
    /// An `#include` failed, so any name may be missing.
    include_failed: bool,
}

impl Sink {
    pub fn error(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
    ) -> &mut Raw {
        self.push(Severity::Error, code, span, message.into())
    }

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
            notes: Vec::new(),
            help: None,
            suggestion: None,
        };
        let at = self.raw.len();
        self.raw.push(raw);
        &mut self.raw[at]
    }

    pub fn last(&mut self) -> Option<&mut Raw> {
        self.raw.last_mut()
    }

    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Filters the diagnostics that follow the first `since` ones: keeps only errors whose code is in `codes`. If
    /// several errors have the same code and place, keeps only the first of these errors.
    pub fn keep_errors(&mut self, since: usize, codes: &[&str]) {
        let later = self.raw.split_off(since.min(self.raw.len()));
        for raw in later {
            let is_new = !self
                .raw
                .iter()
                .any(|before| before.code == raw.code && before.span == raw.span);
            if is_new && raw.severity == Severity::Error && codes.contains(&raw.code) {
                self.raw.push(raw);
            }
        }
    }

    pub fn has_code(&self, code: &str) -> bool {
        self.raw.iter().any(|raw| raw.code == code)
    }

    /// Whether the text after an error was misread (an unclosed comment or string, wrong macro arguments) or cut off
    /// by a limit of the preprocessor.
    pub fn is_cut_off(&self) -> bool {
        ["E0101", "E0103", "E0119", "E0120"]
            .iter()
            .any(|code| self.has_code(code))
    }

    /// Records a name whose declaration may be in a part of the source that could not be read.
    pub fn set_unreliable(&mut self, name: &Rc<str>) {
        self.unreliable.insert(name.clone());
    }

    /// Records that an `#include` has no readable file name.
    pub fn set_include_failed(&mut self) {
        self.include_failed = true;
    }

    /// Whether another error may be the reason why a lookup of this name fails.
    pub fn is_unreliable(&self, name: &str) -> bool {
        self.include_failed || self.unreliable.contains(name) || self.has_code("E0118")
    }

    pub fn has_errors(&self) -> bool {
        self.raw.iter().any(|raw| raw.severity == Severity::Error)
    }

    pub fn append(&mut self, mut other: Self) {
        self.raw.append(&mut other.raw);
    }

    /// Removes disabled warnings and turns denied ones into errors.
    pub fn judge_warnings(&mut self, mut judge: impl FnMut(&str, Span) -> Judgement) {
        self.raw.retain_mut(|raw| {
            if raw.severity == Severity::Error {
                return true;
            }
            let judgement = judge(raw.code, raw.span);
            if judgement == Judgement::Deny {
                raw.severity = Severity::Error;
            }
            judgement != Judgement::Hide
        });
    }

    /// Resolves spans to lines and columns. Keeps one diagnostic per place, code and message, in the order of the
    /// source, and at most [`limits::ERRORS`] of each severity.
    pub fn finish(mut self, sources: &SourceMap) -> Vec<Diagnostic> {
        self.raw.sort_by_key(|raw| raw.span);
        let mut seen = HashSet::new();
        self.raw
            .retain(|raw| seen.insert((raw.span, raw.code, raw.message.clone())));
        // If E0201 reports a bracket as misplaced, the same bracket is not reported as unclosed (E0208).
        let misplaced: HashSet<_> = self
            .raw
            .iter()
            .filter(|raw| raw.code == "E0201")
            .map(|raw| raw.span)
            .collect();
        self.raw
            .retain(|raw| raw.code != "E0208" || !misplaced.contains(&raw.span));
        let (mut shown, mut cut) = ([0_usize; 2], Vec::new());
        let mut kept = Vec::new();
        for raw in self.raw {
            let of_kind = &mut shown[usize::from(raw.severity == Severity::Warning)];
            *of_kind += 1;
            if *of_kind <= limits::ERRORS {
                kept.push(raw);
            } else {
                cut.push(raw);
            }
        }
        if let Some(last) = kept.last_mut()
            && !cut.is_empty()
        {
            last.note(format!(
                "{} more are not shown, the next of them in line {}",
                cut.len(),
                sources.position(cut[0].span).line
            ));
        }
        kept.into_iter().map(|raw| raw.resolve(sources)).collect()
    }
}
