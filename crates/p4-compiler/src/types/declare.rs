//! Declarations outside of bodies, in the order of the source.

use std::collections::HashMap;
use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::{One as _, Zero as _};

use super::Type;
use super::check::{Checker, ExternInfo, Place, Signature};
use super::const_eval::fits;
use super::scope::{FunctionSymbol, Scopes, Symbol};
use crate::diagnostic::Sink;
use crate::ir::{
    self, Control, Direction, Enum, Expr, ExprKind, Instance, InstanceKind, Newtype, Program,
    State, Target, Transition, Var,
};
use crate::source::SourceMap;
use crate::syntax::ast::{self, Declaration, Local};

/// Checks the whole program.
pub fn check(declarations: &[Declaration], sources: &SourceMap, sink: &mut Sink) -> Program {
    let mut checker = Checker {
        program: Program::default(),
        scopes: Scopes::default(),
        sink,
        externs: Vec::new(),
        extern_functions: Vec::new(),
        packages: Vec::new(),
        control_types: Vec::new(),
        parser_types: Vec::new(),
        functions: Vec::new(),
        function_instances: HashMap::new(),
        struct_instances: HashMap::new(),
        match_kinds: Vec::new(),
        place: Place::Top,
        returns: Type::Void,
        in_library: false,
        depth: 0,
    };
    checker.scopes.push();
    for declaration in declarations {
        let file = declaration_name(declaration).and_then(|name| sources.file(name.span.file));
        checker.in_library = file.is_some_and(|file| crate::preprocess::is_embedded(&file.name));
        checker.declaration(declaration);
    }
    checker.program
}

fn declaration_name(declaration: &Declaration) -> Option<&ast::Ident> {
    match declaration {
        Declaration::Const(decl) => Some(&decl.name),
        Declaration::Error(names) | Declaration::MatchKind(names) => names.first(),
        Declaration::Struct(decl) => Some(&decl.name),
        Declaration::Enum(decl) => Some(&decl.name),
        Declaration::TypeDef(decl) => Some(&decl.name),
        Declaration::Extern(decl) => Some(&decl.name),
        Declaration::ExternFunction(decl) => Some(&decl.name),
        Declaration::Function(decl) => Some(&decl.name),
        Declaration::Action(decl) => Some(&decl.name),
        Declaration::Parser(decl) => Some(&decl.name),
        Declaration::Control(decl) => Some(&decl.name),
        Declaration::Package(decl) => Some(&decl.name),
        Declaration::Instance(decl) => Some(&decl.name),
    }
}

