//! Actions and primitives.

use std::collections::HashSet;

use bmv2_json::{Primitive as JsonPrimitive, Value};

use super::{Context, Load, Loader, arity::arities, index_u32, source_line};
use crate::{
    ActionId,
    program::{
        ActionInfo, ParamInfo,
        ir::{
            Action, AnyStack, Arithmetic, DigestId, Expr, FieldId, FieldListId, HeaderExpr, Place,
            Primitive,
        },
    },
    value,
};

/// A primitive call and what messages about it need.
struct Call<'l, 'a> {
    loader: &'l Loader<'a>,
    context: &'l Context,
    json: &'l JsonPrimitive,
    primitives: usize,
}

impl Loader<'_> {
    pub(super) fn action_ids(&mut self) -> Load {
        for action in &self.json.actions {
            let context = Context::new("action", &action.name);
            let id = ActionId(index_u32(self.actions.len()));
            if self.names.actions.insert(action.id, id).is_some() {
                return context.fail(format!("id {} is another action's", action.id));
            }
            let mut params = Vec::new();
            for param in &action.runtime_data {
                let what = format!("parameter \"{}\"", param.name);
                super::declarations::check_field_width(&context, &what, param.bitwidth)?;
                params.push(ParamInfo {
                    name: param.name.clone(),
                    width_bits: param.bitwidth,
                });
            }
            self.actions.push(ActionInfo {
                name: action.name.clone(),
                params,
            });
        }
        Ok(())
    }

    pub(super) fn action_bodies(&mut self) -> Load {
        for action in &self.json.actions {
            let mut context = Context::new("action", &action.name);
            let params = action.runtime_data.iter();
            context.param_bits = params.map(|param| param.bitwidth).collect();
            let primitives = self.primitives(&context, &action.primitives)?;
            let lines = action.primitives.iter().map(|it| &it.source_info);
            self.ir.actions.push(Action {
                primitives,
                lines: lines.map(source_line).collect(),
                line: source_line(&action.source_info),
            });
        }
        Ok(())
    }

    pub(super) fn primitives(
        &self,
        context: &Context,
        primitives: &[JsonPrimitive],
    ) -> Load<Vec<Primitive>> {
        let mut out = Vec::new();
        for (position, json) in primitives.iter().enumerate() {
            let context = Context {
                place: format!("{}: primitive {position} \"{}\"", context.place, json.op),
                param_bits: context.param_bits.clone(),
            };
            let call = Call {
                loader: self,
                context: &context,
                json,
                primitives: primitives.len(),
            };
            out.push(call.load()?);
        }
        Ok(out)
    }

    /// A field list by its JSON id. p4c gives the number 0 where nothing is kept.
    fn field_list(&self, context: &Context, value: &Value) -> Load<Option<FieldListId>> {
        let id = constant_u32(context, value)?;
        match self.names.field_lists.get(&id) {
            Some(list) => Ok(Some(*list)),
            None if id == 0 => Ok(None),
            None => context.fail(format!("unknown field list {id}")),
        }
    }
}

fn constant_u32(context: &Context, value: &Value) -> Load<u32> {
    if let Value::Hexstr(text) = value {
        let number = super::expression::hex(context, text)?;
        if let Ok(number) = u32::try_from(&number) {
            return Ok(number);
        }
    }
    context.fail(format!("expected a constant of 32 bits, found {value:?}"))
}

impl Call<'_, '_> {
    fn param(&self, index: usize) -> Load<&Value> {
        self.json.parameters.get(index).ok_or_else(|| {
            self.context.error(format!(
                "parameter {index} of {}",
                self.json.parameters.len()
            ))
        })
    }

    fn number(&self, index: usize) -> Load<Expr> {
        self.loader.number(self.context, self.param(index)?)
    }

    fn place(&self, index: usize) -> Load<Place> {
        self.loader.place(self.context, self.param(index)?)
    }

    fn header(&self, index: usize) -> Load<HeaderExpr> {
        self.loader.header_expr(self.context, self.param(index)?)
    }

