//! Warns about variables and parameters that are never read.
//!
//! A generic function and its variables are copied for each use of the function. Such a variable counts as unused only
//! if all its copies are unused. Parameters of the architecture's blocks are not reported, because the architecture
//! prescribes them. Parameters of the same types in other controls are not reported either, because controls often have
//! unused parameters for uniformity.

use std::collections::{HashMap, HashSet};

use super::Subject;
use super::walk::{self, Access};
use crate::diagnostic::Sink;
use crate::ir::{Direction, ExprKind, InstanceKind, VarId};
use crate::source::Span;
use crate::types::Type;
use crate::types::scope::{Declared, Kind};

#[derive(Default, Clone, Copy)]
struct Seen {
    read: bool,
    written: bool,
}

pub fn check(subject: &Subject<'_>, sink: &mut Sink) {
    let program = subject.program;
    let mut by_var: HashMap<VarId, Seen> = HashMap::new();
    walk::expressions(program, &mut |expr, how| {
        if let ExprKind::Var(id) = expr.kind {
            let seen = by_var.entry(id).or_default();
            seen.read |= how != Access::Write;
            seen.written |= how != Access::Read;
        }
    });
    let mut by_place: HashMap<Span, Seen> = HashMap::new();
    for declared in &program.names.declared {
        if let Kind::Var(id) = declared.kind {
            let found = by_var.get(&id).copied().unwrap_or_default();
            let seen = by_place.entry(declared.span).or_default();
            seen.read |= found.read;
            seen.written |= found.written;
        }
    }
    let forced = forced_parameters(subject);
    for declared in &program.names.declared {
        if let Kind::Var(id) = declared.kind
            && !subject.is_library(declared.span)
            && !declared.name.starts_with('_')
            && !forced.contains(&id)
        {
            let seen = by_place.get(&declared.span).copied().unwrap_or_default();
            report(subject, declared, id, seen, sink);
        }
    }
}

fn report(subject: &Subject<'_>, declared: &Declared, id: VarId, seen: Seen, sink: &mut Sink) {
    let var = &subject.program.vars[id];
    let name = &declared.name;
    // An `out` or `inout` parameter may be written for the caller.
    if seen.read || (seen.written && var.is_parameter) {
        return;
    }
    if seen.written {
        // Checksums, digests and field lists read metadata without naming it, but they do not read a block's variables.
        sink.warning(
            "W0802",
            declared.span,
            format!("variable `{name}` is assigned, but never read"),
        );
        return;
    }
    if var.is_parameter {
        let is_object = matches!(
            var.ty,
            Type::Extern(..) | Type::Control(_) | Type::Parser(_)
        );
        if !is_object && var.direction != Direction::Out {
            sink.warning("W0803", declared.span, format!("unused parameter `{name}`"))
                .help(format!("remove it, or name it `_{name}`"));
        }
    } else if !subject.program.names.is_used(declared) {
        sink.warning("W0801", declared.span, format!("unused variable `{name}`"));
    }
}

/// Returns the parameters that a program may have to declare without using them, because the architecture or a type
/// fixes their number and order.
fn forced_parameters(subject: &Subject<'_>) -> HashSet<VarId> {
    let program = subject.program;
    let mut out: HashSet<VarId> = HashSet::new();
    let mut block = |ty: &Type| match ty {
        Type::Control(id) => out.extend(&program.controls[*id].parameters),
        Type::Parser(id) => out.extend(&program.parsers[*id].parameters),
        _ => {}
    };
    // The arguments of a constructor must fit its parameters.
    walk::expressions(program, &mut |expr, _| {
        if let ExprKind::Construct(instance) = &expr.kind {
            instance
                .arguments
                .iter()
                .flatten()
                .for_each(|argument| block(&argument.ty));
        }
    });
    for instance in &program.instances {
        for argument in instance.arguments.iter().flatten() {
            block(&argument.ty);
        }
        if let (InstanceKind::Control(_) | InstanceKind::Parser(_), true) = (
            &instance.kind,
            program
                .globals
                .iter()
                .any(|id| program.instances[*id].span == instance.span),
        ) {
            match instance.kind {
                InstanceKind::Control(id) => block(&Type::Control(id)),
                InstanceKind::Parser(id) => block(&Type::Parser(id)),
                _ => {}
            }
        }
    }
    // Controls often pass on everything that the architecture gives to each block.
    let handed_on: Vec<&Type> = out.iter().map(|id| &program.vars[*id].ty).collect();
    let controls = program
        .controls
        .iter()
        .flat_map(|control| &control.parameters);
    let conventional: Vec<VarId> = controls
        .filter(|id| handed_on.contains(&&program.vars[**id].ty))
        .copied()
        .collect();
    out.extend(conventional);
    // An action without a body declares only parameters for the control plane.
    for action in program
        .actions
        .iter()
        .filter(|action| action.body.is_empty())
    {
        out.extend(&action.parameters);
    }
    // A control without an instance has its own warning. The author will probably pass it to `V1Switch` later, which
    // fixes its parameters.
    for declared in &program.names.declared {
        if matches!(declared.kind, Kind::Control | Kind::Parser) && !program.names.is_used(declared)
        {
            let controls = program.controls.iter().map(|c| (c.span, &c.parameters));
            let parsers = program.parsers.iter().map(|p| (p.span, &p.parameters));
            for (_, parameters) in controls
                .chain(parsers)
                .filter(|(span, _)| *span == declared.span)
            {
                out.extend(parameters);
            }
        }
    }
    out
}
