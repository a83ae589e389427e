//! Prints the preprocessed program as text (`-E`), with line markers as the C preprocessor writes them.
//!
//! Comments are removed. Compiling the text gives the same tokens again, because the program's tokens are made from
//! the same text.

use std::fmt::Write as _;
use std::rc::Rc;

use super::token::{Kind, PpToken};
use crate::source::SourceMap;

/// A gap of at most this many lines becomes newlines; a longer gap becomes a line marker.
const BLANK_LINES_MAX: u32 = 8;

type Line = (Rc<str>, u32);

pub fn print(tokens: &[PpToken], sources: &SourceMap) -> String {
    let mut out = String::new();
    let mut place: Option<Line> = None;
    for token in tokens {
        // If a macro call spans several lines, its expansion is on the line of the macro's name.
        let here = if token.first || place.is_none() {
            sources.named_line(token.span)
        } else {
            place.clone()
        };
        if place != here {
            let to = here.clone().unwrap_or_else(|| ("".into(), 1));
            move_to(&mut out, place.as_ref(), &to);
            place = here;
            if token.is("#") {
                // A macro made the `#`; the space keeps it from beginning a directive.
                out.push(' ');
            }
        } else if token.space || token.first {
            out.push(' ');
        }
        out.push_str(&token.text);
        if let Some((_, line)) = &mut place {
            *line += token.text.matches('\n').count() as u32;
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Ends the line, and continues at the line `to` after newlines or a line marker.
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
            let _ = writeln!(out, "# {} \"{name}\"", to.1);
        }
    }
}

/// Whether C would read two adjacent tokens as one token. If a macro brought such tokens together, they need a space
/// between them.
pub fn must_stand_apart(before: &PpToken, token: &PpToken) -> bool {
    let next = token.text.chars().next().unwrap_or(' ');
    let next = if token.kind == Kind::Punct { next } else { ' ' };
    let word_like = matches!(token.kind, Kind::Name | Kind::Number | Kind::Char);
    match before.kind {
        Kind::Name => {
            let begins_number = token.text.starts_with(|c: char| c.is_ascii_digit());
            (token.kind == Kind::Number && begins_number)
                || matches!(token.kind, Kind::Name | Kind::Char | Kind::Str)
        }
        Kind::Number => word_like || matches!(next, '.' | '+' | '-'),
        Kind::Other => &*before.text == "\\" && token.kind == Kind::Name,
        Kind::Punct => match &*before.text {
            "!" | "*" | "^" | "=" | ">>" | "<<" if next == '=' => true,
            ">" => matches!(next, '>' | '='),
            "<" => matches!(next, '<' | '%' | ':' | '='),
            "+" => matches!(next, '+' | '='),
            "-" => matches!(next, '-' | '>' | '='),
            "/" => matches!(next, '/' | '*' | '='),
            "%" => matches!(next, ':' | '%' | '='),
            "&" => matches!(next, '&' | '='),
            "|" => matches!(next, '|' | '='),
            ":" => matches!(next, ':' | '>'),
            "." => matches!(next, '.' | '%') || token.kind == Kind::Number,
            "#" => matches!(next, '#' | '%'),
            _ => false,
        },
        _ => false,
    }
}
