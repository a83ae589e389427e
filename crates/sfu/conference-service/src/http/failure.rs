//! Turns failures into HTTP answers (RFC 9457).

use axum::body::to_bytes;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use conference_api::{BadName, Problem};
use conference_model::{Refusal, RefusalKind};

use super::BODY_MAX;
use crate::core::CoreError;
use crate::limits::TooMany;
use crate::tokens::NotAllowed;

/// The most bytes of a text that the HTTP library answers with.
const DETAIL_MAX: usize = 4_096;

#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: String,
    /// After how many seconds the request may succeed.
    retry_s: Option<u32>,
}

impl Failure {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: String) -> Failure {
        Failure {
            status,
            kind,
            title,
            detail,
            retry_s: None,
        }
    }

    pub(super) fn no_route() -> Failure {
        let detail = "no such address: GET /openapi.json describes those that there are".to_owned();
        Failure::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    pub(super) fn wrong_method() -> Failure {
        let detail = "no such method here: GET /openapi.json describes those that there are";
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Failure::new(status, "wrong-method", "No such method", detail.to_owned())
    }

    /// Makes the failure of a request whose body cannot be read.
    pub(super) fn of_body(error: &JsonRejection) -> Failure {
        if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let detail = format!("expected a body of at most {BODY_MAX} bytes");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return Failure::new(status, "too-large", "The body is too large", detail);
        }
        Failure::invalid(error.body_text())
    }

    /// Makes the failure of a request that may succeed a second later, perhaps at another service.
    pub(super) fn unavailable(detail: String) -> Failure {
        Failure {
            retry_s: Some(1),
            ..Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "Not available now",
                detail,
            )
        }
    }

    /// Makes the failure of a request for a new conference or participant while the service drains, that is, takes
    /// none.
    pub(super) fn draining() -> Failure {
        let detail = "the service drains: it takes no new conference and no new participant. Ask another service; an administrator ends the drain with `reprise drain URL --off`";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Failure::new(status, "draining", "The service drains", detail.to_owned())
    }

    /// Makes the failure of a request whose body or path is not what it must be.
    pub(super) fn invalid(detail: String) -> Failure {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Failure::new(
            status,
            "invalid",
            "The request asks for what cannot be",
            detail,
        )
    }
}

/// Turns a refusal that the HTTP library has made itself, for example of a path that is not UTF-8, into a problem.
pub(super) async fn as_problem(response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let is_failure = parts.status.is_client_error() || parts.status.is_server_error();
    let kind = parts.headers.get(header::CONTENT_TYPE);
    if !is_failure || kind.is_some_and(|it| it.as_bytes().starts_with(b"application/")) {
        return Response::from_parts(parts, body);
    }
    let text = to_bytes(body, DETAIL_MAX).await.unwrap_or_default();
    let detail = String::from_utf8_lossy(&text).into_owned();
    let title = "The request cannot be handled";
    let mut problem = Failure::new(parts.status, "invalid", title, detail).into_response();
    let others = parts.headers.into_iter();
    let others = others.filter_map(|(name, value)| Some((name?, value)));
    for (name, value) in others.filter(|(name, _)| !is_of_body(name)) {
        problem.headers_mut().append(name, value);
    }
    problem
}

fn is_of_body(name: &HeaderName) -> bool {
    [header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name)
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let problem = Problem {
            kind: format!("urn:reprise:{}", self.kind),
            title: self.title.to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
        };
        let mut response = (self.status, Json(problem)).into_response();
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if let Some(seconds) = self.retry_s {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<NotAllowed> for Failure {
    fn from(why: NotAllowed) -> Failure {
        let detail = why.to_string();
        match why {
            NotAllowed::NoToken | NotAllowed::BadToken(_) => Failure::new(
                StatusCode::UNAUTHORIZED,
                "no-token",
                "No good token",
                detail,
            ),
            NotAllowed::Forbidden(_) => {
                Failure::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
            }
        }
    }
}

impl From<TooMany> for Failure {
    fn from(why: TooMany) -> Failure {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Failure {
            retry_s: Some(why.retry_s),
            ..Failure::new(status, "too-many", "Too many requests", why.to_string())
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let detail = refusal.to_string();
        match refusal.kind() {
            RefusalKind::NotFound => {
                Failure::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
            }
            RefusalKind::Invalid => Failure::invalid(detail),
            RefusalKind::Forbidden => {
                Failure::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
            }
            RefusalKind::Full => {
                Failure::new(StatusCode::INSUFFICIENT_STORAGE, "full", "No room", detail)
            }
        }
    }
}

impl From<CoreError> for Failure {
    fn from(error: CoreError) -> Failure {
        let detail = error.to_string();
        match error {
            CoreError::Refused(refusal) => refusal.into(),
            CoreError::TooLarge(detail) => {
                Failure::new(StatusCode::INSUFFICIENT_STORAGE, "full", "No room", detail)
            }
            CoreError::Busy => Failure {
                retry_s: Some(1),
                ..Failure::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Too busy", detail)
            },
            CoreError::Store(_) | CoreError::Ended => Failure::unavailable(detail),
        }
    }
}

impl From<BadName> for Failure {
    fn from(error: BadName) -> Failure {
        Failure::invalid(error.to_string())
    }
}
