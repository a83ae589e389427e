//! The type checker's state, and functions that resolve types.

use std::collections::HashMap;
use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::ToPrimitive as _;

use super::Type;
use super::const_eval::{Fault, fold};
use super::scope::{FunctionSymbol, Scopes, Symbol};
use crate::diagnostic::Sink;
use crate::ir::{Direction, Expr, ExprKind, Field, Program, Struct, Var, VarId};
use crate::limits;
use crate::source::Span;
use crate::spelling::wrong_count;
use crate::syntax::ast;

/// The kind of code that contains a statement or expression. It decides which calls and statements are legal there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Top,
    Parser,
    Control,
    Action,
    Function,
}

#[derive(Clone, Debug)]
pub struct SignatureParameter {
    pub name: Rc<str>,
    pub direction: Direction,
    pub ty: Type,
    pub default: Option<Expr>,
    pub optional: bool,
}

/// The parts of a callee's declaration that a call is checked against.
#[derive(Clone, Debug)]
pub struct Signature {
    pub name: Rc<str>,
    pub type_parameters: Vec<Rc<str>>,
    pub parameters: Vec<SignatureParameter>,
    pub returns: Type,
    pub deprecated: Option<String>,
}

pub struct ExternInfo {
    pub type_parameters: Vec<Rc<str>>,
    pub constructors: Vec<Signature>,
    pub methods: Vec<Signature>,
    /// For each abstract method, which an instance implements: the method's name, and whether the implementation is
    /// optional.
    pub abstracts: Vec<(Rc<str>, bool)>,
}

pub struct Checker<'a> {
    pub program: Program,
    pub scopes: Scopes,
    pub sink: &'a mut Sink,
    pub externs: Vec<ExternInfo>,
    pub extern_functions: Vec<Signature>,
    pub packages: Vec<Signature>,
    /// Signatures of `control C(...);` and `parser P(...);`.
    pub control_types: Vec<Signature>,
    pub parser_types: Vec<Signature>,
    pub functions: Vec<Rc<ast::Function>>,
    pub function_instances: HashMap<String, usize>,
    pub struct_instances: HashMap<String, usize>,
    /// For each instance of a generic struct, the struct and its type arguments.
    pub struct_origins: HashMap<usize, (Rc<ast::Struct>, Vec<Type>)>,
    pub generic_blocks: Vec<super::generic::GenericBlock>,
    pub block_instances: HashMap<String, Type>,
    pub match_kinds: Vec<Rc<str>>,
    pub place: Place,
    pub returns: Type,
    pub in_library: bool,
    pub depth: usize,
    /// For each generic function and block whose body is being checked, the span of its name.
    pub open_generics: Vec<Span>,
    pub loops: usize,
    pub unknowns: super::unknown::Unknowns,
    /// The radix of each constant that is not written as decimal, by the span of the constant's value.
    pub radices: HashMap<Span, u32>,
    pub open_shifts: Vec<super::open_shift::OpenShift>,
}

