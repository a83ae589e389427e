//! Checks declarations outside bodies, in the order of the source.

use std::collections::HashMap;
use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::{One as _, Zero as _};

use super::Type;
use super::check::{Checker, ExternInfo, Place, Signature};
use super::const_eval::fits;
use super::scope::{FunctionSymbol, Scopes, Symbol};
use crate::diagnostic::Sink;
use crate::ir::{self, Direction, Enum, Expr, ExprKind, Instance, InstanceKind, Newtype, Program};
use crate::source::SourceMap;
use crate::syntax::ast::{self, Declaration};

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
        struct_origins: HashMap::new(),
        generic_blocks: Vec::new(),
        block_instances: HashMap::new(),
        match_kinds: Vec::new(),
        place: Place::Top,
        returns: Type::Void,
        in_library: false,
        depth: 0,
        open_generics: Vec::new(),
        loops: 0,
        unknowns: super::unknown::Unknowns::new(declarations),
        radices: HashMap::new(),
        open_shifts: Vec::new(),
    };
    super::rules::check(declarations, checker.sink);
    checker.scopes.push();
    for declaration in declarations {
        let name = declaration_name(declaration).map(|name| name.span);
        let place = name.and_then(|name| sources.named_line(name));
        checker.in_library = place.is_some_and(|(file, _)| crate::preprocess::is_embedded(&file));
        checker.unknowns.next_declaration(name);
        checker.declaration(declaration);
        checker.unused_annotations(declaration);
    }
    checker.report_open_shifts();
    Program {
        names: checker.scopes.into_names(),
        ..checker.program
    }
}

