//! Text to tokens, by the P4_16 lexical grammar (1.2.5, section 6).
//!
//! `>>` is two `>` tokens, because type arguments may end with it. The expression parser joins
//! them.

use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::Num as _;

use crate::diagnostic::Sink;
use crate::limits;
use crate::source::Span;

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub enum Tok {
    /// An identifier or a keyword.
    Word(Rc<str>),
    /// A number, and how it is written.
    Int(BigInt, Written),
    /// A string, its escapes resolved.
    Str(Rc<str>),
    /// An operator or a separator.
    Punct(&'static str),
    /// The end of the input.
    Eof,
}

/// The parts of a number's text beside its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The width where there is one, and whether it is signed.
    pub width: Option<(u32, bool)>,
    /// Of the digits: 2, 8, 10 or 16.
    pub radix: u32,
}

impl Written {
    /// Decimal digits only.
    pub const PLAIN: Self = Self {
        width: None,
        radix: 10,
    };
}

/// A token and where it stands.
#[derive(Clone, Debug)]
pub struct Token {
    /// The kind of the token.
    pub tok: Tok,
    /// Where it is.
    pub span: Span,
    /// The first of its line: a `#` here begins a directive.
    pub first: bool,
    /// Follows the token before without a gap.
    pub joint: bool,
    /// How a number or a string is written; empty for others.
    pub text: Rc<str>,
}

impl Token {
    /// Whether it is this operator or separator.
    pub fn is(&self, punct: &str) -> bool {
        matches!(self.tok, Tok::Punct(found) if found == punct)
    }

    /// The word, where it is one.
    pub fn word(&self) -> Option<&str> {
        match &self.tok {
            Tok::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// Longest first.
pub(crate) const PUNCTUATION: &[&str] = &[
    "|+|=", "|-|=", "&&&", "...", "<<=", "|+|", "|-|", "##", "&&", "||", "==", "!=", "<=", ">=",
    "<<", "++", "..", "+:", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "(", ")", "[", "]",
    "{", "}", "<", ">", ",", ";", ":", ".", "=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!",
    "?", "@", "#", "'",
];

/// The tokens of a preprocessed text, without an end marker; `place` says where its bytes are from.
pub fn lex_text(text: &str, place: &dyn Fn(usize, usize) -> Span, sink: &mut Sink) -> Vec<Token> {
    Lexer {
        text,
        place,
        at: 0,
        first: true,
        joint: false,
        out: Vec::new(),
        sink,
    }
    .run()
}

struct Lexer<'a> {
    text: &'a str,
    place: &'a dyn Fn(usize, usize) -> Span,
    at: usize,
    first: bool,
    joint: bool,
    out: Vec<Token>,
    sink: &'a mut Sink,
}

impl Lexer<'_> {
    fn run(mut self) -> Vec<Token> {
        while self.at < self.text.len() && self.out.len() < limits::TOKENS {
            let rest = &self.text[self.at..];
            let Some(c) = rest.chars().next() else { break };
            if c == '\n' {
                self.at += 1;
                (self.first, self.joint) = (true, false);
            } else if c.is_whitespace() || c == '\u{feff}' {
                self.at += c.len_utf8();
                self.joint = false;
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
                self.joint = false;
            } else if rest.starts_with("/*") {
                self.block_comment(rest);
            } else {
                self.token(rest, c);
            }
        }
        self.out
    }

    fn span(&self, len: usize) -> Span {
        (self.place)(self.at, self.at + len)
    }

    fn block_comment(&mut self, rest: &str) {
        self.joint = false;
        match rest[2..].find("*/") {
            Some(end) => self.at += end + 4,
            None => {
                self.sink
                    .error("E0101", self.span(2), "comment is not closed")
                    .help("add `*/`");
                self.at = self.text.len();
            }
        }
    }

    fn push(&mut self, tok: Tok, len: usize) {
        let span = self.span(len);
        let text = match tok {
            Tok::Int(..) | Tok::Str(_) => &self.text[self.at..self.at + len],
            _ => "",
        };
        self.out.push(Token {
            tok,
            span,
            first: self.first,
            joint: self.joint,
            text: text.into(),
        });
        self.at += len;
        (self.first, self.joint) = (false, true);
    }

    fn token(&mut self, rest: &str, c: char) {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if c.is_ascii_digit() {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            self.number(&rest[..len]);
        } else if is_word(c) {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            self.push(Tok::Word(rest[..len].into()), len);
        } else if c == '"' {
            self.string(rest);
        } else if let Some(punct) = PUNCTUATION.iter().find(|punct| rest.starts_with(**punct)) {
            self.push(Tok::Punct(punct), punct.len());
        } else {
            self.sink.error(
                "E0102",
                self.span(c.len_utf8()),
                format!("unexpected character `{}`", c.escape_debug()),
            );
            self.at += c.len_utf8();
        }
    }

    fn string(&mut self, rest: &str) {
        let mut value = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return self.push(Tok::Str(value.into()), at + 1),
                '\\' => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, 't')) => value.push('\t'),
                    Some((_, 'r')) => value.push('\r'),
                    Some((_, '\n')) | None => {}
                    Some((_, other)) => value.push(other),
                },
                other => value.push(other),
            }
        }
        self.sink
            .error("E0103", self.span(1), "string is not closed")
            .help("add `\"`");
        self.at = self.text.len();
    }

    fn number(&mut self, text: &str) {
        let len = text.len();
        match parse_number(text) {
            Ok((value, written)) => self.push(Tok::Int(value, written), len),
            Err(why) => {
                self.sink.error(
                    "E0104",
                    self.span(len),
                    format!("`{text}` is not a number: {why}"),
                );
                self.push(Tok::Int(BigInt::from(0), Written::PLAIN), len);
            }
        }
    }
}

/// `[width (w|s)] [0x|0o|0b|0d] digits`.
fn parse_number(text: &str) -> Result<(BigInt, Written), String> {
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (head, tail) = text.split_at(digits_end);
    let (width, body) = match tail.as_bytes().first() {
        Some(b'w' | b's') if tail.len() > 1 => {
            let bits: u32 = head
                .parse()
                .map_err(|_| "the width is too large".to_owned())?;
            if bits == 0 && tail.starts_with('s') {
                return Err("a signed number has at least one bit".to_owned());
            }
            if bits > limits::WIDTH_BITS {
                return Err(format!("the width is above {} bits", limits::WIDTH_BITS));
            }
            (Some((bits, tail.starts_with('s'))), &tail[1..])
        }
        _ => (None, text),
    };
    let lower = body.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0d") => (10, &lower[2..]),
        _ => (10, lower.as_str()),
    };
    let digits: String = digits.chars().filter(|c| *c != '_').collect();
    if digits.len() as u64 * 4 > limits::CONSTANT_BITS {
        return Err("it has too many digits".to_owned());
    }
    let value = BigInt::from_str_radix(&digits, radix)
        .map_err(|_| format!("expected digits of base {radix}"))?;
    Ok((value, Written { width, radix }))
}

/// A number in the digits of a radix, with the prefix that says so.
pub fn number_text(value: &BigInt, radix: u32) -> String {
    match radix {
        2 => format!("{value:#b}"),
        8 => format!("{value:#o}"),
        16 => format!("{value:#x}"),
        _ => value.to_string(),
    }
}
