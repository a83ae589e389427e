//! Macros: `#define`, and what a use of one becomes.

use std::rc::Rc;

use super::Preprocessor;
use crate::lex::{Tok, Token, Written};
use crate::limits;
use crate::source::Span;
use crate::spelling::counted;

#[derive(Clone)]
pub(super) struct Macro {
    pub(super) parameters: Option<Vec<Rc<str>>>,
    pub(super) body: Vec<Token>,
}

impl Preprocessor<'_> {
    pub(super) fn define(&mut self, rest: &[Token], span: Span) {
        let Some(Tok::Word(name)) = rest.first().map(|token| token.tok.clone()) else {
            self.sink
                .error("E0112", span, "expected a name after `#define`");
            return;
        };
        let mut at = 1;
        let mut parameters = None;
        if rest
            .get(1)
            .is_some_and(|token| token.is("(") && token.joint)
        {
            let mut names = Vec::new();
            at = 2;
            while let Some(token) = rest.get(at) {
                at += 1;
                match &token.tok {
                    Tok::Word(word) => names.push(word.clone()),
                    Tok::Punct(")") => break,
                    _ => {}
                }
            }
            parameters = Some(names);
        }
        let body = rest.get(at..).unwrap_or(&[]).to_vec();
        self.macros.insert(name, Macro { parameters, body });
    }

    /// `__LINE__` and `__FILE__`: the token's place; in a macro's body, where the macro is used.
    fn place(&self, token: &Token) -> Option<Token> {
        let tok = match token.word()? {
            "__LINE__" => Tok::Int(
                self.sources.named_line(token.span)?.1.into(),
                Written::PLAIN,
            ),
            "__FILE__" => Tok::Str(self.sources.named_line(token.span)?.0),
            _ => return None,
        };
        Some(Token {
            tok,
            ..token.clone()
        })
    }

    pub(super) fn expand(&mut self, tokens: Vec<Token>, active: &mut Vec<Rc<str>>) -> Vec<Token> {
        if active.len() > limits::MACRO_DEPTH {
            return tokens;
        }
        let mut out = Vec::with_capacity(tokens.len());
        let mut at = 0;
        while at < tokens.len() && out.len() < limits::TOKENS {
            let token = &tokens[at];
            at += 1;
            if let Some(place) = self.place(token) {
                out.push(place);
                continue;
            }
            let found = match &token.tok {
                Tok::Word(word) if !active.contains(word) => self
                    .macros
                    .get(word)
                    .map(|found| (word.clone(), found.clone())),
                _ => None,
            };
            let Some((name, found)) = found else {
                out.push(token.clone());
                continue;
            };
            let body = match &found.parameters {
                None => found.body.clone(),
                Some(parameters) => {
                    let Some((arguments, next)) = arguments(&tokens, at) else {
                        out.push(token.clone());
                        continue;
                    };
                    at = next;
                    if parameters.len() != arguments.len()
                        && !(parameters.is_empty() && arguments.len() == 1)
                    {
                        self.sink.error(
                            "E0120",
                            token.span,
                            format!(
                                "macro `{name}` takes {}, {} given",
                                counted(parameters.len(), "argument", "arguments"),
                                counted(arguments.len(), "was", "were")
                            ),
                        );
                    }
                    let arguments: Vec<_> = arguments
                        .into_iter()
                        .map(|argument| self.expand(argument, active))
                        .collect();
                    substitute(&found.body, parameters, &arguments)
                }
            };
            active.push(name);
            let body: Vec<Token> = paste(body)
                .into_iter()
                .map(|inner| Token {
                    span: token.span,
                    ..inner
                })
                .collect();
            out.extend(self.expand(body, active));
            active.pop();
        }
        out
    }
}

/// The arguments of a macro call, and the index behind its `)`.
fn arguments(tokens: &[Token], at: usize) -> Option<(Vec<Vec<Token>>, usize)> {
    if !tokens.get(at)?.is("(") {
        return None;
    }
    let mut depth = 1;
    let mut out = vec![Vec::new()];
    for (offset, token) in tokens.iter().enumerate().skip(at + 1) {
        match token.tok {
            Tok::Punct("(" | "[" | "{") => depth += 1,
            Tok::Punct(")" | "]" | "}") => depth -= 1,
            Tok::Punct(",") if depth == 1 => {
                out.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            return Some((out, offset + 1));
        }
        out.last_mut()?.push(token.clone());
    }
    None
}

fn substitute(body: &[Token], parameters: &[Rc<str>], arguments: &[Vec<Token>]) -> Vec<Token> {
    let mut out = Vec::new();
    for token in body {
        let position = token
            .word()
            .and_then(|word| parameters.iter().position(|name| &**name == word));
        match position.and_then(|position| arguments.get(position)) {
            Some(argument) => out.extend(argument.iter().cloned()),
            None => out.push(token.clone()),
        }
    }
    out
}

/// Joins what `##` asks to join, words and numbers only.
fn paste(body: Vec<Token>) -> Vec<Token> {
    let text = |token: &Token| match &token.tok {
        Tok::Word(word) => Some(word.to_string()),
        Tok::Int(value, Written { width: None, .. }) => Some(value.to_string()),
        _ => None,
    };
    let mut out: Vec<Token> = Vec::new();
    let mut pending = false;
    for token in body {
        if token.is("##") {
            pending = true;
            continue;
        }
        let joined = match out.last() {
            Some(last) if pending => text(last)
                .zip(text(&token))
                .map(|(left, right)| left + &right),
            _ => None,
        };
        match (joined, out.last_mut()) {
            (Some(word), Some(last)) => last.tok = Tok::Word(word.into()),
            _ => out.push(token),
        }
        pending = false;
    }
    out
}
