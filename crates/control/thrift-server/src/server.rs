//! The server: connections, and their calls one after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use control::Device;
use socket2::{SockRef, TcpKeepalive};
use stream_socket::{ACCEPT_RETRY, Call, ConnectionLimits, Connections, Listener, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::call::{Answered, Refusal};
use crate::context::{Context, ServerConfig};
use crate::limits::{
    ARRIVAL_S, CHUNK_BYTES, CONNECTIONS_MAX, KEEPALIVE_S, SHORT_CALL_BYTES_MAX, STALL_S,
};
use crate::notifications::{self, Events, NotificationSocket};
use crate::services;
use bmv2_thrift::Args;
use bmv2_thrift::wire::read::{self, Message};
use bmv2_thrift::wire::scan::Scan;
use bmv2_thrift::wire::write::{self, Writer};
use bmv2_thrift::wire::{Failure, FailureKind, Kind, WireError};

/// Serves BMv2's Thrift services of one switch. Clones share everything.
#[derive(Clone)]
pub struct Server {
    ctx: Arc<Context>,
}

#[derive(Debug)]
enum End {
    /// The client closed the connection between two calls.
    Done,
    /// The connection was closed or broke during a call.
    Broken,
    /// A call did not arrive in time, or the client did not take the answer.
    Stalled,
    /// The bytes are no valid call. Has the call's name and sequence number if they could be decoded.
    Malformed(WireError, Option<(String, i32)>),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl Server {
    /// Serves a device, which other protocols may serve too.
    pub fn new(config: ServerConfig, device: Arc<Device>) -> Self {
        Self {
            ctx: Arc::new(Context::new(config, device)),
        }
    }

    /// Publishes the switch's events, from this call on, until the switch stops.
    pub fn publish(&self, socket: NotificationSocket) -> impl Future<Output = ()> + Send + use<> {
        let ctx = Arc::clone(&self.ctx);
        let events = Events::of(&ctx);
        notifications::publish(ctx, events, socket)
    }

    /// Serves until `shutdown` resolves. Calls in progress at that time are abandoned, or complete without an answer.
    pub async fn serve(
        self,
        listener: impl Into<Listener>,
        shutdown: impl Future<Output = ()> + Send,
    ) {
        let listener = listener.into();
        tokio::pin!(shutdown);
        let connections = Connections::new(ConnectionLimits {
            service: "Thrift",
            open_max: CONNECTIONS_MAX,
            silent_max: None,
        });
        let mut served = JoinSet::new();
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        // On a Unix socket the kernel reports a dead peer at once.
                        if let Stream::Tcp(stream) = &stream {
                            keep_alive(stream);
                        }
                        self.begin(connections.admit(stream, peer), &mut served);
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                },
                Some(_) = served.join_next() => {}
            }
        }
    }

    /// Serves a connection that was admitted.
    fn begin(&self, admitted: Option<stream_socket::Connection>, served: &mut JoinSet<()>) {
        let Some(stream) = admitted else {
            tracing::warn!(
                event = "thrift_refused",
                "a new Thrift connection was closed, since every open one has a call in progress"
            );
            return;
        };
        let mut connection = Connection {
            ctx: Arc::clone(&self.ctx),
            stream,
            call: None,
            received: Vec::new(),
        };
        served.spawn(async move {
            let end = connection.run().await;
            connection.ended(&end).await;
        });
    }
}

/// The length of a complete call and, if the call is long, the semaphore permit that it holds.
struct Received {
    n_bytes: usize,
    _room: Option<OwnedSemaphorePermit>,
}

struct Connection {
    ctx: Arc<Context>,
    stream: stream_socket::Connection,
    /// The call that is arriving or carried out.
    call: Option<Call>,
    /// Received bytes that are not processed yet. They start at the beginning of a call.
    received: Vec<u8>,
}

impl Connection {
    async fn run(&mut self) -> End {
        loop {
            if let Err(end) = self.serve_one().await {
                return end;
            }
        }
    }

    async fn serve_one(&mut self) -> Result<(), End> {
        let received = self.receive().await?;
        let call = self.received[..received.n_bytes].to_vec();
        self.received.drain(..received.n_bytes);
        let message = read::message(&call);
        let message = message.map_err(|error| End::Malformed(error, read::head(&call)))?;
        drop(call);
        if let Some(answer) = answer(&self.ctx, message).await {
            self.send(&answer).await?;
        }
        // Releases the memory of a long call.
        self.received.shrink_to(CHUNK_BYTES);
        self.call = None;
        Ok(())
    }

