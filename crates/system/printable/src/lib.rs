//! Escapes text for a log line or a terminal if somebody else chose the text: names in a program, values, messages of
//! another process. Without escapes, a line end in the text would forge another line, an escape sequence would control
//! the terminal, and a directional character would reorder what is shown.
//!
//! Such characters become `\u001b` and the like, as in JSON. So if the text is JSON, its strings keep their meaning.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes a text for use within one line.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !is_harmless(c))
}

/// Escapes a text of several lines; keeps line feeds and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !is_harmless(c) && !matches!(c, '\n' | '\t'))
}

/// Whether a character is neither a control character nor one that changes the direction of text or ends a line
/// (Unicode Standard Annex #9, section 2; UAX #14, class BK).
pub fn is_harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_escaped(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string does not fail; all of these characters have at most four digits.
            c => drop(write!(out, "\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_line_and_a_terminals_commands_stay_on_their_line() {
        let name = "cells\n2026-11-27 ERROR all is lost\x1b[2J\x07\u{9b}31m";
        let expected = "cells\\n2026-11-27 ERROR all is lost\\u001b[2J\\u0007\\u009b31m";
        assert_eq!(line(name), expected);
        assert_eq!(line("user\u{202e}nimda\u{2066}"), "user\\u202enimda\\u2066");
        assert_eq!(lines("a\tb\nc\rd\x1b"), "a\tb\nc\\rd\\u001b");
    }

    #[test]
    fn what_is_harmless_stays_as_it_is() {
        for text in ["", "Ingress.routes", "C:\\new", "größe 大小 مرحبا 👩‍🎤"] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text));
        }
    }
}
