//! Checks the rules of declarations that can be checked only when types are known: default values, complete types,
//! `@length`, and the methods that an instance implements (P4_16 language specification 1.2.5, sections 6.8.2, 7.2,
//! 11.1, 11.3).

use super::Type;
use super::check::Checker;
use crate::ir::{Expr, Field};
use crate::syntax::ast;

impl Checker<'_> {
    /// Checks that `@length(...)` of a varbit field uses only constants and fields before it.
    pub fn legal_length(&mut self, annotations: &[ast::Annotation], before: &[Field]) {
        let lengths = annotations
            .iter()
            .filter(|annotation| &*annotation.name == "length");
        for annotation in lengths {
            let ast::AnnotationBody::Tokens(tokens) = &annotation.body else {
                continue;
            };
            for (at, token) in tokens.iter().enumerate() {
                let Some(word) = token.word() else { continue };
                let is_member = at > 0 && tokens[at - 1].is(".");
                let is_type = matches!(word, "bit" | "int" | "bool" | "true" | "false");
                let known = before.iter().any(|field| &*field.name == word)
                    || self.scopes.lookup(word, false).is_some();
                if is_member || is_type || known {
                    continue;
                }
                let similar = super::scope::nearest(word, before.iter().map(|field| &*field.name));
                self.sink
                    .error("E0301", token.span, format!("cannot find value `{word}`"))
                    .help("a length is made of constants and of fields in front of this one")
                    .did_you_mean(token.span, similar);
            }
        }
    }

    /// Checks that a parameter's default value is known at compile time.
    pub fn legal_default(&mut self, value: &Expr) {
        if !self.is_constant(value) {
            self.sink
                .error(
                    "E0502",
                    value.span,
                    "a parameter's default value must be known at compile time",
                )
                .help("a constant is made of numbers, other constants and operators");
        }
    }

    /// Returns the type of a constant or variable. Reports a type argument `_`, because nothing would say which type it
    /// stands for.
    pub fn whole_type(&mut self, ty: &ast::Type) -> Type {
        let arguments = match &ty.kind {
            ast::TypeKind::Name(_, _, arguments) => &arguments[..],
            _ => &[],
        };
        let open = arguments
            .iter()
            .find(|argument| matches!(argument.kind, ast::TypeKind::DontCare));
        match open {
            None => self.resolve_type(ty),
            Some(open) => {
                self.sink
                    .error("E0402", open.span, "`_` does not say which type this is")
                    .help("write the type argument: it cannot be inferred here");
                Type::Poison
            }
        }
    }

    /// Checks that an instance implements all abstract methods of the extern, and no others.
    pub fn legal_implementation(&mut self, decl: &ast::Instance, ty: &Type) {
        let name = decl.name.span;
        let Type::Extern(id, _) = ty else {
            if decl.methods.is_some() {
                self.sink.error(
                    "E0438",
                    name,
                    "only an extern's instance has methods of its own",
                );
            }
            return;
        };
        let abstracts = self.externs[*id].abstracts.clone();
        let extern_name = self.program.extern_names[*id].clone();
        let methods = decl.methods.as_deref().unwrap_or(&[]);
        if abstracts.is_empty() && decl.methods.is_some() {
            let message = format!("{extern_name} has no abstract methods");
            self.sink
                .error("E0438", name, message)
                .help("leave `= { ... }` out");
            return;
        }
        for method in methods {
            if !abstracts.iter().any(|(name, _)| *name == method.name.name) {
                let message = format!(
                    "{extern_name} has no abstract method `{}`",
                    method.name.name
                );
                self.sink.error("E0438", method.name.span, message);
            }
        }
        let given =
            |name: &std::rc::Rc<str>| methods.iter().any(|method| method.name.name == *name);
        let missing = abstracts
            .iter()
            .find(|(name, optional)| !optional && !given(name));
        if let Some((missing, _)) = missing {
            let message = format!("the abstract method `{missing}` is not implemented");
            self.sink
                .error("E0438", name, message)
                .help("write it after the instance's name: `= { ... };`");
        }
    }

    /// Checks that a method has the parameters and the result of the abstract method that it implements.
    pub fn legal_method(
        &mut self,
        method: &ast::Function,
        id: usize,
        arguments: &[Type],
        parameters: &[usize],
        returns: &Type,
    ) {
        let info = &self.externs[id];
        let bindings = (info.type_parameters.iter().cloned())
            .zip(arguments.iter().cloned())
            .collect();
        let named: Vec<_> = (info.methods.iter())
            .filter(|signature| signature.name == method.name.name)
            .cloned()
            .collect();
        let fits = |wanted: &super::check::Signature| {
            // The implementation may omit optional parameters of the declaration.
            let needed = wanted
                .parameters
                .iter()
                .filter(|parameter| !parameter.optional);
            (needed.count()..=wanted.parameters.len()).contains(&parameters.len())
                && self.replace(&wanted.returns, &bindings) == *returns
                && wanted
                    .parameters
                    .iter()
                    .zip(parameters)
                    .all(|(wanted, found)| {
                        let ty = self.replace(&wanted.ty, &bindings);
                        let found = &self.program.vars[*found];
                        wanted.direction == found.direction
                            && (ty == found.ty
                                || found.ty.is_poison()
                                || super::unify::is_open(&ty))
                    })
        };
        if !named.is_empty() && !named.iter().any(fits) {
            let message = format!(
                "`{}` is not declared like the abstract method of {}",
                method.name.name, self.program.extern_names[id]
            );
            self.sink
                .error("E0438", method.name.span, message)
                .help("give it the same parameter types, directions and result");
        }
    }
}
