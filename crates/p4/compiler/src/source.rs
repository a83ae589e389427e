//! Source texts and places in them.

use std::collections::HashMap;
use std::rc::Rc;

/// A range of bytes in one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Index into the [`SourceMap`].
    pub file: u32,
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Spans from the start of this span to the end of `other`; returns this span if `other` is in another file or ends
    /// before this span begins.
    pub fn to(self, other: Self) -> Self {
        if self.file == other.file && other.end >= self.start {
            Self {
                end: other.end,
                ..self
            }
        } else {
            self
        }
    }
}

pub struct SourceFile {
    /// The path by which the file was requested.
    pub name: Rc<str>,
    pub text: Rc<str>,
    line_starts: Vec<u32>,
    /// The `#line` directives, in order.
    renumberings: Vec<Renumbering>,
    /// The `#include` that requested the file; `None` for the main file.
    included_at: Option<Span>,
}

/// A `#line` directive: lines from `first` on are numbered from `number`, in the file `name`.
struct Renumbering {
    first: u32,
    name: Rc<str>,
    number: u32,
}

impl SourceFile {
    /// Returns the line of a byte, from 1.
    fn line_of(&self, at: u32) -> u32 {
        self.line_starts
            .partition_point(|start| *start <= at)
            .max(1) as u32
    }

    fn named(&self, line: u32) -> (&Rc<str>, u32) {
        let after = self
            .renumberings
            .partition_point(|renumbering| renumbering.first <= line);
        match after.checked_sub(1).map(|at| &self.renumberings[at]) {
            Some(said) => (&said.name, (line - said.first).saturating_add(said.number)),
            None => (&self.name, line),
        }
    }
}

#[derive(Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    /// Keyed by the file and the first byte of the macro's name.
    macro_uses: HashMap<(u32, u32), MacroUse>,
    /// Each span runs from a macro's name to the parenthesis that closes its arguments.
    macro_calls: Vec<(Span, MacroUse)>,
}

pub struct MacroUse {
    pub name: Rc<str>,
    /// The name in the `#define`.
    pub defined: Span,
    /// Whether the place for which the use was looked up is in the parentheses after the macro's name. False if the
    /// place is the name itself.
    pub is_argument: bool,
}

pub struct Position {
    pub file: Rc<str>,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    pub end_line: u32,
    /// One past the last character, in characters.
    pub end_column: u32,
    /// The whole first line.
    pub text: String,
    /// Characters to underline in `text`; 0 for a position between two characters.
    pub length: u32,
}

