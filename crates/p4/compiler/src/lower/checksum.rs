//! The controls that verify and compute checksums. Each call in them becomes a checksum in the JSON, with the
//! conditions under which the program makes the call.

use std::rc::Rc;

use bmv2_json::{Checksum, Value};

use super::headers::Architecture;
use super::place::{Place, operation};
use super::{Binding, BlockInstance, Lower, Stage};
use crate::ir::{Callee, Expr, ExprKind, InstanceKind, Statement, StatementKind};
use crate::source::Span;
use crate::types::Type;

impl Lower<'_> {
    pub fn lower_checksums(
        &mut self,
        block: &Rc<BlockInstance>,
        places: &Architecture,
        stage: Stage,
    ) {
        self.stage = stage;
        let InstanceKind::Control(id) = block.kind else {
            return;
        };
        let control = &self.program.controls[id];
        for (parameter, place) in control
            .parameters
            .iter()
            .zip([&places.headers, &places.metadata])
        {
            self.env.insert(*parameter, Binding::Place(place.clone()));
        }
        for (parameter, binding) in &block.arguments {
            self.env.insert(*parameter, binding.clone());
        }
        self.path.clone_from(&block.path);
        self.enter_instances(&block.path, &control.instances);
        self.resources.calls_extern_functions |= !control.apply.is_empty();
        self.checksum_statements(&control.apply, &[]);
        let leftover = self.take_body();
        if let Some(first) = leftover.first().filter(|_| !self.sink.has_errors()) {
            let message = format!(
                "simple_switch computes nothing here but checksums (`{}`)",
                first.op
            );
            self.sink.error("E0611", control.span, message);
        }
        self.path.clear();
    }

    fn checksum_statements(&mut self, statements: &[Statement], conditions: &[Value]) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Block(inner) => self.checksum_statements(inner, conditions),
                StatementKind::If(condition, yes, no) => {
                    let condition = self.resolve(condition);
                    match condition.kind {
                        ExprKind::Bool(true) => self.checksum_statements(yes, conditions),
                        ExprKind::Bool(false) => self.checksum_statements(no, conditions),
                        _ => {
                            let value = self.value(&condition);
                            let with = |value: Value| {
                                conditions
                                    .iter()
                                    .cloned()
                                    .chain([value])
                                    .collect::<Vec<_>>()
                            };
                            self.checksum_statements(yes, &with(value.clone()));
                            self.checksum_statements(
                                no,
                                &with(operation("not", None, Some(value))),
                            );
                        }
                    }
                }
                StatementKind::Call(Expr {
                    kind: ExprKind::Call(call),
                    ..
                }) => match &call.callee {
                    Callee::ExternFunction(name, _) if name.starts_with(self.checksum_prefix()) => {
                        self.checksum(name, &call.arguments, conditions, statement.span);
                    }
                    Callee::ApplyBlock(object) => {
                        self.checksum_block(object, &call.arguments, conditions, statement.span)
                    }
                    _ => self.not_a_checksum(statement.span),
                },
                StatementKind::Return(_) => return,
                _ => self.not_a_checksum(statement.span),
            }
        }
    }

    fn checksum_block(
        &mut self,
        object: &Expr,
        arguments: &[Option<Expr>],
        conditions: &[Value],
        span: Span,
    ) {
        let Some(super::Object::Block(block)) = self.object(object) else {
            return self.not_a_checksum(span);
        };
        let InstanceKind::Control(id) = block.kind else {
            return;
        };
        let control = &self.program.controls[id];
        let saved = self.env.clone();
        self.bind_block(&control.parameters, arguments, None, span);
        self.env.extend(block.arguments.iter().cloned());
        self.checksum_statements(&control.apply, conditions);
        self.env = saved;
    }

    fn checksum_prefix(&self) -> &'static str {
        if self.stage == Stage::Verify {
            "verify_checksum"
        } else {
            "update_checksum"
        }
    }

    fn not_a_checksum(&mut self, span: Span) {
        let name = self.checksum_prefix();
        self.sink
            .error(
                "E0611",
                span,
                format!("only `{name}` and `{name}_with_payload` can stand here"),
            )
            .help("compute in ingress or egress instead");
    }

    fn checksum(
        &mut self,
        name: &str,
        arguments: &[Option<Expr>],
        conditions: &[Value],
        span: Span,
    ) {
        let [Some(condition), Some(data), Some(target), Some(algorithm)] = arguments else {
            return;
        };
        let algorithm = self.resolve(algorithm);
        let ExprKind::Member(enumeration, member) = algorithm.kind else {
            self.sink.error(
                "E0502",
                algorithm.span,
                "the algorithm must be known at compile time",
            );
            return;
        };
        let algo = self.program.enums[enumeration].members[member]
            .0
            .to_string();
        let calculation = self.calculation(&algo, data, name.ends_with("_with_payload"), span);
        let Some(Place::Field { header, field, .. }) = self.place(target) else {
            self.sink.error(
                "E0611",
                target.span,
                "a checksum is a header's or metadata's field",
            );
            return;
        };
        let condition = self.resolve(condition);
        let own = match condition.kind {
            ExprKind::Bool(true) if !conditions.is_empty() => None,
            _ => Some(self.value(&condition)),
        };
        let if_cond = conditions
            .iter()
            .cloned()
            .chain(own)
            .reduce(|a, b| operation("and", Some(a), Some(b)));
        let checksum = Checksum {
            name: self.fresh("cksum"),
            id: self.json.checksums.len() as u32,
            source_info: self.source_info(span),
            target: (header, field),
            kind: "generic".to_owned(),
            calculation,
            verify: self.stage == Stage::Verify,
            update: self.stage == Stage::Compute,
            if_cond,
        };
        self.json.checksums.push(checksum);
        debug_assert!(condition.ty == Type::Bool || condition.ty.is_poison());
    }
}
