//! Lowers the deparser to an order of headers, and to the calls that run before the first header is written.

use std::rc::Rc;

use bmv2_json::Deparser;

use super::expression::has_call;
use super::headers::Architecture;
use super::place::Place;
use super::{Binding, BlockInstance, Lower, Object, Stage};
use crate::ir::{Callee, Expr, ExprKind, InstanceKind, Statement, StatementKind, StructKind};
use crate::types::Type;

impl Lower<'_> {
    pub fn lower_deparser(&mut self, block: &Rc<BlockInstance>, places: &Architecture) {
        self.stage = Stage::Deparser;
        let InstanceKind::Control(id) = block.kind else {
            return;
        };
        let control = &self.program.controls[id];
        let bindings = [
            Binding::Object(Object::Packet),
            Binding::Place(places.headers.clone()),
        ];
        for (parameter, binding) in control.parameters.iter().zip(bindings) {
            self.env.insert(*parameter, binding);
        }
        self.env.extend(block.arguments.iter().cloned());
        self.path.clone_from(&block.path);
        self.enter_instances(&block.path, &control.instances);
        let mut order = Vec::new();
        let primitives = self.straight_line(|lower| lower.emits(&control.apply, &mut order));
        self.path.clear();
        let source_info = self.source_info(control.span);
        self.json.deparsers.push(Deparser {
            name: "deparser".to_owned(),
            id: 0,
            source_info,
            order,
            primitives,
        });
    }

    fn emits(&mut self, statements: &[Statement], order: &mut Vec<String>) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Block(inner) => self.emits(inner, order),
                StatementKind::If(condition, yes, no) => match self.resolve(condition).kind {
                    ExprKind::Bool(true) => self.emits(yes, order),
                    ExprKind::Bool(false) => self.emits(no, order),
                    _ if does_nothing(statement) => {}
                    _ => {
                        self.sink
                            .error("E0612", statement.span, "simple_switch's deparser has no conditions")
                            .help("make the header invalid in egress instead; an invalid header is not sent");
                    }
                },
                StatementKind::Call(Expr {
                    kind: ExprKind::Call(call),
                    ..
                }) => match (&call.callee, call.arguments.first()) {
                    (Callee::ExternMethod(_, method), Some(Some(argument)))
                        if &**method == "emit" =>
                    {
                        match self.place(argument) {
                            Some(place) => self.emitted(&place, order),
                            None => self.unsupported(argument.span, "to emit this"),
                        }
                    }
                    (Callee::ApplyBlock(object), _) => {
                        self.emit_block(object, &call.arguments, order, statement)
                    }
                    // simple_switch runs these calls before it writes the first header.
                    (Callee::ExternFunction(name, types), _)
                        if matches!(&**name, "log_msg" | "assert" | "assume") =>
                    {
                        self.extern_function(name, types, &call.arguments, statement.span)
                    }
                    _ => self.only_emit(statement),
                },
                StatementKind::Return(_) => return,
                _ => self.only_emit(statement),
            }
        }
    }

    fn only_emit(&mut self, statement: &Statement) {
        self.sink
            .error(
                "E0612",
                statement.span,
                "simple_switch's deparser only emits headers, and calls log_msg, assert and assume",
            )
            .help("do this at the end of egress");
    }

    fn emit_block(
        &mut self,
        object: &Expr,
        arguments: &[Option<Expr>],
        order: &mut Vec<String>,
        statement: &Statement,
    ) {
        let Some(Object::Block(block)) = self.object(object) else {
            return self.only_emit(statement);
        };
        let InstanceKind::Control(id) = block.kind else {
            return;
        };
        let control = &self.program.controls[id];
        let saved = self.env.clone();
        self.bind_block(&control.parameters, arguments, None, statement.span);
        self.env.extend(block.arguments.iter().cloned());
        self.emits(&control.apply, order);
        self.env = saved;
    }

    fn emitted(&self, place: &Place, order: &mut Vec<String>) {
        match place {
            Place::Members(members) => members
                .iter()
                .for_each(|member| self.emitted(member, order)),
            Place::Header { name, .. } => order.push(name.clone()),
            Place::Union { name, id } => {
                order.extend(
                    self.program.structs[*id]
                        .fields
                        .iter()
                        .map(|field| format!("{name}.{}", field.name)),
                );
            }
            Place::Stack {
                name,
                element: Type::Struct(id),
                size,
            } => {
                for at in 0..*size {
                    let element = format!("{name}[{at}]");
                    let member = if self.program.structs[*id].kind == StructKind::Union {
                        Place::Union {
                            name: element,
                            id: *id,
                        }
                    } else {
                        Place::Header {
                            name: element,
                            id: *id,
                            union: None,
                        }
                    };
                    self.emitted(&member, order);
                }
            }
            _ => {}
        }
    }
}

fn does_nothing(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Block(inner) => inner.iter().all(does_nothing),
        StatementKind::If(condition, yes, no) => {
            !has_call(condition) && yes.iter().chain(no).all(does_nothing)
        }
        _ => false,
    }
}
