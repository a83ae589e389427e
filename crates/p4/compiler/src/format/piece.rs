//! A file's tokens, comments and preprocessor lines, with the number of line ends between them.

use std::ops::Range;

use crate::lex::{Tok, Token};
use crate::preprocess::token::{Item, Joined, scan};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A name, a keyword, a number or a string.
    Word,
    /// An operator, a separator or a bracket.
    Punct,
    LineComment,
    BlockComment,
    /// A preprocessor line with its continuations.
    Directive,
    /// Lines that stay unchanged, including the line end of the last line.
    Raw,
}

/// A piece of the file, and the decisions of [`super::spacing`] about it.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// Byte offset.
    pub start: usize,
    /// Line ends between the previous piece and this one.
    pub newlines: usize,
    /// Follows the previous piece without a gap.
    pub joint: bool,
    /// A space belongs before the piece if both are on one line.
    pub space: bool,
    /// The piece begins a line, because the annotation before it ends a line.
    pub breaks: bool,
    /// The piece may begin a line, because it follows a leading annotation.
    pub may_break: bool,
    pub role: Role,
}

/// The role of a bracket or an operator, if the text alone does not determine it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    #[default]
    Plain,
    /// `{` of statements, declarations or properties.
    Block,
    /// `{` of the cases of a `switch`.
    SwitchBlock,
    /// `{` after a property's `=`.
    PropertyBlock,
    /// `{` of enumerators or error names: one per line.
    Names,
    TypeArguments,
    /// An operator with two operands, or an annotation after its object. A line may begin with such a piece. The
    /// number says how tightly the piece binds, 0 the loosest.
    Binary(u8),
    /// The `:` that ends a label, in a `switch` or elsewhere.
    Colon,
}

impl Piece<'_> {
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Punct) && self.text == text
    }

    /// Whether the piece is a comment, a preprocessor line or raw lines.
    pub fn is_trivia(&self) -> bool {
        !matches!(self.kind, Kind::Word | Kind::Punct)
    }

    /// Whether nothing may follow the piece on its line.
    pub fn ends_line(&self) -> bool {
        matches!(self.kind, Kind::LineComment | Kind::Directive | Kind::Raw)
    }
}

/// Splits a file into pieces. `joined` is its text with continued lines joined; `tokens` are its tokens outside of
/// directives and of the lines in `raw`. A macro for which `shown` is true makes strings of its arguments, white space
/// included, so its calls stay unchanged.
pub fn pieces<'a>(
    text: &'a str,
    joined: &Joined,
    raw: &[Range<usize>],
    tokens: &[Token],
    shown: &dyn Fn(&str) -> bool,
) -> Vec<Piece<'a>> {
    let mut builder = Builder {
        text,
        out: Vec::new(),
        newlines: 1,
        end: usize::MAX,
    };
    let mut rest = tokens;
    let mut directive: Option<Range<usize>> = None;
    let mut line_begins = true;
    let mut covered = 0;
    scan(&joined.text, raw, |item, at, len| {
        if item == Item::Raw {
            builder.push(Kind::Raw, joined.written_lines(&(at..at + len)));
            builder.newlines = 1;
            return;
        }
        // Leaves out a final `\` that only white space follows: it joins no further text to the item.
        let len = joined.text[at..at + len].trim_end().len().max(1);
        let range = joined.written(at)..joined.written(at + len - 1) + 1;
        if range.start < covered {
            return;
        }
        match (item, &mut directive) {
            (Item::Newline, _) => {
                if let Some(done) = directive.take() {
                    builder.push(Kind::Directive, done);
                }
                line_begins = true;
                builder.newlines += 1;
            }
            (Item::Raw, _) => {}
            (_, Some(open)) => open.end = range.end,
            (Item::LineComment, None) => builder.push(Kind::LineComment, range),
            (Item::BlockComment(_), None) => builder.push(Kind::BlockComment, range),
            (Item::Token(_), None) => {
                let hash = joined.text[at..].starts_with('#');
                if line_begins && hash {
                    directive = Some(range);
                } else if let Some(done) = pragma(text, rest) {
                    directive = Some(done);
                } else {
                    covered = builder.tokens(&mut rest, range.end, shown);
                }
                line_begins = false;
            }
        }
        let gone = directive.as_ref().map_or(0, |open| open.end);
        rest = &rest[rest.partition_point(|token| (token.span.start as usize) < gone)..];
    });
    if let Some(done) = directive {
        builder.push(Kind::Directive, done);
    }
    builder.out
}

/// Returns the range of an `@pragma` that begins the tokens. The caller extends the range to the end of the line.
fn pragma(text: &str, tokens: &[Token]) -> Option<Range<usize>> {
    let [at, word, ..] = tokens else { return None };
    let begins = at.is("@") && word.joint && word.word() == Some("pragma");
    let range = at.span.start as usize..word.span.end as usize;
    (begins && text.get(range.clone()) == Some("@pragma")).then_some(range)
}

struct Builder<'a> {
    text: &'a str,
    out: Vec<Piece<'a>>,
    newlines: usize,
    end: usize,
}

impl Builder<'_> {
    fn push(&mut self, kind: Kind, range: Range<usize>) {
        // A directive gets its own line, even after a comment.
        self.newlines = self.newlines.max(usize::from(kind == Kind::Directive));
        let text = &self.text[range.clone()];
        self.out.push(Piece {
            kind,
            text: if kind == Kind::Raw {
                text
            } else {
                text.trim_end()
            },
            start: range.start,
            newlines: std::mem::take(&mut self.newlines),
            joint: self.end == range.start,
            space: false,
            breaks: false,
            may_break: false,
            role: Role::Plain,
        });
        self.end = range.end;
    }

    /// Pushes the tokens that begin before `end`; returns where the last of them ends.
    fn tokens(&mut self, rest: &mut &[Token], end: usize, shown: &dyn Fn(&str) -> bool) -> usize {
        let mut covered = end;
        while let Some((token, behind)) = rest.split_first()
            && (token.span.start as usize) < covered
        {
            let whole = match token.word() {
                Some(word) if shown(word) => call(behind),
                _ => invalid_header(token, behind),
            };
            let behind = whole.map_or(behind, |len| &behind[len..]);
            let last = &rest[rest.len() - behind.len() - 1];
            let kind = match token.tok {
                Tok::Punct(_) if whole.is_none() => Kind::Punct,
                _ => Kind::Word,
            };
            let range = token.span.start as usize..last.span.end as usize;
            covered = covered.max(range.end);
            self.push(kind, range);
            *rest = behind;
        }
        covered
    }
}

/// Returns how many tokens after `first` belong to `{#}`, which is one token in P4; `None` if there is no `{#}` here.
fn invalid_header(first: &Token, behind: &[Token]) -> Option<usize> {
    let [hash, close, ..] = behind else {
        return None;
    };
    (first.is("{") && hash.is("#") && hash.joint && close.is("}")).then_some(2)
}

/// Returns the number of tokens in the parenthesised arguments at the start of `tokens`.
fn call(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.tok {
            Tok::Punct("(") => depth += 1,
            Tok::Punct(")") => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (at > 0).then_some(at + 1);
        }
    }
    None
}
