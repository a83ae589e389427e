//! Answers requests about the service's health and metrics at any time, and all other requests while the service leads.
//! Of the services that share a store, one leads.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::watch;
use tower_service::Service;

use super::connections::count;
use super::measured::{self, NO_ROUTE};
use super::{App, Failure, Peer, description, failure, routes};
use crate::live::Live;
use crate::metrics::Metrics;

/// The state and the routes of a service that leads.
#[derive(Clone, Debug)]
pub struct Leading {
    app: App,
    routes: Router,
}

impl Leading {
    /// Makes the routes that a leading service serves.
    #[must_use]
    pub fn new(app: App) -> Leading {
        let routes = routes(app.clone(), &description());
        Leading { app, routes }
    }
}

impl Leading {
    pub(super) fn app(&self) -> &App {
        &self.app
    }
}

/// The HTTP interface of a service that leads, or that waits until it may lead.
#[derive(Clone, Debug)]
pub struct Front {
    leading: watch::Receiver<Option<Leading>>,
    metrics: Arc<Metrics>,
    live: Live,
}

impl Front {
    /// Makes the routes. A request goes to the service that `leading` has when the request comes.
    pub fn routes(
        leading: watch::Receiver<Option<Leading>>,
        live: Live,
        metrics: Arc<Metrics>,
    ) -> Router {
        Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readiness))
            .route("/metrics", get(measured::metrics))
            .fallback(pass_on)
            .layer(axum::middleware::from_fn(count))
            .with_state(Front {
                leading,
                live,
                metrics,
            })
    }

    /// Answers a request of a peer, if this service leads and the peer makes no more requests than it may.
    pub(super) async fn pass_on(&self, peer: &Peer, mut request: Request) -> Response {
        let limits = self.live.get().limits;
        let failure = match self.live.limits().request(limits, peer.source()) {
            Err(why) => Failure::from(why),
            Ok(()) => match self.leading() {
                Some(mut leading) => {
                    // The handler of an event stream uses this `Front` for the requests that come over the stream.
                    request.extensions_mut().insert(self.clone());
                    let Ok(response) = leading.routes.call(request).await;
                    return failure::as_problem(response).await;
                }
                None => Failure::unavailable(
                    "this service stands by: ask the one that leads, or try again in a second"
                        .to_owned(),
                ),
            },
        };
        let response = failure.into_response();
        let status = response.status().as_u16();
        let metrics = &self.metrics;
        metrics.request(request.method(), NO_ROUTE, status, Duration::ZERO);
        response
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    pub(super) fn leading(&self) -> Option<Leading> {
        self.leading.borrow().clone()
    }
}

/// Whether the service leads and takes new participants, the store answers, and the switch has what the conferences
/// need.
async fn readiness(State(front): State<Front>) -> Response {
    let why = match front.leading() {
        None => {
            "this service stands by: another one leads, or the store does not answer".to_owned()
        }
        Some(_) if front.live.is_draining() => {
            "draining: no new conferences and participants".to_owned()
        }
        Some(leading) => match leading.app.core.store().check().await {
            Err(error) => format!("the store: {error}"),
            Ok(()) if !leading.app.core.is_switch_whole() => {
                "the switch is away, or does not yet have what the conferences need".to_owned()
            }
            Ok(()) => return "ready\n".into_response(),
        },
    };
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}

async fn pass_on(
    State(front): State<Front>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    front.pass_on(&peer, request).await
}
