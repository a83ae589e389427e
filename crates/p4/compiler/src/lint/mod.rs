//! Warnings about programs that compile but probably do not do what their author intended.
//!
//! Each analysis has a file of its own. The analyses read the checked program before lowering, and run only if there is
//! no error. A warning must be true: an analysis that cannot be sure is silent. The warnings have codes W08xx, which
//! `explain` explains. [`NAMES`] gives p4c's name for the same warning, which `--Wdisable` and `@noWarn` accept.

pub mod control;
mod drop;
mod flow;
mod names;
mod numbers;
mod reach;
mod secrets;
mod tables;
mod variables;
pub mod walk;

use crate::diagnostic::Sink;
use crate::ir::Program;
use crate::lex::Token;
use crate::source::{SourceMap, Span};
use crate::syntax::ast::Declaration;

pub struct Subject<'a> {
    pub tokens: &'a [Token],
    pub tree: &'a [Declaration],
    pub program: &'a Program,
    pub sources: &'a SourceMap,
}

impl Subject<'_> {
    /// Whether the span is in a file that comes with the compiler.
    fn is_library(&self, span: Span) -> bool {
        self.sources
            .named_line(span)
            .is_none_or(|(file, _)| crate::preprocess::is_embedded(&file))
    }

    /// Whether the span is in the file given to the compiler, not in an included one.
    fn is_main_file(&self, span: Span) -> bool {
        let file = |span| self.sources.named_line(span).map(|(file, _)| file);
        self.tokens
            .last()
            .is_some_and(|end| end.span.file == span.file && file(end.span) == file(span))
    }

    /// Whether the text at the span consists of literals only. A named constant may get another value later, so an
    /// author may use a condition on such a constant to turn code on or off.
    fn is_literal(&self, span: Span) -> bool {
        let text = self.sources.text(span);
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.all(|word| {
            word.is_empty()
                || matches!(word, "true" | "false")
                || word.starts_with(|c: char| c.is_ascii_digit())
        })
    }
}

/// p4c's name of a warning, by code.
const NAMES: &[(&str, &str)] = &[
    ("W0301", "deprecated"),
    ("W0405", "overflow"),
    ("W0801", "unused"),
    ("W0802", "unused"),
    ("W0803", "unused"),
    ("W0804", "unused"),
    ("W0805", "unused"),
    ("W0806", "unused"),
    ("W0807", "unused"),
    ("W0808", "unused"),
    ("W0809", "unused"),
    ("W0810", "unused"),
    ("W0811", "shadow"),
    ("W0821", "uninitialized-use"),
    ("W0822", "uninitialized-out-param"),
    ("W0823", "invalid-header"),
    ("W0831", "unreachable"),
    ("W0832", "unreachable"),
    ("W0833", "unreachable"),
    ("W0834", "parser-transition"),
    ("W0835", "parser-transition"),
    ("W0836", "expr"),
    ("W0837", "expr"),
    ("W0841", "overflow"),
    ("W0842", "expr"),
    ("W0851", "keys"),
    ("W0852", "mismatch"),
    ("W0853", "missing"),
    ("W0854", "mismatch"),
    ("W0855", "ordering"),
    ("W0856", "ignore-prop"),
    ("W0857", "ignore"),
    ("W0858", "ignore"),
];

pub fn check(subject: &Subject<'_>, sink: &mut Sink) {
    names::check(subject, sink);
    variables::check(subject, sink);
    reach::check(subject, sink);
    numbers::check(subject, sink);
    tables::check(subject, sink);
    secrets::check(subject, sink);
    drop::check(subject, sink);
    flow::check(subject, sink);
}
