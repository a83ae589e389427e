//! Parsers and parser value sets.

use serde::{Deserialize, Serialize};

use crate::{Primitive, SourceInfo, Value};

/// A parser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parser {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among parsers.
    pub id: u32,
    /// Name of the start state.
    pub init_state: String,
    /// The states.
    pub parse_states: Vec<ParseState>,
}

/// A parser state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParseState {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among all states.
    pub id: u32,
    /// Its operations, in order.
    pub parser_ops: Vec<ParserOp>,
    /// Where it may go, first match wins.
    pub transitions: Vec<Transition>,
    /// The key of the transition.
    pub transition_key: Vec<Value>,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// One operation of a parser state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParserOp {
    /// Arguments.
    pub parameters: Vec<ParserOpParameter>,
    /// `extract`, `extract_VL`, `set`, `verify`, `shift`, `advance` or `primitive`.
    pub op: String,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// An argument of a parser operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParserOpParameter {
    /// An operand.
    Value(Value),
    /// The call that a `primitive` operation makes.
    Primitive(Primitive),
    /// A bare number: the bytes of `shift`, or the error code of an old `verify`.
    Number(i64),
}

/// An arrow to another state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// `default`, `hexstr` or `parse_vset`; p4c leaves it out of some defaults.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The value: the key's fields, each padded to whole bytes; `"default"` or null in a default.
    pub value: Option<String>,
    /// The mask, padded likewise; none means all ones.
    pub mask: Option<String>,
    /// The next state; none ends the parser.
    pub next_state: Option<String>,
}

/// A parser value set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParseVset {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among value sets.
    pub id: u32,
    /// Width of a value in bits, without padding.
    pub compressed_bitwidth: u32,
    /// The most values it holds, where the compiler says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
}
