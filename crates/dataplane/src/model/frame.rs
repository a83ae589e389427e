//! Frames that leave, where they are.

pub use ::frame::Frame;

use super::PortId;

/// A frame that leaves, where the engine has it.
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
