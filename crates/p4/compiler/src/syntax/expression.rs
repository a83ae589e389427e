//! Parses expressions and types.

use super::ast::{Argument, BinaryOp, Expr, ExprKind, Ident, Type, TypeKind, UnaryOp};
use super::{Failed, Parsed, Parser, RESERVED};
use crate::lex::{Tok, Written};
use crate::limits;
use crate::source::Span;

/// For each binary operator: its text, its binding strength, and its meaning. An operator with a higher strength binds
/// tighter.
const BINARY: &[(&str, u8, BinaryOp)] = &[
    ("||", 1, BinaryOp::Or),
    ("&&", 2, BinaryOp::And),
    ("==", 3, BinaryOp::Eq),
    ("!=", 3, BinaryOp::Ne),
    ("<=", 4, BinaryOp::Le),
    (">=", 4, BinaryOp::Ge),
    ("<", 4, BinaryOp::Lt),
    (">", 4, BinaryOp::Gt),
    ("|", 5, BinaryOp::BitOr),
    ("^", 6, BinaryOp::BitXor),
    ("&", 7, BinaryOp::BitAnd),
    ("<<", 8, BinaryOp::Shl),
    (">>", 8, BinaryOp::Shr),
    ("++", 9, BinaryOp::Concat),
    ("+", 9, BinaryOp::Add),
    ("-", 9, BinaryOp::Sub),
    ("|+|", 9, BinaryOp::AddSat),
    ("|-|", 9, BinaryOp::SubSat),
    ("*", 10, BinaryOp::Mul),
    ("/", 10, BinaryOp::Div),
    ("%", 10, BinaryOp::Mod),
];

/// Whether the operands of two consecutive operators may be grouped differently without changing the result.
fn are_regrouped(first: BinaryOp, second: BinaryOp) -> bool {
    use BinaryOp::{Add, And, BitAnd, BitOr, BitXor, Concat, Mul, Or, Sub};
    match (first, second) {
        (Add | Sub, Add | Sub) => true,
        (Mul | BitAnd | BitOr | BitXor | And | Or | Concat, second) => first == second,
        _ => false,
    }
}

