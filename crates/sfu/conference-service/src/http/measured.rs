//! Counts requests, and serves the counts.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::front::Front;
use crate::metrics::{Metrics, State as MetricsState, of_legs};

/// The route under which requests for unknown paths are counted.
pub(super) const NO_ROUTE: &str = "none";

/// Counts a request by the template of its route.
pub(super) async fn measure(
    State(metrics): State<Arc<Metrics>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    metrics.request(&method, route, response.status().as_u16(), began.elapsed());
    response
}

/// Serves the metrics to anybody. They contain only numbers, and the names of conferences and participants if the
/// configuration asks for them.
pub(super) async fn metrics(State(front): State<Front>) -> Response {
    let leading = front.leading();
    let more = match &leading {
        Some(leading) if leading.app().metrics_names => {
            let activity = leading.app().activity();
            let model = leading.app().core.model().await;
            of_legs(&model, &activity)
        }
        _ => Vec::new(),
    };
    let state = MetricsState {
        is_leader: leading.is_some(),
        is_whole: leading
            .as_ref()
            .is_some_and(|it| it.app().core.is_switch_whole()),
        is_draining: front.live().is_draining(),
        certificate_expiry_s: front
            .live()
            .get()
            .tls
            .as_ref()
            .map(|it| it.expiry().as_secs()),
    };
    let text = front.metrics().text(state, more);
    ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response()
}
