//! Limits for incoming requests: their bytes, their messages per second, and the time between two pieces of a request.
//! Each request is also counted among the calls in progress of its connection.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Frame, SizeHint};
use stream_socket::Call;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes as Data, Service, http};
use tonic::server::NamedService;

use crate::bytes::{Bytes, Held};
use crate::caller::Caller;
use crate::device::lock;
use crate::limits::{REQUEST_BYTES_MAX, STREAM_MESSAGE_BYTES_MAX};
use crate::pace::PerSecond;

/// gRPC's message prefix: a flag and the length.
const PREFIX_BYTES: usize = 5;

/// Suffixes of the methods whose requests are streams: P4Runtime's and gNMI's.
const STREAM_METHODS: [&str; 2] = ["/StreamChannel", "/Subscribe"];

#[derive(Clone)]
pub(crate) struct Bounding {
    pub(crate) bytes: Bytes,
    /// The longest pause that is allowed within a request.
    pub(crate) stall: Duration,
    pub(crate) rate: Option<PerSecond>,
}

impl Bounding {
    pub(crate) fn service<S>(&self, service: S) -> Bounded<S> {
        let bounding = self.clone();
        Bounded { service, bounding }
    }
}

#[derive(Clone)]
pub(crate) struct Bounded<S> {
    service: S,
    bounding: Bounding,
}

impl<S: NamedService> NamedService for Bounded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Bounded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = BoxFuture<S::Response, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let caller = request.extensions().get::<Caller>();
        let caller = caller.cloned().unwrap_or_default();
        let call = caller.connection().begin_call();
        let path = request.uri().path();
        let is_stream = STREAM_METHODS.iter().any(|method| path.ends_with(method));
        let (held, bounding) = (HeldForMessage::default(), &self.bounding);
        let request = request.map(|body| {
            Body::new(RequestBody {
                body,
                is_stream,
                bytes: bounding.bytes.clone(),
                caller,
                held: Arc::clone(&held),
                message: Message::default(),
                n_messages: 0,
                stall: bounding.stall,
                deadline: Box::pin(tokio::time::sleep(bounding.stall)),
                rate: bounding.rate,
                admit_at: None,
                early: None,
            })
        });
        let response = self.service.call(request);
        Box::pin(async move {
            let response = response.await?;
            // The request was processed, so its bytes are free again.
            drop(held);
            Ok(response.map(|body| Body::new(ResponseBody { body, _call: call })))
        })
    }
}

/// The bytes that are reserved for the message that is being received or processed.
type HeldForMessage = Arc<Mutex<Option<Held>>>;

struct RequestBody {
    body: Body,
    is_stream: bool,
    bytes: Bytes,
    caller: Caller,
    held: HeldForMessage,
    message: Message,
    n_messages: u64,
    stall: Duration,
    deadline: Pin<Box<Sleep>>,
    rate: Option<PerSecond>,
    /// When the message that began last may be processed.
    admit_at: Option<Instant>,
    early: Option<Early>,
}

/// A piece of the request's body that arrived faster than the rate limit allows.
struct Early {
    frame: Frame<Data>,
    until: Pin<Box<Sleep>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Message {
    prefix: [u8; PREFIX_BYTES],
    n_prefix: usize,
    n_left: usize,
}

impl Message {
    fn is_begun(&self) -> bool {
        self.n_prefix > 0
    }

    /// Takes the bytes of one message from the front of `data`. Returns the message's length if these bytes complete
    /// its prefix, and whether the message is complete.
    fn take(&mut self, data: &mut &[u8]) -> (Option<usize>, bool) {
        let mut begins = None;
        if self.n_prefix < PREFIX_BYTES {
            let n_bytes = data.len().min(PREFIX_BYTES - self.n_prefix);
            let (prefix, rest) = data.split_at(n_bytes);
            self.prefix[self.n_prefix..][..n_bytes].copy_from_slice(prefix);
            self.n_prefix += n_bytes;
            *data = rest;
            if self.n_prefix < PREFIX_BYTES {
                return (None, false);
            }
            let [_, length @ ..] = self.prefix;
            self.n_left = u32::from_be_bytes(length) as usize;
            begins = Some(self.n_left);
        }
        let n_bytes = data.len().min(self.n_left);
        *data = &data[n_bytes..];
        self.n_left -= n_bytes;
        let is_whole = self.n_left == 0;
        if is_whole {
            *self = Self::default();
        }
        (begins, is_whole)
    }
}

impl RequestBody {
    /// Tracks where the messages in `data` begin and end, and restarts the stall timeout.
    fn follow(&mut self, mut data: &[u8]) -> Result<(), Status> {
        self.deadline.as_mut().reset(Instant::now() + self.stall);
        while !data.is_empty() {
            let (begins, is_whole) = self.message.take(&mut data);
            if let Some(n_bytes) = begins {
                self.begin(n_bytes)?;
            }
            self.n_messages += u64::from(is_whole);
        }
        Ok(())
    }

