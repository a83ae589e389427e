//! Checks rules that are not in the grammar and need no types: how often, in which order, and in which combinations the
//! parts of declarations and statements may occur (P4_16 language specification 1.2.5, sections 6.8, 7.2, 12.7, 14.2,
//! 20).

use std::collections::HashMap;
use std::rc::Rc;

use crate::diagnostic::Sink;
use crate::source::Span;
use crate::syntax::ast::{
    Action, Control, Declaration, Direction, Expr, ExprKind, Extern, Ident, Local, Method,
    Parameter, Parser, Property, Statement, StatementKind, StructKind, SwitchCase, Table, Type,
    TypeKind,
};

pub fn check(declarations: &[Declaration], sink: &mut Sink) {
    let mut rules = Rules {
        sink,
        match_kinds: HashMap::new(),
        errors: HashMap::new(),
        functions: HashMap::new(),
    };
    for declaration in declarations {
        rules.declaration(declaration);
    }
}

/// Where parameters are declared, which decides whether they may be `@optional`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// A declaration without a body, as in the architecture: its parameters may be optional.
    Signature,
    /// The `apply` parameters of a control or parser.
    Apply,
    Body,
    /// The constructor parameters of a control or parser with a body.
    Constructor,
}

pub(super) struct Rules<'a> {
    pub(super) sink: &'a mut Sink,
    match_kinds: HashMap<Rc<str>, Span>,
    errors: HashMap<Rc<str>, Span>,
    /// Keyed by name, and by the names and types of the parameters.
    functions: HashMap<(Rc<str>, Vec<String>), Span>,
}

