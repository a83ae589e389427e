//! The BMv2 JSON format that compiler and switch agree on: serde types, and the limits that both hold.
//!
//! Written by `p4-compiler`, read by `dataplane`; both also exchange it with the other world, so
//! every attribute that p4c writes is representable and unknown attributes are ignored on
//! reading. Source: behavioral-model, `docs/JSON_format.md`, format version 2.23.

mod control;
mod deep;
mod expression;
pub mod limits;
mod parser;

pub use control::*;
pub use deep::{ReadError, from_slice};
pub use expression::*;
pub use parser::*;

use serde::{Deserialize, Serialize};

/// The format version this crate writes; any 2.x file is read.
pub const FORMAT_VERSION: [u32; 2] = [2, 23];

/// A whole BMv2 JSON file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Every header type, the user metadata's (`scalars`) and the architecture's included.
    pub header_types: Vec<HeaderType>,
    /// Every header instance; the order is the order of the ids.
    pub headers: Vec<Header>,
    /// Header stacks.
    pub header_stacks: Vec<HeaderStack>,
    /// Header union types.
    pub header_union_types: Vec<HeaderUnionType>,
    /// Header unions.
    pub header_unions: Vec<HeaderUnion>,
    /// Stacks of header unions.
    pub header_union_stacks: Vec<HeaderUnionStack>,
    /// Field lists that clone, resubmit, recirculate and digest refer to by id.
    pub field_lists: Vec<FieldList>,
    /// Every `error` constant and its number.
    pub errors: Vec<(String, u32)>,
    /// Every enum and its constants.
    pub enums: Vec<Enum>,
    /// The parsers; v1model has one.
    pub parsers: Vec<Parser>,
    /// Parser value sets.
    pub parse_vsets: Vec<ParseVset>,
    /// The deparsers; v1model has one.
    pub deparsers: Vec<Deparser>,
    /// Meters.
    pub meter_arrays: Vec<MeterArray>,
    /// Counters, direct ones too.
    pub counter_arrays: Vec<CounterArray>,
    /// Registers.
    pub register_arrays: Vec<RegisterArray>,
    /// Named hash and checksum computations.
    pub calculations: Vec<Calculation>,
    /// Digests.
    pub learn_lists: Vec<LearnList>,
    /// Actions.
    pub actions: Vec<Action>,
    /// Ingress and egress.
    pub pipelines: Vec<Pipeline>,
    /// Checksums that are verified after parsing and updated before deparsing.
    pub checksums: Vec<Checksum>,
    /// Fields on which arithmetic is allowed though nothing else uses them.
    pub force_arith: Vec<FieldRef>,
    /// Extern instances that have no array of their own above.
    pub extern_instances: Vec<ExternInstance>,
    /// The target's name for a field, and the program's.
    pub field_aliases: Vec<(String, FieldRef)>,
    /// The source's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Version and compiler.
    #[serde(rename = "__meta__")]
    pub meta: Meta,
}

/// Reading and writing is compiled here once, not anew in each crate that does it.
impl Program {
    /// Reads a file's bytes.
    ///
    /// # Errors
    ///
    /// They are no JSON, not this format's, or nested deeper than [`limits::JSON_DEPTH_MAX`].
    pub fn from_json(json: &[u8]) -> serde_json::Result<Self> {
        deep::from_slice(json).map_err(|error| match error {
            ReadError::NoJson(error) => error,
            deep @ ReadError::TooDeep(_) => serde::de::Error::custom(deep),
        })
    }

    /// The file's text, on one line.
    ///
    /// # Errors
    ///
    /// None that a program of this crate's types can have.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// The file's text, indented.
    ///
    /// # Errors
    ///
    /// As [`Program::to_json`].
    pub fn to_json_pretty(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

/// Version of the file, and its author.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Major and minor version of the format.
    pub version: [u32; 2],
    /// The compiler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            version: FORMAT_VERSION,
            compiler: None,
        }
    }
}

