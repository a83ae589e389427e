//! Pipelines, tables, actions and the stateful arrays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{FieldRef, SourceInfo, Value};

/// An action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Fully qualified name.
    pub name: String,
    /// Unique among actions; one name may have several ids, one a table.
    pub id: u32,
    /// The parameters the control plane gives.
    pub runtime_data: Vec<RuntimeDatum>,
    /// The body.
    pub primitives: Vec<Primitive>,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// An action parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuntimeDatum {
    /// Name in the P4 program.
    pub name: String,
    /// Width in bits.
    pub bitwidth: u32,
    /// No reader is given it (`@secret`). Not BMv2's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
}

/// A primitive call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Primitive {
    /// Name of the primitive, for example `assign` or `register_read`.
    pub op: String,
    /// Arguments.
    pub parameters: Vec<Value>,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// A control flow: ingress or egress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// `ingress` or `egress`.
    pub name: String,
    /// Unique among pipelines.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The first node; none in an empty control.
    pub init_table: Option<String>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The action profiles and selectors.
    #[serde(default)]
    pub action_profiles: Vec<ActionProfile>,
    /// The `if` nodes.
    #[serde(default)]
    pub conditionals: Vec<Conditional>,
    /// The direct action calls (p4c never writes any).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_calls: Vec<ActionCall>,
}

/// A match-action table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Fully qualified name.
    pub name: String,
    /// Unique among tables.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The key's fields.
    pub key: Vec<TableKey>,
    /// `exact`, `lpm`, `ternary` or `range`: the widest kind among the key's fields.
    pub match_type: String,
    /// `simple`, `indirect` or `indirect_ws`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The action profile of an indirect table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_profile: Option<String>,
    /// Entries at most; where it is left out, as many as the program gives.
    #[serde(default)]
    pub max_size: u32,
    /// Whether each entry has a counter.
    #[serde(default)]
    pub with_counters: bool,
    /// Whether entries age.
    #[serde(default)]
    pub support_timeout: bool,
    /// The direct meter.
    pub direct_meters: Option<String>,
    /// The actions, by id.
    #[serde(default)]
    pub action_ids: Vec<u32>,
    /// The actions, by name, in the same order.
    pub actions: Vec<String>,
    /// The next node where no action decides it.
    #[serde(default)]
    pub base_default_next: Option<String>,
    /// Next node by action name, or by `__HIT__` and `__MISS__`.
    pub next_tables: BTreeMap<String, Option<String>>,
    /// The default entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_entry: Option<DefaultEntry>,
    /// Entries that the program gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<Entry>>,
    /// False where a control plane may change the entries. Not BMv2's, which fixes them always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub const_entries: Option<bool>,
}

/// A field of a table's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableKey {
    /// `exact`, `lpm`, `ternary`, `range`, `optional`, `selector` or `valid`.
    pub match_type: String,
    /// The name the control plane uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The field that is matched. Of `valid`, which names a header only, the hidden `$valid$`.
    #[serde(deserialize_with = "key_target")]
    pub target: FieldRef,
    /// A mask applied to the field before matching.
    pub mask: Option<String>,
    /// No reader is given what entries have in it (`@secret`). Not BMv2's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn key_target<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<FieldRef, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Target {
        Field(FieldRef),
        Header(String),
    }
    Ok(match Target::deserialize(deserializer)? {
        Target::Field(field) => field,
        Target::Header(header) => (header, "$valid$".into()),
    })
}

/// A table's default action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DefaultEntry {
    /// The action.
    pub action_id: u32,
    /// The control plane may not change the action.
    #[serde(default)]
    pub action_const: bool,
    /// Its arguments.
    #[serde(default)]
    pub action_data: Vec<String>,
    /// The control plane may not change the arguments.
    #[serde(default)]
    pub action_entry_const: bool,
}

/// A table entry that the program gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// One match a key field.
    pub match_key: Vec<MatchKey>,
    /// The action of a hit.
    pub action_entry: ActionEntry,
    /// Lower is looked at first; used by ternary and range tables only.
    #[serde(default)]
    pub priority: u32,
    /// The control plane's priority; the higher one wins. BMv2's format does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_priority: Option<i32>,
    /// True where a control plane may not change the entry though it may others of the table. Not
    /// BMv2's, which fixes all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_const: Option<bool>,
}

