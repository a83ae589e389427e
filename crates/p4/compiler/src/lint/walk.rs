//! Walks over the checked program: every body, every statement, every expression.

use crate::ir::{
    ActionUse, Call, Callee, Direction, Expr, ExprKind, LoopHead, Program, Statement,
    StatementKind, Transition,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Both,
}

/// Returns the bodies of all functions, actions, controls and parser states.
pub fn bodies(program: &Program) -> impl Iterator<Item = &[Statement]> {
    let functions = program.functions.iter().map(|function| &function.body);
    let actions = program.actions.iter().map(|action| &action.body);
    let controls = program.controls.iter().map(|control| &control.apply);
    let states = program
        .parsers
        .iter()
        .flat_map(|parser| &parser.states)
        .map(|state| &state.statements);
    functions
        .chain(actions)
        .chain(controls)
        .chain(states)
        .map(Vec::as_slice)
}

/// Visits all statements of a body and of its inner blocks, outer statements first.
pub fn statements<'p>(body: &'p [Statement], visit: &mut dyn FnMut(&'p Statement)) {
    for statement in body {
        visit(statement);
        for inner in blocks(statement) {
            statements(inner, visit);
        }
    }
}

pub fn blocks(statement: &Statement) -> Vec<&[Statement]> {
    match &statement.kind {
        StatementKind::Block(inner) => vec![inner],
        StatementKind::If(_, yes, no) => vec![yes, no],
        StatementKind::SwitchAction(_, cases) => {
            cases.iter().map(|(_, body)| body.as_slice()).collect()
        }
        StatementKind::SwitchValue(_, cases) => {
            cases.iter().map(|(_, body)| body.as_slice()).collect()
        }
        StatementKind::For(whole) => match &whole.head {
            LoopHead::While(init, _, updates) => vec![init, &whole.body, updates],
            LoopHead::Range(..) | LoopHead::Each(..) => vec![&whole.body],
        },
        StatementKind::Assign(..)
        | StatementKind::Call(_)
        | StatementKind::Declare(..)
        | StatementKind::Return(_)
        | StatementKind::Exit
        | StatementKind::Break
        | StatementKind::Continue => Vec::new(),
    }
}

/// Visits every expression that the program computes; `visit` also gets whether it is read or written.
pub fn expressions(program: &Program, visit: &mut dyn FnMut(&Expr, Access)) {
    for body in bodies(program) {
        statements(body, &mut |statement| {
            statement_expressions(program, statement, visit);
        });
    }
    let controls = program
        .controls
        .iter()
        .flat_map(|control| &control.variables);
    let parsers = program.parsers.iter().flat_map(|parser| &parser.variables);
    for default in program.vars.iter().filter_map(|var| var.default.as_ref()) {
        expression(program, default, Access::Read, visit);
    }
    for (_, init) in controls.chain(parsers) {
        if let Some(init) = init {
            expression(program, init, Access::Read, visit);
        }
    }
    for transition in states(program) {
        if let Transition::Select(keys, cases) = transition {
            let sets = cases.iter().flat_map(|(sets, ..)| sets);
            for expr in keys.iter().chain(sets) {
                expression(program, expr, Access::Read, visit);
            }
        }
    }
    for instance in &program.instances {
        for argument in instance.arguments.iter().flatten() {
            expression(program, argument, Access::Read, visit);
        }
    }
    for set in &program.value_sets {
        expression(program, &set.size, Access::Read, visit);
    }
    for table in &program.tables {
        for key in &table.keys {
            expression(program, &key.expr, Access::Read, visit);
        }
        for property in &table.properties {
            expression(program, &property.value, Access::Both, visit);
        }
        let entries = table.entries.iter().flat_map(|(_, entries)| entries);
        for entry in entries.clone() {
            for key in entry.keys.iter().chain(&entry.priority) {
                expression(program, key, Access::Read, visit);
            }
        }
        let uses = table.actions.iter().chain(&table.default_action);
        for used in uses.chain(entries.map(|entry| &entry.action)) {
            action_arguments(program, used, visit);
        }
    }
}

fn states(program: &Program) -> impl Iterator<Item = &Transition> {
    program
        .parsers
        .iter()
        .flat_map(|parser| &parser.states)
        .map(|state| &state.transition)
}

fn action_arguments(program: &Program, used: &ActionUse, visit: &mut dyn FnMut(&Expr, Access)) {
    let parameters = &program.actions[used.action].parameters;
    for (parameter, argument) in parameters.iter().zip(&used.arguments) {
        if let Some(argument) = argument {
            let access = access(program.vars[*parameter].direction);
            expression(program, argument, access, visit);
        }
    }
}

