//! The parser and the deparser.

use std::collections::HashMap;

use bmv2_json::{self as json, ParserOpParameter, Value};

use super::{Context, Load, Loader, index_u32};
use crate::{
    limits,
    program::ir::{
        Expr, ExtractTarget, HeaderId, KeyPart, ParserOp, State, StateId, Transition,
        TransitionCase,
    },
    value::{self, Int},
};

/// The object that the target uses: the one of this name, or the only one.
fn pick<'j, T>(list: &'j [T], name: impl Fn(&T) -> &str, wanted: &str) -> Option<&'j T> {
    list.iter()
        .find(|object| name(object) == wanted)
        .or(match list {
            [only] => Some(only),
            _ => None,
        })
}

impl<'a> Loader<'a> {
    pub(super) fn parser(&mut self) -> Load {
        let Some(parser) = pick(&self.json.parsers, |parser| &parser.name, "parser") else {
            return Context::new("parser", "parser").fail("not found");
        };
        let mut states: HashMap<&str, StateId> = HashMap::new();
        for (index, state) in parser.parse_states.iter().enumerate() {
            if states
                .insert(&state.name, StateId(index_u32(index)))
                .is_some()
            {
                return Context::new("parser state", &state.name).fail("declared twice");
            }
        }
        let context = Context::new("parser", &parser.name);
        if parser.parse_states.is_empty() {
            return Ok(());
        }
        self.ir.parser.start = Some(context.find(&states, "state", &parser.init_state)?);
        for state in &parser.parse_states {
            let state = self.state(state, &states)?;
            self.ir.parser.states.push(state);
        }
        Ok(())
    }

    pub(super) fn deparser(&mut self) -> Load {
        let Some(deparser) = pick(&self.json.deparsers, |deparser| &deparser.name, "deparser")
        else {
            return Context::new("deparser", "deparser").fail("not found");
        };
        let context = Context::new("deparser", &deparser.name);
        self.ir.deparser.primitives = self.primitives(&context, &deparser.primitives)?;
        for name in &deparser.order {
            let header = context.find(&self.names.headers, "header", name)?;
            self.ir.deparser.order.push(header);
        }
        Ok(())
    }

