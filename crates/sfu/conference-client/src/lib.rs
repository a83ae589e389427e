//! A client of the conference service.
//!
//! * [`Api`] makes requests, and [`address`] checks where to.
//! * [`MediaSocket`] is a UDP socket that signs in to a leg and stays signed in. A leg is a participant's connection
//!   to the service by one UDP socket; it has a number and a key.
//! * [`relay`] connects programs that speak plain RTP on this machine with legs, and [`datagrams`] connects programs
//!   that exchange datagrams of any kind.
//! * [`sequence`] finds out which numbered packets are lost or have come again.
#![warn(missing_docs)]

pub mod address;
mod api;
mod arrival;
pub mod datagrams;
mod media;
pub mod relay;
pub mod sdp;
pub mod sequence;

pub use api::{Api, ApiError, Bearer, Watch};
pub use arrival::{Arrival, PacketBuffer, now_ns};
pub use media::{MediaSocket, NotSent, NotSignedIn};
