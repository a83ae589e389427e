//! The reads and writes of a primitive or parser operation.
//!
//! An unknown primitive counts as reading and writing everything, so a primitive of another target
//! never makes a pass unsound.

use bmv2_json::{Expression, Operation, ParserOp, ParserOpParameter, Primitive, Value};

use super::model::{FieldId, Model};
use super::walk;

/// A set of fields, or all fields.
#[derive(Debug, Default, Clone)]
pub struct Touch {
    pub all: bool,
    pub fields: Vec<FieldId>,
    /// Whether something other than fields is read: a register, or the packet's next bits.
    pub outside: bool,
}

impl Touch {
    pub fn has(&self, field: FieldId) -> bool {
        self.all || self.fields.contains(&field)
    }

    pub fn meets(&self, other: &Touch) -> bool {
        (self.all && (other.all || !other.fields.is_empty()))
            || (other.all && !self.fields.is_empty())
            || self.fields.iter().any(|field| other.fields.contains(field))
    }
}

/// The effect of a primitive or of a parser operation.
#[derive(Debug, Default, Clone)]
pub struct Effect {
    pub reads: Touch,
    /// The fields that may be written.
    pub writes: Touch,
    /// The field that is written in any case.
    pub defines: Option<FieldId>,
    /// The operation's only effect is to write one field, and the operation cannot fail.
    pub is_pure: bool,
}

