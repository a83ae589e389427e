//! Externs that change payloads: their calls, and where these may stand.

use bmv2_json::{Primitive as JsonPrimitive, Value};

use super::{Context, Load, Loader, index_u32};
use crate::{
    ActionId,
    program::{
        PayloadSignature,
        ir::{Expr, Node, NodeId, ParserOp, PayloadExternId, Primitive},
    },
    value,
};

fn is_call(primitive: &Primitive) -> bool {
    matches!(primitive, Primitive::ChangePayload { .. })
}

impl Loader<'_> {
    /// A call of an extern that is not the architecture's.
    pub(super) fn payload_call(&self, context: &Context, json: &JsonPrimitive) -> Load<Primitive> {
        let (given, _) = &self.payload_externs;
        let Some(signature) = given.iter().find(|it| it.name == json.op) else {
            let message =
                "unknown primitive, and no extern of this switch (docs/payload-externs.md)";
            return context.fail(message);
        };
        let (expected, found) = (signature.params.len(), json.parameters.len());
        if expected != found {
            return context.fail(format!("expected {expected} parameters, found {found}"));
        }
        let args = (0..).zip(&json.parameters);
        let args = args.map(|(index, value)| self.payload_arg(context, signature, index, value));
        Ok(Primitive::ChangePayload {
            args: args.collect::<Load<_>>()?,
            function: self.payload_extern(signature),
        })
    }

    /// An argument and its width. What has a width has the parameter's; what an expression gives is cut.
    fn payload_arg(
        &self,
        context: &Context,
        signature: &PayloadSignature,
        index: usize,
        json: &Value,
    ) -> Load<(Expr, u32)> {
        let param = &signature.params[index];
        let bits = param.width_bits;
        let expected = |found: String| {
            context.fail(format!(
                "parameter {index} \"{}\" has {bits} bits, found {found}",
                param.name
            ))
        };
        let arg = self.number(context, json)?;
        match &arg {
            Expr::Const(number) if !value::fits(number, bits) => expected(format!("{number}")),
            Expr::Field(field) if self.ir.fields[field.index()].bits != bits => {
                let field = &self.ir.fields[field.index()];
                expected(format!("\"{}\" of {} bits", field.name, field.bits))
            }
            Expr::Param(param) if context.param_bits[*param] != bits => {
                let found = context.param_bits[*param];
                expected(format!("the action's parameter {param} of {found} bits"))
            }
            _ => Ok((arg, bits)),
        }
    }

    fn payload_extern(&self, signature: &PayloadSignature) -> PayloadExternId {
        let mut called = self.payload_externs.1.borrow_mut();
        let known = called.iter().position(|it| it == signature);
        PayloadExternId(index_u32(known.unwrap_or_else(|| {
            called.push(signature.clone());
            called.len() - 1
        })))
    }

    /// Notes which are called, and that all calls are in egress: elsewhere nobody would take them up.
    pub(super) fn payload_externs(&mut self) -> Load {
        self.ir.payload_externs = self.payload_externs.1.take();
        if self.ir.payload_externs.is_empty() {
            return Ok(());
        }
        let ops = self.ir.parser.states.iter().flat_map(|state| &state.ops);
        let in_parser = ops.filter_map(|op| match op {
            ParserOp::Primitive(primitive) => Some(primitive),
            _ => None,
        });
        for (place, mut primitives) in [
            ("parser", Vec::from_iter(in_parser).into_iter()),
            (
                "deparser",
                Vec::from_iter(&self.ir.deparser.primitives).into_iter(),
            ),
        ] {
            if let Some(call) = primitives.find(|it| is_call(it)) {
                return self.misplaced(&Context::new(place, place), call);
            }
        }
        for action in self.actions_from(self.ir.ingress) {
            let primitives = &self.ir.actions[action.index()].primitives;
            if let Some(call) = primitives.iter().find(|it| is_call(it)) {
                let name = &self.actions[action.index()].name;
                return self.misplaced(&Context::new("action", name), call);
            }
        }
        Ok(())
    }

    fn misplaced(&self, context: &Context, call: &Primitive) -> Load {
        let Primitive::ChangePayload { function, .. } = call else {
            return Ok(());
        };
        let name = &self.ir.payload_externs[function.index()].name;
        context.fail(format!(
            "expected \"{name}\" to be called in egress, found it elsewhere: \
             it changes the payload of a packet that leaves"
        ))
    }

    /// The actions that may run from a node on.
    fn actions_from(&self, start: Option<NodeId>) -> Vec<ActionId> {
        let mut actions = Vec::new();
        let mut is_seen = vec![false; self.ir.nodes.len()];
        let mut next = Vec::from_iter(start);
        while let Some(node) = next.pop() {
            if std::mem::replace(&mut is_seen[node.index()], true) {
                continue;
            }
            next.extend(self.successors(node.index()).into_iter().flatten());
            match &self.ir.nodes[node.index()] {
                Node::Table(table) => actions.extend(&self.tables[table.index()].actions),
                Node::Call { action, .. } => actions.push(*action),
                Node::If { .. } => {}
            }
        }
        actions
    }
}
