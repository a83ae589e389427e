//! The parser and the deparser.

use std::collections::HashMap;

use bmv2_json::{self as json, ParserOpParameter, Value};

use super::{At, Context, Load, Loader, index_u32};
use crate::{
    limits,
    program::ir::{
        AnyStack, Expr, ExtractTarget, KeyPart, ParserOp, State, StateId, Transition,
        TransitionCase,
    },
    value::{self, Int},
};

/// Returns the object with the wanted name or, if no object has this name, the only object of the list.
fn pick<'j, T>(list: &'j [T], name: impl Fn(&T) -> &str, wanted: &str) -> Option<&'j T> {
    let named = list.iter().find(|object| name(object) == wanted);
    named.or(match list {
        [only] => Some(only),
        _ => None,
    })
}

impl Loader<'_> {
    pub(super) fn parser(&mut self) -> Load {
        let Some(parser) = pick(&self.json.parsers, |parser| &parser.name, "parser") else {
            return Context::new("parser", "parser").fail("not found");
        };
        let mut states: HashMap<&str, StateId> = HashMap::new();
        for (index, state) in parser.parse_states.iter().enumerate() {
            let context = Context::new("parser state", &state.name);
            context.declare(&mut states, &state.name, StateId(index_u32(index)))?;
        }
        let context = Context::new("parser", &parser.name);
        if parser.parse_states.is_empty() {
            return Ok(());
        }
        self.ir.parser.start = Some(context.find(&states, "state", &parser.init_state)?);
        for state in &parser.parse_states {
            let context = Context::new("parser state", &state.name);
            let state = self.at(&context).state(state, &states)?;
            self.ir.parser.states.push(state);
        }
        self.split_value_sets();
        Ok(())
    }

    pub(super) fn deparser(&mut self) -> Load {
        let Some(deparser) = pick(&self.json.deparsers, |deparser| &deparser.name, "deparser")
        else {
            return Context::new("deparser", "deparser").fail("not found");
        };
        let context = Context::new("deparser", &deparser.name);
        self.ir.deparser.primitives = self.at(&context).primitives(&deparser.primitives)?;
        for name in &deparser.order {
            let header = context.find(&self.names.headers, "header", name)?;
            self.ir.deparser.order.push(header);
        }
        Ok(())
    }

    /// Sets the widths of the parts of value sets. BMv2 JSON gives only the total width of a value set's members; the
    /// widths of their parts come from the key of a state that uses the set.
    fn split_value_sets(&mut self) {
        for state in &self.ir.parser.states {
            for transition in &state.transitions {
                if let TransitionCase::ValueSet { set, .. } = &transition.case {
                    let declared = &mut self.ir.value_sets[set.index()];
                    if declared.parts.len() == 1 {
                        declared.parts = state.key.iter().map(KeyPart::bits).collect();
                    }
                }
            }
        }
    }
}

impl At<'_, '_> {
    fn state(&self, state: &json::ParseState, states: &HashMap<&str, StateId>) -> Load<State> {
        let ops = state.parser_ops.iter().enumerate();
        let ops = ops.map(|(position, op)| {
            let place = format!("operation {position} \"{}\"", op.op);
            let context = self.context.within(&place);
            self.loader.at(&context).parser_op(op)
        });
        let ops = ops.collect::<Load<_>>()?;
        let key = state.transition_key.iter();
        let key = key.map(|part| self.key_part(part));
        let key = key.collect::<Load<Vec<_>>>()?;
        let mut transitions = Vec::new();
        let mut default = None;
        for transition in &state.transitions {
            let next = transition.next_state.as_ref();
            let next = next.map(|name| self.find(states, "next state", name));
            let next = next.transpose()?;
            match self.transition_case(transition, &key)? {
                Some(case) => transitions.push(Transition { case, next }),
                None => default = next,
            }
        }
        Ok(State {
            name: state.name.clone(),
            ops,
            key,
            transitions,
            default,
        })
    }