/// Adds the fields that the evaluation of an operand reads to `out`.
pub fn read(model: &Model, value: &Value, out: &mut Touch) {
    match value {
        Value::Field((header, field)) => match model.id(header, field) {
            Some(id) => out.fields.push(id),
            None => out.all = true,
        },
        Value::Header(name) | Value::Regular(name) => match model.headers.get(name) {
            Some(header) => out.fields.extend(&header.fields),
            None => out.all = true,
        },
        Value::HeaderStack(name)
        | Value::HeaderUnion(name)
        | Value::HeaderUnionStack(name)
        | Value::StackField((name, _))
        | Value::UnionStackField((name, _, _))
        | Value::Stack(name)
        | Value::UnionStack((name, _)) => match model.groups.get(name) {
            Some(group) => out.fields.extend(group),
            None => out.all = true,
        },
        Value::Calculation(name) => match model.calculations.get(name) {
            Some(fields) => out.fields.extend(fields),
            None => out.all = true,
        },
        Value::Register((_, index)) => {
            out.outside = true;
            read(model, index, out);
        }
        Value::Lookahead(_) => out.outside = true,
        Value::Expression(expression) => match &**expression {
            Expression::Value(inner) => read(model, inner, out),
            Expression::Op(operation) => read_operation(model, operation, out),
        },
        Value::ParametersVector(values) => values.iter().for_each(|it| read(model, it, out)),
        Value::Hexstr(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Local(_)
        | Value::RuntimeData(_)
        | Value::RegisterArray(_)
        | Value::CounterArray(_)
        | Value::MeterArray(_)
        | Value::Payload(_)
        | Value::Extern(_) => {}
    }
}

fn read_operation(model: &Model, operation: &Operation, out: &mut Touch) {
    if operation.op == "valid"
        && let Some(bmv2_json::Operand::Value(Value::Header(name))) = &operation.right
        && let Some(header) = model.headers.get(name)
    {
        return out.fields.push(header.valid);
    }
    walk::operands(operation).for_each(|inner| read(model, inner, out));
}

pub fn reads(model: &Model, value: &Value) -> Touch {
    let mut out = Touch::default();
    read(model, value, &mut out);
    out
}

impl Effect {
    fn everything() -> Self {
        let all = Touch {
            all: true,
            ..Touch::default()
        };
        Self {
            reads: all.clone(),
            writes: all,
            ..Self::default()
        }
    }

    fn reading(mut self, model: &Model, value: Option<&Value>) -> Self {
        if let Some(value) = value {
            read(model, value, &mut self.reads);
        }
        self
    }

    /// Adds a write of one value to a field or register cell.
    fn storing(mut self, model: &Model, target: Option<&Value>) -> Self {
        match target {
            Some(Value::Field((header, field))) => match model.id(header, field) {
                Some(id) => {
                    self.writes.fields.push(id);
                    self.defines = Some(id);
                }
                None => self.writes.all = true,
            },
            // A register's cell is not a field, but its index is read.
            Some(Value::Register((_, index))) => read(model, index, &mut self.reads),
            // A field of a stack element that is known only at run time: any field of the stack may be written, the
            // index is read.
            Some(other) => {
                read(model, other, &mut self.writes);
                read(model, other, &mut self.reads);
            }
            None => self.writes.all = true,
        }
        self
    }

    /// Adds a write of a whole header or stack.
    fn changing(mut self, model: &Model, target: Option<&Value>) -> Self {
        match target {
            Some(value) => {
                read(model, value, &mut self.writes);
                if let Value::Header(name) | Value::Regular(name) = value
                    && let Some(header) = model.headers.get(name)
                {
                    self.writes.fields.extend(&header.rivals);
                } else {
                    // A computed index is read.
                    read(model, value, &mut self.reads);
                }
            }
            None => self.writes.all = true,
        }
        self
    }

    /// Marks the effect as pure: it only writes its result to one fixed field.
    fn pure(mut self, model: &Model) -> Self {
        self.is_pure = self.defines.is_some_and(|field| model.info(field).bits > 0);
        self
    }
}

pub fn primitive(model: &Model, primitive: &Primitive) -> Effect {
    let parameters = &primitive.parameters;
    let at = |index: usize| parameters.get(index);
    let none = Effect::default();
    match primitive.op.as_str() {
        "assign" | "modify_field" => none.storing(model, at(0)).reading(model, at(1)).pure(model),
        "register_read" => none
            .storing(model, at(0))
            .reading(model, at(2))
            .partial_pure(),
        "modify_field_with_hash_based_offset" => none
            .storing(model, at(0))
            .reading(model, at(1))
            .reading(model, at(2))
            .reading(model, at(3))
            .pure(model),
        "assign_VL"
        | "modify_field_rng_uniform"
        | "add"
        | "subtract"
        | "bit_xor"
        | "bit_or"
        | "bit_and"
        | "shift_left"
        | "shift_right" => none
            .storing(model, at(0))
            .reading(model, at(1))
            .reading(model, at(2)),
        "add_to_field" | "subtract_from_field" => none
            .storing(model, at(0))
            .reading(model, at(0))
            .reading(model, at(1)),
        "execute_meter" => {
            let mut effect = none.storing(model, at(2)).reading(model, at(1));
            // An index beyond the end of the array writes nothing.
            effect.defines = None;
            effect
        }
        "mark_to_drop" | "drop" => {
            let mut effect = none;
            effect.writes.fields.extend(model.architecture());
            effect
        }
        "_jump"
        | "_jump_if_zero"
        | "exit"
        | "no_op"
        | "register_write"
        | "count"
        | "generate_digest"
        | "clone_ingress_pkt_to_egress"
        | "clone_egress_pkt_to_egress"
        | "resubmit"
        | "recirculate"
        | "truncate"
        | "log_msg"
        | "assert"
        | "assume" => parameters
            .iter()
            .fold(none, |effect, value| effect.reading(model, Some(value))),
        _ => header_primitive(model, primitive),
    }
}

fn header_primitive(model: &Model, primitive: &Primitive) -> Effect {
    let at = |index: usize| primitive.parameters.get(index);
    let none = Effect::default();
    match primitive.op.as_str() {
        "assign_header"
        | "copy_header"
        | "assign_union"
        | "assign_header_stack"
        | "assign_union_stack" => none.changing(model, at(0)).reading(model, at(1)),
        "add_header" | "add_header_fast" | "remove_header" => {
            let mut effect = none.changing(model, at(0));
            if let Some(Value::Header(name)) = at(0)
                && let Some(header) = model.headers.get(name)
            {
                effect.reads.fields.push(header.valid);
            }
            effect
        }
        "push" | "pop" => none
            .changing(model, at(0))
            .reading(model, at(0))
            .reading(model, at(1)),
        _ => Effect::everything(),
    }
}

impl Effect {
    /// Marks the effect as pure but the write as uncertain, because a read beyond a register's end leaves the field
    /// unchanged.
    fn partial_pure(mut self) -> Self {
        self.is_pure = self.defines.is_some();
        self.defines = None;
        self
    }

    /// Returns the field that is written, if writing it is the only effect.
    pub fn only_writes(&self) -> Option<FieldId> {
        match self.writes.fields.as_slice() {
            [field] if self.is_pure && !self.writes.all => Some(*field),
            _ => None,
        }
    }
}

pub fn parser_op(model: &Model, op: &ParserOp) -> Effect {
    let at = |index: usize| match op.parameters.get(index) {
        Some(ParserOpParameter::Value(value)) => Some(value),
        _ => None,
    };
    let none = Effect::default();
    match (op.op.as_str(), op.parameters.first()) {
        ("set", _) => {
            let mut effect = none.storing(model, at(0)).reading(model, at(1)).pure(model);
            // A `lookahead` beyond the packet's end ends the parser.
            effect.is_pure &= !at(1).is_some_and(may_fail);
            effect
        }
        ("extract" | "extract_VL", _) => {
            let mut effect = none.changing(model, at(0)).reading(model, at(1));
            if !matches!(at(0), Some(Value::Regular(_))) {
                effect = effect.reading(model, at(0));
            }
            effect
        }
        ("verify" | "advance" | "shift", _) => none.reading(model, at(0)).reading(model, at(1)),
        ("primitive", Some(ParserOpParameter::Primitive(inner))) => {
            let mut effect = primitive(model, inner);
            effect.is_pure = false;
            effect
        }
        _ => Effect::everything(),
    }
}

/// Whether evaluating an operand can end the parser.
pub fn may_fail(value: &Value) -> bool {
    let mut found = false;
    walk::inside(value, &mut |inner| {
        found |= matches!(
            inner,
            Value::Lookahead(_) | Value::StackField(_) | Value::UnionStackField(_)
        );
    });
    found
}
