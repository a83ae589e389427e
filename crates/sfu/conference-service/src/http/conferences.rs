//! The requests about conferences, participants, tracks and subscriptions.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::Json;
use conference_api::{
    Conference, ConferenceSpec, LeftReason, MuteSpec, MutedBy, Name, Participant, ParticipantSpec,
    Problem, SubscriptionSpec, TrackPath, TrackSpec,
};
use conference_model::Request;

use super::service::{expect_known_conference, expect_known_participant};
use super::views::{self, Legs};
use super::{App, Failure};
use crate::tokens::Caller;

/// A request's body, or why it cannot be read.
pub(super) type Body<T> = Result<Json<T>, JsonRejection>;

pub(super) fn content<T>(body: Body<T>) -> Result<T, Failure> {
    body.map(|Json(content)| content)
        .map_err(|error| Failure::of_body(&error))
}

/// Checks the names in a request's path, and returns them.
pub(super) fn names<const N: usize>(texts: Vec<String>) -> Result<[Name; N], Failure> {
    let names = texts.into_iter().map(Name::new);
    let names: Vec<Name> = names.collect::<Result<_, _>>()?;
    names.try_into().map_err(|_| Failure::no_route())
}

/// Returns a participant with its legs, as the answer to a write. Only the participant itself gets the keys of its
/// legs.
async fn own(
    app: &App,
    caller: &Caller,
    (conference, who): (&Name, &Name),
) -> Result<Json<Participant>, Failure> {
    let model = app.core.model().await;
    let record = model.participant(conference, who)?;
    let legs = if caller.participant() == Some(who) {
        Legs::WithKeys
    } else {
        Legs::Shown
    };
    let view = views::participant_of(&model, (&app.media, &app.activity()), record, legs);
    Ok(Json(view))
}

/// Checks that the caller may publish a track, for itself or as an administrator.
fn expect_publisher(caller: &Caller, conference: &Name, track: &TrackSpec) -> Result<(), Failure> {
    if caller.administers(conference) {
        return Ok(());
    }
    let kbps = track.qualities.iter().map(|it| it.max_kbps).max();
    Ok(caller.expect_publisher(track.kind, kbps.unwrap_or(0))?)
}

/// Checks that the caller may receive tracks, or make others receive them as an administrator.
fn expect_subscriber(caller: &Caller, conference: &Name) -> Result<(), Failure> {
    if caller.administers(conference) {
        return Ok(());
    }
    Ok(caller.expect_subscriber()?)
}

/// Lists the conferences that the token is for.
#[utoipa::path(
    get,
    path = "/v1/conferences",
    tag = "conferences",
    security(("token" = [])),
    responses(
        (status = 200, description = "Conferences by name", body = Vec<Conference>),
        (status = 401, description = "No good token", body = Problem),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<Vec<Conference>>, Failure> {
    let model = app.core.model().await;
    let all = model.conferences().map(|(name, _)| name);
    let its = all.filter(|name| caller.expect_in(name).is_ok());
    let shown = (&*app.media, &*app.activity());
    let views = its.map(|name| views::conference(&model, shown, name, &caller));
    Ok(Json(views.collect::<Result<_, _>>()?))
}

/// Makes a conference, or changes its title.
#[utoipa::path(
    put,
    path = "/v1/conferences/{conference}",
    tag = "conferences",
    security(("token" = [])),
    params(("conference" = Name, Path, description = "The conference")),
    request_body = ConferenceSpec,
    responses(
        (status = 200, description = "The conference", body = Conference),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 422, description = "The request asks for what cannot be", body = Problem),
        (status = 507, description = "No room", body = Problem),
    )
)]
pub(super) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
    body: Body<ConferenceSpec>,
) -> Result<Json<Conference>, Failure> {
    let [conference] = names(texts)?;
    caller.expect_administrator(&conference)?;
    expect_known_conference(&app, &*app.core.model().await, &conference)?;
    let spec = content(body)?;
    let request = Request::PutConference {
        conference: conference.clone(),
        spec,
    };
    app.core.carry_out(request).await?;
    let model = app.core.model().await;
    Ok(Json(views::conference(
        &model,
        (&app.media, &app.activity()),
        &conference,
        &caller,
    )?))
}

/// Returns a conference with everybody in it.
#[utoipa::path(
    get,
    path = "/v1/conferences/{conference}",
    tag = "conferences",
    security(("token" = [])),
    params(("conference" = Name, Path, description = "The conference")),
    responses(
        (status = 200, description = "The conference", body = Conference),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
    )
)]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
) -> Result<Json<Conference>, Failure> {
    let [conference] = names(texts)?;
    caller.expect_in(&conference)?;
    let model = app.core.model().await;
    Ok(Json(views::conference(
        &model,
        (&app.media, &app.activity()),
        &conference,
        &caller,
    )?))
}

