//! The conditions of `#if` and `#elif`: integers, names of macros, `defined(X)`, C's operators.

use num_traits::ToPrimitive as _;

use super::Preprocessor;
use crate::lex::{Tok, Token, Written};
use crate::limits;
use crate::source::Span;

impl Preprocessor<'_> {
    pub(super) fn condition(&mut self, kind: &str, rest: &[Token], span: Span) -> bool {
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
                let tok = Tok::Int(i32::from(value).into(), Written::PLAIN);
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
