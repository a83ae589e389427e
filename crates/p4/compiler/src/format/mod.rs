//! Formats P4 source from its tokens. It adds, removes and reorders no token.
//!
//! [`piece`] splits the text into tokens, comments and preprocessor lines; `spacing` decides where spaces belong
//! between them; [`tree`] nests them by their brackets; [`layout`] decides where lines end. Macros are not expanded,
//! so a file is formatted as it is written, with every branch of a conditional. `docs/compiler.md` describes the
//! style.

mod branch;
mod layout;
mod piece;
mod spacing;
mod tree;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use crate::diagnostic::{Diagnostic, Severity, Sink};
use crate::lex::{Tok, Token};
use crate::preprocess::token::{Item, Joined, Kind, Lexer, PpToken, scan};
use crate::preprocess::{self, Branch};
use crate::source::{SourceMap, Span};
use crate::{Options, SourceProvider};

const WIDTH: usize = 100;
const INDENT: usize = 4;

/// Formats the file in `text`, which was read from `path`.
///
/// # Errors
///
/// The file, read with its includes, is not P4; its brackets do not match; or formatting would change a token.
pub fn format(
    path: &str,
    text: &str,
    provider: &dyn SourceProvider,
    options: &Options,
) -> Result<String, Vec<Diagnostic>> {
    stacker::grow(crate::limits::STACK_BYTES, || {
        format_here(path, text, provider, options)
    })
}

