//! Parses tokens into a syntax tree: recursive descent, one function per production of the grammar.
//!
//! After an error the parser continues at the next statement, member or declaration, so that one run reports every
//! independent mistake.

pub mod ast;
mod block;
mod declaration;
pub use block::flatten_keys;
mod expression;
pub mod hint;
mod misspelt;
mod repair;
mod statement;

use std::rc::Rc;

use ast::{Annotation, AnnotationBody, Declaration, Ident};

use crate::diagnostic::Sink;
use crate::lex::{Tok, Token};
use crate::limits;
use crate::source::{SourceMap, Span};

/// Words that cannot be names (the grammar's other keywords can).
const RESERVED: &[&str] = &[
    "abstract",
    "action",
    "bit",
    "bool",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "varbit",
    "value_set",
    "void",
    "_",
];

/// The production does not match; the error is already in the sink.
#[derive(Debug)]
pub struct Failed;

type Parsed<T> = Result<T, Failed>;

pub fn parse(tokens: &[Token], sources: &SourceMap, sink: &mut Sink) -> Vec<Declaration> {
    if sink.is_cut_off() {
        return Vec::new();
    }
    let tokens = repair::repair(tokens, sources, sink);
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        depth: 0,
        in_angles: false,
        sink,
    };
    parser.program()
}

/// Parses the `expressionList` in an annotation's parentheses, as far as it can be parsed.
pub fn expressions(tokens: &[Token], sink: &mut Sink) -> Vec<ast::Expr> {
    let Some(last) = tokens.last() else {
        return Vec::new();
    };
    let mut tokens = tokens.to_vec();
    tokens.push(Token {
        tok: Tok::Eof,
        span: last.span,
        first: false,
        joint: false,
        text: "".into(),
    });
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        depth: 0,
        in_angles: false,
        sink,
    };
    let mut found = Vec::new();
    while !parser.at_end() {
        match parser.expression() {
            Ok(expression) => found.push(expression),
            Err(Failed) => break,
        }
        if !parser.at_end() && parser.expect(",").is_err() {
            break;
        }
    }
    found
}

