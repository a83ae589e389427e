//! The conditions of `#if` and `#elif`: C's integer constant expressions (C17, 6.10.1) in 64 bits.

use super::Preprocessor;
use super::token::{Kind, PpToken};
use crate::limits;
use crate::source::Span;

impl Preprocessor<'_> {
    /// Evaluates the condition of an `#if`, `#ifdef` or `#ifndef`; `kind` is `if`, `ifdef` or `ifndef`.
    pub(super) fn condition(&mut self, kind: &str, rest: &[PpToken], span: Span) -> bool {
        if kind != "if" {
            let Some(name) = self.macro_name(kind, rest, span) else {
                return false;
            };
            self.nothing_more(kind, &rest[1..]);
            return self.macros.contains_key(&name.text) == (kind == "ifdef");
        }
        if rest.is_empty() {
            self.refuse(span, "it is empty");
            return false;
        }
        let before = std::mem::replace(&mut self.in_condition, true);
        let tokens = self.alone(rest, Self::condition_tokens);
        self.in_condition = before;
        let Ok(tokens) = tokens.inspect_err(|problem| self.refuse_at(problem, span)) else {
            return false;
        };
        let mut evaluator = Evaluator {
            tokens: &tokens,
            at: 0,
            depth: 0,
            skipping: 0,
        };
        match evaluator.whole() {
            Ok(value) => value.is_true(),
            Err(problem) => {
                self.refuse_at(&problem, span);
                false
            }
        }
    }

    /// Expands the condition. A `defined` becomes 0 or 1, and the name after it is not expanded.
    fn condition_tokens(&mut self) -> Result<Vec<PpToken>, Problem> {
        let mut tokens = Vec::new();
        loop {
            let mut token = self.next_token();
            match token.kind {
                Kind::End => return Ok(tokens),
                Kind::Name if &*token.text == "defined" => {
                    self.verbatim = true;
                    let value = self.defined(&token);
                    self.verbatim = false;
                    token.kind = Kind::Number;
                    token.text = if value? { "1" } else { "0" }.into();
                }
                Kind::Name if matches!(&*token.text, "true" | "false") => self.warn_of_word(&token),
                _ => {}
            }
            tokens.push(token);
        }
    }

    fn defined(&mut self, token: &PpToken) -> Result<bool, Problem> {
        let problem = || Problem::at(token, "expected a name after `defined`");
        let mut name = self.next_token();
        let open = name.is("(");
        if open {
            name = self.next_token();
        }
        if name.kind != Kind::Name {
            return Err(problem());
        }
        if open && !self.next_token().is(")") {
            return Err(Problem::at(token, "expected `)` after `defined(NAME`"));
        }
        Ok(self.macros.contains_key(&name.text))
    }

    /// Warns about `true`, which is a value in P4 but counts as 0 in a condition.
    fn warn_of_word(&mut self, token: &PpToken) {
        if &*token.text == "true" {
            self.sink
                .warning("W0865", token.span, "`true` counts as 0 in a condition")
                .label("a name that is no macro is 0, as in C")
                .help("write `1`");
        }
    }

    /// Reads `(<file>)` or `("file")` after `__has_include`; returns whether the file would be found.
    pub(super) fn has_include(&mut self, name: &PpToken) -> bool {
        let open = self.next_token();
        let file = self.next_token();
        let mut wanted = None;
        let mut system = false;
        if open.is("(") && file.kind == Kind::Str {
            wanted = Some(file.text.trim_matches('"').to_owned());
        } else if open.is("(") && file.is("<") {
            system = true;
            let mut path = String::new();
            loop {
                let token = self.next_token();
                match token.kind {
                    Kind::End => break,
                    Kind::Punct if token.is(">") => {
                        wanted = Some(path);
                        break;
                    }
                    _ => path.push_str(&token.text),
                }
            }
        }
        let closed = wanted.is_some() && self.next_token().is(")");
        match wanted.filter(|_| closed) {
            Some(wanted) => self.would_find(&wanted, system),
            None => {
                let message = "expected `(\"file\")` or `(<file>)` after `__has_include`";
                self.sink.error("E0112", name.span, message);
                false
            }
        }
    }

    pub(super) fn skip_parentheses(&mut self) {
        let mut depth = 0_usize;
        loop {
            let token = self.next_token();
            depth += usize::from(token.is("("));
            if token.is(")") {
                depth = depth.saturating_sub(1);
            }
            if depth == 0 || token.kind == Kind::End {
                return;
            }
        }
    }

    fn refuse_at(&mut self, problem: &Problem, span: Span) {
        // An error in a token from another file is shown at the condition.
        let here = problem.span.filter(|at| at.file == span.file);
        self.refuse(here.unwrap_or(span), &problem.why);
    }

    fn refuse(&mut self, span: Span, why: &str) {
        self.sink
            .error(
                "E0116",
                span,
                format!("cannot evaluate this condition: {why}"),
            )
            .help("use integers, names of macros, `defined(X)` and the operators of C");
    }
}

struct Problem {
    span: Option<Span>,
    why: String,
}