/// Ends a conference, with everybody in it.
#[utoipa::path(
    delete,
    path = "/v1/conferences/{conference}",
    tag = "conferences",
    security(("token" = [])),
    params(("conference" = Name, Path, description = "The conference")),
    responses(
        (status = 200, description = "It has ended"),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
    )
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
) -> Result<(), Failure> {
    let [conference] = names(texts)?;
    caller.expect_administrator(&conference)?;
    Ok(app
        .core
        .carry_out(Request::DeleteConference { conference })
        .await?)
}

/// Joins a conference, and makes the tracks and subscriptions of the request. A participant who is there already may
/// change its display name, and stays until the new token expires, if that is later.
#[utoipa::path(
    put,
    path = "/v1/conferences/{conference}/participants/{participant}",
    tag = "participants",
    security(("token" = [])),
    params(
        ("conference" = Name, Path, description = "The conference"),
        ("participant" = Name, Path, description = "The participant"),
    ),
    request_body = ParticipantSpec,
    responses(
        (status = 200, description = "The participant, with its legs and their keys", body = Participant),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
        (status = 422, description = "The request asks for what cannot be", body = Problem),
        (status = 507, description = "No room", body = Problem),
    )
)]
pub(super) async fn put_participant(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
    body: Body<ParticipantSpec>,
) -> Result<Json<Participant>, Failure> {
    let [conference, participant] = names(texts)?;
    caller.expect_participant(&conference, &participant)?;
    expect_known_participant(&app, &*app.core.model().await, &conference, &participant)?;
    let spec = content(body)?;
    for track in spec.tracks.values() {
        expect_publisher(&caller, &conference, track)?;
    }
    if !spec.subscriptions.is_empty() {
        expect_subscriber(&caller, &conference)?;
    }
    let request = Request::PutParticipant {
        conference: conference.clone(),
        participant: participant.clone(),
        spec,
        expires_ms: caller.expires_ms(),
    };
    app.core.carry_out(request).await?;
    own(&app, &caller, (&conference, &participant)).await
}

/// Returns a participant; with its legs for itself and administrators.
#[utoipa::path(
    get,
    path = "/v1/conferences/{conference}/participants/{participant}",
    tag = "participants",
    security(("token" = [])),
    params(
        ("conference" = Name, Path, description = "The conference"),
        ("participant" = Name, Path, description = "The participant"),
    ),
    responses(
        (status = 200, description = "The participant; with its legs for itself and administrators", body = Participant),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
    )
)]
pub(super) async fn get_participant(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
) -> Result<Json<Participant>, Failure> {
    let [conference, participant] = names(texts)?;
    caller.expect_in(&conference)?;
    let legs = if caller.expect_participant(&conference, &participant).is_ok() {
        Legs::Shown
    } else {
        Legs::Hidden
    };
    let model = app.core.model().await;
    let record = model.participant(&conference, &participant)?;
    Ok(Json(views::participant_of(
        &model,
        (&app.media, &app.activity()),
        record,
        legs,
    )))
}

/// Leaves a conference, or removes a participant from it.
#[utoipa::path(
    delete,
    path = "/v1/conferences/{conference}/participants/{participant}",
    tag = "participants",
    security(("token" = [])),
    params(
        ("conference" = Name, Path, description = "The conference"),
        ("participant" = Name, Path, description = "The participant"),
    ),
    responses(
        (status = 200, description = "The participant has left"),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
    )
)]
pub(super) async fn delete_participant(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
) -> Result<(), Failure> {
    let [conference, participant] = names(texts)?;
    caller.expect_participant(&conference, &participant)?;
    let is_own = caller.participant() == Some(&participant);
    let request = Request::DeleteParticipant {
        conference,
        participant,
        reason: if is_own {
            LeftReason::Left
        } else {
            LeftReason::Removed
        },
    };
    Ok(app.core.carry_out(request).await?)
}

/// Publishes a track, or changes it.
#[utoipa::path(
    put,
    path = "/v1/conferences/{conference}/participants/{participant}/tracks/{track}",
    tag = "tracks",
    security(("token" = [])),
    params(
        ("conference" = Name, Path, description = "The conference"),
        ("participant" = Name, Path, description = "The participant who publishes"),
        ("track" = Name, Path, description = "The track"),
    ),
    request_body = TrackSpec,
    responses(
        (status = 200, description = "The participant, with its legs and their keys", body = Participant),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
        (status = 422, description = "The request asks for what cannot be", body = Problem),
        (status = 507, description = "No room", body = Problem),
    )
)]
pub(super) async fn put_track(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
    body: Body<TrackSpec>,
) -> Result<Json<Participant>, Failure> {
    let [conference, participant, track] = names(texts)?;
    caller.expect_participant(&conference, &participant)?;
    let spec = content(body)?;
    expect_publisher(&caller, &conference, &spec)?;
    let path = TrackPath {
        participant: participant.clone(),
        track,
    };
    let request = Request::PutTrack {
        conference: conference.clone(),
        path,
        spec,
    };
    app.core.carry_out(request).await?;
    own(&app, &caller, (&conference, &participant)).await
}

