//! The datagrams by which a host signs a socket in to a conference (docs/join.md, "Sign a socket in").
//!
//! A host sends a hello from the very socket that its media uses. The hello names a leg, which is a participant's
//! connection by one UDP socket, with a number and a key. The service answers with a challenge, whose nonce only the
//! owner of the socket's address sees. A hello with this nonce proves that the host has the leg's key and receives at
//! the address. The service then signs the socket in and confirms it with a welcome. From then on the switch itself
//! answers hellos.
//!
//! All numbers are in network byte order:
//!
//! | bytes | content |
//! | --- | --- |
//! | 0..2 | "RH" |
//! | 2 | version, 1 |
//! | 3 | kind |
//! | 4..6 | 0 |
//! | 6..10 | leg |
//! | 10..18 | the host's clock, in milliseconds since 1970 |
//! | 18..34 | nonce; zeros in a first hello |
//! | 34..66 | HMAC-SHA256 (RFC 2104) of bytes 0..34 with the leg's key |
#![warn(missing_docs)]

mod nonce;
mod socket;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

pub use nonce::{NONCE_LIFE_MS, Nonces, Origin};
pub use socket::{Received, SigningIn};

/// How many bytes every datagram of this protocol has. As all have the same length, an answer is never longer than the
/// datagram that it answers.
pub const LEN: usize = 66;
/// Bytes of a leg's key.
pub const KEY_LEN: usize = 32;
/// Bytes of a nonce.
pub const NONCE_LEN: usize = 16;

const MAGIC: [u8; 2] = *b"RH";
const VERSION: u8 = 1;
const SIGNED: usize = 34;

/// The kind of a datagram: who sends it, and what it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// From a host: claims that the sending socket belongs to the leg.
    Hello = 1,
    /// From the service: asks the host for another hello, with this nonce.
    Challenge = 2,
    /// From the service: the socket is signed in.
    Welcome = 3,
    /// From the switch: the socket is still signed in. All bytes except the kind are copied from the hello, including
    /// its signature. So only a sender that saw the hello can have sent this answer.
    Alive = 5,
}

/// One datagram, without its signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The kind of the datagram.
    pub kind: Kind,
    /// The leg's number in the switch, from 1 on.
    pub leg: u32,
    /// The sender's clock, in milliseconds since 1970. Nothing depends on this time. It only shows whether clocks
    /// differ.
    pub time_ms: u64,
    /// The challenge's nonce; zeros if there was no challenge yet.
    pub nonce: [u8; NONCE_LEN],
}

/// Why bytes are no datagram of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoHello {
    /// The bytes have another length.
    #[error("expected a hello of {LEN} bytes, found {0}")]
    Length(usize),
    /// The bytes begin with other characters.
    #[error("expected a hello, which begins with \"RH\"")]
    Magic,
    /// A version that this implementation does not know.
    #[error("expected a hello of version {VERSION}, found version {0}")]
    Version(u8),
    /// A kind that does not exist, or reserved bytes that are not 0.
    #[error("a hello of an unknown kind ({0})")]
    Kind(u8),
}

impl Hello {
    /// Encodes and signs the datagram.
    #[must_use]
    pub fn sign(&self, key: &[u8; KEY_LEN]) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = self.kind as u8;
        bytes[6..10].copy_from_slice(&self.leg.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.time_ms.to_be_bytes());
        bytes[18..SIGNED].copy_from_slice(&self.nonce);
        let signature = signature(key, &bytes[..SIGNED]);
        bytes[SIGNED..].copy_from_slice(&signature);
        bytes
    }

    /// Decodes a datagram. Does not check its signature: [`is_signed_with`] does.
    ///
    /// # Errors
    /// The bytes are no datagram of this protocol.
    pub fn decode(bytes: &[u8]) -> Result<Hello, NoHello> {
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| NoHello::Length(bytes.len()))?;
        if bytes[..2] != MAGIC {
            return Err(NoHello::Magic);
        }
        if bytes[2] != VERSION {
            return Err(NoHello::Version(bytes[2]));
        }
        let kind = match bytes[3] {
            1 => Kind::Hello,
            2 => Kind::Challenge,
            3 => Kind::Welcome,
            5 => Kind::Alive,
            other => return Err(NoHello::Kind(other)),
        };
        if bytes[4..6] != [0, 0] {
            return Err(NoHello::Kind(bytes[3]));
        }
        Ok(Hello {
            kind,
            leg: u32::from_be_bytes(part(bytes, 6)),
            time_ms: u64::from_be_bytes(part(bytes, 10)),
            nonce: part(bytes, 18),
        })
    }
}

fn part<const N: usize>(bytes: &[u8; LEN], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// Whether an encoded datagram has the signature of this key. Takes as long for a wrong signature as for the right one.
#[must_use]
pub fn is_signed_with(bytes: &[u8], key: &[u8; KEY_LEN]) -> bool {
    bytes.len() == LEN && bool::from(signature(key, &bytes[..SIGNED]).ct_eq(&bytes[SIGNED..]))
}

/// Whether `answer` is the switch's answer to the hello that was sent as `sent`.
#[must_use]
pub fn is_alive(answer: &[u8], sent: &[u8; LEN]) -> bool {
    let mut expected = *sent;
    expected[3] = Kind::Alive as u8;
    answer == expected
}

fn signature(key: &[u8], bytes: &[u8]) -> [u8; 32] {
    // HMAC takes keys of any length.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).unwrap_or_else(|_| unreachable!());
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests;