/// Where in the P4 source something comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// The file's path as the compiler was given it.
    pub filename: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 0.
    pub column: u32,
    /// The beginning of the construct's text.
    pub source_fragment: String,
}

/// A field's place: header instance, then member.
pub type FieldRef = (String, String);

/// A header type: its fields in the order of the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderType {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among header types.
    pub id: u32,
    /// The fields.
    pub fields: Vec<Field>,
    /// Bytes at most, where a field has a variable width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
    /// Bits of the variable-width field (P4_14 only; P4_16 uses `extract_VL`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_exp: Option<Value>,
}

/// A field of a header type: `[name, width, signed]`, or `[name, width]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Member name.
    pub name: String,
    /// Width in bits.
    pub width: FieldWidth,
    /// Two's complement.
    pub signed: bool,
}

/// A field's width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldWidth {
    /// A fixed width in bits.
    Fixed(u32),
    /// `varbit`, written `"*"`.
    Variable,
}

impl Serialize for Field {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.width {
            FieldWidth::Fixed(bits) => (&self.name, bits, self.signed).serialize(serializer),
            FieldWidth::Variable => (&self.name, "*").serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Width {
            Bits(u32),
            Star(String),
        }
        // p4c writes 0 for false in the fields of type `bool`.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Signed {
            Bool(bool),
            Number(u8),
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Tuple {
            Three(String, Width, Signed),
            Two(String, Width),
        }
        let (name, width, signed) = match Tuple::deserialize(deserializer)? {
            Tuple::Three(name, width, Signed::Bool(signed)) => (name, width, signed),
            Tuple::Three(name, width, Signed::Number(number)) => (name, width, number != 0),
            Tuple::Two(name, width) => (name, width, false),
        };
        let width = match width {
            Width::Bits(bits) => FieldWidth::Fixed(bits),
            Width::Star(star) if star == "*" => FieldWidth::Variable,
            Width::Star(other) => {
                return Err(serde::de::Error::custom(format!(
                    "field \"{name}\": expected a width in bits or \"*\", found \"{other}\""
                )));
            }
        };
        Ok(Self {
            name,
            width,
            signed,
        })
    }
}

/// A header or metadata instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among headers.
    pub id: u32,
    /// Name of its [`HeaderType`].
    pub header_type: String,
    /// Metadata: always valid, never deparsed.
    pub metadata: bool,
    /// Left out of the Thrift/PI interface; p4c always writes `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pi_omit: Option<bool>,
}

/// A header stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderStack {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among stacks.
    pub id: u32,
    /// Size in headers, as p4c writes it beside the ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Name of the elements' [`HeaderType`].
    pub header_type: String,
    /// The elements, first to last.
    pub header_ids: Vec<u32>,
}

/// A header union type: its members' names and header types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderUnionType {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among union types.
    pub id: u32,
    /// Member name and header type name.
    pub headers: Vec<(String, String)>,
}

/// A header union.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderUnion {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among unions.
    pub id: u32,
    /// Name of its [`HeaderUnionType`].
    pub union_type: String,
    /// The member headers, in the type's order.
    pub header_ids: Vec<u32>,
    /// Left out of the Thrift/PI interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pi_omit: Option<bool>,
}

/// A stack of header unions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderUnionStack {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among union stacks.
    pub id: u32,
    /// Name of the elements' [`HeaderUnionType`].
    pub union_type: String,
    /// The elements, first to last.
    pub header_union_ids: Vec<u32>,
}

/// Fields that survive a clone, resubmit or recirculate, or that a digest sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldList {
    /// The id in the primitive; unique among field lists.
    pub id: u32,
    /// A name for messages.
    pub name: String,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The fields.
    pub elements: Vec<Value>,
}

/// An enum and its constants' numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Enum {
    /// Name in the P4 program.
    pub name: String,
    /// Constant and number.
    pub entries: Vec<(String, u32)>,
}

/// The order in which valid headers are written to the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deparser {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among deparsers.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Header instance names.
    pub order: Vec<String>,
    /// Primitives to run before emitting, as newer p4c writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primitives: Vec<Primitive>,
}
