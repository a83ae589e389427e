//! Frames that leave, where they are.

use super::PortId;

/// A frame where an engine has it: two pieces, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The headers, as the deparser wrote them.
    pub head: &'a [u8],
    /// What follows them, shared with other copies.
    pub payload: &'a [u8],
    /// Of which bytes the payload is a part: as long as the process lives, where the number is the
    /// same and the payload is at the same place, it is the same. 0 where that is not known.
    pub payload_id: u64,
}

/// A frame that leaves, where the engine has it. The two pieces are one frame: a port copies them
/// one after the other to where it sends from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// On this port.
    pub port: PortId,
    /// Its bytes.
    pub frame: Frame<'a>,
}

impl Transmit<'_> {
    /// The frame in one piece.
    pub fn to_owned(&self) -> OwnedTransmit {
        OwnedTransmit {
            port: self.port,
            frame: [self.frame.head, self.frame.payload].concat(),
        }
    }
}

/// What a call of [`crate::Switch::transmit`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmitted {
    /// Frames that have left.
    pub n_frames: usize,
    /// Nothing more can run now; else it is to be called again.
    pub is_idle: bool,
}

/// A frame that has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedTransmit {
    /// On this port.
    pub port: PortId,
    /// The whole frame.
    pub frame: Vec<u8>,
}