fn format_here(
    path: &str,
    text: &str,
    provider: &dyn SourceProvider,
    options: &Options,
) -> Result<String, Vec<Diagnostic>> {
    let compiler = Compiler {
        path,
        provider,
        options,
    };
    let before = compiler.meaning(text)?;
    let raw = branch::raw(&compiler, text, &before);
    let mut sources = SourceMap::default();
    let mut sink = Sink::default();
    let file = sources.add(path, text);
    let Some(lines) = Lines::of(file, text, &raw, &mut sink) else {
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
    let kept = |after: &Meaning| {
        let raw = branch::raw(&compiler, &formatted, after);
        before.is_same(after)
            && Lines::of(file, &formatted, &raw, &mut Sink::default())
                .is_some_and(|after| lines.is_same(&after))
    };
    if compiler.meaning(&formatted).is_ok_and(|after| kept(&after)) {
        return Ok(formatted);
    }
    let span = lines.tokens.first().map(|token| token.span);
    let message = "formatting this file would change its tokens, so it is left as it is";
    sink.error("E0121", span.unwrap_or_default(), message)
        .help("this is a fault of the formatter: please report it with the file");
    Err(sink.finish(&sources))
}

/// Returns the formatted text, or the start and length of a bracket without a counterpart.
fn layout(
    text: &str,
    lines: &Lines,
    stringifying: &HashSet<Rc<str>>,
) -> Result<String, (usize, usize)> {
    let shown = |name: &str| stringifying.contains(name);
    let mut pieces = piece::pieces(text, &lines.joined, &lines.raw, &lines.tokens, &shown);
    tree::hide_unbalanced_branches(text, &mut pieces);
    spacing::decide(&mut pieces);
    match tree::nest(&pieces) {
        Ok(nodes) => Ok(layout::print(&nodes)),
        Err(unmatched) => Err((unmatched.start, unmatched.text.len())),
    }
}

/// The parts of a file that formatting must keep.
struct Lines {
    joined: Joined,
    /// Lines that stay unchanged, as ranges of the joined text.
    raw: Vec<Range<usize>>,
    /// The text of the lines in `raw`, without trailing space.
    raw_texts: Vec<String>,
    /// The tokens outside of directives, read as P4 without expanding macros.
    tokens: Vec<Token>,
    /// Directives, each with the number of tokens before it.
    directives: Vec<(usize, Vec<PpToken>)>,
}

impl Lines {
    /// `raw` are the branches that stay unchanged. Returns `None` if the file cannot be split into tokens.
    fn of(file: u32, text: &str, raw: &[Branch], sink: &mut Sink) -> Option<Self> {
        let mut lexer = Lexer::new(file, text);
        let (mut code, mut directives) = (Vec::new(), Vec::new());
        let mut raw_lines: Vec<Range<usize>> = Vec::new();
        // The unchanged branch that the loop is in: its end, and the beginning of its first line.
        let mut open: Option<(u32, usize)> = None;
        let mut line = Vec::new();
        loop {
            line.clear();
            let begin = lexer.at();
            if !lexer.next_line(open.is_none(), &mut line, sink) {
                break;
            }
            let hash = line.first().filter(|first| first.begins_directive());
            let hash = hash.map(|first| first.span.start);
            if let Some((end, first)) = open {
                if hash != Some(end) {
                    continue;
                }
                raw_lines.push(first..begin + comment_len(lexer.text(begin)));
                open = None;
            }
            if let Some(hash) = hash {
                let branch = raw.iter().find(|branch| branch.begin == hash);
                open = branch.map(|branch| (branch.end, lexer.at()));
                directives.push(line.clone());
                continue;
            }
            let is_cut = |token: &&PpToken| token.made && token.kind != Kind::Str;
            if let Some(cut) = line.iter().find(is_cut) {
                sink.error("E0201", cut.span, "a `\\` splits this token into two lines")
                    .help("such a file is not formatted: write the token on one line");
            }
            code.extend_from_slice(&line);
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
        let joined = Joined::new(text);
        let written = |lines: &Range<usize>| {
            let written = &text[joined.written_lines(lines)];
            written.trim_end().replace("\r\n", "\n")
        };
        // The formatter ignores warnings about the file.
        let raw_texts = raw_lines.iter().map(written).collect();
        (!sink.has_errors()).then_some(Self {
            raw_texts,
            raw: raw_lines,
            joined,
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
            && self.raw_texts == after.raw_texts
            && comments(&self.joined.text, &self.raw) == comments(&after.joined.text, &after.raw)
    }
}

/// Returns the length of a comment in front of a directive on the same line, or 0 if there is none. The comment is part
/// of the unchanged lines, because the formatter moves the directive to a line of its own.
fn comment_len(line: &str) -> usize {
    let mut len = None;
    scan(line, &[], |item, at, _| {
        if matches!(item, Item::Token(_)) && len.is_none() {
            len = Some(at);
        }
    });
    len.filter(|len| !line[..*len].trim().is_empty())
        .unwrap_or(0)
}

/// Returns the comments without their white space, because formatting changes the white space along with the
/// indentation.
fn comments(text: &str, raw: &[Range<usize>]) -> Vec<String> {
    let mut out = Vec::new();
    scan(text, raw, |item, at, len| {
        if matches!(item, Item::LineComment | Item::BlockComment(_)) {
            out.push(text[at..at + len].split_whitespace().collect());
        }
    });
    out
}

/// Whether two directives are the same. An unclosed quote extends to the line's end, so trailing space does not
/// count.
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

/// Whether the tokens are the same. Two adjacent `>` are a shift and must stay adjacent.
fn is_same(before: &[Token], after: &[Token]) -> bool {
    let shifts = |tokens: &[Token], at: usize| {
        let angle = |at: usize| matches!(tokens[at].tok, Tok::Punct(">" | ">="));
        at > 0 && tokens[at].joint && angle(at) && tokens[at - 1].is(">")
    };
    before.len() == after.len()
        && (0..before.len())
            .all(|at| before[at].tok == after[at].tok && (!shifts(before, at) || shifts(after, at)))
}

struct Compiler<'a> {
    path: &'a str,
    provider: &'a dyn SourceProvider,
    options: &'a Options,
}

impl Compiler<'_> {
    /// Fails if the file is not P4. Ignores errors if an include is missing, because its macros and names are
    /// unknown.
    fn meaning(&self, text: &str) -> Result<Meaning, Vec<Diagnostic>> {
        let (meaning, found) = self.read(text, &HashMap::new());
        let whole = !found.iter().any(|found| found.code == "E0118");
        let is_wrong = found
            .iter()
            .any(|found| found.file == self.path && found.severity == Severity::Error);
        if whole && is_wrong {
            return Err(found);
        }
        Ok(meaning)
    }

    /// Reads the file with the `chosen` branches, and returns its errors too.
    fn read(&self, text: &str, chosen: &HashMap<u32, bool>) -> (Meaning, Vec<Diagnostic>) {
        let mut sources = SourceMap::default();
        let mut sink = Sink::default();
        let main = (self.path, text);
        let outline = preprocess::outline(
            main,
            chosen,
            self.options,
            self.provider,
            &mut sources,
            &mut sink,
        );
        crate::syntax::parse(&outline.tokens, &sources, &mut sink);
        let found = sink.finish(&sources);
        let n_errors = found.iter().filter(|found| self.is_syntax_error(found));
        let meaning = Meaning {
            tokens: outline.tokens,
            stringifying: outline.stringifying,
            branches: outline.branches,
            n_errors: n_errors.count(),
        };
        (meaning, found)
    }

    /// Whether the diagnostic is an error in the file's own text and neither a missing include nor an `#error`.
    fn is_syntax_error(&self, found: &Diagnostic) -> bool {
        found.severity == Severity::Error
            && found.file == self.path
            && !matches!(found.code.as_str(), "E0113" | "E0118")
    }
}

struct Meaning {
    /// All tokens after preprocessing. Every `__LINE__` has the same value, because formatting moves lines.
    tokens: Vec<Token>,
    /// Macros that make strings of their arguments.
    stringifying: HashSet<Rc<str>>,
    branches: Vec<Branch>,
    n_errors: usize,
}

impl Meaning {
    fn is_same(&self, after: &Self) -> bool {
        is_same(&self.tokens, &after.tokens)
    }
}
