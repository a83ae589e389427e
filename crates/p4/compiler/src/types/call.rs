//! Checks calls: finds which overload is meant, its type arguments, and which argument belongs to which parameter.

use super::Type;
use super::check::{Checker, Place, Signature, SignatureParameter};
use super::scope::{FunctionSymbol, Symbol};
use super::unify::{Bindings, is_open};
use crate::ir::{Call, Callee, Direction, Expr, ExprKind};
use crate::source::Span;
use crate::spelling::wrong_count;
use crate::syntax::ast;

/// A call's arguments in the order of the parameters.
type Slots<'a> = Vec<Option<&'a ast::Argument>>;

impl Checker<'_> {
    pub fn call(
        &mut self,
        callee: &ast::Expr,
        types: &[ast::Type],
        arguments: &[ast::Argument],
        span: Span,
    ) -> Expr {
        match &*callee.kind {
            ast::ExprKind::Member(base, method) => {
                self.method_call(base, method, types, arguments, span)
            }
            ast::ExprKind::Name(name, global) => {
                match self.scopes.lookup(&name.name, *global).cloned() {
                    Some(Symbol::Functions(overloads)) => {
                        self.function_call(name, &overloads, types, arguments, span)
                    }
                    Some(Symbol::Action(id)) => {
                        self.no_type_arguments(types, "an action");
                        self.action_call(id, arguments, span)
                    }
                    Some(Symbol::Broken) => self.poison(span),
                    Some(
                        Symbol::Extern(_)
                        | Symbol::Control(_)
                        | Symbol::Parser(_)
                        | Symbol::GenericBlock(_)
                        | Symbol::Package(_),
                    ) => {
                        let kind = ast::TypeKind::Name(name.clone(), *global, types.to_vec());
                        let ty = self.resolve_type(&ast::Type {
                            kind,
                            span: callee.span,
                        });
                        self.construct_expr(&ty, arguments, callee.span, span)
                    }
                    Some(found) => {
                        let message = format!("`{}` cannot be called", name.name);
                        let is_table = matches!(found, Symbol::Table(_));
                        let raw = self.sink.error("E0310", callee.span, message);
                        if is_table {
                            raw.help(format!("a table is applied: `{}.apply()`", name.name));
                        }
                        self.poison(span)
                    }
                    None => {
                        self.unknown("function or action", name);
                        self.poison(span)
                    }
                }
            }
            _ => {
                self.sink
                    .error("E0310", callee.span, "this cannot be called");
                self.poison(span)
            }
        }
    }

    /// Returns the overload that takes arguments of this number and with these names.
    pub fn choose(
        &mut self,
        name: &str,
        overloads: &[Signature],
        arguments: &[ast::Argument],
        span: Span,
    ) -> Option<Signature> {
        let at = self.choose_at(name, overloads, arguments, span)?;
        Some(overloads[at].clone())
    }

    fn choose_at(
        &mut self,
        name: &str,
        overloads: &[Signature],
        arguments: &[ast::Argument],
        span: Span,
    ) -> Option<usize> {
        let fits = |signature: &Signature| {
            let named = arguments
                .iter()
                .filter_map(|argument| argument.name.as_ref());
            let known = named.clone().all(|name| {
                signature
                    .parameters
                    .iter()
                    .any(|parameter| parameter.name == name.name)
            });
            let optional = |parameter: &&super::check::SignatureParameter| {
                parameter.optional || parameter.default.is_some()
            };
            let least =
                signature.parameters.len() - signature.parameters.iter().filter(optional).count();
            known && (least..=signature.parameters.len()).contains(&arguments.len())
        };
        if let Some(found) = overloads.iter().position(&fits) {
            let as_long = overloads[found].parameters.len();
            let mut others = overloads[found + 1..].iter().filter(|other| fits(other));
            if others.any(|other| other.parameters.len() == as_long) {
                let message = format!("`{name}` is ambiguous: more than one declaration fits");
                self.sink
                    .error("E0416", span, message)
                    .help("name the arguments: `f(x = 1)`");
            }
            return Some(found);
        }
        if let [only] = overloads
            && let Some(name) = arguments
                .iter()
                .filter_map(|argument| argument.name.as_ref())
                .find(|name| !only.parameters.iter().any(|known| known.name == name.name))
        {
            let names = only.parameters.iter().map(|known| &*known.name);
            let similar = super::scope::nearest(&name.name, names);
            let message = format!("`{}` has no parameter `{}`", only.name, name.name);
            self.sink
                .error("E0417", name.span, message)
                .did_you_mean(name.span, similar);
            return None;
        }
        let counts: Vec<String> = overloads
            .iter()
            .map(|signature| signature.parameters.len().to_string())
            .collect();
        let wanted = if counts.is_empty() {
            "no".to_owned()
        } else {
            counts.join(" or ")
        };
        let message = format!(
            "`{name}` takes {wanted} argument{}, {} {} given",
            if wanted == "1" { "" } else { "s" },
            arguments.len(),
            if arguments.len() == 1 { "was" } else { "were" },
        );
        let shapes: Vec<String> = overloads
            .iter()
            .filter(|signature| !signature.parameters.is_empty())
            .map(|signature| format!("`{}`", self.shape(signature)))
            .collect();
        let raw = self.sink.error("E0416", span, message);
        if !shapes.is_empty() {
            raw.help(format!("it is {}", shapes.join(" or ")));
        }
        None
    }

    fn slots<'a>(
        &mut self,
        signature: &Signature,
        arguments: &'a [ast::Argument],
    ) -> Option<Slots<'a>> {
        let mut slots: Slots<'a> = vec![None; signature.parameters.len()];
        for (index, argument) in arguments.iter().enumerate() {
            let at = match &argument.name {
                Some(name) => signature
                    .parameters
                    .iter()
                    .position(|parameter| parameter.name == name.name),
                None => (index < slots.len()).then_some(index),
            };
            match at {
                Some(at) if slots[at].is_none() => slots[at] = Some(argument),
                Some(_) => {
                    self.sink
                        .error("E0417", argument.span, "this parameter is given twice");
                    return None;
                }
                None => {
                    let name = argument.name.as_ref().map_or("", |name| &name.name);
                    self.sink.error(
                        "E0417",
                        argument.span,
                        format!("`{}` has no parameter `{name}`", signature.name),
                    );
                    return None;
                }
            }
        }
        Some(slots)
    }

    /// Checks arguments against a signature and infers its type parameters.
    pub fn bind(
        &mut self,
        signature: &Signature,
        arguments: &[ast::Argument],
        bindings: &mut Bindings,
        span: Span,
    ) -> Option<Vec<Option<Expr>>> {
        let slots = self.slots(signature, arguments)?;
        let mut values: Vec<Option<Expr>> = Vec::new();
        for (parameter, slot) in signature.parameters.iter().zip(&slots) {
            let value = slot
                .and_then(|argument| argument.value.as_ref())
                .map(|value| self.expr(value));
            if let Some(value) = &value {
                self.unify(&parameter.ty, &value.ty, bindings);
            }
            values.push(value);
        }
        if self.is_swapped(signature, arguments, &values) {
            return None;
        }
        let poisoned = values.iter().flatten().any(|value| value.ty.is_poison());
        let mut out = Vec::new();
        for ((parameter, slot), value) in signature.parameters.iter().zip(slots).zip(values) {
            let wanted = self.replace(&parameter.ty, bindings);
            out.push(match value {
                Some(value) => Some(self.check_argument(parameter, &wanted, value)),
                // `_` for an `out` parameter has the parameter's type.
                None if slot.is_some() && parameter.direction == Direction::Out => Some(Expr {
                    kind: ExprKind::DontCare,
                    ty: wanted,
                    span: slot.map_or(span, |argument| argument.span),
                }),
                None if slot.is_some() => {
                    self.sink.error(
                        "E0417",
                        span,
                        format!(
                            "`_` can only stand for an `out` parameter, not for `{}`",
                            parameter.name
                        ),
                    );
                    None
                }
                None if parameter.default.is_some() => parameter.default.clone(),
                None if parameter.optional => None,
                None => {
                    self.sink.error(
                        "E0416",
                        span,
                        format!("no argument for `{}`", parameter.name),
                    );
                    None
                }
            });
        }
        (!poisoned || !out.is_empty()).then_some(out)
    }

    /// Reports swapped arguments, as in `register.read(index, value)`: the argument for an `out` or `inout` parameter
    /// cannot be written, but an argument that is only read could be. One message replaces a message for each argument.
    /// Returns whether there was a report.
    fn is_swapped(
        &mut self,
        signature: &Signature,
        arguments: &[ast::Argument],
        values: &[Option<Expr>],
    ) -> bool {
        if arguments.iter().any(|argument| argument.name.is_some()) {
            return false;
        }
        let is_written = |parameter: &SignatureParameter| {
            matches!(parameter.direction, Direction::Out | Direction::InOut)
        };
        let pairs = || {
            let all = signature.parameters.iter().zip(values);
            all.filter_map(|(parameter, value)| Some((parameter, value.as_ref()?)))
        };
        let unwritable = pairs()
            .find(|(parameter, value)| is_written(parameter) && !self.is_place(value))
            .map(|(parameter, value)| (parameter.name.clone(), value.span));
        let place_is_read =
            pairs().any(|(parameter, value)| !is_written(parameter) && self.is_place(value));
        let Some((name, span)) = unwritable.filter(|_| place_is_read) else {
            return false;
        };
        let shape = self.shape(signature);
        let message = format!(
            "`{name}` is written, but this argument cannot be written: are the arguments swapped?"
        );
        self.sink
            .error("E0415", span, message)
            .help(format!("it is `{shape}`"));
        true
    }

    fn is_place(&self, value: &Expr) -> bool {
        self.why_not_writable(value).is_none()
    }

    fn check_argument(
        &mut self,
        parameter: &SignatureParameter,
        wanted: &Type,
        value: Expr,
    ) -> Expr {
        if matches!(parameter.direction, Direction::Out | Direction::InOut) {
            if !self.check_writable(&value) {
                return value;
            }
            let fits = value.ty == *wanted
                || value.ty.is_poison()
                || wanted.is_poison()
                || is_open(wanted);
            if !fits {
                let (a, b) = (
                    self.program.type_name(wanted),
                    self.program.type_name(&value.ty),
                );
                let message = format!(
                    "`{}` needs a variable or field of type {a}, found {b}",
                    parameter.name
                );
                self.sink
                    .error("E0401", value.span, message)
                    .help("what is written back cannot be cast; use a variable of that type");
            }
            return value;
        }
        if is_open(wanted) && matches!(value.ty, Type::ListOf(_)) {
            return value;
        }
        // A list that is passed for a parameter of tuple type may contain a number without a width. `lower`, which
        // needs the number's bits, reports such a number.
        if let (Type::Tuple(wanted), Type::ListOf(_)) = (wanted, &value.ty)
            && wanted.contains(&Type::Int)
        {
            return value;
        }
        self.coerce(value, wanted)
    }

    pub fn call_signature(
        &mut self,
        signature: &Signature,
        types: &[ast::Type],
        arguments: &[ast::Argument],
        start: Bindings,
        span: Span,
    ) -> Option<(Vec<Option<Expr>>, Bindings)> {
        let mut bindings = start;
        let mut written = Bindings::new();
        if !types.is_empty() {
            if types.len() != signature.type_parameters.len() {
                let wanted = signature.type_parameters.len();
                let message = wrong_count(&signature.name, "type ", wanted, types.len());
                self.sink.error("E0402", span, message);
                return None;
            }
            for (name, ty) in signature.type_parameters.iter().zip(types) {
                let ty = self.resolve_type(ty);
                written.insert(name.clone(), ty.clone());
                bindings.insert(name.clone(), ty);
            }
        }
        if let Some(why) = &signature.deprecated {
            let message = format!("`{}` is deprecated", signature.name);
            self.sink.warning("W0301", span, message).help(why.clone());
        }
        let values = self.bind(signature, arguments, &mut bindings, span)?;
        self.as_written(&written, &bindings, span);
        self.no_strings(signature, &bindings, span);
        Some((values, bindings))
    }

    /// Reports a type argument that the program gives but for which inference found another type.
    pub fn as_written(&mut self, written: &Bindings, bindings: &Bindings, span: Span) {
        let changed = written.iter().find(|(name, ty)| {
            !is_open(ty) && !ty.is_poison() && bindings.get(*name).is_some_and(|found| found != *ty)
        });
        if let Some((name, ty)) = changed
            && let Some(found) = bindings.get(name).filter(|found| !found.is_poison())
        {
            let message = format!(
                "`{name}` is given as {}, the arguments make it {}",
                self.program.type_name(ty),
                self.program.type_name(found)
            );
            self.sink.error("E0401", span, message);
        }
    }

    /// Rejects `string` as the type that a type parameter stands for if a parameter with a direction has that type.
    fn no_strings(&mut self, signature: &Signature, bindings: &Bindings, span: Span) {
        let string = signature.parameters.iter().find(|parameter| {
            parameter.direction != Direction::None
                && matches!(&parameter.ty, Type::Variable(name) if bindings.get(name) == Some(&Type::String))
        });
        if let Some(parameter) = string {
            let message = format!(
                "`{}` has a direction and cannot take a string",
                parameter.name
            );
            self.sink.error("E0422", span, message).help(
                "strings are known at compile time; only a parameter without direction takes one",
            );
        }
    }

    fn function_call(
        &mut self,
        name: &ast::Ident,
        overloads: &[FunctionSymbol],
        types: &[ast::Type],
        arguments: &[ast::Argument],
        span: Span,
    ) -> Expr {
        let mut signatures = Vec::new();
        for overload in overloads {
            signatures.push(match overload {
                FunctionSymbol::Extern(id) => self.extern_functions[*id].clone(),
                FunctionSymbol::User(id) => {
                    let decl = self.functions[*id].clone();
                    let saved = self.scopes.detach();
                    let signature = self.signature(
                        &decl.name.name,
                        &decl.type_parameters,
                        &decl.parameters,
                        Some(&decl.returns),
                    );
                    self.scopes.attach(saved);
                    signature
                }
            });
        }
        let Some(at) = self.choose_at(&name.name, &signatures, arguments, span) else {
            return self.poison(span);
        };
        let signature = signatures.swap_remove(at);
        let Some((values, bindings)) =
            self.call_signature(&signature, types, arguments, Bindings::new(), span)
        else {
            return self.poison(span);
        };
        let type_arguments: Vec<Type> = signature
            .type_parameters
            .iter()
            .map(|name| bindings.get(name).cloned().unwrap_or(Type::DontCare))
            .collect();
        let ty = self.replace(&signature.returns, &bindings);
        if &*name.name == "static_assert" {
            return self.static_assert(&values, span);
        }
        let callee = match &overloads[at] {
            FunctionSymbol::Extern(_) => Callee::ExternFunction(name.name.clone(), type_arguments),
            FunctionSymbol::User(id) => {
                if !self.inferred(&type_arguments, false, span) {
                    return self.poison(span);
                }
                if type_arguments.iter().any(is_open) {
                    self.sink
                        .error(
                            "E0402",
                            span,
                            format!("cannot infer the type arguments of `{}`", name.name),
                        )
                        .help("write them: `f<bit<8>>(...)`");
                    return self.poison(span);
                }
                Callee::Function(self.instantiate_function(*id, &type_arguments))
            }
        };
        Expr {
            kind: ExprKind::Call(Box::new(Call {
                callee,
                arguments: values,
            })),
            ty,
            span,
        }
    }

    fn static_assert(&mut self, values: &[Option<Expr>], span: Span) -> Expr {
        let text = match values.get(1) {
            Some(Some(Expr {
                kind: ExprKind::Str(text),
                ..
            })) => format!(": {text}"),
            _ => String::new(),
        };
        match values.first() {
            Some(Some(Expr {
                kind: ExprKind::Bool(true) | ExprKind::Poison,
                ..
            })) => {}
            Some(Some(Expr {
                kind: ExprKind::Bool(false),
                ..
            })) => {
                self.sink
                    .error("E0506", span, format!("static_assert failed{text}"));
            }
            _ => {
                self.sink.error(
                    "E0502",
                    span,
                    "static_assert needs a condition that is known at compile time",
                );
            }
        }
        Expr {
            kind: ExprKind::Bool(true),
            ty: Type::Bool,
            span,
        }
    }

    fn action_call(&mut self, id: usize, arguments: &[ast::Argument], span: Span) -> Expr {
        if !matches!(self.place, Place::Action | Place::Control) {
            self.sink.error(
                "E0309",
                span,
                "an action can be called only in a control or another action",
            );
        }
        let action = &self.program.actions[id];
        let signature = self.signature_of(&action.name, &action.parameters);
        let Some(signature) = self.choose(&signature.name.clone(), &[signature], arguments, span)
        else {
            return self.poison(span);
        };
        let Some(values) = self.bind(&signature, arguments, &mut Bindings::new(), span) else {
            return self.poison(span);
        };
        Expr {
            kind: ExprKind::Call(Box::new(Call {
                callee: Callee::Action(id),
                arguments: values,
            })),
            ty: Type::Void,
            span,
        }
    }
}