    fn parser_op(&self, op: &json::ParserOp) -> Load<ParserOp> {
        let expected = match op.op.as_str() {
            "extract" | "shift" | "advance" | "primitive" => 1,
            "extract_VL" | "set" | "verify" => 2,
            _ => return self.fail("unknown parser operation"),
        };
        let found = op.parameters.len();
        if found != expected {
            return self.fail(format!("expected {expected} parameters, found {found}"));
        }
        let value = |index: usize| match &op.parameters[index] {
            ParserOpParameter::Value(value) => Ok(value),
            other => self.fail(format!("expected an operand, found {other:?}")),
        };
        Ok(match op.op.as_str() {
            "extract" => {
                let target = self.extract_target(value(0)?)?;
                if self.is_variable(&target) {
                    return self.fail("the header has a varbit field, expected \"extract_VL\"");
                }
                ParserOp::Extract(target)
            }
            "extract_VL" => {
                let target = self.extract_target(value(0)?)?;
                if !self.is_variable(&target) {
                    return self.fail("the header has no varbit field, expected \"extract\"");
                }
                ParserOp::ExtractVariable {
                    target,
                    bits: self.number(value(1)?)?,
                }
            }
            "set" => self.set(value(0)?, value(1)?)?,
            "verify" => ParserOp::Verify {
                condition: self.truth(value(0)?)?,
                error: match &op.parameters[1] {
                    ParserOpParameter::Number(code) => Expr::Const(Int::from(*code)),
                    _ => self.number(value(1)?)?,
                },
            },
            "shift" => match &op.parameters[0] {
                ParserOpParameter::Number(bytes) => ParserOp::Advance {
                    bits: Expr::Const(Int::from(*bytes) * Int::from(8)),
                },
                other => return self.fail(format!("expected bytes, found {other:?}")),
            },
            "advance" => ParserOp::Advance {
                bits: self.number(value(0)?)?,
            },
            _ => match &op.parameters[0] {
                ParserOpParameter::Primitive(primitive) => {
                    let one = std::slice::from_ref(primitive);
                    let loaded = self.primitives(one)?.pop();
                    let loaded = loaded.ok_or_else(|| self.error("expected a primitive"));
                    ParserOp::Primitive(loaded?)
                }
                other => return self.fail(format!("expected a primitive, found {other:?}")),
            },
        })
    }

    fn set(&self, to: &Value, from: &Value) -> Load<ParserOp> {
        let to = self.place(to)?;
        if let Value::Lookahead((offset, bits)) = *from {
            self.check_lookahead(offset, bits)?;
            return Ok(ParserOp::SetLookahead { to, offset, bits });
        }
        Ok(ParserOp::Set {
            to,
            from: self.number(from)?,
        })
    }

    fn extract_target(&self, value: &Value) -> Load<ExtractTarget> {
        Ok(match value {
            Value::Regular(name) => ExtractTarget::Header(self.header(name)?),
            Value::Stack(name) => ExtractTarget::Next {
                stack: AnyStack::Headers(self.header_stack(name)?),
                member: 0,
            },
            Value::UnionStack((name, member)) => {
                let stack = self.union_stack(name)?;
                let union = self.loader.ir.union_stacks[stack.index()].elements[0];
                let member = self.member_offset(union, member)?;
                let stack = AnyStack::Unions(stack);
                ExtractTarget::Next { stack, member }
            }
            other => return self.fail(format!("cannot extract into {other:?}")),
        })
    }

    fn is_variable(&self, target: &ExtractTarget) -> bool {
        let ir = &self.loader.ir;
        let header = match target {
            ExtractTarget::Header(header) => Some(*header),
            ExtractTarget::Next { stack, member } => ir.element(*stack, *member, 0),
        };
        header.is_some_and(|header| ir.headers[header.index()].variable_field.is_some())
    }

