//! Thrift's binary protocol, as far as calls need it: finds the end of a call, decodes its arguments, and encodes
//! answers.
//!
//! A buffered transport does not give a call's length, so [`scan`] walks over the call, piece by piece as it arrives,
//! to find its end. Source: "Thrift Binary protocol encoding" of Apache Thrift. Message heads have a strict and an old
//! form: this crate reads both and writes the strict form.

pub mod read;
pub mod scan;
pub mod write;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// An unknown type.
    #[error("expected the type of a value, found {0}")]
    Type(u8),
    /// A strict head of another version.
    #[error("expected version 1 of the binary protocol, found 0x{0:08x}")]
    Version(u32),
    /// A negative length, or one beyond the limit.
    #[error("expected a length of 0 to {max}, found {found}")]
    Length { found: i32, max: usize },
    #[error("expected a call of {0} bytes at most")]
    TooLong(usize),
    #[error("expected {0} values at most")]
    TooMany(usize),
    /// Containers are nested too deeply.
    #[error("expected structures nested at most {0} levels deep")]
    TooDeep(usize),
    #[error("expected the name of a call in UTF-8")]
    Name,
    /// The bytes end before the call is complete.
    #[error("the call ends too early")]
    Short,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// One byte, 0 or 1.
    Bool = 2,
    I8 = 3,
    /// IEEE 754, eight bytes.
    Double = 4,
    I16 = 6,
    /// Enumerations have this type, too.
    I32 = 8,
    I64 = 10,
    /// A length, then this number of bytes. Text has this type, too.
    Bytes = 11,
    /// Fields, then the type 0.
    Struct = 12,
    /// The types of key and value and the number of pairs, then the pairs.
    Map = 13,
    /// Encoded like a list.
    Set = 14,
    /// Type and number of the values, then the values.
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

    /// The size of a value whose type has a fixed size.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A call that expects an answer.
    Call = 1,
    Reply = 2,
    /// An answer that contains a [`Failure`].
    Exception = 3,
    /// A call without an answer.
    Oneway = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Call, Self::Reply, Self::Exception, Self::Oneway]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Thrift's `TApplicationException`: a failure that the service does not declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

/// The kinds of failure that the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Unknown service or call.
    UnknownMethod = 1,
    /// The message is not a call.
    MessageType = 2,
    /// The call cannot be carried out.
    Internal = 6,
    /// The arguments are malformed or have wrong types.
    Protocol = 7,
}

const VERSION_1: u32 = 0x8001_0000;
const VERSION_MASK: u32 = 0xffff_0000;
