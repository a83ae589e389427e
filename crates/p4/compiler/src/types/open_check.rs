//! Checks each generic body once as it is written, with a placeholder type for each type parameter. So a mistake is
//! found even if nothing uses the function, control or parser, and the message is about the body, not about a use.

use std::rc::Rc;

use super::Type;
use super::check::Checker;
use super::generic::GenericBlock;
use crate::ir::Newtype;
use crate::syntax::ast::{self, Ident};

/// The codes of errors that do not depend on the type arguments. Checks that need the type arguments (what can be
/// extracted, stored, compared) happen at each use.
const CODES: &[&str] = &[
    "E0204", "E0301", "E0302", "E0303", "E0306", "E0308", "E0309", "E0310", "E0311", "E0401",
    "E0406", "E0413", "E0415", "E0416", "E0417",
];

impl Checker<'_> {
    pub fn check_open_function(&mut self, id: usize) -> bool {
        let decl: Rc<ast::Function> = self.functions[id].clone();
        self.check_open(&decl.type_parameters, |checker, types| {
            checker.instantiate_function(id, types);
        })
    }

    pub fn check_open_block(&mut self, block: &GenericBlock) -> bool {
        self.check_open(block.type_parameters(), |checker, types| {
            checker.instantiate_block(block, types);
        })
    }

    /// Runs a check in which each type parameter is a placeholder type with the parameter's name. Keeps the check's
    /// errors and nothing else.
    fn check_open(&mut self, parameters: &[Ident], check: impl FnOnce(&mut Self, &[Type])) -> bool {
        let before = self.sizes();
        let (n_messages, n_declared) = (self.sink.len(), self.scopes.n_declared());
        let instances = (
            self.function_instances.clone(),
            self.struct_instances.clone(),
            self.block_instances.clone(),
        );
        let mut types = Vec::new();
        for parameter in parameters {
            self.program.newtypes.push(Newtype {
                name: parameter.name.clone(),
                ty: Type::Variable(parameter.name.clone()),
                annotations: Vec::new(),
            });
            types.push(Type::Newtype(self.program.newtypes.len() - 1));
        }
        check(self, &types);
        (
            self.function_instances,
            self.struct_instances,
            self.block_instances,
        ) = instances;
        self.shrink(&before);
        self.scopes.forget_declared(n_declared);
        self.sink.keep_errors(n_messages, CODES);
        self.sink.len() == n_messages
    }

    /// The sizes of all lists that a check adds to.
    fn sizes(&self) -> [usize; 10] {
        let program = &self.program;
        [
            program.vars.len(),
            program.structs.len(),
            program.newtypes.len(),
            program.functions.len(),
            program.actions.len(),
            program.tables.len(),
            program.value_sets.len(),
            program.controls.len(),
            program.parsers.len(),
            program.instances.len(),
        ]
    }

    fn shrink(&mut self, sizes: &[usize; 10]) {
        let [
            vars,
            structs,
            newtypes,
            functions,
            actions,
            tables,
            value_sets,
            controls,
            parsers,
            instances,
        ] = *sizes;
        let program = &mut self.program;
        program.vars.truncate(vars);
        program.structs.truncate(structs);
        program.newtypes.truncate(newtypes);
        program.functions.truncate(functions);
        program.actions.truncate(actions);
        program.tables.truncate(tables);
        program.value_sets.truncate(value_sets);
        program.controls.truncate(controls);
        program.parsers.truncate(parsers);
        program.instances.truncate(instances);
        self.struct_origins.retain(|id, _| *id < structs);
    }
}
