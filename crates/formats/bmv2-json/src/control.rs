//! Pipelines, tables, actions and the stateful arrays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{FieldRef, SourceInfo, Value};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Fully qualified.
    pub name: String,
    /// One action name may have several ids, one for each table that uses it.
    pub id: u32,
    /// The parameters that a table entry supplies.
    pub runtime_data: Vec<RuntimeDatum>,
    pub primitives: Vec<Primitive>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// An action parameter whose value a table entry supplies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuntimeDatum {
    pub name: String,
    pub bitwidth: u32,
    /// Whether no client of the control plane may read the values (`@secret`). An extension of BMv2's format.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
}

/// A call of a primitive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Primitive {
    /// For example `assign` or `register_read`.
    pub op: String,
    pub parameters: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// `ingress` or `egress`.
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The first node (a table, conditional or action call); none in an empty control.
    pub init_table: Option<String>,
    pub tables: Vec<Table>,
    #[serde(default)]
    pub action_profiles: Vec<ActionProfile>,
    #[serde(default)]
    pub conditionals: Vec<Conditional>,
    /// Direct action calls; p4c never writes any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_calls: Vec<ActionCall>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Fully qualified.
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub key: Vec<TableKey>,
    /// `exact`, `lpm`, `ternary` or `range`: the most general match kind among the key's fields.
    pub match_type: String,
    /// `simple`, `indirect` (with an action profile) or `indirect_ws` (with an action selector).
    #[serde(rename = "type")]
    pub kind: String,
    /// The action profile of a table that is not `simple`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_profile: Option<String>,
    /// Maximum number of entries, or the number of the entries that the program declares in `entries` if that number is
    /// larger. 0 if the file has no `max_size`.
    #[serde(default)]
    pub max_size: u32,
    /// Whether the table has a direct counter.
    #[serde(default)]
    pub with_counters: bool,
    /// Whether entries have an idle timeout.
    #[serde(default)]
    pub support_timeout: bool,
    pub direct_meters: Option<String>,
    #[serde(default)]
    pub action_ids: Vec<u32>,
    /// Names of `action_ids`, in the same order.
    pub actions: Vec<String>,
    /// The next node, unless `next_tables` determines the next node.
    #[serde(default)]
    pub base_default_next: Option<String>,
    /// Next node by action name, or by `__HIT__` and `__MISS__`.
    pub next_tables: BTreeMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_entry: Option<DefaultEntry>,
    /// Entries that the P4 program declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<Entry>>,
    /// False if the control plane may change the program's entries. An extension: in BMv2 they are always constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub const_entries: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableKey {
    /// `exact`, `lpm`, `ternary`, `range`, `optional`, `selector` or `valid`.
    pub match_type: String,
    /// The field's name for the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The field to match. For a `valid` key the file has only a header; reading adds that header's hidden field
    /// `$valid$`.
    #[serde(deserialize_with = "key_target")]
    pub target: FieldRef,
    pub mask: Option<String>,
    /// Whether no client of the control plane may read entries' values of this field (`@secret`). An extension of
    /// BMv2's format.
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DefaultEntry {
    pub action_id: u32,
    /// Whether the control plane may not change the action.
    #[serde(default)]
    pub action_const: bool,
    #[serde(default)]
    pub action_data: Vec<String>,
    /// Whether the control plane may not change the arguments.
    #[serde(default)]
    pub action_entry_const: bool,
}

/// A table entry that the P4 program declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// One for each field of the key.
    pub match_key: Vec<MatchKey>,
    pub action_entry: ActionEntry,
    /// The entry with the lowest priority wins; only ternary and range tables use priorities.
    #[serde(default)]
    pub priority: u32,
    /// P4Runtime's priority, where the entry with the highest number wins. An extension of BMv2's format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_priority: Option<i32>,
    /// Whether the control plane may not change this entry, though it may change other entries of the table. An
    /// extension: in BMv2 all of the program's entries are constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_const: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionEntry {
    pub action_id: u32,
    /// Hexadecimal.
    pub action_data: Vec<String>,
}

/// The match of one field of an entry's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "match_type", rename_all = "lowercase")]
pub enum MatchKey {
    Exact {
        /// Hexadecimal.
        key: String,
    },
    Lpm {
        /// Hexadecimal.
        key: String,
        /// In bits.
        prefix_length: u32,
    },
    Ternary {
        /// Hexadecimal.
        key: String,
        /// Hexadecimal; a bit that is 1 is compared.
        mask: String,
    },
    /// From `start` to `end`, both included; hexadecimal.
    Range { start: String, end: String },
    /// Whether the header is valid.
    Valid { key: bool },
}

/// An `if` node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditional {
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub expression: Value,
    /// Null ends the pipeline.
    #[serde(default)]
    pub true_next: Option<String>,
    #[serde(default)]
    pub false_next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionCall {
    pub name: String,
    pub id: u32,
    /// This action has no parameters.
    pub action_id: u32,
    #[serde(default)]
    pub next_node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionProfile {
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Maximum number of members.
    pub max_size: u32,
    /// How a member of a group is chosen; set only for the profile of an `indirect_ws` table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// A hash that chooses a member of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selector {
    pub algo: String,
    pub input: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeterArray {
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub is_direct: bool,
    /// 2 for a two-rate three-colour meter (RFC 2698).
    pub rate_count: u32,
    /// `bytes` or `packets`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Number of cells; left out for a direct meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// The table that a direct meter belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// The field that receives a direct meter's colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_target: Option<FieldRef>,
}

/// A counter array. Every counter counts packets and bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterArray {
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub is_direct: bool,
    /// Number of cells; left out for a direct counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// The table that a direct counter belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterArray {
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Number of cells.
    pub size: u32,
    /// Width of a cell.
    pub bitwidth: u32,
    /// Whether all workers (threads) of a switch must share one array (`@shared` in the P4 program). Otherwise each
    /// worker may have an array of its own. BMv2 ignores this attribute.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Whether no client of the control plane may read the cells (`@secret`). An extension of BMv2's format.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calculation {
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// For example `csum16`.
    pub algo: String,
    pub input: Vec<CalculationInput>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalculationInput {
    #[serde(flatten)]
    pub value: Value,
    /// In bits; only constants have a width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitwidth: Option<u32>,
}

/// A checksum field that the target verifies and updates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checksum {
    pub name: String,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub target: FieldRef,
    /// Always `generic`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the calculation.
    pub calculation: String,
    /// Whether the checksum is verified after parsing.
    #[serde(default = "yes")]
    pub verify: bool,
    /// Whether the checksum is updated before deparsing.
    #[serde(default = "yes")]
    pub update: bool,
    /// The condition under which the checksum is verified and updated.
    #[serde(default)]
    pub if_cond: Option<Value>,
}

fn yes() -> bool {
    true
}

/// The fields of a digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnList {
    /// The `generate_digest` primitive refers to the list by this id.
    pub id: u32,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub elements: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExternInstance {
    pub name: String,
    pub id: u32,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub attribute_values: Vec<AttributeValue>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttributeValue {
    pub name: String,
    #[serde(flatten)]
    pub value: Value,
}
