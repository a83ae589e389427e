//! What a conference's event stream (a WebSocket) and webhooks say.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{MutedBy, Name, Route, TrackPath, Why};

/// Something that has happened in a conference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number, at least the time in microseconds since 1970: later events have greater ones, also of the next service
    /// if clocks agree.
    pub number: u64,
    /// When it happened, in milliseconds since 1970.
    pub time_ms: u64,
    /// The conference.
    pub conference: Name,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The conference was made.
    ConferenceCreated,
    /// The conference has ended, with everybody in it.
    ConferenceEnded,
    /// A participant has joined.
    Joined {
        /// Who.
        participant: Name,
    },
    /// A participant has left, was removed, or its token has expired.
    Left {
        /// Who.
        participant: Name,
        /// Why.
        reason: LeftReason,
    },
    /// A track can be subscribed to.
    TrackAdded {
        /// Which.
        path: TrackPath,
    },
    /// A track is gone.
    TrackRemoved {
        /// Which.
        path: TrackPath,
    },
    /// A track was muted, or is no longer (`muted_by` is null).
    Muted {
        /// Which.
        path: TrackPath,
        /// Who has muted it.
        muted_by: Option<MutedBy>,
    },
    /// A participant receives a track, or another quality of it.
    Subscribed {
        /// Who receives.
        participant: Name,
        /// What.
        path: TrackPath,
        /// Which quality.
        quality: Name,
    },
    /// A participant no longer receives a track.
    Unsubscribed {
        /// Who received.
        participant: Name,
        /// What.
        path: TrackPath,
    },
    /// A socket was signed in. Only its participant and administrators get this event.
    SignedIn {
        /// Whose.
        participant: Name,
        /// Which leg.
        leg: Name,
        /// From where.
        route: Route,
    },
    /// A socket is no longer signed in: it was silent, or another one signed in to its leg. Only its participant and
    /// administrators get this event.
    SignedOut {
        /// Whose.
        participant: Name,
        /// Which leg.
        leg: Name,
    },
    /// What a participant receives of a track has changed. Only it and administrators get this event.
    WhyNot {
        /// Who should receive.
        participant: Name,
        /// What.
        path: TrackPath,
        /// What stands between the publisher and the receiver.
        why: Why,
    },
    /// Events before this one were left out, since they were not read fast enough: read the conference again.
    Lost,
}

/// Why a participant has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeftReason {
    /// It said so.
    Left,
    /// An administrator removed it.
    Removed,
    /// Its token has expired.
    Expired,
    /// It had no signed-in socket and no event stream for longer than the service keeps such a participant.
    Gone,
    /// The conference has ended.
    ConferenceEnded,
}