    fn stack(&self, index: usize) -> Load<AnyStack> {
        self.loader.stack(self.context, self.param(index)?)
    }

    fn arity(&self, expected: &[usize]) -> Load {
        let found = self.json.parameters.len();
        if expected.contains(&found) {
            return Ok(());
        }
        self.context
            .fail(format!("expected {expected:?} parameters, found {found}"))
    }

    fn load(&self) -> Load<Primitive> {
        match arities(&self.json.op) {
            Some(expected) => self.arity(expected)?,
            None => return self.loader.payload_call(self.context, self.json),
        }
        if let Some(primitive) = self.copy_primitive()? {
            return Ok(primitive);
        }
        if let Some(primitive) = self.arithmetic_primitive()? {
            return Ok(primitive);
        }
        self.other_primitive()
    }

    fn copy_primitive(&self) -> Load<Option<Primitive>> {
        let (loader, context) = (self.loader, self.context);
        Ok(Some(match self.json.op.as_str() {
            "assign" | "modify_field" => {
                let (to, from) = (self.place(0)?, self.number(1)?);
                match (&to, &from) {
                    (Place::Field(to), Expr::Field(from)) if self.is_variable(*to) => {
                        self.assign_variable(*to, *from)?
                    }
                    _ => Primitive::Assign { to, from },
                }
            }
            "assign_VL" => match (self.place(0)?, self.number(1)?) {
                (Place::Field(to), Expr::Field(from)) => self.assign_variable(to, from)?,
                _ => return context.fail("expected two varbit fields"),
            },
            "assign_header" | "copy_header" => {
                let (to, from) = (self.header(0)?, self.header(1)?);
                self.same_type(&to, &from)?;
                Primitive::AssignHeader { to, from }
            }
            "assign_union" => {
                let to = loader.union_expr(context, self.param(0)?)?;
                let from = loader.union_expr(context, self.param(1)?)?;
                let members = |union| {
                    loader.ir.unions[loader.example_union(union).index()]
                        .members
                        .len()
                };
                if members(&to) != members(&from) {
                    return context.fail("the header unions have different types");
                }
                Primitive::AssignUnion { to, from }
            }
            "assign_header_stack" | "assign_union_stack" => {
                match (self.stack(0)?, self.stack(1)?) {
                    (AnyStack::Headers(to), AnyStack::Headers(from)) => {
                        let len = |id: crate::program::ir::StackId| {
                            loader.ir.stacks[id.index()].elements.len()
                        };
                        let first = |id: crate::program::ir::StackId| {
                            HeaderExpr::Header(loader.ir.stacks[id.index()].elements[0])
                        };
                        self.same_type(&first(to), &first(from))?;
                        self.same_size(len(to), len(from))?;
                        Primitive::AssignStack { to, from }
                    }
                    (AnyStack::Unions(to), AnyStack::Unions(from)) => {
                        let len = |id: crate::program::ir::UnionStackId| {
                            loader.ir.union_stacks[id.index()].elements.len()
                        };
                        self.same_size(len(to), len(from))?;
                        Primitive::AssignUnionStack { to, from }
                    }
                    _ => return context.fail("expected two stacks of the same kind"),
                }
            }
            _ => return Ok(None),
        }))
    }

    fn is_variable(&self, field: FieldId) -> bool {
        self.loader.ir.fields[field.index()].variable
    }

    fn assign_variable(&self, to: FieldId, from: FieldId) -> Load<Primitive> {
        if self.is_variable(to) && self.is_variable(from) {
            return Ok(Primitive::AssignVariable { to, from });
        }
        self.context.fail("expected two varbit fields")
    }

    fn same_type(&self, to: &HeaderExpr, from: &HeaderExpr) -> Load {
        let of = |header| &self.loader.ir.headers[self.loader.example_of(header).index()];
        let (to, from) = (of(to), of(from));
        if to.type_index == from.type_index {
            return Ok(());
        }
        self.context.fail(format!(
            "\"{}\" and \"{}\" have different types",
            to.name, from.name
        ))
    }

