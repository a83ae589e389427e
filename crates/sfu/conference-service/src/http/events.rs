//! The stream of a conference's events. A client may also make requests over it.

use std::pin::Pin;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use conference_api::{Event, EventKind, Name, Problem, StreamAnswer, StreamMethod, StreamRequest};
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::front::Front;
use super::{App, BODY_MAX, Failure, Peer, token_of};
use crate::core::now_ms;
use crate::tokens::Caller;

/// How often a quiet stream sends a ping, so that nothing on the way to the reader ends it for being idle.
const PING: Duration = Duration::from_secs(15);
/// A reader that takes nothing for this long is cut off.
const SEND: Duration = Duration::from_secs(10);
/// The most bytes of a close frame's reason (RFC 6455, section 5.5: a control frame has 125, two are the code).
const CLOSE_REASON_MAX: usize = 123;
/// The most bytes of a message: the largest body of a request, and the message's other fields.
const MESSAGE_MAX: usize = BODY_MAX + 4_096;

/// Streams a conference's events over a WebSocket (RFC 6455), each as a text message. A text message of the client is a
/// request, `StreamRequest`; its answer is a `StreamAnswer`.
#[utoipa::path(
    get,
    path = "/v1/conferences/{conference}/events",
    tag = "events",
    security(("token" = [])),
    params(("conference" = Name, Path, description = "The conference")),
    responses(
        (status = 101, description = "Text messages with an event each, until the token ends", body = Event),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
    )
)]
pub(super) async fn stream(
    State(app): State<App>,
    caller: Caller,
    Path(conference): Path<String>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Extension(front): Extension<Front>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Failure> {
    let conference = Name::new(conference)?;
    caller.expect_in(&conference)?;
    app.core.model().await.conference(&conference)?;
    let client = Client {
        conference: conference.clone(),
        token: token_of(&headers)?.to_owned(),
        peer: peer.clone(),
        front,
    };
    let upgrade = upgrade
        .protocols(["bearer"])
        .max_message_size(MESSAGE_MAX)
        .max_frame_size(MESSAGE_MAX);
    Ok(upgrade.on_upgrade(async move |socket| {
        let _call = peer.begin_call();
        let _open = app.metrics.websocket();
        let _present = app
            .presence
            .stream(&conference, participant_in(&caller, &conference));
        send_events(app, caller, &client, socket).await;
    }))
}

/// Who reads a stream, and makes requests over it.
#[derive(Clone)]
struct Client {
    conference: Name,
    token: String,
    peer: Peer,
    front: Front,
}

impl Client {
    /// Answers a message. A request in the message is handled as if it had come over HTTP, with the same permissions,
    /// limits and counters.
    async fn answer(self, message: Message) -> Message {
        let request = match &message {
            Message::Text(text) => serde_json::from_str::<StreamRequest>(text)
                .map_err(|error| format!("no request: {error}")),
            _ => Err("expected a request as a text message, found a binary one".to_owned()),
        };
        let (number, response) = match request {
            Ok(asked) => (Some(asked.request), self.asked(&asked).await),
            Err(why) => (None, Failure::invalid(why).into_response()),
        };
        let status = response.status().as_u16();
        // The response comes from this service, so its body has an end and can be read without an error.
        let bytes = to_bytes(response.into_body(), usize::MAX).await;
        let bytes = bytes.unwrap_or_default();
        let body = (!bytes.is_empty()).then(|| {
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into())
        });
        text_of(&StreamAnswer {
            answer: number,
            status,
            body,
        })
    }

    async fn asked(&self, asked: &StreamRequest) -> Response {
        let conference = format!("/v1/conferences/{}", self.conference);
        let address = match asked.path.as_str() {
            "" => conference,
            path => format!("{conference}/{path}"),
        };
        let method = match asked.method {
            StreamMethod::Get => "GET",
            StreamMethod::Put => "PUT",
            StreamMethod::Delete => "DELETE",
        };
        // The text as it came: whoever handles the request refuses a name that comes twice.
        let body = asked.body.as_ref().map(|it| it.get().to_owned());
        let request = Request::builder()
            .method(method)
            .uri(address)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .extension(ConnectInfo(self.peer.clone()))
            .body(body.map_or_else(Body::empty, Body::from));
        match request {
            Ok(request) => self.front.pass_on(&self.peer, request).await,
            Err(error) => Failure::invalid(format!("path: {error}")).into_response(),
        }
    }
}