impl Checker<'_> {
    /// Declares a name, and reports a second declaration of it in the same scope.
    pub fn declare(&mut self, name: &ast::Ident, symbol: Symbol) {
        if let Some(before) = self.scopes.declare(&name.name, symbol, name.span) {
            self.declared_twice(name, before);
        }
    }

    pub fn declared_twice(&mut self, name: &ast::Ident, before: Span) {
        if self.sink.has_code("E0315") && &*name.name == "main" {
            return;
        }
        let message = format!("`{}` is declared twice in this scope", name.name);
        self.sink
            .error("E0302", name.span, message)
            .label("declared again")
            .note_at(before, "first declared here")
            .help("give one of them another name");
    }

    /// Declares a name whose declaration has an error, so that no further message is about it.
    pub fn declare_broken(&mut self, name: &ast::Ident) {
        self.scopes
            .set_global(&name.name, Symbol::Broken, name.span);
    }

    pub fn new_var(&mut self, var: Var) -> VarId {
        self.program.vars.push(var);
        self.program.vars.len() - 1
    }

    /// Folds one node and reports errors in the computation.
    pub fn fold(&mut self, expr: Expr) -> Expr {
        let (span, ty) = (expr.span, expr.ty.clone());
        let message = match fold(&self.program, expr) {
            Ok(folded) => return folded,
            Err(Fault::DivisionByZero) => "division by zero",
            Err(Fault::NegativeShift) => "shift by a negative number",
            Err(Fault::TooLarge) => "the value has too many bits to compute at compile time",
        };
        self.sink.error("E0501", span, message);
        Expr {
            kind: ExprKind::Poison,
            ty,
            span,
        }
    }

    /// Returns the value of a compile-time integer; reports any other expression.
    pub fn constant_int(&mut self, expr: &ast::Expr, what: &str) -> Option<BigInt> {
        let value = self.expr(expr);
        match value.kind {
            ExprKind::Int(value) => Some(value),
            ExprKind::Poison => None,
            _ => {
                self.sink
                    .error(
                        "E0502",
                        expr.span,
                        format!("{what} is not known at compile time"),
                    )
                    .help("use a number or a constant");
                None
            }
        }
    }

    fn constant_width(
        &mut self,
        expr: &ast::Expr,
        what: &str,
        least: u32,
        most: u32,
    ) -> Option<u32> {
        let value = self.constant_int(expr, what)?;
        match value.to_u32().filter(|bits| (least..=most).contains(bits)) {
            Some(bits) => Some(bits),
            None => {
                self.sink.error(
                    "E0503",
                    expr.span,
                    format!("{what} is {value}, it must be from {least} to {most}"),
                );
                None
            }
        }
    }

    pub fn resolve_type(&mut self, ty: &ast::Type) -> Type {
        match &ty.kind {
            ast::TypeKind::Bool => Type::Bool,
            ast::TypeKind::Error => Type::Error,
            ast::TypeKind::MatchKind => Type::MatchKind,
            ast::TypeKind::String => Type::String,
            ast::TypeKind::Void => Type::Void,
            ast::TypeKind::DontCare => Type::DontCare,
            ast::TypeKind::Int => Type::Int,
            ast::TypeKind::Bits(width, signed) => {
                let least = u32::from(*signed);
                match self.constant_width(width, "the width", least, limits::WIDTH_BITS) {
                    Some(width) => Type::Bits {
                        width,
                        signed: *signed,
                    },
                    None => Type::Poison,
                }
            }
            ast::TypeKind::Varbit(width) => {
                match self.constant_width(width, "the width", 0, limits::WIDTH_BITS) {
                    Some(width) => Type::Varbit(width),
                    None => Type::Poison,
                }
            }
            ast::TypeKind::Tuple(items) => {
                let element = |item: &ast::Type| {
                    let ty = self.resolve_type(item);
                    self.legal_element(&ty, item.span);
                    ty
                };
                Type::Tuple(items.iter().map(element).collect())
            }
            ast::TypeKind::List(element) => Type::List(Box::new(self.resolve_type(element))),
            ast::TypeKind::Name(name, global, arguments) => {
                self.named_type(name, *global, arguments, ty.span)
            }
            ast::TypeKind::Stack(element, size) => self.stack_type(element, size),
        }
    }

    fn stack_type(&mut self, element: &ast::Type, size: &ast::Expr) -> Type {
        let span = element.span;
        let element = self.resolve_type(element);
        let Some(size) = self.constant_width(size, "the stack's size", 0, limits::STACK_SIZE)
        else {
            return Type::Poison;
        };
        if matches!(
            element,
            Type::Void | Type::Extern(..) | Type::Control(_) | Type::Parser(_) | Type::Package(..)
        ) {
            let message = format!(
                "a stack holds headers or header unions, not {}",
                self.program.type_name(&element)
            );
            self.sink.error("E0401", span, message);
            return Type::Poison;
        }
        Type::Stack(Box::new(element), size)
    }

    fn named_type(
        &mut self,
        name: &ast::Ident,
        global: bool,
        arguments: &[ast::Type],
        span: Span,
    ) -> Type {
        let symbol = self.scopes.lookup(&name.name, global).cloned();
        let resolved: Vec<Type> = arguments
            .iter()
            .map(|argument| self.resolve_type(argument))
            .collect();
        let (wanted, ty) = match symbol {
            Some(Symbol::Type(ty)) => (0, ty),
            Some(Symbol::GenericStruct(decl)) => {
                let wanted = decl.type_parameters.len();
                if wanted != resolved.len() {
                    (wanted, Type::Poison)
                } else {
                    (wanted, self.instantiate_struct(&decl, &resolved))
                }
            }
            Some(Symbol::Extern(id)) => {
                if self.contains_itself(&name.name, &resolved, span) {
                    return Type::Poison;
                }
                let wanted = self.externs[id].type_parameters.len();
                (wanted, Type::Extern(id, resolved.clone()))
            }
            Some(Symbol::Package(id)) => (
                self.packages[id].type_parameters.len(),
                Type::Package(id, resolved.clone()),
            ),
            Some(Symbol::ControlType(id)) => (
                self.control_types[id].type_parameters.len(),
                Type::ControlKind(id, resolved.clone()),
            ),
            Some(Symbol::ParserType(id)) => (
                self.parser_types[id].type_parameters.len(),
                Type::ParserKind(id, resolved.clone()),
            ),
            Some(Symbol::Control(id)) => (0, Type::Control(id)),
            Some(Symbol::Parser(id)) => (0, Type::Parser(id)),
            Some(Symbol::GenericBlock(id)) => {
                let block = self.generic_blocks[id].clone();
                let wanted = block.type_parameters().len();
                if wanted == resolved.len() {
                    (wanted, self.instantiate_block(&block, &resolved))
                } else {
                    (wanted, Type::OpenBlock(id))
                }
            }
            Some(Symbol::Broken) => return Type::Poison,
            Some(_) => {
                self.sink
                    .error("E0303", name.span, format!("`{}` is not a type", name.name));
                return Type::Poison;
            }
            None => {
                self.unknown("type", name);
                return Type::Poison;
            }
        };
        // Type arguments may be inferred where a package or extern is instantiated.
        let inferable = resolved.is_empty() && !matches!(ty, Type::Poison);
        if wanted != resolved.len() && !inferable {
            self.sink.error(
                "E0402",
                span,
                wrong_count(&name.name, "type ", wanted, resolved.len()),
            );
            return Type::Poison;
        }
        ty
    }

    pub fn instantiate_struct(&mut self, decl: &Rc<ast::Struct>, arguments: &[Type]) -> Type {
        if self.contains_itself(&decl.name.name, arguments, decl.name.span) {
            return Type::Poison;
        }
        let names: Vec<String> = arguments
            .iter()
            .map(|argument| self.program.type_name(argument))
            .collect();
        let name = format!("{}<{}>", decl.name.name, names.join(","));
        if let Some(id) = self.struct_instances.get(&name) {
            return Type::Struct(*id);
        }
        if self.depth > limits::NESTING {
            self.sink
                .error("E0204", decl.name.span, "this generic type contains itself");
            return Type::Poison;
        }
        let saved = self.scopes.detach();
        self.scopes.push();
        for (parameter, argument) in decl.type_parameters.iter().zip(arguments) {
            self.declare(parameter, Symbol::Type(argument.clone()));
        }
        self.depth += 1;
        let id = self.new_struct(decl, name.as_str().into());
        self.depth -= 1;
        self.scopes.attach(saved);
        self.struct_instances.insert(name, id);
        self.struct_origins
            .insert(id, (decl.clone(), arguments.to_vec()));
        Type::Struct(id)
    }

    pub fn new_struct(&mut self, decl: &ast::Struct, name: Rc<str>) -> usize {
        let mut fields: Vec<Field> = Vec::new();
        for field in &decl.fields {
            let ty = self.resolve_type(&field.ty);
            self.check_field(decl, &ty, field.ty.span);
            self.legal_length(&field.annotations, &fields);
            fields.push(Field {
                name: field.name.name.clone(),
                ty,
                annotations: self.annotations(&field.annotations),
                span: field.name.span,
            });
        }
        let annotations = self.annotations(&decl.annotations);
        self.program.structs.push(Struct {
            name,
            kind: decl.kind,
            fields,
            annotations,
            span: decl.name.span,
        });
        self.program.structs.len() - 1
    }

    fn check_field(&mut self, decl: &ast::Struct, ty: &Type, span: Span) {
        let below = self.program.underlying(ty).clone();
        let allowed = match decl.kind {
            ast::StructKind::Union => below.is_poison() || self.program.is_header(&below),
            ast::StructKind::Header => {
                matches!(
                    below,
                    Type::Bits { .. }
                        | Type::Bool
                        | Type::Varbit(_)
                        | Type::Poison
                        | Type::Variable(_)
                ) || self.fits_header(&below)
            }
            ast::StructKind::Struct => !matches!(
                below,
                Type::Void
                    | Type::Extern(..)
                    | Type::Control(_)
                    | Type::Parser(_)
                    | Type::Package(..)
                    | Type::DontCare
                    | Type::Int
            ),
        };
        if !allowed {
            let kind = match decl.kind {
                ast::StructKind::Union => "header union",
                ast::StructKind::Header => "header",
                ast::StructKind::Struct => "struct",
            };
            let message = format!(
                "a {kind} cannot have a field of type {}",
                self.program.type_name(ty)
            );
            self.sink.error("E0403", span, message);
        }
    }

    /// Whether a struct may be a part of a header: it contains only numbers and other such structs.
    fn fits_header(&self, ty: &Type) -> bool {
        let Type::Struct(id) = ty else {
            return false;
        };
        let decl = &self.program.structs[*id];
        decl.kind == ast::StructKind::Struct
            && decl.fields.iter().all(|field| {
                let below = self.program.underlying(&field.ty);
                matches!(
                    below,
                    Type::Bits { .. } | Type::Bool | Type::Poison | Type::Variable(_)
                ) || self.fits_header(below)
            })
    }

    pub fn declare_parameters(&mut self, parameters: &[ast::Parameter]) -> Vec<VarId> {
        let declare = |parameter: &ast::Parameter, checker: &mut Self| {
            let ty = checker.resolve_type(&parameter.ty);
            checker.legal_parameter(parameter, &ty);
            let default = parameter.default.as_ref().map(|value| {
                let value = checker.expr(value);
                let value = checker.coerce(value, &ty);
                checker.legal_default(&value);
                value
            });
            let annotations = checker.annotations(&parameter.annotations);
            let id = checker.new_var(Var {
                name: parameter.name.name.clone(),
                ty,
                direction: parameter.direction,
                is_parameter: true,
                default,
                annotations,
                span: parameter.name.span,
            });
            checker.declare(&parameter.name, Symbol::Var(id));
            id
        };
        parameters
            .iter()
            .map(|parameter| declare(parameter, self))
            .collect()
    }

    /// Makes a signature in which the type parameters remain variables.
    pub fn signature(
        &mut self,
        name: &Rc<str>,
        type_parameters: &[ast::Ident],
        parameters: &[ast::Parameter],
        returns: Option<&ast::Type>,
    ) -> Signature {
        self.scopes.push();
        for parameter in type_parameters {
            self.declare(
                parameter,
                Symbol::Type(Type::Variable(parameter.name.clone())),
            );
        }
        let parameters = parameters
            .iter()
            .map(|parameter| self.signature_parameter(parameter))
            .collect();
        let returns = returns.map_or(Type::Void, |ty| self.resolve_type(ty));
        self.scopes.pop();
        let type_parameters = type_parameters
            .iter()
            .map(|parameter| parameter.name.clone())
            .collect();
        Signature {
            name: name.clone(),
            type_parameters,
            parameters,
            returns,
            deprecated: None,
        }
    }

    fn signature_parameter(&mut self, parameter: &ast::Parameter) -> SignatureParameter {
        let ty = self.resolve_type(&parameter.ty);
        self.legal_parameter(parameter, &ty);
        let default = parameter.default.as_ref().map(|value| {
            let value = self.expr(value);
            self.coerce(value, &ty)
        });
        let optional = parameter
            .annotations
            .iter()
            .any(|annotation| &*annotation.name == "optional");
        SignatureParameter {
            name: parameter.name.name.clone(),
            direction: parameter.direction,
            ty,
            default,
            optional,
        }
    }

    /// Makes a signature from parameters that are already declared.
    pub fn signature_of(&self, name: &Rc<str>, parameters: &[VarId]) -> Signature {
        let parameter = |id: &VarId| {
            let var = &self.program.vars[*id];
            let optional = crate::ir::has_annotation(&var.annotations, "optional");
            SignatureParameter {
                name: var.name.clone(),
                direction: var.direction,
                ty: var.ty.clone(),
                default: var.default.clone(),
                optional,
            }
        };
        let parameters = parameters.iter().map(parameter).collect();
        Signature {
            name: name.clone(),
            type_parameters: Vec::new(),
            parameters,
            returns: Type::Void,
            deprecated: None,
        }
    }

    /// Whether a generic declaration uses itself. If so, reports an error, because instantiating the declaration would
    /// never end.
    pub fn is_recursive(&mut self, name: &ast::Ident, what: &str) -> bool {
        let is_open = self.open_generics.contains(&name.span);
        if is_open {
            self.sink
                .error("E0204", name.span, format!("`{}` {what} itself", name.name))
                .help("P4 has no recursion");
        }
        is_open
    }

    pub fn declare_function(&mut self, name: &ast::Ident, function: FunctionSymbol) {
        let mut overloads = match self.scopes.lookup(&name.name, true) {
            Some(Symbol::Functions(overloads)) => overloads.clone(),
            Some(_) => {
                self.sink.error(
                    "E0302",
                    name.span,
                    format!("`{}` is declared twice in this scope", name.name),
                );
                return;
            }
            None => Vec::new(),
        };
        overloads.push(function);
        self.scopes
            .set_global(&name.name, Symbol::Functions(overloads), name.span);
    }
}
