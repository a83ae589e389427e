//! Logs what happens in conferences, for people who search the log by conference or participant. There can be as many
//! subscriptions as the square of the number of participants, so subscriptions are logged on level DEBUG.

use std::sync::Arc;

use conference_api::{Event, EventKind, TrackPath};
use tokio::sync::broadcast::error::RecvError;

use crate::core::Core;

/// Logs events until the service ends.
pub async fn run(core: Core) {
    let mut events = core.events();
    loop {
        match events.recv().await {
            Ok(event) => log(&event),
            Err(RecvError::Lagged(n_events)) => {
                tracing::warn!(n_events, "events were not logged: there were too many");
            }
            Err(RecvError::Closed) => return,
        }
    }
}

fn log(event: &Arc<Event>) {
    let (conference, number) = (event.conference.as_str(), event.number);
    let what = event.kind.name();
    match &event.kind {
        EventKind::Joined { participant } => {
            tracing::info!(conference, %participant, number, "{what}");
        }
        EventKind::Left {
            participant,
            reason,
        } => {
            tracing::info!(conference, %participant, ?reason, number, "{what}");
        }
        EventKind::TrackAdded { path } | EventKind::TrackRemoved { path } => {
            let TrackPath { participant, track } = path;
            tracing::info!(conference, %participant, %track, number, "{what}");
        }
        EventKind::Muted { path, muted_by } => {
            let TrackPath { participant, track } = path;
            tracing::info!(conference, %participant, %track, ?muted_by, number, "{what}");
        }
        EventKind::SignedIn {
            participant,
            leg,
            route,
        } => {
            let (address, udp_port) = (route.address, route.udp_port);
            tracing::info!(conference, %participant, %leg, %address, udp_port, number, "{what}");
        }
        EventKind::SignedOut { participant, leg } => {
            tracing::info!(conference, %participant, %leg, number, "{what}");
        }
        EventKind::Subscribed {
            participant, path, ..
        }
        | EventKind::Unsubscribed { participant, path }
        | EventKind::WhyNot {
            participant, path, ..
        } => {
            let (publisher, track) = (&path.participant, &path.track);
            tracing::debug!(conference, %participant, %publisher, %track, number, "{what}");
        }
        EventKind::ConferenceCreated | EventKind::ConferenceEnded | EventKind::Lost => {
            tracing::info!(conference, number, "{what}");
        }
    }
}
