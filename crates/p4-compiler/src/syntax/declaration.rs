//! Declarations.

use std::rc::Rc;

use super::ast::{
    Action, ActionRef, Annotation, Control, Declaration, Direction, EntrySyntax, Enum, Expr,
    Extern, Field, Function, Ident, Instance, KeyElement, Local, Method, Package, Parameter,
    Parser as ParserDecl, Property, SelectCase, State, Statement, Struct, StructKind, Table,
    Transition, TypeDef, ValueSet, Variable,
};
use super::{Failed, Parsed, Parser};
use crate::source::Span;

impl Parser<'_> {
    /// `p4program`.
    pub(super) fn program(&mut self) -> Vec<Declaration> {
        let mut out = Vec::new();
        while !self.at_end() {
            let before = self.at;
            if self.eat(";") {
                continue;
            }
            match self.declaration() {
                Ok(declaration) => out.push(declaration),
                Err(Failed) => {
                    self.recover(false);
                    if self.at == before {
                        self.advance();
                    }
                }
            }
        }
        out
    }

    fn declaration(&mut self) -> Parsed<Declaration> {
        let start = self.span();
        let annotations = self.annotations()?;
        match self.peek().word().unwrap_or("") {
            "const" => Ok(Declaration::Const(self.constant(annotations)?)),
            "error" if self.nth(1).is("{") => {
                self.advance();
                Ok(Declaration::Error(self.names()?))
            }
            "match_kind" if self.nth(1).is("{") => {
                self.advance();
                Ok(Declaration::MatchKind(self.names()?))
            }
            "struct" => self.structure(annotations, StructKind::Struct),
            "header" => self.structure(annotations, StructKind::Header),
            "header_union" => self.structure(annotations, StructKind::Union),
            "enum" => self.enumeration(annotations),
            "typedef" => self.type_definition(annotations, false),
            "type" if !self.nth(1).is("=") && !self.nth(1).is(".") => {
                self.type_definition(annotations, true)
            }
            "extern" => self.external(annotations),
            "action" => Ok(Declaration::Action(Rc::new(self.action(annotations)?))),
            "parser" => Ok(Declaration::Parser(Rc::new(self.parser(annotations)?))),
            "control" => Ok(Declaration::Control(Rc::new(self.control(annotations)?))),
            "package" => self.package(),
            _ if self.begins_type() => self.function_or_instance(annotations, start),
            _ => self.unexpected("a declaration"),
        }
    }

    fn names(&mut self) -> Parsed<Vec<Ident>> {
        self.expect("{")?;
        self.list("}", Self::name)
    }

    fn type_parameters(&mut self) -> Parsed<Vec<Ident>> {
        if !self.eat("<") {
            return Ok(Vec::new());
        }
        self.list(">", Self::name)
    }

    fn structure(&mut self, annotations: Vec<Annotation>, kind: StructKind) -> Parsed<Declaration> {
        self.advance();
        let name = self.name()?;
        let type_parameters = self.type_parameters()?;
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.at("}") && !self.at_end() {
            match self.field() {
                Ok(field) => fields.push(field),
                Err(Failed) => self.recover(true),
            }
        }
        self.expect("}")?;
        Ok(Declaration::Struct(Rc::new(Struct {
            annotations,
            kind,
            name,
            type_parameters,
            fields,
        })))
    }

    fn field(&mut self) -> Parsed<Field> {
        let annotations = self.annotations()?;
        let ty = self.type_ref()?;
        let name = self.name()?;
        self.semicolon()?;
        Ok(Field {
            annotations,
            ty,
            name,
        })
    }

    fn enumeration(&mut self, annotations: Vec<Annotation>) -> Parsed<Declaration> {
        self.advance();
        let typed = !self.nth(1).is("{");
        let underlying = if typed { Some(self.type_ref()?) } else { None };
        let name = self.name()?;
        self.expect("{")?;
        let members = self.list("}", |parser| {
            parser.annotations()?;
            let name = parser.name()?;
            let value = if parser.eat("=") {
                Some(parser.expression()?)
            } else {
                None
            };
            Ok((name, value))
        })?;
        Ok(Declaration::Enum(Enum {
            annotations,
            underlying,
            name,
            members,
        }))
    }

    fn type_definition(
        &mut self,
        annotations: Vec<Annotation>,
        is_new: bool,
    ) -> Parsed<Declaration> {
        self.advance();
        if self.at_word("struct") || self.at_word("header") || self.at_word("enum") {
            return self.unexpected("the name of a type");
        }
        let ty = self.type_ref()?;
        let name = self.name()?;
        self.semicolon()?;
        Ok(Declaration::TypeDef(TypeDef {
            annotations,
            name,
            ty,
            is_new,
        }))
    }

    fn external(&mut self, annotations: Vec<Annotation>) -> Parsed<Declaration> {
        self.advance();
        // `extern name {`, `extern name<T> {`: an object; otherwise a function.
        let object = self.nth(1).is("{") || {
            let mut ahead = 1;
            if self.nth(1).is("<") {
                while !self.nth(ahead).is(">") && ahead < 64 {
                    ahead += 1;
                }
                ahead += 1;
            }
            ahead > 1 && self.nth(ahead).is("{")
        };
        if !object {
            let method = self.method(annotations, None)?;
            return Ok(Declaration::ExternFunction(method));
        }
        let name = self.name()?;
        let type_parameters = self.type_parameters()?;
        self.expect("{")?;
        let mut methods = Vec::new();
        while !self.at("}") && !self.at_end() {
            let result = self
                .annotations()
                .and_then(|annotations| self.method(annotations, Some(&name)));
            match result {
                Ok(method) => methods.push(method),
                Err(Failed) => self.recover(true),
            }
        }
        self.expect("}")?;
        Ok(Declaration::Extern(Rc::new(Extern {
            name,
            type_parameters,
            methods,
        })))
    }

    fn method(&mut self, annotations: Vec<Annotation>, owner: Option<&Ident>) -> Parsed<Method> {
        self.eat_word("abstract");
        if let Some(owner) = owner
            && self.at_word(&owner.name)
            && self.nth(1).is("(")
        {
            let name = self.name()?;
            let parameters = self.parameters()?;
            self.semicolon()?;
            return Ok(Method {
                annotations,
                name,
                returns: None,
                type_parameters: Vec::new(),
                parameters,
            });
        }
        let returns = Some(self.type_ref()?);
        let name = self.name()?;
        let type_parameters = self.type_parameters()?;
        let parameters = self.parameters()?;
        self.semicolon()?;
        Ok(Method {
            annotations,
            name,
            returns,
            type_parameters,
            parameters,
        })
    }

    /// `( parameterList )`.
    fn parameters(&mut self) -> Parsed<Vec<Parameter>> {
        self.expect("(")?;
        self.list(")", |parser| {
            let annotations = parser.annotations()?;
            let direction = match parser.peek().word() {
                Some("in") => Direction::In,
                Some("out") => Direction::Out,
                Some("inout") => Direction::InOut,
                _ => Direction::None,
            };
            if direction != Direction::None {
                parser.advance();
            }
            let ty = parser.type_ref()?;
            let name = parser.name()?;
            let default = if parser.eat("=") {
                Some(parser.expression()?)
            } else {
                None
            };
            Ok(Parameter {
                annotations,
                direction,
                ty,
                name,
                default,
            })
        })
    }

    fn action(&mut self, annotations: Vec<Annotation>) -> Parsed<Action> {
        self.advance();
        let name = self.name()?;
        let parameters = self.parameters()?;
        let body = self.block()?;
        Ok(Action {
            annotations,
            name,
            parameters,
            body,
        })
    }

    fn package(&mut self) -> Parsed<Declaration> {
        self.advance();
        let name = self.name()?;
        let type_parameters = self.type_parameters()?;
        let parameters = self.parameters()?;
        self.semicolon()?;
        Ok(Declaration::Package(Rc::new(Package {
            name,
            type_parameters,
            parameters,
        })))
    }

    fn function_or_instance(
        &mut self,
        annotations: Vec<Annotation>,
        start: Span,
    ) -> Parsed<Declaration> {
        let ty = self.type_ref()?;
        if self.at("(") {
            return Ok(Declaration::Instance(self.instance(
                annotations,
                ty,
                start,
            )?));
        }
        let name = self.name()?;
        let type_parameters = self.type_parameters()?;
        if !self.at("(") {
            return self
                .unexpected("`(`; variables cannot be declared outside of controls and parsers");
        }
        let parameters = self.parameters()?;
        let body = self.block()?;
        Ok(Declaration::Function(Rc::new(Function {
            name,
            returns: ty,
            type_parameters,
            parameters,
            body,
        })))
    }

    fn instance(
        &mut self,
        annotations: Vec<Annotation>,
        ty: super::ast::Type,
        start: Span,
    ) -> Parsed<Instance> {
        let arguments = self.arguments()?;
        let name = self.name()?;
        if self.eat("=") {
            // An abstract method's implementation; no architecture here has one.
            return self.unexpected("`;`");
        }
        self.semicolon()?;
        let span = start.to(name.span);
        Ok(Instance {
            annotations,
            ty,
            arguments,
            name,
            span,
        })
    }

    fn control(&mut self, annotations: Vec<Annotation>) -> Parsed<Control> {
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
        while !self.at_word("apply") && !self.at("}") && !self.at_end() {
            match self.local() {
                Ok(local) => locals.push(local),
                Err(Failed) => self.recover(true),
            }
        }
        self.expect_word("apply")?;
        let apply = self.block()?;
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
        let name = self.name()?;
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

    fn table(&mut self, annotations: Vec<Annotation>) -> Parsed<Table> {
        self.advance();
        let name = self.name()?;
        self.expect("{")?;
        let mut properties = Vec::new();
        while !self.at("}") && !self.at_end() {
            match self.property() {
                Ok(property) => properties.push(property),
                Err(Failed) => self.recover(true),
            }
        }
        self.expect("}")?;
        Ok(Table {
            annotations,
            name,
            properties,
        })
    }

    fn property(&mut self) -> Parsed<Property> {
        let annotations = self.annotations()?;
        let is_const = self.eat_word("const");
        let name = self.word()?;
        self.expect("=")?;
        match &*name.name {
            "key" => {
                self.expect("{")?;
                Ok(Property::Key(self.braced(Self::key_element)?))
            }
            "actions" => {
                self.expect("{")?;
                Ok(Property::Actions(self.braced(|parser| {
                    let action = parser.action_ref()?;
                    parser.semicolon()?;
                    Ok(action)
                })?))
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

    fn parser(&mut self, annotations: Vec<Annotation>) -> Parsed<ParserDecl> {
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
        self.expect("(")?;
        let keys = self.list(")", Self::expression)?;
        self.expect("{")?;
        let cases = self.braced(|parser| {
            let start = parser.span();
            let keys = parser.keyset()?;
            parser.expect(":")?;
            let next = parser.name()?;
            let span = start.to(next.span);
            parser.semicolon()?;
            Ok(SelectCase { keys, next, span })
        })?;
        Ok(Transition::Select(keys, cases, span))
    }
}

/// The expressions of a keyset that is one list.
pub fn flatten_keys(keys: &[Expr]) -> Vec<Expr> {
    match keys {
        [only] => match &*only.kind {
            super::ast::ExprKind::List(items) => items.clone(),
            _ => keys.to_vec(),
        },
        _ => keys.to_vec(),
    }
}
