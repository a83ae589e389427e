//! Finds hints for the messages about unexpected tokens. The hints are for programmers who write P4 by the habits of C,
//! C++ or P4_14.

use super::RESERVED;
use crate::lex::{Tok, Token};

/// A statement's first token gives a hint only if the unexpected token is at most this many tokens after it.
const FIRST_WITHIN: usize = 100;

/// Returns a help text for the unexpected token at `at`, where `wanted` was expected.
pub fn hint(tokens: &[Token], at: usize, wanted: &str) -> Option<String> {
    let found = tokens.get(at)?;
    let before = at.checked_sub(1).and_then(|at| tokens.get(at));
    let is_before = |punct: &str| before.is_some_and(|token| token.is(punct));
    let is_next = |punct: &str| {
        let next = tokens.get(at + 1);
        next.is_some_and(|next| next.is(punct) && next.joint)
    };
    let word_before = before.and_then(Token::word);
    let first = first_of_statement(tokens, at);
    if let Some(text) = first.and_then(Token::word).and_then(foreign_statement) {
        return Some(text.to_owned());
    }
    match &found.tok {
        Tok::Punct(";" | ")") if is_before("++") => {
            Some("P4 has no increment operator `++`: write `x = x + 1`, or `x += 1`".to_owned())
        }
        Tok::Punct(";" | ")") if is_before("-") && at > 1 && tokens[at - 2].is("-") => {
            Some("P4 has no `--`: write `x = x - 1`, or `x -= 1`".to_owned())
        }
        Tok::Punct("=") if wanted == "`)`" => {
            Some("`==` compares, `=` assigns, and an assignment has no value".to_owned())
        }
        Tok::Punct("-") if is_next(">") && wanted == "`:`" => {
            Some("write `:` in place of `->`".to_owned())
        }
        Tok::Punct("-") if is_next(">") => {
            Some("P4 has no pointers: write `.` in place of `->`".to_owned())
        }
        Tok::Punct("'") => {
            Some("P4 has no characters: write the number, `8w0x61` for an a".to_owned())
        }
        Tok::Punct(":")
            if is_before(":") || tokens.get(at + 1).is_some_and(|next| next.is(":")) =>
        {
            Some("write `.` in place of `::`, as in `Enum.member`".to_owned())
        }
        Tok::Punct(";") if wanted == "a name" && is_before(")") => Some(
            "an instance has a name after its arguments; that of the package is `main`".to_owned(),
        ),
        Tok::Punct("[") if wanted == "`;`" => {
            Some("P4 has no arrays of instances: declare each one under its own name".to_owned())
        }
        _ if wanted == "`(`" && matches!(word_before, Some("if" | "switch" | "for" | "select")) => {
            Some("the text after the keyword stands in parentheses".to_owned())
        }
        Tok::Punct("*") if wanted.contains("name") => Some("P4 has no pointers".to_owned()),
        Tok::Punct("{") if wanted == "an expression" => None,
        Tok::Punct("?") => Some("`a ? b : c` needs a bool in front of the `?`".to_owned()),
        _ if word_before == Some("case") => {
            Some("labels are written without `case`: `0x0800: { ... }`".to_owned())
        }
        Tok::Word(word) if &**word == "case" => {
            Some("labels are written without `case`: `0x0800: { ... }`".to_owned())
        }
        Tok::Word(word) if wanted == "`{`" && &**word == "extends" => {
            Some("P4 has no inheritance".to_owned())
        }
        _ => first.and_then(Token::word).and_then(capital),
    }
}

/// Returns the first token of the statement or declaration that contains the token `at`; `None` if that first token is
/// far before `at`. The parser asks for a hint even when it only tries a production, so the search must take constant
/// time, however long an expression is.
fn first_of_statement(tokens: &[Token], at: usize) -> Option<&Token> {
    let from = at.saturating_sub(FIRST_WITHIN);
    let before = tokens[from..at]
        .iter()
        .rposition(|token| matches!(token.tok, Tok::Punct(";" | "{" | "}")));
    match before {
        Some(before) => tokens.get(from + before + 1),
        None => tokens.get(from).filter(|_| from == 0),
    }
}

fn foreign_statement(word: &str) -> Option<&'static str> {
    Some(match word {
        "while" | "do" | "loop" | "repeat" => {
            "P4 has no `while`: the number of steps must be known at compile time; use `for` with bounds, a parser's loop, or recirculate the packet"
        }
        "goto" => "P4 has no `goto`; a parser's states go on with `transition`",
        "elif" | "elsif" | "elseif" => "write `else if`",
        "case" => "labels are written without `case`: `0x0800: { ... }`",
        "def" | "fn" | "func" | "function" => {
            "a function begins with the type that it returns: `bit<8> f(in bit<8> x) { ... }`"
        }
        "class" | "interface" | "object" => "P4 has no classes; data are structs and headers",
        "union" => "P4 has no unions of data; `header_union` holds one of several headers",
        "import" | "using" | "require" => "files are included: `#include <v1model.p4>`",
        "let" | "var" | "auto" => "a variable begins with its type: `bit<8> x = 1;`",
        "print" | "printf" => "write `log_msg(\"text {}\", {value});`",
        "static" | "volatile" | "unsigned" | "signed" | "public" | "private" => {
            "P4 has no such word; leave it out"
        }
        _ => return None,
    })
}

fn capital(word: &str) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let is_keyword = RESERVED.contains(&lower.as_str())
        || matches!(
            lower.as_str(),
            "apply" | "table" | "state" | "key" | "actions"
        );
    (lower != word && is_keyword).then(|| format!("keywords are written in lower case: `{lower}`"))
}

/// Returns, for the name of a type in another language, the P4 type (if there is one) and a help text.
pub fn foreign_type(name: &str) -> Option<(Option<&'static str>, &'static str)> {
    Some(match name {
        "uint8_t" | "u8" | "uint8" | "byte" | "uchar" => (Some("bit<8>"), "write `bit<8>`"),
        "uint16_t" | "u16" | "uint16" => (Some("bit<16>"), "write `bit<16>`"),
        "uint32_t" | "u32" | "uint32" => (Some("bit<32>"), "write `bit<32>`"),
        "uint64_t" | "u64" | "uint64" => (Some("bit<64>"), "write `bit<64>`"),
        "int8_t" | "i8" | "int8" => (Some("int<8>"), "write `int<8>`"),
        "int16_t" | "i16" | "int16" => (Some("int<16>"), "write `int<16>`"),
        "int32_t" | "i32" | "int32" => (Some("int<32>"), "write `int<32>`"),
        "int64_t" | "i64" | "int64" => (Some("int<64>"), "write `int<64>`"),
        "boolean" | "Bool" | "Boolean" => (Some("bool"), "write `bool`"),
        "goto" => (
            None,
            "a state goes on with `transition`: `transition accept;`",
        ),
        "String" => (Some("string"), "write `string`"),
        "char" => (None, "P4 has no characters; a byte is `bit<8>`"),
        "unsigned" | "uint" => (None, "give a width: `bit<32>`"),
        "signed" | "short" | "long" => (None, "give a width: `int<16>`, `int<64>`"),
        "float" | "double" => (
            None,
            "P4 has no floating point; use fixed point in a bit<W> or int<W>",
        ),
        _ => return None,
    })
}
