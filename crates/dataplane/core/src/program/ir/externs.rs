//! What a program declares besides its controls: calculations, arrays, value sets, action profiles.

use super::{BoolExpr, CalculationId, Expr, FieldId, HeaderId};
use crate::{
    program::{MeterUnit, ir::Algorithm},
    value::Int,
};

/// A part of a calculation's input.
#[derive(Debug, Clone)]
pub enum CalculationInput {
    /// A field; left out if its header is invalid.
    Field(FieldId),
    /// All fields of a header; left out if the header is invalid.
    Header(HeaderId),
    /// A constant.
    Constant {
        /// Its value.
        value: Int,
        /// Its width in bits.
        bits: u32,
    },
    /// The bytes after the parsed headers.
    Payload,
}

/// An algorithm and its input.
#[derive(Debug, Clone)]
pub struct Calculation {
    /// The name; empty if the calculation is an action selector's.
    pub name: String,
    /// How the bytes are reduced to a number.
    pub algorithm: Algorithm,
    /// The parts, concatenated bit by bit.
    pub input: Vec<CalculationInput>,
}

/// A checksum of the program.
#[derive(Debug, Clone)]
pub struct Checksum {
    /// The field that holds the checksum.
    pub target: FieldId,
    /// How the checksum is computed.
    pub calculation: CalculationId,
    /// The condition under which the checksum applies to a packet; `None` means always.
    pub condition: Option<BoolExpr>,
    /// Whether the checksum is verified after parsing, if the field's header is valid.
    pub verify: bool,
    /// Whether the checksum is written before deparsing.
    pub update: bool,
}

/// Metadata that a clone, or a packet on its return to ingress, preserves.
#[derive(Debug, Clone)]
pub struct FieldList {
    /// The metadata fields.
    pub fields: Vec<FieldId>,
}

/// The members of a digest.
#[derive(Debug, Clone)]
pub struct DigestList {
    /// The name in BMv2 JSON.
    pub name: String,
    /// Value and width of each member.
    pub fields: Vec<(Expr, u32)>,
}

/// The declaration of a register array; the values are in the switch's state.
#[derive(Debug, Clone)]
pub struct RegisterArray {
    /// Fully qualified name.
    pub name: String,
    /// Number of cells.
    pub cells: usize,
    /// Width of a cell; cells are unsigned.
    pub bits: u32,
    /// Whether all workers (event loops, each with a switch of its own) must share the register (`@shared`).
    pub is_shared: bool,
    /// Whether some expression uses a cell as an operand, as opposed to an access by `register_read` or
    /// `register_write`.
    pub is_operand: bool,
    /// Whether the register is `@secret`: control-plane reads and traces do not show its values.
    pub is_secret: bool,
}

/// The declaration of a counter array; the counts are in the switch's state.
#[derive(Debug, Clone)]
pub struct CounterArray {
    /// Fully qualified name.
    pub name: String,
    /// Number of cells.
    pub cells: usize,
}

/// Unit and number of rates of meters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterKind {
    /// The unit of rates and bursts.
    pub unit: MeterUnit,
    /// Number of rates: 2 in v1model; a meter with 1 has no peak rate.
    pub rates: usize,
}

/// The declaration of a meter array; rates and buckets are in the switch's state.
#[derive(Debug, Clone)]
pub struct MeterArray {
    /// Fully qualified name.
    pub name: String,
    /// Number of cells.
    pub cells: usize,
    /// Unit and number of rates.
    pub kind: MeterKind,
}

/// The direct meter of a table.
#[derive(Debug, Clone)]
pub struct DirectMeter {
    /// Fully qualified name.
    pub name: String,
    /// Unit and number of rates.
    pub kind: MeterKind,
    /// The field that receives the colour before the action runs.
    pub result: FieldId,
}

/// A parser value set.
#[derive(Debug, Clone)]
pub struct ValueSet {
    /// Fully qualified name.
    pub name: String,
    /// The width of each key part.
    pub parts: Vec<u32>,
    /// Maximum number of members.
    pub max_size: usize,
}

/// The declaration of an action profile or, if it has groups, of an action selector.
#[derive(Debug, Clone)]
pub struct ActionProfile {
    /// Fully qualified name.
    pub name: String,
    /// Maximum number of members.
    pub max_size: usize,
    /// Selects a member of a group; `None` if the profile has no groups.
    pub selector: Option<Calculation>,
}
