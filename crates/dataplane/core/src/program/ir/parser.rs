//! The parser: states, extractions, transitions.

use super::{AnyStack, BoolExpr, Expr, HeaderId, Place, Primitive, StateId};
use crate::{ValueSetId, value::Int};

/// The destination of an extraction.
#[derive(Debug, Clone)]
pub enum ExtractTarget {
    /// A fixed instance.
    Header(HeaderId),
    /// The next element of a stack; a full stack is a parser error.
    Next {
        /// The stack to append to.
        stack: AnyStack,
        /// For a stack of unions, the member's position in the union.
        member: u32,
    },
}

/// A statement of a parser state.
#[derive(Debug, Clone)]
pub enum ParserOp {
    /// Extracts a header of fixed length.
    Extract(ExtractTarget),
    /// Extracts a header with a varbit field.
    ExtractVariable {
        /// The destination.
        target: ExtractTarget,
        /// Width of the varbit field, a multiple of 8.
        bits: Expr,
    },
    /// Assigns a number.
    Set {
        /// The destination.
        to: Place,
        /// The value.
        from: Expr,
    },
    /// Assigns bits that follow the parser's position in the frame, without consuming them.
    SetLookahead {
        /// The destination.
        to: Place,
        /// First bit, counted from the position.
        offset: u32,
        /// How many bits are assigned.
        bits: u32,
    },
    /// Ends the parser with an error unless a condition holds.
    Verify {
        /// The condition that must hold.
        condition: BoolExpr,
        /// The number that the error has in the program.
        error: Expr,
    },
    /// Skips bits, a multiple of 8.
    Advance {
        /// How many bits are skipped.
        bits: Expr,
    },
    /// Any other statement.
    Primitive(Primitive),
}

/// A part of a `select` key.
#[derive(Debug, Clone)]
pub enum KeyPart {
    /// The value of an expression.
    Value {
        /// The text in P4.
        name: String,
        /// The expression that gives the value.
        value: Expr,
        /// Width to truncate the value to.
        bits: u32,
    },
    /// Bits that follow the parser's position in the frame, not consumed.
    Lookahead {
        /// First bit, counted from the position.
        offset: u32,
        /// How many bits belong to the key.
        bits: u32,
    },
}

impl KeyPart {
    /// Width of the part in bits.
    pub fn bits(&self) -> u32 {
        match self {
            KeyPart::Value { bits, .. } | KeyPart::Lookahead { bits, .. } => *bits,
        }
    }
}

/// A transition to another state.
#[derive(Debug, Clone)]
pub struct Transition {
    /// What the key must match.
    pub case: TransitionCase,
    /// The next state; `None` ends the parser.
    pub next: Option<StateId>,
}

/// The condition of a transition.
#[derive(Debug, Clone)]
pub enum TransitionCase {
    /// One value and optional mask per key part.
    Values(Vec<(Int, Option<Int>)>),
    /// Membership in a parser value set; the mask covers the concatenated key parts.
    ValueSet {
        /// The value set to search.
        set: ValueSetId,
        /// If this mask is given, only bits that are set both in it and in the member's own mask are compared.
        mask: Option<Int>,
    },
}

/// A parser state.
#[derive(Debug, Clone)]
pub struct State {
    /// The name in P4.
    pub name: String,
    /// Statements to run first.
    pub ops: Vec<ParserOp>,
    /// The parts of the `select` key.
    pub key: Vec<KeyPart>,
    /// The transitions; the first whose case matches is taken.
    pub transitions: Vec<Transition>,
    /// The next state if no transition matches; `None` ends the parser.
    pub default: Option<StateId>,
}

/// The parser as a graph of states.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    /// Indexed by [`StateId`].
    pub states: Vec<State>,
    /// The first state; `None` extracts nothing.
    pub start: Option<StateId>,
}

/// The numbers that the program gives to the errors of core.p4.
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
