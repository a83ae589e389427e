//! P4 source in one layout, from its tokens: nothing is added, removed or reordered.
//!
//! [`piece`] takes the text apart into tokens, comments and preprocessor lines and says between
//! which of them a space belongs; [`tree`] nests them by their brackets; [`layout`] decides on
//! lines. Macros are not expanded, so a file is formatted as it is written, every branch of a
//! conditional too. The style is described in `docs/compiler.md`.

mod layout;
mod piece;
mod spacing;
mod tree;

use std::collections::HashSet;
use std::rc::Rc;

use crate::diagnostic::{Diagnostic, Sink};
use crate::lex::{Tok, Token};
use crate::preprocess::token::{Item, Joined, Kind, PpToken, scan};
use crate::preprocess::{self, token};
use crate::source::{SourceMap, Span};
use crate::{Options, SourceProvider};

/// Characters that a line should not exceed.
const WIDTH: usize = 100;
/// Spaces of one level of indentation.
const INDENT: usize = 4;

/// Formats the file in `text`, which was read from `path`.
///
/// # Errors
/// The file by itself, with the files that it includes, is not P4, or its brackets do not match.
pub fn format(
    path: &str,
    text: &str,
    provider: &dyn SourceProvider,
    options: &Options,
) -> Result<String, Vec<Diagnostic>> {
    let before = Meaning::of(path, text, provider, options)?;
    let mut sources = SourceMap::default();
    let mut sink = Sink::default();
    let file = sources.add(path, text);
    let Some(lines) = Lines::of(file, text, &mut sink) else {
        return Err(sink.finish(&sources));
    };
    let formatted = match layout(text, &lines, &before.stringifying) {
        Ok(formatted) => formatted,
        Err((start, len)) => {
            let span = Span {
                file,
                start: start as u32,
                end: (start + len) as u32,
            };
            let message = format!("`{}` has no counterpart", sources.text(span));
            sink.error("E0201", span, message)
                .help("a file is formatted only where its brackets match");
            return Err(sink.finish(&sources));
        }
    };
    if formatted == text {
        return Ok(formatted);
    }
    let kept = Lines::of(file, &formatted, &mut Sink::default())
        .is_some_and(|after| lines.is_same(&after))
        && Meaning::of(path, &formatted, provider, options)
            .is_ok_and(|after| before.is_same(&after));
    if kept {
        return Ok(formatted);
    }
    let span = lines.tokens.first().map(|token| token.span);
    let message = "formatting this file would change its tokens, so it is left as it is";
    sink.error("E0121", span.unwrap_or_default(), message)
        .help("this is a fault of the formatter: please report it with the file");
    Err(sink.finish(&sources))
}

/// The formatted text; or a bracket without a counterpart, where it begins and how long it is.
fn layout(
    text: &str,
    lines: &Lines,
    stringifying: &HashSet<Rc<str>>,
) -> Result<String, (usize, usize)> {
    let shown = |name: &str| stringifying.contains(name);
    let mut pieces = piece::pieces(text, &lines.joined, &lines.tokens, &shown);
    tree::hide_unbalanced_branches(text, &mut pieces);
    spacing::decide(&mut pieces);
    match tree::nest(&pieces) {
        Ok(nodes) => Ok(layout::print(&nodes)),
        Err(unmatched) => Err((unmatched.start, unmatched.text.len())),
    }
}

/// A file as it is written: what formatting keeps.
struct Lines {
    joined: Joined,
    /// All but directives, as P4 without its macros.
    tokens: Vec<Token>,
    /// Directives with how many tokens stand before them.
    directives: Vec<(usize, Vec<PpToken>)>,
}

