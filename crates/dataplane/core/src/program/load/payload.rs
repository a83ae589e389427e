//! Payload externs: their calls, and where calls are allowed.

use bmv2_json::{Primitive as JsonPrimitive, Value};

use super::{At, Context, Load, Loader, index_u32};
use crate::{
    ActionId,
    program::{
        PayloadSignature,
        ir::{Expr, Node, NodeId, ParserOp, PayloadExternId, Primitive},
    },
    value,
};

impl At<'_, '_> {
    pub(super) fn payload_call(&self, json: &JsonPrimitive) -> Load<Primitive> {
        let (given, _) = &self.loader.payload_externs;
        let Some(signature) = given.iter().find(|it| it.name == json.op) else {
            let message =
                "unknown primitive, and no extern of this switch (docs/payload-externs.md)";
            return self.fail(message);
        };
        let (expected, found) = (signature.params.len(), json.parameters.len());
        if expected != found {
            return self.fail(format!("expected {expected} parameters, found {found}"));
        }
        let args = (0..).zip(&json.parameters);
        let args = args.map(|(index, value)| self.payload_arg(signature, index, value));
        Ok(Primitive::ChangePayload {
            args: args.collect::<Load<_>>()?,
            function: self.payload_extern(signature),
        })
    }

    /// Returns an argument and its width. A field, constant or parameter must have the width of the extern's parameter;
    /// other expressions are truncated to this width.
    fn payload_arg(
        &self,
        signature: &PayloadSignature,
        index: usize,
        json: &Value,
    ) -> Load<(Expr, u32)> {
        let param = &signature.params[index];
        let bits = param.width_bits;
        let expected = |found: String| {
            self.fail(format!(
                "parameter {index} \"{}\" has {bits} bits, found {found}",
                param.name
            ))
        };
        let arg = self.number(json)?;
        match &arg {
            Expr::Const(number) if !value::fits(number, bits) => expected(format!("{number}")),
            Expr::Field(field) if self.loader.ir.fields[field.index()].bits != bits => {
                let field = &self.loader.ir.fields[field.index()];
                expected(format!("\"{}\" of {} bits", field.name, field.bits))
            }
            Expr::Param(param) if self.context.param_bits[*param] != bits => {
                let found = self.context.param_bits[*param];
                expected(format!("the action's parameter {param} of {found} bits"))
            }
            _ => Ok((arg, bits)),
        }
    }

    fn payload_extern(&self, signature: &PayloadSignature) -> PayloadExternId {
        let mut called = self.loader.payload_externs.1.borrow_mut();
        let known = called.iter().position(|it| it == signature);
        PayloadExternId(index_u32(known.unwrap_or_else(|| {
            called.push(signature.clone());
            called.len() - 1
        })))
    }
}

impl Loader<'_> {
    /// Records the externs that the program calls. Refuses calls outside of egress, which would have no effect.
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
        self.expect_none_in(&Context::new("parser", "parser"), in_parser)?;
        let deparser = Context::new("deparser", "deparser");
        self.expect_none_in(&deparser, &self.ir.deparser.primitives)?;
        for action in self.actions_from(self.ir.ingress) {
            let context = Context::new("action", &self.actions[action.index()].name);
            self.expect_none_in(&context, &self.ir.actions[action.index()].primitives)?;
        }
        Ok(())
    }

    /// Refuses the program if one of these primitives calls a payload extern.
    fn expect_none_in<'p>(
        &self,
        context: &Context,
        primitives: impl IntoIterator<Item = &'p Primitive>,
    ) -> Load {
        for primitive in primitives {
            if let Primitive::ChangePayload { function, .. } = primitive {
                let name = &self.ir.payload_externs[function.index()].name;
                return context.fail(format!(
                    "expected \"{name}\" to be called in egress, found it elsewhere: \
                     it changes the payload of a packet that leaves"
                ));
            }
        }
        Ok(())
    }

    /// The actions reachable from a node.
    fn actions_from(&self, start: Option<NodeId>) -> Vec<ActionId> {
        let mut actions = Vec::new();
        let mut is_seen = vec![false; self.ir.nodes.len()];
        let mut next = Vec::from_iter(start);
        while let Some(node) = next.pop() {
            if std::mem::replace(&mut is_seen[node.index()], true) {
                continue;
            }
            next.extend(self.successors(node.index()));
            match &self.ir.nodes[node.index()] {
                Node::Table(table) => actions.extend(&self.tables[table.index()].actions),
                Node::Call { action, .. } => actions.push(*action),
                Node::If { .. } => {}
            }
        }
        actions
    }
}
