//! Frames that leave the switch.

pub use ::frame::Frame;

use super::PortId;

/// A frame that leaves, borrowed from the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// The output port.
    pub port: PortId,
    /// The frame in two pieces, headers and payload.
    pub frame: Frame<'a>,
}

impl Transmit<'_> {
    /// Copies the frame into one piece.
    pub fn to_owned(&self) -> OwnedTransmit {
        OwnedTransmit {
            port: self.port,
            frame: [self.frame.head, self.frame.payload].concat(),
        }
    }
}

/// The result of [`crate::Switch::transmit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmitted {
    /// Frames sent by this call.
    pub n_frames: usize,
    /// Whether no packet can be processed now. If false, the caller must call again.
    pub is_idle: bool,
}

/// A frame that left, in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedTransmit {
    /// The output port.
    pub port: PortId,
    /// The whole frame.
    pub frame: Vec<u8>,
}
