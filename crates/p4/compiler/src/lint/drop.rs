//! Warns about a `mark_to_drop` that a later assignment to `egress_spec` undoes.
//!
//! v1model drops a packet only if its `egress_spec` is the drop port at the end. The analysis checks only later
//! statements of the same block, because they surely run after the `mark_to_drop`.

use super::{Subject, reach, walk};
use crate::diagnostic::Sink;
use crate::ir::{Callee, Expr, ExprKind, Program, Statement, StatementKind};
use crate::source::Span;
use crate::types::Type;

const DROP_PORT: u32 = 511;

pub fn check(subject: &Subject<'_>, sink: &mut Sink) {
    for body in walk::bodies(subject.program) {
        block(subject.program, body, sink);
        walk::statements(body, &mut |statement| {
            for inner in walk::blocks(statement) {
                block(subject.program, inner, sink);
            }
        });
    }
}

fn block(program: &Program, body: &[Statement], sink: &mut Sink) {
    let mut marked: Option<Span> = None;
    for statement in body {
        if reach::ends(statement) {
            return;
        }
        match &statement.kind {
            StatementKind::Call(call) if is_mark(call) => marked = Some(statement.span),
            StatementKind::Assign(left, right) if is_egress_spec(program, left) => {
                // A constant may be the drop port itself.
                if let Some(before) = marked.filter(|_| !is_drop_port(right)) {
                    sink.warning(
                        "W0855",
                        statement.span,
                        "this undoes `mark_to_drop`: the packet is not dropped",
                    )
                    .note_at(before, "marked here");
                    marked = None;
                }
            }
            _ => {}
        }
    }
}

fn is_drop_port(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Int(port) if *port == num_bigint::BigInt::from(DROP_PORT))
}

fn is_mark(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Call(call)
        if matches!(&call.callee, Callee::ExternFunction(name, _) if &**name == "mark_to_drop"))
}

fn is_egress_spec(program: &Program, place: &Expr) -> bool {
    let ExprKind::Field(base, at) = &place.kind else {
        return false;
    };
    let Type::Struct(id) = base.ty else {
        return false;
    };
    let found = &program.structs[id];
    &*found.name == "standard_metadata_t" && &*found.fields[*at].name == "egress_spec"
}