    fn same_size(&self, to: usize, from: usize) -> Load {
        if to == from {
            return Ok(());
        }
        self.context
            .fail(format!("a stack of {from} does not fit one of {to}"))
    }

    /// The primitives of P4_14 that compute.
    fn arithmetic_primitive(&self) -> Load<Option<Primitive>> {
        let op = match self.json.op.as_str() {
            "add" | "add_to_field" => Arithmetic::Add,
            "subtract" | "subtract_from_field" => Arithmetic::Sub,
            "bit_xor" => Arithmetic::Xor,
            "bit_or" => Arithmetic::Or,
            "bit_and" => Arithmetic::And,
            "shift_left" => Arithmetic::ShiftLeft,
            "shift_right" => Arithmetic::ShiftRight,
            _ => return Ok(None),
        };
        let n_params = self.json.parameters.len();
        let (left, right) = (self.number(n_params - 2)?, self.number(n_params - 1)?);
        let from = Expr::Arithmetic(op, Box::new(left), Box::new(right));
        Ok(Some(Primitive::Assign {
            to: self.place(0)?,
            from,
        }))
    }

    fn other_primitive(&self) -> Load<Primitive> {
        let (loader, context) = (self.loader, self.context);
        Ok(match self.json.op.as_str() {
            "no_op" => Primitive::NoOp,
            "exit" => Primitive::Exit,
            "drop" | "mark_to_drop" => Primitive::MarkToDrop,
            "add_header" | "add_header_fast" => Primitive::AddHeader(self.header(0)?),
            "remove_header" => Primitive::RemoveHeader(self.header(0)?),
            "push" => Primitive::Push(self.stack(0)?, self.number(1)?),
            "pop" => Primitive::Pop(self.stack(0)?, self.number(1)?),
            "_jump" => Primitive::Jump(self.jump_target(0)?),
            "_jump_if_zero" => Primitive::JumpIfZero(self.number(0)?, self.jump_target(1)?),
            "register_read" => Primitive::RegisterRead {
                to: self.place(0)?,
                register: self.register(1)?,
                index: self.number(2)?,
            },
            "register_write" => Primitive::RegisterWrite {
                register: self.register(0)?,
                index: self.number(1)?,
                value: self.number(2)?,
            },
            "count" => self.count()?,
            "execute_meter" => self.execute_meter()?,
            "modify_field_with_hash_based_offset" => self.hash()?,
            "modify_field_rng_uniform" => Primitive::Random {
                to: self.place(0)?,
                low: self.number(1)?,
                high: self.number(2)?,
            },
            "generate_digest" => Primitive::Digest(self.digest(1)?),
            "truncate" => Primitive::Truncate(self.number(0)?),
            "assert" => Primitive::Assert(loader.truth(context, self.param(0)?)?),
            "assume" => Primitive::Assume(loader.truth(context, self.param(0)?)?),
            "log_msg" => self.log()?,
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => Primitive::Clone {
                session: self.number(0)?,
                list: self.list(1)?,
            },
            "resubmit" => Primitive::Resubmit(self.request(0)?),
            "recirculate" => Primitive::Recirculate(self.request(0)?),
            _ => return context.fail("unknown primitive"),
        })
    }

    fn list(&self, index: usize) -> Load<Option<FieldListId>> {
        match self.json.parameters.get(index) {
            Some(value) => self.loader.field_list(self.context, value),
            None => Ok(None),
        }
    }

    /// The list of a resubmission or recirculation. The id is simple_switch's flag as well: 0 asks
    /// for nothing, whether or not a list has it.
    fn request(&self, index: usize) -> Load<Option<FieldListId>> {
        match constant_u32(self.context, self.param(index)?)? {
            0 => Ok(None),
            _ => self.list(index),
        }
    }

