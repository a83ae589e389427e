//! Preprocessing tokens, by C's rules (C17, 6.4) and those of `cpp -x assembler-with-cpp`.
//!
//! They differ from P4's tokens: `1..N` is one number, `'` begins a character and `&&&` is two operators. When all
//! macros are expanded, [`super::program`] makes P4 tokens from them.

use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use crate::diagnostic::Sink;
use crate::limits;
use crate::source::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Name,
    /// A digit, perhaps after a dot, and all letters, digits, dots and signs of exponents after it.
    Number,
    /// `"..."` on one line.
    Str,
    /// `'...'` on one line.
    Char,
    /// An operator or separator of C.
    Punct,
    /// Another character, or the text from an unclosed quote to the end of the line.
    Other,
    /// No token: the beginning or end of an expanded macro or argument. The next token decides whether there is a space
    /// here.
    Edge,
    /// The end of the file, the directive or the argument that is being read.
    End,
}

#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags of a token are independent of one another"
)]
pub struct PpToken {
    pub kind: Kind,
    /// The spelling, with continued lines joined.
    pub text: Rc<str>,
    /// The token's source position; for a token of a macro's body, the position where the macro is used.
    pub span: Span,
    pub first: bool,
    /// White space precedes the token. For an edge: white space precedes the name of the macro or parameter.
    pub space: bool,
    /// The token is the name of a macro inside the macro's own expansion, and is never expanded again. For an edge: the
    /// edge is after an expansion and says nothing about white space.
    pub painted: bool,
    /// A macro made the token, so its text is not at `span`.
    pub made: bool,
}

impl PpToken {
    pub fn end(span: Span) -> Self {
        Self::marker(Kind::End, span)
    }

    /// Returns the edge before the expansion of a macro's or parameter's name.
    pub fn edge_before(name: &Self) -> Self {
        Self {
            space: name.space,
            first: name.first,
            ..Self::marker(Kind::Edge, name.span)
        }
    }

    pub fn edge_behind(span: Span) -> Self {
        Self {
            painted: true,
            ..Self::marker(Kind::Edge, span)
        }
    }

    fn marker(kind: Kind, span: Span) -> Self {
        Self {
            kind,
            text: "".into(),
            span,
            first: false,
            space: false,
            painted: false,
            made: true,
        }
    }

    pub fn is(&self, punct: &str) -> bool {
        self.kind == Kind::Punct && &*self.text == punct
    }

    pub fn name(&self) -> Option<&Rc<str>> {
        (self.kind == Kind::Name).then_some(&self.text)
    }

    /// Whether the token is a `#` or a `##` at the start of a line. A line that begins with `##` is a comment, like
    /// every line that C leaves to an assembler.
    pub fn begins_directive(&self) -> bool {
        self.first && (self.is("#") || self.is("##"))
    }
}

/// C's operators and separators, longest first, so that the first match is the longest.
const PUNCTUATION: &[&str] = &[
    "...", "<<=", ">>=", "##", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
    "*=", "/=", "%=", "+=", "-=", "&=", "^=", "|=", "[", "]", "(", ")", "{", "}", ".", "&", "*",
    "+", "-", "~", "!", "/", "%", "<", ">", "^", "|", "?", ":", ";", "=", ",", "#",
];

pub fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the kind and length of the token at the beginning of a text, which does not begin with white space.
pub fn measure(text: &str, lines: bool) -> (Kind, usize) {
    let mut chars = text.chars();
    let first = chars.next().unwrap_or(' ');
    let second = chars.next().unwrap_or(' ');
    if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
        (Kind::Number, number_len(text))
    } else if is_word(first) {
        (Kind::Name, text.find(|c| !is_word(c)).unwrap_or(text.len()))
    } else if first == '"' || first == '\'' {
        quoted(text, first, lines)
    } else if let Some(punct) = PUNCTUATION.iter().find(|punct| text.starts_with(**punct)) {
        (Kind::Punct, punct.len())
    } else {
        (Kind::Other, first.len_utf8())
    }
}

