//! The HTTP interface. `docs/join.md` shows it to people; GET /openapi.json describes it to programs.

mod conferences;
mod connections;
mod description;
mod encrypted;
mod events;
mod failure;
mod front;
mod measured;
mod page;
mod service;
mod views;
mod why;

use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::response::Json;
use axum::routing::get;
use conference_api::Media;
use tokio::sync::watch;
use tokio::time::Instant;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::activity::Activity;
use crate::core::Core;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::presence::Presence;
use crate::tokens::{Caller, NotAllowed};

use description::description;

pub use connections::{Connections, Peer};
pub use failure::Failure;
pub use front::{Front, Leading};

/// The most bytes of a request's body. A join with the most tracks and subscriptions, the longest names and the longest
/// session descriptions has some 230,000, if JSON escapes few of their characters.
const BODY_MAX: usize = 256 * 1024;

/// What the service needs to serve requests.
#[derive(Clone, Debug)]
pub struct App {
    /// The conferences.
    pub core: Core,
    /// The keys that verify tokens, and what else may change while the service runs.
    pub live: Live,
    /// Where hosts send media.
    pub media: Arc<Media>,
    /// What the switch has counted.
    pub activity: watch::Receiver<Arc<Activity>>,
    /// Signs that participants are still there.
    pub presence: Presence,
    /// Counters for Prometheus.
    pub metrics: Arc<Metrics>,
    /// Whether metrics name conferences and participants.
    pub metrics_names: bool,
}

impl App {
    /// Returns what the switch has counted until now.
    pub(super) fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.activity.borrow())
    }
}

/// Returns the routes that the OpenAPI description contains.
fn described() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(conferences::list))
        .routes(routes!(
            conferences::put,
            conferences::get,
            conferences::delete
        ))
        .routes(routes!(
            conferences::put_participant,
            conferences::get_participant,
            conferences::delete_participant
        ))
        .routes(routes!(conferences::put_track, conferences::delete_track))
        .routes(routes!(conferences::mute))
        .routes(routes!(
            conferences::put_subscription,
            conferences::delete_subscription
        ))
        .routes(routes!(why::get))
        .routes(routes!(events::stream))
        .routes(routes!(service::get_drain, service::put_drain))
        .routes(routes!(service::get_backup))
        .routes(routes!(service::get_switch))
}

fn routes(app: App, description: &OpenApi) -> Router {
    let text = Arc::new(description.clone());
    let (router, _) = described().split_for_parts();
    router
        .route(
            "/openapi.json",
            get(move || async move { Json((*text).clone()) }),
        )
        .route("/", get(page::index))
        .route("/page.css", get(page::style))
        .route("/page.js", get(page::script))
        .fallback(|| async { Failure::no_route() })
        .method_not_allowed_fallback(|| async { Failure::wrong_method() })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn_with_state(
            Arc::clone(&app.metrics),
            measured::measure,
        ))
        .with_state(app)
}

impl FromRequestParts<App> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Caller, Failure> {
        let (now, limits) = (app.live.get(), app.live.limits());
        let source = parts.extensions.get::<ConnectInfo<Peer>>();
        let source = source.map(|ConnectInfo(peer)| peer.source());
        let checked = token_of(&parts.headers).and_then(|token| now.keys.check(token));
        match (&checked, source) {
            (Err(_), Some(source)) => limits.bad_token(now.limits, source)?,
            (Ok(caller), _) => {
                if let (Some(conference), Some(participant)) =
                    (caller.conference(), caller.participant())
                {
                    limits.participant(now.limits, conference, participant)?;
                    app.presence
                        .request(conference, participant, Instant::now());
                }
            }
            (Err(_), None) => {}
        }
        Ok(checked?)
    }
}

/// Returns the token of a request. It comes in the header Authorization (RFC 6750). Since browsers cannot set this
/// header for a WebSocket, the token may also be the second of the subprotocols `bearer, TOKEN`.
fn token_of(headers: &HeaderMap) -> Result<&str, NotAllowed> {
    let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    if let Some(text) = header("authorization") {
        let token = text
            .strip_prefix("Bearer ")
            .or_else(|| text.strip_prefix("bearer "));
        return token.map(str::trim).ok_or(NotAllowed::NoToken);
    }
    let protocols = header("sec-websocket-protocol").and_then(|it| it.strip_prefix("bearer,"));
    protocols.map(str::trim).ok_or(NotAllowed::NoToken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The copy of the description in the repository, for readers who run no service.
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/openapi.json");

    #[test]
    fn the_description_in_the_repository_is_the_services_own() {
        let own = description().to_pretty_json().expect("JSON") + "\n";
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(FILE, &own).expect("written");
        }
        let there = std::fs::read_to_string(FILE).expect("a file");
        assert!(there == own, "UPDATE_EXPECT=1 writes {FILE} anew");
    }
}
