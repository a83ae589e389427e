//! A file's tokens, comments and preprocessor lines, with the line ends between them.

use crate::lex::PUNCTUATION;

/// What a piece of text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A name, a keyword, a number or a string.
    Word,
    /// An operator, a separator or a bracket.
    Punct,
    /// `// ...`
    LineComment,
    /// `/* ... */`
    BlockComment,
    /// A preprocessor line with its continuations, or text that is left as it is.
    Directive,
}

/// A piece of the file, and what [`super::spacing`] finds out about it.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// Where it begins, in bytes.
    pub start: usize,
    /// Line ends between the piece before and this one.
    pub newlines: usize,
    /// Follows the piece before without a gap.
    pub joint: bool,
    /// A space belongs before it, where both stand on one line.
    pub space: bool,
    /// It begins a line, because the annotation before it ends one.
    pub breaks: bool,
    /// It follows an annotation that stands first, so a line may begin with it.
    pub may_break: bool,
    /// What a bracket or an operator is.
    pub role: Role,
}

/// What a bracket or an operator is, where the text alone does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// Nothing special.
    #[default]
    Plain,
    /// `{` of statements, declarations or properties.
    Block,
    /// `{` of the cases of a `switch`.
    SwitchBlock,
    /// `{` after a property's `=`.
    PropertyBlock,
    /// `{` of enumerators or error names: one a line.
    Names,
    /// `<` or `>` around type arguments.
    TypeArguments,
    /// An operator with two operands, or an annotation behind what it is about: a line may begin
    /// with it. How loosely it binds, 0 most.
    Binary(u8),
    /// The `:` of a case in a `switch`, or another that ends a label.
    Colon,
}

impl Piece<'_> {
    /// Whether it is this word or operator.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Punct) && self.text == text
    }

    /// Whether it is a comment or a preprocessor line.
    pub fn is_trivia(&self) -> bool {
        !matches!(self.kind, Kind::Word | Kind::Punct)
    }

    /// Whether nothing may follow it on its line.
    pub fn ends_line(&self) -> bool {
        matches!(self.kind, Kind::LineComment | Kind::Directive)
    }
}

/// Takes a file apart; its text is known to be made of tokens.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out: Vec<Piece<'_>> = Vec::new();
    let (mut at, mut newlines, mut end) = (0, 1, usize::MAX);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c == '\n' {
            newlines += 1;
            at += 1;
        } else if c.is_whitespace() || c == '\u{feff}' || rest.starts_with("\\\n") {
            at += c.len_utf8();
        } else if rest.starts_with("\\\r\n") {
            at += 2;
        } else {
            let (kind, len) = measure(rest, newlines > 0);
            out.push(Piece {
                kind,
                text: rest[..len].trim_end(),
                start: at,
                newlines,
                joint: end == at,
                space: false,
                breaks: false,
                may_break: false,
                role: Role::Plain,
            });
            at += len;
            (newlines, end) = (0, at);
        }
    }
    out
}

/// The kind and length of the piece that the text begins with.
fn measure(rest: &str, first_of_line: bool) -> (Kind, usize) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let line_end = rest.find('\n').unwrap_or(rest.len());
    if first_of_line && rest.starts_with('#') {
        (Kind::Directive, directive_len(rest))
    } else if rest.starts_with("@pragma") && !rest[7..].starts_with(is_word) {
        (Kind::Directive, line_end)
    } else if rest.starts_with("//") {
        (Kind::LineComment, line_end)
    } else if let Some(comment) = rest.strip_prefix("/*") {
        let end = comment.find("*/").map_or(rest.len(), |end| end + 4);
        (Kind::BlockComment, end)
    } else if rest.starts_with('"') {
        (Kind::Word, string_len(rest))
    } else if rest.starts_with(is_word) {
        let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        (Kind::Word, len)
    } else {
        let punct = PUNCTUATION.iter().find(|punct| rest.starts_with(**punct));
        let len = punct.map_or_else(
            || rest.chars().next().map_or(1, char::len_utf8),
            |p| p.len(),
        );
        (Kind::Punct, len)
    }
}

fn string_len(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// To the end of the line that no backslash continues; a comment in it may span lines.
fn directive_len(rest: &str) -> usize {
    let mut at = 0;
    while let Some(c) = rest[at..].chars().next() {
        let tail = &rest[at..];
        at += match c {
            '\n' => return at,
            '\\' if tail.starts_with("\\\r\n") => 3,
            '\\' if tail.starts_with("\\\n") => 2,
            '/' if tail.starts_with("//") => return at + tail.find('\n').unwrap_or(tail.len()),
            '/' if tail.starts_with("/*") => tail[2..].find("*/").map_or(tail.len(), |n| n + 4),
            '"' => string_len(tail.split('\n').next().unwrap_or(tail)),
            other => other.len_utf8(),
        };
    }
    rest.len()
}
