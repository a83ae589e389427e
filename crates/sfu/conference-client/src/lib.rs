//! A client of the conference service.
//!
//! * [`Api`] makes requests.
//! * [`MediaSocket`] is a UDP socket that is signed in to a leg and kept so.
//! * [`relay`] connects programs that speak plain RTP on this machine with legs.
#![warn(missing_docs)]

mod api;
mod media;
pub mod relay;
pub mod sdp;

pub use api::{Api, ApiError, Bearer, Watch};
pub use media::{MediaSocket, NotSignedIn};
