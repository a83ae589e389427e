//! Why a participant receives a track or not.

use axum::extract::{Path, State};
use axum::response::Json;
use conference_api::{Name, Problem, TrackPath, Why};

use super::conferences::names;
use super::{App, Failure};
use crate::core::now_ms;
use crate::tokens::Caller;
use crate::why::{Question, why};

/// Tells what stands between a publisher and a participant, with what the switch has counted at both. There need be neither
/// a subscription nor a track.
#[utoipa::path(
    get,
    path = "/v1/conferences/{conference}/participants/{participant}/why/{publisher}/{track}",
    tag = "subscriptions",
    security(("token" = [])),
    params(
        ("conference" = Name, Path, description = "The conference"),
        ("participant" = Name, Path, description = "The participant who should receive"),
        ("publisher" = Name, Path, description = "The participant who should publish"),
        ("track" = Name, Path, description = "The track"),
    ),
    responses(
        (status = 200, description = "What stands between", body = Why),
        (status = 401, description = "No good token", body = Problem),
        (status = 403, description = "Not allowed", body = Problem),
        (status = 404, description = "No such conference, or nobody in it who should receive", body = Problem),
    )
)]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(texts): Path<Vec<String>>,
) -> Result<Json<Why>, Failure> {
    let [conference, participant, publisher, track] = names(texts)?;
    caller.expect_participant(&conference, &participant)?;
    let path = TrackPath {
        participant: publisher,
        track,
    };
    let activity = app.activity();
    let model = app.core.model().await;
    model.participant(&conference, &participant)?;
    let question = Question {
        conference: &conference,
        participant: &participant,
        path: &path,
    };
    Ok(Json(why(&model, &activity, now_ms(), question)))
}
