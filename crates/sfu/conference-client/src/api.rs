//! Requests to the service.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use conference_api::{
    Claims, Conference, Drain, Name, Participant, ParticipantSpec, Problem, SubscriptionSpec,
    TrackPath, Why,
};
use data_encoding::BASE64URL_NOPAD;
use futures_util::StreamExt;
use http::{Method, Request, Response, StatusCode, header};
use http_client::{Client, Limits};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// If a stream of events brings nothing for longer than this, the client takes the stream for broken: the service sends
/// a sign of life every 15 s.
const QUIET_MAX: Duration = Duration::from_secs(45);

/// Only the answer about a conference in which 4,096 participants receive 4,096 tracks is longer than `body_len`, and
/// this client has no use for that answer.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(10),
    body_len: Some(256 << 20),
};
const BACKUP_LIMITS: Limits = Limits {
    time: Duration::from_secs(600),
    body_len: Some(1 << 30),
};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The service refused the request.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The service does not answer.
    #[error("no conference service answers at {url}: {why}")]
    Unreachable {
        /// The service's address.
        url: String,
        /// Why no answer came.
        why: String,
    },
    /// Something other than a conference service answers.
    #[error("{url} answered with status {status} and no JSON: expected a conference service")]
    NoService {
        /// The address that answered.
        url: String,
        /// The HTTP status of the answer.
        status: u16,
    },
    /// The file with certificates cannot be used.
    #[error(transparent)]
    Certificates(#[from] tls::FileError),
    /// The text is no token of the service.
    #[error("expected a token of a conference service: {0}")]
    BadToken(String),
}

impl ApiError {
    /// Whether the same request may succeed a second later, because the service restarts, another service takes over,
    /// or the service had too many requests.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            ApiError::Refused(problem) => matches!(problem.status, 429 | 503),
            ApiError::Unreachable { .. } => true,
            // A proxy answers with one of these when the service behind it is away.
            ApiError::NoService { status, .. } => matches!(status, 502..=504),
            ApiError::BadToken(_) | ApiError::Certificates(_) => false,
        }
    }
}

/// The participant to whom a token belongs. The service verifies tokens; this client only reads a token's claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// The conference that the token is for.
    pub conference: Name,
    /// The participant whose token it is.
    pub participant: Name,
    /// All claims of the token.
    pub claims: Claims,
}

impl Bearer {
    /// Reads a token.
    ///
    /// # Errors
    /// The text is no participant's token.
    pub fn read(token: &str) -> Result<Bearer, ApiError> {
        let bad = |why: &str| ApiError::BadToken(why.to_owned());
        let claims = Bearer::claims(token)?;
        let conference = claims.conference.clone();
        let participant = claims.sub.clone();
        Ok(Bearer {
            conference: conference.ok_or_else(|| bad("it names a conference"))?,
            participant: participant.ok_or_else(|| bad("it names a participant (\"sub\")"))?,
            claims,
        })
    }

    /// Reads the claims of a token, which may also be an administrator's.
    ///
    /// # Errors
    /// The text is no token.
    pub fn claims(token: &str) -> Result<Claims, ApiError> {
        let bad = |why: &str| ApiError::BadToken(why.to_owned());
        let [_, claims, _] = token.split('.').collect::<Vec<_>>()[..] else {
            return Err(bad("it has three parts with dots between them"));
        };
        let json = BASE64URL_NOPAD.decode(claims.as_bytes());
        let json = json.map_err(|_| bad("its second part is in base64url"))?;
        serde_json::from_slice(&json).map_err(|error| bad(&error.to_string()))
    }
}

/// Makes requests to the service with one token.
#[derive(Clone)]
pub struct Api {
    url: String,
    token: String,
    http: Client,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url)
    }
}

impl Api {
    /// Makes a client for the service at `http://HOST:PORT` or `https://HOST:PORT`, whose certificate browsers trust.
    #[must_use]
    pub fn new(url: &str, token: &str) -> Api {
        Api::of(url, token, tls::http_client(None))
    }

    /// Makes a client for a service whose certificate is signed by one of the certificates in a PEM file.
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate.
    pub fn trusting(url: &str, token: &str, authorities: &Path) -> Result<Api, ApiError> {
        let authorities = tls::Authorities::read(authorities)?;
        Ok(Api::of(url, token, tls::http_client(Some(&authorities))))
    }

    fn of(url: &str, token: &str, tls: Arc<rustls::ClientConfig>) -> Api {
        Api {
            url: url.trim_end_matches('/').to_owned(),
            token: token.trim().to_owned(),
            http: Client::new(tls),
        }
    }