/// Visits the expressions of one statement, not those of the blocks inside.
pub fn statement_expressions(
    program: &Program,
    statement: &Statement,
    visit: &mut dyn FnMut(&Expr, Access),
) {
    match &statement.kind {
        StatementKind::Assign(left, right) => {
            expression(program, right, Access::Read, visit);
            expression(program, left, Access::Write, visit);
        }
        StatementKind::Call(expr)
        | StatementKind::If(expr, ..)
        | StatementKind::SwitchAction(expr, _)
        | StatementKind::Declare(_, Some(expr))
        | StatementKind::Return(Some(expr)) => {
            expression(program, expr, Access::Read, visit);
        }
        StatementKind::SwitchValue(expr, cases) => {
            expression(program, expr, Access::Read, visit);
            for label in cases.iter().flat_map(|(labels, _)| labels).flatten() {
                expression(program, label, Access::Read, visit);
            }
        }
        StatementKind::For(whole) => match &whole.head {
            LoopHead::While(_, condition, _) => {
                expression(program, condition, Access::Read, visit);
            }
            LoopHead::Range(_, low, high) => {
                expression(program, low, Access::Read, visit);
                expression(program, high, Access::Read, visit);
            }
            LoopHead::Each(_, items) => {
                for item in items {
                    expression(program, item, Access::Read, visit);
                }
            }
        },
        StatementKind::Block(_)
        | StatementKind::Declare(_, None)
        | StatementKind::Return(None)
        | StatementKind::Exit
        | StatementKind::Break
        | StatementKind::Continue => {}
    }
}

/// Visits an expression and all its parts, each with its access.
pub fn expression(
    program: &Program,
    expr: &Expr,
    how: Access,
    visit: &mut dyn FnMut(&Expr, Access),
) {
    visit(expr, how);
    let mut read = |inner: &Expr| expression(program, inner, Access::Read, visit);
    match &expr.kind {
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::Str(_)
        | ExprKind::Error(_)
        | ExprKind::Member(..)
        | ExprKind::Var(_)
        | ExprKind::Instance(_)
        | ExprKind::InvalidHeader
        | ExprKind::DontCare
        | ExprKind::ValueSet(_)
        | ExprKind::Poison => {}
        ExprKind::Construct(instance) => {
            instance.arguments.iter().flatten().for_each(read);
        }
        ExprKind::Field(inner, _) | ExprKind::Stack(inner, _) | ExprKind::Slice(inner, ..) => {
            expression(program, inner, how, visit);
        }
        ExprKind::Index(inner, index) => {
            read(index);
            expression(program, inner, how, visit);
        }
        ExprKind::Unary(_, inner) | ExprKind::Cast(inner) | ExprKind::Hit(inner, _) => read(inner),
        ExprKind::Binary(_, a, b) | ExprKind::Range(a, b) | ExprKind::Mask(a, b) => {
            read(a);
            read(b);
        }
        ExprKind::Mux(a, b, c) => {
            read(a);
            read(b);
            read(c);
        }
        ExprKind::List(items) => items.iter().for_each(read),
        ExprKind::Call(call) => {
            match &call.callee {
                Callee::ExternMethod(object, _) | Callee::ApplyBlock(object) => read(object),
                Callee::Builtin(crate::ir::Builtin::IsValid, object) => read(object),
                Callee::Builtin(_, object) => expression(program, object, Access::Write, visit),
                _ => {}
            }
            for (at, argument) in call.arguments.iter().enumerate() {
                if let Some(argument) = argument {
                    expression(program, argument, argument_access(program, call, at), visit);
                }
            }
        }
    }
}

fn access(direction: Direction) -> Access {
    match direction {
        Direction::In | Direction::None => Access::Read,
        Direction::Out => Access::Write,
        Direction::InOut => Access::Both,
    }
}

/// Returns the parameters of a call's callee, or `None` if the program does not declare the callee.
pub fn parameters<'p>(program: &'p Program, call: &Call) -> Option<&'p [usize]> {
    use crate::types::Type;
    Some(match &call.callee {
        Callee::Function(id) => &program.functions[*id].parameters,
        Callee::Action(id) => &program.actions[*id].parameters,
        Callee::ApplyBlock(object) => match object.ty {
            Type::Control(id) => &program.controls[id].parameters,
            Type::Parser(id) => &program.parsers[id].parameters,
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns how a call accesses an argument. An extern that the architecture does not declare may read and write its
/// arguments.
pub fn argument_access(program: &Program, call: &Call, at: usize) -> Access {
    if let Some(parameters) = parameters(program, call) {
        return parameters.get(at).map_or(Access::Both, |parameter| {
            access(program.vars[*parameter].direction)
        });
    }
    let name = match &call.callee {
        Callee::ExternFunction(name, _) | Callee::ExternMethod(_, name) => &**name,
        Callee::Builtin(..) | Callee::ApplyTable(_) => return Access::Read,
        _ => return Access::Both,
    };
    match (name, at) {
        ("extract" | "read" | "random" | "hash", 0) | ("execute_meter", 1) => Access::Write,
        ("mark_to_drop", 0) | ("update_checksum" | "update_checksum_with_payload", 2) => {
            Access::Both
        }
        (
            "extract"
            | "read"
            | "random"
            | "hash"
            | "execute_meter"
            | "update_checksum"
            | "update_checksum_with_payload"
            | "verify_checksum"
            | "verify_checksum_with_payload"
            | "emit"
            | "write"
            | "count"
            | "advance"
            | "lookahead"
            | "verify"
            | "digest"
            | "log_msg"
            | "assert"
            | "assume"
            | "truncate"
            | "clone"
            | "clone3"
            | "clone_preserving_field_list"
            | "resubmit"
            | "resubmit_preserving_field_list"
            | "recirculate"
            | "recirculate_preserving_field_list",
            _,
        ) => Access::Read,
        _ => Access::Both,
    }
}
