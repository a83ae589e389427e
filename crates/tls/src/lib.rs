//! TLS of a P4Runtime server and its clients: keys and certificates in PEM files, checked when they are read, read
//! again when they are renewed, and what went wrong in words that name the next step.
//!
//! Not here: sockets, deadlines and limits, which are the server's and the client's. TLS itself is rustls', with
//! ring: TLS 1.3, and 1.2 for older controllers. Sessions are never resumed, so that every connection shows its
//! certificate.

mod client;
mod date;
mod files;
mod server;
mod trouble;

pub use client::{Client, ClientFiles, Connecting, server_name};
pub use files::{FileError, Purpose, key_open_to_others};
pub use server::{Renewal, Server, ServerFiles};
pub use trouble::{Trouble, refused};

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// HTTP/2, as TLS names it (RFC 9113, section 3.1); gRPC clients ask for it.
const ALPN_HTTP2: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
