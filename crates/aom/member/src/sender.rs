//! Sends requests to a group.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use aom::wire::{self, Variant};

/// The most bytes in a UDP payload over IPv4.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// The reason why a request was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The message does not fit into a datagram together with the sequencer's header.
    #[error("expected a message of at most {expected} bytes, found {found}")]
    Length {
        /// The longest message that fits.
        expected: usize,
        /// The length of the message.
        found: usize,
    },
    /// The group has no address for requests.
    #[error(
        "the group has no multicast address: send requests to the sequencer's own address, which the operator knows"
    )]
    NoAddress,
    /// The kernel refused the datagram.
    #[error("the request was not sent: {0}")]
    Io(#[from] io::Error),
}

/// Sends requests to one group. Only members learn whether a request was ordered; the sender gets no answer.
#[derive(Debug)]
pub struct Sender {
    socket: UdpSocket,
    group: SocketAddr,
    number: u16,
    variant: Variant,
}

impl Sender {
    /// `group` is the group's address, or the sequencer's own address if the number in requests selects the group.
    #[must_use]
    pub fn new(socket: UdpSocket, group: SocketAddr, number: u16, variant: Variant) -> Sender {
        Sender {
            socket,
            group,
            number,
            variant,
        }
    }

    /// Sends one request.
    ///
    /// # Errors
    /// If the message is too long, or the kernel refuses it.
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
