//! The parser: states, what they extract, where they go on.

use super::{AnyStack, BoolExpr, Expr, HeaderId, Place, Primitive, StateId};
use crate::{ValueSetId, value::Int};

/// Where the parser extracts to.
#[derive(Debug, Clone)]
pub enum ExtractTarget {
    /// An instance.
    Header(HeaderId),
    /// The next element of a stack; full is an error.
    Next {
        /// The stack.
        stack: AnyStack,
        /// Of a stack of unions, the member's position in the union.
        member: u32,
    },
}

/// A statement of a parser state.
#[derive(Debug, Clone)]
pub enum ParserOp {
    /// A header of a fixed length.
    Extract(ExtractTarget),
    /// A header with a varbit field.
    ExtractVariable {
        /// Where to.
        target: ExtractTarget,
        /// Width of the varbit field, a multiple of 8.
        bits: Expr,
    },
    /// A number into a place.
    Set {
        /// Where to.
        to: Place,
        /// The value.
        from: Expr,
    },
    /// Bits that follow, without taking them.
    SetLookahead {
        /// Where to.
        to: Place,
        /// Bits from the position on.
        offset: u32,
        /// How many.
        bits: u32,
    },
    /// Ends the parser with an error where a condition does not hold.
    Verify {
        /// The condition.
        condition: BoolExpr,
        /// The number of the error.
        error: Expr,
    },
    /// Skips bits, a multiple of 8.
    Advance {
        /// How many.
        bits: Expr,
    },
    /// Any other statement.
    Primitive(Primitive),
}

/// A part of a state's `select`.
#[derive(Debug, Clone)]
pub enum KeyPart {
    /// A value.
    Value {
        /// As in P4.
        name: String,
        /// The value.
        value: Expr,
        /// It is cut to so many.
        bits: u32,
    },
    /// Bits that follow, without taking them.
    Lookahead {
        /// Bits from the position on.
        offset: u32,
        /// How many.
        bits: u32,
    },
}

impl KeyPart {
    /// Its width.
    pub fn bits(&self) -> u32 {
        match self {
            KeyPart::Value { bits, .. } | KeyPart::Lookahead { bits, .. } => *bits,
        }
    }
}

/// An arrow to another state.
#[derive(Debug, Clone)]
pub struct Transition {
    /// When it is taken.
    pub case: TransitionCase,
    /// The state; none ends the parser.
    pub next: Option<StateId>,
}

/// When an arrow is taken.
#[derive(Debug, Clone)]
pub enum TransitionCase {
    /// One value and mask a key part.
    Values(Vec<(Int, Option<Int>)>),
    /// A member of a parser value set; the mask is over the key's parts, one after the other.
    ValueSet {
        /// The value set.
        set: ValueSetId,
        /// The bits that count, beside those of the member.
        mask: Option<Int>,
    },
}

/// A parser state.
#[derive(Debug, Clone)]
pub struct State {
    /// As in P4.
    pub name: String,
    /// What it does first.
    pub ops: Vec<ParserOp>,
    /// What decides where to go on.
    pub key: Vec<KeyPart>,
    /// The arrows; the first that matches counts.
    pub transitions: Vec<Transition>,
    /// Where to go on if none does; none ends the parser.
    pub default: Option<StateId>,
}

/// The parser.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    /// Its states.
    pub states: Vec<State>,
    /// The first; none extracts nothing.
    pub start: Option<StateId>,
}

/// Numbers of the core library's errors in this program.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreErrors {
    /// `NoError`
    pub no_error: u32,
    /// `PacketTooShort`
    pub packet_too_short: u32,
    /// `StackOutOfBounds`
    pub stack_out_of_bounds: u32,
    /// `HeaderTooShort`
    pub header_too_short: u32,
    /// `ParserTimeout`
    pub parser_timeout: u32,
    /// `ParserInvalidArgument`
    pub parser_invalid_argument: u32,
}