    /// Waits for the next call: for its first byte without limit, for the remaining bytes with a deadline.
    async fn receive(&mut self) -> Result<Received, End> {
        let (mut scan, mut room) = (Scan::default(), None);
        if self.received.is_empty() {
            self.read().await?;
        }
        self.call = Some(self.stream.caller().begin_call());
        let arrival = Duration::from_secs(ARRIVAL_S);
        let mut deadline = Instant::now() + arrival;
        loop {
            if let Some(n_bytes) = self.scanned(&mut scan)? {
                return Ok(Received {
                    n_bytes,
                    _room: room,
                });
            }
            if room.is_none() && scan.least_length() > SHORT_CALL_BYTES_MAX {
                let all = Arc::clone(&self.ctx.long_calls);
                room = all.acquire_owned().await.ok();
                deadline = Instant::now() + arrival;
            }
            match timeout_at(deadline, self.read()).await {
                Ok(Ok(())) => {}
                Ok(Err(End::Done)) => return Err(End::Broken),
                Ok(Err(end)) => return Err(end),
                Err(_) => return Err(End::Stalled),
            }
        }
    }

    fn scanned(&self, scan: &mut Scan) -> Result<Option<usize>, End> {
        let head = || read::head(&self.received);
        let length = scan.length(&self.received);
        length.map_err(|error| End::Malformed(error, head()))
    }

    async fn read(&mut self) -> Result<(), End> {
        self.received.reserve(CHUNK_BYTES);
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(End::Done),
            _ => Ok(()),
        }
    }

    async fn send(&mut self, answer: &[u8]) -> Result<(), End> {
        for chunk in answer.chunks(CHUNK_BYTES) {
            let sent = timeout(Duration::from_secs(STALL_S), self.stream.write_all(chunk)).await;
            sent.map_err(|_| End::Stalled)??;
        }
        Ok(())
    }

    /// Ends a connection. The client of a malformed call gets an error if the call's name and number could be decoded.
    /// The server cannot find the next call in the stream after a malformed one, so it closes the connection.
    async fn ended(&mut self, end: &End) {
        match end {
            End::Malformed(error, head) => {
                tracing::info!(event = "thrift_malformed", %error, "a Thrift connection was closed: {error}");
                if let Some((name, number)) = head {
                    let failure = write::failure(call_of(name), *number, &protocol(error));
                    // The connection is closed in any case.
                    let _ = self.send(&failure).await;
                }
            }
            End::Stalled => {
                tracing::info!(
                    event = "thrift_stalled",
                    "a Thrift connection was closed: a call did not arrive within {ARRIVAL_S} seconds, or the client took nothing of an answer for {STALL_S} seconds"
                );
            }
            End::Done | End::Broken => {}
        }
    }
}

/// Turns on TCP keepalive, so that the kernel detects a peer whose machine has gone.
pub(crate) fn keep_alive(stream: &TcpStream) {
    let silence = Duration::from_secs(KEEPALIVE_S);
    let keepalive = TcpKeepalive::new()
        .with_time(silence)
        .with_interval(silence);
    // The connection also works without keepalive.
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

fn protocol(error: &WireError) -> Failure {
    Failure {
        kind: FailureKind::Protocol,
        message: error.to_string(),
    }
}

/// A call's name without its service, as in answers.
fn call_of(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or_default()
}

/// Carries out a call and returns the encoded answer; `None` for a one-way call.
async fn answer(ctx: &Arc<Context>, message: Message) -> Option<Vec<u8>> {
    let Message {
        name,
        kind,
        number,
        fields,
    } = message;
    let call = call_of(&name);
    if !matches!(kind, Some(Kind::Call | Kind::Oneway)) {
        let failure = Failure {
            kind: FailureKind::MessageType,
            message: "expected a call".into(),
        };
        return Some(write::failure(call, number, &failure));
    }
    let answered = services::answer(ctx, &name, Args::new(&fields)).await;
    log_refusal(call, &answered);
    (kind == Some(Kind::Call)).then(|| encoded(call, number, answered))
}

/// Logs why a call was refused: BMv2's clients do not show the reason.
fn log_refusal(call: &str, answered: &Answered) {
    let reason = match answered {
        Ok(_) => return,
        Err(Refusal::Declared(exception)) => &exception.message,
        Err(Refusal::Failed(failure)) => &failure.message,
    };
    tracing::info!(event = "thrift_refused_call", call, %reason, "Thrift: {call} was refused: {reason}");
}

fn encoded(call: &str, number: i32, answered: Answered) -> Vec<u8> {
    if let Err(Refusal::Failed(failure)) = &answered {
        return write::failure(call, number, failure);
    }
    let mut writer = Writer::default();
    writer.head(call, Kind::Reply, number);
    match answered {
        Ok(answer) => answer.write(&mut writer),
        Err(Refusal::Declared(exception)) => exception.write(&mut writer),
        Err(Refusal::Failed(_)) => {}
    }
    writer.stop();
    writer.into_bytes()
}