impl Rules<'_> {
    fn declaration(&mut self, declaration: &Declaration) {
        match declaration {
            Declaration::MatchKind(names) => {
                for name in names {
                    if let Some(before) = self.match_kinds.insert(name.name.clone(), name.span) {
                        self.twice("match kind", name, before);
                    }
                }
            }
            Declaration::Struct(decl) => {
                self.annotations(&decl.annotations);
                self.names(decl.type_parameters.iter(), "type parameter");
                self.names(decl.fields.iter().map(|field| &field.name), "field");
                for field in &decl.fields {
                    self.annotations(&field.annotations);
                    if decl.kind == StructKind::Union
                        && !matches!(field.ty.kind, TypeKind::Name(..))
                    {
                        self.sink.error(
                            "E0403",
                            field.ty.span,
                            "a header union has fields of header types only",
                        );
                    }
                }
            }
            Declaration::Extern(decl) => self.external(decl),
            Declaration::ExternFunction(decl) => {
                self.method(decl);
                self.overload(&decl.name, &decl.parameters);
            }
            Declaration::Function(decl) => {
                self.annotations(&decl.annotations);
                // If there are no type parameters, the checker declares the names immediately and reports duplicates.
                if !decl.type_parameters.is_empty() {
                    let names = decl.type_parameters.iter();
                    self.names(names.chain(names_of(&decl.parameters)), "parameter");
                }
                self.parameters(&decl.parameters, Owner::Body);
                self.overload(&decl.name, &decl.parameters);
                self.statements(&decl.body);
            }
            Declaration::Action(decl) => self.action(decl),
            Declaration::Parser(decl) => self.parser(decl),
            Declaration::Control(decl) => self.control(decl),
            Declaration::Package(decl) => {
                let names = decl.type_parameters.iter();
                self.names(names.chain(names_of(&decl.parameters)), "parameter");
                self.parameters(&decl.parameters, Owner::Signature);
                self.no_directions(&decl.parameters, "a package's");
            }
            Declaration::Const(decl) => self.annotations(&decl.annotations),
            Declaration::Enum(decl) => {
                self.annotations(&decl.annotations);
                self.names(decl.members.iter().map(|(name, _)| name), "member");
            }
            Declaration::TypeDef(decl) => self.annotations(&decl.annotations),
            Declaration::Instance(decl) => self.annotations(&decl.annotations),
            Declaration::Error(names) => {
                for name in names {
                    if let Some(before) = self.errors.insert(name.name.clone(), name.span) {
                        self.twice("error", name, before);
                    }
                }
            }
        }
        if let Some(name) = main_name(declaration) {
            self.sink
                .error("E0315", name.span, "`main` must be a package's instance")
                .help("name this differently, and end the program with `V1Switch(...) main;`");
        }
    }

    fn twice(&mut self, what: &str, name: &Ident, before: Span) {
        self.sink
            .error(
                "E0302",
                name.span,
                format!("{what} `{}` is declared twice", name.name),
            )
            .label("declared again")
            .note_at(before, "first declared here");
    }

    pub(super) fn names<'a>(&mut self, names: impl Iterator<Item = &'a Ident>, what: &str) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for name in names {
            match seen.get(&*name.name) {
                Some(before) => self.twice(what, name, *before),
                None => drop(seen.insert(&name.name, name.span)),
            }
        }
    }

    fn parameters(&mut self, parameters: &[Parameter], owner: Owner) {
        for parameter in parameters {
            self.annotations(&parameter.annotations);
            let optional = parameter
                .annotations
                .iter()
                .find(|annotation| &*annotation.name == "optional");
            if let Some(optional) =
                optional.filter(|_| !matches!(owner, Owner::Signature | Owner::Apply))
            {
                self.sink
                    .error("E0423", parameter.name.span, "this parameter cannot be optional")
                    .note_at(optional.span, "because of this annotation")
                    .help("only parameters of externs, packages and of types of parsers and controls can; give a default value");
            }
            let Some(default) = &parameter.default else {
                continue;
            };
            if matches!(parameter.direction, Direction::Out | Direction::InOut) {
                let message = format!(
                    "`{}` is written to its caller and cannot have a default value",
                    parameter.name.name
                );
                self.sink
                    .error("E0423", parameter.name.span, message)
                    .note_at(default.span, "this value");
            } else if optional.is_some() {
                let message = format!(
                    "`{}` is optional and has a default value: one is enough",
                    parameter.name.name
                );
                self.sink.error("E0423", parameter.name.span, message);
            }
        }
        if owner == Owner::Constructor {
            self.no_directions(parameters, "a constructor's");
        }
    }

    fn no_directions(&mut self, parameters: &[Parameter], whose: &str) {
        let directed = parameters
            .iter()
            .filter(|parameter| parameter.direction != Direction::None);
        for parameter in directed {
            let message = format!("{whose} parameter has no direction");
            self.sink
                .error("E0422", parameter.name.span, message)
                .help("it is given once, at compile time: leave `in`, `out` or `inout` out");
        }
    }

    fn method(&mut self, decl: &Method) {
        self.annotations(&decl.annotations);
        let names = decl.type_parameters.iter();
        self.names(names.chain(names_of(&decl.parameters)), "parameter");
        self.parameters(&decl.parameters, Owner::Signature);
    }

    fn overload(&mut self, name: &Ident, parameters: &[Parameter]) {
        let parameters = parameters.iter().map(|parameter| {
            let ty = type_text(&parameter.ty)?;
            Some(format!("{ty} {}", parameter.name.name))
        });
        // If an expression gives a type's width, this check cannot tell whether two types are the same.
        let Some(parameters) = parameters.collect() else {
            return;
        };
        let key = (name.name.clone(), parameters);
        if let Some(before) = self.functions.insert(key, name.span) {
            self.twice("function", name, before);
        }
    }

    fn external(&mut self, decl: &Extern) {
        self.names(decl.type_parameters.iter(), "type parameter");
        let mut methods: HashMap<(Rc<str>, Vec<Rc<str>>), Span> = HashMap::new();
        for method in &decl.methods {
            self.method(method);
            if let Some(returns) = &method.returns
                && method.name.name == decl.name.name
            {
                let message = format!("the constructor of `{}` returns nothing", decl.name.name);
                self.sink
                    .error("E0424", method.name.span, message)
                    .note_at(returns.span, "remove this type");
            }
            let key = (
                method.name.name.clone(),
                parameter_names(&method.parameters),
            );
            if let Some(before) = methods.insert(key, method.name.span) {
                self.twice("method", &method.name, before);
            }
            let types = method.parameters.iter().map(|parameter| &parameter.ty);
            for ty in types.chain(&method.returns) {
                if mentions(ty, &decl.name.name) {
                    let message = format!("extern `{}` refers to itself", decl.name.name);
                    self.sink
                        .error("E0435", ty.span, message)
                        .note_at(decl.name.span, "declared here");
                }
            }
        }
    }

    fn action(&mut self, decl: &Action) {
        self.annotations(&decl.annotations);
        self.parameters(&decl.parameters, Owner::Body);
        self.statements(&decl.body);
    }

    fn control(&mut self, decl: &Control) {
        self.annotations(&decl.annotations);
        self.block(
            &decl.type_parameters,
            &decl.parameters,
            &decl.constructor,
            decl.body.is_some(),
        );
        let Some((locals, apply)) = &decl.body else {
            return;
        };
        self.locals(locals);
        self.shadowed(apply, &decl.parameters);
        self.statements(apply);
    }

    fn parser(&mut self, decl: &Parser) {
        self.annotations(&decl.annotations);
        self.block(
            &decl.type_parameters,
            &decl.parameters,
            &decl.constructor,
            decl.body.is_some(),
        );
        let Some((locals, states)) = &decl.body else {
            return;
        };
        self.locals(locals);
        self.names(states.iter().map(|state| &state.name), "state");
        for state in states {
            self.annotations(&state.annotations);
            self.shadowed(&state.statements, &decl.parameters);
            self.statements(&state.statements);
        }
    }

    fn block(
        &mut self,
        type_parameters: &[Ident],
        parameters: &[Parameter],
        constructor: &[Parameter],
        has_body: bool,
    ) {
        // If there is a body, the checker declares the names and reports duplicates.
        if !has_body {
            self.names(type_parameters.iter(), "type parameter");
        }
        let (owner, names) = if has_body && type_parameters.is_empty() {
            (Owner::Apply, Vec::new())
        } else if has_body {
            let all = names_of(parameters).chain(names_of(constructor));
            (Owner::Apply, type_parameters.iter().chain(all).collect())
        } else {
            (Owner::Signature, names_of(parameters).collect())
        };
        self.names(names.into_iter(), "parameter");
        self.parameters(parameters, owner);
        self.parameters(constructor, Owner::Constructor);
    }

    fn locals(&mut self, locals: &[Local]) {
        for local in locals {
            match local {
                Local::Action(decl) => self.action(decl),
                Local::Table(decl) => self.table(decl),
                Local::Var(..) => {}
                Local::Const(decl) => self.annotations(&decl.annotations),
                Local::Instance(decl) => self.annotations(&decl.annotations),
                Local::ValueSet(decl) => self.annotations(&decl.annotations),
            }
        }
    }

    /// Reports a variable of the outermost block with a parameter's name, which would hide the parameter.
    fn shadowed(&mut self, body: &[Statement], parameters: &[Parameter]) {
        for statement in body {
            if let StatementKind::Var(decl) = &statement.kind {
                self.shadows(&decl.name, parameters);
            }
        }
    }

    fn shadows(&mut self, name: &Ident, parameters: &[Parameter]) {
        let hidden = parameters
            .iter()
            .find(|parameter| parameter.name.name == name.name);
        if let Some(hidden) = hidden {
            let message = format!("`{}` hides the parameter of the same name", name.name);
            self.sink
                .error("E0302", name.span, message)
                .note_at(hidden.name.span, "the parameter")
                .help("give one of them another name");
        }
    }

    fn table(&mut self, decl: &Table) {
        self.annotations(&decl.annotations);
        let mut seen: HashMap<&str, Span> = HashMap::new();
        let has_key = decl
            .properties
            .iter()
            .any(|property| matches!(property, Property::Key(elements) if !elements.is_empty()));
        for (property, span) in decl.properties.iter().zip(&decl.property_spans) {
            let name = match property {
                Property::Key(_) => "key",
                Property::Actions(_) => "actions",
                Property::Entries { .. } => "entries",
                Property::Other { name, .. } => &name.name,
            };
            if let Some(before) = seen.get(name) {
                let message = format!("table `{}` has two `{name}`", decl.name.name);
                self.sink
                    .error("E0425", *span, message)
                    .note_at(*before, "first given here");
            }
            match property {
                Property::Other { name, .. }
                    if &*name.name == "default_action" && !seen.contains_key("actions") =>
                {
                    let message = format!(
                        "`default_action` comes after `actions`, which table `{}` does not have yet",
                        decl.name.name
                    );
                    self.sink
                        .error("E0425", *span, message)
                        .help("put `actions = { ... }` in front of it");
                }
                Property::Entries { list, .. } if !has_key && !list.is_empty() => {
                    let message = format!(
                        "table `{}` has entries but no key that they could match",
                        decl.name.name
                    );
                    self.sink
                        .error("E0425", decl.name.span, message)
                        .note_at(*span, "these entries");
                }
                Property::Entries { .. } if has_key && !seen.contains_key("key") => {
                    self.sink
                        .error("E0425", *span, "`entries` come after `key`")
                        .help("put them after `key` and `actions`");
                }
                Property::Actions(list) => {
                    self.names(list.iter().map(|action| &action.name), "action");
                    for action in list {
                        self.annotations(&action.annotations);
                    }
                }
                Property::Key(elements) => {
                    for element in elements {
                        self.annotations(&element.annotations);
                    }
                }
                _ => {}
            }
            seen.entry(name).or_insert(*span);
        }
        self.priorities(decl);
    }

    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Block(inner) => self.statements(inner),
                StatementKind::If(_, yes, no) => {
                    self.statements(std::slice::from_ref(yes));
                    if let Some(no) = no {
                        self.statements(std::slice::from_ref(no));
                    }
                }
                StatementKind::Switch(_, cases) => {
                    self.labels(cases);
                    for case in cases {
                        self.statements(case.body.as_slice());
                    }
                }
                _ => {}
            }
        }
    }

    /// Checks that each label occurs once, and `default` last.
    fn labels(&mut self, cases: &[SwitchCase]) {
        let mut seen: HashMap<String, Span> = HashMap::new();
        let mut default: Option<Span> = None;
        for case in cases {
            let (text, span) = match &case.label {
                None => (Some("default".to_owned()), case.span),
                Some(label) if matches!(*label.kind, ExprKind::DontCare) => {
                    (Some("default".to_owned()), label.span)
                }
                Some(label) => (label_text(label), label.span),
            };
            if let Some(default) = default.filter(|_| text.as_deref() != Some("default")) {
                self.sink
                    .error("E0426", span, "a label after `default` is never reached")
                    .note_at(default, "`default` matches everything")
                    .help("put `default` last");
            }
            let Some(text) = text else { continue };
            if text == "default" {
                default = Some(span);
            }
            match seen.get(&text) {
                Some(before) => {
                    self.sink
                        .error("E0426", span, format!("label `{text}` occurs twice"))
                        .note_at(*before, "first here");
                }
                None => drop(seen.insert(text, span)),
            }
        }
    }
}

