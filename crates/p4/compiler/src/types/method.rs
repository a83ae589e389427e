//! Checks calls of methods: `apply`, the built-in methods of headers and stacks, and the methods of externs.

use super::Type;
use super::check::{Checker, Place, Signature};
use super::scope::{Symbol, nearest};
use super::unify::{Bindings, is_open};
use crate::ir::{Builtin, Call, Callee, Expr, ExprKind};
use crate::source::Span;
use crate::spelling::wrong_count;
use crate::syntax::ast;

/// A call `.method<types>(arguments)` as written.
struct MethodCall<'a> {
    method: &'a ast::Ident,
    types: &'a [ast::Type],
    arguments: &'a [ast::Argument],
    span: Span,
}

impl Checker<'_> {
    pub fn method_call(
        &mut self,
        base: &ast::Expr,
        method: &ast::Ident,
        types: &[ast::Type],
        arguments: &[ast::Argument],
        span: Span,
    ) -> Expr {
        if let ast::ExprKind::Name(name, global) = &*base.kind {
            match self.scopes.lookup(&name.name, *global).cloned() {
                Some(Symbol::Table(id)) => return self.apply_table(id, method, arguments, span),
                // `C.apply()` is short for `C() c; c.apply()`.
                Some(Symbol::Control(_) | Symbol::Parser(_) | Symbol::GenericBlock(_))
                    if &*method.name == "apply" =>
                {
                    let kind = ast::TypeKind::Name(name.clone(), *global, types.to_vec());
                    let ty = self.resolve_type(&ast::Type {
                        kind,
                        span: base.span,
                    });
                    let object = self.construct_expr(&ty, &[], base.span, base.span);
                    return self.apply_block(object, arguments, span);
                }
                Some(Symbol::Type(ty)) => {
                    self.no_arguments(types, arguments, method);
                    return self.size_method(&ty, method, span);
                }
                _ => {}
            }
        }
        let object = self.expr(base);
        match object.ty.clone() {
            Type::Poison => self.poison(span),
            Type::Control(_) | Type::Parser(_) | Type::ControlKind(..) | Type::ParserKind(..)
                if &*method.name == "apply" =>
            {
                self.apply_block(object, arguments, span)
            }
            Type::Extern(id, given) => {
                let call = MethodCall {
                    method,
                    types,
                    arguments,
                    span,
                };
                self.extern_method(object, id, given, call)
            }
            Type::Struct(_) | Type::Stack(..) => self.builtin(object, method, arguments, span),
            ref other => match &*method.name {
                "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes" => {
                    self.no_arguments(types, arguments, method);
                    self.size_method(other, method, span)
                }
                _ => {
                    let message = format!(
                        "{} has no method `{}`",
                        self.program.type_name(other),
                        method.name
                    );
                    let raw = self.sink.error("E0307", method.span, message);
                    if matches!(other, Type::ApplyResult(_))
                        && matches!(&*method.name, "hit" | "miss")
                    {
                        raw.help(format!("`{}` is a bool: leave out `()`", method.name));
                    }
                    self.poison(span)
                }
            },
        }
    }

    /// Checks `h.minSizeInBits()` and similar calls, which are constants.
    fn size_method(&mut self, ty: &Type, method: &ast::Ident, span: Span) -> Expr {
        let bits = self.program.packed_bits(ty, method.name.starts_with("max"));
        let value = match (&*method.name, bits) {
            ("minSizeInBits" | "maxSizeInBits", Some(bits)) => bits,
            ("minSizeInBytes" | "maxSizeInBytes", Some(bits)) => bits.div_ceil(8),
            _ => {
                let message = format!(
                    "{} has no method `{}`",
                    self.program.type_name(ty),
                    method.name
                );
                let methods = ["isValid", "setValid", "setInvalid"].into_iter();
                let similar = self
                    .program
                    .is_header(ty)
                    .then(|| nearest(&method.name, methods));
                self.sink
                    .error("E0307", method.span, message)
                    .did_you_mean(method.span, similar.flatten());
                return self.poison(span);
            }
        };
        Expr {
            kind: ExprKind::Int(value.into()),
            ty: Type::Int,
            span,
        }
    }

    fn apply_table(
        &mut self,
        id: usize,
        method: &ast::Ident,
        arguments: &[ast::Argument],
        span: Span,
    ) -> Expr {
        if &*method.name != "apply" {
            self.sink
                .error(
                    "E0307",
                    method.span,
                    format!("a table has no method `{}`", method.name),
                )
                .help("it has `apply`");
            return self.poison(span);
        }
        if let Some(first) = arguments.first() {
            self.sink
                .error("E0416", first.span, "a table's apply takes no arguments");
        }
        if self.place != Place::Control {
            self.sink
                .error(
                    "E0309",
                    span,
                    "a table can be applied only in a control's apply block",
                )
                .help("an action or function cannot apply tables");
        }
        let call = Call {
            callee: Callee::ApplyTable(id),
            arguments: Vec::new(),
        };
        Expr {
            kind: ExprKind::Call(Box::new(call)),
            ty: Type::ApplyResult(id),
            span,
        }
    }

    fn apply_block(&mut self, object: Expr, arguments: &[ast::Argument], span: Span) -> Expr {
        let (signature, wanted) = match object.ty {
            Type::Control(id) => {
                let control = &self.program.controls[id];
                (
                    self.signature_of(&control.name, &control.parameters),
                    Place::Control,
                )
            }
            Type::Parser(id) => {
                let parser = &self.program.parsers[id];
                (
                    self.signature_of(&parser.name, &parser.parameters),
                    Place::Parser,
                )
            }
            // The object is a constructor parameter. The parameters of `apply` follow from the constructor parameter's
            // type, because the block that will be given as the argument is not known here.
            Type::ControlKind(id, ref given) => {
                let kind = self.control_types[id].clone();
                (self.kind_signature(kind, given), Place::Control)
            }
            Type::ParserKind(id, ref given) => {
                let kind = self.parser_types[id].clone();
                (self.kind_signature(kind, given), Place::Parser)
            }
            _ => return self.poison(span),
        };
        if self.place != wanted {
            let what = if wanted == Place::Parser {
                "a parser is applied in a parser"
            } else {
                "a control is applied in a control's apply block"
            };
            self.sink.error("E0309", span, what);
        }
        let Some(signature) = self.choose(&signature.name.clone(), &[signature], arguments, span)
        else {
            return self.poison(span);
        };
        let Some(values) = self.bind(&signature, arguments, &mut Bindings::new(), span) else {
            return self.poison(span);
        };
        Expr {
            kind: ExprKind::Call(Box::new(Call {
                callee: Callee::ApplyBlock(object),
                arguments: values,
            })),
            ty: Type::Void,
            span,
        }
    }

    fn kind_signature(&mut self, mut kind: Signature, given: &[Type]) -> Signature {
        let bindings: Bindings = (kind.type_parameters.iter().cloned())
            .zip(given.iter().cloned())
            .collect();
        for parameter in &mut kind.parameters {
            parameter.ty = self.replace(&parameter.ty, &bindings);
        }
        kind.type_parameters.clear();
        kind
    }

    fn extern_method(
        &mut self,
        object: Expr,
        id: usize,
        given: Vec<Type>,
        call: MethodCall<'_>,
    ) -> Expr {
        let MethodCall {
            method,
            types,
            arguments,
            span,
        } = call;
        let info = &self.externs[id];
        let overloads: Vec<Signature> = info
            .methods
            .iter()
            .filter(|signature| signature.name == method.name)
            .cloned()
            .collect();
        if overloads.is_empty() {
            let similar = nearest(
                &method.name,
                info.methods.iter().map(|signature| &*signature.name),
            );
            let message = format!(
                "{} has no method `{}`",
                self.program.type_name(&object.ty),
                method.name
            );
            self.sink
                .error("E0307", method.span, message)
                .did_you_mean(method.span, similar);
            return self.poison(span);
        }
        let start: Bindings = info.type_parameters.iter().cloned().zip(given).collect();
        let Some(signature) = self.choose(&method.name, &overloads, arguments, span) else {
            return self.poison(span);
        };
        let Some((values, bindings)) =
            self.call_signature(&signature, types, arguments, start, span)
        else {
            return self.poison(span);
        };
        let ty = self.replace(&signature.returns, &bindings);
        if is_open(&ty) && ty != Type::Void {
            self.sink
                .error(
                    "E0402",
                    span,
                    format!("cannot infer the type argument of `{}`", method.name),
                )
                .help(format!("write it: `{}<bit<8>>(...)`", method.name));
        }
        let callee = Callee::ExternMethod(object, method.name.clone());
        Expr {
            kind: ExprKind::Call(Box::new(Call {
                callee,
                arguments: values,
            })),
            ty,
            span,
        }
    }

    fn builtin(
        &mut self,
        object: Expr,
        method: &ast::Ident,
        arguments: &[ast::Argument],
        span: Span,
    ) -> Expr {
        let is_header = self.program.is_header(&object.ty);
        let (builtin, wanted, ty) = match (&*method.name, &object.ty) {
            ("isValid", Type::Struct(_)) if is_header || self.program.is_union(&object.ty) => {
                (Builtin::IsValid, 0, Type::Bool)
            }
            ("setValid", _) if is_header => (Builtin::SetValid, 0, Type::Void),
            ("setInvalid", _) if is_header => (Builtin::SetInvalid, 0, Type::Void),
            ("push_front", Type::Stack(..)) => (Builtin::PushFront, 1, Type::Void),
            ("pop_front", Type::Stack(..)) => (Builtin::PopFront, 1, Type::Void),
            (_, ty) => {
                let ty = ty.clone();
                return self.size_method(&ty, method, span);
            }
        };
        if arguments.len() != wanted {
            let message = wrong_count(&method.name, "", wanted, arguments.len());
            self.sink.error("E0416", span, message);
            return self.poison(span);
        }
        let values = arguments
            .iter()
            .map(|argument| argument.value.as_ref().map(|value| self.expr(value)))
            .collect();
        if builtin != Builtin::IsValid {
            self.check_writable(&object);
        }
        let call = Call {
            callee: Callee::Builtin(builtin, object),
            arguments: values,
        };
        Expr {
            kind: ExprKind::Call(Box::new(call)),
            ty,
            span,
        }
    }
}
