//! Answers a request that cannot be decoded with the status `INVALID_ARGUMENT`, because the mistake is the client's.
//! tonic itself would answer with `INTERNAL`.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// The start of prost's decode errors. Only the message distinguishes them from tonic's other internal errors.
const DECODE_FAILED: &str = "failed to decode Protobuf message";

/// A service that maps the status of malformed requests.
#[derive(Clone)]
pub(crate) struct RefusesMalformed<S>(pub(crate) S);

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

/// Corrects the status of a failed call. If a call fails before its response starts, the headers contain the status.
fn corrected(response: http::Response<Body>) -> http::Response<Body> {
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() == Code::Internal => refused(status).into_http(),
        _ => response,
    }
}
