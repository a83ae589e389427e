//! Connections. Their number is bounded in such a way that strangers who open many do not keep anybody else out.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, connect_info::Connected};
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use stream_socket::{BoundedListener, Caller, ConnectionLimits};

use super::encrypted::Wire;
use crate::limits::Source;
use crate::live::Live;

/// Allows 4,096 connections for event streams, one for each participant, and another 4,096 for requests.
const LIMITS: ConnectionLimits = ConnectionLimits {
    service: "the conference service",
    open_max: 8_192,
    silent_max: Some(Duration::from_secs(10)),
};

/// A listener for the HTTP interface.
pub struct Connections {
    listener: BoundedListener,
    live: Live,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connections")
    }
}

impl Connections {
    /// Takes connections from a listener that is already bound. New connections use the newest certificate.
    #[must_use]
    pub fn new(listener: tokio::net::TcpListener, live: Live) -> Connections {
        Connections {
            listener: BoundedListener::new(listener, LIMITS),
            live,
        }
    }
}

impl Listener for Connections {
    type Io = Wire;
    type Addr = Caller;

    async fn accept(&mut self) -> (Wire, Caller) {
        let connection = self.listener.accept().await;
        let caller = connection.caller().clone();
        let tls = self.live.get().tls.clone();
        let acceptor = tls.map(|tls| tls.acceptor());
        (Wire::new(connection, acceptor.as_ref()), caller)
    }

    fn local_addr(&self) -> io::Result<Caller> {
        Ok(Caller::default())
    }
}

/// The connection over which a request came.
#[derive(Clone)]
pub struct Peer(Caller);

impl Peer {
    /// Counts a call as in progress while the result lives.
    pub(super) fn begin_call(&self) -> stream_socket::Call {
        self.0.begin_call()
    }

    /// Returns where the connection's requests come from.
    pub(super) fn source(&self) -> Source {
        match self.0.peer() {
            stream_socket::Peer::Address(address) => address.into(),
            stream_socket::Peer::User(_) => IpAddr::V4(Ipv4Addr::LOCALHOST).into(),
        }
    }
}

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Peer {
        Peer(stream.remote_addr().clone())
    }
}

/// Counts a request as in progress, so that its connection is not cut to make room for another connection.
pub(super) async fn count(
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let _call = peer.begin_call();
    next.run(request).await
}