async fn send_events(app: App, caller: Caller, client: &Client, mut socket: WebSocket) {
    let conference = &client.conference;
    let mut events = app.core.events();
    let left_ms = caller.expires_ms().saturating_sub(now_ms());
    let end = sleep_until(Instant::now() + Duration::from_millis(left_ms));
    tokio::pin!(end);
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The future of the answer to the current request. The loop reads the next message only after this answer.
    let mut answer: Option<Pin<Box<dyn Future<Output = Message> + Send>>> = None;
    let close = loop {
        let message = tokio::select! {
            message = async { Some(answer.as_mut()?.await) }, if answer.is_some() => {
                answer = None;
                let Some(message) = message else { continue };
                message
            }
            () = &mut end => break normal("the token has expired"),
            () = app.core.ended() => break normal("the service ends, or another one leads"),
            _ = pings.tick() => Message::Ping(Vec::new().into()),
            received = socket.recv(), if answer.is_none() => match received {
                Some(Ok(Message::Close(_))) | None => return,
                Some(Err(error)) => break protocol_error(&error),
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    answer = Some(Box::pin(client.clone().answer(message)));
                    continue;
                }
                Some(Ok(_)) => continue,
            },
            event = events.recv() => match event {
                Ok(event) if !is_for(&event, conference, &caller) => continue,
                Ok(event) => {
                    let is_last = event.kind == EventKind::ConferenceEnded;
                    let message = text_of(&*event);
                    if is_last {
                        let _ = timeout(SEND, socket.send(message)).await;
                        break normal("the conference has ended");
                    }
                    message
                }
                Err(RecvError::Lagged(n)) => {
                    app.metrics.events_lost(n);
                    text_of(&Event {
                        number: 0,
                        time_ms: now_ms(),
                        conference: conference.clone(),
                        kind: EventKind::Lost,
                    })
                }
                Err(RecvError::Closed) => break normal("the service ends"),
            },
        };
        if !matches!(timeout(SEND, socket.send(message)).await, Ok(Ok(()))) {
            return;
        }
    };
    // The current request may itself have ended the stream, for example by ending the conference. The client gets its
    // answer all the same.
    if let Some(answer) = answer
        && let Ok(message) = timeout(SEND, answer).await
    {
        let _ = timeout(SEND, socket.send(message)).await;
    }
    let _ = timeout(SEND, socket.send(Message::Close(Some(close)))).await;
}

fn normal(reason: &'static str) -> CloseFrame {
    CloseFrame {
        code: close_code::NORMAL,
        reason: reason.into(),
    }
}

/// Returns the close frame for what is no WebSocket message, or a too long one (RFC 6455, section 7.1.7). If the
/// connection has failed, the frame cannot be sent.
fn protocol_error(error: &axum::Error) -> CloseFrame {
    let reason = error.to_string();
    CloseFrame {
        code: close_code::PROTOCOL,
        reason: reason[..reason.floor_char_boundary(CLOSE_REASON_MAX)].into(),
    }
}

/// Returns which participant of this conference the caller is. An administrator of all conferences may also be a
/// participant.
fn participant_in<'c>(caller: &'c Caller, conference: &Name) -> Option<&'c Name> {
    caller
        .participant()
        .filter(|_| caller.conference() == Some(conference))
}

fn text_of(message: &impl Serialize) -> Message {
    // Messages have only texts, numbers and names, which JSON can express.
    let text = serde_json::to_string(message).unwrap_or_else(|_| unreachable!());
    Message::Text(Utf8Bytes::from(text))
}

/// Whether a caller gets an event: a participant must not learn the addresses of others.
fn is_for(event: &Event, conference: &Name, caller: &Caller) -> bool {
    if event.conference != *conference {
        return false;
    }
    match &event.kind {
        EventKind::SignedIn { participant, .. }
        | EventKind::SignedOut { participant, .. }
        | EventKind::WhyNot { participant, .. } => {
            caller.participant() == Some(participant) || caller.administers(conference)
        }
        _ => true,
    }
}