    fn register(&self, index: usize) -> Load<crate::RegisterId> {
        match self.param(index)? {
            Value::RegisterArray(name) => self.loader.register(self.context, name),
            other => self
                .context
                .fail(format!("expected a register array, found {other:?}")),
        }
    }

    fn count(&self) -> Load<Primitive> {
        let Value::CounterArray(name) = self.param(0)? else {
            return self.context.fail(format!(
                "expected a counter array, found {:?}",
                self.param(0)?
            ));
        };
        let counter = self
            .context
            .find(&self.loader.names.counters, "counter array", name)?;
        Ok(Primitive::Count {
            counter,
            index: self.number(1)?,
        })
    }

    fn execute_meter(&self) -> Load<Primitive> {
        let (loader, context) = (self.loader, self.context);
        let Value::MeterArray(name) = self.param(0)? else {
            return context.fail(format!(
                "expected a meter array, found {:?}",
                self.param(0)?
            ));
        };
        Ok(Primitive::ExecuteMeter {
            meter: context.find(&loader.names.meters, "meter array", name)?,
            index: self.number(1)?,
            to: self.place(2)?,
        })
    }

    fn hash(&self) -> Load<Primitive> {
        let Value::Calculation(name) = self.param(2)? else {
            return self.context.fail(format!(
                "expected a calculation, found {:?}",
                self.param(2)?
            ));
        };
        let calculation =
            self.context
                .find(&self.loader.names.calculations, "calculation", name)?;
        Ok(Primitive::Hash {
            to: self.place(0)?,
            base: self.number(1)?,
            calculation,
            size: self.number(3)?,
        })
    }

    fn digest(&self, index: usize) -> Load<DigestId> {
        let id = constant_u32(self.context, self.param(index)?)?;
        let digest = self.loader.names.digests.get(&id).copied();
        digest.ok_or_else(|| self.context.error(format!("unknown digest {id}")))
    }

    fn log(&self) -> Load<Primitive> {
        let Value::String(format) = self.param(0)? else {
            return self
                .context
                .fail(format!("expected a text, found {:?}", self.param(0)?));
        };
        let Value::ParametersVector(values) = self.param(1)? else {
            return self
                .context
                .fail(format!("expected a list, found {:?}", self.param(1)?));
        };
        let args: Load<Vec<Expr>> = values
            .iter()
            .map(|value| self.loader.number(self.context, value))
            .collect();
        Ok(Primitive::Log {
            format: format.clone(),
            args: args?,
        })
    }

    /// Within the action or to its end; a jump back is a loop, whose rounds are counted.
    fn jump_target(&self, index: usize) -> Load<usize> {
        let target = constant_u32(self.context, self.param(index)?)? as usize;
        if target > self.primitives {
            return self.context.fail(format!(
                "expected a jump to at most {}, found {target}",
                self.primitives
            ));
        }
        Ok(target)
    }
}

/// Arguments of an action as a file gives them.
pub(super) fn arguments(
    context: &Context,
    action: &ActionInfo,
    data: &[String],
) -> Load<Vec<value::Int>> {
    if data.len() != action.params.len() {
        return context.fail(format!(
            "action \"{}\" has {} parameters, found {} arguments",
            action.name,
            action.params.len(),
            data.len()
        ));
    }
    let mut args = Vec::new();
    for (text, param) in data.iter().zip(&action.params) {
        let mut arg = super::expression::hex(context, text)?;
        if arg < value::Int::ZERO && value::wrap(arg.clone(), param.width_bits, true) == arg {
            arg = value::wrap(arg, param.width_bits, false);
        }
        if !value::fits(&arg, param.width_bits) {
            return context.fail(format!(
                "action \"{}\": {text} does not fit the {} bits of \"{}\"",
                action.name, param.width_bits, param.name
            ));
        }
        args.push(arg);
    }
    Ok(args)
}

/// Whether names of actions are used twice in one list.
pub(super) fn has_duplicates(ids: &[ActionId]) -> bool {
    let mut seen = HashSet::new();
    !ids.iter().all(|id| seen.insert(*id))
}
