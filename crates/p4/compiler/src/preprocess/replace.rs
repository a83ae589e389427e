//! Replaces a macro by its body with its arguments: `#`, `##` and `__VA_OPT__` (C17, 6.10.3.1 to 6.10.3.3, and C23's
//! 6.10.5.2).
//!
//! White space and edges (where an expansion begins or ends) are as in GCC's preprocessor, because `#` shows them.

use super::Preprocessor;
use super::macros::Function;
use super::token::{Kind, PpToken, measure};

struct Call<'a> {
    /// The macro's name at the use.
    name: &'a PpToken,
    function: Option<&'a Function>,
    arguments: Vec<Argument>,
    /// The call omits the argument of `...` and its comma.
    omitted: bool,
}

struct Argument {
    raw: Vec<PpToken>,
    expanded: Option<Vec<PpToken>>,
}

/// The output so far, and what a `##` would join.
#[derive(Default)]
struct Out {
    tokens: Vec<PpToken>,
    /// The last operand gave at least one token.
    target: bool,
    /// A `##` follows the last operand.
    joining: bool,
    /// A `##` made the last token.
    joined: bool,
}

/// A part of the body, which a `##` may join with its neighbour: a token, or what replaces a parameter.
struct Operand {
    tokens: Vec<PpToken>,
    /// How many of the body's tokens the part takes.
    len: usize,
    kind: OperandKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OperandKind {
    Token,
    Argument,
    /// The argument of `...`.
    Rest,
}

impl Preprocessor<'_> {
    pub(super) fn replace(
        &mut self,
        body: &[PpToken],
        name: &PpToken,
        call: Option<(&Function, Vec<Vec<PpToken>>)>,
    ) -> Vec<PpToken> {
        let (function, arguments) = call.unzip();
        let arguments = arguments.unwrap_or_default();
        let omitted = function.is_some_and(|function: &Function| {
            let wanted = function.parameters.len();
            function.variadic
                && (arguments.len() < wanted || (wanted == 1 && arguments[0].is_empty()))
        });
        let mut arguments: Vec<Argument> = arguments
            .into_iter()
            .map(|raw| Argument {
                raw,
                expanded: None,
            })
            .collect();
        if function.is_some_and(|function| arguments.len() < function.parameters.len()) {
            arguments.push(Argument {
                raw: Vec::new(),
                expanded: None,
            });
        }
        let mut call = Call {
            name,
            function,
            arguments,
            omitted,
        };
        self.substitute(body, &mut call)
    }

    fn substitute(&mut self, body: &[PpToken], call: &mut Call) -> Vec<PpToken> {
        let mut out = Out::default();
        let mut at = 0;
        while at < body.len() && !self.exhausted {
            if body[at].is("##") && at > 0 {
                out.joining = true;
                at += 1;
                continue;
            }
            let joins = out.joining;
            let operand = self.operand(body, at, joins, call);
            let joined_next = body
                .get(at + operand.len)
                .is_some_and(|token| token.is("##"));
            let parameter = &body[at];
            let is_argument = operand.kind != OperandKind::Token;
            if joins {
                self.join(&mut out, operand.tokens, operand.kind, call.omitted);
            } else {
                out.close(parameter);
                if is_argument && at > 0 {
                    out.tokens.push(PpToken::edge_before(parameter));
                }
                out.target = !operand.tokens.is_empty();
                out.tokens.extend(operand.tokens);
            }
            at += operand.len;
            if is_argument && !joined_next {
                out.close(parameter);
                out.tokens.push(PpToken::edge_behind(call.name.span));
            }
        }
        out.close(call.name);
        out.tokens
    }

    fn operand(&mut self, body: &[PpToken], at: usize, joins: bool, call: &mut Call) -> Operand {
        let token = &body[at];
        let here = |token: &PpToken| PpToken {
            span: call.name.span,
            first: false,
            made: true,
            ..token.clone()
        };
        let plain = Operand {
            tokens: vec![here(token)],
            len: 1,
            kind: OperandKind::Token,
        };
        let Some(function) = call.function else {
            return plain;
        };
        if token.is("#") {
            let Some(next) = body.get(at + 1) else {
                return plain;
            };
            let (raw, len) = match function.parameter(next) {
                Some(position) => (call.arguments[position].raw.clone(), 2),
                None => match self.optional(body, at + 1, call) {
                    Some((tokens, len)) => (tokens, len + 1),
                    None => return plain,
                },
            };
            return Operand {
                tokens: vec![self.stringified(&raw, token, call.name)],
                len,
                kind: OperandKind::Argument,
            };
        }
        if let Some((tokens, len)) = self.optional(body, at, call) {
            let kind = OperandKind::Argument;
            return Operand { tokens, len, kind };
        }
        let Some(position) = function.parameter(token) else {
            return plain;
        };
        let before_join = body.get(at + 1).is_some_and(|next| next.is("##"));
        let tokens = if joins || before_join {
            call.arguments[position].raw.clone()
        } else {
            self.expanded(position, call)
        };
        let rest = function.variadic && position + 1 == function.parameters.len();
        let kind = if rest {
            OperandKind::Rest
        } else {
            OperandKind::Argument
        };
        Operand {
            tokens,
            len: 1,
            kind,
        }
    }

