//! SRTP and SRTCP (RFC 3711, with the AEAD profiles of RFC 7714): a [`Sender`] protects packets with one master key, a
//! [`Receiver`] checks and decrypts packets with one. There are no sockets, clocks or threads here, and no negotiation
//! of keys (DTLS-SRTP, RFC 5764, gives a master key and a salt for each direction).
//!
//! A sender never uses a packet index twice for a stream: with AES-GCM, two packets with the same index and key would
//! reveal both payloads and the key of their tags (RFC 7714, section 9.1). So a sender refuses a packet whose index it
//! has used, or may have used. Whoever makes a sender must not make another one with the same master key.
//!
//! Neither of them can encrypt only a part of a packet, or send one in clear: a packet without payload gets a tag too.

mod cipher;
mod derive;
mod index;
mod limits;
mod packet;
mod profile;
mod receiver;
mod sender;

pub use index::Used;
pub use limits::{GROWTH_BYTES_MAX, STREAMS_MAX};
pub use packet::Malformed;
pub use profile::{BadKey, MasterKey, Profile};
pub use receiver::{Receiver, Rejected};
pub use sender::{Refused, Sender};