/// An action with its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionEntry {
    /// The action.
    pub action_id: u32,
    /// Its arguments, in hexadecimal.
    pub action_data: Vec<String>,
}

/// The match of one field of an entry's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "match_type", rename_all = "lowercase")]
pub enum MatchKey {
    /// This value.
    Exact {
        /// The value in hexadecimal.
        key: String,
    },
    /// A longest prefix.
    Lpm {
        /// The value in hexadecimal.
        key: String,
        /// Leading bits that count.
        prefix_length: u32,
    },
    /// A value under a mask.
    Ternary {
        /// The value in hexadecimal.
        key: String,
        /// The bits that count.
        mask: String,
    },
    /// A closed interval.
    Range {
        /// First value.
        start: String,
        /// Last value.
        end: String,
    },
    /// Whether a header is valid.
    Valid {
        /// The validity.
        key: bool,
    },
}

/// An `if` node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditional {
    /// Name of the node.
    pub name: String,
    /// Unique among conditionals.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The condition.
    pub expression: Value,
    /// The node when it holds; none ends the pipeline.
    #[serde(default)]
    pub true_next: Option<String>,
    /// The node when it does not.
    #[serde(default)]
    pub false_next: Option<String>,
}

/// A direct action call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionCall {
    /// Name of the node.
    pub name: String,
    /// Unique among action calls.
    pub id: u32,
    /// The action; it has no parameters.
    pub action_id: u32,
    /// The node after it.
    #[serde(default)]
    pub next_node: Option<String>,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// An action profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionProfile {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among action profiles.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Members at most.
    pub max_size: u32,
    /// How a member of a group is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// How an action selector chooses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selector {
    /// Hash algorithm.
    pub algo: String,
    /// The hashed values.
    pub input: Vec<Value>,
}

/// A meter array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeterArray {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among meters.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Bound to a table.
    #[serde(default)]
    pub is_direct: bool,
    /// Rates: 2 is the trTCM.
    pub rate_count: u32,
    /// `bytes` or `packets`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Cells; none in a direct meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// The table of a direct meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// Where a direct meter writes its colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_target: Option<FieldRef>,
}

/// A counter array; packets and bytes are always both counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterArray {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among counters.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Bound to a table.
    #[serde(default)]
    pub is_direct: bool,
    /// Cells; none in a direct counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// The table of a direct counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

/// A register array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterArray {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among registers.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Cells.
    pub size: u32,
    /// Bits of a cell.
    pub bitwidth: u32,
    /// `@shared` in the P4 program: never one for each worker. BMv2 ignores it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// No reader is given its cells (`@secret`). Not BMv2's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
}

/// A named hash or checksum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calculation {
    /// Name.
    pub name: String,
    /// Unique among calculations.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Algorithm, for example `csum16`.
    pub algo: String,
    /// The input.
    pub input: Vec<CalculationInput>,
}

/// One input of a calculation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalculationInput {
    /// The operand.
    #[serde(flatten)]
    pub value: Value,
    /// Width in bits; given for constants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitwidth: Option<u32>,
}

/// A checksum field kept right by the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checksum {
    /// Name.
    pub name: String,
    /// Unique among checksums.
    pub id: u32,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The field.
    pub target: FieldRef,
    /// Always `generic`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The calculation.
    pub calculation: String,
    /// Verified after parsing.
    #[serde(default = "yes")]
    pub verify: bool,
    /// Updated before deparsing.
    #[serde(default = "yes")]
    pub update: bool,
    /// Only when this holds.
    #[serde(default)]
    pub if_cond: Option<Value>,
}

fn yes() -> bool {
    true
}

/// A digest's layout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnList {
    /// The id in the `generate_digest` primitive.
    pub id: u32,
    /// Name in the P4 program.
    pub name: String,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The fields.
    pub elements: Vec<Value>,
}

/// An extern instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExternInstance {
    /// Name in the P4 program.
    pub name: String,
    /// Unique among extern instances.
    pub id: u32,
    /// Extern type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Constructor arguments.
    #[serde(default)]
    pub attribute_values: Vec<AttributeValue>,
}

/// A constructor argument of an extern instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttributeValue {
    /// Attribute name.
    pub name: String,
    /// The value.
    #[serde(flatten)]
    pub value: Value,
}
