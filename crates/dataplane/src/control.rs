//! What a control plane reads and writes: the data that P4Runtime's entities become.
//!
//! Values are big endian byte strings of any length whose value fits the width; what the switch
//! gives back is canonical (no leading zero byte, at least one byte), as P4Runtime 1.4 asks in
//! section 8.4. Not here: protobuf messages, P4Info ids.

use thiserror::Error;

use crate::{PortId, program::ActionId};

/// A table entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// One match a key field, in the key's order.
    pub key: Vec<MatchField>,
    /// The numerically higher wins; 0 where the table has no ternary, range or optional field.
    pub priority: i32,
    /// What a hit runs.
    pub action: ActionCall,
    /// Fixed by the program; ignored on writing.
    pub is_const: bool,
    /// The direct counter; zero where the table has none.
    pub counter: CounterValue,
}

/// What one field of an entry's key matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MatchField {
    /// This value.
    Exact(Vec<u8>),
    /// The leading `prefix_len` bits; 0 matches everything.
    Lpm {
        /// The prefix; bits after it are zero.
        value: Vec<u8>,
        /// How many leading bits count.
        prefix_len: u32,
    },
    /// A value under a mask; a zero mask matches everything.
    Ternary {
        /// The value; zero where the mask is.
        value: Vec<u8>,
        /// The bits that count.
        mask: Vec<u8>,
    },
    /// A closed interval.
    Range {
        /// The first value.
        low: Vec<u8>,
        /// The last value.
        high: Vec<u8>,
    },
    /// This value, or anything.
    Optional(Option<Vec<u8>>),
}

/// An action and its arguments, one byte string a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ActionCall {
    /// The action.
    pub action: ActionId,
    /// The arguments in the parameters' order.
    pub args: Vec<Vec<u8>>,
}

/// A counter cell; packets and bytes are always both counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Bytes, as the packet was when it entered the control.
    pub bytes: u64,
}

/// One copy that a multicast group or clone session makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Where the copy goes.
    pub port: PortId,
    /// What the copy finds in `egress_rid`.
    pub instance: u16,
}

/// A multicast group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticastGroup {
    /// What the program writes to `mcast_grp`; from 1.
    pub id: u32,
    /// The copies, in the order in which they are made.
    pub replicas: Vec<Replica>,
}

/// A clone session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneSession {
    /// What the program gives to `clone`.
    pub id: u32,
    /// The copies, in the order in which they are made.
    pub replicas: Vec<Replica>,
    /// Clones are cut to so many bytes on leaving; none leaves them whole.
    pub truncate_bytes: Option<u32>,
    /// Queue of the clone at its port.
    pub class_of_service: u32,
}

/// Why a control-plane call was refused; the switch is as it was before the call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ControlError {
    /// The kind; maps one to one to a canonical gRPC code.
    pub kind: ControlErrorKind,
    /// What was expected, what came, and of which object.
    pub message: String,
}

impl ControlError {
    /// An error of a kind with its message.
    pub fn new(kind: ControlErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// The kinds of [`ControlError`], named as gRPC names its codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlErrorKind {
    /// No such entity.
    NotFound,
    /// The entity is there already.
    AlreadyExists,
    /// Badly formed, whatever the state.
    InvalidArgument,
    /// An index beyond the end.
    OutOfRange,
    /// Full.
    ResourceExhausted,
    /// Fixed by the program.
    PermissionDenied,
    /// Not in this state, for example without a program.
    FailedPrecondition,
    /// Not supported.
    Unimplemented,
}
