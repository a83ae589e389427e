//! Actions and primitives.

use std::collections::HashSet;

use bmv2_json::{Primitive as JsonPrimitive, Value};

use super::{At, Context, Load, Loader, arity::arities, index_u32, source_line};
use crate::{
    ActionId, CounterId, DropReason, MeterId, RegisterId,
    program::{
        ActionInfo, ParamInfo,
        ir::{
            Action, AnyStack, Arithmetic, CalculationId, DigestId, Expr, FieldId, FieldListId,
            HeaderExpr, Place, Primitive, StackId,
        },
    },
    value::{self, Int},
};

struct Call<'l, 'a> {
    at: At<'l, 'a>,
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
                context.check_field_width(&what, param.bitwidth)?;
                params.push(ParamInfo {
                    name: param.name.clone(),
                    width_bits: param.bitwidth,
                    is_secret: param.secret,
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
            let primitives = self.at(&context).primitives(&action.primitives)?;
            let lines = action.primitives.iter().map(|it| &it.source_info);
            self.ir.actions.push(Action {
                primitives,
                lines: lines.map(source_line).collect(),
                line: source_line(&action.source_info),
            });
        }
        Ok(())
    }
}

impl At<'_, '_> {
    pub(super) fn primitives(&self, primitives: &[JsonPrimitive]) -> Load<Vec<Primitive>> {
        let all = primitives.iter().enumerate();
        let loaded = all.map(|(position, json)| {
            let place = format!("primitive {position} \"{}\"", json.op);
            let context = self.context.within(&place);
            let call = Call {
                at: self.loader.at(&context),
                json,
                primitives: primitives.len(),
            };
            call.load()
        });
        loaded.collect()
    }

    /// Finds a field list by its JSON id. p4c writes the id 0 for "no fields".
    fn field_list(&self, value: &Value) -> Load<Option<FieldListId>> {
        let id = self.constant_u32(value)?;
        match self.loader.names.field_lists.get(&id) {
            Some(list) => Ok(Some(*list)),
            None if id == 0 => Ok(None),
            None => self.fail(format!("unknown field list {id}")),
        }
    }

    fn constant_u32(&self, value: &Value) -> Load<u32> {
        if let Value::Hexstr(text) = value
            && let Ok(number) = u32::try_from(&self.hex(text)?)
        {
            return Ok(number);
        }
        self.fail(format!("expected a constant of 32 bits, found {value:?}"))
    }
}

impl Call<'_, '_> {
    fn param(&self, index: usize) -> Load<&Value> {
        let params = &self.json.parameters;
        let (found, n_params) = (params.get(index), params.len());
        found.ok_or_else(|| {
            self.at.error(format!(
                "parameter {index} does not exist: there are {n_params}, counted from 0"
            ))
        })
    }

    fn number(&self, index: usize) -> Load<Expr> {
        self.at.number(self.param(index)?)
    }

    fn place(&self, index: usize) -> Load<Place> {
        self.at.place(self.param(index)?)
    }

    fn header(&self, index: usize) -> Load<HeaderExpr> {
        self.at.header_expr(self.param(index)?)
    }

    fn stack(&self, index: usize) -> Load<AnyStack> {
        self.at.stack(self.param(index)?)
    }

    /// Returns the text of a parameter; the parameter must be of the kind `kind`.
    fn text(&self, index: usize, kind: &str) -> Load<&str> {
        let value = self.param(index)?;
        match (kind, value) {
            ("register array", Value::RegisterArray(text))
            | ("counter array", Value::CounterArray(text))
            | ("meter array", Value::MeterArray(text))
            | ("calculation", Value::Calculation(text))
            | ("text", Value::String(text)) => Ok(text),
            _ => self.at.fail(format!("expected a {kind}, found {value:?}")),
        }
    }

    fn arity(&self, expected: &[usize]) -> Load {
        let found = self.json.parameters.len();
        if expected.contains(&found) {
            return Ok(());
        }
        let message = format!("expected {expected:?} parameters, found {found}");
        self.at.fail(message)
    }

