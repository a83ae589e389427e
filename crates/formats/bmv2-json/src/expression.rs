//! BMv2's "type value object": operands, expressions and primitive arguments.

use serde::{Deserialize, Serialize};

use crate::FieldRef;

/// An operand: `{"type": ..., "value": ...}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Value {
    Field(FieldRef),
    /// A constant in hexadecimal, big endian, perhaps with a sign.
    Hexstr(String),
    Bool(bool),
    String(String),
    /// p4c may wrap an expression in further expressions, which are kept as they are.
    Expression(Box<Expression>),
    /// An action parameter, by position, inside an expression.
    Local(u32),
    /// An action parameter, by position, as a primitive's argument.
    RuntimeData(u32),
    /// Name of a header instance.
    Header(String),
    /// Name of a header stack.
    HeaderStack(String),
    HeaderUnion(String),
    HeaderUnionStack(String),
    /// A field of the last valid header of a stack.
    StackField(FieldRef),
    /// Union stack, union member, field; in a transition key only.
    UnionStackField((String, String, String)),
    /// Bit offset and width, in a parser only.
    Lookahead((u32, u32)),
    /// A register array and the expression for the index.
    Register((String, Box<Value>)),
    /// Name of a calculation.
    Calculation(String),
    RegisterArray(String),
    CounterArray(String),
    MeterArray(String),
    Extern(String),
    /// A parser's `extract` into a header instance.
    Regular(String),
    /// A parser's `extract` into the next element of a stack.
    Stack(String),
    /// A parser's `extract` into a member of the next element of a union stack.
    UnionStack((String, String)),
    /// The arguments of `log_msg`.
    #[serde(deserialize_with = "parameters")]
    ParametersVector(Vec<Value>),
    /// In a calculation: the packet's bytes after the parsed headers. The switch ignores the header's name.
    Payload(Option<String>),
}

/// Reads the arguments of `log_msg`; p4c writes an empty object where there are none.
fn parameters<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Parameters {
        Some(Vec<Value>),
        None {},
    }
    Ok(match Parameters::deserialize(deserializer)? {
        Parameters::Some(values) => values,
        Parameters::None {} => Vec::new(),
    })
}

/// The content of an expression's `"value"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Expression {
    Op(Operation),
    Value(Value),
}

/// An operation and its operands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The operator, for example `+`, `==`, `?`, `two_comp_mod`, `access_field`.
    pub op: String,
    /// Left operand; absent (`null`) in a unary operation.
    pub left: Option<Operand>,
    /// Right operand, or the only operand of a unary operation.
    pub right: Option<Operand>,
    /// The condition of `?`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cond: Option<Operand>,
}

/// An operand of an operation: an object, or the bare member index of `access_field`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Operand {
    Value(Value),
    Index(u32),
}
