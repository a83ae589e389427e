//! Decides which warnings are shown, by the command line's options and by `@noWarn("...")` in the source.
//!
//! An annotation applies from its place to the end of the following declaration or statement. A warning has a code
//! (`W0801`) and p4c's name (`unused`, written with `-` or `_`). Options and annotations accept the code and the name.

use super::NAMES;
use crate::Options;
use crate::diagnostic::{Judgement, Sink};
use crate::lex::{Tok, Token};
use crate::source::Span;

/// Hides each warning in the sink, keeps it, or turns it into an error.
pub fn apply(options: &Options, tokens: &[Token], sink: &mut Sink) {
    let silenced = silenced(tokens);
    sink.judge_warnings(|code, span| {
        let within = |(place, name): &(Span, &str)| {
            place.file == span.file
                && place.start <= span.start
                && span.start < place.end
                && is_called(code, name)
        };
        let named = |names: &[String]| names.iter().any(|name| is_called(code, name));
        if options.all_warnings_disabled
            || named(&options.disabled_warnings)
            || silenced.iter().any(within)
        {
            Judgement::Hide
        } else if options.warnings_as_errors || named(&options.denied_warnings) {
            Judgement::Deny
        } else {
            Judgement::Show
        }
    });
}

/// Whether any warning has this code or p4c name.
pub fn is_warning(name: &str) -> bool {
    crate::explain::explanations()
        .any(|found| found.code.starts_with('W') && is_called(found.code, name))
}

pub fn name_of(code: &str) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(known, _)| *known == code)
        .map(|(_, name)| *name)
}

fn is_called(code: &str, name: &str) -> bool {
    code.eq_ignore_ascii_case(name)
        || NAMES
            .iter()
            .any(|(known, p4c)| *known == code && *p4c == name.replace('_', "-"))
}

/// Returns the ranges that `@noWarn` annotations silence, each with the warning's name.
fn silenced(tokens: &[Token]) -> Vec<(Span, &str)> {
    let mut out = Vec::new();
    for (at, window) in tokens.windows(4).enumerate() {
        if let [sign, word, open, text] = window
            && sign.is("@")
            && word.word() == Some("noWarn")
            && open.is("(")
            && let Tok::Str(name) = &text.tok
        {
            let start = text.span.start;
            let end = end_of_annotated(tokens, at + 4);
            let span = Span {
                start,
                end,
                file: text.span.file,
            };
            out.push((span, &**name));
        }
    }
    out
}

/// Returns the end of the annotated declaration; `at` is inside the annotation's parentheses.
fn end_of_annotated(tokens: &[Token], at: usize) -> u32 {
    let mut depth = 1_i32;
    let mut angles = 0_i32;
    let mut in_value = false;
    for (at, token) in tokens.iter().enumerate().skip(at) {
        let end = token.span.end;
        match &token.tok {
            Tok::Punct("(" | "[" | "{") => depth += 1,
            Tok::Punct("<") if !in_value => angles += 1,
            Tok::Punct(">") if !in_value => angles -= 1,
            Tok::Punct("=") if depth == 0 => in_value = true,
            Tok::Punct(";") if depth == 0 => return end,
            Tok::Punct(",") if depth == 0 && angles <= 0 => return end,
            Tok::Punct("}") if depth == 1 => {
                depth = 0;
                let goes_on = tokens.get(at + 1).is_some_and(|next| {
                    next.is(";") || next.is(",") || next.is("@") || next.word() == Some("else")
                });
                if !goes_on && !in_value {
                    return end;
                }
            }
            Tok::Punct(")" | "]" | "}") => {
                depth -= 1;
                if depth < 0 {
                    return end;
                }
            }
            _ => {}
        }
    }
    tokens.last().map_or(u32::MAX, |last| last.span.end)
}
