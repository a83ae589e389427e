//! Places: where BMv2 stores values (fields, headers, stacks), and the operands that read them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bmv2_json::{Expression, Operand, Operation, ParserOpParameter, Value};
use num_bigint::BigInt;
use num_traits::{Signed as _, ToPrimitive as _};

use super::{Binding, Lower, Stage};
use crate::ir::{self, Expr, ExprKind, StackProperty, StructId};
use crate::source::Span;
use crate::types::Type;
use crate::types::const_eval::mask;

#[derive(Clone, Debug)]
pub enum Place {
    Field {
        header: String,
        field: String,
        ty: Type,
    },
    Header {
        name: String,
        id: StructId,
        /// The union that contains the header, and that union's type; `None` if the header is in no union.
        union: Option<(String, StructId)>,
    },
    Union {
        name: String,
        id: StructId,
    },
    Stack {
        name: String,
        element: Type,
        size: u32,
    },
    /// A struct's or tuple's members, in order. Shared by `Rc`, because selecting a member clones the whole place.
    Members(Rc<[Place]>),
    Data(u32, Type),
    /// `stack.last`, in a parser.
    Last {
        stack: String,
        id: StructId,
    },
    /// `stack.next`, in a parser.
    Next {
        stack: String,
        element: Type,
    },
    /// A member of `stack.next`, where the elements are unions.
    NextMember {
        stack: String,
        member: String,
    },
    /// An element of a stack whose index is known at run time only or, if the elements are unions, a member of such an
    /// element.
    Element {
        stack: String,
        index: Value,
        /// The member's position and the union's type.
        member: Option<(u32, StructId)>,
        id: StructId,
    },
    /// A field of an `Element`.
    ElementField {
        stack: String,
        index: Value,
        member: Option<(u32, StructId)>,
        position: u32,
        ty: Type,
    },
    /// An element of a stack of unions whose index is known at run time only.
    UnionElement {
        stack: String,
        index: Value,
    },
    LastField {
        stack: String,
        field: String,
        ty: Type,
    },
}

pub fn operation(op: &str, left: Option<Value>, right: Option<Value>) -> Value {
    let op = Operation {
        op: op.to_owned(),
        left: left.map(Operand::Value),
        right: right.map(Operand::Value),
        cond: None,
    };
    Value::Expression(Box::new(Expression::Op(op)))
}

/// Returns the operand for a numbered part of `whole`: a header's field or a union's member.
fn part(op: &str, whole: Value, position: u32) -> Value {
    let op = Operation {
        op: op.to_owned(),
        left: Some(Operand::Value(whole)),
        right: Some(Operand::Index(position)),
        cond: None,
    };
    Value::Expression(Box::new(Expression::Op(op)))
}

fn union_at(stack: &str, index: &Value) -> Value {
    let stack = Value::HeaderUnionStack(stack.to_owned());
    operation("dereference_union_stack", Some(stack), Some(index.clone()))
}

/// Returns the operand for an element of a stack of headers, or for a member of an element of a stack of unions.
fn header_at(stack: &str, index: &Value, member: Option<(u32, StructId)>) -> Value {
    match member {
        Some((member, _)) => part("access_union_header", union_at(stack, index), member),
        None => {
            let stack = Value::HeaderStack(stack.to_owned());
            operation("dereference_header_stack", Some(stack), Some(index.clone()))
        }
    }
}

pub fn depth(value: &Value) -> usize {
    let inner = |operand: &Option<Operand>| match operand {
        Some(Operand::Value(value)) => depth(value),
        _ => 0,
    };
    match value {
        Value::Expression(expression) => match &**expression {
            Expression::Value(inner) => depth(inner),
            Expression::Op(op) => 1 + inner(&op.left).max(inner(&op.right)).max(inner(&op.cond)),
        },
        Value::ParametersVector(values) => values.iter().map(depth).max().unwrap_or(0),
        Value::Register((_, index)) => 1 + depth(index),
        _ => 0,
    }
}

/// Returns a number as a hex operand, padded to whole bytes.
pub fn hex(value: &BigInt, width: u32) -> Value {
    Value::Hexstr(hex_text(value, width))
}

