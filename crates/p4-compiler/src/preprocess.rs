//! `#include`, macros and conditional text, on tokens, so that every token keeps its own place.
//!
//! The C preprocessor as far as P4_16 asks for it (1.2.5, section 6.1), and function-like macros,
//! `#` and `##` besides. A token that comes out of a macro has the place of the macro's use.

mod condition;
mod include;
mod line;
mod macros;
pub mod print;

use std::collections::HashMap;
use std::rc::Rc;

use self::macros::Macro;
use crate::SourceProvider;
use crate::diagnostic::Sink;
use crate::lex::{Tok, Token, lex};
use crate::limits;
use crate::source::{SourceMap, Span};

const EMBEDDED: &[(&str, &str)] = &[
    ("core.p4", include_str!("../../../p4/include/core.p4")),
    ("v1model.p4", include_str!("../../../p4/include/v1model.p4")),
];

/// Where the macros of the command line stand.
const COMMAND_LINE: &str = "<command line>";

/// Whether this is the name under which an embedded file, or the command line, is in messages.
pub fn is_embedded(name: &str) -> bool {
    let inner = name
        .strip_prefix('<')
        .and_then(|name| name.strip_suffix('>'));
    name == COMMAND_LINE || EMBEDDED.iter().any(|(known, _)| inner == Some(*known))
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
        let file = pre.sources.add(COMMAND_LINE, value);
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
        let active = conditionals.iter().all(|open| open.taken);
        let Some(name) = line.get(1).and_then(Token::word) else {
            // `# 12 "file"`; a `#` alone means nothing.
            if active && line.len() > 1 {
                self.line(&line[1..], span);
            }
            return;
        };
        let rest = &line[2..];
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
            "line" => {
                let rest = self.expand(rest.to_vec(), &mut Vec::new());
                self.line(&rest, span);
            }
            "pragma" | "warning" | "ident" => {}
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
}
