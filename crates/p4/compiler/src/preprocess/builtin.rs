//! The macros that exist without a `#define`.

use std::rc::Rc;

use super::Preprocessor;
use super::macros::{Macro, Meaning};
use super::token::{Kind, PpToken};
use crate::source::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Line,
    File,
    BaseFile,
    IncludeLevel,
    Counter,
    Date,
    Time,
    Timestamp,
    /// `_Pragma("text")`, which expands to nothing.
    Pragma,
    /// `__has_include(<file>)`, in conditions.
    HasInclude,
    /// `__has_attribute(name)` and the like, in conditions: always 0.
    HasNot,
}

const NAMES: &[(&str, Builtin)] = &[
    ("__LINE__", Builtin::Line),
    ("__FILE__", Builtin::File),
    ("__BASE_FILE__", Builtin::BaseFile),
    ("__INCLUDE_LEVEL__", Builtin::IncludeLevel),
    ("__COUNTER__", Builtin::Counter),
    ("__DATE__", Builtin::Date),
    ("__TIME__", Builtin::Time),
    ("__TIMESTAMP__", Builtin::Timestamp),
    ("_Pragma", Builtin::Pragma),
    ("__has_include", Builtin::HasInclude),
    ("__has_attribute", Builtin::HasNot),
    ("__has_builtin", Builtin::HasNot),
];

/// The macros with a constant value that `cpp -undef -x assembler-with-cpp` defines.
const CONSTANTS: &[(&str, &str)] = &[
    ("__STDC__", "1"),
    ("__STDC_HOSTED__", "1"),
    ("__ASSEMBLER__", "1"),
];

impl Preprocessor<'_> {
    pub(super) fn define_builtins(&mut self) {
        let span = Span::default();
        for (name, builtin) in NAMES {
            let meaning = Meaning::Builtin(*builtin);
            let found = Rc::new(Macro { span, meaning });
            self.macros.insert((*name).into(), found);
        }
        for (name, value) in CONSTANTS {
            let meaning = Meaning::Object(vec![PpToken {
                kind: Kind::Number,
                text: (*value).into(),
                ..PpToken::end(span)
            }]);
            let found = Rc::new(Macro { span, meaning });
            self.macros.insert((*name).into(), found);
        }
    }

    /// Returns the value of a built-in macro at `name`; it is empty for `_Pragma` and after an error.
    pub(super) fn builtin(&mut self, builtin: Builtin, name: &PpToken) -> Vec<PpToken> {
        let quoted = |text: &str| {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            (Kind::Str, format!("\"{text}\""))
        };
        let number = |value: usize| (Kind::Number, value.to_string());
        let (kind, text) = match builtin {
            Builtin::Line if self.same_lines => number(1),
            Builtin::Line => {
                let line = self.sources.named_line(name.span).map_or(0, |line| line.1);
                (Kind::Number, line.to_string())
            }
            Builtin::File => {
                let line = self.sources.named_line(name.span);
                quoted(&line.map_or("".into(), |line| line.0))
            }
            Builtin::BaseFile => {
                let main = Span::default();
                let file = self.sources.file(main.file);
                quoted(&file.map_or("".into(), |file| file.name.clone()))
            }
            Builtin::IncludeLevel => number(self.files.len().saturating_sub(1)),
            Builtin::Counter => {
                self.counter += 1;
                number(self.counter - 1)
            }
            // A compilation reads no clock. The C preprocessor writes these texts when it has no clock.
            Builtin::Date => quoted("??? ?? ????"),
            Builtin::Time => quoted("??:??:??"),
            Builtin::Timestamp => quoted("??? ??? ?? ??:??:?? ????"),
            Builtin::Pragma => return self.pragma_operator(name),
            Builtin::HasNot if self.in_condition => {
                self.skip_parentheses();
                number(0)
            }
            Builtin::HasInclude if self.in_condition => number(usize::from(self.has_include(name))),
            Builtin::HasNot | Builtin::HasInclude => {
                let message = format!("`{}` stands outside of `#if`", name.text);
                self.sink.error("E0112", name.span, message);
                return Vec::new();
            }
        };
        vec![PpToken {
            kind,
            text: text.into(),
            ..PpToken::end(name.span)
        }]
    }
}