impl Parser<'_> {
    fn make(&mut self, kind: ExprKind, span: Span, below: u16) -> Parsed<Expr> {
        let height = below + 1;
        if height > limits::EXPRESSION_HEIGHT {
            let message = format!(
                "this expression nests more than {} operators",
                limits::EXPRESSION_HEIGHT
            );
            self.sink
                .error("E0204", span, message)
                .help("split it with a variable or a constant");
            return Err(Failed);
        }
        Ok(Expr {
            kind: Box::new(kind),
            span,
            height,
        })
    }

    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.nested(|parser| {
            let condition = parser.binary(1)?;
            if !parser.eat("?") {
                return Ok(condition);
            }
            let yes = parser.expression()?;
            parser.expect(":")?;
            let no = parser.expression()?;
            let height = condition.height.max(yes.height).max(no.height);
            let span = condition.span.to(no.span);
            parser.make(ExprKind::Mux(condition, yes, no), span, height)
        })
    }

    /// Returns the binary operator at the current token: its binding strength, its meaning, and the number of its
    /// tokens.
    fn operator(&self) -> Option<(u8, BinaryOp, usize)> {
        let Tok::Punct(punct) = self.peek().tok else {
            return None;
        };
        if self.in_angles && matches!(punct, ">" | ">=") {
            return None;
        }
        if punct == ">" && self.nth(1).is(">") && self.nth(1).joint {
            return Some((8, BinaryOp::Shr, 2));
        }
        if self.at_arrow() {
            return None;
        }
        if punct == ">" && self.nth(1).is(">=") && self.nth(1).joint {
            return None;
        }
        BINARY
            .iter()
            .find(|(text, ..)| *text == punct)
            .map(|(_, strength, op)| (*strength, *op, 1))
    }

    fn binary(&mut self, weakest: u8) -> Parsed<Expr> {
        let mut left = self.unary()?;
        while let Some((strength, op, _)) = self.operator().filter(|it| it.0 >= weakest) {
            let mut chain = Vec::new();
            while let Some((_, next, tokens)) = self.operator()
                && (next == op || are_regrouped(op, next))
            {
                (0..tokens).for_each(|_| self.advance());
                chain.push((next, self.binary(strength + 1)?));
                if chain.len() > limits::CHAIN {
                    let message = format!("more than {} operators in a row", limits::CHAIN);
                    return self.give_up(&message, "split it with a variable or a constant");
                }
                if !are_regrouped(op, op) {
                    break;
                }
            }
            left = if chain.len() > limits::CHAIN_IN_ORDER {
                self.grouped(left, chain, false)?
            } else {
                chain
                    .into_iter()
                    .try_fold(left, |left, (op, right)| self.join(op, left, right))?
            };
        }
        Ok(left)
    }

    fn join(&mut self, op: BinaryOp, left: Expr, right: Expr) -> Parsed<Expr> {
        let height = left.height.max(right.height);
        let span = left.span.to(right.span);
        self.make(ExprKind::Binary(op, left, right), span, height)
    }

    /// Turns a long chain of operators into a tree of small height that keeps the order of the operands: `a + b + c +
    /// d` becomes `(a + b) + (c + d)`, and `a - b + c - d` becomes `(a - b) + (c - d)`. `is_subtracted` says that the
    /// chain follows a `-`, which inverts the signs in the chain.
    fn grouped(
        &mut self,
        first: Expr,
        mut rest: Vec<(BinaryOp, Expr)>,
        is_subtracted: bool,
    ) -> Parsed<Expr> {
        if rest.is_empty() {
            return Ok(first);
        }
        let mut behind = rest.split_off(rest.len() / 2).into_iter();
        let left = self.grouped(first, rest, is_subtracted)?;
        let Some((op, middle)) = behind.next() else {
            return Ok(left);
        };
        let right = self.grouped(middle, behind.collect(), op == BinaryOp::Sub)?;
        let op = match op {
            BinaryOp::Add if is_subtracted => BinaryOp::Sub,
            BinaryOp::Sub if is_subtracted => BinaryOp::Add,
            op => op,
        };
        self.join(op, left, right)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let op = match self.peek().tok {
            Tok::Punct("!") => Some(UnaryOp::Not),
            Tok::Punct("~") => Some(UnaryOp::Complement),
            Tok::Punct("-") => Some(UnaryOp::Minus),
            Tok::Punct("+") => Some(UnaryOp::Plus),
            _ => None,
        };
        if let Some(op) = op {
            self.advance();
            let inner = self.nested(Self::unary)?;
            let (span, height) = (start.to(inner.span), inner.height);
            return self.make(ExprKind::Unary(op, inner), span, height);
        }
        if self.at("(")
            && let Some(cast) = self.cast(start)?
        {
            return Ok(cast);
        }
        self.postfix()
    }

    /// Parses a cast, `(type) expression`. The token after the `)` distinguishes a cast from `(expression)`.
    fn cast(&mut self, start: Span) -> Parsed<Option<Expr>> {
        let back = self.at;
        self.advance();
        if !self.begins_type() || self.depth >= limits::NESTING {
            self.at = back;
            return Ok(None);
        }
        let by_name = !self.begins_base_type();
        let Some(ty) = self.speculate(|parser| {
            let ty = parser.type_ref()?;
            parser.expect(")")?;
            Ok(ty)
        }) else {
            self.at = back;
            return Ok(None);
        };
        if by_name && !self.begins_operand() {
            self.at = back;
            return Ok(None);
        }
        let inner = self.nested(Self::unary)?;
        let (span, height) = (start.to(inner.span), inner.height);
        self.make(ExprKind::Cast(ty, inner), span, height).map(Some)
    }

    /// Whether an operand begins here. If an operand follows `(name)`, the parentheses are a cast.
    fn begins_operand(&self) -> bool {
        match &self.peek().tok {
            Tok::Int(..) | Tok::Str(_) | Tok::Punct("(" | "{" | "!" | "~" | ".") => true,
            Tok::Word(word) => {
                !RESERVED.contains(&&**word)
                    || matches!(&**word, "true" | "false" | "error" | "bit" | "int" | "this")
            }
            _ => false,
        }
    }

    /// Tries to parse a production without reporting errors; consumes no token on failure.
    pub(super) fn speculate<T>(
        &mut self,
        inner: impl FnOnce(&mut Parser<'_>) -> Parsed<T>,
    ) -> Option<T> {
        let mut scratch = crate::diagnostic::Sink::default();
        let mut trial = Parser {
            tokens: self.tokens,
            at: self.at,
            depth: self.depth,
            in_angles: self.in_angles,
            sink: &mut scratch,
        };
        let result = inner(&mut trial).ok();
        let at = trial.at;
        let result = result.filter(|_| !scratch.has_errors());
        if result.is_some() {
            self.at = at;
        }
        result
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut expr = self.primary()?;
        loop {
            let height = expr.height;
            let start = expr.span;
            if self.eat(".") {
                let member = self.word()?;
                let span = start.to(member.span);
                expr = self.make(ExprKind::Member(expr, member), span, height)?;
            } else if self.eat("[") {
                let first = self.expression()?;
                let height = height.max(first.height);
                let kind = if self.eat(":") {
                    let low = self.expression()?;
                    ExprKind::Slice(expr, first, low)
                } else if self.eat("+:") {
                    let width = self.expression()?;
                    ExprKind::PartSlice(expr, first, width)
                } else {
                    ExprKind::Index(expr, first)
                };
                let end = self.expect("]")?;
                expr = self.make(kind, start.to(end), height)?;
            } else if self.at("(") {
                expr = self.call(expr, Vec::new())?;
            } else if self.at("<")
                && matches!(*expr.kind, ExprKind::Name(..) | ExprKind::Member(..))
            {
                let Some(types) = self.speculate(|parser| {
                    let types = parser.type_arguments()?;
                    if parser.at("(") {
                        Ok(types)
                    } else {
                        Err(Failed)
                    }
                }) else {
                    return Ok(expr);
                };
                expr = self.call(expr, types)?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn call(&mut self, callee: Expr, types: Vec<Type>) -> Parsed<Expr> {
        let arguments = self.arguments()?;
        let span = callee.span.to(self.last_span());
        let height = arguments
            .iter()
            .filter_map(|argument| argument.value.as_ref())
            .map(|value| value.height)
            .max()
            .unwrap_or(0)
            .max(callee.height);
        self.make(ExprKind::Call(callee, types, arguments), span, height)
    }

    /// Parses `( argumentList )`.
    pub(super) fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        self.expect("(")?;
        self.list(")", |parser| {
            let start = parser.span();
            let named = matches!(parser.peek().tok, Tok::Word(_)) && parser.nth(1).is("=");
            let name = if named { Some(parser.word()?) } else { None };
            if named {
                parser.advance();
            }
            let value = if parser.at_word("_") {
                parser.advance();
                None
            } else {
                Some(parser.expression()?)
            };
            Ok(Argument {
                name,
                value,
                span: start.to(parser.last_span()),
            })
        })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let span = self.span();
        match self.peek().tok.clone() {
            Tok::Int(value, written) => {
                self.advance();
                self.make(ExprKind::Int(value, written), span, 0)
            }
            Tok::Str(text) => {
                self.advance();
                self.make(ExprKind::Str(text), span, 0)
            }
            Tok::Punct("(") => {
                self.advance();
                let angles = std::mem::take(&mut self.in_angles);
                let inner = self.expression();
                self.in_angles = angles;
                let inner = inner?;
                let end = self.expect(")")?;
                Ok(Expr {
                    span: span.to(end),
                    ..inner
                })
            }
            Tok::Punct("{") => self.braces(span),
            Tok::Punct(".") => {
                self.advance();
                let name = self.name()?;
                let whole = span.to(name.span);
                self.make(ExprKind::Name(name, true), whole, 0)
            }
            Tok::Punct("...") => {
                self.advance();
                self.make(ExprKind::Dots, span, 0)
            }
            Tok::Word(word) => self.word_expression(&word, span),
            _ => self.unexpected("an expression"),
        }
    }

    fn word_expression(&mut self, word: &str, span: Span) -> Parsed<Expr> {
        match word {
            "true" | "false" => {
                self.advance();
                self.make(ExprKind::Bool(word == "true"), span, 0)
            }
            "_" | "default" => {
                self.advance();
                self.make(ExprKind::DontCare, span, 0)
            }
            "this" => {
                self.advance();
                self.make(
                    ExprKind::Name(
                        Ident {
                            name: "this".into(),
                            span,
                        },
                        false,
                    ),
                    span,
                    0,
                )
            }
            _ if self.begins_base_type() => {
                let ty = self.type_ref()?;
                let span = ty.span;
                self.make(ExprKind::Type(ty), span, 0)
            }
            _ => {
                let name = self.name()?;
                self.make(ExprKind::Name(name, false), span, 0)
            }
        }
    }

    /// Parses a list `{a, b}`, a struct's fields `{k = a}` or an invalid header `{#}`.
    fn braces(&mut self, start: Span) -> Parsed<Expr> {
        self.advance();
        if self.at("#") && self.peek().joint && self.eat("#") {
            let end = self.expect("}")?;
            return self.make(ExprKind::Invalid, start.to(end), 0);
        }
        let mut height = 0;
        let kind = if matches!(self.peek().tok, Tok::Word(_)) && self.nth(1).is("=") {
            let mut dots = false;
            let mut pairs = Vec::new();
            while !self.at("}") {
                if self.eat("...") {
                    dots = true;
                } else {
                    let key = self.word()?;
                    self.expect("=")?;
                    let value = self.expression()?;
                    height = height.max(value.height);
                    pairs.push((key, value));
                }
                if !self.eat(",") {
                    break;
                }
            }
            self.expect("}")?;
            ExprKind::Struct(pairs, dots)
        } else {
            let items = self.list("}", |parser| parser.keyset_element())?;
            height = items.iter().map(|item| item.height).max().unwrap_or(0);
            ExprKind::List(items)
        };
        let span = start.to(self.last_span());
        self.make(kind, span, height)
    }

    /// Parses a `simpleKeysetExpression`: an expression, `a &&& b`, `a .. b`, `_` or `default`.
    pub(super) fn keyset_element(&mut self) -> Parsed<Expr> {
        let first = self.expression()?;
        let kind = if self.eat("&&&") {
            let second = self.expression()?;
            let span = first.span.to(second.span);
            (
                first.height.max(second.height),
                span,
                ExprKind::Mask(first, second),
            )
        } else if self.eat("..") {
            let second = self.expression()?;
            let span = first.span.to(second.span);
            (
                first.height.max(second.height),
                span,
                ExprKind::Range(first, second),
            )
        } else {
            return Ok(first);
        };
        self.make(kind.2, kind.1, kind.0)
    }

    /// Parses a `keysetExpression`: one element, or several in parentheses.
    pub(super) fn keyset(&mut self) -> Parsed<Vec<Expr>> {
        if self.at("(") {
            let tuple = self.speculate(|parser| {
                parser.expect("(")?;
                let items = parser.list(")", |inner| inner.keyset_element())?;
                if parser.at(":") {
                    Ok(items)
                } else {
                    Err(Failed)
                }
            });
            if let Some(items) = tuple {
                return Ok(items);
            }
        }
        Ok(vec![self.keyset_element()?])
    }

    fn begins_base_type(&self) -> bool {
        matches!(
            self.peek().word(),
            Some(
                "bool"
                    | "error"
                    | "match_kind"
                    | "string"
                    | "void"
                    | "int"
                    | "bit"
                    | "varbit"
                    | "tuple"
            )
        ) || (self.at_word("list") && self.nth(1).is("<"))
    }

    pub(super) fn begins_type(&self) -> bool {
        if self.begins_base_type() {
            return true;
        }
        match &self.peek().tok {
            Tok::Word(word) => !RESERVED.contains(&&**word) || &**word == "_",
            Tok::Punct(".") => true,
            _ => false,
        }
    }

    /// Parses `< typeArgumentList >`.
    pub(super) fn type_arguments(&mut self) -> Parsed<Vec<Type>> {
        self.expect("<")?;
        self.list(">", Self::type_ref)
    }

    pub(super) fn type_ref(&mut self) -> Parsed<Type> {
        self.nested(|parser| {
            let start = parser.span();
            let kind = parser.base_type()?;
            let mut ty = Type {
                kind,
                span: start.to(parser.last_span()),
            };
            while parser.at("[") {
                parser.advance();
                let size = parser.expression()?;
                let end = parser.expect("]")?;
                ty = Type {
                    kind: TypeKind::Stack(Box::new(ty), Box::new(size)),
                    span: start.to(end),
                };
            }
            Ok(ty)
        })
    }

    fn base_type(&mut self) -> Parsed<TypeKind> {
        let word = self.peek().word().unwrap_or("").to_owned();
        let simple = match word.as_str() {
            "bool" => Some(TypeKind::Bool),
            "error" => Some(TypeKind::Error),
            "match_kind" => Some(TypeKind::MatchKind),
            "string" => Some(TypeKind::String),
            "void" => Some(TypeKind::Void),
            "_" => Some(TypeKind::DontCare),
            _ => None,
        };
        if let Some(kind) = simple {
            self.advance();
            return Ok(kind);
        }
        match word.as_str() {
            "bit" | "int" | "varbit" => {
                let span = self.span();
                self.advance();
                if !self.at("<") {
                    return match word.as_str() {
                        "int" => Ok(TypeKind::Int),
                        // `bit` alone is `bit<1>`.
                        "bit" => {
                            let one =
                                self.make(ExprKind::Int(1.into(), Written::PLAIN), span, 0)?;
                            Ok(TypeKind::Bits(Box::new(one), false))
                        }
                        _ => self.unexpected("`<`"),
                    };
                }
                let width = Box::new(self.width()?);
                Ok(if word == "varbit" {
                    TypeKind::Varbit(width)
                } else {
                    TypeKind::Bits(width, word == "int")
                })
            }
            "tuple" => {
                self.advance();
                Ok(TypeKind::Tuple(self.type_arguments()?))
            }
            "list" if self.nth(1).is("<") => {
                self.advance();
                let mut arguments = self.type_arguments()?;
                if arguments.len() != 1 {
                    return self.unexpected("one type argument");
                }
                Ok(TypeKind::List(Box::new(arguments.remove(0))))
            }
            _ => {
                let global = self.eat(".");
                let name = self.name()?;
                let arguments = if self.at("<") {
                    self.type_arguments()?
                } else {
                    Vec::new()
                };
                Ok(TypeKind::Name(name, global, arguments))
            }
        }
    }

    /// Parses a width in angle brackets: a number, an expression in parentheses, or the name of a constant.
    fn width(&mut self) -> Parsed<Expr> {
        self.expect("<")?;
        // Reads only operators that bind tighter than `>`, which ends the width.
        let strong = self.speculate(|parser| {
            let width = parser.nested(|parser| parser.binary(9))?;
            parser.expect(">")?;
            Ok(width)
        });
        if let Some(width) = strong {
            return Ok(width);
        }
        let outer = std::mem::replace(&mut self.in_angles, true);
        let width = self.expression();
        self.in_angles = outer;
        let width = width?;
        self.expect(">")?;
        Ok(width)
    }
}
