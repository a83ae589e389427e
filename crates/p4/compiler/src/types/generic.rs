//! Checks controls and parsers with type parameters once for each set of type arguments, like generic functions and
//! structs. The specification has no such controls and parsers; p4c accepts them.

use std::rc::Rc;

use super::Type;
use super::check::Checker;
use super::scope::Symbol;
use super::unify::{Bindings, is_open};
use crate::ir::Expr;
use crate::source::Span;
use crate::syntax::ast;

/// A control or parser with type parameters, resolved at each use.
#[derive(Clone)]
pub enum GenericBlock {
    Control(Rc<ast::Control>),
    Parser(Rc<ast::Parser>),
}

impl GenericBlock {
    pub fn name(&self) -> &ast::Ident {
        match self {
            Self::Control(decl) => &decl.name,
            Self::Parser(decl) => &decl.name,
        }
    }

    pub fn type_parameters(&self) -> &[ast::Ident] {
        match self {
            Self::Control(decl) => &decl.type_parameters,
            Self::Parser(decl) => &decl.type_parameters,
        }
    }

    fn constructor(&self) -> &[ast::Parameter] {
        match self {
            Self::Control(decl) => &decl.constructor,
            Self::Parser(decl) => &decl.constructor,
        }
    }
}

impl Checker<'_> {
    pub fn instantiate_block(&mut self, block: &GenericBlock, arguments: &[Type]) -> Type {
        let names: Vec<String> = arguments
            .iter()
            .map(|argument| self.program.type_name(argument))
            .collect();
        let key = format!(
            "{}@{}<{}>",
            block.name().name,
            block.name().span.start,
            names.join(",")
        );
        if let Some(ty) = self.block_instances.get(&key) {
            return ty.clone();
        }
        if self.is_recursive(block.name(), "contains") {
            return Type::Poison;
        }
        self.open_generics.push(block.name().span);
        let saved = self.scopes.detach();
        let outer = (self.place, self.returns.clone(), self.loops);
        self.scopes.push();
        for (parameter, argument) in block.type_parameters().iter().zip(arguments) {
            self.declare(parameter, Symbol::Type(argument.clone()));
        }
        let ty = match block {
            GenericBlock::Control(decl) => {
                self.control_body(decl);
                Type::Control(self.program.controls.len() - 1)
            }
            GenericBlock::Parser(decl) => {
                self.parser_body(decl);
                Type::Parser(self.program.parsers.len() - 1)
            }
        };
        self.scopes.attach(saved);
        self.open_generics.pop();
        (self.place, self.returns, self.loops) = outer;
        self.block_instances.insert(key, ty.clone());
        ty
    }

    pub fn infer_block(
        &mut self,
        block: &GenericBlock,
        arguments: &[ast::Argument],
        span: Span,
    ) -> Type {
        let saved = self.scopes.detach();
        let name = block.name().name.clone();
        let signature = self.signature(&name, block.type_parameters(), block.constructor(), None);
        self.scopes.attach(saved);
        let mut bindings = Bindings::new();
        for (parameter, argument) in signature.parameters.iter().zip(arguments) {
            if let Some(value) = &argument.value {
                let value: Expr = self.expr(value);
                self.unify(&parameter.ty, &value.ty, &mut bindings);
            }
        }
        let types: Vec<Type> = signature
            .type_parameters
            .iter()
            .map(|name| bindings.get(name).cloned().unwrap_or(Type::DontCare))
            .collect();
        if types.iter().any(is_open) {
            self.sink
                .error(
                    "E0402",
                    span,
                    format!("cannot infer the type arguments of `{name}`"),
                )
                .help(format!("write them: `{name}<...>`"));
            return Type::Poison;
        }
        self.instantiate_block(block, &types)
    }
}