impl Lines {
    /// None: it is not made of tokens.
    fn of(file: u32, text: &str, sink: &mut Sink) -> Option<Self> {
        let all = token::lex(file, text, sink);
        let mut rest = all.as_slice();
        let (mut code, mut directives) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let next = rest.iter().skip(1).position(|token| token.first);
            let len = next.map_or(rest.len(), |at| at + 1);
            let (line, behind) = rest.split_at(len);
            rest = behind;
            if line[0].begins_directive() {
                directives.push(line.to_vec());
                continue;
            }
            let is_cut = |token: &&PpToken| token.made && token.kind != Kind::Str;
            if let Some(cut) = line.iter().find(is_cut) {
                sink.error("E0201", cut.span, "a line ends within this token")
                    .help("a file is formatted only where no `\\` at a line's end cuts a token in two");
            }
            code.extend_from_slice(line);
        }
        let mut tokens = preprocess::program::tokens(&code, sink);
        tokens.pop();
        let is_stray = |pair: &&[Token]| pair[1].is("#") && !pair[0].is("{");
        if let Some(pair) = tokens.windows(2).find(is_stray) {
            sink.error("E0201", pair[1].span, "a `#` within a line")
                .help("a directive begins its line");
        }
        let placed = |line: Vec<PpToken>| {
            let start = line[0].span.start;
            (
                tokens.partition_point(|token| token.span.start < start),
                line,
            )
        };
        let directives = directives.into_iter().map(placed).collect();
        // A warning about the file is not the formatter's.
        (!sink.has_errors()).then(|| Self {
            joined: Joined::new(text),
            tokens,
            directives,
        })
    }

    fn is_same(&self, after: &Self) -> bool {
        let directives = self.directives.len() == after.directives.len()
            && std::iter::zip(&self.directives, &after.directives)
                .all(|(before, after)| before.0 == after.0 && is_same_line(&before.1, &after.1));
        directives
            && is_same(&self.tokens, &after.tokens)
            && comments(&self.joined.text) == comments(&after.joined.text)
    }
}

/// Comments without their white space, which follows the indentation.
fn comments(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    scan(text, |item, at, len| {
        if matches!(item, Item::LineComment | Item::BlockComment(_)) {
            out.push(text[at..at + len].split_whitespace().collect());
        }
    });
    out
}

/// Whether two directives are the same; a quote that is not closed ends with the line.
fn is_same_line(before: &[PpToken], after: &[PpToken]) -> bool {
    before.len() == after.len()
        && std::iter::zip(before, after)
            .enumerate()
            .all(|(at, (before, after))| {
                before.kind == after.kind
                    && before.text.trim_end() == after.text.trim_end()
                    && (at == 0 || before.space == after.space)
            })
}

/// Whether the tokens are the same. Two `>` that touch are a shift, so they must go on to.
fn is_same(before: &[Token], after: &[Token]) -> bool {
    let shifts = |tokens: &[Token], at: usize| {
        let angle = |at: usize| matches!(tokens[at].tok, Tok::Punct(">" | ">="));
        at > 0 && tokens[at].joint && angle(at) && tokens[at - 1].is(">")
    };
    before.len() == after.len()
        && (0..before.len())
            .all(|at| before[at].tok == after[at].tok && (!shifts(before, at) || shifts(after, at)))
}

/// A file as it is compiled, with what it includes.
struct Meaning {
    /// All tokens after preprocessing, every `__LINE__` the same.
    tokens: Vec<Token>,
    /// Macros that make strings of what they are given.
    stringifying: HashSet<Rc<str>>,
}

impl Meaning {
    /// The file must be P4, as far as that can be said: what an include that is not there would
    /// have declared, nobody knows.
    fn of(
        path: &str,
        text: &str,
        provider: &dyn SourceProvider,
        options: &Options,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut sources = SourceMap::default();
        let mut sink = Sink::default();
        let main = (path, text);
        let (tokens, stringifying) =
            preprocess::without_lines(main, options, provider, &mut sources, &mut sink);
        // Without an include nobody knows what the macros and names are that it would bring.
        let whole = !sink.has_code("E0118");
        crate::syntax::parse(&tokens, &sources, &mut sink);
        let is_wrong = whole && sink.has_errors();
        let found = sink.finish(&sources);
        if is_wrong && found.iter().any(|found| found.file == path) {
            return Err(found);
        }
        Ok(Self {
            tokens,
            stringifying,
        })
    }

    fn is_same(&self, after: &Self) -> bool {
        is_same(&self.tokens, &after.tokens)
    }
}
