//! Checks controls and parsers, and the declarations inside them.

use std::collections::HashMap;
use std::rc::Rc;

use super::Type;
use super::check::{Checker, Place};
use super::generic::GenericBlock;
use super::scope::Symbol;
use crate::ir::{self, Control, Direction, Expr, State, Target, Transition, Var};
use crate::syntax::ast::{self, Local};

impl Checker<'_> {
    pub fn control(&mut self, decl: &Rc<ast::Control>) {
        if decl.body.is_none() {
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
        }
        if !decl.type_parameters.is_empty() {
            return self.generic_block(GenericBlock::Control(decl.clone()));
        }
        self.control_body(decl);
        self.declare(&decl.name, Symbol::Control(self.program.controls.len() - 1));
    }

    fn generic_block(&mut self, block: GenericBlock) {
        let name = block.name().clone();
        if !self.check_open_block(&block) {
            return self.declare_broken(&name);
        }
        self.generic_blocks.push(block);
        let id = self.generic_blocks.len() - 1;
        self.declare(&name, Symbol::GenericBlock(id));
    }

    /// Adds a control. Its type parameters, if any, are already declared.
    pub fn control_body(&mut self, decl: &ast::Control) {
        let Some((locals, apply)) = &decl.body else {
            return;
        };
        self.place = Place::Control;
        self.loops = 0;
        self.scopes.push();
        let constructor = self.declare_parameters(&decl.constructor);
        let parameters = self.declare_parameters(&decl.parameters);
        self.legal_block_parameters(&parameters, &constructor);
        let mut control = Control {
            name: decl.name.name.clone(),
            parameters,
            constructor,
            span: decl.name.span,
            ..Control::default()
        };
        self.scopes.push();
        self.unknowns.enter_control(locals);
        for local in locals {
            self.local(local, &mut control);
        }
        self.scopes.push();
        self.returns = Type::Void;
        control.apply = self.statements(apply);
        (0..3).for_each(|_| self.scopes.pop());
        self.place = Place::Top;
        self.program.controls.push(control);
    }

    fn local(&mut self, local: &Local, control: &mut Control) {
        match local {
            Local::Const(decl) => self.constant(decl),
            Local::Var(decl, span) => {
                let declared = self.variable(decl, *span);
                control.variables.push(declared);
            }
            Local::Instance(decl) => {
                let instance = self.instance(decl);
                control.instances.extend(instance);
                control.locals.extend(instance.map(ir::Local::Instance));
            }
            Local::Action(decl) => {
                self.action(decl, false);
                let action = self.program.actions.len() - 1;
                control.locals.push(ir::Local::Action(action));
            }
            Local::Table(decl) => {
                let table = self.table(decl);
                control.locals.push(ir::Local::Table(table));
            }
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
        let ty = self.whole_type(&decl.ty);
        if !self.legal_variable(&ty) {
            let message = format!(
                "a variable cannot have the type {}",
                self.program.type_name(&ty)
            );
            let help = match ty {
                Type::List(_) => {
                    "a list is known at compile time: make it a constructor's parameter, or use a tuple"
                }
                _ => "use bit<W> or int<W>, or `const`",
            };
            self.sink.error("E0404", decl.ty.span, message).help(help);
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
            default: None,
            annotations: Vec::new(),
            span,
        };
        let id = self.new_var(var);
        self.declare(&decl.name, Symbol::Var(id));
        (id, init)
    }

    pub fn parser(&mut self, decl: &Rc<ast::Parser>) {
        if decl.body.is_none() {
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
        }
        if !decl.type_parameters.is_empty() {
            return self.generic_block(GenericBlock::Parser(decl.clone()));
        }
        self.parser_body(decl);
        self.declare(&decl.name, Symbol::Parser(self.program.parsers.len() - 1));
    }

    /// Adds a parser. Its type parameters, if any, are already declared.
    pub fn parser_body(&mut self, decl: &ast::Parser) {
        let Some((locals, states)) = &decl.body else {
            return;
        };
        self.place = Place::Parser;
        self.loops = 0;
        self.scopes.push();
        let constructor = self.declare_parameters(&decl.constructor);
        let parameters = self.declare_parameters(&decl.parameters);
        self.legal_block_parameters(&parameters, &constructor);
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
        self.reaches_end(&parser);
        self.program.parsers.push(parser);
    }

    fn value_set(&mut self, decl: &ast::ValueSet, parser: &mut ir::Parser) {
        let ty = self.resolve_type(&decl.ty);
        let size = self.expr(&decl.size);
        self.legal_value_set(decl, &ty, &size);
        let (name, annotations) = (decl.name.name.clone(), self.annotations(&decl.annotations));
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
            names.entry(state.name.name.clone()).or_insert(index);
            if matches!(&*state.name.name, "accept" | "reject") {
                let message = format!("every parser has the state `{}` already", state.name.name);
                self.sink
                    .error("E0302", state.name.span, message)
                    .help("give it another name");
            }
        }
        match names.get("start") {
            Some(start) => parser.start = *start,
            None if self.sink.is_unreliable("start") => {}
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
            (text, None) if self.sink.is_unreliable(text) => Target::Reject,
            (text, None) => {
                let similar = super::scope::nearest(
                    text,
                    names.keys().map(|name| &**name).chain(["accept", "reject"]),
                );
                self.sink
                    .error("E0306", name.span, format!("cannot find state `{text}`"))
                    .did_you_mean(name.span, similar);
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
                let shapes: Vec<Type> = keys.iter().map(|key| key.ty.clone()).collect();
                let keys: Vec<Expr> = keys.iter().flat_map(|key| self.key_parts(key)).collect();
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
                let mut checked = Vec::new();
                for case in cases {
                    let sets = self.keyset(&case.keys, &shapes, case.span);
                    let target = self.target(&case.next, names);
                    checked.push((sets, target, case.span));
                }
                Transition::Select(keys, checked)
            }
        }
    }
}
