//! The stream of a conference's events.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{ConnectInfo, Path, State};
use axum::response::Response;
use conference_api::{Event, EventKind, Name, Problem};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::{App, Failure, Peer};
use crate::core::now_ms;
use crate::tokens::Caller;

/// How often a quiet stream sends a ping, so that nothing on the way to the reader ends it for being idle.
const PING: Duration = Duration::from_secs(15);
/// A reader that takes nothing for this long is cut off.
const SEND: Duration = Duration::from_secs(10);

/// Streams a conference's events over a WebSocket (RFC 6455), each as a text message.
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
    upgrade: WebSocketUpgrade,
) -> Result<Response, Failure> {
    let conference = Name::new(conference)?;
    caller.expect_in(&conference)?;
    app.core.model().await.conference(&conference)?;
    let upgrade = upgrade.protocols(["bearer"]).max_message_size(4_096);
    Ok(upgrade.on_upgrade(async move |socket| {
        let _call = peer.begin_call();
        let _open = app.metrics.websocket();
        let _present = app
            .presence
            .stream(&conference, participant_in(&caller, &conference));
        send_events(app, caller, conference, socket).await;
    }))
}

async fn send_events(app: App, caller: Caller, conference: Name, mut socket: WebSocket) {
    let mut events = app.core.events();
    let left_ms = caller.expires_ms().saturating_sub(now_ms());
    let end = sleep_until(Instant::now() + Duration::from_millis(left_ms));
    tokio::pin!(end);
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reason = loop {
        let message = tokio::select! {
            () = &mut end => break "the token has expired",
            () = app.core.ended() => break "the service ends, or another one leads",
            _ = pings.tick() => Message::Ping(Vec::new().into()),
            received = socket.recv() => match received {
                // A reader can only close the stream. It asks nothing over the stream, so its other messages are
                // ignored.
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            event = events.recv() => match event {
                Ok(event) if !is_for(&event, &conference, &caller) => continue,
                Ok(event) => {
                    let is_last = event.kind == EventKind::ConferenceEnded;
                    let message = text_of(&event);
                    if is_last {
                        let _ = timeout(SEND, socket.send(message)).await;
                        break "the conference has ended";
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
                Err(RecvError::Closed) => break "the service ends",
            },
        };
        if !matches!(timeout(SEND, socket.send(message)).await, Ok(Ok(()))) {
            return;
        }
    };
    let close = CloseFrame {
        code: close_code::NORMAL,
        reason: reason.into(),
    };
    let _ = timeout(SEND, socket.send(Message::Close(Some(close)))).await;
}

/// Returns which participant of this conference the caller is. An administrator of all conferences may also be a
/// participant.
fn participant_in<'c>(caller: &'c Caller, conference: &Name) -> Option<&'c Name> {
    caller
        .participant()
        .filter(|_| caller.conference() == Some(conference))
}

fn text_of(event: &Event) -> Message {
    // An event has only texts, numbers and names, which JSON can express.
    let text = serde_json::to_string(event).unwrap_or_else(|_| unreachable!());
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
