//! The service itself: drain, backup, and what the switch has counted, for administrators of all conferences.

use std::convert::Infallible;

use axum::body::Body as Content;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Json};
use conference_api::{Drain, Name, Problem, SwitchCounts};
use conference_model::Model;

use super::conferences::{Body, content};
use super::{App, Failure};
use crate::backup;
use crate::core::now_ms;
use crate::counts;
use crate::tokens::Caller;

/// Returns whether the service drains, that is, takes no new conferences and participants.
#[utoipa::path(
    get,
    path = "/v1/drain",
    tag = "service",
    security(("token" = [])),
    responses(
        (status = 200, description = "Whether it drains", body = Drain),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
    )
)]
pub(super) async fn get_drain(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<Drain>, Failure> {
    caller.expect_administrator_of_all()?;
    let draining = app.live.is_draining();
    Ok(Json(Drain { draining }))
}

/// Begins or ends a drain: a service that drains takes no new conferences and participants. It also ends with the
/// service's process.
#[utoipa::path(
    put,
    path = "/v1/drain",
    tag = "service",
    security(("token" = [])),
    request_body = Drain,
    responses(
        (status = 200, description = "It is so", body = Drain),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 422, description = "The request asks for what cannot be", body = Problem),
    )
)]
pub(super) async fn put_drain(
    State(app): State<App>,
    caller: Caller,
    body: Body<Drain>,
) -> Result<Json<Drain>, Failure> {
    caller.expect_administrator_of_all()?;
    let drain = content(body)?;
    app.live.set_draining(drain.draining);
    Ok(Json(drain))
}

/// What the switch has counted of all conferences: delays and drops.
#[utoipa::path(
    get,
    path = "/v1/switch",
    tag = "service",
    security(("token" = [])),
    responses(
        (status = 200, description = "What it has counted until its last reading; the switch is read every second while `connected`", body = SwitchCounts),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
    )
)]
pub(super) async fn get_switch(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<SwitchCounts>, Failure> {
    caller.expect_administrator_of_all()?;
    Ok(Json(counts::of_switch(&app.media.switch, &app.activity())))
}

/// Refuses a new conference while the service drains.
pub(super) fn expect_known_conference(
    app: &App,
    model: &Model,
    conference: &Name,
) -> Result<(), Failure> {
    if app.live.is_draining() && model.conference(conference).is_err() {
        return Err(Failure::draining());
    }
    Ok(())
}

/// Refuses a new participant while the service drains.
pub(super) fn expect_known_participant(
    app: &App,
    model: &Model,
    conference: &Name,
    participant: &Name,
) -> Result<(), Failure> {
    if app.live.is_draining() && model.participant(conference, participant).is_err() {
        return Err(Failure::draining());
    }
    Ok(())
}

/// Returns all records at one moment, for `reprise restore`. They are secret: they contain the keys with which hosts sign
/// their sockets in.
#[utoipa::path(
    get,
    path = "/v1/backup",
    tag = "service",
    security(("token" = [])),
    responses(
        (status = 200, description = "A line of JSON that says how many records follow, and a line for each",
            body = String, content_type = "application/x-ndjson"),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
    )
)]
pub(super) async fn get_backup(
    State(app): State<App>,
    caller: Caller,
) -> Result<impl IntoResponse + use<>, Failure> {
    caller.expect_administrator_of_all()?;
    let lines = backup::lines(&*app.core.model().await, now_ms());
    let pieces = lines.into_iter().map(|mut line| {
        line.push('\n');
        Ok::<_, Infallible>(line)
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Content::from_stream(tokio_stream::iter(pieces))))
}