pub fn hex_text(value: &BigInt, width: u32) -> String {
    let sign = if value.is_negative() { "-" } else { "" };
    let digits = value.abs().to_str_radix(16);
    let wanted = width.div_ceil(8) as usize * 2;
    format!("{sign}0x{digits:0>wanted$}")
}

/// Returns the hex operand for a small number that is not a field's value: an id, an offset, a width.
pub fn plain_hex(value: u64) -> Value {
    Value::Hexstr(format!("{value:#x}"))
}

/// Returns an operand as a primitive's parameter: wraps an expression in another expression, and gives an action
/// parameter the JSON form that it has in primitives.
pub fn parameter(value: Value) -> Value {
    match value {
        Value::Expression(_) | Value::StackField(_) => {
            Value::Expression(Box::new(Expression::Value(value)))
        }
        Value::Local(index) => Value::RuntimeData(index),
        other => other,
    }
}

impl Lower<'_> {
    /// Cuts a result to the width of its type, as P4's arithmetic does.
    pub fn clamp(&self, value: Value, ty: &Type) -> Value {
        match self.program.underlying(ty) {
            Type::Bits {
                width,
                signed: false,
            } => operation("&", Some(value), Some(hex(&mask(*width), *width))),
            Type::Bits {
                width,
                signed: true,
            } => operation(
                "two_comp_mod",
                Some(value),
                Some(plain_hex(u64::from(*width))),
            ),
            _ => value,
        }
    }

    pub fn is_bool(&self, ty: &Type) -> bool {
        matches!(self.program.underlying(ty), Type::Bool)
    }

    /// Returns the place's content as an operand. A bool becomes a boolean operand, not data. simple_switch reads an
    /// action's parameter as an unsigned number, so this function adds a sign extension to a signed parameter.
    pub fn read(&self, place: &Place) -> Value {
        let (raw, ty) = self.read_raw(place);
        match ty {
            Some(ty) if self.is_bool(&ty) => operation("d2b", None, Some(raw)),
            Some(ty) if matches!(place, Place::Data(..)) && self.is_signed(&ty) => {
                self.clamp(raw, &ty)
            }
            _ => raw,
        }
    }

    /// Returns the stored content of the place without conversion, and the type of a scalar.
    pub fn read_raw(&self, place: &Place) -> (Value, Option<Type>) {
        match place {
            Place::Field { header, field, ty } => (
                Value::Field((header.clone(), field.clone())),
                Some(ty.clone()),
            ),
            Place::Data(index, ty) => (Value::Local(*index), Some(ty.clone())),
            Place::LastField { stack, field, ty } => (
                Value::StackField((stack.clone(), field.clone())),
                Some(ty.clone()),
            ),
            Place::ElementField {
                stack,
                index,
                member,
                position,
                ty,
            } => {
                let header = header_at(stack, index, *member);
                (part("access_field", header, *position), Some(ty.clone()))
            }
            Place::Header { name, .. } => (Value::Header(name.clone()), None),
            Place::Union { name, .. } => (Value::HeaderUnion(name.clone()), None),
            Place::Stack { name, element, .. } if self.program.is_union(element) => {
                (Value::HeaderUnionStack(name.clone()), None)
            }
            Place::Stack { name, .. } => (Value::HeaderStack(name.clone()), None),
            Place::Element {
                stack,
                index,
                member,
                ..
            } => (header_at(stack, index, *member), None),
            Place::UnionElement { stack, index } => (union_at(stack, index), None),
            Place::Last { stack, .. } => {
                let whole = || Some(Value::HeaderStack(stack.clone()));
                let last = operation("last_stack_index", None, whole());
                (
                    operation("dereference_header_stack", whole(), Some(last)),
                    None,
                )
            }
            Place::Next { stack, .. } | Place::NextMember { stack, .. } => {
                (Value::HeaderStack(stack.clone()), None)
            }
            Place::Members(_) => (Value::Hexstr("0x0".to_owned()), None),
        }
    }

    /// Returns the place of a header's field with the name `prefix`. If the field is a struct, the struct's members are
    /// the header's fields `prefix.member`.
    fn field_place(&self, header: &str, prefix: &str, ty: &Type) -> Place {
        match ty {
            Type::Struct(id) => {
                let fields = &self.program.structs[*id].fields;
                Place::Members(
                    fields
                        .iter()
                        .map(|field| {
                            self.field_place(header, &format!("{prefix}.{}", field.name), &field.ty)
                        })
                        .collect(),
                )
            }
            _ => Place::Field {
                header: header.to_owned(),
                field: prefix.to_owned(),
                ty: ty.clone(),
            },
        }
    }

    /// Returns the place of an expression's value; `None` if the value is not stored anywhere, for example the value of
    /// a sum.
    pub fn place(&mut self, expr: &Expr) -> Option<Place> {
        match &expr.kind {
            ExprKind::Var(id) => match self.env.get(id) {
                Some(Binding::Place(place)) => Some(place.clone()),
                Some(Binding::Constant(value)) if matches!(value.kind, ExprKind::List(_)) => {
                    let value = value.clone();
                    self.place(&value)
                }
                _ => None,
            },
            ExprKind::Field(inner, index) => {
                let inner_place = self.place(inner)?;
                self.member_place(inner_place, &inner.ty, *index)
            }
            ExprKind::Index(inner, index) => {
                let place = self.place(inner)?;
                self.element_place(place, index)
            }
            ExprKind::Stack(inner, property) => match (self.place(inner)?, property) {
                (
                    Place::Stack {
                        name,
                        element: Type::Struct(id),
                        ..
                    },
                    StackProperty::Last,
                ) => {
                    self.expect_last(&name, id, expr.span);
                    Some(Place::Last { stack: name, id })
                }
                (Place::Stack { name, element, .. }, StackProperty::Next) => Some(Place::Next {
                    stack: name,
                    element,
                }),
                _ => None,
            },
            ExprKind::Call(_) => self.call_place(expr),
            // `_` for an `out` parameter: storage that nothing reads.
            ExprKind::DontCare if crate::types::unify::is_open(&expr.ty) => None,
            ExprKind::DontCare => Some(self.temp("unused", &expr.ty, expr.span)),
            ExprKind::List(_)
                if matches!(expr.ty, Type::Struct(_) | Type::Tuple(_) | Type::ListOf(_)) =>
            {
                let ty = self.closed_type(&expr.ty);
                let temp = self.temp("tmp", &ty, expr.span);
                self.assign(&temp, expr);
                Some(temp)
            }
            _ => None,
        }
    }

    /// Emits the check of `stack.last`, which ends the parser with an error if the stack is empty (P4_16 1.2.5,
    /// section 8.18). After an extraction into the stack no check is needed.
    fn expect_last(&mut self, stack: &str, id: StructId, span: Span) {
        let errors = &self.program.errors;
        let error = errors.iter().position(|name| &**name == "StackOutOfBounds");
        let Some(error) = error.filter(|_| self.stage == Stage::Parser) else {
            return;
        };
        let is_union = self.program.structs[id].kind == ir::StructKind::Union;
        let whole = if is_union {
            Value::HeaderUnionStack(stack.to_owned())
        } else {
            Value::HeaderStack(stack.to_owned())
        };
        let size = operation("size_stack", None, Some(whole));
        let condition = operation(">", Some(size), Some(plain_hex(0)));
        if !self.has_last(stack, &condition) {
            self.emit("verify", vec![condition, plain_hex(error as u64)], span);
        }
    }

    /// Whether the state's operations so far guarantee an element in the stack.
    fn has_last(&self, stack: &str, condition: &Value) -> bool {
        let touches = |value: &Value| match value {
            Value::HeaderStack(name) | Value::HeaderUnionStack(name) => name == stack,
            _ => false,
        };
        for primitive in self.code.body.primitives.iter().rev() {
            if primitive.op == "verify" && primitive.parameters.first() == Some(condition) {
                return true;
            }
            let is_plain = !primitive.op.starts_with("_jump");
            if !is_plain || primitive.parameters.iter().any(touches) {
                return false;
            }
        }
        for op in self.states.ops.iter().rev() {
            match (op.op.as_str(), op.parameters.first()) {
                ("extract" | "extract_VL", Some(ParserOpParameter::Value(value))) => match value {
                    Value::Stack(name) | Value::UnionStack((name, _)) if name == stack => {
                        return true;
                    }
                    _ => {}
                },
                ("verify", Some(ParserOpParameter::Value(value))) if value == condition => {
                    return true;
                }
                (_, Some(ParserOpParameter::Primitive(primitive)))
                    if primitive.parameters.iter().any(touches) =>
                {
                    return false;
                }
                _ => {}
            }
        }
        false
    }

    /// Returns the other members of the union that contains a header.
    pub fn rivals(&self, place: &Place) -> Vec<Place> {
        let members = |id: StructId| {
            let fields = self.program.structs[id].fields.iter();
            (0_u32..)
                .zip(fields)
                .filter_map(|(at, field)| match field.ty {
                    Type::Struct(header) => Some((at, &field.name, header)),
                    _ => None,
                })
        };
        match place {
            Place::Header {
                name,
                union: Some((union, id)),
                ..
            } => members(*id)
                .map(|(_, member, header)| Place::Header {
                    name: format!("{union}.{member}"),
                    id: header,
                    union: Some((union.clone(), *id)),
                })
                .filter(
                    |rival| !matches!(rival, Place::Header { name: other, .. } if other == name),
                )
                .collect(),
            Place::Element {
                stack,
                index,
                member: Some((own, id)),
                ..
            } => members(*id)
                .filter(|(at, ..)| at != own)
                .map(|(at, _, header)| Place::Element {
                    stack: stack.clone(),
                    index: index.clone(),
                    member: Some((at, *id)),
                    id: header,
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the type, or a tuple type for a list to which the context gives no type.
    pub fn closed_type(&self, ty: &Type) -> Type {
        match ty {
            Type::ListOf(items) => Type::Tuple(items.clone()),
            other => other.clone(),
        }
    }

    fn member_place(&self, place: Place, ty: &Type, index: usize) -> Option<Place> {
        let Type::Struct(id) = ty else {
            return match place {
                Place::Members(members) => members.get(index).cloned(),
                _ => None,
            };
        };
        let field = self.program.structs[*id].fields.get(index)?;
        match place {
            Place::Members(members) => members.get(index).cloned(),
            Place::Header { name, .. } => Some(self.field_place(&name, &field.name, &field.ty)),
            Place::Union { name, .. } => match field.ty {
                Type::Struct(member) => Some(Place::Header {
                    union: Some((name.clone(), *id)),
                    name: format!("{name}.{}", field.name),
                    id: member,
                }),
                _ => None,
            },
            Place::Last { stack, .. } => Some(Place::LastField {
                stack,
                field: field.name.to_string(),
                ty: field.ty.clone(),
            }),
            Place::Next { stack, .. } => match field.ty {
                Type::Struct(_) => Some(Place::NextMember {
                    stack,
                    member: field.name.to_string(),
                }),
                _ => None,
            },
            Place::Element {
                stack,
                index: at,
                member,
                ..
            } => Some(Place::ElementField {
                stack,
                index: at,
                member,
                position: index as u32,
                ty: field.ty.clone(),
            }),
            Place::UnionElement { stack, index: at } => match field.ty {
                Type::Struct(header) => Some(Place::Element {
                    stack,
                    index: at,
                    member: Some((index as u32, *id)),
                    id: header,
                }),
                _ => None,
            },
            _ => None,
        }
    }

    fn element_place(&mut self, place: Place, index: &Expr) -> Option<Place> {
        let index = self.resolve(index);
        match place {
            Place::Members(members) => match &index.kind {
                ExprKind::Int(at) => members.get(at.to_usize()?).cloned(),
                _ => None,
            },
            Place::Stack {
                name,
                element: Type::Struct(id),
                size,
            } => match &index.kind {
                ExprKind::Int(at) if at.is_negative() || *at >= size.into() => {
                    let message = format!("the stack has elements 0 to {}", i64::from(size) - 1);
                    self.sink.error("E0503", index.span, message);
                    None
                }
                ExprKind::Int(at) => Some(self.element_of(&name, id, at)),
                _ => {
                    let index = self.value(&index);
                    let is_union = self.program.structs[id].kind == ir::StructKind::Union;
                    Some(if is_union {
                        Place::UnionElement { stack: name, index }
                    } else {
                        Place::Element {
                            stack: name,
                            index,
                            member: None,
                            id,
                        }
                    })
                }
            },
            _ => None,
        }
    }

    fn element_of(&self, stack: &str, id: StructId, at: &BigInt) -> Place {
        let name = format!("{stack}[{at}]");
        if self.program.structs[id].kind == ir::StructKind::Union {
            Place::Union { name, id }
        } else {
            let union = None;
            Place::Header { name, id, union }
        }
    }

    /// Returns every scalar, header, union and stack inside a place.
    pub fn leaves(&self, place: &Place) -> Vec<Place> {
        match place {
            Place::Members(members) => members
                .iter()
                .flat_map(|member| self.leaves(member))
                .collect(),
            other => vec![other.clone()],
        }
    }

    pub fn elements(&self, place: &Place) -> Vec<Place> {
        match place {
            Place::Stack {
                name,
                element: Type::Struct(id),
                size,
            } => (0..*size)
                .map(|at| self.element_of(name, *id, &at.into()))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the scalar fields of a place, including the fields in headers.
    pub fn fields(&self, place: &Place) -> Vec<Place> {
        match place {
            Place::Members(members) => members
                .iter()
                .flat_map(|member| self.fields(member))
                .collect(),
            Place::Header { name, id, .. } => {
                let fields = &self.program.structs[*id].fields;
                fields
                    .iter()
                    .flat_map(|field| self.fields(&self.field_place(name, &field.name, &field.ty)))
                    .collect()
            }
            Place::Stack {
                name,
                element: Type::Struct(id),
                size,
            } => (0..*size)
                .flat_map(|at| self.fields(&self.element_of(name, *id, &at.into())))
                .collect(),
            other => vec![other.clone()],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part<'a> {
    Whole,
    Field(&'a str),
    Parameter(u32),
}

/// The storage that a place occupies: headers and stacks by name, with the occupied parts of each.
#[derive(Default)]
pub struct Roots<'a>(HashMap<&'a str, HashSet<Part<'a>>>);

impl<'a> Roots<'a> {
    pub fn of(place: &'a Place) -> Self {
        let mut roots = Self::default();
        roots.add(place);
        roots
    }

    /// Whether two places share storage. Elements of one stack count as shared if an index is known only at run time.
    pub fn overlap(&self, other: &Roots<'_>) -> bool {
        self.enclose(other) || other.enclose(self)
    }

    fn add(&mut self, place: &'a Place) {
        let (name, part) = match place {
            Place::Members(members) => return members.iter().for_each(|member| self.add(member)),
            Place::Field { header, field, .. } => (header.as_str(), Part::Field(field)),
            Place::Header { name, .. } | Place::Union { name, .. } | Place::Stack { name, .. } => {
                (name.as_str(), Part::Whole)
            }
            Place::Last { stack, .. }
            | Place::Next { stack, .. }
            | Place::NextMember { stack, .. }
            | Place::Element { stack, .. }
            | Place::ElementField { stack, .. }
            | Place::UnionElement { stack, .. }
            | Place::LastField { stack, .. } => (stack.as_str(), Part::Whole),
            Place::Data(index, _) => ("$data", Part::Parameter(*index)),
        };
        self.0.entry(name).or_default().insert(part);
    }

    /// Whether a part of `other` is a part of this place, or lies within a part of this place.
    fn enclose(&self, other: &Roots<'_>) -> bool {
        other.0.iter().any(|(name, parts)| {
            let outside = name.match_indices(['[', '.']).map(|(end, _)| &name[..end]);
            let mut found = outside.chain([*name]).filter_map(|name| self.0.get(name));
            found.any(|mine| {
                let whole = mine.contains(&Part::Whole) || parts.contains(&Part::Whole);
                whole || parts.iter().any(|part| mine.contains(part))
            })
        })
    }
}
