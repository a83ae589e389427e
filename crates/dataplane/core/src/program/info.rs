//! The declarations of a program that a control plane may read, and the error of a refused program.

use thiserror::Error;

use crate::{
    ActionId, ActionProfileId, MatchField,
    value::{self, Int},
};

/// Why a BMv2 JSON file was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {message}")]
pub struct LoadError {
    /// The object that is wrong, for example `table "viewers"`.
    pub place: String,
    /// What was expected and what was found.
    pub message: String,
}

/// The unit of a meter's rates and bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterUnit {
    /// Counts each packet as 1.
    Packets,
    /// Counts each packet as its length in bytes when it entered the control.
    Bytes,
}

/// How a key field is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// One value.
    Exact,
    /// Longest prefix match.
    Lpm,
    /// Value and mask.
    Ternary,
    /// A closed interval.
    Range,
    /// One value, or any.
    Optional,
}

/// A field of a table's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyField {
    /// The name for the control plane.
    pub name: String,
    /// How entries match the field.
    pub kind: MatchKind,
    /// Width in bits.
    pub width_bits: u32,
    /// Whether values are in two's complement. Keys and entries hold bit patterns; only ranges depend on the order of
    /// values.
    pub is_signed: bool,
    /// Whether the field is `@secret`: control-plane reads and traces do not show the values of entries.
    pub is_secret: bool,
}

impl KeyField {
    /// Returns the rank of a bit pattern among the field's values, from 0 for the least value. The function is its own
    /// inverse: it turns a rank into the bit pattern that has this rank.
    pub fn order(&self, bits: &Int) -> Int {
        if self.is_signed {
            bits ^ self.sign()
        } else {
            bits.clone()
        }
    }

    /// The range of all values, as the bit patterns of the least and the greatest.
    pub fn whole_range(&self) -> (Int, Int) {
        let last = value::ones(self.width_bits);
        (self.order(&Int::ZERO), self.order(&last))
    }

    /// Returns a match of all values ([`Self::whole_range`]) in the control plane's form.
    pub fn every_value(&self) -> MatchField {
        let (low, high) = self.whole_range();
        MatchField::Range {
            low: value::to_canonical_bytes(&low, self.width_bits),
            high: value::to_canonical_bytes(&high, self.width_bits),
        }
    }

    /// Whether a range has at least one value, that is, whether `low` is at most `high`. Both are in the control
    /// plane's form.
    pub fn is_ascending(&self, low: &[u8], high: &[u8]) -> bool {
        let place = |end| self.order(&value::from_be_bytes(end));
        place(low) <= place(high)
    }

    fn sign(&self) -> Int {
        Int::ONE << self.width_bits.saturating_sub(1) as usize
    }
}

/// The declaration of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Fully qualified name.
    pub name: String,
    /// The fields of the key, in order.
    pub key: Vec<KeyField>,
    /// Maximum number of entries.
    pub size: usize,
    /// The actions that entries may use.
    pub actions: Vec<ActionId>,
    /// Whether the program declares the entries as constant.
    pub is_const: bool,
    /// Whether the program declares the default action as constant.
    pub is_default_const: bool,
    /// Whether the table has a direct counter.
    pub with_counters: bool,
    /// Whether the table has a direct meter.
    pub with_meters: bool,
    /// Whether entries may have an idle timeout.
    pub has_idle_timeout: bool,
    /// The action profile, if actions are indirect.
    pub action_profile: Option<ActionProfileId>,
    /// Whether the action profile has groups.
    pub has_selector: bool,
}

impl TableInfo {
    /// Whether a compiler generated the table, to run statements between tables. Such a table has no key, and a name
    /// that no P4 table has.
    pub fn is_generated(&self) -> bool {
        self.key.is_empty() && is_generated_name(&self.name)
    }

    /// Whether entries have priorities: a key field is ternary, range or optional.
    pub fn has_priority(&self) -> bool {
        self.key.iter().any(|field| {
            matches!(
                field.kind,
                MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
            )
        })
    }
}

/// Whether p4c or Reprise's compiler gives such a name to a table that it generates. The name of a table of the P4
/// source begins with its control's name and a dot.
pub(crate) fn is_generated_name(table: &str) -> bool {
    table.starts_with("tbl_") && !table.contains('.')
}

/// The declaration of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionInfo {
    /// Fully qualified name.
    pub name: String,
    /// The parameters that the control plane sets.
    pub params: Vec<ParamInfo>,
}

/// The declaration of a payload extern ([`crate::PayloadExtern`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadSignature {
    /// The name that programs call.
    pub name: String,
    /// The extern's parameters, in order.
    pub params: Vec<ParamInfo>,
    /// The highest number of bytes that the extern adds to a payload.
    pub growth_bytes_max: usize,
}

/// A parameter of an action or a payload extern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamInfo {
    /// Name in the P4 program.
    pub name: String,
    /// Width in bits.
    pub width_bits: u32,
    /// Whether the parameter is `@secret`: control-plane reads and traces do not show its arguments.
    pub is_secret: bool,
}