fn number_len(text: &str) -> usize {
    let mut before = ' ';
    text.find(|c: char| {
        let sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E' | 'p' | 'P');
        before = c;
        !(is_word(c) || c == '.' || sign)
    })
    .unwrap_or(text.len())
}

/// Returns the kind and length of a quoted text. `lines` says whether a string may span lines, as in P4 but not in C.
fn quoted(text: &str, quote: char, lines: bool) -> (Kind, usize) {
    let kind = if quote == '"' { Kind::Str } else { Kind::Char };
    let mut escaped = false;
    let mut line_end = None;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => {
                line_end = line_end.or(Some(at));
                if !(lines && quote == '"') {
                    break;
                }
            }
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return (kind, at + 1),
            _ => {}
        }
    }
    let line = &text[..line_end.unwrap_or(text.len())];
    (Kind::Other, line.trim_end_matches('\r').len())
}

/// A text with lines joined at a final `\`, and the origins of its characters.
pub struct Joined {
    pub text: String,
    /// Positions in `text` where something was left out, each with the number of bytes left out so far.
    cuts: Vec<(usize, usize)>,
}

impl Joined {
    pub fn new(text: &str) -> Self {
        let mut joined = Self {
            text: String::with_capacity(text.len()),
            cuts: Vec::new(),
        };
        let mut rest = text;
        let mut cut = 0;
        while let Some(at) = rest.find('\\') {
            let behind = &rest[at + 1..];
            let blank = behind.trim_start_matches([' ', '\t', '\r', '\x0b', '\x0c']);
            // The end of the file also ends its last line.
            if blank.starts_with('\n') || blank.is_empty() {
                joined.text.push_str(&rest[..at]);
                let len = 1 + behind.len() - blank.len() + usize::from(blank.starts_with('\n'));
                cut += len;
                joined.cuts.push((joined.text.len(), cut));
                rest = &rest[at + len..];
            } else {
                joined.text.push_str(&rest[..=at]);
                rest = behind;
            }
        }
        joined.text.push_str(rest);
        joined
    }

    /// Returns the position in the original text of the byte at `at`.
    pub fn written(&self, at: usize) -> usize {
        let before = self.cuts.partition_point(|(cut, _)| *cut <= at);
        at + before.checked_sub(1).map_or(0, |last| self.cuts[last].1)
    }

    /// Returns the range of whole lines in the original text, including the places where lines were joined.
    pub fn written_lines(&self, lines: &Range<usize>) -> Range<usize> {
        let begin = |at: usize| at.checked_sub(1).map_or(0, |end| self.written(end) + 1);
        begin(lines.start)..begin(lines.end)
    }

    /// Whether lines are joined between these bytes.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.iter().any(|(cut, _)| from < *cut && *cut < to)
    }

    fn span(&self, file: u32, at: usize, len: usize) -> Span {
        Span {
            file,
            start: self.written(at) as u32,
            end: (self.written(at + len - 1) + 1) as u32,
        }
    }

    /// Warns that `// ... \` continues on the next line, which the author seldom intended.
    fn warn_of_long_comment(&self, file: u32, at: usize, len: usize, sink: &mut Sink) {
        let cut = self.cuts.iter().map(|(cut, _)| *cut);
        let cut = cut.into_iter().find(|cut| at < *cut && *cut < at + len);
        if let Some(cut) = cut
            && !self.text[cut..at + len].trim().is_empty()
        {
            let span = self.span(file, at, cut - at);
            sink.warning("W0861", span, "this comment goes on in the next line")
                .label("the `\\` at its end joins the lines")
                .help("take the `\\` away, or put `//` in front of the next line too");
        }
    }
}

/// The parts of a file, apart from white space within lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    Token(Kind),
    LineComment,
    /// True if the comment is closed.
    BlockComment(bool),
    Newline,
    /// Lines that are not scanned.
    Raw,
}