    fn begin(&mut self, n_bytes: usize) -> Result<(), Status> {
        self.admit_at = self.rate.map(|rate| self.caller.admit_at(rate));
        if self.is_stream && n_bytes > STREAM_MESSAGE_BYTES_MAX {
            return Err(Status::resource_exhausted(format!(
                "expected a stream message of at most {STREAM_MESSAGE_BYTES_MAX} bytes, found {n_bytes}"
            )));
        }
        // The codec refuses messages above this limit, so no bytes are reserved for them.
        if n_bytes > REQUEST_BYTES_MAX {
            return Ok(());
        }
        let mut held = lock(&self.held);
        *held = None;
        *held = self.bytes.try_hold(&self.caller, n_bytes);
        if held.is_some() {
            return Ok(());
        }
        let message = format!(
            "no room for a request of {n_bytes} bytes: {} are being sent or carried out; try again a little later",
            self.bytes.described()
        );
        tracing::warn!(event = "request_refused", peer = %self.caller.connection().peer(), bytes = n_bytes, "{message}");
        Err(Status::resource_exhausted(message))
    }

    /// Returns a delayed frame once its time has come; `None` if no frame is delayed.
    fn poll_early(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Data>>> {
        let Some(Early { until, .. }) = &mut self.early else {
            return Poll::Ready(None);
        };
        ready!(until.as_mut().poll(cx));
        // While this frame waited, nothing more was read from the transport. So the stall timeout restarts.
        self.deadline.as_mut().reset(Instant::now() + self.stall);
        Poll::Ready(self.early.take().map(|early| early.frame))
    }

    /// Whether the stall timeout applies. A stream may be silent between two messages.
    fn is_awaited(&self) -> bool {
        !self.is_stream || self.n_messages == 0 || self.message.is_begun()
    }
}

impl http_body::Body for RequestBody {
    type Data = Data;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Data>, Status>>> {
        let this = self.get_mut();
        if this.is_stream && !this.message.is_begun() {
            // The earlier messages of the stream were processed, so their bytes are free again.
            *lock(&this.held) = None;
        }
        if let Some(frame) = ready!(this.poll_early(cx)) {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            let Some(frame) = frame else {
                return Poll::Ready(None);
            };
            let frame = frame?;
            frame.data_ref().map_or(Ok(()), |data| this.follow(data))?;
            let admit_at = this.admit_at.take().filter(|at| *at > Instant::now());
            let Some(admit_at) = admit_at else {
                return Poll::Ready(Some(Ok(frame)));
            };
            let until = Box::pin(tokio::time::sleep_until(admit_at));
            this.early = Some(Early { frame, until });
            return this.poll_early(cx).map(|frame| frame.map(Ok));
        }
        if this.is_awaited() {
            ready!(this.deadline.as_mut().poll(cx));
            return Poll::Ready(Some(Err(Status::deadline_exceeded(format!(
                "the request was not sent to its end: nothing came for {} s",
                this.stall.as_secs()
            )))));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.early.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.early {
            None => self.body.size_hint(),
            Some(_) => SizeHint::default(),
        }
    }
}

/// A response's body. The call counts as in progress until the body ends.
struct ResponseBody {
    body: Body,
    _call: Call,
}

impl http_body::Body for ResponseBody {
    type Data = Data;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Data>, Status>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_followed_however_they_are_cut() {
        let lengths = [0, 1, 300, 0, 70_000];
        let mut sent = Vec::new();
        for length in lengths {
            sent.push(0);
            sent.extend(u32::try_from(length).unwrap().to_be_bytes());
            sent.extend(vec![7; length]);
        }
        for n_bytes in [1, 2, 4, 5, 6, 1_000, sent.len()] {
            let (mut message, mut begun, mut n_whole) = (Message::default(), Vec::new(), 0);
            for mut data in sent.chunks(n_bytes) {
                while !data.is_empty() {
                    let (begins, is_whole) = message.take(&mut data);
                    begun.extend(begins);
                    n_whole += usize::from(is_whole);
                }
            }
            assert_eq!((&begun[..], n_whole), (&lengths[..], lengths.len()));
            assert_eq!(message, Message::default());
        }
    }
}