fn names_of(parameters: &[Parameter]) -> impl Iterator<Item = &Ident> {
    parameters.iter().map(|parameter| &parameter.name)
}

fn parameter_names(parameters: &[Parameter]) -> Vec<Rc<str>> {
    names_of(parameters).map(|name| name.name.clone()).collect()
}

/// Returns the name of a declaration that is called `main` but is not the package that makes up the program.
fn main_name(declaration: &Declaration) -> Option<&Ident> {
    let name = match declaration {
        Declaration::Const(decl) => &decl.name,
        Declaration::Struct(decl) => &decl.name,
        Declaration::Enum(decl) => &decl.name,
        Declaration::TypeDef(decl) => &decl.name,
        Declaration::Extern(decl) => &decl.name,
        Declaration::Package(decl) => &decl.name,
        _ => return None,
    };
    (&*name.name == "main").then_some(name)
}

fn mentions(ty: &Type, name: &str) -> bool {
    match &ty.kind {
        TypeKind::Name(found, _, arguments) => {
            &*found.name == name || arguments.iter().any(|inner| mentions(inner, name))
        }
        TypeKind::Tuple(items) => items.iter().any(|inner| mentions(inner, name)),
        TypeKind::List(inner) | TypeKind::Stack(inner, _) => mentions(inner, name),
        _ => false,
    }
}

/// A type as text; `None` if an expression in it must be computed first.
fn type_text(ty: &Type) -> Option<String> {
    match &ty.kind {
        TypeKind::Bits(width, signed) => match &*width.kind {
            ExprKind::Int(width, _) => Some(format!("{signed} {width}")),
            _ => None,
        },
        TypeKind::Name(name, _, arguments) => {
            let arguments: Option<Vec<String>> = arguments.iter().map(type_text).collect();
            Some(format!("{}<{}>", name.name, arguments?.join(",")))
        }
        TypeKind::Bool => Some("bool".to_owned()),
        TypeKind::Error => Some("error".to_owned()),
        TypeKind::String => Some("string".to_owned()),
        _ => None,
    }
}

/// A label as text: equal texts mean equal labels.
fn label_text(label: &Expr) -> Option<String> {
    match &*label.kind {
        ExprKind::Name(name, _) => Some(name.name.to_string()),
        ExprKind::Int(value, _) => Some(value.to_string()),
        ExprKind::Bool(value) => Some(value.to_string()),
        ExprKind::Member(base, member) => Some(format!("{}.{}", label_text(base)?, member.name)),
        _ => None,
    }
}