impl SourceMap {
    /// Adds a file and returns its number.
    pub fn add(&mut self, name: &str, text: &str) -> u32 {
        let starts = std::iter::once(0).chain(
            text.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| at as u32 + 1),
        );
        let file = SourceFile {
            name: name.into(),
            text: text.into(),
            line_starts: starts.collect(),
            renumberings: Vec::new(),
            included_at: None,
        };
        self.files.push(file);
        (self.files.len() - 1) as u32
    }

    /// Records the `#include` that requested a file; `None` for the main file.
    pub fn set_included_at(&mut self, file: u32, span: Option<Span>) {
        if let Some(file) = self.files.get_mut(file as usize) {
            file.included_at = span;
        }
    }

    /// Records a `#line`: the lines after the directive count from `number`, in the file `name` if it is given.
    pub fn renumber(&mut self, directive: Span, number: u32, name: Option<&str>) {
        let Some(file) = self.files.get_mut(directive.file as usize) else {
            return;
        };
        let last = file.line_of(directive.end);
        let name = match name {
            Some(name) => name.into(),
            None => file.named(last).0.clone(),
        };
        file.renumberings.push(Renumbering {
            first: last + 1,
            name,
            number,
        });
    }

    /// Returns the file and line (from 1) of a place, as `#line` numbers them.
    pub fn named_line(&self, span: Span) -> Option<(Rc<str>, u32)> {
        let file = self.file(span.file)?;
        let (name, line) = file.named(file.line_of(span.start));
        Some((name.clone(), line))
    }

    pub fn included_at(&self, span: Span) -> Option<Span> {
        self.file(span.file)?.included_at
    }

    pub fn file(&self, file: u32) -> Option<&SourceFile> {
        self.files.get(file as usize)
    }

    pub fn text(&self, span: Span) -> &str {
        self.file(span.file)
            .and_then(|file| file.text.get(span.start as usize..span.end as usize))
            .unwrap_or("")
    }

    /// Returns the text from the start of a span to the end of the line on which the span starts.
    pub fn rest_of_line(&self, span: Span) -> &str {
        let text = self.file(span.file).map_or("", |file| &file.text);
        let rest = text.get(span.start as usize..).unwrap_or("");
        rest.lines().next().unwrap_or("")
    }

    /// Records a use of a macro and the macro's definition; `call` extends to the end of the use's arguments.
    pub fn add_macro_use(&mut self, used: Span, call: Span, name: &Rc<str>, defined: Span) {
        let found = |is_argument| MacroUse {
            name: name.clone(),
            defined,
            is_argument,
        };
        if call != used {
            self.macro_calls.push((call, found(true)));
        }
        // A token from a macro's body has the place of the macro's use, even if the token is itself a macro's name. The
        // first macro recorded for a place is the outermost one, so it stays.
        self.macro_uses
            .entry((used.file, used.start))
            .or_insert(found(false));
    }

    /// Returns the macro whose name begins at the place. If there is none, returns the outermost macro whose arguments
    /// contain the place.
    pub fn macro_use(&self, place: Span) -> Option<&MacroUse> {
        let by_name = self.macro_uses.get(&(place.file, place.start));
        let holds = |call: &Span| {
            call.file == place.file && call.start <= place.start && place.end <= call.end
        };
        let calls = self.macro_calls.iter().filter(|(call, _)| holds(call));
        by_name.or_else(|| {
            calls
                .min_by_key(|(call, _)| call.start)
                .map(|(_, used)| used)
        })
    }

    /// Returns the line (from 1) and the byte column (from 0) of a span's start in the text itself, without regard to
    /// `#line`.
    pub fn line_column(&self, span: Span) -> (u32, u32) {
        let Some(file) = self.file(span.file) else {
            return (1, 0);
        };
        let line = file.line_of(span.start);
        let start = file.line_starts[line as usize - 1];
        (line, span.start.saturating_sub(start))
    }

    /// Resolves a span to lines and columns.
    pub fn position(&self, span: Span) -> Position {
        let (line, column) = self.line_column(span);
        let Some(file) = self.file(span.file) else {
            return Position {
                file: "".into(),
                line,
                column: 1,
                end_line: line,
                end_column: 1,
                text: String::new(),
                length: 0,
            };
        };
        let start = file.line_starts[line as usize - 1] as usize;
        let text = file.text[start..].lines().next().unwrap_or("");
        let before = text.get(..column as usize).unwrap_or(text);
        let end = (span.end as usize).saturating_sub(start).min(text.len());
        let under = text
            .get(column as usize..end.max(column as usize))
            .unwrap_or("");
        let column = before.chars().count() as u32 + 1;
        let length = under.chars().count() as u32;
        let (name, named_line) = file.named(line);
        let (end_line, end_column) = self
            .end(file, span)
            .and_then(|(end_line, end_column)| {
                let (end_name, end_line) = file.named(end_line);
                (end_name == name && end_line >= named_line).then_some((end_line, end_column))
            })
            .unwrap_or((named_line, column + length));
        Position {
            file: name.clone(),
            line: named_line,
            column,
            end_line,
            end_column,
            text: text.to_owned(),
            length,
        }
    }

    /// Returns the line and column of a span's end; `None` if the end is outside the text.
    fn end(&self, file: &SourceFile, span: Span) -> Option<(u32, u32)> {
        let line = file.line_of(span.end);
        let start = file.line_starts[line as usize - 1] as usize;
        let before = file.text.get(start..(span.end as usize).max(start))?;
        Some((line, before.chars().count() as u32 + 1))
    }
}
