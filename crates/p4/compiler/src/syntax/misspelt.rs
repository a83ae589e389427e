//! Replaces misspelt keywords (`contol`, `strcut`, `inuot`), so that the parser reads the tokens after a keyword as
//! intended. A word counts as misspelt only at a place where the grammar allows no declared name.

use std::collections::HashSet;

use crate::diagnostic::Sink;
use crate::lex::{Tok, Token};

/// Words after which a name is used, not declared.
const BEFORE_USE: &[&str] = &["else", "return", "in", "transition"];

/// How many tokens to search back from a `)` for its `(`; the limit keeps the work linear.
const ARGUMENT_TOKENS_MAX: usize = 1_000;

/// Replaces misspelt keywords and reports each; `None` if there are none.
pub fn mend(tokens: &[Token], sink: &mut Sink) -> Option<Vec<Token>> {
    let declared = declared(tokens);
    let mut mended: Option<Vec<Token>> = None;
    for at in 0..tokens.len() {
        let Some(word) = tokens[at].word() else {
            continue;
        };
        if super::RESERVED.contains(&word) || declared.contains(word) {
            continue;
        }
        let candidates = Place { tokens, at }.keywords();
        if candidates.contains(&word) {
            continue;
        }
        if let Some(meant) = names::nearest(word, candidates.iter().copied()) {
            let span = tokens[at].span;
            sink.error("E0207", span, format!("`{word}` is not a keyword"))
                .did_you_mean(span, Some(meant.clone()));
            mended.get_or_insert_with(|| tokens.to_vec())[at].tok = Tok::Word(meant.into());
        }
    }
    mended
}

fn declared(tokens: &[Token]) -> HashSet<&str> {
    let is_declared = |at: usize| {
        let before = &tokens[at - 1];
        let next = tokens.get(at + 1);
        match before.tok {
            Tok::Word(ref before) => !BEFORE_USE.contains(&&**before),
            Tok::Punct(">" | "]") => true,
            Tok::Punct(")") => is_instantiated(tokens, at),
            // Type parameters and enumerators.
            Tok::Punct("<" | ",") => next.is_some_and(|next| next.is(",") || next.is(">")),
            _ => false,
        }
    };
    (1..tokens.len())
        .filter(|at| is_declared(*at))
        .filter_map(|at| tokens[at].word())
        .collect()
}

/// Whether the word after a `)` is an instance's name: `register<bit<14>>(1) turn;`.
fn is_instantiated(tokens: &[Token], at: usize) -> bool {
    if !tokens
        .get(at + 1)
        .is_some_and(|next| next.is(";") || next.is("="))
    {
        return false;
    }
    let mut depth = 0;
    let open = (0..at).rev().take(ARGUMENT_TOKENS_MAX).find(|at| {
        depth += i32::from(tokens[*at].is(")")) - i32::from(tokens[*at].is("("));
        depth == 0
    });
    let Some(ty) = open.and_then(|open| open.checked_sub(1)) else {
        return false;
    };
    let is_annotation = ty > 0 && tokens[ty - 1].is("@");
    let is_type = |word| !super::RESERVED.contains(&word);
    tokens[ty].is(">") || !is_annotation && tokens[ty].word().is_some_and(is_type)
}

struct Place<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Place<'_> {
    /// Returns the keywords that the grammar allows at this place; none if it also allows a name there that is not the
    /// name of a type.
    fn keywords(&self) -> &'static [&'static str] {
        if self.is(1, "<") && self.is_number(2) && self.is(3, ">") {
            return &["bit", "int", "varbit"];
        }
        let before = self.at.checked_sub(1).map(|at| &self.tokens[at]);
        let word_before = before.and_then(Token::word);
        if word_before == Some("transition") && self.has_braces_behind(1) {
            return &["select"];
        }
        match before.map(|before| &before.tok) {
            Some(Tok::Punct("(" | ",")) if self.begins_parameter() => &["in", "out", "inout"],
            None | Some(Tok::Punct("{" | "}" | ";" | ")")) => self.beginnings(),
            _ => &[],
        }
    }

    /// Returns the keywords that can begin a declaration or statement at this place.
    fn beginnings(&self) -> &'static [&'static str] {
        if self.is(1, "{") {
            return &["apply", "else"];
        }
        if self.is(1, ":") {
            return &["default"];
        }
        if self.is(1, ";") {
            return &["return", "exit", "break", "continue"];
        }
        if self.is(1, "(") && self.has_braces_behind(1) {
            return &["switch"];
        }
        let Some(next) = self.word(1) else {
            return &[];
        };
        if self.is(2, "{") {
            return &[
                "header",
                "struct",
                "header_union",
                "enum",
                "extern",
                "table",
                "state",
            ];
        }
        if next == "select" || (self.is(2, ";") && !super::RESERVED.contains(&next)) {
            return &["transition", "return"];
        }
        if self.is(2, "(") || self.is(2, "<") && !super::RESERVED.contains(&next) {
            return &["control", "parser", "action", "package"];
        }
        if self.word(2).is_some() || self.is(2, "<") {
            return &["const", "typedef", "type", "extern", "enum"];
        }
        &[]
    }

    /// Whether a direction (`in`, `out`, `inout`) can be here, because a type and a name follow.
    fn begins_parameter(&self) -> bool {
        let named = |at: usize| self.is(at, ",") || self.is(at, ")") || self.is(at, "=");
        let generic = || {
            let close = (3..8).find(|at| self.is(*at, ">"));
            close.is_some_and(|close| self.word(close + 1).is_some() && named(close + 2))
        };
        self.word(1).is_some()
            && ((self.word(2).is_some() && named(3)) || (self.is(2, "<") && generic()))
    }

    fn next(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn is(&self, ahead: usize, punct: &str) -> bool {
        self.next(ahead).is_some_and(|token| token.is(punct))
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        self.next(ahead).and_then(Token::word)
    }

    fn is_number(&self, ahead: usize) -> bool {
        self.next(ahead)
            .is_some_and(|token| matches!(token.tok, Tok::Int(..)))
    }

    fn has_braces_behind(&self, ahead: usize) -> bool {
        self.is(ahead, "(") && super::repair::behind_parentheses(self.tokens, self.at + ahead, "{")
    }
}