pub struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// Whether the parser is inside a width without parentheses, where `>` ends the expression.
    in_angles: bool,
    sink: &'a mut Sink,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.nth(0)
    }

    fn nth(&self, ahead: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.at + ahead).min(last)]
    }

    fn span(&self) -> Span {
        self.peek().span
    }

    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn at_end(&self) -> bool {
        matches!(self.peek().tok, Tok::Eof)
    }

    fn at(&self, punct: &str) -> bool {
        self.peek().is(punct)
    }

    fn at_word(&self, word: &str) -> bool {
        self.peek().word() == Some(word)
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.at(punct);
        if found {
            self.advance();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.advance();
        }
        found
    }

    /// Whether C's `->` is here, which is no operator in P4.
    fn at_arrow(&self) -> bool {
        self.at("-") && self.nth(1).is(">") && self.nth(1).joint
    }

    /// The current token, as a message prints it.
    fn found(&self) -> String {
        if self.at_arrow() {
            return "`->`".to_owned();
        }
        match &self.peek().tok {
            Tok::Word(word) => format!("`{word}`"),
            Tok::Int(value, _) => format!("the number {value}"),
            Tok::Str(_) => "a string".to_owned(),
            Tok::Punct(punct) => format!("`{punct}`"),
            Tok::Eof => "the end of the file".to_owned(),
        }
    }

    fn unexpected<T>(&mut self, wanted: &str) -> Parsed<T> {
        if self.has_given_up() {
            return Err(Failed);
        }
        let message = format!("expected {wanted}, found {}", self.found());
        let hint = hint::hint(self.tokens, self.at, wanted);
        let raw = self.sink.error("E0201", self.span(), message);
        if let Some(hint) = hint {
            raw.help(hint);
        }
        Err(Failed)
    }

    fn expect(&mut self, punct: &str) -> Parsed<Span> {
        let span = self.span();
        if self.eat(punct) {
            return Ok(span);
        }
        if self.has_given_up() {
            return Err(Failed);
        }
        if punct == "{" {
            return self.missing_brace();
        }
        let opener = match punct {
            ")" => self.opener("(", ")"),
            "]" => self.opener("[", "]"),
            _ => None,
        };
        let result = self.unexpected(&format!("`{punct}`"));
        if let (Some(opener), Some(raw)) = (opener, self.sink.last()) {
            raw.note_at(opener, "this is not closed");
        }
        result
    }

    /// Returns the place of the open bracket that a `close` here would close.
    fn opener(&self, open: &str, close: &str) -> Option<Span> {
        let mut depth = 0_usize;
        for token in self.tokens[..self.at].iter().rev() {
            if token.is(close) {
                depth += 1;
            } else if token.is(open) {
                if depth == 0 {
                    return Some(token.span);
                }
                depth -= 1;
            } else if matches!(token.tok, Tok::Punct(";" | "{" | "}")) {
                return None;
            }
        }
        None
    }

    /// Reports a missing `{` after the previous token. If the next token can begin a body, parsing continues as if
    /// the brace were there.
    fn missing_brace(&mut self) -> Parsed<Span> {
        let before = self.last_span();
        let behind = Span {
            start: before.end,
            ..before
        };
        let is_body = self.peek().first && matches!(self.peek().tok, Tok::Word(_));
        let message = format!("expected `{{`, found {}", self.found());
        if !is_body {
            let hint = hint::hint(self.tokens, self.at, "`{`");
            let raw = self.sink.error("E0201", self.span(), message);
            if let Some(hint) = hint {
                raw.help(hint);
            }
            return Err(Failed);
        }
        self.sink
            .error("E0209", self.span(), message)
            .suggest(behind, " {", "add `{` here");
        Ok(before)
    }

    /// Skips a `}` without a `{`. If a missing `{` was reported, the `}` belongs to it and is not reported.
    fn stray_brace(&mut self) {
        if !self.sink.has_code("E0209") {
            self.sink
                .error("E0208", self.span(), "this `}` closes nothing")
                .help("remove it, or look for a `}` too many above");
        }
        self.advance();
    }

    /// Reads a `;`. If the `;` is missing, reports an error behind the previous token, and continues as if the `;` were
    /// there.
    fn semicolon(&mut self) -> Parsed<Span> {
        if !self.at(";") && (self.peek().first || self.at("}") || self.at_end()) {
            let before = self.last_span();
            let behind = Span {
                start: before.end.saturating_sub(1),
                ..before
            };
            let at = Span {
                start: before.end,
                ..before
            };
            self.sink
                .error("E0202", behind, "expected `;`")
                .suggest(at, ";", "add `;` here");
            return Ok(before);
        }
        self.expect(";")
    }

    fn expect_word(&mut self, word: &str) -> Parsed<Span> {
        let span = self.span();
        if self.eat_word(word) {
            Ok(span)
        } else {
            self.unexpected(&format!("`{word}`"))
        }
    }

    fn name(&mut self) -> Parsed<Ident> {
        let span = self.span();
        match &self.peek().tok {
            Tok::Word(word) if !RESERVED.contains(&&**word) => {
                let name = word.clone();
                self.advance();
                Ok(Ident { name, span })
            }
            Tok::Word(word) => {
                let message = format!("`{word}` is a keyword, a name is needed here");
                self.sink.error("E0203", span, message);
                Err(Failed)
            }
            _ => self.unexpected("a name"),
        }
    }

    /// Reads a word, which may be a keyword. Used after a dot and in annotations.
    fn word(&mut self) -> Parsed<Ident> {
        let span = self.span();
        match &self.peek().tok {
            Tok::Word(word) => {
                let name: Rc<str> = word.clone();
                self.advance();
                Ok(Ident { name, span })
            }
            _ => self.unexpected("a name"),
        }
    }

    /// Whether the remaining tokens were skipped because something is too large. If so, the parser does not report that
    /// the tokens end too early.
    fn has_given_up(&self) -> bool {
        self.at_end() && self.sink.has_code("E0204")
    }

    /// Reports that something is too large, and skips the remaining tokens, because further messages would only repeat
    /// this one.
    fn give_up<T>(&mut self, message: &str, help: &str) -> Parsed<T> {
        self.sink.error("E0204", self.span(), message).help(help);
        self.at = self.tokens.len() - 1;
        Err(Failed)
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= limits::NESTING {
            let message = format!("this is nested more than {} levels deep", limits::NESTING);
            let help = "take a part out: into a constant, a function or a control";
            return self.give_up(&message, help);
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Reads items with commas between them, up to a closing token; a comma at the end is allowed.
    fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.at(close) {
            items.push(item(self)?);
            if !self.eat(",") && !self.misses_comma(close) {
                break;
            }
        }
        self.expect(close)?;
        Ok(items)
    }

    /// Reports a missing comma if another item is here and the list is closed after it. Parsing continues as if the
    /// comma were there.
    fn misses_comma(&mut self, close: &str) -> bool {
        let begins_item = match self.peek().tok {
            Tok::Word(_) | Tok::Int(..) | Tok::Str(_) => true,
            _ => self.at("{"),
        };
        if close == ">" || !begins_item || !self.is_closed(close) {
            return false;
        }
        let before = self.last_span();
        let gap = Span {
            start: before.end,
            ..before
        };
        let found = self.found();
        self.sink
            .error(
                "E0201",
                self.span(),
                format!("expected `,` or `{close}`, found {found}"),
            )
            .suggest(gap, ",", "add `,` here");
        true
    }

    /// Whether the bracket that is open here is closed by a `close` before the statement ends.
    fn is_closed(&self, close: &str) -> bool {
        let mut depth = 0_usize;
        for token in &self.tokens[self.at..] {
            match token.tok {
                Tok::Punct(punct) if depth == 0 && punct == close => return true,
                Tok::Punct("(" | "[" | "{") => depth += 1,
                Tok::Punct(")" | "]" | "}") if depth == 0 => return false,
                Tok::Punct(")" | "]" | "}") => depth -= 1,
                Tok::Punct(";") | Tok::Eof => return false,
                _ => {}
            }
        }
        false
    }

    /// Parses `optAnnotations`.
    fn annotations(&mut self) -> Parsed<Vec<Annotation>> {
        let mut out = Vec::new();
        while self.at("@") {
            let start = self.span();
            self.advance();
            let name = self.word()?.name;
            if &*name == "pragma" {
                out.push(self.pragma(start)?);
                continue;
            }
            let body = if self.at("(") {
                self.annotation_tokens()?
            } else if self.at("[") {
                self.advance();
                self.structured_annotation()?
            } else {
                AnnotationBody::None
            };
            out.push(Annotation {
                name,
                body,
                span: start.to(self.last_span()),
            });
        }
        Ok(out)
    }

    /// Parses the rest of `@pragma name tokens`, an annotation that extends to the end of its line.
    fn pragma(&mut self, start: Span) -> Parsed<Annotation> {
        let name = self.word()?.name;
        let mut tokens = Vec::new();
        while !self.at_end() && !self.peek().first {
            tokens.push(self.peek().clone());
            self.advance();
        }
        let body = if tokens.is_empty() {
            AnnotationBody::None
        } else {
            AnnotationBody::Tokens(tokens)
        };
        Ok(Annotation {
            name,
            body,
            span: start.to(self.last_span()),
        })
    }

    fn annotation_tokens(&mut self) -> Parsed<AnnotationBody> {
        let open = self.span();
        let mut tokens = Vec::new();
        let mut depth = 0;
        while !self.at_end() {
            if self.at("(") {
                depth += 1;
            } else if self.at(")") {
                depth -= 1;
            }
            if depth > 1 || !(self.at("(") || self.at(")")) || (depth == 1 && self.at(")")) {
                tokens.push(self.peek().clone());
            }
            self.advance();
            if depth == 0 {
                return Ok(AnnotationBody::Tokens(tokens));
            }
        }
        self.sink
            .error("E0201", open, "this parenthesis is not closed");
        Err(Failed)
    }

    fn structured_annotation(&mut self) -> Parsed<AnnotationBody> {
        if matches!(self.peek().tok, Tok::Word(_)) && self.nth(1).is("=") {
            let pairs = self.list("]", |parser| {
                let key = parser.word()?;
                parser.expect("=")?;
                Ok((key, parser.expression()?))
            })?;
            return Ok(AnnotationBody::Pairs(pairs));
        }
        Ok(AnnotationBody::List(self.list("]", Self::expression)?))
    }

    /// Records the names of an unreadable declaration, so that their uses are not reported as unknown names.
    fn lose_declaration(&mut self, begin: usize) {
        let words = self.tokens[begin..]
            .iter()
            .take_while(|token| !token.is("{") && !token.is("(") && !token.is(";"));
        for word in words {
            if let Tok::Word(word) = &word.tok {
                self.sink.set_unreliable(word);
            }
        }
    }

    /// Skips the tokens before the `}` that closes the open brace, but not this `}`.
    fn skip_to_close(&mut self) {
        let mut depth = 0_usize;
        while !(self.at_end() || depth == 0 && self.at("}")) {
            if self.at("{") {
                depth += 1;
            } else if self.at("}") {
                depth -= 1;
            }
            self.advance();
        }
    }

    /// Skips to a place where a declaration or member can begin: after a `;`, or after the `}` that closes the open
    /// brace.
    fn recover(&mut self, stop_at_close: bool) {
        let begin = self.tokens[..self.at]
            .iter()
            .rposition(|token| matches!(token.tok, Tok::Punct(";" | "{" | "}")))
            .map_or(0, |before| before + 1);
        self.skip(stop_at_close);
        // Names in the skipped text are recorded, so that their uses are not reported as unknown names.
        for token in &self.tokens[begin..self.at] {
            if let Tok::Word(word) = &token.tok {
                self.sink.set_unreliable(word);
            }
        }
    }

    fn skip(&mut self, stop_at_close: bool) {
        let mut depth = 0_usize;
        while !self.at_end() {
            if self.at("{") {
                depth += 1;
            } else if self.at("}") {
                if depth == 0 {
                    if !stop_at_close {
                        self.advance();
                    }
                    return;
                }
                depth -= 1;
                if depth == 0 {
                    self.advance();
                    return;
                }
            } else if self.at(";") && depth == 0 {
                self.advance();
                return;
            }
            self.advance();
        }
    }
}
