//! Parses declarations outside controls and parsers.

use std::rc::Rc;

use super::ast::{
    Action, Annotation, Declaration, Direction, Enum, Extern, Field, Function, Ident, Instance,
    Method, Package, Parameter, Struct, StructKind, Type, TypeDef, TypeKind,
};
use super::{Failed, Parsed, Parser};
use crate::source::Span;

impl Parser<'_> {
    pub(super) fn program(&mut self) -> Vec<Declaration> {
        let mut out = Vec::new();
        while !self.at_end() {
            let before = self.at;
            if self.eat(";") {
                continue;
            }
            if self.at("}") {
                self.stray_brace();
                continue;
            }
            match self.declaration() {
                Ok(declaration) => out.push(declaration),
                Err(Failed) => {
                    self.lose_declaration(before);
                    self.recover(false);
                    if self.at == before {
                        self.advance();
                    }
                    while !self.at_end() && !self.at("}") && !self.may_begin_declaration() {
                        self.recover(false);
                    }
                }
            }
        }
        out
    }

    /// Whether the current token may begin a declaration. Any other token belongs to the rest of a declaration that has
    /// an error.
    fn may_begin_declaration(&self) -> bool {
        let Some(word) = self.peek().word() else {
            return self.at("@") || self.at(";");
        };
        const BEGINNINGS: &[&str] = &[
            "const",
            "error",
            "match_kind",
            "struct",
            "header",
            "header_union",
            "enum",
            "typedef",
            "type",
            "extern",
            "action",
            "parser",
            "control",
            "package",
        ];
        BEGINNINGS.contains(&word)
            || (self.peek().first
                && (self.nth(1).word().is_some() || self.nth(1).is("(") || self.nth(1).is("<"))
                && !super::RESERVED.contains(&word))
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

    pub(super) fn type_parameters(&mut self) -> Parsed<Vec<Ident>> {
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
        let (name, ty) = self.declarator(ty)?;
        self.semicolon()?;
        Ok(Field {
            annotations,
            ty,
            name,
        })
    }

    /// Parses a name and the array sizes that may follow it. Besides `T[8] name`, p4c accepts `T name[8]`, which the
    /// specification's grammar does not have.
    pub(super) fn declarator(&mut self, mut ty: Type) -> Parsed<(Ident, Type)> {
        let name = self.name()?;
        while self.eat("[") {
            let size = self.expression()?;
            let span = ty.span.to(self.expect("]")?);
            ty = Type {
                kind: TypeKind::Stack(Box::new(ty), Box::new(size)),
                span,
            };
        }
        Ok((name, ty))
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
        let derived = matches!(
            self.peek().word(),
            Some("struct" | "header" | "header_union" | "enum")
        );
        let (inner, ty) = if derived {
            let inner = self.declaration()?;
            let ty = declared_type(&inner).map(Ok);
            let ty = ty.unwrap_or_else(|| self.unexpected("the name of a type"))?;
            (Some(Box::new(inner)), ty)
        } else {
            (None, self.type_ref()?)
        };
        let (name, ty) = self.declarator(ty)?;
        self.semicolon()?;
        Ok(Declaration::TypeDef(TypeDef {
            annotations,
            name,
            ty,
            inner,
            is_new,
        }))
    }

    fn external(&mut self, annotations: Vec<Annotation>) -> Parsed<Declaration> {
        self.advance();
        // `extern name {` and `extern name<T> {` declare an object; anything else is a function.
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
        let is_abstract = self.eat_word("abstract");
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
                is_abstract,
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
            is_abstract,
        })
    }

    /// Parses `( parameterList )`.
    pub(super) fn parameters(&mut self) -> Parsed<Vec<Parameter>> {
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
            let (name, ty) = parser.declarator(ty)?;
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

    pub(super) fn action(&mut self, annotations: Vec<Annotation>) -> Parsed<Action> {
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
            annotations,
            name,
            returns: ty,
            type_parameters,
            parameters,
            body,
        })))
    }

    pub(super) fn instance(
        &mut self,
        annotations: Vec<Annotation>,
        ty: super::ast::Type,
        start: Span,
    ) -> Parsed<Instance> {
        let arguments = self.arguments()?;
        let name = self.name()?;
        let methods = if self.eat("=") {
            Some(self.implementation()?)
        } else {
            None
        };
        self.semicolon()?;
        let span = start.to(name.span);
        Ok(Instance {
            annotations,
            ty,
            arguments,
            name,
            methods,
            span,
        })
    }

    /// Parses an `objInitializer`: the implementations of abstract methods.
    fn implementation(&mut self) -> Parsed<Vec<Rc<Function>>> {
        self.expect("{")?;
        let mut methods = Vec::new();
        while !self.at("}") && !self.at_end() {
            let start = self.span();
            let annotations = self.annotations()?;
            match self.function_or_instance(annotations, start)? {
                Declaration::Function(function) => methods.push(function),
                _ => {
                    self.sink
                        .error("E0201", start, "expected a method's implementation");
                }
            }
        }
        self.expect("}")?;
        Ok(methods)
    }
}

fn declared_type(declaration: &Declaration) -> Option<Type> {
    let name = match declaration {
        Declaration::Struct(decl) => &decl.name,
        Declaration::Enum(decl) => &decl.name,
        _ => return None,
    };
    Some(Type {
        kind: TypeKind::Name(name.clone(), false, Vec::new()),
        span: name.span,
    })
}