/// Calls `item` with each item of a joined text, its position and its length. `raw` are whole lines, one item each.
pub fn scan(all: &str, raw: &[Range<usize>], mut item: impl FnMut(Item, usize, usize)) {
    let (mut at, mut raw) = (0, raw);
    while at < all.len() {
        if let Some((lines, behind)) = raw.split_first()
            && lines.start == at
        {
            item(Item::Raw, at, lines.len());
            (at, raw) = (lines.end, behind);
            continue;
        }
        at = scan_line(all, at, true, &mut item);
    }
}

/// Scans the line that begins at `at`; returns where the next line begins. `lines` says whether strings may span lines;
/// in a directive they never do.
fn scan_line(
    all: &str,
    mut at: usize,
    mut lines: bool,
    item: &mut dyn FnMut(Item, usize, usize),
) -> usize {
    let mut first = true;
    while let Some(c) = all[at..].chars().next() {
        let rest = &all[at..];
        let (found, len) = if c == '\n' {
            (Item::Newline, 1)
        } else if c.is_whitespace() || c == '\u{feff}' {
            at += c.len_utf8();
            continue;
        } else if rest.starts_with("//") {
            (Item::LineComment, rest.find('\n').unwrap_or(rest.len()))
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/");
            let len = end.map_or(rest.len(), |end| end + 4);
            (Item::BlockComment(end.is_some()), len)
        } else {
            lines &= !(first && c == '#');
            first = false;
            let (kind, len) = measure(rest, lines);
            (Item::Token(kind), len)
        };
        item(found, at, len);
        at += len;
        if found == Item::Newline {
            break;
        }
    }
    at
}

/// Returns the preprocessing tokens of one file. Comments count as white space.
pub fn lex(file: u32, text: &str, sink: &mut Sink) -> Vec<PpToken> {
    let mut lexer = Lexer::new(file, text);
    let mut out = Vec::new();
    while lexer.next_line(true, &mut out, sink) && out.len() <= limits::TOKENS {}
    out
}

/// Reads a file line by line, because the caller says for each line whether strings may span lines.
pub struct Lexer {
    joined: Joined,
    file: u32,
    at: usize,
    known: HashSet<Rc<str>>,
}

impl Lexer {
    pub fn new(file: u32, text: &str) -> Self {
        Self {
            joined: Joined::new(text),
            file,
            at: 0,
            known: HashSet::new(),
        }
    }

    /// Returns where the next line begins in the joined text.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the joined text from `from` to the current position.
    pub fn text(&self, from: usize) -> &str {
        &self.joined.text[from..self.at]
    }

    /// Adds the next line's tokens to `out`. Returns false if there is no further line. `lines` says whether strings
    /// may span lines.
    pub fn next_line(&mut self, lines: bool, out: &mut Vec<PpToken>, sink: &mut Sink) -> bool {
        let joined = &self.joined;
        if self.at >= joined.text.len() {
            return false;
        }
        let (mut first, mut end) = (true, self.at);
        self.at = scan_line(
            &joined.text,
            self.at,
            lines,
            &mut |item, at, len| match item {
                Item::Newline | Item::BlockComment(true) | Item::Raw => {}
                Item::LineComment => joined.warn_of_long_comment(self.file, at, len, sink),
                Item::BlockComment(false) => {
                    let span = joined.span(self.file, at, 2);
                    sink.error("E0101", span, "comment is not closed")
                        .help("add `*/`");
                }
                Item::Token(kind) => {
                    let text = &joined.text[at..at + len];
                    let one_line = text.replace("\r\n", "\n");
                    let made = joined.is_cut(at, at + len) || one_line != text;
                    out.push(PpToken {
                        kind,
                        text: intern(&mut self.known, &one_line),
                        span: joined.span(self.file, at, len),
                        first,
                        space: end < at,
                        painted: false,
                        made,
                    });
                    (first, end) = (false, at + len);
                }
            },
        );
        true
    }
}

fn intern(known: &mut HashSet<Rc<str>>, text: &str) -> Rc<str> {
    if let Some(found) = known.get(text) {
        return found.clone();
    }
    let text: Rc<str> = text.into();
    known.insert(text.clone());
    text
}
