//! A request that cannot be decoded is the client's fault: it gets the status `INVALID_ARGUMENT`, where tonic says
//! `INTERNAL`.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// How prost begins to say that bytes are no message; tonic passes it on and nothing else.
const DECODE_FAILED: &str = "failed to decode Protobuf message";

/// A service whose calls are refused in the right way.
#[derive(Clone)]
pub(crate) struct RefusesMalformed<S>(pub(crate) S);

/// The status of a call, or of a stream, for the client.
pub(crate) fn refused(status: Status) -> Status {
    match (status.code(), status.message()) {
        (Code::Internal, message) if message.starts_with(DECODE_FAILED) => {
            Status::invalid_argument(format!("the request is malformed: {message}"))
        }
        _ => status,
    }
}

impl<S: NamedService> NamedService for RefusesMalformed<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for RefusesMalformed<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = BoxFuture<S::Response, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let response = self.0.call(request);
        Box::pin(async move { Ok(corrected(response.await?)) })
    }
}

/// A call that ends before it has begun has its status in the header.
fn corrected(response: http::Response<Body>) -> http::Response<Body> {
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() == Code::Internal => refused(status).into_http(),
        _ => response,
    }
}
