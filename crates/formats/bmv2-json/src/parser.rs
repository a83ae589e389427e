//! Parsers and parser value sets.

use serde::{Deserialize, Serialize};

use crate::{Primitive, SourceInfo, Value};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parser {
    pub name: String,
    pub id: u32,
    pub init_state: String,
    pub parse_states: Vec<ParseState>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParseState {
    pub name: String,
    /// Unique among the states of all parsers.
    pub id: u32,
    /// In the order in which they run.
    pub parser_ops: Vec<ParserOp>,
    /// The first match wins.
    pub transitions: Vec<Transition>,
    pub transition_key: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// One operation of a parser state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParserOp {
    pub parameters: Vec<ParserOpParameter>,
    /// `extract`, `extract_VL`, `set`, `verify`, `shift`, `advance` or `primitive`.
    pub op: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParserOpParameter {
    Value(Value),
    /// The call that a `primitive` operation makes.
    Primitive(Primitive),
    /// A bare number: the bytes of `shift`, or the error code of an old `verify`.
    Number(i64),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// `default`, `hexstr` or `parse_vset`; p4c leaves it out of some default transitions.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The value that the key must have: the values of its fields, each padded to whole bytes. `"default"` or null in a
    /// default transition.
    pub value: Option<String>,
    /// Padded like `value`; null means all ones.
    pub mask: Option<String>,
    /// Null ends the parser.
    pub next_state: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParseVset {
    pub name: String,
    pub id: u32,
    /// Width of a value in bits, without padding.
    pub compressed_bitwidth: u32,
    /// Maximum number of values, where the compiler declares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
}