/// Ends a track. Subscriptions to it stay: if it is published again, its subscribers receive it again.
#[utoipa::path(
    delete,
    path = "/v1/conferences/{conference}/participants/{participant}/tracks/{track}",
    tag = "tracks",
    security(("token" = [])),
    params(
        ("conference" = Name, Path, description = "The conference"),
        ("participant" = Name, Path, description = "The participant who publishes"),
        ("track" = Name, Path, description = "The track"),
    ),
    responses(
        (status = 200, description = "The track has ended"),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
    )
)]
pub(super) async fn delete_track(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
) -> Result<(), Failure> {
    let [conference, participant, track] = names(texts)?;
    caller.expect_participant(&conference, &participant)?;
    let path = TrackPath { participant, track };
    Ok(app
        .core
        .carry_out(Request::DeleteTrack { conference, path })
        .await?)
}

/// Mutes or unmutes a track. If an administrator has muted it, only an administrator unmutes it.
#[utoipa::path(
    put,
    path = "/v1/conferences/{conference}/participants/{participant}/tracks/{track}/mute",
    tag = "tracks",
    security(("token" = [])),
    params(
        ("conference" = Name, Path, description = "The conference"),
        ("participant" = Name, Path, description = "The participant who publishes"),
        ("track" = Name, Path, description = "The track"),
    ),
    request_body = MuteSpec,
    responses(
        (status = 200, description = "It is so"),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
    )
)]
pub(super) async fn mute(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
    body: Body<MuteSpec>,
) -> Result<(), Failure> {
    let [conference, participant, track] = names(texts)?;
    caller.expect_participant(&conference, &participant)?;
    let is_own = caller.participant() == Some(&participant);
    let request = Request::Mute {
        conference,
        path: TrackPath { participant, track },
        muted: content(body)?.muted,
        by: if is_own {
            MutedBy::Publisher
        } else {
            MutedBy::Administrator
        },
    };
    Ok(app.core.carry_out(request).await?)
}

/// Subscribes a participant to a track, or changes the quality or the leg of its subscription.
#[utoipa::path(
    put,
    path = "/v1/conferences/{conference}/participants/{participant}/subscriptions/{publisher}/{track}",
    tag = "subscriptions",
    security(("token" = [])),
    params(
        ("conference" = Name, Path, description = "The conference"),
        ("participant" = Name, Path, description = "The participant who receives"),
        ("publisher" = Name, Path, description = "The participant who publishes"),
        ("track" = Name, Path, description = "The track"),
    ),
    request_body = SubscriptionSpec,
    responses(
        (status = 200, description = "The participant, with its legs and their keys", body = Participant),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
        (status = 422, description = "The request asks for what cannot be", body = Problem),
        (status = 507, description = "No room", body = Problem),
    )
)]
pub(super) async fn put_subscription(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
    body: Body<SubscriptionSpec>,
) -> Result<Json<Participant>, Failure> {
    let [conference, participant, publisher, track] = names(texts)?;
    caller.expect_participant(&conference, &participant)?;
    expect_subscriber(&caller, &conference)?;
    let path = TrackPath {
        participant: publisher,
        track,
    };
    let request = Request::PutSubscription {
        conference: conference.clone(),
        participant: participant.clone(),
        path,
        spec: content(body)?,
    };
    app.core.carry_out(request).await?;
    own(&app, &caller, (&conference, &participant)).await
}

/// Ends a participant's subscription to a track.
#[utoipa::path(
    delete,
    path = "/v1/conferences/{conference}/participants/{participant}/subscriptions/{publisher}/{track}",
    tag = "subscriptions",
    security(("token" = [])),
    params(
        ("conference" = Name, Path, description = "The conference"),
        ("participant" = Name, Path, description = "The participant who received"),
        ("publisher" = Name, Path, description = "The participant who publishes"),
        ("track" = Name, Path, description = "The track"),
    ),
    responses(
        (status = 200, description = "It is received no longer"),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "Not found", body = Problem),
    )
)]
pub(super) async fn delete_subscription(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
) -> Result<(), Failure> {
    let [conference, participant, publisher, track] = names(texts)?;
    caller.expect_participant(&conference, &participant)?;
    let path = TrackPath {
        participant: publisher,
        track,
    };
    let request = Request::DeleteSubscription {
        conference,
        participant,
        path,
    };
    Ok(app.core.carry_out(request).await?)
}
