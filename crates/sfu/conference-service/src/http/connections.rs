//! Connections, bounded in number: strangers who open many keep nobody else out.

use std::io;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, connect_info::Connected};
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use stream_socket::{BoundedListener, Caller, Connection, ConnectionLimits};

/// 4,096 participants with an event stream each, and as many that make requests.
const LIMITS: ConnectionLimits = ConnectionLimits {
    service: "the conference service",
    open_max: 8_192,
    silent_max: Some(Duration::from_secs(10)),
};

/// A listener for the HTTP interface.
pub struct Connections(BoundedListener);

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connections")
    }
}

impl Connections {
    /// Of a bound listener.
    #[must_use]
    pub fn new(listener: tokio::net::TcpListener) -> Connections {
        Connections(BoundedListener::new(listener, LIMITS))
    }
}

impl Listener for Connections {
    type Io = Connection;
    type Addr = Caller;

    async fn accept(&mut self) -> (Connection, Caller) {
        let connection = self.0.accept().await;
        let caller = connection.caller().clone();
        (connection, caller)
    }

    fn local_addr(&self) -> io::Result<Caller> {
        Ok(Caller::default())
    }
}

/// The connection of a request.
#[derive(Clone)]
pub struct Peer(Caller);

impl Peer {
    /// Counts a call as in progress while the result lives.
    pub(super) fn begin_call(&self) -> stream_socket::Call {
        self.0.begin_call()
    }
}

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Peer {
        Peer(stream.remote_addr().clone())
    }
}

/// A connection with a request in progress is not cut for another one.
pub(super) async fn count(
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let _call = peer.begin_call();
    next.run(request).await
}
