//! Checks constructor calls, which make instances of externs, controls, parsers and packages.

use super::Type;
use super::check::{Checker, Signature};
use super::declare::instance_kind;
use super::unify::Bindings;
use crate::ir::{Expr, ExprKind, Instance, InstanceKind};
use crate::source::Span;
use crate::syntax::ast;

impl Checker<'_> {
    pub fn construct_expr(
        &mut self,
        ty: &Type,
        arguments: &[ast::Argument],
        callee: Span,
        span: Span,
    ) -> Expr {
        match self.construct(ty, arguments, callee, span) {
            Some(instance) => {
                let ty = match &instance.kind {
                    InstanceKind::Extern(id, arguments) => Type::Extern(*id, arguments.clone()),
                    InstanceKind::Package(id, arguments) => Type::Package(*id, arguments.clone()),
                    InstanceKind::Control(id) => Type::Control(*id),
                    InstanceKind::Parser(id) => Type::Parser(*id),
                };
                Expr {
                    kind: ExprKind::Construct(Box::new(instance)),
                    ty,
                    span,
                }
            }
            None => self.poison(span),
        }
    }

    fn constant_arguments(&mut self, values: &[Option<Expr>]) {
        for value in values.iter().flatten() {
            let is_object = matches!(value.kind, ExprKind::Instance(_) | ExprKind::Construct(_));
            if !is_object && !self.is_constant(value) {
                self.sink.error(
                    "E0502",
                    value.span,
                    "a constructor's argument must be known at compile time",
                );
            }
        }
    }

    /// Checks a constructor call and makes an instance without a name.
    pub fn construct(
        &mut self,
        ty: &Type,
        arguments: &[ast::Argument],
        callee: Span,
        span: Span,
    ) -> Option<Instance> {
        let inferred;
        let ty = match ty {
            Type::OpenBlock(id) => {
                let block = self.generic_blocks[*id].clone();
                inferred = self.infer_block(&block, arguments, callee);
                &inferred
            }
            _ => ty,
        };
        if ty.is_poison() {
            for argument in arguments
                .iter()
                .filter_map(|argument| argument.value.as_ref())
            {
                self.expr(argument);
            }
            return None;
        }
        let (signatures, type_arguments) = self.constructors(ty, callee)?;
        let signature = self.choose(&self.program.type_name(ty), &signatures, arguments, span)?;
        self.construct_with(ty, type_arguments, &signature, arguments, span)
    }

    /// Returns the constructors of a type, and the type arguments that the program gives explicitly.
    fn constructors(&mut self, ty: &Type, callee: Span) -> Option<(Vec<Signature>, Vec<Type>)> {
        Some(match ty {
            Type::Extern(id, given) => (self.externs[*id].constructors.clone(), given.clone()),
            Type::Package(id, given) => (vec![self.packages[*id].clone()], given.clone()),
            Type::Control(id) => {
                let control = &self.program.controls[*id];
                (
                    vec![self.signature_of(&control.name, &control.constructor)],
                    Vec::new(),
                )
            }
            Type::Parser(id) => {
                let parser = &self.program.parsers[*id];
                (
                    vec![self.signature_of(&parser.name, &parser.constructor)],
                    Vec::new(),
                )
            }
            other => {
                let message = format!("{} cannot be instantiated", self.program.type_name(other));
                self.sink.error("E0505", callee, message);
                return None;
            }
        })
    }

    fn construct_with(
        &mut self,
        ty: &Type,
        type_arguments: Vec<Type>,
        signature: &Signature,
        arguments: &[ast::Argument],
        span: Span,
    ) -> Option<Instance> {
        let mut bindings: Bindings = signature
            .type_parameters
            .iter()
            .cloned()
            .zip(type_arguments)
            .collect();
        let written = bindings.clone();
        let values = self.bind(signature, arguments, &mut bindings, span)?;
        self.as_written(&written, &bindings, span);
        self.constant_arguments(&values);
        let arguments: Vec<Type> = signature
            .type_parameters
            .iter()
            .map(|name| bindings.get(name).cloned().unwrap_or(Type::DontCare))
            .collect();
        if matches!(ty, Type::Extern(..)) && !self.inferred(&arguments, true, span) {
            return None;
        }
        let kind = match ty {
            Type::Extern(id, _) => InstanceKind::Extern(*id, arguments),
            Type::Package(id, _) => InstanceKind::Package(*id, arguments),
            other => instance_kind(other)?,
        };
        Some(Instance {
            name: "".into(),
            kind,
            parameters: (signature.parameters.iter())
                .map(|parameter| parameter.name.clone())
                .collect(),
            arguments: values,
            annotations: Vec::new(),
            span,
        })
    }
}
