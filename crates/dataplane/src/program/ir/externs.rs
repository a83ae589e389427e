//! What a program declares beside its controls: calculations, arrays, value sets, profiles.

use super::{BoolExpr, CalculationId, Expr, FieldId, HeaderId};
use crate::{
    program::{MeterUnit, ir::Algorithm},
    value::Int,
};

/// A part of what a calculation is over.
#[derive(Debug, Clone)]
pub enum CalculationInput {
    /// A field, its header valid or not.
    Field(FieldId),
    /// A header's fields, if it is valid.
    Header(HeaderId),
    /// A number.
    Constant {
        /// The number.
        value: Int,
        /// Its width.
        bits: u32,
    },
    /// What follows the parsed headers.
    Payload,
}

/// An algorithm and its input.
#[derive(Debug, Clone)]
pub struct Calculation {
    /// Empty where a selector's.
    pub name: String,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The parts, packed bit by bit, one after the other.
    pub input: Vec<CalculationInput>,
}

/// A checksum of the program.
#[derive(Debug, Clone)]
pub struct Checksum {
    /// The field that holds it.
    pub target: FieldId,
    /// What it is.
    pub calculation: CalculationId,
    /// When it counts; none is always.
    pub condition: Option<BoolExpr>,
    /// It is verified after parsing, if the field's header is valid.
    pub verify: bool,
    /// It is written before deparsing.
    pub update: bool,
}

/// Metadata that a copy, or a packet that goes back to ingress, keeps.
#[derive(Debug, Clone)]
pub struct FieldList {
    /// The fields.
    pub fields: Vec<FieldId>,
}

/// A digest's members.
#[derive(Debug, Clone)]
pub struct DigestList {
    /// As in the BMv2 JSON.
    pub name: String,
    /// Value and width of each.
    pub fields: Vec<(Expr, u32)>,
}

/// A register array.
#[derive(Debug, Clone)]
pub struct RegisterArray {
    /// Fully qualified name.
    pub name: String,
    /// How many.
    pub cells: usize,
    /// Width of each, unsigned.
    pub bits: u32,
    /// The program is wrong where each worker has its own.
    pub is_shared: bool,
    /// A cell stands somewhere as an operand, not only in `register_read` and `register_write`.
    pub is_operand: bool,
    /// No reader is given its cells.
    pub is_secret: bool,
}

/// A counter array.
#[derive(Debug, Clone)]
pub struct CounterArray {
    /// Fully qualified name.
    pub name: String,
    /// How many.
    pub cells: usize,
}

/// What every meter of an array, or of a table, has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterKind {
    /// What it measures.
    pub unit: MeterUnit,
    /// 2 in v1model; 1 leaves out the peak rate.
    pub rates: usize,
}

/// A meter array.
#[derive(Debug, Clone)]
pub struct MeterArray {
    /// Fully qualified name.
    pub name: String,
    /// How many.
    pub cells: usize,
    /// What each has.
    pub kind: MeterKind,
}

/// The meter that each entry of a table has.
#[derive(Debug, Clone)]
pub struct DirectMeter {
    /// Fully qualified name.
    pub name: String,
    /// What each has.
    pub kind: MeterKind,
    /// Where the colour goes, before the action runs.
    pub result: FieldId,
}

/// A parser value set.
#[derive(Debug, Clone)]
pub struct ValueSet {
    /// Fully qualified name.
    pub name: String,
    /// Bits of each part of a value.
    pub parts: Vec<u32>,
    /// Members at most.
    pub max_size: usize,
}

/// An action profile.
#[derive(Debug, Clone)]
pub struct ActionProfile {
    /// Fully qualified name.
    pub name: String,
    /// Members at most.
    pub max_size: usize,
    /// What chooses a member of a group; none where there are no groups.
    pub selector: Option<Calculation>,
}