    fn expanded(&mut self, position: usize, call: &mut Call) -> Vec<PpToken> {
        if let Some(expanded) = &call.arguments[position].expanded {
            return expanded.clone();
        }
        if call.arguments[position].raw.is_empty() {
            return Vec::new();
        }
        let expanded = self.expand_argument(&call.arguments[position].raw, call.name);
        call.arguments[position].expanded = Some(expanded.clone());
        expanded
    }

    /// Returns the content of a `__VA_OPT__(...)`, which is empty if `...` has no argument, and the number of tokens
    /// that the `__VA_OPT__(...)` takes; `None` if no `__VA_OPT__(...)` begins at `at`.
    fn optional(
        &mut self,
        body: &[PpToken],
        at: usize,
        call: &mut Call,
    ) -> Option<(Vec<PpToken>, usize)> {
        let function = call.function.filter(|function| function.variadic)?;
        let named = &*body[at].text == "__VA_OPT__" && body.get(at + 1)?.is("(");
        if !named {
            return None;
        }
        let mut depth = 0_usize;
        let len = body[at + 1..].iter().position(|token| {
            depth += usize::from(token.is("("));
            depth -= usize::from(token.is(")"));
            depth == 0
        })? + 2;
        let given = self.expanded(function.parameters.len() - 1, call);
        let tokens = if given.iter().any(|token| token.kind != Kind::Edge) {
            self.substitute(&body[at + 2..at + len - 1], call)
        } else {
            Vec::new()
        };
        Some((tokens, len))
    }

    /// Returns the string that `#` makes of an argument's spelling.
    fn stringified(&mut self, raw: &[PpToken], hash: &PpToken, name: &PpToken) -> PpToken {
        let mut text = String::from("\"");
        let mut space: Option<bool> = None;
        let mut n_backslashes = 0;
        for token in raw {
            if token.kind == Kind::Edge {
                if space.is_none() || (space == Some(false) && token.painted) {
                    space = (!token.painted).then_some(token.space);
                }
                continue;
            }
            if text.len() > 1 && space.unwrap_or(token.space) {
                text.push(' ');
            }
            space = None;
            if matches!(token.kind, Kind::Str | Kind::Char) {
                text.push_str(&token.text.replace('\\', "\\\\").replace('"', "\\\""));
            } else {
                text.push_str(&token.text);
            }
            let backslash = token.kind == Kind::Other && &*token.text == "\\";
            n_backslashes = if backslash { n_backslashes + 1 } else { 0 };
        }
        if n_backslashes % 2 == 1 {
            text.pop();
        }
        text.push('"');
        self.spend(text.len() / 8, Some(name.span));
        PpToken {
            kind: Kind::Str,
            text: text.into(),
            space: hash.space,
            ..PpToken::end(name.span)
        }
    }

    /// Executes a `##`: joins the last token so far and the first token of `operand`, if together they are one token.
    fn join(&mut self, out: &mut Out, operand: Vec<PpToken>, kind: OperandKind, omitted: bool) {
        out.joining = false;
        let after_comma = out.tokens.last().is_some_and(|token| token.is(","));
        if kind == OperandKind::Rest && after_comma && out.target {
            // GNU's `, ## __VA_ARGS__` joins nothing, and removes the comma if the argument is omitted.
            if omitted {
                out.tokens.pop();
            }
            out.target = !operand.is_empty();
            out.tokens.extend(operand);
            return;
        }
        let is_edge = |token: &PpToken| token.kind == Kind::Edge;
        while out.target && out.tokens.last().is_some_and(is_edge) {
            out.tokens.pop();
        }
        let mut operand = operand.into_iter().skip_while(is_edge);
        let Some(right) = operand.next() else {
            return;
        };
        let left = out.tokens.last().filter(|_| out.target).cloned();
        match left {
            None => out.tokens.push(right),
            Some(left) => {
                if !out.joined {
                    let last = out.tokens.len() - 1;
                    out.tokens.insert(last, PpToken::edge_before(&left));
                }
                self.spend((left.text.len() + right.text.len()) / 8, Some(left.span));
                match joined(&left, &right) {
                    Some(token) => {
                        out.tokens.pop();
                        out.tokens.push(token);
                        out.joined = true;
                    }
                    None => {
                        out.tokens.push(PpToken::edge_behind(right.span));
                        out.tokens.push(right);
                        out.joined = false;
                    }
                }
            }
        }
        out.target = true;
        let rest: Vec<PpToken> = operand.collect();
        if !rest.is_empty() {
            if let Some(last) = out.tokens.last().cloned() {
                out.close(&last);
            }
            out.tokens.extend(rest);
        }
    }
}

impl Out {
    /// Ends an operand that no `##` follows: puts an edge after a joined token.
    fn close(&mut self, at: &PpToken) {
        if std::mem::take(&mut self.joined) {
            self.tokens.push(PpToken::edge_behind(at.span));
        }
    }
}

/// Joins two tokens; `None` if they do not make one token.
fn joined(left: &PpToken, right: &PpToken) -> Option<PpToken> {
    let text = format!("{}{}", left.text, right.text);
    if text.starts_with("//") || text.starts_with("/*") {
        return None;
    }
    let (kind, len) = measure(&text, false);
    (len == text.len()).then(|| PpToken {
        kind,
        text: text.into(),
        painted: false,
        made: true,
        ..left.clone()
    })
}
