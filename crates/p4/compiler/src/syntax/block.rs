//! Parses controls, parsers and tables.

use std::rc::Rc;

use super::ast::{
    ActionRef, Annotation, Control, EntrySyntax, Expr, Ident, KeyElement, Local,
    Parser as ParserDecl, Property, SelectCase, State, Statement, Table, Transition, ValueSet,
    Variable,
};
use super::{Failed, Parsed, Parser};
use crate::lex::Tok;
use crate::source::Span;

impl Parser<'_> {
    pub(super) fn control(&mut self, annotations: Vec<Annotation>) -> Parsed<Control> {
        self.advance();
        let name = self.name()?;
        let type_parameters = self.type_parameters()?;
        let parameters = self.parameters()?;
        if self.eat(";") {
            return Ok(Control {
                annotations,
                name,
                type_parameters,
                parameters,
                constructor: Vec::new(),
                body: None,
            });
        }
        let constructor = if self.at("(") {
            self.parameters()?
        } else {
            Vec::new()
        };
        self.expect("{")?;
        let mut locals = Vec::new();
        while !self.at_word("apply") && !self.at("}") && !self.at("{") && !self.at_end() {
            match self.local() {
                Ok(local) => locals.push(local),
                Err(Failed) => self.recover(true),
            }
        }
        if self.at("{") {
            let span = self.span();
            let here = Span {
                end: span.start,
                ..span
            };
            self.sink
                .error("E0201", self.span(), "expected `apply`, found `{`")
                .suggest(here, "apply ", "the control's statements stand in `apply`");
        } else {
            self.apply_of_control()?;
        }
        let mut apply = self.block()?;
        self.behind_apply(&mut locals, &mut apply)?;
        self.expect("}")?;
        Ok(Control {
            annotations,
            name,
            type_parameters,
            parameters,
            constructor,
            body: Some((locals, apply)),
        })
    }

    /// Reports declarations and statements after `apply`. Then reads the declarations as if they were before `apply`,
    /// and the statements as if they were in `apply`.
    fn behind_apply(
        &mut self,
        locals: &mut Vec<Local>,
        statements: &mut Vec<Statement>,
    ) -> Parsed<()> {
        let mut said = false;
        while !self.at("}") && !self.at_end() {
            let begin = self.at;
            if self.at_word("apply") {
                self.sink
                    .error("E0201", self.span(), "a control has one `apply`")
                    .help("put its statements into the first one");
                self.apply_of_control()?;
                statements.extend(self.block()?);
                continue;
            }
            let is_local = self.begins_local();
            let is_statement = self.peek().word().is_some_and(|word| {
                !super::RESERVED.contains(&word) || matches!(word, "if" | "switch" | "for")
            });
            if !is_local && !is_statement {
                return Ok(());
            }
            if !std::mem::replace(&mut said, true) {
                let (message, help) = if is_local {
                    (
                        "a declaration after `apply`",
                        "declarations stand in front of `apply`, which ends the control",
                    )
                } else {
                    (
                        "a statement after `apply`",
                        "statements stand in `apply { ... }`",
                    )
                };
                self.sink.error("E0201", self.span(), message).help(help);
            }
            let read = if is_local {
                self.local().map(|local| locals.push(local))
            } else {
                self.statement().map(|statement| statements.push(statement))
            };
            if read.is_err() {
                self.recover(true);
            }
            if self.at == begin {
                return Ok(());
            }
        }
        Ok(())
    }

    fn begins_local(&mut self) -> bool {
        let is_keyword = matches!(
            self.peek().word(),
            Some("const" | "action" | "table" | "value_set")
        );
        is_keyword || self.at("@") || self.begins_declaration()
    }

    /// Reads the keyword `apply` before a control's statements; `apply` has no parameters.
    fn apply_of_control(&mut self) -> Parsed<()> {
        if self.at("}") {
            let raw = self.unexpected("`apply`");
            if let Some(found) = self.sink.last() {
                found.help("a control ends with its statements: `apply { ... }`");
            }
            return raw;
        }
        self.expect_word("apply")?;
        self.annotations()?;
        if self.at("(") && self.nth(1).is(")") {
            let start = self.span();
            self.advance();
            self.advance();
            let span = start.to(self.last_span());
            self.sink
                .error("E0201", span, "expected `{`, found `(`")
                .suggest(
                    span,
                    "",
                    "a control's `apply` has no parameters: remove the parentheses",
                );
        }
        Ok(())
    }

    fn local(&mut self) -> Parsed<Local> {
        let start = self.span();
        let annotations = self.annotations()?;
        match self.peek().word().unwrap_or("") {
            "const" => return Ok(Local::Const(self.constant(annotations)?)),
            "action" => return Ok(Local::Action(Rc::new(self.action(annotations)?))),
            "table" if !self.nth(1).is("=") => {
                return Ok(Local::Table(Rc::new(self.table(annotations)?)));
            }
            "value_set" => return self.value_set(annotations),
            _ => {}
        }
        let ty = self.type_ref()?;
        if self.at("(") {
            return Ok(Local::Instance(self.instance(annotations, ty, start)?));
        }
        let (name, ty) = self.declarator(ty)?;
        let init = if self.eat("=") {
            Some(self.expression()?)
        } else {
            None
        };
        self.semicolon()?;
        let span = start.to(name.span);
        Ok(Local::Var(Variable { ty, name, init }, span))
    }

    fn value_set(&mut self, annotations: Vec<Annotation>) -> Parsed<Local> {
        self.advance();
        let mut types = self.type_arguments()?;
        if types.len() != 1 {
            return self.unexpected("one type argument");
        }
        self.expect("(")?;
        let size = self.expression()?;
        self.expect(")")?;
        let name = self.name()?;
        self.semicolon()?;
        Ok(Local::ValueSet(ValueSet {
            annotations,
            ty: types.remove(0),
            size,
            name,
        }))
    }

    pub(super) fn table(&mut self, annotations: Vec<Annotation>) -> Parsed<Table> {
        self.advance();
        let name = self.name()?;
        self.expect("{")?;
        let (mut properties, mut property_spans) = (Vec::new(), Vec::new());
        while !self.at("}") && !self.at_end() {
            let (span, begin) = (self.span(), self.at);
            match self.property() {
                Ok(property) => {
                    properties.push(property);
                    property_spans.push(span);
                }
                Err(Failed) => {
                    // Skips the whole element, with the content of its braces.
                    self.at = begin;
                    self.recover(true);
                }
            }
        }
        self.expect("}")?;
        Ok(Table {
            annotations,
            name,
            properties,
            property_spans,
        })
    }

    fn property(&mut self) -> Parsed<Property> {
        let annotations = self.annotations()?;
        let is_const = self.eat_word("const");
        let name = self.word()?;
        self.expect("=")?;
        let meant = self.misspelt_list(&name);
        match meant.as_deref().unwrap_or(&name.name) {
            "key" => {
                self.expect("{")?;
                Ok(Property::Key(self.braced(Self::key_element)?))
            }
            "actions" => {
                self.expect("{")?;
                Ok(Property::Actions(self.action_list()?))
            }
            "entries" => {
                self.expect("{")?;
                Ok(Property::Entries {
                    is_const,
                    list: self.braced(Self::entry)?,
                })
            }
            _ => {
                let value = self.expression()?;
                self.semicolon()?;
                Ok(Property::Other {
                    annotations,
                    is_const,
                    name,
                    value,
                })
            }
        }
    }

    /// Reports a misspelt name of a list, for example `keys = {`, and returns the name that was meant. Of a table's
    /// properties only `key`, `actions` and `entries` have a `{` after the `=`.
    fn misspelt_list(&mut self, name: &Ident) -> Option<String> {
        const LISTS: [&str; 3] = ["key", "actions", "entries"];
        if LISTS.contains(&&*name.name) || !self.at("{") {
            return None;
        }
        let meant = names::nearest(&name.name, LISTS.into_iter())?;
        let message = format!("a table has no property `{}`", name.name);
        self.sink
            .error("E0425", name.span, message)
            .did_you_mean(name.span, Some(meant.clone()));
        Some(meant)
    }

    /// Reads actions, each with its `;`. Commas in place of `;` are reported once.
    fn action_list(&mut self) -> Parsed<Vec<ActionRef>> {
        let mut has_commas = false;
        self.braced(|parser| {
            let action = parser.action_ref()?;
            let span = parser.span();
            if parser.eat(",") {
                if !has_commas {
                    parser
                        .sink
                        .error("E0201", span, "expected `;`, found `,`")
                        .help("each action ends with `;`, the last one too");
                }
                has_commas = true;
            } else if !(has_commas && parser.at("}")) {
                parser.semicolon()?;
            }
            Ok(action)
        })
    }

    fn braced<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut out = Vec::new();
        while !self.at("}") && !self.at_end() {
            match item(self) {
                Ok(found) => out.push(found),
                Err(Failed) => self.recover(true),
            }
        }
        self.expect("}")?;
        Ok(out)
    }

    fn key_element(&mut self) -> Parsed<KeyElement> {
        let expr = self.expression()?;
        if self.at(";") {
            let message = "expected `:` and a match kind, found `;`";
            self.sink
                .error("E0201", self.span(), message)
                .help("a key says how it is matched: `x : exact;`");
            return Err(Failed);
        }
        self.expect(":")?;
        let match_kind = self.name()?;
        let annotations = self.annotations()?;
        self.semicolon()?;
        Ok(KeyElement {
            annotations,
            expr,
            match_kind,
        })
    }

    fn action_ref(&mut self) -> Parsed<ActionRef> {
        let start = self.span();
        let annotations = self.annotations()?;
        let global = self.eat(".");
        let name = self.name()?;
        let arguments = if self.at("(") {
            self.arguments()?
        } else {
            Vec::new()
        };
        Ok(ActionRef {
            annotations,
            name,
            global,
            arguments,
            span: start.to(self.last_span()),
        })
    }

    fn entry(&mut self) -> Parsed<EntrySyntax> {
        let start = self.span();
        let is_const = self.eat_word("const");
        let mut priority = None;
        if self.at_word("priority") && self.nth(1).is("=") {
            self.advance();
            self.advance();
            priority = Some(self.expression()?);
            self.expect(":")?;
        }
        let keys = self.keyset()?;
        self.expect(":")?;
        let action = self.action_ref()?;
        let annotations = self.annotations()?;
        let span = start.to(self.last_span());
        self.semicolon()?;
        Ok(EntrySyntax {
            annotations,
            is_const,
            priority,
            keys,
            action,
            span,
        })
    }

    pub(super) fn parser(&mut self, annotations: Vec<Annotation>) -> Parsed<ParserDecl> {
        self.advance();
        let name = self.name()?;
        let type_parameters = self.type_parameters()?;
        let parameters = self.parameters()?;
        if self.eat(";") {
            return Ok(ParserDecl {
                annotations,
                name,
                type_parameters,
                parameters,
                constructor: Vec::new(),
                body: None,
            });
        }
        let constructor = if self.at("(") {
            self.parameters()?
        } else {
            Vec::new()
        };
        self.expect("{")?;
        let (mut locals, mut states) = (Vec::new(), Vec::new());
        while !self.at("}") && !self.at_end() {
            let result = if self.begins_state() {
                self.state().map(|state| states.push(state))
            } else {
                self.local().map(|local| locals.push(local))
            };
            if result.is_err() {
                self.recover(true);
            }
        }
        self.expect("}")?;
        Ok(ParserDecl {
            annotations,
            name,
            type_parameters,
            parameters,
            constructor,
            body: Some((locals, states)),
        })
    }

    fn begins_state(&mut self) -> bool {
        let mut scratch = crate::diagnostic::Sink::default();
        let mut trial = Parser {
            tokens: self.tokens,
            at: self.at,
            depth: self.depth,
            in_angles: false,
            sink: &mut scratch,
        };
        trial.annotations().is_ok() && trial.at_word("state") && !trial.nth(1).is("=")
    }

    fn state(&mut self) -> Parsed<State> {
        let start = self.span();
        let annotations = self.annotations()?;
        self.expect_word("state")?;
        let name = self.name()?;
        self.expect("{")?;
        let mut statements: Vec<Statement> = Vec::new();
        while !self.at("}") && !self.at_word("transition") && !self.at_end() {
            match self.statement() {
                Ok(statement) => statements.push(statement),
                Err(Failed) => self.recover(true),
            }
        }
        let transition = if self.eat_word("transition") {
            self.transition()?
        } else {
            Transition::None
        };
        let span = start.to(name.span);
        self.expect("}")?;
        Ok(State {
            annotations,
            name,
            statements,
            transition,
            span,
        })
    }

    fn transition(&mut self) -> Parsed<Transition> {
        if !self.at_word("select") {
            let to = self.name()?;
            self.semicolon()?;
            return Ok(Transition::To(to));
        }
        let span = self.span();
        self.advance();
        let n_errors = self.sink.len();
        let keys = self.select_keys()?;
        self.expect("{")?;
        let (mut colon, mut semicolon) = (false, false);
        let cases = self.braced(|parser| {
            let start = parser.span();
            let keys = parser.keyset()?;
            if !parser.replaces(":", &["->", "=>"], "a case is `value: state;`", &mut colon) {
                parser.expect(":")?;
            }
            let next = parser.name()?;
            let span = start.to(next.span);
            let help = "each case ends with `;`, the last one too";
            let has_end = parser.replaces(";", &[","], help, &mut semicolon);
            let is_last = semicolon && parser.at("}");
            if !has_end && !is_last {
                parser.semicolon()?;
            }
            Ok(SelectCase { keys, next, span })
        })?;
        // If a key or case could not be read, it is not reported as missing too.
        if (keys.is_empty() || cases.is_empty()) && self.sink.len() > n_errors {
            return Ok(Transition::None);
        }
        Ok(Transition::Select(keys, cases, span))
    }

    /// Parses a value to select on. If a mask or range is written instead of a value, reports it and skips the part
    /// after `&&&` or `..`.
    fn select_key(&mut self) -> Parsed<Expr> {
        let key = self.expression()?;
        let (what, example) = match self.peek().tok {
            Tok::Punct("&&&") => ("a mask", "`select (x) { 0x10 &&& 0xf0: state; }`"),
            Tok::Punct("..") => ("a range", "`select (x) { 1 .. 5: state; }`"),
            _ => return Ok(key),
        };
        let message = format!("{what} belongs in a case, not in the value to select on");
        self.sink
            .error("E0201", self.span(), message)
            .help(format!("write it in the case: {example}"));
        self.advance();
        self.expression()?;
        Ok(key)
    }

    fn select_keys(&mut self) -> Parsed<Vec<Expr>> {
        if self.eat("(") {
            return self.list(")", Self::select_key);
        }
        let start = self.span();
        let message = format!("expected `(`, found {}", self.found());
        self.sink
            .error("E0201", start, message)
            .help("the values to select on stand in parentheses: `select (x) { ... }`");
        if self.at("{") {
            return Ok(Vec::new());
        }
        let mut keys = vec![self.expression()?];
        while self.eat(",") {
            keys.push(self.expression()?);
        }
        Ok(keys)
    }

    /// Skips one of `signs`, which other languages use in place of `wanted`, and reports the first such sign. Returns
    /// whether there was one.
    fn replaces(&mut self, wanted: &str, signs: &[&str], help: &str, seen: &mut bool) -> bool {
        let joint = self.nth(1).is(">") && self.nth(1).joint;
        let is_sign = |sign: &&&str| match **sign {
            "->" => self.at("-") && joint,
            "=>" => self.at("=") && joint,
            sign => self.at(sign),
        };
        let Some(sign) = signs.iter().find(is_sign) else {
            return false;
        };
        let start = self.span();
        sign.chars().for_each(|_| self.advance());
        if !*seen {
            let span = start.to(self.last_span());
            self.sink
                .error(
                    "E0201",
                    span,
                    format!("expected `{wanted}`, found `{sign}`"),
                )
                .suggest(span, wanted, help);
        }
        *seen = true;
        true
    }
}

/// Returns the expressions of a keyset. If the keyset is a single list, returns the list's elements.
pub fn flatten_keys(keys: &[Expr]) -> Vec<Expr> {
    match keys {
        [only] => match &*only.kind {
            super::ast::ExprKind::List(items) => items.clone(),
            _ => keys.to_vec(),
        },
        _ => keys.to_vec(),
    }
}
