//! BMv2's JSON format, which the compiler writes and the switch reads: serde types, and limits that both enforce.
//!
//! Other tools exchange these files too, so every attribute that p4c writes is representable, and reading ignores
//! unknown attributes. Source: behavioral-model, `docs/JSON_format.md`, format version 2.23.
//!
//! Unless a field says otherwise, `name` is the name in the P4 program and `id` is unique among objects of the same
//! type.

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

/// The format version that this crate writes; it reads any 2.x file.
pub const FORMAT_VERSION: [u32; 2] = [2, 23];

/// A whole BMv2 JSON file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// All header types, with user metadata (`scalars`) and the architecture's metadata.
    pub header_types: Vec<HeaderType>,
    /// All header instances, ordered by id.
    pub headers: Vec<Header>,
    pub header_stacks: Vec<HeaderStack>,
    pub header_union_types: Vec<HeaderUnionType>,
    pub header_unions: Vec<HeaderUnion>,
    pub header_union_stacks: Vec<HeaderUnionStack>,
    /// Clone, resubmit, recirculate and digest refer to field lists by id.
    pub field_lists: Vec<FieldList>,
    /// Every `error` constant and its number.
    pub errors: Vec<(String, u32)>,
    pub enums: Vec<Enum>,
    /// v1model has one parser.
    pub parsers: Vec<Parser>,
    pub parse_vsets: Vec<ParseVset>,
    /// v1model has one deparser.
    pub deparsers: Vec<Deparser>,
    pub meter_arrays: Vec<MeterArray>,
    /// Includes direct counters.
    pub counter_arrays: Vec<CounterArray>,
    pub register_arrays: Vec<RegisterArray>,
    /// Hash and checksum computations that have a name.
    pub calculations: Vec<Calculation>,
    pub learn_lists: Vec<LearnList>,
    pub actions: Vec<Action>,
    /// Ingress and egress.
    pub pipelines: Vec<Pipeline>,
    pub checksums: Vec<Checksum>,
    /// Fields that the target uses in arithmetic although no expression in the program does.
    pub force_arith: Vec<FieldRef>,
    /// Extern instances other than meters, counters and registers.
    pub extern_instances: Vec<ExternInstance>,
    /// For each alias, the target's name of a field, then the field's name in the program.
    pub field_aliases: Vec<(String, FieldRef)>,
    /// Path of the P4 source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(rename = "__meta__")]
    pub meta: Meta,
}

/// These methods exist so that serde's code is compiled once, here, and not in each crate that reads or writes a file.
impl Program {
    /// Parses a BMv2 JSON file.
    ///
    /// # Errors
    ///
    /// The bytes are no JSON, not of this format, or nested deeper than [`limits::JSON_DEPTH_MAX`].
    pub fn from_json(json: &[u8]) -> serde_json::Result<Self> {
        deep::from_slice(json).map_err(|error| match error {
            ReadError::NoJson(error) => error,
            deep @ ReadError::TooDeep(_) => serde::de::Error::custom(deep),
        })
    }

    /// Returns the file's text, on one line.
    ///
    /// # Errors
    ///
    /// Values of this crate's types cause no error.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Returns the file's text, indented.
    ///
    /// # Errors
    ///
    /// As [`Program::to_json`].
    pub fn to_json_pretty(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Major, then minor version of the format.
    pub version: [u32; 2],
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

/// A position in the P4 source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// The path as given to the compiler.
    pub filename: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 0.
    pub column: u32,
    /// The beginning of the construct's text.
    pub source_fragment: String,
}

/// Header instance, then field.
pub type FieldRef = (String, String);

/// A header type: its fields in wire order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderType {
    pub name: String,
    pub id: u32,
    pub fields: Vec<Field>,
    /// The maximum length of a header of this type, in bytes, if a field has variable width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
    /// Width of the variable field in bits (P4_14 only; P4_16 uses `extract_VL`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_exp: Option<Value>,
}

/// `[name, width, signed]`, or `[name, width]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: String,
    pub width: FieldWidth,
    pub signed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldWidth {
    /// In bits.
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
    pub name: String,
    pub id: u32,
    /// Name of its [`HeaderType`].
    pub header_type: String,
    /// Metadata is always valid and never deparsed.
    pub metadata: bool,
    /// Whether BMv2's control interfaces (Thrift, and PI for P4Runtime) do not show the header; p4c always writes
    /// `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pi_omit: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderStack {
    pub name: String,
    pub id: u32,
    /// The number of elements. p4c writes this number in addition to the ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// The elements' [`HeaderType`].
    pub header_type: String,
    pub header_ids: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderUnionType {
    pub name: String,
    pub id: u32,
    /// Each member's name and header type.
    pub headers: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderUnion {
    pub name: String,
    pub id: u32,
    pub union_type: String,
    /// The members, in the type's order.
    pub header_ids: Vec<u32>,
    /// Whether BMv2's control interfaces (Thrift, and PI for P4Runtime) do not show the union.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pi_omit: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeaderUnionStack {
    pub name: String,
    pub id: u32,
    /// The elements' [`HeaderUnionType`].
    pub union_type: String,
    pub header_union_ids: Vec<u32>,
}

/// Fields that a clone, resubmit or recirculation preserves, or a digest sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldList {
    /// Primitives refer to the list by this id.
    pub id: u32,
    /// Used in messages only.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub elements: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Enum {
    pub name: String,
    /// Each constant and its number.
    pub entries: Vec<(String, u32)>,
}

/// The order in which valid headers are written to the packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deparser {
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Names of header instances.
    pub order: Vec<String>,
    /// Statements that run before the headers are emitted. Only newer versions of p4c write them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primitives: Vec<Primitive>,
}
