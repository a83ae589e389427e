//! The preprocessed program as text (`-E`), with line markers as the C preprocessor writes them.
//!
//! Comments are gone. A token that a macro made is written from its value, all others as they
//! stand in their file, so that compiling the text gives the program's tokens again.

use std::fmt::Write as _;
use std::rc::Rc;

use crate::lex::{Tok, Token, number_text};
use crate::source::SourceMap;

/// Lines that are bridged by newlines; a longer gap gets a line marker.
const BLANK_LINES_MAX: u32 = 8;

/// A line's file and number.
type Line = (Rc<str>, u32);

/// The text of preprocessed tokens.
pub fn print(tokens: &[Token], sources: &SourceMap) -> String {
    let mut out = String::new();
    let mut place: Option<Line> = None;
    let mut previous: Option<&Token> = None;
    for token in tokens.iter().filter(|token| token.tok != Tok::Eof) {
        let here = sources
            .named_line(token.span)
            .unwrap_or_else(|| ("".into(), 1));
        if place.as_ref() != Some(&here) {
            move_to(&mut out, place.as_ref(), &here);
            place = Some(here);
        } else if previous.is_some_and(|before| !touches(before, token)) {
            out.push(' ');
        }
        write_token(&mut out, token, sources);
        previous = Some(token);
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Ends the line, and says where the next one is from unless newlines do.
fn move_to(out: &mut String, from: Option<&Line>, to: &Line) {
    if !out.is_empty() {
        out.push('\n');
    }
    match from {
        Some((file, line)) if *file == to.0 && *line < to.1 && to.1 - line <= BLANK_LINES_MAX => {
            (line + 1..to.1).for_each(|_| out.push('\n'));
        }
        _ => {
            let name = to.0.replace('\\', "\\\\").replace('"', "\\\"");
            // Writing to a string does not fail.
            let _ = writeln!(out, "# {} \"{name}\"", to.1);
        }
    }
}

/// Whether the token follows the one before without a gap, in the text or in a macro's body.
fn touches(before: &Token, token: &Token) -> bool {
    let from_one_macro = before.span == token.span && token.joint;
    from_one_macro || (before.span.file == token.span.file && before.span.end == token.span.start)
}

fn write_token(out: &mut String, token: &Token, sources: &SourceMap) {
    let written = sources.text(token.span);
    // Writing to a string does not fail.
    let _ = match &token.tok {
        Tok::Word(word) => out.write_str(word),
        Tok::Punct(punct) => out.write_str(punct),
        Tok::Str(text) if written.starts_with('"') => {
            let _ = text;
            out.write_str(written)
        }
        Tok::Str(text) => write!(out, "\"{}\"", escaped(text)),
        Tok::Int(..) if written.starts_with(|c: char| c.is_ascii_digit()) => out.write_str(written),
        Tok::Int(value, written) => match written.width {
            None => out.write_str(&number_text(value, written.radix)),
            Some((width, signed)) => {
                let digits = number_text(value, written.radix);
                write!(out, "{width}{}{digits}", if signed { 's' } else { 'w' })
            }
        },
        Tok::Eof => Ok(()),
    };
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            other => out.push(other),
        }
    }
    out
}
