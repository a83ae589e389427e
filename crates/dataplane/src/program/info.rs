//! What a control plane may know of a program, and why one was refused.

use thiserror::Error;

use crate::{
    ActionId, ActionProfileId, MatchField,
    value::{self, Int},
};

/// Why a BMv2 JSON file was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {message}")]
pub struct LoadError {
    /// The object, for example `table "viewers"`.
    pub place: String,
    /// What was expected and what was found.
    pub message: String,
}

/// What a meter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterUnit {
    /// Packets.
    Packets,
    /// Bytes, as the packet was when it came in.
    Bytes,
}

/// How a key field is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// The value.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask.
    Ternary,
    /// Closed interval.
    Range,
    /// A value or anything.
    Optional,
}

/// A field of a table's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyField {
    /// The control plane's name.
    pub name: String,
    /// How it is matched.
    pub kind: MatchKind,
    /// Width in bits.
    pub width_bits: u32,
    /// Whether its values are numbers in two's complement. Keys and entries have their bits; only
    /// ranges ask which of two values is less.
    pub is_signed: bool,
    /// No reader is given what entries have in it.
    pub is_secret: bool,
}

impl KeyField {
    /// Where a value, given as its bits, stands among the field's values, from 0 for the least. The
    /// place's own place is the value again.
    pub fn order(&self, bits: &Int) -> Int {
        match self.is_signed {
            true => bits ^ self.sign(),
            false => bits.clone(),
        }
    }

    /// The range that has every value: the least and the greatest, as their bits.
    pub fn whole_range(&self) -> (Int, Int) {
        let last = value::ones(self.width_bits);
        (self.order(&Int::ZERO), self.order(&last))
    }

    /// [`Self::whole_range`] as a control plane writes it.
    pub fn every_value(&self) -> MatchField {
        let (low, high) = self.whole_range();
        MatchField::Range {
            low: value::to_canonical_bytes(&low, self.width_bits),
            high: value::to_canonical_bytes(&high, self.width_bits),
        }
    }

    /// Whether a range has a value: its low end, as a control plane writes it, is not above its high end.
    pub fn is_ascending(&self, low: &[u8], high: &[u8]) -> bool {
        let place = |end| self.order(&value::from_be_bytes(end));
        place(low) <= place(high)
    }

    fn sign(&self) -> Int {
        Int::ONE << self.width_bits.saturating_sub(1) as usize
    }
}

/// What a control plane may know of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Fully qualified name.
    pub name: String,
    /// The key's fields.
    pub key: Vec<KeyField>,
    /// Entries at most.
    pub size: usize,
    /// The actions.
    pub actions: Vec<ActionId>,
    /// The program fixes the entries.
    pub is_const: bool,
    /// The program fixes the default action.
    pub is_default_const: bool,
    /// Each entry has a counter.
    pub with_counters: bool,
    /// Each entry has a meter.
    pub with_meters: bool,
    /// Entries may have an idle timeout.
    pub has_idle_timeout: bool,
    /// Where its actions are; none where the entries have them.
    pub action_profile: Option<ActionProfileId>,
    /// The action profile has groups.
    pub has_selector: bool,
}

impl TableInfo {
    /// Whether a compiler made the table, to run statements between tables: it has no key, and a
    /// name that no P4 table has.
    pub fn is_generated(&self) -> bool {
        self.key.is_empty() && is_generated_name(&self.name)
    }

    /// Whether entries have priorities: some field is ternary, range or optional.
    pub fn has_priority(&self) -> bool {
        self.key.iter().any(|field| {
            matches!(
                field.kind,
                MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
            )
        })
    }
}

/// Whether p4c, or ours, names generated tables so; P4 tables have their control in front.
pub(crate) fn is_generated_name(table: &str) -> bool {
    table.starts_with("tbl_") && !table.contains('.')
}

/// What a control plane may know of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionInfo {
    /// Fully qualified name.
    pub name: String,
    /// The parameters.
    pub params: Vec<ParamInfo>,
}

/// What the loader knows of an extern that changes a copy's payload ([`crate::PayloadExtern`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadSignature {
    /// As the program calls it.
    pub name: String,
    /// The parameters.
    pub params: Vec<ParamInfo>,
    /// Bytes that a payload becomes longer at most.
    pub growth_bytes_max: usize,
}

/// A parameter of an action, or of an extern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamInfo {
    /// Name in the P4 program.
    pub name: String,
    /// Width in bits.
    pub width_bits: u32,
    /// No reader is given its arguments.
    pub is_secret: bool,
}