impl Checker<'_> {
    fn declaration(&mut self, declaration: &Declaration) {
        match declaration {
            Declaration::Const(decl) => self.constant(decl),
            Declaration::Error(names) => self.errors(names),
            Declaration::MatchKind(names) => self
                .match_kinds
                .extend(names.iter().map(|name| name.name.clone())),
            Declaration::Struct(decl) => self.structure(decl),
            Declaration::Enum(decl) => self.enumeration(decl),
            Declaration::TypeDef(decl) => self.type_definition(decl),
            Declaration::Extern(decl) => self.external(decl),
            Declaration::ExternFunction(decl) => {
                let signature = self.method_signature(decl);
                self.extern_functions.push(signature);
                self.declare_function(
                    &decl.name,
                    FunctionSymbol::Extern(self.extern_functions.len() - 1),
                );
            }
            Declaration::Function(decl) => self.function(decl),
            Declaration::Action(decl) => self.action(decl, true),
            Declaration::Parser(decl) => self.parser(decl),
            Declaration::Control(decl) => self.control(decl),
            Declaration::Package(decl) => {
                let signature = self.signature(
                    &decl.name.name,
                    &decl.type_parameters,
                    &decl.parameters,
                    None,
                );
                self.packages.push(signature);
                self.program.package_names.push(decl.name.name.clone());
                self.declare(&decl.name, Symbol::Package(self.packages.len() - 1));
            }
            Declaration::Instance(decl) => {
                if let Some(id) = self.instance(decl) {
                    self.program.globals.push(id);
                    if &*decl.name.name == "main" {
                        self.program.main = Some(id);
                    }
                }
            }
        }
    }

    pub fn constant(&mut self, decl: &ast::Constant) {
        let ty = self.resolve_type(&decl.ty);
        let value = self.expr(&decl.value);
        let value = self.coerce(value, &ty);
        if !self.is_constant(&value) {
            self.sink
                .error(
                    "E0502",
                    decl.value.span,
                    format!(
                        "the value of `{}` is not known at compile time",
                        decl.name.name
                    ),
                )
                .help("a constant is made of numbers, other constants and operators");
            self.declare(&decl.name, Symbol::Broken);
            return;
        }
        self.declare(&decl.name, Symbol::Const(value));
    }

    /// Whether nothing but constants (and constructor parameters) is inside.
    pub fn is_constant(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Error(_)
            | ExprKind::Member(..) => true,
            ExprKind::Poison | ExprKind::InvalidHeader => true,
            ExprKind::List(items) => items.iter().all(|item| self.is_constant(item)),
            ExprKind::Cast(inner)
            | ExprKind::Unary(_, inner)
            | ExprKind::Slice(inner, ..)
            | ExprKind::Field(inner, _) => self.is_constant(inner),
            ExprKind::Binary(_, left, right) => self.is_constant(left) && self.is_constant(right),
            ExprKind::Mux(a, b, c) => {
                self.is_constant(a) && self.is_constant(b) && self.is_constant(c)
            }
            ExprKind::Var(id) => {
                let var = &self.program.vars[*id];
                var.is_parameter && var.direction == Direction::None && self.place != Place::Action
            }
            _ => false,
        }
    }

    fn errors(&mut self, names: &[ast::Ident]) {
        for name in names {
            if self.program.errors.contains(&name.name) {
                self.sink.error(
                    "E0302",
                    name.span,
                    format!("error `{}` is declared twice", name.name),
                );
            } else {
                self.program.errors.push(name.name.clone());
            }
        }
    }

    fn structure(&mut self, decl: &Rc<ast::Struct>) {
        if !decl.type_parameters.is_empty() {
            self.declare(&decl.name, Symbol::GenericStruct(decl.clone()));
            return;
        }
        let id = self.new_struct(decl, decl.name.name.clone());
        self.declare(&decl.name, Symbol::Type(Type::Struct(id)));
    }

    /// The width and sign of a serializable enum's numbers.
    fn enum_bits(&mut self, decl: &ast::Enum, underlying: Option<&Type>) -> Option<(u32, bool)> {
        match underlying.map(|ty| self.program.underlying(ty).clone()) {
            Some(Type::Bits { width, signed }) => Some((width, signed)),
            Some(Type::Poison) | None => None,
            Some(other) => {
                let span = decl
                    .underlying
                    .as_ref()
                    .map_or(decl.name.span, |ty| ty.span);
                let message = format!(
                    "an enum is stored in a bit<> or int<>, not in {}",
                    self.program.type_name(&other)
                );
                self.sink.error("E0404", span, message);
                None
            }
        }
    }

    fn enumeration(&mut self, decl: &ast::Enum) {
        let underlying = decl.underlying.as_ref().map(|ty| self.resolve_type(ty));
        let bits = self.enum_bits(decl, underlying.as_ref());
        let mut members: Vec<(Rc<str>, BigInt)> = Vec::new();
        let mut next = BigInt::zero();
        for (name, value) in &decl.members {
            match (value, &underlying) {
                (Some(value), Some(_)) => {
                    next = self.constant_int(value, "the enum's value").unwrap_or(next)
                }
                (Some(value), None) => {
                    self.sink
                        .error("E0404", value.span, "values need an enum with a type")
                        .help(format!("write `enum bit<8> {}`", decl.name.name));
                }
                (None, Some(_)) => {
                    self.sink
                        .error("E0404", name.span, format!("`{}` has no value", name.name))
                        .help("every member of an enum with a type has one");
                }
                (None, None) => {}
            }
            if let Some((width, signed)) =
                bits.filter(|(width, signed)| !fits(&next, *width, *signed))
            {
                let kind = if signed { "int" } else { "bit" };
                self.sink.error(
                    "E0405",
                    name.span,
                    format!("the value {next} does not fit {kind}<{width}>"),
                );
            }
            if members.iter().any(|(other, _)| *other == name.name) {
                self.sink.error(
                    "E0302",
                    name.span,
                    format!("member `{}` is declared twice", name.name),
                );
            }
            members.push((name.name.clone(), next.clone()));
            next += BigInt::one();
        }
        let (name, annotations, from_library) = (
            decl.name.name.clone(),
            decl.annotations.clone(),
            self.in_library,
        );
        self.program.enums.push(Enum {
            name,
            underlying,
            members,
            annotations,
            from_library,
        });
        self.declare(
            &decl.name,
            Symbol::Type(Type::Enum(self.program.enums.len() - 1)),
        );
    }

    fn type_definition(&mut self, decl: &ast::TypeDef) {
        let ty = self.resolve_type(&decl.ty);
        let symbol = if decl.is_new {
            let below = self.program.underlying(&ty);
            if !matches!(
                below,
                Type::Bits { .. } | Type::Bool | Type::Poison | Type::Enum(_)
            ) {
                let message = format!(
                    "`type` makes a new type of bits or a bool, not of {}",
                    self.program.type_name(&ty)
                );
                self.sink
                    .error("E0404", decl.ty.span, message)
                    .help("use `typedef`");
            }
            let (name, annotations) = (decl.name.name.clone(), decl.annotations.clone());
            self.program.newtypes.push(Newtype {
                name,
                ty,
                annotations,
            });
            Type::Newtype(self.program.newtypes.len() - 1)
        } else {
            ty
        };
        self.declare(&decl.name, Symbol::Type(symbol));
    }

    fn method_signature(&mut self, decl: &ast::Method) -> Signature {
        let mut signature = self.signature(
            &decl.name.name,
            &decl.type_parameters,
            &decl.parameters,
            decl.returns.as_ref(),
        );
        if ir::has_annotation(&decl.annotations, "deprecated") {
            signature.deprecated = ir::string_annotation(&decl.annotations, "deprecated");
        }
        signature
    }

    fn external(&mut self, decl: &ast::Extern) {
        let id = self.externs.len();
        let names: Vec<Rc<str>> = decl
            .type_parameters
            .iter()
            .map(|parameter| parameter.name.clone())
            .collect();
        self.externs.push(ExternInfo {
            type_parameters: names.clone(),
            constructors: Vec::new(),
            methods: Vec::new(),
        });
        self.program.extern_names.push(decl.name.name.clone());
        self.declare(&decl.name, Symbol::Extern(id));
        self.scopes.push();
        for parameter in &decl.type_parameters {
            self.declare(
                parameter,
                Symbol::Type(Type::Variable(parameter.name.clone())),
            );
        }
        for method in &decl.methods {
            let mut signature = self.method_signature(method);
            if method.returns.is_none() {
                signature.type_parameters.clone_from(&names);
                self.externs[id].constructors.push(signature);
            } else {
                self.externs[id].methods.push(signature);
            }
        }
        self.scopes.pop();
    }

    fn function(&mut self, decl: &Rc<ast::Function>) {
        let id = self.functions.len();
        self.functions.push(decl.clone());
        if decl.type_parameters.is_empty() {
            // Checked here even where nothing calls it.
            self.instantiate_function(id, &[]);
        }
        self.declare_function(&decl.name, FunctionSymbol::User(id));
    }

    /// Checks a function's body with its type parameters replaced, once for each set of types.
    pub fn instantiate_function(&mut self, id: usize, arguments: &[Type]) -> usize {
        let decl = self.functions[id].clone();
        let names: Vec<String> = arguments
            .iter()
            .map(|argument| self.program.type_name(argument))
            .collect();
        let key = format!("{id}<{}>", names.join(","));
        if let Some(known) = self.function_instances.get(&key) {
            return *known;
        }
        let saved = self.scopes.detach();
        let (place, outer_returns) = (self.place, std::mem::replace(&mut self.returns, Type::Void));
        self.scopes.push();
        for (parameter, argument) in decl.type_parameters.iter().zip(arguments) {
            self.declare(parameter, Symbol::Type(argument.clone()));
        }
        let parameters = self.declare_parameters(&decl.parameters);
        let returns = self.resolve_type(&decl.returns);
        (self.place, self.returns) = (Place::Function, returns.clone());
        let body = self.statements(&decl.body);
        if returns != Type::Void && !returns.is_poison() && !always_returns(&body) {
            self.sink
                .error(
                    "E0406",
                    decl.name.span,
                    format!("function `{}` can end without a value", decl.name.name),
                )
                .help("add `return` at its end");
        }
        (self.place, self.returns) = (place, outer_returns);
        self.scopes.attach(saved);
        let function = ir::Function {
            parameters,
            returns,
            body,
        };
        self.program.functions.push(function);
        let result = self.program.functions.len() - 1;
        self.function_instances.insert(key, result);
        result
    }

    pub fn action(&mut self, decl: &ast::Action, is_global: bool) {
        self.scopes.push();
        let parameters = self.declare_parameters(&decl.parameters);
        let mut data_seen = false;
        for parameter in &decl.parameters {
            if parameter.direction == Direction::None {
                data_seen = true;
            } else if data_seen {
                self.sink
                    .error(
                        "E0407",
                        parameter.name.span,
                        "parameters with a direction come before those without",
                    )
                    .help("the control plane gives those without");
            }
        }
        let place = std::mem::replace(&mut self.place, Place::Action);
        let returns = std::mem::replace(&mut self.returns, Type::Void);
        self.scopes.push();
        let body = self.statements(&decl.body);
        self.scopes.pop();
        self.scopes.pop();
        (self.place, self.returns) = (place, returns);
        let (name, annotations) = (decl.name.name.clone(), decl.annotations.clone());
        self.program.actions.push(ir::Action {
            name,
            parameters,
            body,
            annotations,
            is_global,
            span: decl.name.span,
        });
        self.declare(&decl.name, Symbol::Action(self.program.actions.len() - 1));
    }

    /// An instance of an extern, control, parser or package.
    pub fn instance(&mut self, decl: &ast::Instance) -> Option<usize> {
        let callee_span = decl.ty.span;
        let ty = self.resolve_type(&decl.ty);
        let instance = self.construct(&ty, &decl.arguments, callee_span, decl.span)?;
        let instance = Instance {
            name: decl.name.name.clone(),
            annotations: decl.annotations.clone(),
            ..instance
        };
        self.program.instances.push(instance);
        let id = self.program.instances.len() - 1;
        self.declare(&decl.name, Symbol::Instance(id));
        Some(id)
    }

    fn control(&mut self, decl: &ast::Control) {
        let Some((locals, apply)) = &decl.body else {
            let signature = self.signature(
                &decl.name.name,
                &decl.type_parameters,
                &decl.parameters,
                None,
            );
            self.control_types.push(signature);
            let name = decl.name.name.clone();
            self.program.control_kind_names.push(name);
            self.declare(
                &decl.name,
                Symbol::ControlType(self.control_types.len() - 1),
            );
            return;
        };
        self.no_type_parameters(&decl.type_parameters);
        self.place = Place::Control;
        self.scopes.push();
        let constructor = self.declare_parameters(&decl.constructor);
        let parameters = self.declare_parameters(&decl.parameters);
        let mut control = Control {
            name: decl.name.name.clone(),
            parameters,
            constructor,
            span: decl.name.span,
            ..Control::default()
        };
        self.scopes.push();
        for local in locals {
            self.local(local, &mut control);
        }
        self.scopes.push();
        self.returns = Type::Void;
        control.apply = self.statements(apply);
        (0..3).for_each(|_| self.scopes.pop());
        self.place = Place::Top;
        self.program.controls.push(control);
        self.declare(&decl.name, Symbol::Control(self.program.controls.len() - 1));
    }

    fn no_type_parameters(&mut self, parameters: &[ast::Ident]) {
        if let Some(first) = parameters.first() {
            self.sink.error(
                "E0402",
                first.span,
                "a control or parser with a body has no type parameters",
            );
        }
    }

    fn local(&mut self, local: &Local, control: &mut Control) {
        match local {
            Local::Const(decl) => self.constant(decl),
            Local::Var(decl, span) => {
                let declared = self.variable(decl, *span);
                control.variables.push(declared);
            }
            Local::Instance(decl) => control.instances.extend(self.instance(decl)),
            Local::Action(decl) => {
                self.action(decl, false);
                control.actions.push(self.program.actions.len() - 1);
            }
            Local::Table(decl) => control.tables.push(self.table(decl)),
            Local::ValueSet(decl) => {
                self.sink.error(
                    "E0304",
                    decl.name.span,
                    "a value set is declared in a parser",
                );
            }
        }
    }

    pub fn variable(
        &mut self,
        decl: &ast::Variable,
        span: crate::source::Span,
    ) -> (usize, Option<Expr>) {
        let ty = self.resolve_type(&decl.ty);
        if matches!(
            ty,
            Type::Int
                | Type::String
                | Type::Void
                | Type::Extern(..)
                | Type::Control(_)
                | Type::Parser(_)
                | Type::MatchKind
        ) {
            let message = format!(
                "a variable cannot have the type {}",
                self.program.type_name(&ty)
            );
            self.sink
                .error("E0404", decl.ty.span, message)
                .help("use bit<W> or int<W>, or `const`");
        }
        let init = decl.init.as_ref().map(|init| {
            let value = self.expr(init);
            self.coerce(value, &ty)
        });
        let name = decl.name.name.clone();
        let var = Var {
            name,
            ty,
            direction: Direction::None,
            is_parameter: false,
            annotations: Vec::new(),
            span,
        };
        let id = self.new_var(var);
        self.declare(&decl.name, Symbol::Var(id));
        (id, init)
    }

    fn parser(&mut self, decl: &ast::Parser) {
        let Some((locals, states)) = &decl.body else {
            let signature = self.signature(
                &decl.name.name,
                &decl.type_parameters,
                &decl.parameters,
                None,
            );
            self.parser_types.push(signature);
            let name = decl.name.name.clone();
            self.program.parser_kind_names.push(name);
            self.declare(&decl.name, Symbol::ParserType(self.parser_types.len() - 1));
            return;
        };
        self.no_type_parameters(&decl.type_parameters);
        self.place = Place::Parser;
        self.scopes.push();
        let constructor = self.declare_parameters(&decl.constructor);
        let parameters = self.declare_parameters(&decl.parameters);
        let mut parser = ir::Parser {
            name: decl.name.name.clone(),
            parameters,
            constructor,
            span: decl.name.span,
            ..ir::Parser::default()
        };
        self.scopes.push();
        for local in locals {
            match local {
                Local::ValueSet(set) => self.value_set(set, &mut parser),
                Local::Action(action) => drop(self.sink.error(
                    "E0304",
                    action.name.span,
                    "an action cannot be declared in a parser",
                )),
                Local::Table(table) => drop(self.sink.error(
                    "E0304",
                    table.name.span,
                    "a table cannot be declared in a parser",
                )),
                other => {
                    let mut holder = Control::default();
                    self.local(other, &mut holder);
                    parser.variables.append(&mut holder.variables);
                    parser.instances.append(&mut holder.instances);
                }
            }
        }
        self.states(decl, states, &mut parser);
        (0..2).for_each(|_| self.scopes.pop());
        self.place = Place::Top;
        self.program.parsers.push(parser);
        self.declare(&decl.name, Symbol::Parser(self.program.parsers.len() - 1));
    }

    fn value_set(&mut self, decl: &ast::ValueSet, parser: &mut ir::Parser) {
        let ty = self.resolve_type(&decl.ty);
        let size = self.expr(&decl.size);
        let (name, annotations) = (decl.name.name.clone(), decl.annotations.clone());
        self.program.value_sets.push(ir::ValueSet {
            name,
            ty,
            size,
            annotations,
            span: decl.name.span,
        });
        let id = self.program.value_sets.len() - 1;
        parser.value_sets.push(id);
        self.declare(&decl.name, Symbol::ValueSet(id));
    }

    fn states(&mut self, decl: &ast::Parser, states: &[ast::State], parser: &mut ir::Parser) {
        let mut names: HashMap<Rc<str>, usize> = HashMap::new();
        for (index, state) in states.iter().enumerate() {
            let reserved = matches!(&*state.name.name, "accept" | "reject");
            if reserved || names.insert(state.name.name.clone(), index).is_some() {
                self.sink.error(
                    "E0302",
                    state.name.span,
                    format!("state `{}` is declared twice", state.name.name),
                );
            }
        }
        match names.get("start") {
            Some(start) => parser.start = *start,
            None => {
                self.sink
                    .error(
                        "E0305",
                        decl.name.span,
                        format!("parser `{}` has no state `start`", decl.name.name),
                    )
                    .help("every parser begins in `start`");
            }
        }
        for state in states {
            self.scopes.push();
            let statements = self.statements(&state.statements);
            let transition = self.transition(&state.transition, &names);
            self.scopes.pop();
            parser.states.push(State {
                name: state.name.name.clone(),
                statements,
                transition,
                span: state.span,
            });
        }
    }

    fn target(&mut self, name: &ast::Ident, names: &HashMap<Rc<str>, usize>) -> Target {
        match (&*name.name, names.get(&name.name)) {
            ("accept", _) => Target::Accept,
            ("reject", _) => Target::Reject,
            (_, Some(index)) => Target::State(*index),
            (text, None) => {
                let similar = super::scope::nearest(
                    text,
                    names.keys().map(|name| &**name).chain(["accept", "reject"]),
                );
                let raw =
                    self.sink
                        .error("E0306", name.span, format!("cannot find state `{text}`"));
                if let Some(similar) = similar {
                    raw.help(format!("did you mean `{similar}`?"));
                }
                Target::Reject
            }
        }
    }

    fn transition(
        &mut self,
        transition: &ast::Transition,
        names: &HashMap<Rc<str>, usize>,
    ) -> Transition {
        match transition {
            ast::Transition::None => Transition::To(Target::Reject),
            ast::Transition::To(name) => Transition::To(self.target(name, names)),
            ast::Transition::Select(keys, cases, span) => {
                let keys: Vec<Expr> = keys.iter().map(|key| self.expr(key)).collect();
                for key in &keys {
                    let below = self.program.underlying(&key.ty).clone();
                    if !matches!(
                        below,
                        Type::Bits { .. } | Type::Bool | Type::Enum(_) | Type::Error | Type::Poison
                    ) {
                        let message =
                            format!("cannot select on {}", self.program.type_name(&key.ty));
                        self.sink
                            .error("E0408", key.span, message)
                            .help("give the key a width with a cast");
                    }
                }
                if cases.is_empty() {
                    self.sink.error("E0409", *span, "this `select` has no case");
                }
                let types: Vec<Type> = keys.iter().map(|key| key.ty.clone()).collect();
                let mut checked = Vec::new();
                for case in cases {
                    let sets = self.keyset(&case.keys, &types, case.span);
                    let target = self.target(&case.next, names);
                    checked.push((sets, target, case.span));
                }
                Transition::Select(keys, checked)
            }
        }
    }
}

/// Whether every path ends with `return` or `exit`.
fn always_returns(body: &[ir::Statement]) -> bool {
    body.iter().any(|statement| match &statement.kind {
        ir::StatementKind::Return(_) | ir::StatementKind::Exit => true,
        ir::StatementKind::Block(inner) => always_returns(inner),
        ir::StatementKind::If(_, yes, no) => always_returns(yes) && always_returns(no),
        ir::StatementKind::SwitchValue(_, cases) => {
            cases
                .iter()
                .any(|(labels, _)| labels.iter().any(Option::is_none))
                && cases.iter().all(|(_, body)| always_returns(body))
        }
        _ => false,
    })
}

/// The kind of an instance of this type, where it can be instantiated.
pub fn instance_kind(ty: &Type) -> Option<InstanceKind> {
    match ty {
        Type::Extern(id, arguments) => Some(InstanceKind::Extern(*id, arguments.clone())),
        Type::Control(id) => Some(InstanceKind::Control(*id)),
        Type::Parser(id) => Some(InstanceKind::Parser(*id)),
        Type::Package(id, arguments) => Some(InstanceKind::Package(*id, arguments.clone())),
        _ => None,
    }
}