pub fn declaration_name(declaration: &Declaration) -> Option<&ast::Ident> {
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
                    self.legal_at_top(id, &decl.name);
                    self.program.globals.push(id);
                    if &*decl.name.name == "main" {
                        self.program.main = Some(id);
                    }
                }
            }
        }
    }

    pub fn constant(&mut self, decl: &ast::Constant) {
        let ty = self.whole_type(&decl.ty);
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
        self.remember_radix(&decl.value, value.span);
        self.declare(&decl.name, Symbol::Const(value));
    }

    /// Whether an expression contains only constants and constructor parameters.
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
            if !self.program.errors.contains(&name.name) {
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

    /// Returns the width and signedness of the numbers of a serializable enum.
    fn enum_bits(&mut self, decl: &ast::Enum, underlying: Option<&Type>) -> Option<(u32, bool)> {
        match underlying.cloned() {
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
        // A member's value may use the members before it.
        self.scopes.push();
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
            members.push((name.name.clone(), next.clone()));
            if let Some(ty) = &underlying {
                let value = Expr {
                    kind: ExprKind::Int(next.clone()),
                    ty: ty.clone(),
                    span: name.span,
                };
                self.scopes
                    .declare_member(&name.name, Symbol::Const(value), name.span);
            }
            next += BigInt::one();
        }
        self.scopes.pop();
        let (name, annotations, from_library) = (
            decl.name.name.clone(),
            self.annotations(&decl.annotations),
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
        if let Some(inner) = &decl.inner {
            self.declaration(inner);
        }
        let ty = self.resolve_type(&decl.ty);
        let annotations = self.annotations(&decl.annotations);
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
            let name = decl.name.name.clone();
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
            abstracts: Vec::new(),
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
                self.legal_result(&signature.returns, method);
                self.externs[id].methods.push(signature);
            }
            if method.is_abstract {
                let name = method.name.name.clone();
                let optional = ir::has_annotation(&method.annotations, "optional");
                self.externs[id].abstracts.push((name, optional));
            }
        }
        self.scopes.pop();
    }

    fn function(&mut self, decl: &Rc<ast::Function>) {
        let id = self.functions.len();
        self.functions.push(decl.clone());
        // The body is checked here even if nothing calls the function.
        if decl.type_parameters.is_empty() {
            self.instantiate_function(id, &[]);
        } else if !self.check_open_function(id) {
            return self.declare_broken(&decl.name);
        }
        self.declare_function(&decl.name, FunctionSymbol::User(id));
    }

    /// Checks a function's body once for each set of type arguments.
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
        if self.is_recursive(&decl.name, "calls") {
            // Adds an empty function that can be called, so that the rest of the caller is still checked.
            self.program.functions.push(ir::Function {
                parameters: Vec::new(),
                returns: Type::Poison,
                body: Vec::new(),
            });
            return self.program.functions.len() - 1;
        }
        self.open_generics.push(decl.name.span);
        let saved = self.scopes.detach();
        let (place, outer_returns) = (self.place, std::mem::replace(&mut self.returns, Type::Void));
        let loops = std::mem::take(&mut self.loops);
        self.scopes.push();
        for (parameter, argument) in decl.type_parameters.iter().zip(arguments) {
            self.declare(parameter, Symbol::Type(argument.clone()));
        }
        let parameters = self.declare_parameters(&decl.parameters);
        let returns = self.resolve_type(&decl.returns);
        (self.place, self.returns) = (Place::Function, returns.clone());
        let n_errors = self.sink.len();
        let body = self.statements(&decl.body);
        if n_errors == self.sink.len()
            && returns != Type::Void
            && !returns.is_poison()
            && !always_returns(&body)
        {
            self.sink
                .error(
                    "E0406",
                    decl.name.span,
                    format!("function `{}` can end without a value", decl.name.name),
                )
                .help("add `return` at its end");
        }
        (self.place, self.returns, self.loops) = (place, outer_returns, loops);
        self.scopes.attach(saved);
        self.open_generics.pop();
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

    /// Checks the methods that an instance implements, and then drops them, because no extern of v1model has abstract
    /// methods.
    fn implementation(&mut self, methods: &[Rc<ast::Function>], of: &InstanceKind) {
        for method in methods {
            self.scopes.push();
            let returns = self.resolve_type(&method.returns);
            let parameters = self.declare_parameters(&method.parameters);
            if let InstanceKind::Extern(id, arguments) = of {
                self.legal_method(method, *id, arguments, &parameters, &returns);
            }
            let place = std::mem::replace(&mut self.place, Place::Function);
            let returns = std::mem::replace(&mut self.returns, returns);
            self.statements(&method.body);
            (self.place, self.returns) = (place, returns);
            self.scopes.pop();
        }
    }

    pub fn action(&mut self, decl: &ast::Action, is_global: bool) {
        self.scopes.push();
        let parameters = self.declare_parameters(&decl.parameters);
        self.legal_action_parameters(&parameters);
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
        let outer = self.unknowns.action.replace(decl.name.span);
        let body = self.statements(&decl.body);
        self.unknowns.action = outer;
        self.scopes.pop();
        self.scopes.pop();
        (self.place, self.returns) = (place, returns);
        let (name, annotations) = (decl.name.name.clone(), self.annotations(&decl.annotations));
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

    pub fn instance(&mut self, decl: &ast::Instance) -> Option<usize> {
        let callee_span = decl.ty.span;
        let ty = self.resolve_type(&decl.ty);
        let Some(instance) = self.construct(&ty, &decl.arguments, callee_span, decl.span) else {
            self.declare(&decl.name, Symbol::Broken);
            return None;
        };
        self.legal_implementation(decl, &ty);
        if let Some(methods) = &decl.methods {
            self.implementation(methods, &instance.kind);
        }
        let instance = Instance {
            name: decl.name.name.clone(),
            annotations: self.annotations(&decl.annotations),
            ..instance
        };
        self.program.instances.push(instance);
        let id = self.program.instances.len() - 1;
        self.declare(&decl.name, Symbol::Instance(id));
        Some(id)
    }
}

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

/// The kind of an instance of this type; `None` if the type cannot be instantiated.
pub fn instance_kind(ty: &Type) -> Option<InstanceKind> {
    match ty {
        Type::Extern(id, arguments) => Some(InstanceKind::Extern(*id, arguments.clone())),
        Type::Control(id) => Some(InstanceKind::Control(*id)),
        Type::Parser(id) => Some(InstanceKind::Parser(*id)),
        Type::Package(id, arguments) => Some(InstanceKind::Package(*id, arguments.clone())),
        _ => None,
    }
}
