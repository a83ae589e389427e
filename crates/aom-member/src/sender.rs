//! Requests to a group.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use aom::wire::{self, Variant};

/// A UDP payload at most.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It is no datagram any more with what the sequencer adds.
    #[error("expected a message of at most {expected} bytes, found {found}")]
    Length {
        /// What fits.
        expected: usize,
        /// What there is.
        found: usize,
    },
    /// The service has named none.
    #[error(
        "the group has no address: its requests are sent to the sequencer's own, which only the operator knows"
    )]
    NoAddress,
    /// The kernel did not take it.
    #[error("the request was not sent: {0}")]
    Io(#[from] io::Error),
}

/// Sends requests to one group. Whether one arrives is not told: the sender hears of it from a member.
#[derive(Debug)]
pub struct Sender {
    socket: UdpSocket,
    group: SocketAddr,
    number: u16,
    variant: Variant,
}

impl Sender {
    /// `group` is the group's address, or the sequencer's own where the number tells the group.
    #[must_use]
    pub fn new(socket: UdpSocket, group: SocketAddr, number: u16, variant: Variant) -> Sender {
        Sender {
            socket,
            group,
            number,
            variant,
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If it is too long, or the kernel does not take it.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        let expected = DATAGRAM_BYTES_MAX - self.variant.overhead_bytes();
        if message.len() > expected {
            let found = message.len();
            return Err(SendError::Length { expected, found });
        }
        let datagram = wire::request(self.variant, self.number, message);
        self.socket.send_to(&datagram, self.group)?;
        Ok(())
    }
}
