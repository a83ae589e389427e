//! Makes P4 tokens from preprocessing tokens. Preprocessing tokens without a space between them are joined to one text,
//! which is then split by P4's rules (`&&` and `&` become `&&&`; `1..2` becomes `1`, `..` and `2`).

use super::token::{Kind, PpToken};
use crate::diagnostic::Sink;
use crate::lex::{Tok, Token, lex_text};
use crate::source::Span;

/// Returns the P4 tokens, with an end marker.
pub fn tokens(preprocessed: &[PpToken], sink: &mut Sink) -> Vec<Token> {
    let mut text = String::new();
    let mut starts = Vec::with_capacity(preprocessed.len());
    for token in preprocessed {
        if token.first {
            text.push('\n');
        } else if token.space {
            text.push(' ');
        }
        starts.push(text.len());
        text.push_str(&token.text);
    }
    let origins = Origins {
        tokens: preprocessed,
        starts,
    };
    let n_before = sink.len();
    let mut out = lex_text(&text, &|start, end| origins.span(start, end), sink);
    if sink.len() > n_before && sink.has_code("E0103") {
        let over_lines = |token: &&PpToken| token.kind == Kind::Str && token.text.contains('\n');
        if let Some(first) = preprocessed.iter().find(over_lines)
            && let Some(raw) = sink.last()
        {
            raw.note_at(
                first.span,
                "this string spans several lines: perhaps its closing `\"` is missing",
            );
        }
    }
    let end = out.last().map_or(Span::default(), |last| Span {
        start: last.span.end,
        ..last.span
    });
    out.push(Token {
        tok: Tok::Eof,
        span: end,
        first: true,
        joint: false,
        text: "".into(),
    });
    out
}

/// The origins of the text that is put together from preprocessing tokens.
struct Origins<'a> {
    tokens: &'a [PpToken],
    starts: Vec<usize>,
}

impl Origins<'_> {
    fn span(&self, start: usize, end: usize) -> Span {
        let (Some(first), Some(last)) = (self.part(start), self.part(end.max(start + 1) - 1))
        else {
            return Span::default();
        };
        Span {
            end: first.start,
            ..first
        }
        .to(last)
    }

    /// Returns the source position of one byte of the text; for a token that a macro made, the position of the whole
    /// token.
    fn part(&self, at: usize) -> Option<Span> {
        let index = self
            .starts
            .partition_point(|start| *start <= at)
            .checked_sub(1)?;
        let token = &self.tokens[index];
        let offset = (at - self.starts[index]).min(token.text.len().saturating_sub(1)) as u32;
        if token.made || (token.span.end - token.span.start) as usize != token.text.len() {
            return Some(token.span);
        }
        let start = token.span.start + offset;
        Some(Span {
            start,
            end: start + 1,
            ..token.span
        })
    }
}
