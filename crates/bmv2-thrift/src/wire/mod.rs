//! Thrift's binary protocol, as far as calls need it: where a call ends, what its arguments are, how an answer is
//! written.
//!
//! Over a buffered transport nothing says how long a call is, so its end is found by walking over it
//! ([`scan`]), piece by piece as it arrives. Source: "Thrift Binary protocol encoding" of Apache Thrift, which says
//! both the strict and the old form of a message's head; either is taken, the strict one is answered.

pub mod read;
pub mod scan;
pub mod write;

/// Why bytes are no call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A type that there is none of.
    #[error("expected the type of a value, found {0}")]
    Type(u8),
    /// A strict head of another version.
    #[error("expected version 1 of the binary protocol, found 0x{0:08x}")]
    Version(u32),
    /// A length below zero, or beyond what a call may have.
    #[error("expected a length of 0 to {max}, found {found}")]
    Length {
        /// As it was given.
        found: i32,
        /// The longest there may be.
        max: usize,
    },
    /// Longer than a call may be.
    #[error("expected a call of {0} bytes at most")]
    TooLong(usize),
    /// More values than a call may have.
    #[error("expected {0} values at most")]
    TooMany(usize),
    /// Containers within containers.
    #[error("expected {0} structures within each other at most")]
    TooDeep(usize),
    /// A name that is no text.
    #[error("expected the name of a call in UTF-8")]
    Name,
    /// It ends before it is whole.
    #[error("the call ends too early")]
    Short,
}

/// The type of a value on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// One byte, 0 or 1.
    Bool = 2,
    /// A signed byte.
    I8 = 3,
    /// IEEE 754, eight bytes.
    Double = 4,
    /// Two bytes.
    I16 = 6,
    /// Four bytes, enumerations too.
    I32 = 8,
    /// Eight bytes.
    I64 = 10,
    /// Bytes behind their number, text too.
    Bytes = 11,
    /// Fields until one of type 0.
    Struct = 12,
    /// Pairs behind the two types and their number.
    Map = 13,
    /// As a list.
    Set = 14,
    /// Values behind their type and their number.
    List = 15,
}

impl Type {
    fn of(byte: u8) -> Result<Self, WireError> {
        Ok(match byte {
            2 => Self::Bool,
            3 => Self::I8,
            4 => Self::Double,
            6 => Self::I16,
            8 => Self::I32,
            10 => Self::I64,
            11 => Self::Bytes,
            12 => Self::Struct,
            13 => Self::Map,
            14 => Self::Set,
            15 => Self::List,
            _ => return Err(WireError::Type(byte)),
        })
    }

    /// Bytes of a value that always has as many.
    fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::Bool | Self::I8 => Some(1),
            Self::I16 => Some(2),
            Self::I32 => Some(4),
            Self::I64 | Self::Double => Some(8),
            Self::Bytes | Self::Struct | Self::Map | Self::Set | Self::List => None,
        }
    }
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Wants an answer.
    Call = 1,
    /// An answer.
    Reply = 2,
    /// [`Failure`] as answer.
    Exception = 3,
    /// Wants none.
    Oneway = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Call, Self::Reply, Self::Exception, Self::Oneway]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Thrift's `TApplicationException`: a failure that a service does not declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Of which kind.
    pub kind: FailureKind,
    /// In words.
    pub message: String,
}

/// Its kinds, as far as there are some here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// No such service or call.
    UnknownMethod = 1,
    /// Something else than a call.
    MessageType = 2,
    /// The call cannot be carried out.
    Internal = 6,
    /// The arguments are not those of the call, or not well-formed.
    Protocol = 7,
}

const VERSION_1: u32 = 0x8001_0000;
const VERSION_MASK: u32 = 0xffff_0000;
