//! Repairs, before parsing, mistakes that would derail the parser, and reports each with one error: a `{` that is never
//! closed, keywords with capital letters or misspelt ([`misspelt`]), and P4_14 declarations.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::misspelt;
use crate::diagnostic::Sink;
use crate::lex::{Tok, Token};
use crate::source::{SourceMap, Span};

/// Words that begin a declaration which cannot be inside another one.
const TOP_LEVEL: &[&str] = &[
    "control",
    "parser",
    "header",
    "struct",
    "header_union",
    "enum",
    "typedef",
    "package",
    "extern",
];

/// Words that begin declarations only in P4_14.
const P4_14: &[&str] = &[
    "header_type",
    "field_list",
    "field_list_calculation",
    "calculated_field",
    "primitive_action",
    "parser_exception",
    "parser_value_set",
    "action_profile",
    "action_selector",
];

pub fn repair<'a>(tokens: &'a [Token], sources: &SourceMap, sink: &mut Sink) -> Cow<'a, [Token]> {
    if let Some(at) = p4_14(tokens) {
        let span = tokens[at].span;
        sink.error("E0206", span, "this is P4_14, the language before P4_16")
            .label("there is no such declaration in P4_16")
            .help("rewrite it in P4_16; p4c can translate it: `p4test --std p4-14 --pp NEW.p4 OLD.p4`");
        // Further messages would only repeat this one.
        let mut kept = tokens[..at].to_vec();
        kept.extend(tokens.last().cloned());
        return Cow::Owned(kept);
    }
    let mut tokens = Cow::Borrowed(tokens);
    if let Some(mended) = capital_keywords(&tokens, sink) {
        tokens = Cow::Owned(mended);
    }
    if let Some(mended) = misspelt::mend(&tokens, sink) {
        tokens = Cow::Owned(mended);
    }
    let count = |punct: &str| tokens.iter().filter(|token| token.is(punct)).count();
    match count("{").checked_sub(count("}")) {
        Some(missing) if missing > 0 => Cow::Owned(close_braces(&tokens, missing, sources, sink)),
        _ => tokens,
    }
}

/// Where a declaration of P4_14 begins, if there is one.
fn p4_14(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        if token.is("{") {
            depth += 1;
        } else if token.is("}") {
            depth = depth.saturating_sub(1);
        }
        let (Some(word), Some(name), Some(third)) =
            (token.word(), tokens.get(at + 1), tokens.get(at + 2))
        else {
            continue;
        };
        if depth > 0 || !token.first || name.word().is_none() {
            continue;
        }
        let in_body = |needle: &[&str]| {
            let body = tokens[at + 3..].iter().take(200);
            body.take_while(|token| !token.is("}"))
                .any(|token| token.word().is_some_and(|word| needle.contains(&word)))
        };
        let found = match word {
            _ if P4_14.contains(&word) => third.is("{") || third.is(";"),
            "header" | "metadata" => {
                third.word().is_some() && tokens.get(at + 3).is_some_and(|t| t.is(";"))
            }
            "table" => third.is("{") && in_body(&["reads", "actions"]),
            "counter" | "meter" | "register" => third.is("{"),
            "parser" => third.is("{") && in_body(&["extract", "return"]),
            "control" => {
                third.is("{") && !in_body(&["action", "table"]) && in_body(&["apply"]) && {
                    // `apply(table)` in P4_14, `apply {` in P4_16.
                    tokens[at + 3..]
                        .iter()
                        .zip(&tokens[at + 4..])
                        .find(|(token, _)| token.word() == Some("apply"))
                        .is_some_and(|(_, next)| next.is("("))
                }
            }
            _ => false,
        };
        if found {
            return Some(at);
        }
    }
    None
}

/// Replaces `Control`, `Apply`, `If` by keywords at places where nothing else is valid.
fn capital_keywords(tokens: &[Token], sink: &mut Sink) -> Option<Vec<Token>> {
    const DECLARATIONS: &[&str] = &[
        "control",
        "parser",
        "header",
        "struct",
        "header_union",
        "enum",
        "extern",
        "action",
        "table",
        "state",
    ];
    let mut mended: Option<Vec<Token>> = None;
    for at in 0..tokens.len() {
        let Some(word) = tokens[at].word() else {
            continue;
        };
        let lower = word.to_ascii_lowercase();
        if lower == word {
            continue;
        }
        let next = |ahead: usize| tokens.get(at + ahead);
        let is = |ahead: usize, punct: &str| next(ahead).is_some_and(|token| token.is(punct));
        let is_word = |ahead: usize| next(ahead).is_some_and(|token| token.word().is_some());
        let begins = at == 0 || matches!(tokens[at - 1].tok, Tok::Punct("{" | "}" | ";" | ")"));
        let meant = begins
            && match lower.as_str() {
                "apply" => is(1, "{"),
                "else" => is(1, "{") || (is_word(1) && is(2, "(")),
                "if" | "switch" => is(1, "(") && behind_parentheses(tokens, at + 1, "{"),
                "key" | "actions" | "entries" => is(1, "=") && is(2, "{"),
                "control" | "parser" | "action" => {
                    is_word(1)
                        && is(2, "(")
                        && behind_parentheses(tokens, at + 2, "{")
                        && !is_declared(tokens, word)
                }
                other => DECLARATIONS.contains(&other) && is_word(1) && is(2, "{"),
            };
        if meant {
            let span = tokens[at].span;
            sink.error(
                "E0207",
                span,
                format!("`{word}` is not a keyword: keywords are written in lower case"),
            )
            .suggest(span, lower.as_str(), format!("write `{lower}`"));
            mended.get_or_insert_with(|| tokens.to_vec())[at].tok = Tok::Word(lower.into());
        }
    }
    mended
}

