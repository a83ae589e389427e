//! What a conference's event stream (a WebSocket) and webhooks say.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{MutedBy, Name, Route, TrackPath, Why};

/// Something that has happened in a conference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number: the time in microseconds since 1970, or more if an earlier event has that number. Later events have
    /// greater numbers, also after another service has taken over, if the clocks of both agree.
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
    /// A participant is in the conference no longer; `reason` says why.
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
    /// A participant has subscribed to a track, or to another quality of it.
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
    /// A socket is no longer signed in: it was silent, or signed in to another leg. Only its participant and
    /// administrators get this event.
    SignedOut {
        /// Whose.
        participant: Name,
        /// Which leg.
        leg: Name,
    },
    /// The reasons why a participant does not receive a track have changed, or there are none any more. Only it and
    /// administrators get this event.
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
    /// It had no signed-in socket and no event stream, and made no request, for longer than the service keeps such a
    /// participant.
    Gone,
    /// The conference has ended.
    ConferenceEnded,
}

impl EventKind {
    /// All names of events, as they are in JSON.
    pub const NAMES: &[&str] = &[
        "conference_created",
        "conference_ended",
        "joined",
        "left",
        "track_added",
        "track_removed",
        "muted",
        "subscribed",
        "unsubscribed",
        "signed_in",
        "signed_out",
        "why_not",
        "lost",
    ];

    /// Its name, as it is in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::ConferenceCreated => "conference_created",
            EventKind::ConferenceEnded => "conference_ended",
            EventKind::Joined { .. } => "joined",
            EventKind::Left { .. } => "left",
            EventKind::TrackAdded { .. } => "track_added",
            EventKind::TrackRemoved { .. } => "track_removed",
            EventKind::Muted { .. } => "muted",
            EventKind::Subscribed { .. } => "subscribed",
            EventKind::Unsubscribed { .. } => "unsubscribed",
            EventKind::SignedIn { .. } => "signed_in",
            EventKind::SignedOut { .. } => "signed_out",
            EventKind::WhyNot { .. } => "why_not",
            EventKind::Lost => "lost",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LegTraffic;

    #[test]
    fn the_names_of_events_are_those_of_their_json() {
        let name = |text| Name::new(text).expect("a name");
        let (participant, path) = (
            name("ann"),
            TrackPath {
                participant: name("ann"),
                track: name("cam"),
            },
        );
        let kinds = [
            EventKind::ConferenceCreated,
            EventKind::ConferenceEnded,
            EventKind::Joined {
                participant: participant.clone(),
            },
            EventKind::Left {
                participant: participant.clone(),
                reason: LeftReason::Left,
            },
            EventKind::TrackAdded { path: path.clone() },
            EventKind::TrackRemoved { path: path.clone() },
            EventKind::Muted {
                path: path.clone(),
                muted_by: None,
            },
            EventKind::Subscribed {
                participant: participant.clone(),
                path: path.clone(),
                quality: name("one"),
            },
            EventKind::Unsubscribed {
                participant: participant.clone(),
                path: path.clone(),
            },
            EventKind::SignedIn {
                participant: participant.clone(),
                leg: name("cam"),
                route: Route {
                    address: std::net::Ipv4Addr::LOCALHOST.into(),
                    udp_port: 1,
                    switch_port: 1,
                },
            },
            EventKind::SignedOut {
                participant: participant.clone(),
                leg: name("cam"),
            },
            EventKind::WhyNot {
                participant: participant.clone(),
                path: path.clone(),
                why: Why {
                    participant,
                    path,
                    causes: Vec::new(),
                    next: String::new(),
                    publisher: LegTraffic::default(),
                    receiver: LegTraffic::default(),
                },
            },
            EventKind::Lost,
        ];
        let in_json = kinds.iter().map(|kind| {
            let json = serde_json::to_value(kind).expect("JSON");
            json["event"].as_str().expect("a name").to_owned()
        });
        assert_eq!(in_json.collect::<Vec<_>>(), EventKind::NAMES);
        let names: Vec<_> = kinds.iter().map(EventKind::name).collect();
        assert_eq!(names, EventKind::NAMES);
    }
}

/// A request of a client over its event stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// A number that the client chooses; the answer has the same.
    pub request: u64,
    /// The method.
    pub method: StreamMethod,
    /// What follows `/v1/conferences/CONFERENCE/` in the request's address; empty for the conference itself.
    pub path: String,
    /// The request's body, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<Value>,
}

/// The method of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum StreamMethod {
    /// Reads.
    Get,
    /// Makes or changes.
    Put,
    /// Removes.
    Delete,
}

/// The answer to a request over the event stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct StreamAnswer {
    /// The request's number; null if the message was no request.
    pub answer: Option<u64>,
    /// The status, as over HTTP.
    pub status: u16,
    /// The body, as over HTTP; null if there is none.
    #[schema(value_type = Option<Object>)]
    pub body: Option<Value>,
}
