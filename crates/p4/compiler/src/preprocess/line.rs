//! `#line 12 "file"`, and `# 12 "file" 1` as C preprocessors write it: the origin of the following lines.

use super::Preprocessor;
use super::token::{Kind, PpToken};
use crate::source::Span;

impl Preprocessor<'_> {
    /// Executes a `#line`, whose number and name may come from macros.
    pub(super) fn line(&mut self, rest: &[PpToken], directive: Span) {
        let mut rest = self.expand_alone(rest);
        rest.retain(|token| token.kind != Kind::Edge);
        self.line_marker(&rest, directive);
    }

    /// Executes a line marker; `rest` is the text after `#line` or `#`. Numbers after the file's name are flags about
    /// the include, which are ignored.
    pub(super) fn line_marker(&mut self, rest: &[PpToken], directive: Span) {
        let number = rest.first().and_then(|token| {
            let number: i32 = token.text.parse().ok()?;
            u32::try_from(number).ok()
        });
        let name = match rest.get(1) {
            None => Some(None),
            Some(token) if token.kind == Kind::Str => Some(Some(unescaped(&token.text))),
            Some(_) => None,
        };
        let (Some(number), Some(name)) = (number, name) else {
            self.sink
                .error("E0112", directive, "expected a line's number and a file")
                .help("write `#line 12 \"file.p4\"`; the file may be left out");
            return;
        };
        self.sources.renumber(directive, number, name.as_deref());
    }
}

fn unescaped(text: &str) -> String {
    let inner = text.get(1..text.len() - 1).unwrap_or("");
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}
