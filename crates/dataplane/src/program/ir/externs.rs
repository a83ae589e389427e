//! What a program declares beside its controls: calculations, arrays, value sets, profiles.

use super::{BoolExpr, CalculationId, Expr, FieldId, HeaderId};
use crate::{externs::hash::Algorithm, program::MeterUnit, value::Int};

#[derive(Debug, Clone)]
pub(crate) enum CalculationInput {
    Field(FieldId),
    Header(HeaderId),
    Constant { value: Int, bits: u32 },
    Payload,
}

#[derive(Debug, Clone)]
pub(crate) struct Calculation {
    /// Empty where a selector's.
    pub name: String,
    pub algorithm: Algorithm,
    pub input: Vec<CalculationInput>,
}

#[derive(Debug, Clone)]
pub(crate) struct Checksum {
    pub target: FieldId,
    pub calculation: CalculationId,
    pub condition: Option<BoolExpr>,
    pub verify: bool,
    pub update: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct FieldList {
    pub fields: Vec<FieldId>,
}

#[derive(Debug, Clone)]
pub(crate) struct DigestList {
    pub name: String,
    pub fields: Vec<(Expr, u32)>,
}

#[derive(Debug, Clone)]
pub(crate) struct RegisterArray {
    pub name: String,
    pub cells: usize,
    pub bits: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct CounterArray {
    pub name: String,
    pub cells: usize,
}

/// What every meter of an array, or of a table, has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeterKind {
    pub unit: MeterUnit,
    /// 2 in v1model; 1 leaves out the peak rate.
    pub rates: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct MeterArray {
    pub name: String,
    pub cells: usize,
    pub kind: MeterKind,
}

/// The meter that each entry of a table has.
#[derive(Debug, Clone)]
pub(crate) struct DirectMeter {
    pub name: String,
    pub kind: MeterKind,
    /// Where the colour goes, before the action runs.
    pub result: FieldId,
}

#[derive(Debug, Clone)]
pub(crate) struct ValueSet {
    pub name: String,
    /// Bits of each part of a value.
    pub parts: Vec<u32>,
    pub max_size: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct ActionProfile {
    pub name: String,
    pub max_size: usize,
    /// What chooses a member of a group; none where there are no groups.
    pub selector: Option<Calculation>,
}