    /// Returns a client that makes requests with another token, over the same connections.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Api {
        Api {
            token: token.trim().to_owned(),
            ..self.clone()
        }
    }

    /// Shows a conference.
    ///
    /// # Errors
    /// The service refuses the request, or does not answer.
    pub async fn conference(&self, conference: &Name) -> Result<Conference, ApiError> {
        self.get(format!("/v1/conferences/{conference}")).await
    }

    /// Shows a participant.
    ///
    /// # Errors
    /// As [`Api::conference`].
    pub async fn participant(
        &self,
        conference: &Name,
        participant: &Name,
    ) -> Result<Participant, ApiError> {
        self.get(participant_path(conference, participant)).await
    }

    /// Makes a participant join a conference, with the tracks and subscriptions of `spec`.
    ///
    /// # Errors
    /// As [`Api::conference`].
    pub async fn join(
        &self,
        (conference, participant): (&Name, &Name),
        spec: ParticipantSpec,
    ) -> Result<Participant, ApiError> {
        self.put(participant_path(conference, participant), spec)
            .await
    }

    /// Makes a participant leave a conference.
    ///
    /// # Errors
    /// As [`Api::conference`].
    pub async fn leave(&self, conference: &Name, participant: &Name) -> Result<(), ApiError> {
        self.delete(participant_path(conference, participant)).await
    }

    /// Begins or ends a drain of the service.
    ///
    /// # Errors
    /// As [`Api::conference`].
    pub async fn set_draining(&self, draining: bool) -> Result<Drain, ApiError> {
        self.put("/v1/drain".to_owned(), Drain { draining }).await
    }

    /// Fetches all records of the service, as text.
    ///
    /// # Errors
    /// As [`Api::conference`], or the answer was cut off.
    pub async fn backup(&self) -> Result<String, ApiError> {
        let call = Call {
            limits: BACKUP_LIMITS,
            ..Call::new(Method::GET, "/v1/backup".to_owned())
        };
        let answer = self.call(&call).await?;
        if !answer.status().is_success() {
            return Err(self.problem(&answer));
        }
        let text = String::from_utf8(answer.into_body().into());
        text.map_err(|error| self.unreachable(&error.to_string()))
    }

    /// Subscribes a participant to a track.
    ///
    /// # Errors
    /// As [`Api::conference`].
    pub async fn subscribe(
        &self,
        whose: (&Name, &Name),
        path: &TrackPath,
        spec: SubscriptionSpec,
    ) -> Result<Participant, ApiError> {
        self.put(subscription_path(whose, path), spec).await
    }

    /// Ends a participant's subscription to a track.
    ///
    /// # Errors
    /// As [`Api::conference`].
    pub async fn unsubscribe(
        &self,
        whose: (&Name, &Name),
        path: &TrackPath,
    ) -> Result<(), ApiError> {
        self.delete(subscription_path(whose, path)).await
    }

    /// Returns the causes that keep a participant from receiving a track; there are none if the packets are forwarded.
    ///
    /// # Errors
    /// As [`Api::conference`].
    pub async fn why(
        &self,
        (conference, participant): (&Name, &Name),
        path: &TrackPath,
    ) -> Result<Why, ApiError> {
        let (publisher, track) = (&path.participant, &path.track);
        self.get(format!(
            "/v1/conferences/{conference}/participants/{participant}/why/{publisher}/{track}"
        ))
        .await
    }

    /// Opens a stream of a conference's events.
    ///
    /// # Errors
    /// As [`Api::conference`].
    pub async fn watch(&self, conference: &Name) -> Result<Watch, ApiError> {
        let url = self.to(&format!("/v1/conferences/{conference}/events"));
        let unreachable = |why: &str| self.unreachable(why);
        let bearer = self.bearer().parse();
        let bearer = bearer.map_err(|_| ApiError::BadToken("it has no line breaks".to_owned()))?;
        let connecting = async {
            let address = url.parse().map_err(|_| unreachable("it is no address"))?;
            let stream = self.http.connect(address).await;
            let stream = stream.map_err(|error| unreachable(&error.to_string()))?;
            let failed = |error: tungstenite::Error| unreachable(&error.to_string());
            let request = url.replacen("http", "ws", 1).into_client_request();
            let mut request = request.map_err(failed)?;
            request.headers_mut().insert(header::AUTHORIZATION, bearer);
            client_async(request, stream).await.map_err(failed)
        };
        let connected = timeout(LIMITS.time, connecting).await;
        let (stream, _) = connected.map_err(|_| unreachable("no answer in time"))??;
        let url = self.url.clone();
        Ok(Watch { url, stream })
    }

    fn to(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T, ApiError> {
        self.read(&self.patiently(&Call::new(Method::GET, path)).await?)
    }

    async fn put<T: DeserializeOwned>(
        &self,
        path: String,
        body: impl Serialize,
    ) -> Result<T, ApiError> {
        // The bodies consist of texts, numbers and names, so writing them as JSON cannot fail.
        let body = serde_json::to_vec(&body).unwrap_or_else(|error| unreachable!("{error}"));
        let call = Call {
            body: body.into(),
            ..Call::new(Method::PUT, path)
        };
        self.read(&self.patiently(&call).await?)
    }

    async fn delete(&self, path: String) -> Result<(), ApiError> {
        let answer = self.patiently(&Call::new(Method::DELETE, path)).await?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(self.problem(&answer))
    }

    /// Makes a call, and repeats it while the service answers that it has too many requests, but no longer than a call
    /// may take. All calls can be made twice without harm.
    async fn patiently(&self, call: &Call) -> Result<Response<Bytes>, ApiError> {
        let began = Instant::now();
        loop {
            let answer = self.call(call).await?;
            match retry_after(&answer) {
                Some(wait)
                    if answer.status() == StatusCode::TOO_MANY_REQUESTS
                        && began.elapsed() + wait <= call.limits.time =>
                {
                    sleep(wait).await;
                }
                _ => return Ok(answer),
            }
        }
    }

    async fn call(&self, call: &Call) -> Result<Response<Bytes>, ApiError> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(self.to(&call.path))
            .header(header::AUTHORIZATION, self.bearer());
        if !call.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(call.body.clone());
        let request = request.map_err(|error| self.unreachable(&error.to_string()))?;
        let answer = self.http.call(request, call.limits).await;
        answer.map_err(|error| self.unreachable(&error.to_string()))
    }

    fn read<T: DeserializeOwned>(&self, answer: &Response<Bytes>) -> Result<T, ApiError> {
        if answer.status().is_client_error() || answer.status().is_server_error() {
            return Err(self.problem(answer));
        }
        serde_json::from_slice(answer.body()).map_err(|_| self.no_service(answer.status()))
    }

    fn unreachable(&self, why: &str) -> ApiError {
        let next = if why.contains("certificate") {
            ": give the file with the certificate of the authority that signed it (--ca FILE)"
        } else {
            ""
        };
        ApiError::Unreachable {
            url: self.url.clone(),
            why: format!("{why}{next}"),
        }
    }

    fn problem(&self, answer: &Response<Bytes>) -> ApiError {
        match serde_json::from_slice(answer.body()) {
            Ok(problem) => ApiError::Refused(Box::new(problem)),
            Err(_) => self.no_service(answer.status()),
        }
    }

    fn no_service(&self, status: StatusCode) -> ApiError {
        ApiError::NoService {
            url: self.url.clone(),
            status: status.as_u16(),
        }
    }
}

