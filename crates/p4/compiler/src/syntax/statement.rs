//! Parses statements.

use super::ast::{
    BinaryOp, Constant, ExprKind, Instance, Statement, StatementKind, SwitchCase, Type, Variable,
};
use super::{Parsed, Parser};
use crate::lex::Tok;
use crate::limits;
use crate::source::Span;

const ASSIGNMENTS: &[(&str, Option<BinaryOp>)] = &[
    ("=", None),
    ("+=", Some(BinaryOp::Add)),
    ("-=", Some(BinaryOp::Sub)),
    ("*=", Some(BinaryOp::Mul)),
    ("/=", Some(BinaryOp::Div)),
    ("%=", Some(BinaryOp::Mod)),
    ("&=", Some(BinaryOp::BitAnd)),
    ("|=", Some(BinaryOp::BitOr)),
    ("^=", Some(BinaryOp::BitXor)),
    ("<<=", Some(BinaryOp::Shl)),
    ("|+|=", Some(BinaryOp::AddSat)),
    ("|-|=", Some(BinaryOp::SubSat)),
];

impl Parser<'_> {
    /// Parses `{ statOrDeclList }`.
    pub(super) fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.expect("{")?;
        let mut out = Vec::new();
        while !self.at("}") && !self.at_end() {
            let before = self.at;
            match self.statement() {
                Ok(statement) => out.push(statement),
                Err(_) => {
                    self.recover(true);
                    if self.at == before {
                        break;
                    }
                }
            }
        }
        self.expect("}")?;
        Ok(out)
    }

    /// Parses a `statementOrDeclaration`.
    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        self.nested(|parser| {
            let start = parser.span();
            let annotations = parser.annotations()?;
            let kind = parser.statement_kind(start)?;
            Ok(Statement {
                kind,
                span: start.to(parser.last_span()),
                annotations,
            })
        })
    }

    fn statement_kind(&mut self, start: Span) -> Parsed<StatementKind> {
        if self.eat(";") {
            return Ok(StatementKind::Empty);
        }
        if self.at("{") {
            return Ok(StatementKind::Block(self.block()?));
        }
        match &*self.peek().word().unwrap_or("").to_owned() {
            "if" => self.if_statement(),
            "else" => self.stray_else(),
            "switch" => self.switch_statement(),
            "for" => self.for_statement(),
            "const" => Ok(StatementKind::Const(self.constant(Vec::new())?)),
            "return" => {
                self.advance();
                let value = if self.at(";") {
                    None
                } else {
                    Some(self.expression()?)
                };
                self.semicolon()?;
                Ok(StatementKind::Return(value))
            }
            "exit" | "break" | "continue" if self.nth(1).is(";") || self.nth(1).first => {
                let kind = match self.peek().word() {
                    Some("exit") => StatementKind::Exit,
                    Some("break") => StatementKind::Break,
                    _ => StatementKind::Continue,
                };
                self.advance();
                self.semicolon()?;
                Ok(kind)
            }
            "action" | "table" if self.begins_member() => self.member_of_a_control(),
            _ if self.begins_declaration() => self.variable_or_instance(start),
            _ => self.assignment_or_call(),
        }
    }

    /// Reports an `else` whose `if` has already ended, and reads the body of the `else`.
    fn stray_else(&mut self) -> Parsed<StatementKind> {
        let span = self.span();
        let before = self.at.checked_sub(1).map(|at| &self.tokens[at]);
        let semicolon = before
            .filter(|before| before.is(";"))
            .map(|before| before.span);
        let raw = self
            .sink
            .error("E0201", span, "this `else` belongs to no `if`");
        match semicolon {
            Some(semicolon) => raw.suggest(semicolon, "", "the `if` ends with this `;`: remove it"),
            None => raw
                .help("between an `if` and its `else` stands one statement, or several in braces"),
        };
        self.advance();
        self.statement().map(|_| StatementKind::Empty)
    }

    /// Whether an action or a table is declared here: `action name(`, `table name {`.
    fn begins_member(&self) -> bool {
        let open = if self.at_word("action") { "(" } else { "{" };
        matches!(self.nth(1).tok, Tok::Word(_)) && self.nth(2).is(open)
    }

    fn member_of_a_control(&mut self) -> Parsed<StatementKind> {
        let (span, begin) = (self.span(), self.at);
        let what = if self.at_word("action") {
            self.action(Vec::new())?;
            "an action"
        } else {
            self.table(Vec::new())?;
            "a table"
        };
        let message = format!("{what} cannot be declared among statements");
        self.sink
            .error("E0304", span, message)
            .help("declare it in the control, in front of `apply`");
        self.lose_declaration(begin);
        Ok(StatementKind::Empty)
    }

    /// Whether a declaration begins here: a type, then a name, or a type, then constructor arguments and a name.
    pub(super) fn begins_declaration(&mut self) -> bool {
        let back = self.at;
        let mut scratch = crate::diagnostic::Sink::default();
        let mut trial = Parser {
            tokens: self.tokens,
            at: back,
            depth: self.depth,
            in_angles: false,
            sink: &mut scratch,
        };
        if !trial.begins_type() || trial.type_ref().is_err() {
            return false;
        }
        if matches!(trial.peek().tok, Tok::Word(_)) {
            // A name on the next line counts only if `;` or `=` follows. Any other name there begins a new statement,
            // and the statement before it lacks its `;`.
            return trial.nth(1).is(";") || trial.nth(1).is("=") || !trial.peek().first;
        }
        // An instance, as in `register<bit<8>>(10) r;`.
        trial.at("(")
            && trial.arguments().is_ok()
            && matches!(trial.peek().tok, Tok::Word(_))
            && !trial.peek().first
    }

    fn variable_or_instance(&mut self, start: Span) -> Parsed<StatementKind> {
        let ty = self.type_ref()?;
        if self.at("(") {
            let arguments = self.arguments()?;
            let name = self.name()?;
            self.semicolon()?;
            let span = start.to(name.span);
            return Ok(StatementKind::Instance(Instance {
                annotations: Vec::new(),
                ty,
                arguments,
                name,
                methods: None,
                span,
            }));
        }
        let variable = self.variable(ty)?;
        self.semicolon()?;
        Ok(StatementKind::Var(variable))
    }

    /// Parses a variable's name, and `=` and its initial value if they follow.
    fn variable(&mut self, ty: Type) -> Parsed<Variable> {
        let (name, ty) = self.declarator(ty)?;
        let init = if self.eat("=") {
            Some(self.expression()?)
        } else {
            None
        };
        Ok(Variable { ty, name, init })
    }

    pub(super) fn constant(&mut self, annotations: Vec<super::Annotation>) -> Parsed<Constant> {
        self.expect_word("const")?;
        let ty = self.type_ref()?;
        let (name, ty) = self.declarator(ty)?;
        self.expect("=")?;
        let value = self.expression()?;
        self.semicolon()?;
        Ok(Constant {
            annotations,
            ty,
            name,
            value,
        })
    }

    fn assignment_or_call(&mut self) -> Parsed<StatementKind> {
        let kind = self.open_assignment()?;
        if !matches!(kind, StatementKind::Empty) {
            self.semicolon()?;
        }
        Ok(kind)
    }

    /// Parses an `assignmentOrMethodCallStatementWithoutSemicolon`.
    fn open_assignment(&mut self) -> Parsed<StatementKind> {
        let left = self.expression()?;
        for (text, op) in ASSIGNMENTS {
            if self.eat(text) {
                let right = self.expression()?;
                return Ok(StatementKind::Assign(left, *op, right));
            }
        }
        if self.at(">") && self.nth(1).is(">=") && self.nth(1).joint {
            self.advance();
            self.advance();
            let right = self.expression()?;
            return Ok(StatementKind::Assign(left, Some(BinaryOp::Shr), right));
        }
        if !matches!(*left.kind, ExprKind::Call(..)) {
            if self.at(";") || self.peek().first {
                self.sink
                    .error("E0205", left.span, "this expression does nothing")
                    .help("assign it, or call something");
                self.eat(";");
                return Ok(StatementKind::Empty);
            }
            return self.unexpected("`=` or a call");
        }
        Ok(StatementKind::Call(left))
    }

    /// Parses `if (...) ... else if (...) ... else ...`. A loop reads the chain, so that the chain may be longer than
    /// the nesting limit.
    fn if_statement(&mut self) -> Parsed<StatementKind> {
        let mut arms = Vec::new();
        let otherwise = loop {
            let start = self.span();
            self.advance();
            self.expect("(")?;
            let condition = self.expression()?;
            self.expect(")")?;
            arms.push((condition, Box::new(self.statement()?), start));
            if !self.eat_word("else") {
                break None;
            }
            if !self.at_word("if") {
                break Some(Box::new(self.statement()?));
            }
            if arms.len() >= limits::ELSE_IFS {
                let message = format!("more than {} `else if`s in a row", limits::ELSE_IFS);
                let help = "use a table with constant entries, or a `switch`";
                return self.give_up(&message, help);
            }
        };
        let end = self.last_span();
        let arms = arms.into_iter().rev();
        let chain = arms.fold(otherwise, |no, (condition, yes, start)| {
            Some(Box::new(Statement {
                kind: StatementKind::If(condition, yes, no),
                span: start.to(end),
                annotations: Vec::new(),
            }))
        });
        Ok(chain.map_or(StatementKind::Empty, |first| first.kind))
    }

    fn switch_statement(&mut self) -> Parsed<StatementKind> {
        self.advance();
        self.expect("(")?;
        let subject = self.expression()?;
        self.expect(")")?;
        self.expect("{")?;
        let (mut cases, mut is_c) = (Vec::new(), false);
        while !self.at("}") && !self.at_end() {
            match self.switch_case(&mut is_c) {
                Ok(case) => cases.push(case),
                Err(_) => self.skip_to_close(),
            }
        }
        self.expect("}")?;
        Ok(StatementKind::Switch(subject, cases))
    }

    /// Reads a label and its body. `is_c`: a C construct in this `switch` was already reported, so errors that follow
    /// from it are not reported.
    fn switch_case(&mut self, is_c: &mut bool) -> Parsed<SwitchCase> {
        if self.at_word("case") && !self.nth(1).is(":") {
            if !*is_c {
                self.sink
                    .error("E0201", self.span(), "expected a label, found `case`")
                    .help(
                        "a label has no `case`, its statements stand in braces: `0x0800: { ... }`",
                    );
            }
            *is_c = true;
            self.advance();
        }
        let span = self.span();
        let label = if self.eat_word("default") {
            None
        } else {
            Some(self.expression()?)
        };
        self.expect(":")?;
        if self.at("{") {
            let body = Some(self.statement()?);
            return Ok(SwitchCase { label, body, span });
        }
        let falls_through = self.at("}") || self.at_word("default") || self.begins_label();
        if falls_through && !*is_c {
            let body = None;
            return Ok(SwitchCase { label, body, span });
        }
        if !*is_c {
            let message = format!("expected `{{`, found {}", self.found());
            self.sink
                .error("E0201", self.span(), message)
                .help("a label's statements stand in braces, and no `break` ends them");
            *is_c = true;
        }
        let begin = self.span();
        while !self.at("}") && !self.at_word("case") && !self.at_word("default") && !self.at_end() {
            if self.begins_label() {
                break;
            }
            self.skip(true);
        }
        // The body is left empty, because its intended effect is unknown.
        let body = Some(Statement {
            kind: StatementKind::Block(Vec::new()),
            span: begin,
            annotations: Vec::new(),
        });
        Ok(SwitchCase { label, body, span })
    }

    fn begins_label(&mut self) -> bool {
        let back = self.at;
        let found = self.speculate(|parser| {
            parser.expression()?;
            parser.expect(":")
        });
        self.at = back;
        found.is_some()
    }

    /// Parses `for (init; condition; update) body` or `for (type name in collection) body`.
    fn for_statement(&mut self) -> Parsed<StatementKind> {
        self.advance();
        self.expect("(")?;
        let each = self.speculate(|parser| {
            parser.annotations()?;
            let ty = parser.type_ref()?;
            let name = parser.name()?;
            parser.expect_word("in")?;
            Ok((ty, name))
        });
        if let Some((ty, name)) = each {
            let collection = self.keyset_element()?;
            self.expect(")")?;
            let body = Box::new(self.statement()?);
            return Ok(StatementKind::ForIn(ty, name, collection, body));
        }
        let init = self.clause(";")?;
        let condition = self.expression()?;
        self.expect(";")?;
        let update = self.clause(")")?;
        let body = Box::new(self.statement()?);
        Ok(StatementKind::For(init, condition, update, body))
    }

    /// Parses declarations, assignments and calls with commas between them.
    fn clause(&mut self, close: &str) -> Parsed<Vec<Statement>> {
        self.list(close, |parser| {
            let start = parser.span();
            let annotations = parser.annotations()?;
            let kind = if parser.begins_declaration() {
                let ty = parser.type_ref()?;
                StatementKind::Var(parser.variable(ty)?)
            } else {
                parser.open_assignment()?
            };
            Ok(Statement {
                kind,
                span: start.to(parser.last_span()),
                annotations,
            })
        })
    }
}
