//! `#include`, macros and conditional text, on tokens, so that every token keeps its own place.
//!
//! The C preprocessor as far as P4_16 asks for it (1.2.5, section 6.1), and function-like macros,
//! `#` and `##` besides. A token that comes out of a macro has the place of the macro's use.

pub mod print;

use std::collections::HashMap;
use std::rc::Rc;

use num_traits::ToPrimitive as _;

use crate::SourceProvider;
use crate::diagnostic::Sink;
use crate::lex::{Tok, Token, lex};
use crate::limits;
use crate::source::{SourceMap, Span};

const EMBEDDED: &[(&str, &str)] = &[
    ("core.p4", include_str!("../../../p4/include/core.p4")),
    ("v1model.p4", include_str!("../../../p4/include/v1model.p4")),
];

/// The name under which an embedded file appears in messages.
pub fn is_embedded(name: &str) -> bool {
    name.starts_with('<')
}

/// Whether a file is known to declare another architecture than v1model.
fn other_architecture(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    matches!(
        file,
        "psa.p4"
            | "pna.p4"
            | "tna.p4"
            | "t2na.p4"
            | "ebpf_model.p4"
            | "ubpf_model.p4"
            | "xdp_model.p4"
            | "SimpleSumeSwitch.p4"
            | "sume_switch.p4"
    )
}

/// The embedded file that declares a name outside of blocks.
pub fn embedded_file_with(name: &str) -> Option<&'static str> {
    const BEGINNINGS: &[&str] = &["extern ", "struct ", "action ", "package ", "enum "];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let declares = |line: &str| {
        BEGINNINGS
            .iter()
            .any(|beginning| line.starts_with(beginning))
            && line
                .split(['(', '<', '{'])
                .next()
                .and_then(|head| head.trim_end().rsplit(|c| !is_word(c)).next())
                == Some(name)
    };
    let found = EMBEDDED.iter().find(|(_, text)| text.lines().any(declares));
    found.map(|(file, _)| *file)
}

#[derive(Clone)]
struct Macro {
    parameters: Option<Vec<Rc<str>>>,
    body: Vec<Token>,
}

/// An open `#if`: whether this branch is taken, and whether one was taken before.
struct Conditional {
    taken: bool,
    any_taken: bool,
    span: Span,
}

pub struct Preprocessor<'a> {
    sources: &'a mut SourceMap,
    provider: &'a dyn SourceProvider,
    include_dirs: &'a [String],
    sink: &'a mut Sink,
    macros: HashMap<Rc<str>, Macro>,
    out: Vec<Token>,
    depth: usize,
}

/// All tokens of the program, with an end marker.
pub fn preprocess(
    main: (&str, &str),
    options: &crate::Options,
    provider: &dyn SourceProvider,
    sources: &mut SourceMap,
    sink: &mut Sink,
) -> Vec<Token> {
    let mut pre = Preprocessor {
        sources,
        provider,
        include_dirs: &options.include_dirs,
        sink,
        macros: HashMap::new(),
        out: Vec::new(),
        depth: 0,
    };
    // The program is file 0: messages without a place of their own are about it.
    let program = pre.sources.add(main.0, main.1);
    // What programs written for several targets ask for when they are compiled for BMv2.
    let target = ("__TARGET_BMV2__".to_owned(), "1".to_owned());
    for (name, value) in std::iter::once(&target).chain(&options.defines) {
        let file = pre.sources.add("<command line>", value);
        let body = lex(file, value, pre.sink);
        pre.macros.insert(
            name.as_str().into(),
            Macro {
                parameters: None,
                body,
            },
        );
    }
    for name in &options.undefines {
        pre.macros.remove(name.as_str());
    }
    pre.numbered_file(program, main.0, main.1);
    let end = pre.out.last().map_or(Span::default(), |last| Span {
        start: last.span.end,
        ..last.span
    });
    let mut out = pre.out;
    out.push(Token {
        tok: Tok::Eof,
        span: end,
        first: true,
        joint: false,
    });
    out
}