    fn state(
        &mut self,
        state: &'a json::ParseState,
        states: &HashMap<&str, StateId>,
    ) -> Load<State> {
        let context = Context::new("parser state", &state.name);
        let mut ops = Vec::new();
        for (position, op) in state.parser_ops.iter().enumerate() {
            let place = format!("{}: operation {position} \"{}\"", context.place, op.op);
            let context = Context {
                place,
                ..Context::default()
            };
            ops.push(self.parser_op(&context, op)?);
        }
        let mut key = Vec::new();
        for part in &state.transition_key {
            key.push(self.key_part(&context, part)?);
        }
        let mut transitions = Vec::new();
        let mut default = None;
        for transition in &state.transitions {
            let next = match &transition.next_state {
                Some(name) => Some(context.find(states, "next state", name)?),
                None => None,
            };
            match self.transition_case(&context, transition, &key)? {
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

    fn parser_op(&self, context: &Context, op: &json::ParserOp) -> Load<ParserOp> {
        let expected = match op.op.as_str() {
            "extract" | "shift" | "advance" | "primitive" => 1,
            "extract_VL" | "set" | "verify" => 2,
            _ => return context.fail("unknown parser operation"),
        };
        if op.parameters.len() != expected {
            return context.fail(format!(
                "expected {expected} parameters, found {}",
                op.parameters.len()
            ));
        }
        let value = |index: usize| match &op.parameters[index] {
            ParserOpParameter::Value(value) => Ok(value),
            other => context.fail(format!("expected an operand, found {other:?}")),
        };
        Ok(match op.op.as_str() {
            "extract" => {
                let target = self.extract_target(context, value(0)?)?;
                if self.example_header(&target).1 {
                    return context.fail("the header has a varbit field, expected \"extract_VL\"");
                }
                ParserOp::Extract(target)
            }
            "extract_VL" => {
                let target = self.extract_target(context, value(0)?)?;
                if !self.example_header(&target).1 {
                    return context.fail("the header has no varbit field, expected \"extract\"");
                }
                ParserOp::ExtractVariable {
                    target,
                    bits: self.number(context, value(1)?)?,
                }
            }
            "set" => self.set(context, value(0)?, value(1)?)?,
            "verify" => ParserOp::Verify {
                condition: self.truth(context, value(0)?)?,
                error: match &op.parameters[1] {
                    ParserOpParameter::Number(code) => Expr::Const(Int::from(*code)),
                    _ => self.number(context, value(1)?)?,
                },
            },
            "shift" => match &op.parameters[0] {
                ParserOpParameter::Number(bytes) => ParserOp::Advance {
                    bits: Expr::Const(Int::from(*bytes) * Int::from(8)),
                },
                other => return context.fail(format!("expected bytes, found {other:?}")),
            },
            "advance" => ParserOp::Advance {
                bits: self.number(context, value(0)?)?,
            },
            _ => match &op.parameters[0] {
                ParserOpParameter::Primitive(primitive) => {
                    let one = std::slice::from_ref(primitive);
                    let mut loaded = self.primitives(context, one)?;
                    let primitive = loaded
                        .pop()
                        .ok_or_else(|| context.error("expected a primitive"))?;
                    ParserOp::Primitive(primitive)
                }
                other => return context.fail(format!("expected a primitive, found {other:?}")),
            },
        })
    }

    fn set(&self, context: &Context, to: &Value, from: &Value) -> Load<ParserOp> {
        let to = self.place(context, to)?;
        if let Value::Lookahead((offset, bits)) = from {
            check_lookahead(context, *offset, *bits)?;
            return Ok(ParserOp::SetLookahead {
                to,
                offset: *offset,
                bits: *bits,
            });
        }
        Ok(ParserOp::Set {
            to,
            from: self.number(context, from)?,
        })
    }

    fn extract_target(&self, context: &Context, value: &Value) -> Load<ExtractTarget> {
        Ok(match value {
            Value::Regular(name) => {
                ExtractTarget::Header(context.find(&self.names.headers, "header", name)?)
            }
            Value::Stack(name) => {
                ExtractTarget::Stack(context.find(&self.names.stacks, "header stack", name)?)
            }
            Value::UnionStack((name, member)) => {
                let stack = context.find(&self.names.union_stacks, "header union stack", name)?;
                let union = self.ir.union_stacks[stack.index()].elements[0];
                let member = self.member_offset(context, union, member)?;
                ExtractTarget::UnionStack { stack, member }
            }
            other => return context.fail(format!("cannot extract into {other:?}")),
        })
    }

    /// A header of the extracted type, and whether it has a varbit field.
    fn example_header(&self, target: &ExtractTarget) -> (HeaderId, bool) {
        let header = match target {
            ExtractTarget::Header(header) => *header,
            ExtractTarget::Stack(stack) => self.ir.stacks[stack.index()].elements[0],
            ExtractTarget::UnionStack { stack, member } => {
                let union = self.ir.union_stacks[stack.index()].elements[0];
                self.ir.unions[union.index()].members[*member as usize]
            }
        };
        (
            header,
            self.ir.headers[header.index()].variable_field.is_some(),
        )
    }

    fn key_part(&self, context: &Context, value: &Value) -> Load<KeyPart> {
        if let Value::Lookahead((offset, bits)) = value {
            check_lookahead(context, *offset, *bits)?;
            return Ok(KeyPart::Lookahead {
                offset: *offset,
                bits: *bits,
            });
        }
        let expr = self.number(context, value)?;
        let bits = self
            .bits_of(&expr)
            .ok_or_else(|| context.error(format!("transition key: unsupported {value:?}")))?;
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
            bits,
        })
    }

    fn value_set_case(
        &mut self,
        context: &Context,
        name: &str,
        mask: Option<&str>,
        key: &[KeyPart],
    ) -> Load<TransitionCase> {
        let set = context.find(&self.names.value_sets, "parser value set", name)?;
        let declared = &mut self.ir.value_sets[set.index()];
        let parts: Vec<u32> = key.iter().map(KeyPart::bits).collect();
        let bits = |parts: &[u32]| parts.iter().map(|bits| u64::from(*bits)).sum::<u64>();
        let (expected, found) = (bits(&declared.parts), bits(&parts));
        if expected != found {
            return context.fail(format!(
                "the values of set \"{name}\" have {expected} bits, the key has {found}"
            ));
        }
        // What a member is matched with, one field a part, is what the first `select` looks at.
        if declared.parts.len() == 1 {
            declared.parts = parts;
        }
        let mask = match mask {
            Some(mask) => {
                let masks = split_key(context, mask, key)?;
                let joined = key
                    .iter()
                    .zip(masks)
                    .fold(Int::ZERO, |joined, (part, mask)| {
                        (joined << part.bits() as usize) | (mask & value::ones(part.bits()))
                    });
                Some(joined)
            }
            None => None,
        };
        Ok(TransitionCase::ValueSet { set, mask })
    }

    /// The case of an arrow; none for the default.
    fn transition_case(
        &mut self,
        context: &Context,
        transition: &json::Transition,
        key: &[KeyPart],
    ) -> Load<Option<TransitionCase>> {
        let kind = transition.kind.as_deref().unwrap_or("hexstr");
        match (kind, transition.value.as_deref()) {
            ("default", _) | ("hexstr", None | Some("default")) => Ok(None),
            ("hexstr", Some(text)) => {
                let values = split_key(context, text, key)?;
                let masks = match &transition.mask {
                    Some(text) => split_key(context, text, key)?
                        .into_iter()
                        .map(Some)
                        .collect(),
                    None => vec![None; key.len()],
                };
                // A value is compared under its mask, so bits outside of it do not count.
                let values = values
                    .into_iter()
                    .zip(masks)
                    .map(|(value, mask): (Int, Option<Int>)| match mask {
                        Some(mask) => (value & &mask, Some(mask)),
                        None => (value, None),
                    })
                    .collect();
                Ok(Some(TransitionCase::Values(values)))
            }
            ("parse_vset", Some(name)) => self
                .value_set_case(context, name, transition.mask.as_deref(), key)
                .map(Some),
            (kind, _) => context.fail(format!("unknown kind of transition \"{kind}\"")),
        }
    }
}

fn check_lookahead(context: &Context, offset: u32, bits: u32) -> Load {
    super::declarations::check_width(context, "lookahead", bits)?;
    if offset > limits::FIELD_BITS_MAX {
        return context.fail(format!("lookahead at bit {offset} is beyond any frame"));
    }
    Ok(())
}

/// Cuts a transition's value into the key's parts, each of which is padded to whole bytes.
fn split_key(context: &Context, text: &str, key: &[KeyPart]) -> Load<Vec<Int>> {
    let whole = super::expression::hex(context, text)?;
    let bits: u64 = key
        .iter()
        .map(|part| u64::from(part.bits().div_ceil(8)) * 8)
        .sum();
    let bits = u32::try_from(bits).unwrap_or(u32::MAX);
    if !value::fits(&whole, bits) {
        return context.fail(format!(
            "transition: {text} does not fit the {bits} bits of the key"
        ));
    }
    let mut parts = Vec::new();
    let mut rest = whole;
    for part in key.iter().rev() {
        let padded = part.bits().div_ceil(8) * 8;
        parts.push(&rest & value::ones(padded));
        rest >>= padded as usize;
    }
    parts.reverse();
    Ok(parts)
}