impl Problem {
    fn at(token: &PpToken, why: impl Into<String>) -> Self {
        Self {
            span: Some(token.span),
            why: why.into(),
        }
    }
}

type Outcome = Result<Value, Problem>;

/// An `intmax_t` or a `uintmax_t`.
#[derive(Clone, Copy)]
struct Value {
    bits: u64,
    unsigned: bool,
}

impl Value {
    fn signed(self) -> i64 {
        self.bits as i64
    }

    fn is_true(self) -> bool {
        self.bits != 0
    }

    fn is_negative(self) -> bool {
        !self.unsigned && self.signed() < 0
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self {
            bits: u64::from(value),
            unsigned: false,
        }
    }
}

struct Evaluator<'a> {
    tokens: &'a [PpToken],
    at: usize,
    depth: usize,
    /// Depth of nested operands whose value is not needed.
    skipping: usize,
}

/// Operators with two operands, the loosest first.
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
    fn whole(&mut self) -> Outcome {
        let value = self.comma()?;
        match self.tokens.get(self.at) {
            None => Ok(value),
            Some(token) => Err(Problem::at(
                token,
                format!("`{}` is not expected here", token.text),
            )),
        }
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self
            .tokens
            .get(self.at)
            .is_some_and(|token| token.is(punct));
        self.at += usize::from(found);
        found
    }

    fn comma(&mut self) -> Outcome {
        let mut value = self.conditional()?;
        while self.eat(",") {
            value = self.conditional()?;
        }
        Ok(value)
    }

    fn conditional(&mut self) -> Outcome {
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let first = self.unless(!condition.is_true(), Self::comma)?;
        if !self.eat(":") {
            return Err(self.missing("`:`"));
        }
        let second = self.unless(condition.is_true(), Self::conditional)?;
        let chosen = if condition.is_true() { first } else { second };
        Ok(Value {
            unsigned: first.unsigned || second.unsigned,
            ..chosen
        })
    }

    fn unless(&mut self, skip: bool, read: fn(&mut Self) -> Outcome) -> Outcome {
        self.skipping += usize::from(skip);
        let value = read(self);
        self.skipping -= usize::from(skip);
        value
    }

    fn binary(&mut self, level: usize) -> Outcome {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while let Some(token) = self.tokens.get(self.at) {
            let Some(operator) = operators.iter().find(|operator| token.is(operator)) else {
                break;
            };
            self.at += 1;
            let decided = match *operator {
                "||" => left.is_true(),
                "&&" => !left.is_true(),
                _ => false,
            };
            self.skipping += usize::from(decided);
            let right = self.binary(level + 1);
            self.skipping -= usize::from(decided);
            left = self.apply(operator, left, right?, token)?;
        }
        Ok(left)
    }

    fn apply(&self, operator: &str, left: Value, right: Value, token: &PpToken) -> Outcome {
        let unsigned = left.unsigned || right.unsigned;
        let less = if unsigned {
            left.bits < right.bits
        } else {
            left.signed() < right.signed()
        };
        let equal = left.bits == right.bits;
        let bits = match operator {
            "||" => return Ok((left.is_true() || right.is_true()).into()),
            "&&" => return Ok((left.is_true() && right.is_true()).into()),
            "==" => return Ok(equal.into()),
            "!=" => return Ok((!equal).into()),
            "<" => return Ok(less.into()),
            "<=" => return Ok((less || equal).into()),
            ">" => return Ok((!less && !equal).into()),
            ">=" => return Ok((!less).into()),
            "<<" | ">>" => return Ok(shifted(left, right, operator == "<<")),
            "|" => left.bits | right.bits,
            "^" => left.bits ^ right.bits,
            "&" => left.bits & right.bits,
            "+" => left.bits.wrapping_add(right.bits),
            "-" => left.bits.wrapping_sub(right.bits),
            "*" => left.bits.wrapping_mul(right.bits),
            _ if right.bits == 0 => {
                if self.skipping == 0 {
                    return Err(Problem::at(token, "it divides by zero"));
                }
                0
            }
            "/" if unsigned => left.bits / right.bits,
            "%" if unsigned => left.bits % right.bits,
            "/" => left.signed().wrapping_div(right.signed()) as u64,
            _ => left.signed().wrapping_rem(right.signed()) as u64,
        };
        Ok(Value { bits, unsigned })
    }

    fn unary(&mut self) -> Outcome {
        self.depth += 1;
        if self.depth > limits::NESTING {
            return Err(Problem {
                span: None,
                why: "it is nested too deeply".to_owned(),
            });
        }
        let Some(token) = self.tokens.get(self.at) else {
            return Err(self.missing("a number"));
        };
        self.at += 1;
        let value = match (token.kind, &*token.text) {
            (Kind::Punct, "!") => (!self.unary()?.is_true()).into(),
            (Kind::Punct, "+") => self.unary()?,
            (Kind::Punct, "-") => {
                let value = self.unary()?;
                Value {
                    bits: value.bits.wrapping_neg(),
                    ..value
                }
            }
            (Kind::Punct, "~") => {
                let value = self.unary()?;
                Value {
                    bits: !value.bits,
                    ..value
                }
            }
            (Kind::Punct, "(") => {
                let value = self.comma()?;
                if !self.eat(")") {
                    return Err(self.missing("`)`"));
                }
                value
            }
            (Kind::Number, text) => number(text).map_err(|why| Problem::at(token, why))?,
            (Kind::Char, text) => character(text).map_err(|why| Problem::at(token, why))?,
            // A name that is no macro counts as 0.
            (Kind::Name, name) => {
                if self.tokens.get(self.at).is_some_and(|next| next.is("(")) {
                    let why = format!("`{name}` is no macro that takes arguments");
                    return Err(Problem::at(token, why));
                }
                false.into()
            }
            (_, text) => {
                let why = format!("expected a number, found `{text}`");
                return Err(Problem::at(token, why));
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn missing(&self, wanted: &str) -> Problem {
        match self.tokens.get(self.at) {
            Some(token) => Problem::at(token, format!("expected {wanted}, found `{}`", token.text)),
            None => Problem {
                span: self.tokens.last().map(|token| token.span),
                why: format!("expected {wanted} at its end"),
            },
        }
    }
}

/// Shifts a value. A shift by a negative number goes in the other direction.
fn shifted(value: Value, by: Value, left: bool) -> Value {
    let (left, by) = if by.is_negative() {
        (!left, by.bits.wrapping_neg())
    } else {
        (left, by.bits)
    };
    let far = by >= 64;
    let by = by.min(63) as u32;
    let bits = match left {
        true if far => 0,
        true => value.bits << by,
        false if value.unsigned && far => 0,
        false if value.unsigned => value.bits >> by,
        false => (value.signed() >> by) as u64,
    };
    Value { bits, ..value }
}

/// Parses an integer in C's syntax: 0x, 0b, 0 for octal, and suffixes.
fn number(text: &str) -> Result<Value, String> {
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if lower.starts_with('0') {
        (8, lower.as_str())
    } else {
        (10, lower.as_str())
    };
    let end = digits
        .find(|c: char| !c.is_digit(radix.max(10)))
        .unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    if suffix.contains('.') || (radix == 10 && suffix.starts_with('e')) {
        return Err(format!("`{text}` is no integer"));
    }
    let known = ["", "u", "l", "ul", "lu", "ll", "ull", "llu"].contains(&suffix);
    if !known || digits.is_empty() {
        return Err(format!(
            "`{text}` is not a number of C, which has no widths and no `_`"
        ));
    }
    let mut bits: u64 = 0;
    for c in digits.chars() {
        let Some(digit) = c.to_digit(radix) else {
            return Err(format!("`{c}` is no digit of base {radix} in `{text}`"));
        };
        let next = bits
            .checked_mul(radix.into())
            .and_then(|bits| bits.checked_add(digit.into()));
        bits = next.ok_or_else(|| format!("`{text}` has more than 64 bits"))?;
    }
    Ok(Value {
        bits,
        unsigned: suffix.contains('u') || bits > i64::MAX as u64,
    })
}

/// Parses `'a'`, with C's escapes. Several characters form one value, the first of them its highest byte.
fn character(text: &str) -> Result<Value, String> {
    let inner = text.get(1..text.len() - 1).unwrap_or("");
    let mut bytes = inner.bytes().peekable();
    let (mut value, mut count) = (0_i32, 0);
    while let Some(byte) = bytes.next() {
        let code = if byte == b'\\' {
            escape(&mut bytes).ok_or_else(|| format!("{text} has an unknown escape"))?
        } else {
            byte
        };
        value = (value << 8) | i32::from(code);
        count += 1;
    }
    match count {
        0 => Err("a character is missing between the quotes".to_owned()),
        // A single character is a signed char.
        1 => Ok(i64::from(value as u8 as i8).into()),
        _ => Ok(i64::from(value).into()),
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self {
            bits: value as u64,
            unsigned: false,
        }
    }
}

fn escape(bytes: &mut std::iter::Peekable<std::str::Bytes>) -> Option<u8> {
    let digits = |bytes: &mut std::iter::Peekable<std::str::Bytes>, radix, max: usize| {
        let (mut value, mut count) = (0_u32, 0);
        while count < max
            && let Some(digit) = bytes
                .peek()
                .and_then(|byte| char::from(*byte).to_digit(radix))
        {
            value = value.wrapping_mul(radix).wrapping_add(digit);
            count += 1;
            bytes.next();
        }
        (count > 0).then_some(value as u8)
    };
    if bytes
        .peek()
        .is_some_and(|byte| (b'0'..=b'7').contains(byte))
    {
        return digits(bytes, 8, 3);
    }
    Some(match bytes.next()? {
        b'a' => 7,
        b'b' => 8,
        b't' => 9,
        b'n' => 10,
        b'v' => 11,
        b'f' => 12,
        b'r' => 13,
        b'e' | b'E' => 27,
        b'x' => return digits(bytes, 16, usize::MAX),
        quote @ (b'\\' | b'\'' | b'"' | b'?') => quote,
        _ => return None,
    })
}