fn is_declared(tokens: &[Token], word: &str) -> bool {
    tokens.windows(2).any(|pair| {
        pair[1].word() == Some(word)
            && (pair[0]
                .word()
                .is_some_and(|before| TOP_LEVEL.contains(&before) || before == "type")
                || pair[0].is("<")
                || pair[0].is(",")
                || pair[0].is(">"))
    })
}

/// Whether `punct` follows the parentheses that open at `open`.
pub(super) fn behind_parentheses(tokens: &[Token], open: usize, punct: &str) -> bool {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth -= 1;
            if depth == 0 {
                return tokens.get(at + 1).is_some_and(|next| next.is(punct));
            }
        } else if token.is(";") || token.is("{") {
            return false;
        }
    }
    false
}

/// An open `{`, and the indentation of the line in which its statement or declaration begins.
struct Open {
    span: Span,
    indent: u32,
}

struct Closer<'a> {
    sources: &'a SourceMap,
    sink: &'a mut Sink,
    open: Vec<Open>,
    out: Vec<Token>,
    reported: HashSet<Span>,
}

/// Inserts the missing `}` where the indentation shows that they were meant.
fn close_braces(
    tokens: &[Token],
    mut missing: usize,
    sources: &SourceMap,
    sink: &mut Sink,
) -> Vec<Token> {
    let mut closer = Closer {
        sources,
        sink,
        open: Vec::new(),
        out: Vec::with_capacity(tokens.len() + missing),
        reported: HashSet::new(),
    };
    // The indentation of this line, and of the line in which the statement began.
    let (mut line_indent, mut indent, mut begins) = (0, 0, true);
    let unbalanced = unbalanced_files(tokens);
    for token in tokens {
        let column = sources.line_column(token.span).1;
        if token.first {
            line_indent = column;
        }
        if begins {
            indent = line_indent;
        }
        begins = matches!(token.tok, Tok::Punct(";" | "{" | "}"));
        let is_end = matches!(token.tok, Tok::Eof);
        while missing > 0 && (is_end || token.first) {
            let Some(top) = closer.open.last() else { break };
            let same_file = top.span.file == token.span.file && unbalanced.contains(&top.span.file);
            let is_behind = match token.word() {
                Some(word) if TOP_LEVEL.contains(&word) => column <= top.indent,
                // Members of a control or parser are indented deeper than it.
                Some("action" | "table" | "state" | "apply") => {
                    column <= top.indent && closer.open.len() > 1
                }
                _ => token.is("}") && column < top.indent,
            };
            if !(is_end || (same_file && is_behind)) {
                break;
            }
            closer.close(token);
            missing -= 1;
        }
        if token.is("{") {
            let span = token.span;
            closer.open.push(Open { span, indent });
        } else if token.is("}") {
            closer.open.pop();
        }
        closer.out.push(token.clone());
    }
    closer.out
}

fn unbalanced_files(tokens: &[Token]) -> HashSet<u32> {
    let mut open: HashMap<u32, i64> = HashMap::new();
    for token in tokens {
        let change = i64::from(token.is("{")) - i64::from(token.is("}"));
        *open.entry(token.span.file).or_default() += change;
    }
    let more = open.into_iter().filter(|(_, open)| *open > 0);
    more.map(|(file, _)| file).collect()
}

impl Closer<'_> {
    fn close(&mut self, before: &Token) {
        let Some(top) = self.open.pop() else { return };
        let end = self.out.last().map_or(before.span, |last| Span {
            start: last.span.end,
            ..last.span
        });
        if self.reported.insert(top.span) {
            let raw = self.sink.error("E0208", top.span, "this `{` is not closed");
            let line = self.sources.position(before.span).line;
            if matches!(before.tok, Tok::Eof) {
                raw.help("add `}`");
            } else {
                raw.note_at(
                    before.span,
                    "by its indentation the block ends before this".to_owned(),
                )
                .help(format!("add `}}` before line {line}"));
            }
        }
        self.out.push(Token {
            tok: Tok::Punct("}"),
            span: end,
            first: true,
            joint: false,
            text: "".into(),
        });
    }
}