/// A request, which can be made several times.
struct Call {
    method: Method,
    path: String,
    /// JSON; empty if the request has no body.
    body: Bytes,
    limits: Limits,
}

impl Call {
    fn new(method: Method, path: String) -> Call {
        Call {
            method,
            path,
            body: Bytes::new(),
            limits: LIMITS,
        }
    }
}

/// Returns how long to wait before making the request again: the value of the answer's header Retry-After. Returns
/// `None` if the answer has no such header.
fn retry_after(answer: &Response<Bytes>) -> Option<Duration> {
    let seconds = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

fn participant_path(conference: &Name, participant: &Name) -> String {
    format!("/v1/conferences/{conference}/participants/{participant}")
}

fn subscription_path((conference, participant): (&Name, &Name), path: &TrackPath) -> String {
    let participant = participant_path(conference, participant);
    format!(
        "{participant}/subscriptions/{}/{}",
        path.participant, path.track
    )
}

/// The stream of a conference's events.
pub struct Watch {
    /// The service's URL.
    url: String,
    stream: WebSocketStream<http_client::Stream>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("events")
    }
}

impl Watch {
    /// Returns the error for a stream of events that has ended.
    #[must_use]
    pub fn ended(&self) -> ApiError {
        ApiError::Unreachable {
            url: self.url.clone(),
            why: "the stream of events has ended".to_owned(),
        }
    }

    /// Waits for the next event and returns it. Returns `None` when the stream has ended, or has been quiet for too
    /// long.
    pub async fn next(&mut self) -> Option<conference_api::Event> {
        loop {
            match timeout(QUIET_MAX, self.stream.next()).await.ok()?? {
                Ok(Message::Text(text)) => match serde_json::from_str(&text) {
                    Ok(event) => return Some(event),
                    Err(error) => tracing::debug!(%error, "an event of another version"),
                },
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}
