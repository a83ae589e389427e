//! TLS for the servers and clients of P4Runtime and of the conference service. Keys and certificates are in PEM files.
//! The crate checks the files when it reads them, and a server can read renewed files while it runs
//! ([`Server::renew`]). Error messages say what to do next.
//!
//! The server and the client themselves handle sockets, deadlines and limits. The TLS implementation is rustls with
//! ring: TLS 1.3, and 1.2 for older controllers. Sessions are never resumed, so every connection presents its
//! certificate.

mod client;
mod date;
mod files;
mod server;
mod trouble;

pub use client::{
    Authorities, Client, ClientFiles, Connecting, http_client, public_authorities, server_name,
};
pub use date::utc;
pub use files::{FileError, Purpose, Validity, key_open_to_others};
pub use server::{Renewal, Server, ServerFiles};
pub use trouble::{Trouble, refused};

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The name of HTTP/2 in TLS (RFC 9113, section 3.1), which gRPC clients request.
const ALPN_HTTP2: &[u8] = b"h2";
/// The name of HTTP/1.1 in TLS (RFC 7301, section 6), which WebSockets need.
const ALPN_HTTP1: &[u8] = b"http/1.1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