    fn load(&self) -> Load<Primitive> {
        match arities(&self.json.op) {
            Some(expected) => self.arity(expected)?,
            None => return self.at.payload_call(self.json),
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
        let ir = &self.at.loader.ir;
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
                _ => return self.at.fail("expected two varbit fields"),
            },
            "assign_header" | "copy_header" => {
                let (to, from) = (self.header(0)?, self.header(1)?);
                self.same_type(&to, &from)?;
                Primitive::AssignHeader { to, from }
            }
            "assign_union" => {
                let to = self.at.union_expr(self.param(0)?)?;
                let from = self.at.union_expr(self.param(1)?)?;
                if ir.members_of(&to).len() != ir.members_of(&from).len() {
                    return self.at.fail("the header unions have different types");
                }
                Primitive::AssignUnion { to, from }
            }
            "assign_header_stack" | "assign_union_stack" => {
                let (to, from) = (self.stack(0)?, self.stack(1)?);
                match (to, from) {
                    (AnyStack::Headers(to), AnyStack::Headers(from)) => {
                        let first =
                            |id: StackId| HeaderExpr::Header(ir.stacks[id.index()].elements[0]);
                        self.same_type(&first(to), &first(from))?;
                    }
                    (AnyStack::Unions(_), AnyStack::Unions(_)) => {}
                    _ => return self.at.fail("expected two stacks of the same kind"),
                }
                let (size, found) = (ir.stack_size(to), ir.stack_size(from));
                if size != found {
                    return self.at.fail(format!(
                        "a stack of {found} elements cannot be assigned to one of {size}"
                    ));
                }
                Primitive::AssignStack { to, from }
            }
            _ => return Ok(None),
        }))
    }

    fn is_variable(&self, field: FieldId) -> bool {
        self.at.loader.ir.fields[field.index()].variable
    }

    fn assign_variable(&self, to: FieldId, from: FieldId) -> Load<Primitive> {
        if self.is_variable(to) && self.is_variable(from) {
            return Ok(Primitive::AssignVariable { to, from });
        }
        self.at.fail("expected two varbit fields")
    }

    fn same_type(&self, to: &HeaderExpr, from: &HeaderExpr) -> Load {
        let headers = &self.at.loader.ir.headers;
        let of = |header| &headers[self.at.loader.ir.example_of(header).index()];
        let (to, from) = (of(to), of(from));
        if to.type_index == from.type_index {
            return Ok(());
        }
        let (to, from) = (&to.name, &from.name);
        self.at
            .fail(format!("\"{to}\" and \"{from}\" have different types"))
    }

    /// Loads a primitive if it is one of P4_14's arithmetic primitives.
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
        let to = self.place(0)?;
        Ok(Some(Primitive::Assign { to, from }))
    }

    fn other_primitive(&self) -> Load<Primitive> {
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
            "count" => Primitive::Count {
                counter: self.counter(0)?,
                index: self.number(1)?,
            },
            "execute_meter" => Primitive::ExecuteMeter {
                meter: self.meter(0)?,
                index: self.number(1)?,
                to: self.place(2)?,
            },
            "modify_field_with_hash_based_offset" => Primitive::Hash {
                calculation: self.calculation(2)?,
                to: self.place(0)?,
                base: self.number(1)?,
                size: self.number(3)?,
            },
            "modify_field_rng_uniform" => Primitive::Random {
                to: self.place(0)?,
                low: self.number(1)?,
                high: self.number(2)?,
            },
            "generate_digest" => Primitive::Digest(self.digest(1)?),
            "truncate" => Primitive::Truncate(self.number(0)?),
            "assert" => self.check(DropReason::AssertionFailed)?,
            "assume" => self.check(DropReason::AssumptionFailed)?,
            "log_msg" => self.log()?,
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => Primitive::Clone {
                session: self.number(0)?,
                list: self.list(1)?,
            },
            "resubmit" => Primitive::Resubmit(self.request(0)?),
            "recirculate" => Primitive::Recirculate(self.request(0)?),
            _ => return self.at.fail("unknown primitive"),
        })
    }

    fn check(&self, reason: DropReason) -> Load<Primitive> {
        let condition = self.at.truth(self.param(0)?)?;
        Ok(Primitive::Check(condition, reason))
    }

    fn list(&self, index: usize) -> Load<Option<FieldListId>> {
        match self.json.parameters.get(index) {
            Some(value) => self.at.field_list(value),
            None => Ok(None),
        }
    }

    /// The field list of a resubmission or recirculation. simple_switch also uses the id as a flag:
    /// 0 means no request, even if a list has that id.
    fn request(&self, index: usize) -> Load<Option<FieldListId>> {
        match self.at.constant_u32(self.param(index)?)? {
            0 => Ok(None),
            _ => self.list(index),
        }
    }

    fn register(&self, index: usize) -> Load<RegisterId> {
        self.at.register(self.text(index, "register array")?)
    }

    fn counter(&self, index: usize) -> Load<CounterId> {
        let (counters, kind) = (&self.at.loader.names.counters, "counter array");
        self.at.find(counters, kind, self.text(index, kind)?)
    }

    fn meter(&self, index: usize) -> Load<MeterId> {
        let (meters, kind) = (&self.at.loader.names.meters, "meter array");
        self.at.find(meters, kind, self.text(index, kind)?)
    }

    fn calculation(&self, index: usize) -> Load<CalculationId> {
        self.at.calculation(self.text(index, "calculation")?)
    }

    fn digest(&self, index: usize) -> Load<DigestId> {
        let id = self.at.constant_u32(self.param(index)?)?;
        let digest = self.at.loader.names.digests.get(&id).copied();
        digest.ok_or_else(|| self.at.error(format!("unknown digest {id}")))
    }

    fn log(&self) -> Load<Primitive> {
        let format = self.text(0, "text")?;
        let list = self.param(1)?;
        let Value::ParametersVector(values) = list else {
            return self.at.fail(format!("expected a list, found {list:?}"));
        };
        let args = values.iter().map(|value| self.at.number(value).map(Some));
        Ok(Primitive::Log {
            format: format.to_owned(),
            args: args.collect::<Load<_>>()?,
        })
    }

    /// Reads a jump target: the index of a primitive of the action, or the number of primitives to jump to the action's
    /// end. A jump backwards makes a loop, whose rounds are limited at run time.
    fn jump_target(&self, index: usize) -> Load<usize> {
        let target = self.at.constant_u32(self.param(index)?)? as usize;
        let last = self.primitives;
        if target > last {
            let message = format!("expected a jump to at most {last}, found {target}");
            return self.at.fail(message);
        }
        Ok(target)
    }
}

impl At<'_, '_> {
    pub(super) fn arguments(&self, action: &ActionInfo, data: &[String]) -> Load<Vec<Int>> {
        let ActionInfo { name, params } = action;
        let (expected, found) = (params.len(), data.len());
        if found != expected {
            let found = format!("has {expected} parameters, found {found} arguments");
            return self.fail(format!("action \"{name}\" {found}"));
        }
        let args = data.iter().zip(params).map(|(text, param)| {
            let bits = param.width_bits;
            let mut arg = self.hex(text)?;
            if arg < Int::ZERO && value::wrap(arg.clone(), bits, true) == arg {
                arg = value::wrap(arg, bits, false);
            }
            if !value::fits(&arg, bits) {
                let found = format!("{text} does not fit the {bits} bits of \"{}\"", param.name);
                return self.fail(format!("action \"{name}\": {found}"));
            }
            Ok(arg)
        });
        args.collect()
    }
}

pub(super) fn has_duplicates(ids: &[ActionId]) -> bool {
    let mut seen = HashSet::new();
    !ids.iter().all(|id| seen.insert(*id))
}
