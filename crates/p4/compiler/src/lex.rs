//! Splits text into tokens by the lexical grammar of P4_16 (language specification 1.2.5, section 6).
//!
//! `>>` is two `>` tokens, because nested type arguments may end with `>>`. The expression parser joins the tokens of
//! a shift.

use std::collections::HashSet;
use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::Num as _;

use crate::diagnostic::Sink;
use crate::limits;
use crate::source::Span;

#[derive(Clone, Debug, PartialEq)]
pub enum Tok {
    /// An identifier or a keyword.
    Word(Rc<str>),
    Int(BigInt, Written),
    /// A string with its escapes resolved.
    Str(Rc<str>),
    /// An operator or a separator.
    Punct(&'static str),
    Eof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The explicit width, and whether the number is signed (`8w`, `8s`).
    pub width: Option<(u32, bool)>,
    /// 2, 8, 10 or 16.
    pub radix: u32,
}

impl Written {
    pub const PLAIN: Self = Self {
        width: None,
        radix: 10,
    };
}

#[derive(Clone, Debug)]
pub struct Token {
    pub tok: Tok,
    pub span: Span,
    /// Whether the token is the first on its line, where a `#` begins a directive.
    pub first: bool,
    /// Whether the token follows the previous token without a gap.
    pub joint: bool,
    /// The source text of a number or a string; empty for other tokens.
    pub text: Rc<str>,
}

impl Token {
    pub fn is(&self, punct: &str) -> bool {
        matches!(self.tok, Tok::Punct(found) if found == punct)
    }

    pub fn word(&self) -> Option<&str> {
        match &self.tok {
            Tok::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// All operators and separators, longest first, so that the first match is the longest.
pub(crate) const PUNCTUATION: &[&str] = &[
    "|+|=", "|-|=", "&&&", "...", "<<=", "|+|", "|-|", "##", "&&", "||", "==", "!=", "<=", ">=",
    "<<", "++", "..", "+:", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "(", ")", "[", "]",
    "{", "}", "<", ">", ",", ";", ":", ".", "=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!",
    "?", "@", "#", "'",
];

/// Splits a preprocessed text into tokens, without an end marker; `place` maps byte ranges to spans.
pub fn lex_text(text: &str, place: &dyn Fn(usize, usize) -> Span, sink: &mut Sink) -> Vec<Token> {
    Lexer {
        text,
        place,
        at: 0,
        first: true,
        joint: false,
        out: Vec::new(),
        foreign_words: HashSet::new(),
        sink,
    }
    .run()
}

/// Whether a name that begins with ASCII characters continues with other letters.
fn begins_foreign_word(rest: &str) -> bool {
    let mut behind = rest
        .chars()
        .skip_while(|c| c.is_ascii_alphanumeric() || *c == '_');
    behind.next().is_some_and(char::is_alphanumeric)
}

/// Returns the Latin letter that looks like this Cyrillic or Greek letter. Copied text often contains such letters.
fn latin_twin(letter: char) -> Option<char> {
    const FOREIGN: &str = "\u{430}\u{435}\u{43e}\u{440}\u{441}\u{443}\u{445}\u{456}\u{455}\u{458}\u{410}\u{412}\u{415}\u{41a}\u{41c}\u{41d}\u{41e}\u{420}\u{421}\u{422}\u{425}\u{3bf}\u{391}\u{392}\u{395}\u{397}\u{399}\u{39a}\u{39c}\u{39d}\u{39f}\u{3a1}\u{3a4}\u{3a7}";
    const LATIN: &str = "aeopcyxisjABEKMHOPCTXoABEHIKMNOPTX";
    let at = FOREIGN.chars().position(|foreign| foreign == letter)?;
    LATIN.chars().nth(at)
}

struct Lexer<'a> {
    text: &'a str,
    place: &'a dyn Fn(usize, usize) -> Span,
    at: usize,
    first: bool,
    joint: bool,
    out: Vec<Token>,
    foreign_words: HashSet<String>,
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
        } else if is_word(c) && !begins_foreign_word(rest) {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            self.push(Tok::Word(rest[..len].into()), len);
        } else if is_word(c) || c.is_alphabetic() {
            self.foreign_word(rest);
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

    /// Reads a name with letters that P4 does not allow: reports it once and treats it as a name.
    fn foreign_word(&mut self, rest: &str) {
        let len = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let word = &rest[..len];
        if let Some(letter) = word.chars().find(|c| !c.is_ascii())
            && self.foreign_words.insert(word.to_owned())
        {
            let twin = latin_twin(letter).map_or_else(String::new, |twin| {
                format!(", which looks like the Latin `{twin}`")
            });
            let message = format!(
                "the name `{word}` has the letter `{letter}` (U+{:04X}){twin}",
                u32::from(letter)
            );
            self.sink
                .error("E0102", self.span(len), message)
                .help("P4's names have the letters a to z and A to Z, digits and `_`");
        }
        self.push(Tok::Word(word.into()), len);
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

/// Parses a number: an optional width with `w` or `s`, an optional prefix such as `0x`, then digits.
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

/// Prints a number in a radix, with the radix prefix.
pub fn number_text(value: &BigInt, radix: u32) -> String {
    match radix {
        2 => format!("{value:#b}"),
        8 => format!("{value:#o}"),
        16 => format!("{value:#x}"),
        _ => value.to_string(),
    }
}