impl Preprocessor<'_> {
    fn file(&mut self, name: &str, text: &str, included_at: Option<Span>) {
        let file = self.sources.add(name, text);
        self.sources.set_included_at(file, included_at);
        self.numbered_file(file, name, text);
    }

    fn numbered_file(&mut self, file: u32, name: &str, text: &str) {
        let tokens = lex(file, text, self.sink);
        let mut conditionals: Vec<Conditional> = Vec::new();
        let mut chunk: Vec<Token> = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            if !(tokens[at].first && tokens[at].is("#")) {
                if conditionals.iter().all(|open| open.taken) {
                    chunk.push(tokens[at].clone());
                }
                at += 1;
                continue;
            }
            let end = (at + 1..tokens.len())
                .find(|end| tokens[*end].first)
                .unwrap_or(tokens.len());
            self.flush(&mut chunk);
            self.directive(name, &tokens[at..end], &mut conditionals);
            at = end;
        }
        self.flush(&mut chunk);
        if let Some(open) = conditionals.last() {
            self.sink
                .error("E0111", open.span, "this conditional is not closed")
                .help("add `#endif`");
        }
    }

    fn flush(&mut self, chunk: &mut Vec<Token>) {
        if chunk.is_empty() {
            return;
        }
        let expanded = self.expand(std::mem::take(chunk), &mut Vec::new());
        if self.out.len() + expanded.len() > limits::TOKENS {
            let span = expanded.first().map_or(Span::default(), |token| token.span);
            self.sink.error(
                "E0119",
                span,
                format!("the program has more than {} tokens", limits::TOKENS),
            );
            return;
        }
        self.out.extend(expanded);
    }

    fn directive(&mut self, from: &str, line: &[Token], conditionals: &mut Vec<Conditional>) {
        let span = line.first().map_or(Span::default(), |hash| {
            line.last()
                .map_or(hash.span, |last| hash.span.to(last.span))
        });
        let Some(name) = line.get(1).and_then(Token::word) else {
            return;
        };
        let rest = &line[2..];
        let active = conditionals.iter().all(|open| open.taken);
        match name {
            "if" | "ifdef" | "ifndef" => {
                let holds = active && self.condition(name, rest, span);
                conditionals.push(Conditional {
                    taken: holds,
                    any_taken: holds,
                    span,
                });
            }
            "elif" | "else" | "endif" => self.branch(name, rest, span, conditionals),
            _ if !active => {}
            "include" => self.include(from, rest, span),
            "define" => self.define(rest, span),
            "undef" => match rest.first().and_then(Token::word) {
                Some(word) => drop(self.macros.remove(word)),
                None => drop(
                    self.sink
                        .error("E0112", span, "expected a name after `#undef`"),
                ),
            },
            "error" => {
                let text = self.sources.text(span).trim_start_matches('#').trim();
                let text = text.trim_start_matches("error").trim().to_owned();
                self.sink.error("E0113", span, format!("#error: {text}"));
            }
            "pragma" | "line" | "warning" | "ident" => {}
            other => {
                self.sink
                    .error("E0114", span, format!("unknown directive `#{other}`"))
                    .help("known are include, define, undef, if, ifdef, ifndef, elif, else, endif and error");
            }
        }
    }

    fn branch(
        &mut self,
        name: &str,
        rest: &[Token],
        span: Span,
        conditionals: &mut Vec<Conditional>,
    ) {
        let outer = conditionals
            .len()
            .checked_sub(1)
            .is_some_and(|n| conditionals[..n].iter().all(|open| open.taken));
        let any_taken = match conditionals.last() {
            Some(open) => open.any_taken,
            None => {
                self.sink
                    .error("E0115", span, format!("`#{name}` without `#if`"));
                return;
            }
        };
        if name == "endif" {
            conditionals.pop();
            return;
        }
        let taken = outer && !any_taken && (name == "else" || self.condition("if", rest, span));
        if let Some(open) = conditionals.last_mut() {
            open.taken = taken;
            open.any_taken |= taken;
        }
    }

    fn condition(&mut self, kind: &str, rest: &[Token], span: Span) -> bool {
        if kind != "if" {
            let defined = rest
                .first()
                .and_then(Token::word)
                .is_some_and(|word| self.macros.contains_key(word));
            if rest.first().and_then(Token::word).is_none() {
                self.sink
                    .error("E0112", span, format!("expected a name after `#{kind}`"));
            }
            return defined == (kind == "ifdef");
        }
        let mut resolved = Vec::new();
        let mut at = 0;
        while at < rest.len() {
            if rest[at].word() == Some("defined") {
                let paren = rest.get(at + 1).is_some_and(|token| token.is("("));
                let name = rest.get(at + 1 + usize::from(paren)).and_then(Token::word);
                let value = name.is_some_and(|word| self.macros.contains_key(word));
                let tok = Tok::Int(i32::from(value).into(), None);
                resolved.push(Token {
                    tok,
                    ..rest[at].clone()
                });
                at += if paren { 4 } else { 2 };
            } else {
                resolved.push(rest[at].clone());
                at += 1;
            }
        }
        let tokens = self.expand(resolved, &mut Vec::new());
        let mut eval = Evaluator {
            tokens: &tokens,
            at: 0,
            depth: 0,
        };
        match eval.expression(0) {
            Some(value) if eval.at == tokens.len() => value != 0,
            _ => {
                self.sink
                    .error("E0116", span, "cannot evaluate this condition")
                    .help("use integers, names of macros, `defined(X)` and the operators of C");
                false
            }
        }
    }

    fn define(&mut self, rest: &[Token], span: Span) {
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

    fn include(&mut self, from: &str, rest: &[Token], span: Span) {
        if self.depth >= limits::INCLUDE_DEPTH {
            self.sink
                .error(
                    "E0117",
                    span,
                    format!(
                        "includes are nested more than {} deep",
                        limits::INCLUDE_DEPTH
                    ),
                )
                .help("guard the file with `#ifndef`");
            return;
        }
        let (name, system) = match rest.first().map(|token| &token.tok) {
            Some(Tok::Str(name)) => (name.to_string(), false),
            Some(Tok::Punct("<")) => {
                let last = rest.last().map_or(span, |last| last.span);
                let text = self.sources.text(rest[0].span.to(last));
                (
                    text.trim_matches(|c| c == '<' || c == '>')
                        .trim()
                        .to_owned(),
                    true,
                )
            }
            _ => {
                self.sink.error(
                    "E0112",
                    span,
                    "expected `\"file\"` or `<file>` after `#include`",
                );
                return;
            }
        };
        match self.find(from, &name, system) {
            Some((path, text)) => {
                self.depth += 1;
                self.file(&path, &text, Some(span));
                self.depth -= 1;
            }
            None => self.not_found(from, &name, system, span),
        }
    }

    /// Says where was looked, or why what is there cannot be used.
    fn not_found(&mut self, from: &str, name: &str, system: bool, span: Span) {
        let places = self.places(from, name, system);
        let unusable = places.iter().find_map(|path| {
            let why = self.provider.unusable(path)?;
            Some(format!("cannot use `{path}`: {why}"))
        });
        if let Some(message) = unusable {
            self.sink.error("E0118", span, message);
            return;
        }
        let help = if places.is_empty() {
            "no folder to look in: give one with `-I DIR`".to_owned()
        } else {
            let places: Vec<String> = places.iter().map(|path| format!("`{path}`")).collect();
            format!(
                "looked for {}; `-I DIR` adds a folder",
                places.join(" and ")
            )
        };
        let raw = self
            .sink
            .error("E0118", span, format!("cannot find `{name}`"));
        if other_architecture(name) {
            raw.help(format!(
                "{name} declares an architecture that this compiler does not have; it compiles for v1model.p4"
            ));
        } else {
            raw.help(help);
        }
    }

    /// The paths at which an included file may be, in the order of the search.
    fn places(&self, from: &str, name: &str, system: bool) -> Vec<String> {
        let beside = match from.rsplit_once('/') {
            _ if name.starts_with('/') => return vec![name.to_owned()],
            Some((dir, _)) => format!("{dir}/{name}"),
            None => name.to_owned(),
        };
        let beside = (!system).then_some(beside);
        let others = self
            .include_dirs
            .iter()
            .map(|dir| format!("{}/{name}", dir.trim_end_matches('/')));
        beside.into_iter().chain(others).collect()
    }

    fn find(&self, from: &str, name: &str, system: bool) -> Option<(String, String)> {
        let embedded = EMBEDDED.iter().find(|(known, _)| *known == name);
        if let Some((known, text)) = embedded.filter(|_| system || is_embedded(from)) {
            return Some((format!("<{known}>"), (*text).to_owned()));
        }
        for path in self.places(from, name, system) {
            if let Some(text) = self.provider.load(&path) {
                return Some((path, text));
            }
        }
        embedded.map(|(known, text)| (format!("<{known}>"), (*text).to_owned()))
    }

    /// `__LINE__` and `__FILE__`: the token's place; in a macro's body, where the macro is used.
    fn place(&self, token: &Token) -> Option<Token> {
        let tok = match token.word()? {
            "__LINE__" => Tok::Int(self.sources.line_column(token.span).0.into(), None),
            "__FILE__" => Tok::Str(self.sources.file(token.span.file)?.name.clone()),
            _ => return None,
        };
        Some(Token {
            tok,
            ..token.clone()
        })
    }

    fn expand(&mut self, tokens: Vec<Token>, active: &mut Vec<Rc<str>>) -> Vec<Token> {
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
                                "macro `{name}` takes {} arguments, {} were given",
                                parameters.len(),
                                arguments.len()
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
        Tok::Int(value, None) => Some(value.to_string()),
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

/// Integer conditions of `#if`.
struct Evaluator<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Evaluator<'_> {
    fn expression(&mut self, level: usize) -> Option<i128> {
        if level >= LEVELS.len() {
            return self.unary();
        }
        let mut left = self.expression(level + 1)?;
        while let Some(Tok::Punct(op)) = self.tokens.get(self.at).map(|token| token.tok.clone()) {
            if !LEVELS[level].contains(&op) {
                break;
            }
            self.at += 1;
            let right = self.expression(level + 1)?;
            left = Self::apply(op, left, right)?;
        }
        Some(left)
    }

    fn apply(op: &str, left: i128, right: i128) -> Option<i128> {
        Some(match op {
            "||" => i128::from(left != 0 || right != 0),
            "&&" => i128::from(left != 0 && right != 0),
            "|" => left | right,
            "^" => left ^ right,
            "&" => left & right,
            "==" => i128::from(left == right),
            "!=" => i128::from(left != right),
            "<" => i128::from(left < right),
            "<=" => i128::from(left <= right),
            ">" => i128::from(left > right),
            ">=" => i128::from(left >= right),
            "<<" => left.checked_shl(u32::try_from(right).ok()?)?,
            "+" => left.checked_add(right)?,
            "-" => left.checked_sub(right)?,
            "*" => left.checked_mul(right)?,
            "/" => left.checked_div(right)?,
            _ => left.checked_rem(right)?,
        })
    }

    fn unary(&mut self) -> Option<i128> {
        self.depth += 1;
        if self.depth > limits::NESTING {
            return None;
        }
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        let value = match &token.tok {
            Tok::Punct("!") => i128::from(self.unary()? == 0),
            Tok::Punct("-") => self.unary()?.checked_neg()?,
            Tok::Punct("+") => self.unary()?,
            Tok::Punct("~") => !self.unary()?,
            Tok::Punct("(") => {
                let inner = self.expression(0)?;
                if !self.tokens.get(self.at)?.is(")") {
                    return None;
                }
                self.at += 1;
                inner
            }
            Tok::Int(value, _) => value.to_i128()?,
            // A name that is no macro counts as 0, as in C.
            Tok::Word(word) => i128::from(&**word == "true"),
            _ => return None,
        };
        self.depth -= 1;
        Some(value)
    }
}