    fn key_part(&self, value: &Value) -> Load<KeyPart> {
        if let Value::Lookahead((offset, bits)) = *value {
            self.check_lookahead(offset, bits)?;
            return Ok(KeyPart::Lookahead { offset, bits });
        }
        let expr = self.number(value)?;
        let bits = self.loader.bits_of(&expr);
        let error = || self.error(format!("transition key: unsupported {value:?}"));
        let name = match value {
            Value::Field((header, field)) | Value::StackField((header, field)) => {
                format!("{header}.{field}")
            }
            Value::UnionStackField((stack, member, field)) => format!("{stack}.{member}.{field}"),
            _ => "key".into(),
        };
        Ok(KeyPart::Value {
            name,
            value: expr,
            bits: bits.ok_or_else(error)?,
        })
    }

    fn value_set_case(
        &self,
        name: &str,
        mask: Option<&str>,
        key: &[KeyPart],
    ) -> Load<TransitionCase> {
        let sets = &self.loader.names.value_sets;
        let set = self.find(sets, "parser value set", name)?;
        let declared = self.loader.ir.value_sets[set.index()].parts.iter();
        let expected: u64 = declared.map(|bits| u64::from(*bits)).sum();
        let found: u64 = key.iter().map(|part| u64::from(part.bits())).sum();
        if expected != found {
            return self.fail(format!(
                "the values of set \"{name}\" have {expected} bits, the key has {found}"
            ));
        }
        let joined = |masks| {
            let parts = key.iter().map(KeyPart::bits).zip::<Vec<Int>>(masks);
            parts.fold(Int::ZERO, |joined, (bits, mask)| {
                (joined << bits as usize) | (mask & value::ones(bits))
            })
        };
        let masks = mask.map(|mask| self.split_key(mask, key)).transpose()?;
        let mask = masks.map(joined);
        Ok(TransitionCase::ValueSet { set, mask })
    }

    /// The case of a transition; `None` for the default.
    fn transition_case(
        &self,
        transition: &json::Transition,
        key: &[KeyPart],
    ) -> Load<Option<TransitionCase>> {
        let kind = transition.kind.as_deref().unwrap_or("hexstr");
        let mask = transition.mask.as_deref();
        Ok(match (kind, transition.value.as_deref()) {
            ("default", _) | ("hexstr", None | Some("default")) => None,
            ("hexstr", Some(text)) => {
                let values = self.split_key(text, key)?;
                let masks = mask.map(|text| self.split_key(text, key)).transpose()?;
                // Only bits under the mask are compared, so the value's other bits are cleared.
                Some(TransitionCase::Values(match masks {
                    Some(masks) => {
                        let pairs = values.into_iter().zip(masks);
                        pairs
                            .map(|(value, mask)| (value & &mask, Some(mask)))
                            .collect()
                    }
                    None => values.into_iter().map(|value| (value, None)).collect(),
                }))
            }
            ("parse_vset", Some(name)) => Some(self.value_set_case(name, mask, key)?),
            (kind, _) => return self.fail(format!("unknown kind of transition \"{kind}\"")),
        })
    }

    fn check_lookahead(&self, offset: u32, bits: u32) -> Load {
        self.context.check_width("lookahead", bits)?;
        if offset > limits::FIELD_BITS_MAX {
            return self.fail(format!("lookahead at bit {offset} is beyond any frame"));
        }
        Ok(())
    }

    /// Splits a transition's value into key parts, each padded to whole bytes.
    fn split_key(&self, text: &str, key: &[KeyPart]) -> Load<Vec<Int>> {
        let mut rest = self.hex(text)?;
        let padded = |part: &KeyPart| part.bits().div_ceil(8) * 8;
        let bits: u64 = key.iter().map(|part| u64::from(padded(part))).sum();
        let bits = u32::try_from(bits).unwrap_or(u32::MAX);
        if !value::fits(&rest, bits) {
            return self.fail(format!(
                "transition: {text} does not fit the {bits} bits of the key"
            ));
        }
        let parts = key.iter().rev().map(|part| {
            let value = &rest & value::ones(padded(part));
            rest >>= padded(part) as usize;
            value
        });
        let mut parts: Vec<Int> = parts.collect();
        parts.reverse();
        Ok(parts)
    }
}
